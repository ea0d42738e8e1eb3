//! Why the device refuses a connection, or gives one back.

use super::super::error::ErrorCode;
use super::super::layout::ContextId;

/// Why a connection was not taken. The host goes on with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum RefuseReason {
    /// The device runs no connections.
    #[error("the NIC runs no connections")]
    Unsupported,
    /// It runs as many as it has memory for (Hard_limit).
    #[error("the NIC has as many connections as it has memory for")]
    HardLimit,
    /// It runs as many as its load allows (Soft_limit).
    #[error("the NIC has as many connections as its load allows")]
    SoftLimit,
    /// The index is not below the function's quota.
    #[error("the connection's index is not below the function's quota")]
    Quota,
    /// The index is in use.
    #[error("the connection's index is in use")]
    InUse,
    /// The device owns the flow already: it is in setup, teardown or splice, or handed off.
    #[error("the NIC owns this flow already")]
    FlowOwned,
    /// It was not held: never begun, cancelled, or offered too late.
    #[error("the NIC does not hold this connection")]
    NotHeld,
    /// The control block's memory can't be read, or not written.
    #[error("the control block's memory is not registered for writing")]
    BadMemory,
    /// The control block contradicts itself, or what was said of the connection before.
    #[error("the control block is wrong: {0}")]
    Tcb(TcbField),
    /// The device's memory for its received packets is used up.
    #[error("the NIC's queue has no room for another connection")]
    NoRoom,
}

impl RefuseReason {
    /// The number on the ring, and the field's.
    pub(super) fn to_bytes(self) -> (u8, u8) {
        match self {
            RefuseReason::Unsupported => (1, 0),
            RefuseReason::HardLimit => (2, 0),
            RefuseReason::SoftLimit => (3, 0),
            RefuseReason::Quota => (4, 0),
            RefuseReason::InUse => (5, 0),
            RefuseReason::FlowOwned => (6, 0),
            RefuseReason::NotHeld => (7, 0),
            RefuseReason::BadMemory => (8, 0),
            RefuseReason::Tcb(field) => (9, field as u8),
            RefuseReason::NoRoom => (10, 0),
        }
    }

    pub(in crate::ring) fn from_bytes(reason: u8, field: u8) -> Option<RefuseReason> {
        Some(match reason {
            1 => RefuseReason::Unsupported,
            2 => RefuseReason::HardLimit,
            3 => RefuseReason::SoftLimit,
            4 => RefuseReason::Quota,
            5 => RefuseReason::InUse,
            6 => RefuseReason::FlowOwned,
            7 => RefuseReason::NotHeld,
            8 => RefuseReason::BadMemory,
            9 => RefuseReason::Tcb(TcbField::from_byte(field)?),
            10 => RefuseReason::NoRoom,
            _ => return None,
        })
    }
}

/// Why a connection is the host's again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum RestoreReason {
    /// The host has asked for it.
    #[error("the host has asked for it")]
    Asked,
    /// It loads the device most of all, which has too much to do.
    #[error("the NIC is overloaded")]
    Load,
    /// What it is to send could not be sent.
    #[error("what it is to send was refused: {error}")]
    Transmit {
        /// Why.
        error: ErrorCode,
        /// The context that was to transform it.
        context: Option<ContextId>,
    },
}

impl RestoreReason {
    pub(super) fn to_bytes(self) -> (u8, u8) {
        match self {
            RestoreReason::Asked => (1, 0),
            RestoreReason::Load => (2, 0),
            RestoreReason::Transmit { error, .. } => (3, error as u8),
        }
    }

    /// The context that it names.
    pub(super) fn context(self) -> Option<ContextId> {
        match self {
            RestoreReason::Transmit { context, .. } => context,
            RestoreReason::Asked | RestoreReason::Load => None,
        }
    }

    pub(in crate::ring) fn from_bytes(
        reason: u8,
        error: u8,
        context: Option<ContextId>,
    ) -> Option<RestoreReason> {
        Some(match reason {
            1 => RestoreReason::Asked,
            2 => RestoreReason::Load,
            3 => RestoreReason::Transmit {
                error: ErrorCode::from_byte(error)?,
                context,
            },
            _ => return None,
        })
    }
}

/// Defines [`TcbField`] with its names.
macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A field of a control block that is wrong by itself or contradicts others.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum TcbField {
            $($(#[$doc])* $name,)*
        }

        impl TcbField {
            const ALL: &[TcbField] = &[$(TcbField::$name,)*];

            /// The name that the field has in [`tcp::Tcb`] and [`tcp::Config`].
            pub fn name(self) -> &'static str {
                match self {
                    $(TcbField::$name => $text,)*
                }
            }
        }
    };
}

fields! {
    /// Not an image, or one of another version.
    Version = "version",
    /// Flags that have no meaning.
    Flags = "flags",
    /// Not a state in which data may flow, or a FIN is on its way.
    State = "state",
    /// Our port is not the flow's.
    SrcPort = "src_port",
    /// The peer's port is not the flow's.
    DstPort = "dst_port",
    /// Beyond what was sent.
    SndUna = "snd_una",
    /// Beyond what is queued.
    SndNxt = "snd_nxt",
    /// More queued than can be.
    WriteSeq = "write_seq",
    /// Not as the state has it.
    FinQueued = "fin_queued",
    /// Larger than any window.
    SndWnd = "snd_wnd",
    /// Less than the window, or larger than any.
    SndWndMax = "snd_wnd_max",
    /// More unread than the buffer takes.
    Unread = "unread",
    /// Before what was received, or further than any window.
    RcvEdge = "rcv_edge",
    /// 0, or larger than its limit.
    RcvBuffer = "rcv_buffer",
    /// Not as the state has it.
    FinTaken = "fin_taken",
    /// Before what was received, or outside of the window.
    FinAt = "fin_at",
    /// Not ascending, outside of the window, or behind the FIN.
    Held = "held",
    /// Too small, or its packets too large for the wire.
    Mss = "mss",
    /// Too small.
    AdvMss = "adv_mss",
    /// Beyond 14.
    Shifts = "shifts",
    /// 0.
    Cwnd = "cwnd",
    /// Set in a state that does not end by time.
    Linger = "linger",
    /// Longer than the longest timeout.
    TimerSnapshot = "timer_snapshot",
    /// No such algorithm.
    Congestion = "congestion",
    /// Smaller than the receive buffer, or 0.
    RcvBufMax = "rcv_buf_max",
}

impl TcbField {
    pub(in crate::ring) fn from_byte(byte: u8) -> Option<TcbField> {
        TcbField::ALL.get(usize::from(byte)).copied()
    }
}

impl std::fmt::Display for TcbField {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
