//! A request's line.

use std::borrow::Cow;
use std::io::{self, Write};
use std::net::SocketAddr;

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

use super::{Entry, Tls, Via};

/// `client - - [time] "line" status bytes "referer" "user agent"`.
pub(super) fn combined(out: &mut Vec<u8>, entry: &Entry<'_>) {
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

/// A JSON object with all of it.
pub(super) fn json(out: &mut Vec<u8>, entry: &Entry<'_>) {
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
