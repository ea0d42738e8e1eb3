//! Who runs a connection that has a full control block: the states, and every way from one to another.
//!
//! ```text
//!             close                   posted
//!        ┌─────────────▶ Teardown, due ─────▶ Teardown, posted ──▶ forgotten, or refused: Host
//!        │                     │ refused before
//!   Host ◀─────────────────────┘
//!    │ ▲                       both drained
//!    ├─┼───────▶ Splice, draining ──────────▶ Splice, given away ──▶ over, or taken back: Host
//!    │ │            ▲ restored
//!    └─┼───────▶ Handoff ──▶ (phases of its own) ──▶ closed, refused or restored: Host
//! ```

mod handoff;

use nic::ring::toe::ToeId;

use crate::SpliceHandle;

pub(crate) use handoff::{OffloadedConnection, Phase, PostedRequests, Recover};

/// The one owner of a connection (AccelTCP §4; Connection handoff policies §2), and what becomes of it next.
#[derive(Debug, Default)]
pub(crate) enum Owner {
    /// The host.
    #[default]
    Host,
    /// It is closed: the NIC finishes it.
    Teardown(TeardownPhase),
    /// The NIC joins it to another one, once the host has drained both.
    Splice(SplicePart, SplicePhase),
    /// TCP on the NIC runs it, from a phase on that it says itself. It may be a part of a splice that waits until the host has it again.
    Handoff(OffloadedConnection, Option<SplicePart>),
}

/// How far the close of a connection is given to the NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TeardownPhase {
    /// The NIC is to be asked. The host has it still.
    Due,
    /// The NIC was asked. It is the NIC's, unless that refuses.
    Posted,
}

/// How far a connection is given to a splice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SplicePhase {
    /// The host has it still, and waits until all is acknowledged.
    Draining,
    /// It is the NIC's, or about to be: the host touches it no more.
    GivenAway,
}

/// The part that a socket has in a splice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SplicePart {
    pub splice: SpliceHandle,
    /// Index among its two sockets.
    pub side: usize,
}

impl Owner {
    /// The NIC has the connection for good, or until it gives it back: nothing is sent for it, and no timer runs.
    #[inline]
    pub fn is_given_away(&self) -> bool {
        match self {
            Owner::Host | Owner::Handoff(..) => false,
            Owner::Teardown(teardown) => *teardown == TeardownPhase::Posted,
            Owner::Splice(_, phase) => *phase == SplicePhase::GivenAway,
        }
    }

    /// Whether the NIC runs it.
    pub fn is_nic(&self) -> bool {
        self.is_given_away() || self.handoff().is_some_and(OffloadedConnection::is_away)
    }

    /// How far its close is given to the NIC.
    #[inline]
    pub fn teardown(&self) -> Option<TeardownPhase> {
        match self {
            Owner::Teardown(teardown) => Some(*teardown),
            _ => None,
        }
    }

    /// The NIC is to finish the connection, which is the host's alone.
    pub fn ask_teardown(&mut self) {
        debug_assert!(matches!(self, Owner::Host), "{self:?} is closed by the NIC");
        *self = Owner::Teardown(TeardownPhase::Due);
    }

    /// The NIC was asked to finish it.
    pub fn teardown_posted(&mut self) {
        debug_assert_eq!(self.teardown(), Some(TeardownPhase::Due));
        *self = Owner::Teardown(TeardownPhase::Posted);
    }

    /// The host finishes it.
    pub fn end_teardown(&mut self) {
        if let Owner::Teardown(_) = self {
            *self = Owner::Host;
        }
    }

    /// Its part in a splice.
    #[inline]
    pub fn splice(&self) -> Option<SplicePart> {
        match self {
            Owner::Splice(part, _) | Owner::Handoff(_, Some(part)) => Some(*part),
            _ => None,
        }
    }

    /// Its part in a splice that the NIC has, or is about to have.
    #[inline]
    pub fn spliced(&self) -> Option<SplicePart> {
        self.splice().filter(|_| self.is_given_away())
    }

    /// It is to be spliced.
    pub fn begin_splice(&mut self, part: SplicePart) {
        match self {
            Owner::Handoff(_, next) => *next = Some(part),
            _ => *self = Owner::Splice(part, SplicePhase::Draining),
        }
    }

    /// The NIC was given the splice.
    pub fn give_to_splice(&mut self) {
        if let Owner::Splice(_, phase) = self {
            *phase = SplicePhase::GivenAway;
        }
    }

    /// It is a part of no splice any more.
    pub fn end_splice(&mut self) {
        match self {
            Owner::Splice(..) => *self = Owner::Host,
            Owner::Handoff(_, next) => *next = None,
            _ => {}
        }
    }

    /// How far it is handed off.
    #[inline]
    pub fn handoff(&self) -> Option<&OffloadedConnection> {
        match self {
            Owner::Handoff(handoff, _) => Some(handoff),
            _ => None,
        }
    }

    /// The same, to be changed.
    #[inline]
    pub fn handoff_mut(&mut self) -> Option<&mut OffloadedConnection> {
        match self {
            Owner::Handoff(handoff, _) => Some(handoff),
            _ => None,
        }
    }

    /// The NIC was told that it is to run the connection, which is the host's alone.
    pub fn begin_handoff(&mut self, toe: ToeId) {
        debug_assert!(matches!(self, Owner::Host), "{self:?} is handed off");
        *self = Owner::Handoff(OffloadedConnection::new(toe), None);
    }

    /// The NIC does not run it any more.
    pub fn end_handoff(&mut self) -> Option<OffloadedConnection> {
        self.end_handoff_if(|_| true)
    }

    /// The same, if it is as far as `is_so` says.
    pub fn end_handoff_if(
        &mut self,
        is_so: impl FnOnce(&OffloadedConnection) -> bool,
    ) -> Option<OffloadedConnection> {
        let Owner::Handoff(handoff, next) = self else {
            return None;
        };
        let (ended, next) = (*handoff, *next);
        if !is_so(&ended) {
            return None;
        }
        *self = match next {
            Some(part) => Owner::Splice(part, SplicePhase::Draining),
            None => Owner::Host,
        };
        Some(ended)
    }
}

#[cfg(test)]
mod tests;
