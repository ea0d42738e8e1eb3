//! `--access-log`: a line for each request.
//!
//! Lines are put together in memory and written once a second, or earlier when there are many: no system call, and no waiting for a disk,
//! for each of them. What can't be written is lost, and counted.

use std::borrow::Cow;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use host::TlsInfo;
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

use crate::control::offload;
use crate::http::Noted;
use crate::log::LIMITED;

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

/// `client - - [time] "line" status bytes "referer" "user agent"`.
fn combined(out: &mut Vec<u8>, entry: &Entry<'_>) {
    const TIME: &[BorrowedFormatItem<'_>] =
        format_description!("[day]/[month repr:short]/[year]:[hour]:[minute]:[second] +0000");
    // Writing to memory does not fail.
    let _ = write!(out, "{} - - [", entry.client.ip());
    let _ = OffsetDateTime::from(entry.time).format_into(out, &TIME);
    out.extend_from_slice(b"] \"");
    quoted(out, entry.noted.line());
    let _ = write!(out, "\" {} {} \"", entry.status, entry.bytes);
    quoted(out, entry.noted.referer());
    out.extend_from_slice(b"\" \"");
    quoted(out, entry.noted.user_agent());
    out.extend_from_slice(b"\"\n");
}

/// Text between quotation marks; what would end it, or is no printable ASCII, as `\xHH`. `-` if it is empty.
fn quoted(out: &mut Vec<u8>, text: &[u8]) {
    if text.is_empty() {
        out.push(b'-');
    }
    for &byte in text {
        match byte {
            b' '..=b'~' if byte != b'"' && byte != b'\\' => out.push(byte),
            byte => {
                let _ = write!(out, "\\x{byte:02X}");
            }
        }
    }
}

fn json(out: &mut Vec<u8>, entry: &Entry<'_>) {
    #[derive(Serialize)]
    struct Line<'a> {
        time: &'a str,
        client: SocketAddr,
        request: Cow<'a, str>,
        status: u16,
        bytes: u64,
        duration_us: u64,
        aborted: bool,
        referer: Cow<'a, str>,
        user_agent: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        tls: Option<Tls>,
        #[serde(flatten)]
        via: Option<Via<'a>>,
    }
    const TIME: &[BorrowedFormatItem<'_>] =
        format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]Z");
    let time = OffsetDateTime::from(entry.time).format(&TIME);
    let line = Line {
        time: time.as_deref().unwrap_or_default(),
        client: entry.client,
        request: String::from_utf8_lossy(entry.noted.line()),
        status: entry.status,
        bytes: entry.bytes,
        duration_us: u64::try_from(entry.took.as_micros()).unwrap_or(u64::MAX),
        aborted: entry.is_aborted,
        referer: String::from_utf8_lossy(entry.noted.referer()),
        user_agent: String::from_utf8_lossy(entry.noted.user_agent()),
        tls: entry.tls,
        via: entry.via,
    };
    let _ = line.serialize(&mut Serializer::with_formatter(&mut *out, Ascii));
    out.push(b'\n');
}

/// JSON of printable ASCII alone: a terminal that shows the log takes nothing in it for a command.
struct Ascii;

impl Formatter for Ascii {
    fn write_string_fragment<W>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + Write,
    {
        let mut units = [0; 2];
        for character in fragment.chars() {
            match character {
                ' '..='~' => writer.write_all(&[character as u8])?,
                _ => {
                    for unit in character.encode_utf16(&mut units) {
                        write!(writer, "\\u{unit:04x}")?;
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(head: &[u8]) -> Noted {
        let mut noted = Noted::default();
        noted.note(head);
        noted
    }

    fn entry(noted: &Noted) -> Entry<'_> {
        Entry {
            time: SystemTime::UNIX_EPOCH + Duration::from_micros(1_700_000_000_123_456),
            took: Duration::from_micros(1500),
            client: "10.9.0.1:51000".parse().unwrap(),
            noted,
            status: 200,
            bytes: 1024,
            is_aborted: false,
            tls: Some(Tls {
                version: "TLSv1.3",
                tx: "device",
                rx: "sw",
            }),
            via: None,
        }
    }

    fn line(format: fn(&mut Vec<u8>, &Entry<'_>), head: &[u8]) -> String {
        let mut out = Vec::new();
        format(&mut out, &entry(&noted(head)));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn combined_is_what_analysers_read() {
        let head = b"GET /a HTTP/1.1\r\nUser-Agent: curl/8\r\n\r\n";
        assert_eq!(
            line(combined, head),
            "10.9.0.1 - - [14/Nov/2023:22:13:20 +0000] \"GET /a HTTP/1.1\" 200 1024 \"-\" \"curl/8\"\n"
        );
    }

    #[test]
    fn no_client_writes_lines_of_its_own() {
        let head = b"GET /\"\\\x1b[2J\xff HTTP/1.1\r\nReferer: a\rb\" 200 -\r\n\r\n";
        let text = line(combined, head);
        assert!(
            text.contains(r#""GET /\x22\x5C\x1B[2J\xFF HTTP/1.1" 200"#),
            "{text}"
        );
        assert!(text.contains(r#""a\x0Db\x22 200 -""#), "{text}");
        assert_eq!(line(json, head).lines().count(), 1);
    }

    #[test]
    fn json_has_all_of_it() {
        let head = b"GET /a HTTP/1.1\r\nReferer: http://b/\r\n\r\n";
        let value: serde_json::Value = serde_json::from_str(&line(json, head)).unwrap();
        let expected = serde_json::json!({
            "time": "2023-11-14T22:13:20.123456Z", "client": "10.9.0.1:51000", "request": "GET /a HTTP/1.1", "status": 200,
            "bytes": 1024, "duration_us": 1500, "aborted": false, "referer": "http://b/", "user_agent": "",
            "tls": { "version": "TLSv1.3", "tx": "device", "rx": "sw" },
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn json_has_no_byte_that_a_terminal_obeys() {
        let text = line(
            json,
            "GET /\u{9b}2J\u{7f}\u{1f600}é\x1b HTTP/1.1\r\n\r\n".as_bytes(),
        );
        assert!(
            text.trim_end()
                .bytes()
                .all(|byte| (b' '..=b'~').contains(&byte)),
            "{text}"
        );
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            value["request"],
            "GET /\u{9b}2J\u{7f}\u{1f600}é\x1b HTTP/1.1"
        );
    }

    #[test]
    fn a_line_that_a_full_disk_has_cut_is_ended() {
        let path =
            std::env::temp_dir().join(format!("longshore-access-log-{}", std::process::id()));
        std::fs::write(&path, "GET /cut").unwrap();
        let options = Logging {
            access_log: Some(path.clone()),
            access_log_format: Format::Combined,
        };
        for _ in 0..2 {
            let mut log = AccessLog::open(&options).unwrap().unwrap();
            log.log(&entry(&noted(b"GET / HTTP/1.1\r\n\r\n")));
        }
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert_eq!(lines[0], "GET /cut");
    }

    #[test]
    fn a_disk_that_is_full_costs_lines_and_no_more() {
        let options = Logging {
            access_log: Some("/dev/full".into()),
            access_log_format: Format::Combined,
        };
        let mut log = AccessLog::open(&options).unwrap().unwrap();
        let noted = noted(b"GET / HTTP/1.1\r\n\r\n");
        for _ in 0..20_000 {
            log.log(&entry(&noted));
        }
        assert!(log.lost() > 0);
        assert!(log.waiting.len() < MOST_BYTES + 1024);
    }
}
