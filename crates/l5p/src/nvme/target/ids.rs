//! Names of connections, of controllers and of commands.

/// A TCP connection of a host. Never names another one, also when its place is used again, and not one of another machine of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId {
    pub(super) machine: u16,
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl ConnectionId {
    /// Its place: below [`super::Limits::connections`], and its own until the machine has no more use for its memory.
    #[must_use]
    pub fn index(self) -> usize {
        self.index as usize
    }

    /// Which of the target's machines has it: 0, if there is one.
    #[must_use]
    pub fn machine(self) -> usize {
        self.machine.into()
    }
}

/// A command in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommandRef {
    /// The connection that it came on.
    pub connection: ConnectionId,
    /// Its place there: below [`super::Limits::queue_entries`]. The TTAG of its R2Ts.
    pub slot: u16,
}

/// A controller that a host has made by Connect on an admin queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ControllerRef {
    pub(super) machine: u16,
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl ControllerRef {
    /// Which of the target's machines has its admin queue: 0, if there is one.
    #[must_use]
    pub fn machine(self) -> usize {
        self.machine.into()
    }
}
