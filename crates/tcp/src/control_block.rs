//! A control block taken out of a connection and put back into one: for another owner of the connection
//! (the NIC of AccelTCP, or of connection handoff policies).

use std::time::{Duration, Instant};

use wire::SeqNum;

use crate::ecn::EcnState;
use crate::options::{TIMESTAMPS_LEN, TimestampClock};
use crate::path::PathSearch;
use crate::rack::Rack;
use crate::recovery::Recovery;
use crate::sack::Scoreboard;
use crate::tcb::Pending;
use crate::time::nanos;
use crate::timer::{Timer, Timers};
use crate::{
    Backoff, ChallengeLimit, Config, Connection, EcnMode, KeepAlive, State, TimerSnapshot,
};

/// All that another owner must know of a connection in a synchronized state, and all that it hands back: plain data.
///
/// Positions are sequence numbers, windows are in bytes. What was sent and is not acknowledged (`snd_una..snd_nxt`), what is
/// queued (`snd_nxt..write_seq`) and what came out of order (`held`) go by number only: the payload is elsewhere, as it
/// is for a [`Connection`].
#[derive(Clone, Debug, PartialEq)]
pub struct Tcb {
    /// The state; a synchronized one.
    pub state: State,
    /// Our port.
    pub src_port: u16,
    /// The peer's port.
    pub dst_port: u16,
    /// SND.UNA.
    pub snd_una: SeqNum,
    /// SND.NXT.
    pub snd_nxt: SeqNum,
    /// The position after the last byte queued; of the FIN if [`fin_queued`](Self::fin_queued).
    pub write_seq: SeqNum,
    /// A FIN comes after what is queued. It was sent if `snd_nxt` is beyond `write_seq`, acknowledged if `snd_una` is.
    pub fin_queued: bool,
    /// SND.WND: what the peer takes from `snd_una` on.
    pub snd_wnd: u32,
    /// The largest window that the peer has offered.
    pub snd_wnd_max: u32,
    /// RCV.NXT. It counts the peer's FIN if [`fin_taken`](Self::fin_taken).
    pub rcv_nxt: SeqNum,
    /// Bytes in order before it that the application has not consumed.
    pub unread: u32,
    /// Right edge of the largest window that we have offered.
    pub rcv_edge: SeqNum,
    /// What the receive buffer takes.
    pub rcv_buffer: u32,
    /// The window field of the next segment.
    pub window: u16,
    /// The peer's FIN was taken.
    pub fin_taken: bool,
    /// Where the peer's FIN is, if it came before all data.
    pub fin_at: Option<SeqNum>,
    /// What came out of order, in ascending order.
    pub held: Vec<(SeqNum, SeqNum)>,
    /// The peer waits for an acknowledgment.
    pub owes_ack: bool,
    /// Payload and options per packet that both ends take.
    pub mss: u16,
    /// What we have announced that we take, in the same measure.
    pub adv_mss: u16,
    /// Shift of the windows that the peer announces, and of those that we announce; `None` without window scaling.
    pub shifts: Option<(u8, u8)>,
    /// Selective acknowledgments are agreed on.
    pub sack: bool,
    /// Timestamps, if they are agreed on.
    pub timestamps: Option<TcbTimestamps>,
    /// Explicit congestion notification, if it is agreed on.
    pub ecn: Option<TcbEcn>,
    /// The smoothed round-trip time and its variation, once known.
    pub rtt: Option<(Duration, Duration)>,
    /// The retransmission timeout, backed off as it is.
    pub rto: Duration,
    /// Slow start ends at this window.
    pub ssthresh: u32,
    /// The congestion window in bytes: [`take_back`](Connection::take_back) goes on with it, [`put_back`](Connection::put_back)
    /// does not.
    pub cwnd: u32,
    /// The application reads no more: what the peer sends is answered by a reset.
    pub detached: bool,
    /// What is left of TIME-WAIT, or of FIN-WAIT-2 when detached.
    pub linger: Option<Duration>,
    /// How long the peer was waited for: [`take_back`](Connection::take_back) and [`hand_over`](Connection::hand_over) go on with
    /// it, [`put_back`](Connection::put_back) does not.
    pub timer_snapshot: TimerSnapshot,
}

impl Tcb {
    /// Bytes that options take of every packet.
    pub fn option_bytes(&self) -> u16 {
        if self.timestamps.is_some() {
            TIMESTAMPS_LEN
        } else {
            0
        }
    }

    /// The window that the peer thinks it has, from `rcv_nxt` on.
    pub fn rcv_window(&self) -> u32 {
        if self.rcv_edge.after(self.rcv_nxt) {
            self.rcv_nxt.distance_to(self.rcv_edge)
        } else {
            0
        }
    }
}

