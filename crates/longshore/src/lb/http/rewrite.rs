//! Heads as they go on: without what was for us, with what the next one should know.

use std::io::Write;
use std::net::IpAddr;
use std::time::SystemTime;

use super::fields::{is_hop_by_hop, is_named_by_connection, values};
use super::{Framing, Request, Response, Upgrading};
use crate::lb::config::Forwarding;

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// Its address, or the one that it told by the PROXY protocol.
    pub address: IpAddr,
}

/// How a request goes on.
#[derive(Clone, Copy, Debug)]
pub struct RequestRewrite<'a> {
    /// What is added.
    pub forwarding: &'a Forwarding,
    /// For whom.
    pub client: Client,
    /// Named as host if the request names none.
    pub local: IpAddr,
    /// The client speaks TLS.
    pub is_secure: bool,
    /// The request came by HTTP/2.
    pub is_http2: bool,
    /// The backend is to close after the response.
    pub close: bool,
}

/// How a response goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseRewrite {
    /// The client's request was HTTP/1.1.
    pub to_newer: bool,
    /// The connection stays open after it.
    pub keep_alive: bool,
    /// When it came: told, if it does not say when it was made (RFC 9110 §6.6.1).
    pub date: SystemTime,
}

/// Appends the head for the backend.
pub fn rewrite_request(out: &mut Vec<u8>, request: &Request<'_, '_>, how: RequestRewrite<'_>) {
    put(
        out,
        &[
            request.method.as_bytes(),
            b" ",
            request.target.as_bytes(),
            b" HTTP/1.1\r\n",
        ],
    );
    match request.host {
        b"" => drop(write!(out, "Host: {}\r\n", Bracketed(how.local))),
        host => put(out, &[b"Host: ", host, b"\r\n"]),
    }
    let forwards = request.max_forwards();
    for header in request.headers {
        let name = header.name;
        let is_ours = name.eq_ignore_ascii_case("host")
            || is_hop_by_hop(name)
            || is_claim(name, how.forwarding)
            || is_framing(name)
            // RFC 9110 §10.1.1: HTTP/1.0 has no expectations, and goes on as HTTP/1.1.
            || (!request.is_newer && name.eq_ignore_ascii_case("expect"))
            || (forwards.is_some() && name.eq_ignore_ascii_case("max-forwards"))
            || is_named_by_connection(request.headers, name);
        if !is_ours {
            field(out, name, header.value);
        }
    }
    if let Some(forwards) = forwards {
        let _ = write!(out, "Max-Forwards: {}\r\n", forwards.saturating_sub(1));
    }
    put_framing(out, request.framing);
    tell(out, request, &how);
    match request.upgrading {
        Upgrading::Upgrade => {
            put(out, &[b"Connection: upgrade\r\n"]);
            for protocols in values(request.headers, "upgrade") {
                field(out, "Upgrade", protocols);
            }
        }
        Upgrading::No if how.close => put(out, &[b"Connection: close\r\n"]),
        Upgrading::No | Upgrading::Connect => {}
    }
    put(out, &[b"\r\n"]);
}

/// Appends the head for the client.
pub fn rewrite_response(out: &mut Vec<u8>, response: &Response<'_, '_>, how: ResponseRewrite) {
    let _ = write!(out, "HTTP/1.1 {} ", response.status);
    put(out, &[response.reason.as_bytes(), b"\r\n"]);
    let is_upgrade = response.status == 101;
    // Length and coding of what HEAD or 304 did not bring are told as they are, but HTTP/1.0 knows no codings; 1xx and 204 have none to tell.
    let keeps_framing =
        response.framing == Framing::None && response.status >= 200 && response.status != 204;
    for header in response.headers {
        let name = header.name;
        let is_coding = name.eq_ignore_ascii_case("transfer-encoding");
        let is_ours = if is_framing(name) {
            !keeps_framing || response.is_tunnel || (is_coding && !how.to_newer)
        } else if is_upgrade && name.eq_ignore_ascii_case("upgrade") {
            false
        } else {
            is_hop_by_hop(name) || is_named_by_connection(response.headers, name)
        };
        if !is_ours {
            field(out, name, header.value);
        }
    }
    if response.status >= 200 && values(response.headers, "date").next().is_none() {
        put_date(out, how.date);
    }
    // HTTP/1.0 knows no chunks: it gets the content alone, until the connection ends.
    if how.to_newer || response.framing != Framing::Chunked {
        put_framing(out, response.framing);
    }
    match (is_upgrade, how.keep_alive, how.to_newer) {
        (true, ..) => put(out, &[b"Connection: upgrade\r\n"]),
        _ if response.is_tunnel || response.status / 100 == 1 => {}
        (_, false, _) => put(out, &[b"Connection: close\r\n"]),
        (_, true, false) => put(out, &[b"Connection: keep-alive\r\n"]),
        (_, true, true) => {}
    }
    put(out, &[b"\r\n"]);
}

