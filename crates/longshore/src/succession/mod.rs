//! A service's place, handed over by the process that has it to another one, which may be of another version or have other options.
//!
//! ```text
//!   successor                                             predecessor
//!   take_over, with what it is ─────────────────────────▶ looks whether that fits; goes on
//!             ◀───────────────────────────────── estate:  secrets, addresses; the control socket and the queues of the TAP
//!   opens all that it needs, gives up its privileges
//!   ready, with a socket for each queue ────────────────▶ stops to read its queues, looks which connections it has
//!             ◀───────────────────────────────── flows    some thousands at a time
//!             ◀───────────────────────────────── news     what the service has found out, in some pieces
//!             ◀───────────────────────────────── given    ports for connections that it still opens
//!   reads the queues, passes the frames of those flows    ends each connection as soon as its client can be told
//!   and ports on by the sockets; accepts, and opens       (Connection: close, GOAWAY), or after `--drain` seconds;
//!   connections from other ports                          answers nothing on the control socket any more
//!             ◀───────────────────────────────── resting  connections in TIME-WAIT, some thousands at a time
//!             ◀───────────────────────────────── over     hears and sends nothing any more
//!   has the queues for itself: taken ───────────────────▶ ends
//! ```
//!
//! Until the predecessor has ended, the end of the successor leaves it the place, with all that it has: it takes its queues back. The end of the predecessor
//! at any time after `given` leaves the successor all that it needs, and loses the connections that were not over. A process has ended when the connection
//! is closed and its pidfd says so. One that hangs up, or says what makes no sense, may still read its queues: no more of it is heard than its end, and
//! who serves stays as it is. So two processes never read the same queue as theirs.

mod giving;
mod line;
mod options;
mod other;
mod place;
mod queues;
mod shards;
mod taking;
#[cfg(test)]
mod tests;
mod words;

pub use options::{Candidate, TakeOver};
pub use place::Succession;
pub use shards::{All, Shards};
pub use words::{Claim, Estate};

use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::attach::Attached;
use crate::service::Place;
use crate::shards::Shard;
use taking::Taking;

/// How long one process waits for the other to answer what needs no more than a look. Connections stand still meanwhile.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long the predecessor may take to leave its queues and to say what it has, all of it together. Each of its threads may be late, twice.
const LEAVE: Duration = PATIENCE.saturating_mul(2);
/// How long the successor waits for all of that: longer, so that both agree who has given up.
const HAND_OVER: Duration = PATIENCE.saturating_mul(3);
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

    /// What the other process is to hear at the beginning, in pieces of some hundred thousand bytes at most. The first shard is asked.
    fn news(&self) -> Vec<serde_json::Value> {
        Vec::new()
    }

    /// One of those, in that process; each shard hears it. Another version may have said it: what makes no sense is passed over.
    fn hear(&mut self, _now: Instant, _attached: &mut Attached, _news: &serde_json::Value) {}
}

/// A service whose place another process may take.
pub trait HandsOver {
    /// Another process wants the place.
    ///
    /// # Errors
    /// Why that process does not get it.
    fn claimed(
        &mut self,
        now: Instant,
        claimant: Claimant<'_>,
        attached: &mut Attached,
    ) -> Result<()>;

    /// The service is to end: a process that gets ready for the place does not get it.
    fn keep_place(&mut self);

    /// Looks after the process whose place this one takes, or that takes this one's. Whose place it is then.
    ///
    /// # Errors
    /// It can't go on.
    fn look_after_other(&mut self, now: Instant, attached: &mut Attached) -> Result<Place>;

    /// Whether a process that had the place before has connections left: it takes the place back if this one ends without a word.
    fn has_predecessor(&self) -> bool;

    /// What becomes readable when that process has said something.
    fn other(&self) -> Option<BorrowedFd<'_>>;

    /// When to look after it although it has said nothing.
    fn poll_timeout(&self, now: Instant) -> Option<Instant>;
}
