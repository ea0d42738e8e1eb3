//! What a connection gives back: segments to send, verdicts on segments received, events.

use wire::SeqNum;
use wire::tcp::Header;

/// A segment to send. TSO-sized: cut it into packets of [`mss`](Self::mss) payload bytes each, sequence numbers
/// advancing; FIN and PSH belong to the last packet only.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transmit {
    /// The header of the first packet; `header.seq` is the position of the first payload byte.
    pub header: Header,
    /// Payload bytes, taken from the send queue at `header.seq`.
    pub payload: u32,
    /// Payload bytes per packet on the wire.
    pub mss: u16,
    /// Any of it was sent before.
    pub retransmit: bool,
}

/// What became of a segment's payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// The part of the payload that is inside the window and not yet acknowledged, if any.
    pub data: Option<Accepted>,
    /// `rcv_nxt` moved: what was stored in order may now be read.
    pub advanced: bool,
    /// The peer's FIN has been reached, with all data before it (also given as [`Event::PeerFin`]).
    pub fin: bool,
    /// The segment was acceptable, and of a peer that had not ended its stream: what its urgent pointer says counts (RFC 9293 §3.10.7.4, sixth).
    pub counts_urgent: bool,
}

/// `payload[skip..skip + len]` is new and in the window: store it at `seq`.
///
/// It may overlap what was stored out of order before; [`Reassembly`](crate::Reassembly) keeps the first copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Bytes of the payload to skip.
    pub skip: u32,
    /// Bytes to keep.
    pub len: u32,
    /// Position of the first byte kept.
    pub seq: SeqNum,
}

/// What happened to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The handshake is complete.
    Connected,
    /// The peer has acknowledged everything before this position: buffers up to it may go.
    Acked(SeqNum),
    /// The peer will send no more: after what has been received, end of file.
    PeerFin,
    /// The connection is in TIME-WAIT: its owner may move it to the [`TimeWait`](crate::TimeWait) table.
    TimeWait,
    /// The connection has ended.
    Closed(CloseReason),
    /// Something that hosts count.
    Counted(Counted),
}

/// What hosts count, named as in Linux's `TcpExt` and `IpExt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Counted {
    /// `TCPTimeouts`: a retransmission timeout.
    Timeout,
    /// `TCPSpuriousRTOs`: one that came too early, and was taken back.
    SpuriousTimeout,
    /// `InCEPkts`: a segment whose packets were marked on the way.
    CongestionExperienced,
    /// `TCPMTUPFail`: full segments, or a larger one, were sent in vain, and no router has told.
    BlackHole,
    /// `TCPMTUPSuccess`: a packet that was larger than all before has arrived.
    PathRaised,
}

impl Counted {
    const ALL: [Counted; 5] = [
        Counted::Timeout,
        Counted::SpuriousTimeout,
        Counted::CongestionExperienced,
        Counted::BlackHole,
        Counted::PathRaised,
    ];
}

/// What is to be counted; each at most once until it is polled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ToCount(u8);

impl ToCount {
    pub(crate) fn add(&mut self, counted: Counted) {
        self.0 |= 1 << counted as u8;
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn take(&mut self) -> Option<Counted> {
        let mut all = Counted::ALL.into_iter();
        let counted = all.find(|counted| self.0 >> *counted as u8 & 1 != 0)?;
        self.0 &= !(1 << counted as u8);
        Some(counted)
    }
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// Both sides closed in good order.
    Graceful,
    /// The peer reset it.
    Reset,
    /// The peer refused it (RST in answer to our SYN).
    Refused,
    /// The peer did not answer for too long.
    TimedOut,
    /// We aborted it.
    Aborted,
}

impl std::fmt::Display for CloseReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Graceful => "closed",
            Self::Reset => "connection reset by peer",
            Self::Refused => "connection refused",
            Self::TimedOut => "connection timed out",
            Self::Aborted => "connection aborted",
        })
    }
}
