//! A service's place, handed over by the process that has it to another one, which may be of another version or have other options.
//!
//! ```text
//!   successor                                             predecessor
//!   take_over, with what it is ─────────────────────────▶ looks whether that fits; goes on
//!             ◀───────────────────────────────── estate:  secrets, addresses; the control socket and the queues of the TAP
//!   opens all that it needs, gives up its privileges
//!   ready, with a socket for each queue ────────────────▶ stops to read its queues, looks which connections it has
//!             ◀───────────────────────────────── flows    some thousands at a time
//!             ◀───────────────────────────────── given    ports for connections that it still opens; what the service has found out
//!   reads the queues, passes the frames of those flows    ends each connection as soon as its client can be told
//!   and ports on by the sockets; accepts, and opens       (Connection: close, GOAWAY), or after `--drain` seconds;
//!   connections from other ports                          answers nothing on the control socket any more
//!             ◀───────────────────────────────── resting  connections in TIME-WAIT, some thousands at a time
//!             ◀───────────────────────────────── over     hears and sends nothing any more
//!   has the queues for itself: taken ───────────────────▶ ends
//! ```
//!
//! Until the predecessor has ended, the end of the successor leaves it the place, with all that it has: it takes its queues back. The end of the predecessor
//! at any time after `given` leaves the successor all that it needs, and loses the connections that were not over.

mod giving;
mod line;
mod options;
mod place;
mod taking;
#[cfg(test)]
mod tests;
mod words;

pub use options::TakeOver;
pub use place::Succession;
pub use words::{Claim, Estate};

use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::attach::Attached;
use crate::shards::{Shard, Threads};
use taking::Taking;

/// How long one process waits for the other to answer what needs no more than a look. Connections stand still meanwhile.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long a successor may take to get ready. Connections go on meanwhile.
const PREPARATION: Duration = Duration::from_secs(30);

/// A process that wants this one's place.
#[derive(Debug)]
pub struct Claimant<'a> {
    /// What it says of itself.
    pub claim: Claim,
    /// The connection to it.
    pub stream: UnixStream,
    /// The control socket that it has asked on.
    pub control: BorrowedFd<'a>,
    /// How long the service manager lets the main process be silent.
    pub watchdog: Option<Duration>,
}

/// A part of a service whose connections another process does not take over.
pub trait Drains: Shard {
    /// Begins to end its connections, each as soon as its client can be told; or goes on as before.
    fn drain(&mut self, now: Instant, attached: &mut Attached, drains: bool);

    /// Resets the connections that are left.
    fn abort_all(&mut self, now: Instant, attached: &mut Attached);

    /// What the other process is to hear at the beginning. The first shard is asked.
    fn news(&self) -> serde_json::Value {
        serde_json::Value::Null
    }

    /// The same, in that process; each shard hears it. Another version may have said it: what makes no sense is passed over.
    fn hear(&mut self, _now: Instant, _attached: &mut Attached, _news: &serde_json::Value) {}
}

/// All shards of a service: that of this thread, and those of others.
pub struct All<'a, S> {
    /// This thread's.
    pub own: &'a mut S,
    /// Its stack.
    pub attached: &'a mut Attached,
    /// Those of the other cores.
    pub others: &'a mut Threads<S>,
}

impl<S: Shard> All<'_, S> {
    /// Has the same done with each; gives what came of it, in the order of the workers.
    ///
    /// # Errors
    /// A thread has ended, or does not answer.
    pub fn with_each<R: Send + 'static>(
        &mut self,
        errand: impl Fn(&mut S, &mut Attached) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>> {
        let first = errand(self.own, self.attached);
        let others = match self.others.are_none() {
            true => Vec::new(),
            false => self.others.with_each(errand)?,
        };
        Ok(std::iter::once(first).chain(others).collect())
    }

    /// Has the same done with each, by those of other threads as soon as they can, in the order in which they were told: one that is late does it late.
    pub fn tell_each(&mut self, errand: impl Fn(&mut S, &mut Attached) + Clone + Send + 'static) {
        errand(self.own, self.attached);
        self.others.tell_each(errand);
    }

    /// The same as [`with_each`](Self::with_each), of what can fail.
    ///
    /// # Errors
    /// The first that has failed.
    pub fn try_with_each<R: Send + 'static>(
        &mut self,
        errand: impl Fn(&mut S, &mut Attached) -> Result<R> + Clone + Send + 'static,
    ) -> Result<Vec<R>> {
        self.with_each(errand)?.into_iter().collect()
    }
}
