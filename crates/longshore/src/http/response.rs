//! The head of a response.

use std::fmt::{Display, Write};
use std::time::SystemTime;

use super::request::Status;

/// A response's head, being written.
#[derive(Debug)]
pub struct Head {
    text: String,
}

impl Head {
    /// The status line, and the fields that every response has (RFC 9110 §6.6.1, §10.2.4).
    pub fn new(status: Status, date: SystemTime, keep_alive: bool) -> Self {
        let mut head = Head {
            text: format!("HTTP/1.1 {status}\r\n"),
        };
        head.field("Date", httpdate::fmt_http_date(date));
        head.field("Server", concat!("longshore/", env!("CARGO_PKG_VERSION")));
        if !keep_alive {
            head.field("Connection", "close");
        }
        head
    }

    /// Adds a field. A line break in a value would start another field: it is left out.
    pub fn field(&mut self, name: &str, value: impl Display) {
        let _ = write!(self.text, "{name}: ");
        let start = self.text.len();
        let _ = write!(self.text, "{value}");
        let is_break = |byte: &u8| matches!(byte, b'\r' | b'\n');
        if self.text.as_bytes()[start..].iter().any(is_break) {
            let clean: String = self.text[start..]
                .chars()
                .filter(|c| !matches!(c, '\r' | '\n'))
                .collect();
            self.text.replace_range(start.., &clean);
        }
        self.text.push_str("\r\n");
    }

    /// Ends the head.
    pub fn finish(mut self) -> String {
        self.text.push_str("\r\n");
        self.text
    }
}
