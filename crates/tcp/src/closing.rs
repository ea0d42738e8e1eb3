//! Connections that a NIC finishes in our place (AccelTCP, "Connection Teardown Offload").

use std::time::{Duration, Instant};

use wire::SeqNum;

use crate::recovery::Phase;
use crate::{Connection, State};

/// What is left of a connection that closes: all that a NIC needs to finish it (RFC 9293 §3.10.4).
///
/// The bytes still to be sent, `[snd_una, end)`, are with the owner of the send queue; the FIN is at `end` and counted by nothing
/// here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closing {
    /// ESTABLISHED or CLOSE-WAIT: this side has not closed yet.
    pub state: State,
    /// Oldest position not acknowledged.
    pub snd_una: SeqNum,
    /// Next position to be sent for the first time.
    pub snd_nxt: SeqNum,
    /// Position after the last byte queued.
    pub end: SeqNum,
    /// Next position expected from the peer; counts its FIN in CLOSE-WAIT.
    pub rcv_nxt: SeqNum,
    /// The peer's window beyond `snd_una`, in bytes.
    pub peer_window: u32,
    /// Shift of the windows that the peer announces.
    pub peer_shift: u8,
    /// Shift of the windows that we announce.
    pub our_shift: u8,
    /// The window field of the segments that we send.
    pub window: u16,
    /// Payload bytes per packet.
    pub mss: u16,
    /// The peer's latest timestamp, and our TSval now, if timestamps are in use.
    pub timestamps: Option<(u32, u32)>,
    /// Retransmission timeout (RFC 6298).
    pub rto: Duration,
}

impl Connection {
    /// What a NIC needs to close this connection in our place. `None` if a NIC can't finish it: it is not
    /// established, closes already, has something that was not read, is recovering from a loss, or has so much to send
    /// (more than the initial window, RFC 6928) that congestion control is needed.
    pub fn closing(&self, now: Instant) -> Option<Closing> {
        let snd = &self.snd;
        let left = snd.una.distance_to(snd.write_seq);
        let is_calm = self.recovery.phase == Phase::Open
            && self.board.lost() == 0
            && self.board.sacked() == 0
            && self.rtt.backoff.doublings() == 0
            && snd.reset_at.is_none()
            && !snd.due.tail_probe
            && !self.ecn.owes()
            && self.rack.probe.is_none();
        let fits =
            left <= self.congestion.initial().min(self.congestion.cwnd()) && snd.window.bytes() > 0;
        let is_open = matches!(self.state, State::Established | State::CloseWait);
        let is_read = self.unread() == 0 && !self.rcv.has_gaps();
        if !(is_calm && fits && is_open && is_read) || snd.fin_queued || self.detached {
            return None;
        }
        let now = self.time(now);
        Some(Closing {
            state: self.state,
            snd_una: snd.una,
            snd_nxt: snd.nxt,
            end: snd.write_seq,
            rcv_nxt: self.rcv.nxt,
            peer_window: snd.window.bytes(),
            peer_shift: self.options.snd_shift,
            our_shift: self.options.rcv_shift,
            window: self.rcv.window_field(self.options.rcv_shift),
            mss: snd.mss,
            timestamps: self
                .options
                .timestamps
                .then(|| (self.timestamps.recent, self.timestamps.value(now))),
            rto: Duration::from_nanos(self.rtt.rto()),
        })
    }
}
