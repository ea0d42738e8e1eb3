//! Responses of our own.

use std::io::Write;
use std::time::SystemTime;

use super::Request;
use super::rewrite::put_date;
use crate::http::Status;

/// Appends a response with this status and a short text; without the text for HEAD.
pub fn refusal(
    out: &mut Vec<u8>,
    status: Status,
    date: SystemTime,
    keep_alive: bool,
    is_head: bool,
) {
    let text = format!("{status}\n");
    let connection = if keep_alive {
        ""
    } else {
        "Connection: close\r\n"
    };
    let retry = match status {
        Status::UNAVAILABLE => "Retry-After: 1\r\n",
        _ => "",
    };
    // Writing to memory does not fail.
    let _ = write!(out, "HTTP/1.1 {status}\r\n");
    put_date(out, date);
    let _ = write!(
        out,
        "Content-Type: text/plain\r\nCache-Control: no-store\r\n\
         Content-Length: {}\r\n{retry}{connection}\r\n",
        text.len(),
    );
    if !is_head {
        out.extend_from_slice(text.as_bytes());
    }
}

/// Appends the response to OPTIONS or TRACE that may pass no further proxy (RFC 9110 §7.6.2): nothing, or the request as it
/// came, without what its sender would not have others read (RFC 9110 §9.3.8).
pub fn answer(out: &mut Vec<u8>, request: &Request<'_, '_>, date: SystemTime, keep_alive: bool) {
    let mut content = Vec::new();
    let mut media_type = "";
    if request.method == "TRACE" {
        media_type = "Content-Type: message/http\r\n";
        let version = u8::from(request.is_newer);
        let _ = write!(content, "TRACE {} HTTP/1.{version}\r\n", request.target);
        let is_secret = |name: &str| {
            ["authorization", "proxy-authorization", "cookie"]
                .iter()
                .any(|secret| name.eq_ignore_ascii_case(secret))
        };
        for header in request
            .headers
            .iter()
            .filter(|header| !is_secret(header.name))
        {
            let name = header.name.as_bytes();
            content.extend_from_slice(&[name, b": ", header.value, b"\r\n"].concat());
        }
        content.extend_from_slice(b"\r\n");
    }
    let connection = match keep_alive {
        true => "",
        false => "Connection: close\r\n",
    };
    let _ = write!(out, "HTTP/1.1 {}\r\n", Status::OK);
    put_date(out, date);
    let _ = write!(
        out,
        "{media_type}Content-Length: {}\r\n{connection}\r\n",
        content.len(),
    );
    out.extend_from_slice(&content);
}
