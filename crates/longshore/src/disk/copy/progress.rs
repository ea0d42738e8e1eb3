//! What the user sees.

use std::io::Write;
use std::time::Duration;

use aws_lc_rs::digest::Digest;
use indicatif::{ProgressBar, ProgressStyle};

/// A bar of so many bytes, unless there is to be none.
pub(crate) fn bar(quiet: bool, bytes: Option<u64>) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    let bar = match bytes {
        Some(bytes) => ProgressBar::new(bytes),
        None => ProgressBar::no_length(),
    };
    let style = "{msg} {wide_bar} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta}";
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    bar
}

pub(super) fn summarise(name: &str, bytes: u64, took: Duration, sha256: &Digest) {
    let rate = bytes as f64 * 8.0 / took.as_secs_f64().max(1e-9) / 1e6;
    let hex: String = sha256
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let seconds = took.as_secs_f64();
    let _ = writeln!(
        std::io::stderr(),
        "{name}: {bytes} bytes in {seconds:.3} s, {rate:.0} Mbit/s\nSHA-256 {hex}"
    );
}
