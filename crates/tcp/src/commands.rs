//! What the application wants of a connection: its commands.

use std::time::{Duration, Instant};

use crate::timer::Timer;
use crate::{CloseReason, Connection, KeepAlive, State};

/// No more than this may be queued: positions must stay comparable.
const MAX_QUEUED: u32 = 1 << 30;

impl Connection {
    /// The application appended `bytes` to the send queue, at `write_seq`. Returns how many were taken: all, or 0 if
    /// the connection can send no more ([`State::may_send`]). [`send_space`](Self::send_space) is advice, not a limit.
    pub fn queue(&mut self, _now: Instant, bytes: u32) -> u32 {
        let queued = self.snd.una.distance_to(self.snd.write_seq);
        if !self.state.may_send()
            || self.snd.fin_queued
            || bytes > MAX_QUEUED - queued.min(MAX_QUEUED)
        {
            return 0;
        }
        self.snd.write_seq += bytes;
        bytes
    }

    /// The application read `bytes` of what is in order; the window may open.
    pub fn consumed(&mut self, now: Instant, bytes: u32) {
        let now = self.time(now);
        let rtt = self.rtt.smoothed();
        self.rcv.consume(now, bytes, rtt);
        if self.state.may_receive() && self.rcv.should_update_window(self.options.rcv_shift) {
            self.rcv.ack.now = true;
        }
    }

    /// The receive buffer, and so the window, is no larger than that, but for 32 KiB or what the window's scale can say, until it grows by
    /// what is consumed. What was offered before stays good: the window's right edge does not move left (RFC 9293 §3.8.6.2.1), but
    /// for what its scale can't express (RFC 7323 §2.4).
    pub fn limit_receive_buffer(&mut self, bytes: u32) {
        self.rcv.limit_buffer(bytes);
    }

    /// The receive buffer becomes what serves the application as it has read since this was called last, and no larger than `most`.
    pub fn shrink_receive_buffer(&mut self, most: u32) {
        let proven = self.rcv.take_proven().unwrap_or(most);
        self.rcv.limit_buffer(proven.min(most));
    }

    /// Gives up what has come out of order, which the peer sends again (RFC 2018 §8). Answers how many bytes it was.
    pub fn renege(&mut self) -> u32 {
        self.rcv.renege()
    }

    /// Sends a FIN after all queued data (half-close): the peer may go on sending.
    pub fn close(&mut self, _now: Instant) {
        match self.state {
            State::SynSent => {
                self.finish(CloseReason::Graceful);
                return;
            }
            // RFC 9293 §3.10.4: the FIN waits until the handshake is complete.
            State::SynReceived => {}
            State::Established => self.state = State::FinWait1,
            State::CloseWait => self.state = State::LastAck,
            _ => return,
        }
        self.snd.fin_queued = true;
    }

    /// The application reads no more: what comes from now on is answered with RST (RFC 1122 §4.2.2.13), as is what was not
    /// read yet, FIN-WAIT-2 ends in time, and the peer is waited for as the settings say of orphans. Call it after `close` when the application has let go of the connection.
    pub fn detach(&mut self, now: Instant) {
        self.detached = true;
        let now = self.time(now);
        if self.unread() > 0 && self.state != State::TimeWait {
            self.abort();
        } else if self.state == State::FinWait2 {
            self.timers
                .set(Timer::Linger, now.after(self.settings.fin_wait_2()));
        } else {
            self.limit_orphan(now);
        }
    }

    /// The peer is waited for no longer than one of an orphan from now on, but what it sends is not answered by a reset yet: it would take away
    /// what the peer has not read. Call it instead of [`detach`](Self::detach), until all is acknowledged.
    pub fn limit_wait(&mut self, now: Instant) {
        self.settings.limit_user_timeout();
        let now = self.time(now);
        self.limit_orphan(now);
    }

    /// Ends the connection with a RST at once (RFC 9293 §3.10.5).
    pub fn abort(&mut self) {
        if !matches!(self.state, State::Closed | State::SynSent | State::TimeWait) {
            self.snd.reset_at = Some(self.reset_seq());
        }
        if self.state != State::Closed {
            self.finish(CloseReason::Aborted);
        }
    }

    /// Turns Nagle's algorithm on or off.
    pub fn set_nagle(&mut self, on: bool) {
        self.settings.nagle = on;
    }

    /// While on, only full segments are sent (as `TCP_CORK` has it, for at most 200 ms).
    pub fn set_cork(&mut self, _now: Instant, on: bool) {
        self.snd.cork = on;
        self.snd.flush = false;
        self.timers.cancel(Timer::Cork);
    }

    /// Probes a peer that has been silent for so long (RFC 9293 §3.8.4), or no more.
    pub fn set_keep_alive(&mut self, now: Instant, keep_alive: Option<KeepAlive>) {
        let watched = self.settings.keep_alive.is_some();
        self.settings.keep_alive = keep_alive.map(Into::into);
        self.timers.cancel(Timer::KeepAlive);
        if watched && self.snd.unsent() == 0 && self.snd.una == self.snd.nxt {
            // Those without an answer are counted anew.
            self.probes = 0;
        }
        let is_open = self.state.is_synchronized() && self.state != State::TimeWait;
        if is_open && !self.is_parked() {
            self.arm_keep_alive(self.time(now).min(self.heard_at));
        }
    }

    /// Gives up when data has gone unacknowledged for so long, or counts retries (see [`Config::user_timeout`](crate::Config::user_timeout)).
    pub fn set_user_timeout(&mut self, now: Instant, limit: Option<Duration>) {
        self.settings.set_user_timeout(limit);
        if limit.is_some() && !self.is_parked() {
            // A timer that has backed off would see it too late.
            self.shorten_timers(self.time(now));
        }
    }
}
