//! The capture of `--pcap`. A failure to write it ends the capture, and not the traffic.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, Result};
use port::Port;
use port::capture::Capture;

/// Whether this process could not write all of its capture.
static FAILED: AtomicBool = AtomicBool::new(false);

/// Captures what passes `port` to a new file at `path`.
///
/// # Errors
/// The file can't be made or written.
pub fn create<P: Port>(port: P, path: &Path) -> Result<Capture<P>> {
    let mut capture = Capture::create(port, path, Instant::now())
        .with_context(|| format!("--pcap {} can't be written", path.display()))?;
    let path = path.to_path_buf();
    capture.on_failure(move |error, frames| {
        FAILED.store(true, Ordering::Release);
        let path = path.display();
        let why = without_number(error);
        let _ = writeln!(
            io::stderr(),
            "longshore: --pcap {path}: {why}; the capture ends at frame {frames}"
        );
    });
    Ok(capture)
}

/// Whether a capture has ended before its time: the command then exits with 1, whatever else it did.
pub fn has_failed() -> bool {
    FAILED.load(Ordering::Acquire)
}

/// As programs in C print it.
fn without_number(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
