//! What timers do.

use std::time::Instant;

use crate::time::{Nanos, SECOND, Time};
use crate::timer::Timer;
use crate::{CloseReason, Connection, Counted, State};

impl Connection {
    /// Does what is due at `now` (see [`poll_timeout`](Self::poll_timeout)); harmless if nothing is.
    pub fn handle_timeout(&mut self, now: Instant) {
        let now = self.time(now);
        for timer in Timer::ALL {
            if self.timers.expire(timer, now) {
                self.expired(now, timer);
            }
        }
    }

    fn expired(&mut self, now: Time, timer: Timer) {
        match timer {
            Timer::DelayedAck => self.rcv.ack.now = true,
            Timer::Reorder => self.on_reorder_timeout(now),
            Timer::Probe => {
                self.snd.due.tail_probe = true;
                // Should the probe not go out, the retransmission timer is there.
                self.timers.set(
                    Timer::Retransmit,
                    now.after(self.retransmission_timeout(now)),
                );
            }
            Timer::Retransmit if self.state.is_synchronized() => {
                self.on_retransmission_timeout(now)
            }
            Timer::Retransmit => self.on_syn_timeout(now),
            Timer::Persist => self.on_persist_timeout(now),
            Timer::KeepAlive => self.on_keep_alive_timeout(now),
            Timer::Linger => self.finish(CloseReason::Graceful),
            Timer::Cork => self.snd.flush = true,
            // Whatever waits is polled after each timeout.
            Timer::Pace => {}
        }
    }

    /// The RTO, or less if the user timeout ends before it.
    pub(crate) fn retransmission_timeout(&self, now: Time) -> Nanos {
        let rto = self.rtt.rto();
        match self.patience() {
            Some(limit) => rto.min(self.snd.progress_at.after(limit).since(now).max(1)),
            None => rto,
        }
    }

    /// How long data may go unacknowledged, if that is limited.
    fn patience(&self) -> Option<Nanos> {
        let own = self.settings.user_timeout();
        if !self.detached {
            return own;
        }
        let limit = self.settings.orphan_timeout();
        Some(own.map_or(limit, |own| own.min(limit)))
    }

    /// Times that a timeout may back off.
    fn retries(&self) -> u8 {
        match self.detached {
            true => self.settings.orphan_retries,
            false => self.settings.retries,
        }
    }

    /// Whether a peer that keeps its window closed but answers is not given up (RFC 9293 §3.8.6.1). That is about an application that waits; one
    /// that has set a limit does not (RFC 6429 §3), nor does an orphan.
    pub(crate) fn waits_for_window(&self) -> bool {
        self.patience().is_none()
    }

    /// RFC 9293 §3.8.3: R2, in time or in tries; in both for an orphan.
    fn is_past_user_timeout(&self, now: Time, tries: u8, most: u8) -> bool {
        /// A peer that was heard within this time is alive: two of the longest timeouts.
        const ALIVE: Nanos = 240 * SECOND;
        let is_closed = self.state.is_synchronized() && self.snd.window.bytes() == 0;
        if is_closed && self.waits_for_window() && now.since(self.heard_at) < ALIVE {
            return false;
        }
        let counts_tries = self.detached || self.settings.user_timeout().is_none();
        let limit = self.patience();
        (counts_tries && tries >= most)
            || limit.is_some_and(|limit| now.since(self.snd.progress_at) >= limit)
    }

    /// The time of an orphan begins, whatever timer it waits for.
    pub(crate) fn limit_orphan(&mut self, now: Time) {
        self.snd.progress_at = now;
        self.shorten_timers(now);
    }

    /// What is waited for is waited for no longer than the limits that there are now allow.
    pub(crate) fn shorten_timers(&mut self, now: Time) {
        let most = self.retransmission_timeout(now);
        for timer in [Timer::Retransmit, Timer::Persist] {
            if let Some(left) = self.timers.left(timer, now) {
                self.timers.set(timer, now.after(left.min(most)));
            }
        }
    }

