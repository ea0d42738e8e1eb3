//! Files that a VMM passes. Who examines or closes one may wait without end: for a process that is its file system, or for a socket that lingers.

use std::fs::File;
use std::io;
use std::sync::mpsc::sync_channel;

use crate::threads::{PATIENCE, Threads};

/// The files that are wanted, at their places. A thread of their own examines them, and closes the others.
///
/// # Errors
/// When they are not examined in time, or there can be no thread: they are all closed then.
pub(crate) fn examined(
    threads: &Threads,
    files: Vec<File>,
    is_wanted: impl Fn(&File) -> bool + Send + 'static,
) -> io::Result<Vec<Option<File>>> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let (answer, answered) = sync_channel(1);
    let examine = move || {
        let (mut wanted, mut others) = (Vec::new(), Vec::new());
        for file in files {
            match is_wanted(&file) {
                true => wanted.push(Some(file)),
                false => {
                    wanted.push(None);
                    others.push(file);
                }
            }
        }
        // The VMM's request waits for this, and not for the others' end.
        let _ = answer.send(wanted);
    };
    threads.start("pci-files", examine)?.leave();
    let wanted = answered.recv_timeout(PATIENCE);
    wanted.map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "a file does not answer"))
}
