//! What the parts of the NIC's process have of its time.

use std::collections::BTreeMap;

use super::case::Counters;

/// The counters of parts, as the NIC names them.
const PREFIX: &str = "thread.";
const SUFFIX: &str = "_cycles";
const ASLEEP: &str = "asleep";

/// Gives each part its share of a figure, by the time that the thread was at it. The counters go on while another thread has the
/// processor, which may happen anywhere alike; what the thread slept is left out.
pub fn share_out(counters: &Counters, of: f64) -> BTreeMap<String, f64> {
    let parts = counters.iter().filter_map(|(name, cycles)| {
        let name = name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
        (name != ASLEEP).then_some((name, *cycles as f64))
    });
    let parts: Vec<_> = parts.collect();
    let all: f64 = parts.iter().map(|(_, cycles)| cycles).sum();
    let shares = parts
        .into_iter()
        .map(|(name, cycles)| (name.to_owned(), of * cycles / all));
    shares.collect()
}
