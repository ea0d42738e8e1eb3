//! What the head of a request says, to a proxy.

use std::borrow::Cow;

use httparse::Header;

use super::Framing;
use super::fields::{Framed, connection_options, framed, list, values};
use crate::http::{Status, decimal, is_authority};

/// Header fields at most.
pub const MAX_FIELDS: usize = 128;

/// A request's head, understood.
#[derive(Debug)]
pub struct Request<'h, 'b> {
    /// GET, HEAD, ….
    pub method: &'b str,
    /// The target as it goes on: a path with its query, `*`, or HOST:PORT for CONNECT.
    pub target: Cow<'b, str>,
    /// The host: from the target if that names one, else from `Host`. Empty if neither does.
    pub host: &'b [u8],
    /// HTTP/1.1, and not 1.0.
    pub is_newer: bool,
    /// All header fields.
    pub headers: &'h [Header<'b>],
    /// How its content ends.
    pub framing: Framing,
    /// Whether the client would go on after the response.
    pub keep_alive: bool,
    /// Whether it asks for another protocol on the connection.
    pub upgrading: Upgrading,
}

/// A request that makes the connection a tunnel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Upgrading {
    /// It does not.
    #[default]
    No,
    /// By `Upgrade`, if the answer is 101.
    Upgrade,
    /// By CONNECT, if the answer is 2xx.
    Connect,
}

/// Memory for the fields of a head.
pub type Storage<'b> = [Header<'b>; MAX_FIELDS];

impl<'h, 'b> Request<'h, 'b> {
    /// Understands a complete head.
    ///
    /// # Errors
    /// The status that refuses it.
    pub fn parse(head: &'b [u8], storage: &'h mut Storage<'b>) -> Result<Self, Status> {
        let mut parsed = httparse::Request::new(storage);
        match parsed.parse(head) {
            Ok(httparse::Status::Complete(len)) if len == head.len() => {}
            Err(httparse::Error::TooManyHeaders) => return Err(Status::FIELDS_TOO_LARGE),
            Err(httparse::Error::Version) => return Err(Status::VERSION_NOT_SUPPORTED),
            _ => return Err(Status::BAD_REQUEST),
        }
        let is_newer = parsed.version == Some(1);
        let (method, target) = (
            parsed.method.unwrap_or_default(),
            parsed.path.unwrap_or_default(),
        );
        let headers: &'h [Header<'b>] = parsed.headers;
        let (target, authority) = split_target(method, target)?;
        let named = the_host(headers, is_newer)?.unwrap_or_default();
        // A target that names a host is right, whatever `Host` says (RFC 9112 §3.2.2).
        let host = authority.map_or(named, str::as_bytes);
        if !is_authority(named) || !is_authority(host) {
            return Err(Status::BAD_REQUEST);
        }
        let framing = content(method, is_newer, headers)?;
        let options = connection_options(headers);
        let upgrading = match method {
            "CONNECT" => Upgrading::Connect,
            _ if options.upgrade && is_newer && framing.is_empty() => upgrading(headers),
            _ => Upgrading::No,
        };
        Ok(Request {
            method,
            target,
            host,
            is_newer,
            headers,
            framing,
            keep_alive: !options.close && (is_newer || options.keep_alive),
            upgrading,
        })
    }

    /// Whether it may be sent twice (RFC 9110 §9.2.2).
    pub fn is_idempotent(&self) -> bool {
        matches!(
            self.method,
            "GET" | "HEAD" | "OPTIONS" | "TRACE" | "PUT" | "DELETE"
        )
    }

    /// How many proxies it may still pass, if its method is one of those that `Max-Forwards` is for (RFC 9110 §7.6.2).
    pub fn max_forwards(&self) -> Option<u64> {
        let is_limited = matches!(self.method, "OPTIONS" | "TRACE");
        self.field("max-forwards")
            .filter(|_| is_limited)
            .and_then(decimal)
    }

    /// The protocols that it asks for, as one list.
    pub fn protocols(&self) -> Vec<u8> {
        let lists: Vec<&[u8]> = values(self.headers, "upgrade").collect();
        lists.join(&b',')
    }

    /// The value of the first field of this name.
    pub fn field(&self, name: &str) -> Option<&'b [u8]> {
        values(self.headers, name).next()
    }
}

/// The target as it goes on, and the authority that it names (RFC 9112 §3.2).
fn split_target<'b>(
    method: &str,
    target: &'b str,
) -> Result<(Cow<'b, str>, Option<&'b str>), Status> {
    if target.contains('#') {
        return Err(Status::BAD_REQUEST);
    }
    if method == "CONNECT" {
        let has_port = target
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        return if has_port {
            Ok((target.into(), Some(target)))
        } else {
            Err(Status::BAD_REQUEST)
        };
    }
    if target.starts_with('/') || (target == "*" && method == "OPTIONS") {
        return Ok((target.into(), None));
    }
    let (scheme, rest) = target.split_once("://").ok_or(Status::BAD_REQUEST)?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return Err(Status::BAD_REQUEST);
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if authority.is_empty() {
        return Err(Status::BAD_REQUEST);
    }
    let path = match path.as_bytes().first() {
        // RFC 9112 §3.2.4.
        None if method == "OPTIONS" => "*".into(),
        None => "/".into(),
        Some(b'/') => path.into(),
        Some(_) => format!("/{path}").into(),
    };
    Ok((path, Some(authority)))
}

/// Exactly one `Host`, or none in HTTP/1.0 (RFC 9112 §3.2).
fn the_host<'b>(headers: &[Header<'b>], is_newer: bool) -> Result<Option<&'b [u8]>, Status> {
    let mut hosts = values(headers, "host");
    match (hosts.next(), hosts.next()) {
        (Some(host), None) => Ok(Some(host)),
        (None, None) if !is_newer => Ok(None),
        _ => Err(Status::BAD_REQUEST),
    }
}

fn content(method: &str, is_newer: bool, headers: &[Header<'_>]) -> Result<Framing, Status> {
    let framing = match framed(headers) {
        Framed::Unsaid => return Ok(Framing::None),
        Framed::Contradictory => return Err(Status::BAD_REQUEST),
        Framed::UnknownCoding => return Err(Status::NOT_IMPLEMENTED),
        Framed::As(framing) => framing,
    };
    // A coding in HTTP/1.0, or content in CONNECT, is understood by some and not by others. TRACE has none (RFC 9110 §9.3.8).
    if (framing == Framing::Chunked && !is_newer)
        || method == "CONNECT"
        || (method == "TRACE" && !framing.is_empty())
    {
        return Err(Status::BAD_REQUEST);
    }
    Ok(framing)
}

/// HTTP/2 is not let through: its requests would pass unseen.
fn upgrading(headers: &[Header<'_>]) -> Upgrading {
    let mut protocols = values(headers, "upgrade").flat_map(list).peekable();
    if protocols.peek().is_none() {
        return Upgrading::No;
    }
    match protocols.any(|protocol| protocol.len() >= 2 && protocol[..2].eq_ignore_ascii_case(b"h2"))
    {
        true => Upgrading::No,
        false => Upgrading::Upgrade,
    }
}
