//! The names of a flow.

use std::fmt::{self, Write};
use std::net::SocketAddr;

/// Bytes for the longest address that is printed, `[` IPv6 address `]:65535`, with a zero byte.
const LEN: usize = 48;

/// An address and port in text that ends with a zero byte, as C has strings.
#[derive(Clone, Copy)]
pub struct Text {
    bytes: [u8; LEN],
    len: usize,
}

impl Text {
    fn of(address: SocketAddr) -> Text {
        let mut text = Text {
            bytes: [0; LEN],
            len: 0,
        };
        // What does not fit, as a scope would not, is left out.
        let _ = write!(text, "{address}");
        text
    }

    /// Where it begins.
    pub(crate) fn as_ptr(&self) -> *const u8 {
        self.bytes.as_ptr()
    }
}

impl Write for Text {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let end = self.len + more.len();
        let room = self.bytes[..LEN - 1].get_mut(self.len..end);
        room.ok_or(fmt::Error)?.copy_from_slice(more.as_bytes());
        self.len = end;
        Ok(())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        String::from_utf8_lossy(&self.bytes[..self.len]).fmt(f)
    }
}

/// A flow, as probes name it: by a number, which is the same wherever it is made of the same addresses, and in text.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// The number.
    pub number: u64,
    /// This side's address and port.
    pub local: Text,
    /// The peer's.
    pub remote: Text,
}

impl Flow {
    /// Between this side and its peer.
    pub fn new(local: SocketAddr, remote: SocketAddr) -> Flow {
        let (local, remote) = (Text::of(local), Text::of(remote));
        let text = local.bytes.iter().chain(&remote.bytes);
        // FNV-1a: the number is a name that the probes of a host and its NIC have in common, and no key of a table.
        let number = text.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Flow {
            number,
            local,
            remote,
        }
    }
}