/// What either side still has to be told of congestion (RFC 3168 §6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcbEcn {
    /// The peer's packets were marked, and it has not said yet that it has reduced its window: ECE.
    pub echo: bool,
    /// The window was reduced, and the peer is to be told: CWR.
    pub reduced: bool,
}

/// The clocks of RFC 7323.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcbTimestamps {
    /// TS.Recent: what we echo.
    pub recent: u32,
    /// How long ago that came.
    pub recent_age: Duration,
    /// TSval of a segment sent now; it goes on in milliseconds.
    pub val: u32,
}

impl Connection {
    /// All is settled between the peers as far as either knows: nothing unread, unsent, unacknowledged, out of order or owed,
    /// and neither side has closed its direction.
    pub fn is_drained(&self) -> bool {
        let snd = &self.snd;
        let sent = snd.una == snd.write_seq && !snd.fin_queued;
        let nothing_due = !snd.due.probe && !snd.due.tail_probe && snd.reset_at.is_none();
        self.state == State::Established
            && sent
            && nothing_due
            && self.rcv.unread() == 0
            && self.rcv.ranges.is_empty()
            && self.rcv.fin.is_none()
            && !self.owes_ack()
    }

    /// Something has come that we have not acknowledged.
    pub fn owes_ack(&self) -> bool {
        self.rcv.ack.now || self.rcv.ack.packets > 0 || self.rcv.last_ack_sent != self.rcv.nxt
    }

    /// An acknowledgment that is owed does not wait for company.
    pub fn acknowledge_now(&mut self) {
        self.rcv.ack.now |= self.owes_ack();
    }

    /// The control block as it stands, `None` in a state that is not synchronized. The connection must not be driven from here
    /// on, unless the other owner refuses it.
    pub fn tcb(&self, now: Instant) -> Option<Tcb> {
        if !self.state.is_synchronized() {
            return None;
        }
        let now = self.time(now);
        let (snd, rcv, options) = (&self.snd, &self.rcv, &self.options);
        Some(Tcb {
            state: self.state,
            src_port: self.src_port,
            dst_port: self.dst_port,
            snd_una: snd.una,
            snd_nxt: snd.nxt,
            write_seq: snd.write_seq,
            fin_queued: snd.fin_queued,
            snd_wnd: snd.window.bytes(),
            snd_wnd_max: snd.window.largest(),
            rcv_nxt: rcv.nxt,
            unread: rcv.unread(),
            rcv_edge: rcv.edge,
            rcv_buffer: rcv.buffer(),
            window: rcv.window_field(options.rcv_shift),
            fin_taken: rcv.fin_taken,
            fin_at: rcv.fin.filter(|_| !rcv.fin_taken),
            held: rcv.ranges.iter().collect(),
            owes_ack: self.owes_ack(),
            mss: self.settings.mss,
            adv_mss: self.settings.adv_mss,
            shifts: options
                .window_scale
                .then_some((options.snd_shift, options.rcv_shift)),
            sack: options.sack,
            timestamps: options.timestamps.then(|| self.timestamps.take_out(now)),
            ecn: self.ecn.take_out(),
            rtt: self
                .rtt
                .smoothed()
                .map(|smoothed| (span(smoothed), span(self.rtt.variation()))),
            rto: span(self.rtt.rto()),
            ssthresh: self.congestion.ssthresh(),
            cwnd: self.congestion.cwnd(),
            detached: self.detached,
            linger: self.timers.left(Timer::Linger, now).map(span),
            timer_snapshot: self.timer_snapshot(now),
        })
    }

