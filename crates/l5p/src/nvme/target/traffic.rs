//! What hosts have done with a subsystem, counted by each machine apart.

use std::iter::Sum;
use std::sync::atomic::{AtomicU64, Ordering};

use wire::nvme::log::HealthLog;

/// What hosts have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traffic {
    pub bytes_read: u128,
    pub bytes_written: u128,
    pub reads: u128,
    pub writes: u128,
    pub media_errors: u128,
}

/// The counters of one machine, on cache lines of their own: it alone writes them, and others read them for a log page.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct TrafficCells {
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    reads: AtomicU64,
    writes: AtomicU64,
    media_errors: AtomicU64,
}

impl TrafficCells {
    pub(super) fn read_done(&self, bytes: u32) {
        add(&self.reads, 1);
        add(&self.bytes_read, bytes.into());
    }

    pub(super) fn write_done(&self, bytes: u32) {
        add(&self.writes, 1);
        add(&self.bytes_written, bytes.into());
    }

    pub(super) fn medium_failed(&self) {
        add(&self.media_errors, 1);
    }

    pub(super) fn read(&self) -> Traffic {
        let value = |cell: &AtomicU64| u128::from(cell.load(Ordering::Relaxed));
        Traffic {
            bytes_read: value(&self.bytes_read),
            bytes_written: value(&self.bytes_written),
            reads: value(&self.reads),
            writes: value(&self.writes),
            media_errors: value(&self.media_errors),
        }
    }
}

/// Only one thread writes: it needs no atomic addition.
fn add(cell: &AtomicU64, count: u64) {
    let value = cell.load(Ordering::Relaxed);
    cell.store(value.wrapping_add(count), Ordering::Relaxed);
}

impl Sum for Traffic {
    fn sum<I: Iterator<Item = Traffic>>(all: I) -> Traffic {
        all.fold(Traffic::default(), |sum, one| Traffic {
            bytes_read: sum.bytes_read + one.bytes_read,
            bytes_written: sum.bytes_written + one.bytes_written,
            reads: sum.reads + one.reads,
            writes: sum.writes + one.writes,
            media_errors: sum.media_errors + one.media_errors,
        })
    }
}

impl Traffic {
    /// What SMART / health says of it.
    pub(super) fn health(&self) -> HealthLog {
        HealthLog {
            available_spare: 100,
            data_units_read: HealthLog::data_units(self.bytes_read),
            data_units_written: HealthLog::data_units(self.bytes_written),
            host_reads: self.reads,
            host_writes: self.writes,
            media_errors: self.media_errors,
            power_cycles: 1,
            ..HealthLog::default()
        }
    }
}
