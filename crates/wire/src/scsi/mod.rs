//! SCSI (SPC-5, SBC-4): the commands that a host needs of a disk, and what the disk answers.

mod answer;
mod cdb;
mod sense;
#[cfg(test)]
mod tests;

pub use answer::{BlockLimits, Capacity, Inquiry, Modes, Text};
pub use cdb::{Cdb, command};
pub use sense::{Sense, SenseKey};

/// How a command has ended (SAM-5 §5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Status(pub u8);

impl Status {
    /// It is done.
    pub const GOOD: Status = Status(0x00);
    /// The sense data says why it is not.
    pub const CHECK_CONDITION: Status = Status(0x02);
    /// The unit can't take it now.
    pub const BUSY: Status = Status(0x08);
    /// Another host has reserved the unit.
    pub const RESERVATION_CONFLICT: Status = Status(0x18);
    /// The unit has no room for another command.
    pub const TASK_SET_FULL: Status = Status(0x28);
    /// Another host has aborted it.
    pub const TASK_ABORTED: Status = Status(0x40);
}

impl core::fmt::Display for Status {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match *self {
            Status::GOOD => "good",
            Status::CHECK_CONDITION => "check condition",
            Status::BUSY => "busy",
            Status::RESERVATION_CONFLICT => "reservation conflict",
            Status::TASK_SET_FULL => "task set full",
            Status::TASK_ABORTED => "task aborted",
            Status(other) => return write!(f, "status {other:#04x}"),
        })
    }
}
