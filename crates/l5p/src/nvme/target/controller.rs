//! A controller: what a host gets by Connect on an admin queue, until that queue is gone. The machine of that queue has it.

use std::sync::Arc;

use wire::nvme::command::{Configuration, ControllerStatus, Shutdown, ShutdownStatus, Status};
use wire::nvme::log::ErrorEntry;

use super::control::Control;
use super::events::Events;
use super::features::Features;
use super::ids::ConnectionId;

/// Granularity of the keep-alive timer (KAS), in units of 100 ms.
pub(super) const KEEP_ALIVE_GRANULARITY: u16 = 10;
/// Entries of a controller's error log.
pub(super) const ERROR_LOG_ENTRIES: usize = 16;

/// A controller.
pub(super) struct Controller {
    /// What other machines know of it too.
    pub control: Arc<Control>,
    pub admin: ConnectionId,
    configuration: Configuration,
    /// How far a shutdown is.
    shutdown: ShutdownStatus,
    /// The host enabled it with values that it cannot have, or what was written could not be made durable for a shutdown.
    failed: bool,
    /// Flushes of the shutdown that have not come back.
    pub flushes: u32,
    /// The host has asked for another shutdown since they began.
    pub flush_again: bool,
    /// Features that change nothing here.
    pub features: Features,
    pub events: Events,
}

/// What a controller gives access to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// The discovery log.
    Discovery,
    /// The subsystem of this index.
    Subsystem(usize),
}

/// What follows from setting CC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Configured {
    /// Nothing more.
    Done,
    /// It shuts down: what is written is to be made durable.
    ShutDown,
}

impl Controller {
    pub(super) fn new(control: Arc<Control>, admin: ConnectionId) -> Controller {
        Controller {
            control,
            admin,
            configuration: Configuration::default(),
            shutdown: ShutdownStatus::None,
            failed: false,
            flushes: 0,
            flush_again: false,
            features: Features::default(),
            events: Events::default(),
        }
    }

    /// CNTLID.
    pub(super) fn id(&self) -> u16 {
        self.control.id
    }

    pub(super) fn subject(&self) -> Subject {
        self.control.subject()
    }

    /// Sets the keep-alive time-out, zero for none, rounded up to its granularity (Base 2.0c §3.9). Gives the time set,
    /// in milliseconds.
    pub(super) fn set_keep_alive(&mut self, milliseconds: u32) -> u32 {
        let unit = u32::from(KEEP_ALIVE_GRANULARITY) * 100;
        let rounded = milliseconds.div_ceil(unit).saturating_mul(unit);
        self.control.set_keep_alive(rounded);
        rounded
    }

    /// Whether I/O queues may be made and used.
    fn is_ready(&self) -> bool {
        self.configuration.enabled() && !self.failed
    }

    pub(super) fn configuration(&self) -> Configuration {
        self.configuration
    }

    /// CSTS. `resetting`: it is not idle yet after a reset.
    pub(super) fn status(&self, resetting: bool) -> ControllerStatus {
        ControllerStatus::new(self.is_ready() || resetting, self.failed, self.shutdown)
    }

    /// As it was when it was made, but for CC and for errors, of which the log keeps what there was.
    pub(super) fn reset(&mut self) {
        self.control.set_write_cache(true);
        self.features = Features::default();
        self.events = Events::default();
    }

    /// Sets CC (§3.1.3.5).
    pub(super) fn configure(&mut self, new: Configuration) -> Configured {
        let old = std::mem::replace(&mut self.configuration, new);
        if new.enabled() && !old.enabled() {
            let io = matches!(self.subject(), Subject::Subsystem(_));
            let entries = (new.submission_shift(), new.completion_shift());
            self.failed = new.command_set() != 0
                || new.page_shift() != 0
                || io && entries != (6, 4)
                || new.0 >> 11 & 7 != 0;
            self.shutdown = ShutdownStatus::None;
        }
        if !new.enabled() && old.enabled() {
            self.failed = false;
            self.shutdown = ShutdownStatus::None;
        }
        self.control.set_ready(self.is_ready());
        let asks = matches!(new.shutdown(), Shutdown::Normal | Shutdown::Abrupt);
        if asks && self.shutdown == ShutdownStatus::None {
            self.shutdown = ShutdownStatus::Occurring;
            return Configured::ShutDown;
        }
        Configured::Done
    }

    /// All that a shutdown had to do is done, or has failed.
    pub(super) fn shut_down(&mut self) {
        if self.shutdown == ShutdownStatus::Occurring && !self.failed {
            self.shutdown = ShutdownStatus::Complete;
        }
    }

    /// A shutdown could not make durable what was written: nothing but CSTS can tell. It is never complete, and CFS is set, until the
    /// host resets the controller (Base 2.0c §3.1.3.6).
    pub(super) fn fail_to_shut_down(&mut self) {
        self.failed |= self.shutdown == ShutdownStatus::Occurring;
        self.control.set_ready(self.is_ready());
    }
}

/// The last errors of a controller, the newest first (§5.16.1.2).
#[derive(Clone, Debug, Default)]
pub(super) struct ErrorLog {
    entries: [ErrorEntry; ERROR_LOG_ENTRIES],
    count: u64,
}

impl ErrorLog {
    /// A command failed.
    pub(super) fn record(&mut self, sqid: u16, cid: u16, status: Status, nsid: u32) {
        self.count += 1;
        self.entries.rotate_right(1);
        self.entries[0] = ErrorEntry {
            count: self.count,
            sqid,
            cid,
            status: status.bits() << 1,
            location: 0xffff,
            lba: 0,
            nsid,
        };
    }

    pub(super) fn entries(&self) -> &[ErrorEntry; ERROR_LOG_ENTRIES] {
        &self.entries
    }

    /// Errors so far.
    pub(super) fn count(&self) -> u64 {
        self.count
    }
}
