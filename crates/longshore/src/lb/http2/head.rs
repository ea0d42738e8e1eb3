//! Heads of HTTP/2 as those of HTTP/1.1, and back.

use http::header::{CONTENT_LENGTH, COOKIE, HOST};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::lb::http::Response;

/// How the content of a request goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// The request has no content.
    None,
    /// It is as long as the head says, which `h2` checks.
    Length,
    Chunked,
}

/// Fields that mean something to one connection of HTTP/1.1, and nothing here (RFC 9113 §8.2.2).
fn is_of_connection(name: &str) -> bool {
    const NAMES: [&str; 5] = [
        "connection",
        "keep-alive",
        "proxy-connection",
        "transfer-encoding",
        "upgrade",
    ];
    NAMES.iter().any(|other| name.eq_ignore_ascii_case(other))
}

/// A request's head as the session reads it, and how its content follows. What it says is judged there, as of any client.
pub(super) fn request(parts: &Parts, has_content: bool) -> (Vec<u8>, Content) {
    let content = match (has_content, parts.headers.contains_key(CONTENT_LENGTH)) {
        (false, _) => Content::None,
        (true, true) => Content::Length,
        (true, false) => Content::Chunked,
    };
    let path = parts.uri.path_and_query();
    let path = path.map_or("", http::uri::PathAndQuery::as_str);
    let mut out = [parts.method.as_str(), " ", path, " HTTP/1.1\r\n"]
        .concat()
        .into_bytes();
    let authority = parts.uri.authority().map(|it| it.as_str().as_bytes());
    if let Some(authority) = authority {
        field(&mut out, "host", authority);
    }
    for (name, value) in &parts.headers {
        // One host, or the session refuses the request.
        let is_told = name == HOST && Some(value.as_bytes()) == authority;
        if !is_told && name != COOKIE && !is_of_connection(name.as_str()) {
            field(&mut out, name.as_str(), value.as_bytes());
        }
    }
    // Its crumbs are one field to the backend (RFC 9113 §8.2.3).
    let cookies = parts.headers.get_all(COOKIE).iter();
    let cookies: Vec<&[u8]> = cookies.map(HeaderValue::as_bytes).collect();
    if !cookies.is_empty() {
        field(&mut out, "cookie", &cookies.join(&b"; "[..]));
    }
    if content == Content::Chunked {
        field(&mut out, "transfer-encoding", b"chunked");
    }
    out.extend(b"\r\n");
    (out, content)
}

/// The last chunk, and the fields behind it.
pub(super) fn trailers(fields: Option<&HeaderMap>) -> Vec<u8> {
    let mut out = b"0\r\n".to_vec();
    for (name, value) in fields.into_iter().flatten() {
        field(&mut out, name.as_str(), value.as_bytes());
    }
    out.extend(b"\r\n");
    out
}

/// A response's head as the client gets it.
pub(super) fn response(response: &Response<'_, '_>) -> http::Response<()> {
    let mut head = http::Response::new(());
    *head.status_mut() = StatusCode::from_u16(response.status).unwrap_or(StatusCode::BAD_GATEWAY);
    for header in response.headers {
        if !is_of_connection(header.name) {
            append(head.headers_mut(), header.name.as_bytes(), header.value);
        }
    }
    head
}

/// Adds the field of a line behind the last chunk.
pub(super) fn append_line(fields: &mut HeaderMap, line: &[u8]) {
    if let Some(colon) = line.iter().position(|&byte| byte == b':') {
        append(fields, &line[..colon], line[colon + 1..].trim_ascii());
    }
}

fn append(fields: &mut HeaderMap, name: &[u8], value: &[u8]) {
    if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
        fields.append(name, value);
    }
}

fn field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}
