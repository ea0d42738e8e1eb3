//! What the device tells of connections that it runs.

use tcp::{CloseReason, TimeWaitEntry};
use wire::SeqNum;
use zerocopy::{FromZeros, transmute_ref};

use super::super::error::ErrorCode;
use super::super::layout::{
    self, ContextId, RECV_WORDS, ToeHead, View, flags, slot, toe_kind as kind, value,
};
use super::{RefuseReason, RestoreReason, ToeId};

/// What the device reports of connections that it runs (Connection handoff policies §2), on the receive ring of their flow's queue.
///
/// Once `Acked`, `Closed`, `Restored` or a refusal is on the ring, the device reads the memory of which it speaks no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToeEvent {
    /// The flow's packets that come from now on are held: the host may [offer](super::ToeCommand::Offer) the connection.
    Ready {
        /// The connection.
        toe: ToeId,
    },
    /// The device will not run it.
    Refused {
        /// The connection.
        toe: ToeId,
        /// Why not.
        reason: RefuseReason,
    },
    /// The device runs it.
    Accepted {
        /// The connection.
        toe: ToeId,
    },
    /// TCP has taken a part of the [`Packet`](super::super::Packet) that follows directly, in order or not; no acknowledgment of it
    /// has left before this.
    Delivered {
        /// The connection.
        toe: ToeId,
        /// Position of the first byte taken.
        seq: SeqNum,
        /// Payload bytes of the packet before it.
        skip: u32,
        /// Payload bytes taken; 0 when only the packet's placed parts are reported.
        len: u32,
        /// All before it is in order; a FIN is not counted.
        rcv_nxt: SeqNum,
        /// As in [`Acked`](Self::Acked): an answer acknowledges what it answers.
        snd_una: SeqNum,
        /// As in [`Acked`](Self::Acked).
        flight: u32,
    },
    /// The peer has acknowledged more and sent nothing: reported when it is a quarter of what is queued, 64 KiB, or all; at most once a
    /// flush.
    Acked {
        /// The connection.
        toe: ToeId,
        /// Everything before it is acknowledged; our FIN too, if it lies behind that.
        snd_una: SeqNum,
        /// Bytes that may be under way at once, as the congestion window and the peer's window stand.
        flight: u32,
    },
    /// The peer will send no more; all that it has sent was delivered before.
    PeerFin {
        /// The connection.
        toe: ToeId,
        /// The position behind the FIN.
        rcv_nxt: SeqNum,
    },
    /// The connection has ended, or has only TIME-WAIT before it. It is there no more.
    Closed {
        /// The connection.
        toe: ToeId,
        /// How.
        reason: CloseReason,
        /// What the host's TIME-WAIT table is to keep.
        time_wait: Option<TimeWaitEntry>,
    },
    /// The connection is the host's again; its control block is in its memory. The flow's packets that come behind this are the
    /// host's too.
    Restored {
        /// The connection.
        toe: ToeId,
        /// Why.
        reason: RestoreReason,
    },
    /// What is to be sent is not where its context is: the connection sends nothing until it is
    /// [resumed](super::ToeCommand::Resume).
    Recover {
        /// The connection.
        toe: ToeId,
        /// The context.
        context: ContextId,
        /// Where the next segment begins.
        tcpsn: SeqNum,
        /// Everything before it has been sent once.
        sent: SeqNum,
    },
    /// How many connections the device runs at most, for all functions together.
    Room {
        /// Soft_limit.
        soft_limit: u32,
        /// Those that it runs now.
        active: u32,
    },
    /// A descriptor of the command ring was refused.
    CommandFailed {
        /// Index of its first slot in the command ring of this queue.
        index: u64,
        /// The context it named.
        context: Option<ContextId>,
        /// Where in the stream.
        tcpsn: SeqNum,
        /// What was wrong.
        error: ErrorCode,
    },
}

const TIME_WAIT: u8 = layout::ToeClosed::TIME_WAIT;
const TIMESTAMPS: u8 = layout::ToeClosed::TIMESTAMPS;

impl ToeEvent {
    /// The connection, if it speaks of one.
    pub fn toe(&self) -> Option<ToeId> {
        match *self {
            ToeEvent::Ready { toe }
            | ToeEvent::Refused { toe, .. }
            | ToeEvent::Accepted { toe }
            | ToeEvent::Delivered { toe, .. }
            | ToeEvent::Acked { toe, .. }
            | ToeEvent::PeerFin { toe, .. }
            | ToeEvent::Closed { toe, .. }
            | ToeEvent::Restored { toe, .. }
            | ToeEvent::Recover { toe, .. } => Some(toe),
            ToeEvent::Room { .. } | ToeEvent::CommandFailed { .. } => None,
        }
    }

    /// The connection of a [`Delivered`](Self::Delivered), by the first words of a slot of events.
    pub(in crate::ring) fn delivered_to(words: &[u64; 2]) -> Option<ToeId> {
        let head: &ToeHead = transmute_ref!(words);
        (head.kind == kind::DELIVERED).then(|| head.toe.into())
    }

