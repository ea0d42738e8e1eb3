//! Behaviour that is written down in text files, which a test compares with what there is now.

use std::fmt::{Display, Write};
use std::fs;
use std::path::Path;

/// Zeroes in a row that are still written out.
const ZEROES: usize = 8;
/// Bytes that are written out.
const SHOWN: usize = 16;

/// Compares lines with those of `tests/traces/NAME.txt` of a package, whose directory is its `CARGO_MANIFEST_DIR`. With the environment variable
/// `LONGSHORE_WRITE` it writes them instead.
///
/// # Panics
/// When a line differs, or the file can't be written.
pub fn compare(package: &str, name: &str, lines: &[impl Display]) {
    let path = Path::new(package).join(format!("tests/traces/{name}.txt"));
    if std::env::var_os("LONGSHORE_WRITE").is_some() {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(&path, text).expect("a place in the repository");
        return;
    }
    let text = fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; LONGSHORE_WRITE=1 writes it", path.display()));
    let mut written = text.lines();
    for (number, line) in lines.iter().enumerate() {
        let before = written.next().unwrap_or("its end");
        assert_eq!(
            before,
            line.to_string(),
            "{}, line {}",
            path.display(),
            number + 1
        );
    }
    assert_eq!(written.next(), None, "{}", path.display());
}

/// A sum of bytes that is the same everywhere (FNV-1a of 64 bits), for what would be too long to write down.
pub fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// The sum of lines.
pub fn sum_lines(lines: &[String]) -> u64 {
    sum(lines.concat().as_bytes())
}

/// Keeps so many lines, and says of the rest how many they are, and their sum.
pub fn shorten(mut lines: Vec<String>, most: usize) -> Vec<String> {
    let rest = lines.split_off(most.min(lines.len()));
    if !rest.is_empty() {
        lines.push(format!("{} more, {:016x}", rest.len(), sum_lines(&rest)));
    }
    lines
}

/// How many bytes, their sum, and the first that are not zero, each run of them with its place.
pub fn bytes(bytes: &[u8]) -> String {
    let mut text = format!("{} bytes {:016x}", bytes.len(), sum(bytes));
    let (mut shown, mut zeroes) = (0, usize::MAX);
    for (at, byte) in bytes.iter().enumerate() {
        if *byte == 0 {
            zeroes = zeroes.saturating_add(1);
            continue;
        }
        if shown >= SHOWN {
            text.push('…');
            break;
        }
        match zeroes {
            0..=ZEROES => text.push_str(&"00".repeat(zeroes)),
            _ => _ = write!(text, " {at:x}:"),
        }
        _ = write!(text, "{byte:02x}");
        (shown, zeroes) = (shown + 1, 0);
    }
    text
}
