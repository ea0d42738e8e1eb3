//! What clients of several benchmarks do to ask, and how they time the answers.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use host::{SocketError, SocketId, Stack};

/// Writes what is left of a request, as far as the socket takes it; `written` counts the bytes.
///
/// # Errors
/// When the connection does not take it.
pub fn write_rest(
    now: Instant,
    stack: &mut Stack,
    socket: SocketId,
    request: &[u8],
    written: &mut u32,
) -> anyhow::Result<()> {
    while (*written as usize) < request.len() {
        match stack.write(now, socket, &request[*written as usize..]) {
            Ok(len) => *written += len as u32,
            Err(SocketError::WouldBlock) => break,
            Err(error) => return Err(error).context("a write of a client failed"),
        }
    }
    Ok(())
}

/// As a histogram of latencies has it.
pub fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
