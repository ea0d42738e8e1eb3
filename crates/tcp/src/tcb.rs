//! The control block of a connection: its parts, how it is made, and its events.

use std::time::Instant;

use wire::tcp::Header;

use crate::congestion::Congestion;
use crate::cookie::Cookie;
use crate::ecn::EcnState;
use crate::mirror::Flight;
use crate::options::{Negotiated, TIMESTAMPS_LEN, TimestampClock, agreed_mss};
use crate::output::ToCount;
use crate::path::PathSearch;
use crate::rack::Rack;
use crate::recovery::Recovery;
use crate::recv::Receiver;
use crate::rtt::Rtt;
use crate::sack::Scoreboard;
use crate::sender::Sender;
use crate::settings::Settings;
use crate::time::{MILLISECOND, Nanos, Time, nanos};
use crate::timer::{Timer, Timers};
use crate::{Backoff, ChallengeLimit, CloseReason, Config, Event, Handshake, Initial, State};

/// One TCP connection: plain data, to be kept anywhere and moved (a TCB). See the crate's root for how to drive it.
#[derive(Clone, Debug)]
pub struct Connection {
    /// What [`Time`] counts from.
    pub(crate) epoch: Instant,
    pub(crate) state: State,
    pub(crate) src_port: u16,
    pub(crate) dst_port: u16,
    pub(crate) options: Negotiated,
    /// The application reads no more.
    pub(crate) detached: bool,
    /// It was opened by [`Connection::accept`].
    pub(crate) passive: bool,
    /// Another owner runs it.
    pub(crate) parked: Option<Flight>,
    /// Unanswered keep-alive or window probes.
    pub(crate) probes: u8,
    pub(crate) settings: Settings,
    pub(crate) timestamps: TimestampClock,
    pub(crate) snd: Sender,
    pub(crate) rcv: Receiver,
    pub(crate) board: Scoreboard,
    pub(crate) rtt: Rtt,
    pub(crate) rack: Rack,
    pub(crate) congestion: Congestion,
    pub(crate) recovery: Recovery,
    pub(crate) ecn: EcnState,
    pub(crate) path: PathSearch,
    /// Bytes of the peer's up to the end of its urgent data.
    pub(crate) urgent_until: u64,
    pub(crate) timers: Timers,
    pub(crate) events: Pending,
    /// When the peer was last heard.
    pub(crate) heard_at: Time,
    pub(crate) challenges: ChallengeLimit,
    pub(crate) stats: Stats,
}

/// Events not polled yet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pending {
    pub(crate) connected: bool,
    pub(crate) acked: bool,
    pub(crate) peer_fin: bool,
    pub(crate) time_wait: bool,
    pub(crate) closed: Option<CloseReason>,
    pub(crate) counted: ToCount,
}

impl Pending {
    fn is_empty(&self) -> bool {
        let is_told = self.connected | self.acked | self.peer_fin | self.time_wait;
        !is_told && self.closed.is_none() && self.counted.is_empty()
    }
}

/// Counts for [`Connection::info`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stats {
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_resent: u64,
    pub(crate) segments_out: u64,
    pub(crate) segments_in: u64,
    pub(crate) resent: u32,
    pub(crate) timeouts: u32,
    pub(crate) undos: u32,
    pub(crate) duplicates: u32,
    pub(crate) bytes_acked: u64,
    pub(crate) bytes_received: u64,
}

/// A corked short segment waits no longer than this.
pub(crate) const CORK_LIMIT: Nanos = 200 * MILLISECOND;

impl Connection {
    /// Opens actively (RFC 9293 §3.10.1): the SYN comes from `poll_transmit`.
    pub fn connect(
        now: Instant,
        config: &Config,
        src_port: u16,
        dst_port: u16,
        isn: impl Into<Initial>,
    ) -> Self {
        let mut connection = Self::new(now, config, src_port, dst_port, isn.into());
        connection.state = State::SynSent;
        connection.snd.due.syn = true;
        connection
    }

    /// Opens passively: answers `syn`, which came to a listening port; the SYN-ACK comes from `poll_transmit`.
    /// Payload on the SYN is not taken, the peer sends it again.
    pub fn accept(now: Instant, config: &Config, syn: &Header, isn: impl Into<Initial>) -> Self {
        let mut connection = Self::new(now, config, syn.dst_port, syn.src_port, isn.into());
        connection.passive = true;
        connection.settings.syn_retries = config.syn_ack_retries;
        connection.take_syn(Time(0), syn);
        connection.ecn.accept(config.ecn, syn);
        connection.state = State::SynReceived;
        connection.snd.due.syn = true;
        connection
    }

    /// Makes the connection that a returned SYN cookie stands for: established, with `ack` not processed yet.
    pub(crate) fn from_cookie(
        now: Instant,
        config: &Config,
        ack: &Header,
        cookie: &Cookie,
        timestamp: u32,
    ) -> Self {
        let handshake = Handshake {
            mss: cookie.mss,
            window_scale: cookie.window_scale,
            sack: cookie.sack,
            timestamp,
        };
        Self::from_handshake(now, config, ack, &handshake)
    }

