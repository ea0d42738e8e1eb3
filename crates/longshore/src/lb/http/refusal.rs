//! Responses of our own.

use std::io::Write;

use crate::http::Status;

/// Appends a response with this status and a short text; without the text for HEAD.
pub fn refusal(out: &mut Vec<u8>, status: Status, keep_alive: bool, is_head: bool) {
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
    let _ = write!(
        out,
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nCache-Control: no-store\r\n\
         Content-Length: {}\r\n{retry}{connection}\r\n",
        text.len(),
    );
    if !is_head {
        out.extend_from_slice(text.as_bytes());
    }
}