    pub(in crate::ring) fn encode(&self) -> [u64; RECV_WORDS] {
        let head = |kind| self.head(kind, (0, 0));
        match *self {
            ToeEvent::Ready { .. } => head(kind::READY).words(),
            ToeEvent::Refused { reason, .. } => self.head(kind::REFUSED, reason.to_bytes()).words(),
            ToeEvent::Accepted { .. } => head(kind::ACCEPTED).words(),
            ToeEvent::Delivered {
                seq,
                skip,
                len,
                rcv_nxt,
                snd_una,
                flight,
                ..
            } => {
                let head = head(kind::DELIVERED);
                slot!(ToeDelivered: head = head, seq, skip, len, rcv_nxt, snd_una, flight).words()
            }
            ToeEvent::Acked {
                snd_una, flight, ..
            } => slot!(ToeAcked: head = head(kind::ACKED), snd_una, flight).words(),
            ToeEvent::PeerFin { rcv_nxt, .. } => {
                slot!(ToePeerFin: head = head(kind::PEER_FIN), rcv_nxt).words()
            }
            ToeEvent::Closed {
                reason, time_wait, ..
            } => closed(head(kind::CLOSED), reason, time_wait).words(),
            ToeEvent::Restored { reason, .. } => {
                let head = self.head(kind::RESTORED, reason.to_bytes());
                let context = reason.context();
                slot!(ToeRestored: head = head, context).words()
            }
            ToeEvent::Recover {
                context,
                tcpsn,
                sent,
                ..
            } => slot!(ToeRecover: head = head(kind::RECOVER), context, tcpsn, sent).words(),
            ToeEvent::Room { soft_limit, active } => {
                slot!(ToeRoom: head = head(kind::ROOM), soft_limit, active).words()
            }
            ToeEvent::CommandFailed {
                index,
                context,
                tcpsn,
                error,
            } => {
                let head = self.head(kind::COMMAND_FAILED, (error as u8, 0));
                slot!(ToeCommandFailed: head = head, index, context, tcpsn).words()
            }
        }
    }

    fn head(&self, kind: u8, (reason, detail): (u8, u8)) -> ToeHead {
        ToeHead {
            opcode: ToeHead::OPCODE,
            kind,
            reason,
            detail,
            toe: self.toe().map_or(FromZeros::new_zeroed(), Into::into),
            ..FromZeros::new_zeroed()
        }
    }

    /// `None` for words that no device of ours writes.
    pub(in crate::ring) fn decode(words: &[u64; RECV_WORDS]) -> Option<ToeEvent> {
        let head = ToeHead::of(words);
        let toe = head.toe.into();
        Some(match head.kind {
            kind::READY => ToeEvent::Ready { toe },
            kind::REFUSED => ToeEvent::Refused {
                toe,
                reason: RefuseReason::from_bytes(head.reason, head.detail)?,
            },
            kind::ACCEPTED => ToeEvent::Accepted { toe },
            kind::DELIVERED => {
                value!(ToeEvent::Delivered { toe } of ToeDelivered(words): seq, skip, len, rcv_nxt, snd_una, flight)
            }
            kind::ACKED => value!(ToeEvent::Acked { toe } of ToeAcked(words): snd_una, flight),
            kind::PEER_FIN => value!(ToeEvent::PeerFin { toe } of ToePeerFin(words): rcv_nxt),
            kind::CLOSED => ToeEvent::Closed {
                toe,
                reason: close_from_byte(head.reason)?,
                time_wait: time_wait(layout::ToeClosed::of(words)),
            },
            kind::RESTORED => {
                let context = ContextId::named(layout::ToeRestored::of(words).context);
                ToeEvent::Restored {
                    toe,
                    reason: RestoreReason::from_bytes(head.reason, head.detail, context)?,
                }
            }
            kind::RECOVER => {
                value!(ToeEvent::Recover { toe } of ToeRecover(words): context, tcpsn, sent)
            }
            kind::ROOM => value!(ToeEvent::Room of ToeRoom(words): soft_limit, active),
            kind::COMMAND_FAILED => {
                let error = ErrorCode::from_byte(head.reason)?;
                value!(ToeEvent::CommandFailed { error } of ToeCommandFailed(words): index, context, tcpsn)
            }
            _ => return None,
        })
    }
}

fn closed(
    head: ToeHead,
    reason: CloseReason,
    time_wait: Option<TimeWaitEntry>,
) -> layout::ToeClosed {
    let timestamps = time_wait.and_then(|entry| entry.timestamps);
    let mut closed = slot!(ToeClosed: head = ToeHead {
        reason: close_to_byte(reason),
        flags: flags([
            (time_wait.is_some(), TIME_WAIT),
            (timestamps.is_some(), TIMESTAMPS),
        ]),
        ..head
    });
    if let Some(entry) = time_wait {
        closed.snd_nxt = entry.snd_nxt.0;
        closed.rcv_nxt = entry.rcv_nxt.0;
        closed.rcv_wnd = entry.rcv_wnd;
        closed.window = entry.window.into();
        (closed.recent, closed.value) = timestamps.unwrap_or_default();
    }
    closed
}

fn time_wait(closed: &layout::ToeClosed) -> Option<TimeWaitEntry> {
    let has = |flag: u8| closed.head.flags & flag != 0;
    has(TIME_WAIT).then(|| TimeWaitEntry {
        snd_nxt: SeqNum(closed.snd_nxt),
        rcv_nxt: SeqNum(closed.rcv_nxt),
        rcv_wnd: closed.rcv_wnd,
        window: closed.window as u16,
        timestamps: has(TIMESTAMPS).then_some((closed.recent, closed.value)),
    })
}

fn close_to_byte(reason: CloseReason) -> u8 {
    match reason {
        CloseReason::Graceful => 1,
        CloseReason::Reset => 2,
        CloseReason::Refused => 3,
        CloseReason::TimedOut => 4,
        CloseReason::Aborted => 5,
    }
}

/// How a connection has ended, by its number.
pub(in crate::ring) fn close_from_byte(byte: u8) -> Option<CloseReason> {
    Some(match byte {
        1 => CloseReason::Graceful,
        2 => CloseReason::Reset,
        3 => CloseReason::Refused,
        4 => CloseReason::TimedOut,
        5 => CloseReason::Aborted,
        _ => return None,
    })
}
