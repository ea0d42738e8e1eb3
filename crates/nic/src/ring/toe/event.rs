//! What the device tells of connections that it runs.

use tcp::{CloseReason, TimeWaitEntry};
use wire::SeqNum;

use super::super::error::ErrorCode;
use super::super::layout::{ContextId, pair, unpair};
use super::super::receive::RECV_WORDS;
use super::{RefuseReason, RestoreReason, ToeId};

/// What the device tells of connections that it runs, on the receive ring of their flow's queue.
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
        /// Payload bytes taken. None, when only the packet's placed parts are to be told.
        len: u32,
        /// All before it is in order; a FIN is not counted.
        rcv_nxt: SeqNum,
        /// As in [`Acked`](Self::Acked): an answer acknowledges what it answers.
        snd_una: SeqNum,
        /// As in [`Acked`](Self::Acked).
        flight: u32,
    },
    /// The peer has acknowledged more and sent nothing: told when it is a quarter of what is queued, 64 KiB, or all; at most once a
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

const READY: u8 = 1;
const REFUSED: u8 = 2;
const ACCEPTED: u8 = 3;
const DELIVERED: u8 = 4;
const ACKED: u8 = 5;
const PEER_FIN: u8 = 6;
const CLOSED: u8 = 7;
const RESTORED: u8 = 8;
const RECOVER: u8 = 9;
const ROOM: u8 = 10;
const COMMAND_FAILED: u8 = 11;

