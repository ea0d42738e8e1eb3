//! Bytes from one connection to the other, as they are.

use std::time::Instant;

use host::{SocketError, Stack};

use super::leg::{Filled, Leg};

/// What relaying came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Relayed {
    /// Bytes.
    pub bytes: u64,
    /// Reads that they came from.
    pub reads: u32,
    /// It was stopped by the limit; there may be more.
    pub has_more: bool,
}

/// Relays the bytes that have come, up to a limit. When `from` ends, so does `to`. Nothing is read that `to` has no
/// room for, but one chunk.
///
/// # Errors
/// When one of them is broken.
pub fn relay(
    now: Instant,
    stack: &mut Stack,
    from: &mut Leg,
    to: &mut Leg,
    limit: u64,
) -> Result<Relayed, SocketError> {
    let mut relayed = Relayed::default();
    loop {
        if !to.flush(now, stack)? {
            return Ok(relayed);
        }
        let bytes = from.inbox.bytes();
        if !bytes.is_empty() {
            let sent = to.send(now, stack, bytes)?;
            let is_all = sent == bytes.len();
            from.inbox.consume(sent);
            relayed.bytes += sent as u64;
            if !is_all {
                return Ok(relayed);
            }
        }
        if relayed.bytes >= limit {
            relayed.has_more = true;
            return Ok(relayed);
        }
        match from.fill(now, stack)? {
            Filled::Bytes => relayed.reads += 1,
            Filled::Nothing => return Ok(relayed),
            Filled::End => {
                to.shutdown(now, stack);
                return Ok(relayed);
            }
        }
    }
}