    /// The peer is given up. If that is because of a limit, and it is there still, it is told.
    fn give_up(&mut self) {
        if self.patience().is_some() && self.state.is_synchronized() {
            self.snd.reset_at = Some(self.snd.nxt);
        }
        self.finish(CloseReason::TimedOut);
    }

    /// The user timeout ends the tries of our SYN, as Linux has it (`tcp_write_timeout`). It is about a connection, which what is passively opened
    /// has yet to become: only the tries of a SYN-ACK count, so that forged SYNs hold their places no longer than others and clients
    /// behind a bad link get as many answers.
    fn on_syn_timeout(&mut self, now: Time) {
        let (tries, most) = (self.snd.syn_retries, self.settings.syn_retries);
        let is_over = tries >= most || !self.passive && self.is_past_user_timeout(now, tries, most);
        if is_over || self.state == State::Closed {
            self.finish(CloseReason::TimedOut);
            return;
        }
        self.snd.syn_retries = tries.saturating_add(1);
        self.rtt.backoff.back_off();
        self.snd.due.syn = true;
    }

    /// How long an answer to our SYN, or to our SYN-ACK, is waited for.
    pub(crate) fn syn_timeout(&self, now: Time) -> Nanos {
        match self.passive {
            true => self.rtt.rto(),
            false => self.retransmission_timeout(now),
        }
    }

    fn on_retransmission_timeout(&mut self, now: Time) {
        if self.snd.una == self.snd.nxt {
            return;
        }
        if self.is_past_user_timeout(now, self.rtt.backoff.tries(), self.retries()) {
            self.give_up();
            return;
        }
        self.stats.timeouts += 1;
        self.events.counted.add(Counted::Timeout);
        self.enter_loss(now);
        self.rtt.backoff.back_off();
        self.suspect_path(now);
        self.timers.set(
            Timer::Retransmit,
            now.after(self.retransmission_timeout(now)),
        );
    }

    /// RFC 9293 §3.8.6.1: probes go on as long as the peer answers, unless that is [limited](Self::waits_for_window). What the peer has
    /// opened since is filled before it is given up, be it less than a segment.
    fn on_persist_timeout(&mut self, now: Time) {
        let is_open = self.snd.window.bytes() > 0;
        let fills = is_open && !self.snd.fill_window;
        if !fills && self.is_past_probing(now) {
            self.give_up();
            return;
        }
        self.probes = self.probes.saturating_add(1);
        self.rtt.backoff.back_off();
        if is_open {
            self.snd.fill_window = true;
        } else {
            self.snd.due.probe = true;
        }
        let wait = match fills {
            true => self.rtt.rto(),
            false => self.retransmission_timeout(now),
        };
        self.timers.set(Timer::Persist, now.after(wait));
    }

    fn is_past_probing(&self, now: Time) -> bool {
        match self.waits_for_window() {
            true => self.probes >= self.settings.retries,
            false => self.is_past_user_timeout(now, self.rtt.backoff.tries(), self.retries()),
        }
    }

    /// RFC 9293 §3.8.4.
    fn on_keep_alive_timeout(&mut self, now: Time) {
        let Some(keep_alive) = self.settings.keep_alive else {
            return;
        };
        let idle = now.since(self.heard_at);
        if self.probes == 0 && idle < keep_alive.idle() {
            self.timers
                .set(Timer::KeepAlive, self.heard_at.after(keep_alive.idle()));
            return;
        }
        if self.snd.una != self.snd.nxt || self.snd.unsent() > 0 {
            // Other timers watch over the peer.
            self.timers
                .set(Timer::KeepAlive, now.after(keep_alive.idle()));
            return;
        }
        let is_over = match self.settings.user_timeout() {
            Some(limit) => self.probes > 0 && idle >= limit,
            None => self.probes >= keep_alive.probes,
        };
        if is_over {
            self.snd.reset_at = Some(self.snd.nxt);
            self.finish(CloseReason::TimedOut);
            return;
        }
        self.probes = self.probes.saturating_add(1);
        self.snd.due.probe = true;
        self.timers
            .set(Timer::KeepAlive, now.after(keep_alive.interval()));
    }
}
