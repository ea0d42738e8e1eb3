//! What is reported to hosts.

use tcp::{CloseReason, Event};

use super::entry::{Entry, Farewell, Phase};
use super::{Toe, ToeEnv};
use crate::counters::Counters;
use crate::delivery::{self, Sender};
use crate::ring::RecvDescriptor;
use crate::ring::toe::{RefuseReason, RestoreReason, ToeEvent};

impl Toe {
    /// Takes notice of what has become of a connection, and puts it in line to send.
    pub(super) fn settle(&mut self, at: u32) {
        self.take_notice(at);
        let sends = self.table.get(at).is_some_and(|entry| {
            let runs = matches!(entry.phase, Phase::Running | Phase::Ending(_));
            runs && entry.sending.waiting.is_none()
        });
        if sends {
            self.wants_segments(at);
        }
    }

    /// Takes notice of what has become of a connection: lets acknowledged data go, sets its timer, and puts it in line if there is
    /// something to tell.
    pub(super) fn take_notice(&mut self, at: u32) {
        let Some(entry) = self.table.get_mut(at) else {
            return;
        };
        if let (Some(connection), Phase::Running) = (&mut entry.connection, entry.phase) {
            while let Some(event) = connection.poll_event() {
                match event {
                    Event::Connected | Event::Acked(_) | Event::Counted(_) => {}
                    Event::PeerFin => entry.unreported.peer_fin = Some(connection.rcv_nxt()),
                    Event::TimeWait => entry.phase = Phase::Ending(CloseReason::Graceful),
                    Event::Closed(reason) => entry.phase = Phase::Ending(reason),
                }
            }
            let una = connection.snd_una();
            self.pool.release_before(&mut entry.sending.queue, una);
            if let Phase::Ending(_) = entry.phase {
                entry.sending.rest = None;
                entry.sending.waiting = None;
                entry.unreported.recover = false;
            }
        }
        if !matches!(entry.phase, Phase::Leaving(_) | Phase::Emptying) {
            match entry.poll_timeout() {
                Some(when) => self.timers.set(at, when),
                None => self.timers.cancel(at),
            }
        }
        self.wants_events(at);
    }

    /// Tells a function's host all that it is to know, and gives back what is its again. False when a receive ring has no room
    /// for all of it: call it again.
    pub(crate) fn report(&mut self, env: &mut ToeEnv<'_>) -> bool {
        let function = env.function.id.0;
        if self.lines.len() <= usize::from(function) {
            return true;
        }
        let mut all = self.report_unreported(env);
        let count = self.lines_of(function).events.len();
        for _ in 0..count {
            let Some(at) = self.lines_of(function).events.pop_front() else {
                break;
            };
            let busy = env.function.own.busy();
            if busy.is_some_and(|index| index == self.connection(at)) {
                // Its memory is being read: what frees it waits until that is over.
                self.lines_of(function).events.push_back(at);
                continue;
            }
            let reported = self.report_connection(env, at);
            all &= reported;
            if let Some(entry) = self.table.get_mut(at) {
                entry.in_events = !reported;
                if !reported {
                    // Others may be reported on other rings.
                    self.lines_of(function).events.push_back(at);
                }
            }
        }
        all
    }

    /// What is about no connection.
    fn report_unreported(&mut self, env: &mut ToeEnv<'_>) -> bool {
        let unreported = &mut self.lines_of(env.function.id.0).unreported;
        unreported.retain(|(queue, event)| {
            let descriptor = RecvDescriptor::Toe(*event);
            !env.function.report(usize::from(*queue), descriptor)
        });
        unreported.is_empty()
    }

    /// Reports all of the connection at this place. False when there was no room for all of it.
    fn report_connection(&mut self, env: &mut ToeEnv<'_>, at: u32) -> bool {
        let Some(entry) = self.table.get_mut(at) else {
            return true;
        };
        while let Some(event) = entry.next_event() {
            if !(env.function).report(entry.queue.into(), RecvDescriptor::Toe(event)) {
                return false;
            }
            entry.note_reported(&event);
            if matches!(event, ToeEvent::Accepted { .. }) && entry.phase == Phase::Running {
                env.function.nic_packets.release(entry.toe.index);
            }
        }
        entry.unreported.recover = false;
        self.take_leave(env, at)
    }

