//! What all machines of a target know of a controller, and of its queues.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use wire::nvme::command::Status;

use super::connection::QueueOwner;
use super::controller::{ErrorLog, Subject};

/// A controller, as its queues on all machines see it. What a command reads of it is written when its host changes something.
#[derive(Debug)]
pub(super) struct Control {
    /// CNTLID.
    pub id: u16,
    pub owner: QueueOwner,
    /// Whether I/O queues may be made and used.
    is_ready: AtomicBool,
    /// Whether the volatile write cache is enabled.
    write_cache: AtomicBool,
    /// The keep-alive time-out, milliseconds; zero for none.
    keep_alive: AtomicU32,
    errors: Mutex<ErrorLog>,
}

/// When a command came last on a queue. Its own machine alone writes it, on a cache line of its own; that of the admin queue reads it when
/// the host seems silent.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Heard {
    /// Since the target was made, nanoseconds.
    nanos: AtomicU64,
}

impl Control {
    pub(super) fn new(id: u16, owner: QueueOwner) -> Control {
        Control {
            id,
            owner,
            is_ready: AtomicBool::new(false),
            write_cache: AtomicBool::new(true),
            keep_alive: AtomicU32::new(0),
            errors: Mutex::default(),
        }
    }

    pub(super) fn subject(&self) -> Subject {
        self.owner.subject
    }

    pub(super) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Acquire)
    }

    pub(super) fn set_ready(&self, is_ready: bool) {
        self.is_ready.store(is_ready, Ordering::Release);
    }

    pub(super) fn has_write_cache(&self) -> bool {
        self.write_cache.load(Ordering::Acquire)
    }

    pub(super) fn set_write_cache(&self, enabled: bool) {
        self.write_cache.store(enabled, Ordering::Release);
    }

    /// The keep-alive time-out, milliseconds.
    pub(super) fn keep_alive(&self) -> u32 {
        self.keep_alive.load(Ordering::Relaxed)
    }

    pub(super) fn set_keep_alive(&self, milliseconds: u32) {
        self.keep_alive.store(milliseconds, Ordering::Relaxed);
    }

    /// A command failed.
    pub(super) fn record_error(&self, sqid: u16, cid: u16, status: Status, nsid: u32) {
        self.errors().record(sqid, cid, status, nsid);
    }

    pub(super) fn errors(&self) -> MutexGuard<'_, ErrorLog> {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Heard {
    /// A queue begins `at` so long after the target was made.
    pub(super) fn new(at: Duration) -> Heard {
        Heard {
            nanos: AtomicU64::new(nanos(at)),
        }
    }

    /// A command came: with traffic-based keep-alive, that is a sign of life (Base 2.0c §3.9.2).
    pub(super) fn hear(&self, at: Duration) {
        self.nanos.store(nanos(at), Ordering::Relaxed);
    }

    /// The host was heard then at the earliest.
    pub(super) fn raise(&self, other: &Heard) {
        let nanos = other.nanos.load(Ordering::Relaxed);
        self.nanos.fetch_max(nanos, Ordering::Relaxed);
    }

    /// When, for a target that was made at `started`.
    pub(super) fn at(&self, started: Instant) -> Instant {
        started + Duration::from_nanos(self.nanos.load(Ordering::Relaxed))
    }
}

/// 64 bits hold 584 years.
fn nanos(time: Duration) -> u64 {
    time.as_secs() * 1_000_000_000 + u64::from(time.subsec_nanos())
}
