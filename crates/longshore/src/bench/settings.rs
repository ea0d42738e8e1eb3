//! Settings that several benchmarks have.

use clap::ValueEnum;
use serde::Serialize;

/// How hosts and NICs share the machine. The packets are the same in both layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// Hosts and NICs take turns on one thread: repeatable on a busy machine too
    OneThread,
    /// The NICs have a thread of their own, in strict turns with the hosts', so that the hosts have their caches to
    /// themselves: for a machine with two idle cores
    TwoThreads,
}

impl Layout {
    /// As it is written on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::OneThread => "one-thread",
            Self::TwoThreads => "two-threads",
        }
    }
}

/// A share of packets, from a command line.
pub fn share(text: &str) -> Result<f64, String> {
    let share: f64 = text
        .parse()
        .map_err(|_| format!("`{text}` is not a number"))?;
    if (0.0..=0.5).contains(&share) {
        Ok(share)
    } else {
        Err(format!("{share} is not between 0 and 0.5"))
    }
}
