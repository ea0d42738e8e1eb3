//! A connection that another owner runs, as the one who has handed it off sees it (Connection handoff policies §2).
//!
//! While the other owner (a NIC) runs TCP, this side keeps the connection *parked*: commands count here as ever (`queue`,
//! `consumed`, `close`, `detach`, `abort`), and its keeper passes them on; nothing is sent, and no timer runs. What the other owner
//! says of its work comes in by `handle_*`. So this side always knows the last state that both have agreed on: the other
//! owner hands the connection back by a [`Tcb`] ([`Connection::bring_back`]), or is gone with it, and this side goes on from what
//! was reported last ([`Connection::take_over`]).

use std::num::NonZeroU32;
use std::time::Instant;

use wire::SeqNum;

use crate::{Connection, State, Tcb, TimerSnapshot};

/// What may be under way at once of a parked connection, as the other owner has said last: at least a byte.
pub(crate) type Flight = NonZeroU32;

fn flight(bytes: u32) -> Flight {
    Flight::new(bytes).unwrap_or(Flight::MIN)
}

/// What another owner says of a connection can't be: the two disagree on this field of its [`Tcb`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disagreement(pub &'static str);

impl std::fmt::Display for Disagreement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` is not what was posted and reported before", self.0)
    }
}

impl std::error::Error for Disagreement {}

impl Connection {
    /// Another owner runs the connection from here on, with the [`Tcb`] that was just taken out.
    pub fn park(&mut self) {
        self.parked = Some(flight(self.flight_limit()));
    }

    /// The other owner has not taken it: all is as it was, but for the commands that were given meanwhile.
    pub fn unpark(&mut self) {
        self.parked = None;
    }

    /// Another owner runs the connection.
    #[inline]
    pub fn is_parked(&self) -> bool {
        self.parked.is_some()
    }

    /// A FIN comes after what is queued.
    #[inline]
    pub fn is_fin_queued(&self) -> bool {
        self.snd.fin_queued
    }

    /// The application reads no more ([`detach`](Self::detach)).
    #[inline]
    pub fn is_detached(&self) -> bool {
        self.detached
    }

    /// Nagle's algorithm is on.
    #[inline]
    pub fn has_nagle(&self) -> bool {
        self.settings.nagle
    }

    /// Only full segments are sent ([`set_cork`](Self::set_cork)).
    #[inline]
    pub fn is_corked(&self) -> bool {
        self.snd.cork
    }

    /// Position of the first byte that the application has not consumed.
    #[inline]
    pub fn read_seq(&self) -> SeqNum {
        self.rcv.read_seq()
    }

    /// What is in order now, as the other owner has it: everything before `rcv_nxt`, which does not count a FIN. False if that can't
    /// be.
    pub fn handle_received(&mut self, rcv_nxt: SeqNum) -> bool {
        let nxt = self.rcv.nxt - u32::from(self.rcv.fin_taken);
        if rcv_nxt == nxt {
            return true;
        }
        if rcv_nxt.before(nxt) || self.rcv.fin_taken {
            return false;
        }
        self.stats.bytes_received += u64::from(nxt.distance_to(rcv_nxt));
        self.rcv.advance(rcv_nxt);
        true
    }

    /// The peer has acknowledged everything before `una`, and so many bytes may be under way at once:
    /// [`Event::Acked`](crate::Event::Acked) follows. False if that was never queued.
    pub fn handle_acked(&mut self, una: SeqNum, bytes_under_way: u32) -> bool {
        let end = self.snd.write_seq + u32::from(self.snd.fin_queued);
        if una.before(self.snd.una) || una.after(end) {
            return false;
        }
        if let Some(parked) = &mut self.parked {
            *parked = flight(bytes_under_way);
        }
        if una != self.snd.una {
            self.count_sent(una);
            self.count_acked(una);
            self.snd.nxt = self.snd.nxt.max(una);
            self.snd.advance(una);
            self.events.acked = true;
        }
        if una.after(self.snd.write_seq) && self.state == State::FinWait1 {
            self.state = State::FinWait2;
        }
        true
    }

    /// The peer's FIN has been reached, and is counted in `rcv_nxt`: [`Event::PeerFin`](crate::Event::PeerFin) follows. False if that
    /// can't be.
    pub fn handle_fin(&mut self, rcv_nxt: SeqNum) -> bool {
        if self.rcv.fin_taken {
            return rcv_nxt == self.rcv.nxt;
        }
        if rcv_nxt != self.rcv.nxt + 1 {
            return false;
        }
        self.rcv.fin = Some(self.rcv.nxt);
        self.rcv.advance(rcv_nxt);
        self.rcv.fin_taken = true;
        self.events.peer_fin = true;
        self.state = match self.state {
            State::Established => State::CloseWait,
            State::FinWait1 => State::Closing,
            // The other owner reports the rest.
            state => state,
        };
        true
    }

    /// The other owner hands the connection back. What was queued, consumed or closed here meanwhile counts, whether the
    /// other owner has heard of it or not.
    ///
    /// # Errors
    /// The field in which the control block contradicts what was posted to the other owner or reported by it. The connection is
    /// parked still.
    pub fn bring_back(&mut self, now: Instant, tcb: &Tcb) -> Result<(), Disagreement> {
        self.agrees(tcb)?;
        let state = match (tcb.fin_queued, self.snd.fin_queued, tcb.fin_taken) {
            (false, true, false) => State::FinWait1,
            (false, true, true) => State::LastAck,
            _ => tcb.state,
        };
        let acked = tcb.snd_una != self.snd.una;
        self.count_sent(tcb.snd_nxt);
        self.count_acked(tcb.snd_una);
        let merged = Tcb {
            state,
            write_seq: self.snd.write_seq,
            fin_queued: self.snd.fin_queued,
            unread: self.rcv.unread(),
            ..tcb.clone()
        };
        self.resume_with(now, &merged, acked);
        Ok(())
    }

    /// The other owner is gone, and nothing is known of the connection but what was posted to it (everything before `posted`,
    /// and with `fin` the FIN behind it) and what it has reported. `held`: what is kept that came out of order. Of the peer's window as much is
    /// good as might be under way by what was reported last: a peer that knows of the connection by its first data only (a cookie, or
    /// `TCP_DEFER_ACCEPT`) answers nothing before these. It is asked for the rest at once.
    pub fn take_over(
        &mut self,
        now: Instant,
        posted: SeqNum,
        fin: bool,
        held: impl Iterator<Item = (SeqNum, SeqNum)>,
    ) {
        let Some(left) = self.tcb(now) else {
            // It was aborted: the reset is still to be sent, as close as can be to where the other owner stood. The peer
            // looks at one in its window only (RFC 5961 §3.2).
            let under_way = self.parked.take().map_or(0, Flight::get);
            let sent = (posted + u32::from(fin)).min(self.snd.una + under_way);
            self.snd.reset_at = self.snd.reset_at.map(|_| sent.max(self.snd.una));
            return;
        };
        let fin_acked = left.fin_queued && left.snd_una.after(left.write_seq);
        let state = match (left.fin_queued, fin_acked, left.fin_taken) {
            (false, _, false) => State::Established,
            (false, _, true) => State::CloseWait,
            (true, false, false) => State::FinWait1,
            (true, false, true) if left.state == State::Closing => State::Closing,
            (true, false, true) => State::LastAck,
            (true, true, false) => State::FinWait2,
            (true, true, true) => State::TimeWait,
        };
        let snd_nxt = posted.max(left.snd_nxt).min(left.write_seq) + u32::from(fin);
        let end = left.write_seq + u32::from(left.fin_queued);
        let linger = (state == State::TimeWait)
            .then(|| std::time::Duration::from_nanos(self.settings.time_wait()));
        let tcb = Tcb {
            state,
            snd_nxt: snd_nxt.max(left.snd_una).min(end),
            snd_wnd: self.parked.map_or(0, Flight::get),
            rcv_edge: left.rcv_edge.max(left.rcv_nxt + left.rcv_buffer),
            held: held
                .filter(|(start, _)| start.after(left.rcv_nxt))
                .collect(),
            owes_ack: true,
            linger,
            // Of whom was waited for, and how long, nothing is known either.
            timer_snapshot: TimerSnapshot::default(),
            ..left
        };
        self.count_sent(tcb.snd_nxt);
        self.resume_with(now, &tcb, false);
        self.snd.due.probe = state != State::TimeWait;
    }

    /// Counts payload that another owner has received, sent, and seen acknowledged, without this side hearing of it.
    pub fn count_forwarded(&mut self, received: u64, sent: u64, acked: u64) {
        self.stats.bytes_received += received;
        self.stats.bytes_sent += sent;
        self.stats.bytes_acked += acked;
    }

    /// Counts the payload that the other owner has sent, up to `nxt`. Its retransmissions are not known here.
    fn count_sent(&mut self, nxt: SeqNum) {
        let sent = self.payload_between(self.snd.nxt, nxt);
        self.stats.bytes_sent += sent;
    }

    /// Counts the payload that the peer has acknowledged, up to `una`.
    fn count_acked(&mut self, una: SeqNum) {
        let acked = self.payload_between(self.snd.una, una);
        self.stats.bytes_acked += acked;
    }

    /// Bytes of payload from `start` up to `end`, which may lie behind the FIN.
    fn payload_between(&self, start: SeqNum, end: SeqNum) -> u64 {
        let end = end.min(self.snd.write_seq);
        match end.after(start) {
            true => u64::from(start.distance_to(end)),
            false => 0,
        }
    }

    fn resume_with(&mut self, now: Instant, tcb: &Tcb, acked: bool) {
        let aborted = self.state == State::Closed;
        let detached = self.detached;
        self.parked = None;
        // What the other owner reported may not have been polled yet.
        let untold = std::mem::take(&mut self.events);
        self.take_back(now, tcb);
        self.events.acked = acked || untold.acked;
        self.events.peer_fin |= untold.peer_fin;
        if detached && !aborted {
            self.detach(now);
        }
        if aborted {
            self.abort();
            self.events.closed = None;
        }
    }

    /// Whether a control block can be what became of this connection since it was parked.
    fn agrees(&self, tcb: &Tcb) -> Result<(), Disagreement> {
        let snd = &self.snd;
        let end = tcb.write_seq + u32::from(tcb.fin_queued);
        let checks = [
            ("state", tcb.state.is_synchronized()),
            ("src_port", tcb.src_port == self.src_port),
            ("dst_port", tcb.dst_port == self.dst_port),
            (
                "snd_una",
                snd.una.at_or_before(tcb.snd_una) && tcb.snd_una.at_or_before(end),
            ),
            (
                "snd_nxt",
                tcb.snd_una.at_or_before(tcb.snd_nxt) && tcb.snd_nxt.at_or_before(end),
            ),
            ("write_seq", tcb.write_seq.at_or_before(snd.write_seq)),
            (
                "fin_queued",
                !tcb.fin_queued || (snd.fin_queued && tcb.write_seq == snd.write_seq),
            ),
            ("rcv_nxt", tcb.rcv_nxt == self.rcv.nxt),
            ("fin_taken", tcb.fin_taken == self.rcv.fin_taken),
            (
                "mss",
                tcb.mss >= 64 && tcb.mss <= self.settings.adv_mss.max(self.settings.mss),
            ),
            (
                "timestamps",
                tcb.timestamps.is_some() == self.options.timestamps,
            ),
            ("ecn", tcb.ecn.is_some() == self.ecn.is_on()),
        ];
        match checks.into_iter().find(|(_, holds)| !holds) {
            Some((field, _)) => Err(Disagreement(field)),
            None => Ok(()),
        }
    }
}
