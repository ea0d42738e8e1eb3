//! The timers of a connection.

use crate::time::{Nanos, Time};

/// What may be due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Timer {
    /// RFC 6298: the oldest data, or the SYN, went unacknowledged.
    Retransmit,
    /// RFC 8985 §7: a tail loss probe.
    Probe,
    /// RFC 8985 §6.2: what is late may now be held for lost.
    Reorder,
    /// RFC 9293 §3.8.6.1: probe a closed window.
    Persist,
    /// RFC 9293 §3.8.6.3.
    DelayedAck,
    /// RFC 9293 §3.8.4.
    KeepAlive,
    /// The end of TIME-WAIT, or of FIN-WAIT-2 when the application reads no more.
    Linger,
    /// A corked short segment goes out.
    Cork,
    /// The pacer lets more data go.
    Pace,
}

impl Timer {
    pub(crate) const ALL: [Timer; 9] = [
        Timer::DelayedAck,
        Timer::Reorder,
        Timer::Probe,
        Timer::Retransmit,
        Timer::Persist,
        Timer::KeepAlive,
        Timer::Linger,
        Timer::Cork,
        Timer::Pace,
    ];
}

/// When each timer is due.
#[derive(Clone, Debug)]
pub(crate) struct Timers([Time; Timer::ALL.len()]);

impl Timers {
    pub(crate) fn new() -> Self {
        Self([Time::NEVER; Timer::ALL.len()])
    }

    pub(crate) fn set(&mut self, timer: Timer, at: Time) {
        self.0[timer as usize] = at;
    }

    pub(crate) fn cancel(&mut self, timer: Timer) {
        self.0[timer as usize] = Time::NEVER;
    }

    pub(crate) fn cancel_all(&mut self) {
        *self = Self::new();
    }

    pub(crate) fn is_set(&self, timer: Timer) -> bool {
        self.0[timer as usize] != Time::NEVER
    }

    /// The time until it is due, if it is set.
    pub(crate) fn left(&self, timer: Timer, now: Time) -> Option<Nanos> {
        self.is_set(timer)
            .then(|| self.0[timer as usize].since(now))
    }

    /// Takes the timer if it is due.
    pub(crate) fn expire(&mut self, timer: Timer, now: Time) -> bool {
        let due = self.is_set(timer) && self.0[timer as usize] <= now;
        if due {
            self.cancel(timer);
        }
        due
    }

    pub(crate) fn earliest(&self) -> Option<Time> {
        let earliest = self.0.iter().copied().min().unwrap_or(Time::NEVER);
        (earliest != Time::NEVER).then_some(earliest)
    }
}
