//! The clients of the experiments (Connection handoff policies §4.2): two web traces and two variants of SPECweb99, as generators.
//!
//! A [`Client`] opens a connection, sends requests on it one after the other, closes it, and opens the next one. It tells what it
//! asks for and how long it waits; when things happen is up to who drives it. Equal seeds draw the same.
//!
//! ```
//! use sim::handoff::Workload;
//!
//! let mut client = Workload::WorldCup.client(1, 0);
//! let first = client.connect();
//! while let Some(request) = client.next_request() {
//!     assert!(request.content > 0);
//! }
//! let _ = first;
//! ```

mod draw;
mod spec;
mod trace;

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

/// Bytes that the server enqueues at once: `sendfile` of FreeBSD 4.7 enqueues a file by its pages.
pub const PAGE: u32 = 4096;

/// Which clients there are (Connection handoff policies, Table 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Workload {
    /// The trace of the web site of the 1998 World Cup, 2,048 clients.
    WorldCup,
    /// The trace of an IBM web site, 2,048 clients.
    Ibm,
    /// SPECweb99: 30 % of the requests are for dynamic content, 2,048 clients.
    SpecWeb99,
    /// SPECweb99 without dynamic content, 4,096 clients.
    SpecWeb99Static,
}

/// What the server does for a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Sends a file without copying it (`sendfile`).
    Static,
    /// Makes it up, and copies it to the kernel.
    Dynamic,
}

/// A request, and what the server answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Bytes of the request.
    pub request: u32,
    /// Bytes of the response's header, which the server writes first, and copies.
    pub header: u32,
    /// Bytes of the response's content.
    pub content: u32,
    /// Where the content comes from.
    pub kind: Content,
    /// Bytes per second at which the client takes the content at most: SPECweb99's throttle. `None` for the traces, whose clients
    /// take and send as fast as the server can handle.
    pub pace: Option<u32>,
    /// Time from the end of the response at least until the client does the next thing.
    pub turnaround: Duration,
}

impl Request {
    /// Time from sending this request at least until the client does the next thing.
    pub fn at_least(&self) -> Duration {
        match self.pace {
            Some(pace) => Duration::from_secs(1) * self.content / pace.max(1),
            None => Duration::ZERO,
        }
    }

    /// Bytes that the server sends.
    pub fn response(&self) -> u32 {
        self.header + self.content
    }

    /// The server's enqueue operations to the send buffer (Connection handoff policies §5.2): the header, then the content by [`PAGE`]s.
    pub fn enqueues(&self) -> u32 {
        1 + self.content.div_ceil(PAGE)
    }
}

impl Workload {
    /// All, in the order of the seed's Table 3 but for the static variant, which comes last.
    pub const ALL: [Self; 4] = [
        Self::WorldCup,
        Self::Ibm,
        Self::SpecWeb99,
        Self::SpecWeb99Static,
    ];

    /// Clients at the same time (Table 3). Each has one connection at most.
    pub fn clients(self) -> u32 {
        match self {
            Self::WorldCup | Self::Ibm | Self::SpecWeb99 => 2048,
            Self::SpecWeb99Static => 4096,
        }
    }

    /// The letter that the seed's configurations begin with (Table 3).
    pub fn letter(self) -> char {
        match self {
            Self::WorldCup => 'W',
            Self::Ibm => 'I',
            Self::SpecWeb99 => 'D',
            Self::SpecWeb99Static => 'S',
        }
    }

    /// As it is written on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::WorldCup => "worldcup",
            Self::Ibm => "ibm",
            Self::SpecWeb99 => "specweb99",
            Self::SpecWeb99Static => "specweb99-static",
        }
    }

    /// Client number `index` of a run with this seed; its draws are its own, whatever the others do.
    pub fn client(self, seed: u64, index: u32) -> Client {
        let stream = seed
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(u64::from(index))
            .wrapping_mul(0xd129_42f0_6ac9_5e6b);
        Client {
            rng: Pcg64Mcg::seed_from_u64(stream ^ u64::from(u32::from(self.letter())) << 56),
            habit: match self {
                Self::WorldCup => Habit::Trace(trace::Visitor::new(&trace::WORLD_CUP)),
                Self::Ibm => Habit::Trace(trace::Visitor::new(&trace::IBM)),
                Self::SpecWeb99 => Habit::Spec(spec::User::new(spec::DYNAMIC)),
                Self::SpecWeb99Static => Habit::Spec(spec::User::new(0.0)),
            },
            came: false,
        }
    }
}

/// Clients come within this time at the start of a run.
const ARRIVAL: Duration = Duration::from_millis(20);

/// One of a workload's clients.
#[derive(Clone, Debug)]
pub struct Client {
    rng: Pcg64Mcg,
    habit: Habit,
    came: bool,
}

#[derive(Clone, Debug)]
enum Habit {
    Trace(trace::Visitor),
    Spec(spec::User),
}

impl Client {
    /// Begins the next connection, and tells how long to wait before it is opened.
    pub fn connect(&mut self) -> Duration {
        match &mut self.habit {
            Habit::Trace(visitor) => visitor.connect(&mut self.rng),
            Habit::Spec(user) => user.connect(&mut self.rng),
        }
        if std::mem::replace(&mut self.came, true) {
            Duration::ZERO
        } else {
            ARRIVAL.mul_f64(self.rng.random())
        }
    }

    /// What to ask for next on this connection, to be sent when the response before has come and its
    /// time [at least](Request::at_least) is over; `None` is the time to close it.
    pub fn next_request(&mut self) -> Option<Request> {
        match &mut self.habit {
            Habit::Trace(visitor) => visitor.next_request(&mut self.rng),
            Habit::Spec(user) => user.next_request(&mut self.rng),
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no workload's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no workload; take worldcup, ibm, specweb99 or specweb99-static")]
pub struct UnknownWorkload(String);

impl FromStr for Workload {
    type Err = UnknownWorkload;

    fn from_str(text: &str) -> Result<Self, UnknownWorkload> {
        let found = Self::ALL
            .into_iter()
            .find(|workload| workload.name() == text);
        found.ok_or_else(|| UnknownWorkload(text.to_owned()))
    }
}