    pub(crate) fn new(
        now: Instant,
        config: &Config,
        src_port: u16,
        dst_port: u16,
        isn: Initial,
    ) -> Self {
        let settings = Settings::new(config);
        let mss = u32::from(settings.mss);
        Self {
            epoch: now,
            state: State::Closed,
            src_port,
            dst_port,
            options: Negotiated::offer(config),
            detached: false,
            passive: false,
            parked: None,
            probes: 0,
            timestamps: TimestampClock::new(isn.timestamp),
            snd: Sender::new(isn.seq, settings.mss, settings.tso_max),
            rcv: Receiver::new(config),
            board: Scoreboard::new(isn.seq + 1),
            rtt: Rtt::new(nanos(config.min_rto)),
            rack: Rack::new(isn.seq + 1),
            congestion: Congestion::new(config.congestion, mss, config.initial_window),
            recovery: Recovery::new(isn.seq),
            ecn: EcnState::new(config.ecn, isn.seq),
            path: PathSearch::new(),
            urgent_until: 0,
            timers: Timers::new(),
            events: Pending::default(),
            heard_at: Time(0),
            challenges: ChallengeLimit::new(0),
            stats: Stats::default(),
            settings,
        }
    }

    /// Takes what the peer's SYN says.
    pub(crate) fn take_syn(&mut self, now: Time, syn: &Header) {
        self.options.settle(&syn.options);
        if let Some(timestamps) = syn.options.timestamps.filter(|_| self.options.timestamps) {
            self.timestamps.set(now, timestamps.val);
        }
        self.settings.mss = agreed_mss(self.settings.mss, &syn.options);
        self.settings.full_mss = agreed_mss(self.settings.full_mss, &syn.options);
        self.rcv.start(syn.seq);
        // The window of a SYN is never scaled (RFC 7323 §2.2).
        self.snd
            .window
            .note(syn.seq, syn.ack, u32::from(syn.window));
        self.apply_mss();
    }

    pub(crate) fn apply_mss(&mut self) {
        let options = if self.options.timestamps {
            TIMESTAMPS_LEN
        } else {
            0
        };
        self.snd.mss = self.settings.mss - options;
        self.congestion.set_mss(u32::from(self.snd.mss));
        self.rcv.mss = self.snd.mss;
    }

    /// Our SYN is acknowledged.
    pub(crate) fn acknowledge_syn(&mut self) {
        self.snd.una = self.snd.iss + 1;
    }

    /// The handshake is complete.
    pub(crate) fn establish(&mut self, now: Time, rtt: Option<Nanos>) {
        self.state = State::Established;
        self.events.connected = true;
        self.timers.cancel(Timer::Retransmit);
        if let Some(rtt) = rtt {
            self.rtt.sample(now, rtt);
        }
        if self.snd.syn_retries > 0 {
            self.rtt.syn_was_lost();
            if self.snd.syn_retries > 1 {
                self.congestion.syn_was_lost();
            }
        }
        self.rtt.backoff = Backoff::default();
        self.snd.progress_at = now;
        self.rcv.tuning.start(now, self.rcv.nxt);
        self.arm_keep_alive(now);
        if self.snd.fin_queued {
            self.state = State::FinWait1;
        }
    }

    /// What happened, oldest first.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        if self.events.is_empty() {
            return None;
        }
        self.next_event()
    }

    fn next_event(&mut self) -> Option<Event> {
        if std::mem::take(&mut self.events.connected) {
            return Some(Event::Connected);
        }
        if std::mem::take(&mut self.events.acked) {
            return Some(Event::Acked(self.snd.una.min(self.snd.write_seq)));
        }
        if std::mem::take(&mut self.events.peer_fin) {
            return Some(Event::PeerFin);
        }
        if std::mem::take(&mut self.events.time_wait) {
            return Some(Event::TimeWait);
        }
        if let Some(reason) = self.events.closed.take() {
            return Some(Event::Closed(reason));
        }
        self.events.counted.take().map(Event::Counted)
    }

    /// Ends the connection.
    pub(crate) fn finish(&mut self, reason: CloseReason) {
        self.state = State::Closed;
        self.timers.cancel_all();
        self.events.closed = Some(reason);
        self.snd.due.syn = false;
        self.rcv.ack.now = false;
    }

    pub(crate) fn time(&self, now: Instant) -> Time {
        Time::at(self.epoch, now)
    }

    pub(crate) fn arm_keep_alive(&mut self, now: Time) {
        if let Some(keep_alive) = self.settings.keep_alive {
            self.timers
                .set(Timer::KeepAlive, now.after(keep_alive.idle()));
        }
    }

    /// Bytes outstanding (RFC 9293: SND.NXT - SND.UNA).
    pub(crate) fn flight(&self) -> u32 {
        self.snd.una.distance_to(self.snd.nxt)
    }

    /// Bytes thought to be in the network (RFC 6675 §4, pipe).
    pub(crate) fn pipe(&self) -> u32 {
        let left = self.board.sacked()
            + self.board.lost()
            + self.recovery.inferred_sacked(u32::from(self.snd.mss));
        self.flight().saturating_sub(left)
    }

    /// Panics if the connection contradicts itself. For tests, fuzzing and debug builds.
    pub fn assert_invariants(&self) {
        let snd = &self.snd;
        assert!(
            snd.una.at_or_before(snd.nxt),
            "una {} nxt {}",
            snd.una,
            snd.nxt
        );
        assert!(
            snd.nxt.at_or_before(snd.write_seq + 1),
            "nxt {} write_seq {}",
            snd.nxt,
            snd.write_seq
        );
        assert!(
            snd.nxt.at_or_before(snd.write_seq) || snd.fin_queued,
            "only a FIN lies beyond the data"
        );
        if self.state.is_synchronized() && !self.is_parked() {
            self.board.assert_invariants(snd.una, snd.nxt);
            self.rcv.assert_invariants();
        }
        if self.state == State::Closed {
            assert!(self.timers.earliest().is_none(), "no timers after the end");
        }
        assert!(self.congestion.cwnd() > 0);
    }
}
