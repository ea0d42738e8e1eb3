//! `--access-log`: a line for each request.
//!
//! Lines are put together in memory and written once a second, or earlier when there are many: no system call, and no waiting for a disk,
//! for each of them. What can't be written is lost, and counted.

mod format;
#[cfg(test)]
mod tests;

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use host::TlsInfo;
use serde::Serialize;

use crate::control::offload;
use crate::http::Noted;
use crate::log::LIMITED;
use format::{combined, json};

/// Bytes that are written without waiting for the second to end.
const WRITE_BYTES: usize = 64 * 1024;
/// Bytes that wait at most for a file that takes none.
const MOST_BYTES: usize = 1 << 20;

/// Where requests are logged.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Access log")]
pub struct Logging {
    /// Append a line for each request to this file
    #[arg(long, value_name = "FILE")]
    pub access_log: Option<PathBuf>,
    /// How the lines are written
    #[arg(
        long,
        value_name = "FORMAT",
        requires = "access_log",
        default_value = "combined"
    )]
    pub access_log_format: Format,
}

/// How lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// As web servers and their log analysers have it by the name `combined`
    #[default]
    Combined,
    /// One JSON object per line
    Json,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// When its head was complete.
    pub time: SystemTime,
    /// From there until its response was queued whole, or given up.
    pub took: Duration,
    /// Who asked.
    pub client: SocketAddr,
    /// What.
    pub noted: &'a Noted,
    /// The response's status; 0 if none was begun.
    pub status: u16,
    /// Bytes of the response's content that were queued.
    pub bytes: u64,
    /// The connection ended before the response did.
    pub is_aborted: bool,
    /// The version of TLS, and who encrypts; nothing without TLS, or when the connection has gone.
    pub tls: Option<Tls>,
    /// Through which parts of a load balancer it went.
    pub via: Option<Via<'a>>,
}

/// Parts of a load balancer.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Via<'a> {
    /// Where the client came in.
    pub frontend: &'a str,
    /// Whose backend responded; nothing if none did.
    pub pool: Option<&'a str>,
    /// That backend.
    pub backend: Option<SocketAddr>,
}

/// Of the connection's TLS session.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Tls {
    /// `TLSv1.3`.
    pub version: &'static str,
    /// `device` (the NIC), `sw` or `fallback`.
    pub tx: &'static str,
    /// The same for the request.
    pub rx: &'static str,
}

impl From<TlsInfo> for Tls {
    fn from(info: TlsInfo) -> Self {
        Tls {
            version: info.version,
            tx: offload(info.transmit),
            rx: offload(info.receive),
        }
    }
}

/// The file, and what is to be written to it. Servers of several threads have [one each](Self::another), of the same file.
#[derive(Debug)]
pub struct AccessLog {
    file: Arc<Mutex<Whole>>,
    format: Format,
    waiting: Vec<u8>,
    /// A line of this or of another thread was written in part when this one has written last.
    is_torn: bool,
    lost: u64,
}

/// A file to which several threads write whole lines.
#[derive(Debug)]
struct Whole {
    file: File,
    /// The rest of a line of which the file has taken a part.
    rest: Vec<u8>,
}

impl AccessLog {
    /// Opens the file that was named, if one was.
    ///
    /// # Errors
    /// It can't be written.
    pub fn open(options: &Logging) -> Result<Option<AccessLog>> {
        let Some(path) = &options.access_log else {
            return Ok(None);
        };
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o640)
            // A pipe that nobody reads does not hold the server up.
            .custom_flags(libc::O_NONBLOCK)
            .open(path);
        let file =
            file.with_context(|| format!("{} can't be written; see --access-log", path.display()))?;
        let rest = match has_torn_line(path) {
            true => b"\n".to_vec(),
            false => Vec::new(),
        };
        Ok(Some(AccessLog {
            file: Arc::new(Mutex::new(Whole { file, rest })),
            waiting: Vec::new(),
            format: options.access_log_format,
            is_torn: false,
            lost: 0,
        }))
    }

    /// One for another thread.
    pub fn another(&self) -> AccessLog {
        AccessLog {
            file: Arc::clone(&self.file),
            format: self.format,
            waiting: Vec::new(),
            is_torn: false,
            lost: 0,
        }
    }

    /// Requests whose lines are lost: the file took none for too long.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Whether there are lines to write.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty() || self.is_torn
    }

    /// Logs a request.
    pub fn log(&mut self, entry: &Entry<'_>) {
        if self.waiting.len() >= MOST_BYTES {
            self.lost += 1;
            return;
        }
        match self.format {
            Format::Combined => combined(&mut self.waiting, entry),
            Format::Json => json(&mut self.waiting, entry),
        }
        if self.waiting.len() >= WRITE_BYTES {
            self.flush();
        }
    }

    /// Writes what waits, as far as the file takes it.
    pub fn flush(&mut self) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if file.write_rest() {
            file.write(&mut self.waiting);
        }
        self.is_torn = !file.rest.is_empty();
    }
}

impl Whole {
    /// Writes the rest of a line. False if the file does not take all of it.
    fn write_rest(&mut self) -> bool {
        let mut rest = std::mem::take(&mut self.rest);
        self.write(&mut rest);
        self.rest.append(&mut rest);
        self.rest.is_empty()
    }

    /// Writes lines, as far as the file takes them, and takes the rest of one that it has taken a part of.
    fn write(&mut self, lines: &mut Vec<u8>) {
        let mut is_torn = false;
        while !lines.is_empty() {
            match self.file.write(lines) {
                Ok(0) => break,
                Ok(written) => {
                    is_torn = lines[written - 1] != b'\n';
                    lines.drain(..written);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => {
                    tracing::warn!(target: LIMITED, "--access-log: {error}");
                    break;
                }
            }
        }
        if is_torn {
            let end = lines.iter().position(|byte| *byte == b'\n');
            let end = end.map_or(lines.len(), |end| end + 1);
            self.rest.extend(lines.drain(..end));
        }
    }
}

impl Drop for AccessLog {
    fn drop(&mut self) {
        self.flush();
        if !self.waiting.is_empty() {
            let bytes = self.waiting.len();
            tracing::warn!("--access-log: the last {bytes} bytes are lost");
        }
    }
}

/// Whether the file's last line has no end: a disk was full.
fn has_torn_line(path: &Path) -> bool {
    let Ok(metadata) = std::fs::metadata(path) else {
        return false;
    };
    if !metadata.is_file() || metadata.len() == 0 {
        return false;
    }
    let mut last = [b'\n'];
    let read = File::open(path).and_then(|file| file.read_exact_at(&mut last, metadata.len() - 1));
    read.is_ok() && last != [b'\n']
}