const TIME_WAIT: u64 = 1;
const TIMESTAMPS: u64 = 2;

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

    /// The connection of a [`Delivered`](Self::Delivered), by the first words.
    pub(in crate::ring) fn delivered_to(words: &[u64; 2]) -> Option<ToeId> {
        let [_, kind, ..] = words[0].to_le_bytes();
        let (index, generation) = unpair(words[1]);
        (kind == DELIVERED).then_some(ToeId { index, generation })
    }

    /// Writes the words; the opcode is the caller's.
    pub(in crate::ring) fn encode(&self, words: &mut [u64; RECV_WORDS]) {
        if let Some(toe) = self.toe() {
            words[1] = pair(toe.index, toe.generation);
        }
        let mut head = |kind: u8, reason: u8, detail: u8| {
            words[0] |= u64::from(kind) << 8 | u64::from(reason) << 16 | u64::from(detail) << 24;
        };
        match *self {
            ToeEvent::Ready { .. } => head(READY, 0, 0),
            ToeEvent::Refused { reason, .. } => {
                let (reason, field) = reason.to_bytes();
                head(REFUSED, reason, field);
            }
            ToeEvent::Accepted { .. } => head(ACCEPTED, 0, 0),
            ToeEvent::Delivered {
                seq,
                skip,
                len,
                rcv_nxt,
                snd_una,
                flight,
                ..
            } => {
                head(DELIVERED, 0, 0);
                words[2] = pair(seq.0, skip);
                words[3] = pair(len, rcv_nxt.0);
                words[4] = pair(snd_una.0, flight);
            }
            ToeEvent::Acked {
                snd_una, flight, ..
            } => {
                head(ACKED, 0, 0);
                words[2] = pair(snd_una.0, flight);
            }
            ToeEvent::PeerFin { rcv_nxt, .. } => {
                head(PEER_FIN, 0, 0);
                words[2] = u64::from(rcv_nxt.0);
            }
            ToeEvent::Closed {
                reason, time_wait, ..
            } => {
                head(CLOSED, close_to_byte(reason), 0);
                if let Some(entry) = time_wait {
                    words[0] |= TIME_WAIT << 32;
                    words[2] = pair(entry.snd_nxt.0, entry.rcv_nxt.0);
                    words[3] = pair(entry.rcv_wnd, entry.window.into());
                    if let Some((recent, value)) = entry.timestamps {
                        words[0] |= TIMESTAMPS << 32;
                        words[4] = pair(recent, value);
                    }
                }
            }
            ToeEvent::Restored { reason, .. } => {
                let context = reason.context();
                let (reason, error) = reason.to_bytes();
                head(RESTORED, reason, error);
                words[2] = context.map_or(ContextId::NONE, |id| id.0).into();
            }
            ToeEvent::Recover {
                context,
                tcpsn,
                sent,
                ..
            } => {
                head(RECOVER, 0, 0);
                words[2] = pair(context.0, tcpsn.0);
                words[3] = u64::from(sent.0);
            }
            ToeEvent::Room { soft_limit, active } => {
                head(ROOM, 0, 0);
                words[2] = pair(soft_limit, active);
            }
            ToeEvent::CommandFailed {
                index,
                context,
                tcpsn,
                error,
            } => {
                head(COMMAND_FAILED, error as u8, 0);
                words[2] = index;
                words[3] = pair(context.map_or(ContextId::NONE, |id| id.0), tcpsn.0);
            }
        }
    }

    /// `None` for words that no device of ours writes.
    pub(in crate::ring) fn decode(words: &[u64; RECV_WORDS]) -> Option<ToeEvent> {
        let [_, kind, reason, detail, flags, ..] = words[0].to_le_bytes();
        let flags = u64::from(flags);
        let (index, generation) = unpair(words[1]);
        let toe = ToeId { index, generation };
        let (low, high) = unpair(words[2]);
        let (third, fourth) = unpair(words[3]);
        let (fifth, sixth) = unpair(words[4]);
        Some(match kind {
            READY => ToeEvent::Ready { toe },
            REFUSED => ToeEvent::Refused {
                toe,
                reason: RefuseReason::from_bytes(reason, detail)?,
            },
            ACCEPTED => ToeEvent::Accepted { toe },
            DELIVERED => ToeEvent::Delivered {
                toe,
                seq: SeqNum(low),
                skip: high,
                len: third,
                rcv_nxt: SeqNum(fourth),
                snd_una: SeqNum(fifth),
                flight: sixth,
            },
            ACKED => ToeEvent::Acked {
                toe,
                snd_una: SeqNum(low),
                flight: high,
            },
            PEER_FIN => ToeEvent::PeerFin {
                toe,
                rcv_nxt: SeqNum(low),
            },
            CLOSED => ToeEvent::Closed {
                toe,
                reason: close_from_byte(reason)?,
                time_wait: (flags & TIME_WAIT != 0).then(|| TimeWaitEntry {
                    snd_nxt: SeqNum(low),
                    rcv_nxt: SeqNum(high),
                    rcv_wnd: third,
                    window: fourth as u16,
                    timestamps: (flags & TIMESTAMPS != 0).then_some((fifth, sixth)),
                }),
            },
            RESTORED => ToeEvent::Restored {
                toe,
                reason: RestoreReason::from_bytes(reason, detail, context(low))?,
            },
            RECOVER => ToeEvent::Recover {
                toe,
                context: ContextId(low),
                tcpsn: SeqNum(high),
                sent: SeqNum(third),
            },
            ROOM => ToeEvent::Room {
                soft_limit: low,
                active: high,
            },
            COMMAND_FAILED => ToeEvent::CommandFailed {
                index: words[2],
                context: context(third),
                tcpsn: SeqNum(fourth),
                error: ErrorCode::from_byte(reason)?,
            },
            _ => return None,
        })
    }
}

fn context(id: u32) -> Option<ContextId> {
    (id != ContextId::NONE).then_some(ContextId(id))
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

fn close_from_byte(byte: u8) -> Option<CloseReason> {
    Some(match byte {
        1 => CloseReason::Graceful,
        2 => CloseReason::Reset,
        3 => CloseReason::Refused,
        4 => CloseReason::TimedOut,
        5 => CloseReason::Aborted,
        _ => return None,
    })
}
