//! Header fields: their grammar, and those that frame a message.

use httparse::Header;

use super::Framing;
use crate::http::decimal;

/// Whether these bytes are a token (RFC 9110 §5.6.2).
pub fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&b| is_token_byte(b))
}

pub(super) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// What may stand in a line: no control characters but tabs.
pub(super) fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// Members of a comma-separated list, without those that are empty (RFC 9110 §5.6.1).
pub(super) fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|&b| b == b',')
        .map(<[u8]>::trim_ascii)
        .filter(|member| !member.is_empty())
}

/// All values of the fields of this name.
pub(super) fn values<'b>(headers: &[Header<'b>], name: &str) -> impl Iterator<Item = &'b [u8]> {
    headers
        .iter()
        .filter(move |header| header.name.eq_ignore_ascii_case(name))
        .map(|header| header.value)
}

/// What the framing fields of a message say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framed {
    /// Nothing.
    Unsaid,
    /// One of them, understood.
    As(Framing),
    /// What contradicts itself, or is not a number.
    Contradictory,
    /// A coding that we do not know.
    UnknownCoding,
}

/// Reads `Content-Length` and `Transfer-Encoding` (RFC 9112 §6).
pub(super) fn framed(headers: &[Header<'_>]) -> Framed {
    let mut length = None;
    let mut coding = None;
    for header in headers {
        let slot = if header.name.eq_ignore_ascii_case("content-length") {
            &mut length
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            &mut coding
        } else {
            continue;
        };
        if slot.replace(header.value).is_some() {
            return Framed::Contradictory;
        }
    }
    match (length, coding) {
        (None, None) => Framed::Unsaid,
        (Some(_), Some(_)) => Framed::Contradictory,
        (Some(value), None) => match decimal(value) {
            Some(len) => Framed::As(Framing::Length(len)),
            None => Framed::Contradictory,
        },
        (None, Some(value)) if value.eq_ignore_ascii_case(b"chunked") => {
            Framed::As(Framing::Chunked)
        }
        (None, Some(_)) => Framed::UnknownCoding,
    }
}

/// What the `Connection` fields of a message ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    pub close: bool,
    pub keep_alive: bool,
    pub upgrade: bool,
    /// Names of other fields, which are for the next hop only.
    pub others: bool,
}

pub(super) fn connection_options(headers: &[Header<'_>]) -> Options {
    let mut options = Options::default();
    for option in values(headers, "connection").flat_map(list) {
        if option.eq_ignore_ascii_case(b"close") {
            options.close = true;
        } else if option.eq_ignore_ascii_case(b"keep-alive") {
            options.keep_alive = true;
        } else if option.eq_ignore_ascii_case(b"upgrade") {
            options.upgrade = true;
        } else {
            options.others = true;
        }
    }
    options
}

/// Whether a field is for the next hop only (RFC 9110 §7.6.1), beside those that frame the message.
pub(super) fn is_hop_by_hop(name: &str) -> bool {
    const NAMES: [&str; 6] = [
        "connection",
        "keep-alive",
        "proxy-connection",
        "te",
        "upgrade",
        "http2-settings",
    ];
    NAMES.iter().any(|hop| name.eq_ignore_ascii_case(hop))
}

/// Whether a `Connection` field names this one.
pub(super) fn is_named_by_connection(headers: &[Header<'_>], name: &str) -> bool {
    values(headers, "connection")
        .flat_map(list)
        .any(|option| option.eq_ignore_ascii_case(name.as_bytes()))
}
