//! A function of a NIC in another process, and what becomes of the stack when that goes.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rings::Client;

use crate::Stack;

/// How often a stack that never sleeps looks whether its NIC is there.
const LOOK: Duration = Duration::from_millis(20);
/// How often it looks for a NIC that has come in the place of one that has gone.
const RETRY: Duration = Duration::from_millis(100);

/// The function.
#[derive(Debug)]
pub(super) struct Remote {
    client: Client,
    looked: Instant,
}

impl Remote {
    pub(super) fn new(client: Client, now: Instant) -> Remote {
        Remote {
            client,
            looked: now,
        }
    }

    /// Wakes the NIC.
    pub(super) fn ring(&mut self) {
        self.client.ring();
    }

    /// What to wait on for reading.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.client.fd()
    }

    /// When to call [`poll`](Self::poll) although nothing comes.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        (!self.client.is_connected()).then_some(self.looked + RETRY)
    }

    /// After a sleep: silences the bell.
    pub(super) fn answer(&mut self) {
        let was_connected = self.client.is_connected();
        if was_connected && !self.client.answer() {
            tracing::warn!(
                "the NIC at {} has gone; connections wait until it is there again",
                self.client.path().display()
            );
        }
    }

    /// Looks whether the NIC is there, and attaches the stack to the one that has come in its place. Whether it has.
    ///
    /// # Errors
    /// When that will never be.
    pub(super) fn poll(&mut self, now: Instant, stack: &mut Stack) -> io::Result<bool> {
        let is_connected = self.client.is_connected();
        let pause = if is_connected { LOOK } else { RETRY };
        if now.duration_since(self.looked) < pause {
            return Ok(false);
        }
        self.looked = now;
        if is_connected {
            self.answer();
            return Ok(false);
        }
        let came = self.client.reconnect(|| stack.leave_nic(now));
        let came = came.map_err(io::Error::other)?;
        if came {
            tracing::warn!("the NIC at {} is there again", self.client.path().display());
        }
        Ok(came)
    }

    /// See [`Client::unfinished_teardowns`]; none are left that a NIC has which is gone.
    pub(super) fn unfinished_teardowns(&mut self) -> u64 {
        self.client.unfinished_teardowns().unwrap_or(0)
    }
}
