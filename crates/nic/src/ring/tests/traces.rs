//! What descriptors look like in memory, what becomes of every wrong byte in one, and how rings, indices and regions go on: written down in
//! `tests/traces`. Whatever changes some of it on purpose shows there what it does; `LONGSHORE_WRITE=1` writes them anew.

mod blocks;
mod commands;
mod images;
mod memory;
mod reports;
mod samples;
mod spsc;

use std::collections::BTreeMap;
use std::fmt::Display;

use testkit::written;

/// Most characters of a line.
const WIDTH: usize = 175;

fn compare(name: &str, lines: &[impl Display]) {
    written::compare(env!("CARGO_MANIFEST_DIR"), name, lines);
}

/// A line of which the end is only summed up if it is long.
fn clip(line: &str) -> String {
    let Some((end, _)) = line.char_indices().nth(WIDTH) else {
        return line.to_owned();
    };
    let sum = written::sum(line.as_bytes());
    let end = line[..end].rfind(' ').unwrap_or(end);
    format!("{} … {sum:016x}", &line[..end])
}

/// Words that are not zero, with their place.
fn words(words: impl IntoIterator<Item = u64>) -> String {
    let set = (0..).zip(words).filter(|(_, word)| *word != 0);
    let set: Vec<String> = set.map(|(at, word)| format!("{at}:{word:x}")).collect();
    set.join(" ")
}

/// Sets each of these bytes to other values, one at a time, and says at which of them what comes out: `outcome` gives its name, and all of it. Ends
/// with a sum of it all.
fn alter(
    bytes: &mut [u8],
    places: impl Iterator<Item = usize>,
    mut outcome: impl FnMut(&[u8]) -> (String, String),
) -> String {
    let mut places_by_name: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut all = Vec::new();
    for at in places {
        let old = bytes[at];
        let others = [0, 1, 2, 5, 14, 15, 32, 33, 0x7f, 0xff];
        let near = [old.wrapping_add(1), old.wrapping_sub(1), old ^ 0x80];
        for value in others.into_iter().chain(near).filter(|it| *it != old) {
            bytes[at] = value;
            let (name, whole) = outcome(bytes);
            let named = places_by_name.entry(name).or_default();
            if named.last() != Some(&at) {
                named.push(at);
            }
            all.extend_from_slice(whole.as_bytes());
        }
        bytes[at] = old;
    }
    let places = places_by_name
        .iter()
        .map(|(name, places)| format!("{name} {}", ranges(places)));
    let places: Vec<String> = places.collect();
    format!("{} {:016x}", places.join(", "), written::sum(&all))
}

/// Ascending numbers as ranges.
fn ranges(numbers: &[usize]) -> String {
    let parts = numbers.chunk_by(|a, b| a + 1 == *b);
    let part = |part: &[usize]| match part {
        [one] => one.to_string(),
        more => format!("{}-{}", more[0], more[more.len() - 1]),
    };
    parts.map(part).collect::<Vec<_>>().join(" ")
}