    /// Reports a connection's end, and delivers the packets that wait. False when there was no room for all of it.
    fn take_leave(&mut self, env: &mut ToeEnv<'_>, at: u32) -> bool {
        let Some(entry) = self.table.get_mut(at) else {
            return true;
        };
        let toe = entry.toe;
        if let Phase::Leaving(farewell) = entry.phase {
            let event = match farewell {
                Farewell::Cancelled | Farewell::Expired => None,
                Farewell::Refused(reason) => Some(ToeEvent::Refused { toe, reason }),
                Farewell::Restored(reason) => Some(ToeEvent::Restored { toe, reason }),
                Farewell::Closed(reason, time_wait) => Some(ToeEvent::Closed {
                    toe,
                    reason,
                    time_wait,
                }),
            };
            if let Some(event) = event {
                let queue = usize::from(entry.queue);
                if !env.function.report(queue, RecvDescriptor::Toe(event)) {
                    return false;
                }
            }
            env.function.counters.count_farewell(&farewell);
            entry.phase = Phase::Emptying;
        }
        if entry.phase != Phase::Emptying {
            return true;
        }
        let sender = Sender {
            flow: &entry.flow,
            hash: entry.hash,
            hop: entry.hop,
        };
        if !delivery::pass_to_host(env.function, toe.index, &sender) {
            return false;
        }
        env.function.nic_packets.close(toe.index);
        env.function.counters.toe_connections -= 1;
        self.forget(env.accel, at);
        true
    }
}

impl Entry {
    /// What is reported of it next, before its end.
    fn next_event(&self) -> Option<ToeEvent> {
        let (toe, unreported) = (self.toe, &self.unreported);
        if unreported.ready {
            return Some(ToeEvent::Ready { toe });
        }
        if unreported.accepted {
            return Some(ToeEvent::Accepted { toe });
        }
        let leaving = matches!(self.phase, Phase::Leaving(_));
        if let Some(connection) = &self.connection {
            if let Some((context, tcpsn)) = self.sending.waiting
                && unreported.recover
                && !leaving
            {
                // What TCP has given out of new data is not sent yet from there on.
                let sent = match self.sending.rest {
                    Some(rest) if !rest.retransmit => tcpsn,
                    _ => connection.snd_nxt().min(connection.write_seq()),
                };
                return Some(ToeEvent::Recover {
                    toe,
                    context,
                    tcpsn,
                    sent,
                });
            }
            let snd_una = connection.snd_una();
            if self.acked_is_due() || leaving && snd_una != unreported.reported_una {
                return Some(ToeEvent::Acked {
                    toe,
                    snd_una,
                    flight: connection.flight_limit(),
                });
            }
        }
        let rcv_nxt = unreported.peer_fin?;
        Some(ToeEvent::PeerFin { toe, rcv_nxt })
    }

    /// What [`next_event`](Self::next_event) gave was reported.
    fn note_reported(&mut self, event: &ToeEvent) {
        let unreported = &mut self.unreported;
        match *event {
            ToeEvent::Ready { .. } => unreported.ready = false,
            ToeEvent::Accepted { .. } => unreported.accepted = false,
            ToeEvent::Recover { .. } => unreported.recover = false,
            ToeEvent::Acked { snd_una, .. } => unreported.reported_una = snd_una,
            _ => unreported.peer_fin = None,
        }
    }
}

impl Counters {
    pub(super) fn count_refusal(&mut self, reason: RefuseReason) {
        *match reason {
            RefuseReason::Unsupported => &mut self.toe_refused_unsupported,
            RefuseReason::HardLimit | RefuseReason::Quota | RefuseReason::NoRoom => {
                &mut self.toe_refused_limit
            }
            RefuseReason::SoftLimit => &mut self.toe_refused_load,
            RefuseReason::InUse | RefuseReason::FlowOwned => &mut self.toe_refused_owned,
            RefuseReason::NotHeld => &mut self.toe_refused_not_held,
            RefuseReason::BadMemory | RefuseReason::Tcb(_) => &mut self.toe_refused_tcb,
        } += 1;
    }

    fn count_farewell(&mut self, farewell: &Farewell) {
        match farewell {
            Farewell::Cancelled | Farewell::Closed(..) => {}
            Farewell::Expired => self.toe_hold_expired += 1,
            Farewell::Refused(reason) => self.count_refusal(*reason),
            Farewell::Restored(RestoreReason::Asked) => self.toe_restored_asked += 1,
            Farewell::Restored(RestoreReason::Load) => self.toe_restored_load += 1,
            Farewell::Restored(RestoreReason::Transmit { .. }) => self.toe_restored_transmit += 1,
        }
    }
}
