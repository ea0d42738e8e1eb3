//! The thread of a core behind the first one: it moves frames, does what the first one orders, and tells it how it is.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};

use anyhow::Result;
use host::runtime::Doorbell;
use nic::Fault;

use super::data_path::DataPath;
use crate::nic_process::counters::Counted;
use crate::nic_process::ending::Ending;

/// How old what it tells of its counters may be while it works.
const TELL: Duration = Duration::from_millis(10);

/// What the first thread wants done.
#[derive(Debug)]
pub enum Order {
    /// There is a gate, with these channels of its hosts.
    Connect {
        /// In the order of these hosts.
        channels: Vec<OwnedFd>,
        /// They are virtual machines.
        of_guests: bool,
    },
    /// Take no more hosts, and let connections come to rest.
    Drain,
    /// Have the function of the host at a socket fail; say whether it is there.
    Inject(PathBuf, Fault, SyncSender<bool>),
    /// Tell what is counted.
    Tell,
    /// End.
    Stop,
}

/// What it tells the first thread. No packet touches it.
#[derive(Debug, Default)]
pub struct Told {
    /// It was told to drain, and has.
    pub is_at_rest: AtomicBool,
    /// How often it has done what [`Order::Tell`] says.
    pub answers: AtomicU64,
    pub counted: Mutex<Counted>,
}

/// The thread's own.
pub struct Other {
    path: DataPath,
    orders: Receiver<Order>,
    /// Rung behind each order.
    bell: Doorbell,
    told: Arc<Told>,
    /// When it told of its counters, and whether they may be others since.
    told_at: Instant,
    has_news: bool,
    ending: Option<Ending>,
}

impl Other {
    /// Takes over what moves frames.
    pub fn new(path: DataPath, orders: Receiver<Order>, bell: Doorbell, told: Arc<Told>) -> Other {
        Other {
            path,
            orders,
            bell,
            told,
            told_at: Instant::now(),
            has_news: true,
            ending: None,
        }
    }

    /// Moves frames until it is ordered to stop.
    ///
    /// # Errors
    /// The wire is gone.
    pub fn run(&mut self) -> Result<()> {
        loop {
            let now = Instant::now();
            // What a timer does is counted, too, and moves nothing.
            let is_due = self.path.nic.poll_timeout().is_some_and(|due| due <= now);
            let moved = self.path.turn(now, &mut [])?;
            self.has_news |= moved > 0 || is_due;
            self.tell(now);
            let tells = self.has_news.then(|| self.told_at + TELL);
            let ending = self.ending.as_ref().map(|ending| ending.next_look(now));
            let deadline = [tells, ending].into_iter().flatten().min();
            let asked = [self.bell.as_fd()].into_iter();
            if self.path.rest(now, moved, &[], asked, deadline) {
                if self.obey(Instant::now()) {
                    return Ok(());
                }
                self.path.poll_hosts();
                self.has_news = true;
            }
        }
    }

    /// Does what was ordered. True if it is to stop, as it is when the first thread has gone.
    fn obey(&mut self, now: Instant) -> bool {
        // Before the orders are read: an order that is sent after this rings the bell again.
        if !self.bell.answer() {
            return false;
        }
        loop {
            let order = match self.orders.try_recv() {
                Ok(order) => order,
                Err(TryRecvError::Empty) => return false,
                Err(TryRecvError::Disconnected) => return true,
            };
            match order {
                Order::Connect {
                    channels,
                    of_guests,
                } => self.path.connect(channels, of_guests),
                Order::Drain => {
                    self.path.rings.drain();
                    // The first thread says for how long.
                    self.ending = Some(Ending::new(now, FOREVER));
                }
                Order::Inject(socket, fault, answer) => {
                    let function = self.path.rings.function_at(&socket);
                    let nic = &mut self.path.nic;
                    let is_done = function.is_some_and(|function| nic.inject(function, fault));
                    // The first thread may have waited for long enough.
                    let _ = answer.try_send(is_done);
                }
                Order::Tell => {
                    self.count(now);
                    self.told.answers.fetch_add(1, Ordering::Release);
                }
                Order::Stop => return true,
            }
        }
    }

    /// Tells the first thread how it is, if it is time.
    fn tell(&mut self, now: Instant) {
        if let Some(ending) = &mut self.ending {
            let nic = &self.path.nic;
            let is_quiet = ending.is_quiet(now, nic.counters().iter());
            let is_at_rest = is_quiet && self.path.rings.is_drained(nic);
            self.told.is_at_rest.store(is_at_rest, Ordering::Release);
        }
        if now.duration_since(self.told_at) >= TELL {
            self.count(now);
        }
    }

    fn count(&mut self, now: Instant) {
        // If the first thread reads it just now, it is tried again after as long.
        self.told_at = now;
        let mut counted = match self.told.counted.try_lock() {
            Ok(counted) => counted,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        counted.count(&self.path);
        self.has_news = false;
    }
}

/// More than any connection needs to come to rest.
const FOREVER: Duration = Duration::from_secs(u32::MAX as u64);