    /// Goes on where another owner has stopped. What is in flight counts as sent just now, and tells no round-trip time; the congestion window is the initial
    /// one again, as after a pause (RFC 5681 §4.1), since nothing is known of the path meanwhile. Events that the
    /// other owner has seen are not reported again, but for the peer's FIN.
    pub fn put_back(&mut self, now: Instant, tcb: &Tcb) {
        debug_assert!(tcb.state.is_synchronized());
        let now = self.time(now);
        let knew_fin = self.rcv.fin_taken;
        self.state = tcb.state;
        self.settings.mss = tcb.mss;
        self.settings.adv_mss = tcb.adv_mss;
        // Another owner does not know more of what both ends take.
        self.settings.full_mss = self.settings.full_mss.max(tcb.mss);
        self.options.window_scale = tcb.shifts.is_some();
        (self.options.snd_shift, self.options.rcv_shift) = tcb.shifts.unwrap_or_default();
        self.options.sack = tcb.sack;
        self.options.timestamps = tcb.timestamps.is_some();
        if let Some(timestamps) = &tcb.timestamps {
            self.timestamps = TimestampClock::put_back(now, timestamps);
        }
        self.snd.put_back(tcb);
        self.snd.sent_at = now;
        self.snd.progress_at = now;
        self.rcv.put_back(now, tcb);
        self.path = PathSearch::new();
        self.apply_mss();
        self.congestion.restart(tcb.ssthresh);
        self.board = Scoreboard::new(tcb.snd_una);
        if tcb.snd_una != tcb.snd_nxt {
            let mss = self.snd.mss;
            self.board.adopt(tcb.snd_una, tcb.snd_nxt, now, mss);
        }
        self.recovery = Recovery::new(tcb.snd_una - 1);
        self.ecn = EcnState::put_back(tcb.ecn, tcb.snd_una);
        self.rack = Rack::new(tcb.snd_una);
        if let Some((smoothed, variation)) = tcb.rtt {
            self.rtt.put_back(nanos(smoothed), nanos(variation));
        }
        self.rtt.backoff = Backoff::default();
        self.detached = tcb.detached;
        self.probes = 0;
        self.heard_at = now;
        self.challenges = ChallengeLimit::new(now.millis());
        self.timers = Timers::new();
        if let Some(linger) = tcb.linger {
            self.timers.set(Timer::Linger, now.after(nanos(linger)));
        }
        if tcb.snd_una != tcb.snd_nxt {
            self.arm_loss_timer(now);
        }
        if tcb.state != State::TimeWait {
            self.arm_keep_alive(now);
        }
        self.events = Pending {
            peer_fin: tcb.fin_taken && !knew_fin,
            time_wait: tcb.state == State::TimeWait,
            ..Pending::default()
        };
    }

    /// As [`put_back`](Self::put_back), from an owner that has run the connection until now as we would have: the congestion
    /// window is what it was, and what is due is due when it was.
    pub fn take_back(&mut self, now: Instant, tcb: &Tcb) {
        self.put_back(now, tcb);
        self.congestion.set_cwnd(tcb.cwnd);
        self.wait_on(now, &tcb.timer_snapshot);
    }

    /// As [`resume`](Self::resume), from an owner that has run the connection until now as we do: the congestion window is what
    /// it was, and what is due is due when it was.
    pub fn hand_over(now: Instant, config: &Config, tcb: &Tcb) -> Self {
        let epoch = now.checked_sub(tcb.timer_snapshot.age()).unwrap_or(now);
        let mut connection = Self::of(epoch, config, tcb);
        connection.take_back(now, tcb);
        connection
    }

    /// The settings as they stand, for another owner that is to go on with them.
    pub fn config(&self) -> Config {
        let (settings, rcv) = (&self.settings, &self.rcv);
        Config {
            mss: settings.adv_mss,
            rcv_buf: rcv.buffer(),
            rcv_buf_max: rcv.buffer_max(),
            snd_buf: settings.snd_buf,
            congestion: self.congestion.algorithm(),
            ecn: EcnMode::default(),
            initial_window: self.congestion.initial_segments(),
            nagle: settings.nagle,
            delayed_ack: settings.delayed_ack().map(span),
            keep_alive: settings.keep_alive.map(KeepAlive::from),
            user_timeout: settings.user_timeout().map(span),
            timestamps: self.options.timestamps,
            sack: self.options.sack,
            window_scale: self.options.window_scale,
            tso_max: settings.tso_max,
            min_rto: span(self.rtt.min_rto()),
            mtu_probing: settings.mtu_probing,
            pacing: settings.pacing,
            syn_retries: settings.syn_retries,
            syn_ack_retries: settings.syn_retries,
            retries: settings.retries,
            orphan_retries: settings.orphan_retries,
            orphan_timeout: span(settings.orphan_timeout()),
            time_wait: span(settings.time_wait()),
            fin_wait_2: span(settings.fin_wait_2()),
        }
    }

    /// Another owner has brought the connection to its end: nothing is sent, and no event tells of it.
    pub fn conclude(&mut self) {
        self.unpark();
        self.finish(crate::CloseReason::Graceful);
        self.snd.reset_at = None;
        self.events = Pending::default();
    }

    /// A connection that another owner has had so far. Settings that the SYNs agreed on come from `tcb`, all others from `config`.
    pub fn resume(now: Instant, config: &Config, tcb: &Tcb) -> Self {
        let mut connection = Self::of(now, config, tcb);
        connection.put_back(now, tcb);
        connection
    }

    /// One that nothing was put back into yet.
    fn of(epoch: Instant, config: &Config, tcb: &Tcb) -> Self {
        let isn = tcb.snd_una - 1;
        let mut connection = Self::new(epoch, config, tcb.src_port, tcb.dst_port, isn.into());
        connection.passive = true;
        connection.settings.full_mss = tcb.mss;
        connection
    }
}

fn span(nanos: crate::time::Nanos) -> Duration {
    Duration::from_nanos(nanos)
}
