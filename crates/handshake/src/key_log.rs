//! Key log lines, for tools that decrypt captures.

use std::fmt::{self, Write};
use std::sync::Arc;

use rustls::KeyLog;

#[cfg(test)]
mod tests;

/// Takes one line of a key log, without its end, in the format of `SSLKEYLOGFILE`
/// (draft-ietf-tls-keylogfile §2).
pub type KeyLogSink = Arc<dyn Fn(&str) + Send + Sync>;

/// Writes rustls's secrets as lines.
pub(super) struct KeyLogLines(pub(super) KeyLogSink);

impl KeyLog for KeyLogLines {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        let mut line =
            String::with_capacity(label.len() + 2 * (client_random.len() + secret.len()) + 2);
        line.push_str(label);
        for field in [client_random, secret] {
            line.push(' ');
            for byte in field {
                let _ = write!(line, "{byte:02x}");
            }
        }
        (self.0)(&line);
    }
}

impl fmt::Debug for KeyLogLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyLogLines")
    }
}