/// Via and X-Forwarded-*.
fn tell(out: &mut Vec<u8>, request: &Request<'_, '_>, how: &RequestRewrite<'_>) {
    let forwarding = how.forwarding;
    if let Some(via) = &forwarding.via {
        let version = match (how.is_http2, request.is_newer) {
            (true, _) => "2",
            (false, true) => "1.1",
            (false, false) => "1.0",
        };
        let _ = write!(out, "Via: {version} {via}\r\n");
    }
    if forwarding.address {
        // One field with all addresses: some look at the first field only.
        put(out, &[b"X-Forwarded-For: "]);
        if forwarding.trusted {
            for before in values(request.headers, "x-forwarded-for") {
                put(out, &[before, b", "]);
            }
        }
        let _ = write!(out, "{}\r\n", how.client.address);
    }
    // What `Connection` names was for us, and does not go on.
    let was_told = |name: &str| {
        forwarding.trusted
            && values(request.headers, name).next().is_some()
            && !is_named_by_connection(request.headers, name)
    };
    if forwarding.proto && !was_told("x-forwarded-proto") {
        let scheme: &[u8] = if how.is_secure { b"https" } else { b"http" };
        put(out, &[b"X-Forwarded-Proto: ", scheme, b"\r\n"]);
    }
    if forwarding.host && !request.host.is_empty() && !was_told("x-forwarded-host") {
        field(out, "X-Forwarded-Host", request.host);
    }
}

/// Whether a field claims to come from a proxy before us, and is not to go on as it is. Many a backend takes `_` in a name for `-`.
fn is_claim(name: &str, forwarding: &Forwarding) -> bool {
    if name.eq_ignore_ascii_case("x-forwarded-for") {
        return forwarding.address || !forwarding.trusted;
    }
    let is = |part: &str, other: &str| {
        let mut pairs = part.bytes().zip(other.bytes());
        part.len() == other.len()
            && pairs.all(|(a, b)| a.eq_ignore_ascii_case(&b) || (a, b) == (b'_', b'-'))
    };
    const FAMILY: &str = "x-forwarded-";
    let is_family = name.get(..FAMILY.len()).is_some_and(|it| is(it, FAMILY));
    !forwarding.trusted && (is_family || is(name, "x-real-ip") || is(name, "forwarded"))
}

fn is_framing(name: &str) -> bool {
    name.eq_ignore_ascii_case("content-length") || name.eq_ignore_ascii_case("transfer-encoding")
}

fn put_framing(out: &mut Vec<u8>, framing: Framing) {
    match framing {
        Framing::None | Framing::UntilClose => {}
        Framing::Length(len) => drop(write!(out, "Content-Length: {len}\r\n")),
        Framing::Chunked => put(out, &[b"Transfer-Encoding: chunked\r\n"]),
    }
}

pub(super) fn put_date(out: &mut Vec<u8>, date: SystemTime) {
    let _ = write!(out, "Date: {}\r\n", httpdate::HttpDate::from(date));
}

fn field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    put(out, &[name.as_bytes(), b": ", value, b"\r\n"]);
}

fn put(out: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// An address as a host (RFC 3986 §3.2.2).
struct Bracketed(IpAddr);

impl std::fmt::Display for Bracketed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            IpAddr::V4(ip) => ip.fmt(f),
            IpAddr::V6(ip) => write!(f, "[{ip}]"),
        }
    }
}
