//! What the head of a response says, to a proxy.

use httparse::Header;

use super::Framing;
use super::fields::{Framed, connection_options, framed, list, values};
use super::request::{Storage, Upgrading};

/// A response's head, understood.
#[derive(Debug)]
pub struct Response<'h, 'b> {
    /// Its status, from 100 to 999.
    pub status: u16,
    /// The words after it.
    pub reason: &'b str,
    /// All header fields.
    pub headers: &'h [Header<'b>],
    /// How its content ends.
    pub framing: Framing,
    /// The backend would go on after it.
    pub keep_alive: bool,
    /// What follows is another protocol.
    pub is_tunnel: bool,
}

/// What a response answers, as far as it matters to its framing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestTraits<'a> {
    /// By HEAD.
    pub head: bool,
    /// For another protocol.
    pub upgrading: Upgrading,
    /// The protocols that it names for that, as a list.
    pub protocols: &'a [u8],
}

/// A response that makes no sense, or could mean two things.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the backend's response is malformed")]
pub struct Malformed;

impl<'h, 'b> Response<'h, 'b> {
    /// Understands a complete head.
    ///
    /// # Errors
    /// When it can't be forwarded.
    pub fn parse(
        head: &'b [u8],
        storage: &'h mut Storage<'b>,
        asked: RequestTraits<'_>,
    ) -> Result<Self, Malformed> {
        let mut parsed = httparse::Response::new(storage);
        match parsed.parse(head) {
            Ok(httparse::Status::Complete(len)) if len == head.len() => {}
            _ => return Err(Malformed),
        }
        let is_newer = parsed.version == Some(1);
        let status = parsed.code.filter(|code| *code >= 100).ok_or(Malformed)?;
        let headers: &'h [Header<'b>] = parsed.headers;
        let options = connection_options(headers);
        let is_tunnel = match asked.upgrading {
            Upgrading::No => false,
            Upgrading::Upgrade => status == 101 && is_offered(headers, asked.protocols),
            Upgrading::Connect => status / 100 == 2,
        };
        if status == 101 && !is_tunnel {
            return Err(Malformed);
        }
        let framing = match framed(headers) {
            _ if is_tunnel => Framing::None,
            Framed::Contradictory | Framed::UnknownCoding => return Err(Malformed),
            // RFC 9112 §6.3, in its order.
            _ if asked.head || status / 100 == 1 || status == 204 || status == 304 => Framing::None,
            Framed::As(Framing::Chunked) if !is_newer => return Err(Malformed),
            Framed::As(framing) => framing,
            Framed::Unsaid => Framing::UntilClose,
        };
        Ok(Response {
            status,
            reason: parsed.reason.unwrap_or_default(),
            headers,
            framing,
            keep_alive: !options.close
                && (is_newer || options.keep_alive)
                && framing != Framing::UntilClose,
            is_tunnel,
        })
    }

    /// It is not the last one to its request (RFC 9110 §15.2).
    pub fn is_interim(&self) -> bool {
        self.status / 100 == 1 && !self.is_tunnel
    }
}

/// Whether a response switches to a protocol, and only to what the client asked for (RFC 9110 §7.8).
fn is_offered(headers: &[Header<'_>], asked: &[u8]) -> bool {
    let mut switched = values(headers, "upgrade").flat_map(list).peekable();
    switched.peek().is_some()
        && switched.all(|protocol| list(asked).any(|other| other.eq_ignore_ascii_case(protocol)))
}
