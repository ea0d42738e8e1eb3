//! What becomes of splices with time, and how they end.

use std::time::{Duration, Instant};

use super::pair::Phase;
use super::table::Slot;
use super::{DRAIN_MS, LINGER_MS, Splices, TICK_MS, ended};
use crate::accel::flows::{Flows, Owned};
use crate::accel::{AccelDeviceEnv, AccelEnv};
use crate::function::Function;
use crate::ring::accel::{Side, SpliceEnd};
use crate::rss::FlowHasher;
use crate::switch::FunctionId;

/// Words of the wheel that one call looks at, of 64 groups each, and finished splices that it ends: no call takes long (AccelTCP).
pub(super) const WORDS: u32 = 4;
const ENDS: u32 = 64;

/// Whom the end of a splice concerns: the flows' index, and the hosts.
pub(super) struct Hosts<'a> {
    flows: &'a mut Flows,
    hasher: &'a FlowHasher,
    /// One, or all by their numbers.
    functions: &'a mut [Function],
}

impl<'a> Hosts<'a> {
    pub(super) fn of(env: &'a mut AccelEnv<'_>) -> Hosts<'a> {
        Hosts {
            flows: env.flows,
            hasher: env.hasher,
            functions: std::slice::from_mut(env.function),
        }
    }

    fn of_all(env: &'a mut AccelDeviceEnv<'_>) -> Hosts<'a> {
        Hosts {
            flows: env.flows,
            hasher: env.hasher,
            functions: env.functions,
        }
    }

    fn function(&mut self, id: u16) -> Option<&mut Function> {
        let is_it = |function: &&mut Function| function.id.0 == id;
        match &mut *self.functions {
            [one] => Some(one).filter(is_it),
            all => all.get_mut(usize::from(id)).filter(is_it),
        }
    }
}

impl Splices {
    /// Ends a splice. It is gone when this is true; else its host's receive ring is full, and it is reported later.
    pub(super) fn end(&mut self, slot: Slot, reason: SpliceEnd, hosts: &mut Hosts<'_>) -> bool {
        self.lingering.remove(&mut self.table, slot);
        let Some(pair) = self.table.get_mut(slot) else {
            return true;
        };
        pair.settle();
        let pair = *pair;
        let Some(function) = hosts.function(pair.function) else {
            return false;
        };
        let counters = &mut function.counters;
        *match reason {
            SpliceEnd::Finished => &mut counters.accel_splices_finished,
            SpliceEnd::Reset { .. } => &mut counters.accel_splices_reset,
            SpliceEnd::Idle => &mut counters.accel_splices_idle,
            SpliceEnd::TakenBack => &mut counters.accel_splices_taken_back,
        } += 1;
        // In turn behind those that wait already.
        if !self.ended.has(function) && ended::report(&pair, reason, function) {
            self.forget(slot, hosts);
            return true;
        }
        self.ended.push(&mut self.table, slot, reason);
        false
    }

    /// Both FINs are acknowledged.
    pub(super) fn linger(&mut self, slot: Slot, now: u32) {
        let until = now.wrapping_add(LINGER_MS);
        self.lingering.push(&mut self.table, slot, until);
        self.expect(LINGER_MS);
    }

    /// Tells a host of splices that have ended. False when some wait for room in its receive ring.
    pub(in crate::accel) fn report(
        &mut self,
        flows: &mut Flows,
        hasher: &FlowHasher,
        function: &mut Function,
    ) -> bool {
        while self.ended.has(function) {
            let Some(slot) = self.ended.report_first(&self.table, function) else {
                return false;
            };
            let mut hosts = Hosts {
                flows,
                hasher,
                functions: &mut [],
            };
            self.forget(slot, &mut hosts);
        }
        true
    }

    /// Does what is due, or a slice of it: then more is due at once.
    pub(in crate::accel) fn handle_time(&mut self, env: &mut AccelDeviceEnv<'_>) {
        if self.due.is_none_or(|due| env.now < due) {
            return;
        }
        let now = self.milliseconds(env.now);
        let mut is_done = true;
        let hosts = &mut Hosts::of_all(env);
        let mut ends = 0..ENDS;
        while let Some(slot) = self.lingering.due(&self.table, |until| is_past(until, now)) {
            if ends.next().is_none() {
                is_done = false;
                break;
            }
            self.end(slot, SpliceEnd::Finished, hosts);
        }
        let mut words = 0..WORDS;
        while let Some(due) = self.timers.take_due(self.clock / u64::from(TICK_MS)) {
            for group in due {
                let slots = self.timers.expired(group, due.tick).unwrap_or_default();
                slots.for_each(|slot| self.look_at(slot, now, hosts));
            }
            words.next();
            if words.is_empty() {
                is_done = false;
                break;
            }
        }
        self.due = if is_done { self.next() } else { Some(env.now) };
    }

    /// When [`handle_time`](Self::handle_time) has something to do.
    pub(in crate::accel) fn poll_timeout(&self) -> Option<Instant> {
        self.due
    }

    /// Splices of a function, those that linger counted.
    pub(in crate::accel) fn used(&self, function: FunctionId) -> u32 {
        self.table.used_by(function)
    }

    /// Splices that a function may still make. One of its own that lingers makes room.
    pub(in crate::accel) fn room(&self, function: &Function) -> u32 {
        let lingering = self.lingering.len(function.id);
        let used = self.table.used_by(function.id) - lingering;
        let quota = function.config.splices.saturating_sub(used);
        quota.min(self.table.room() + lingering)
    }

    /// Has a splice looked at when `delay` milliseconds are over.
    pub(super) fn arm(&mut self, slot: Slot, delay: u32) {
        let tick = (self.clock + u64::from(delay)) / u64::from(TICK_MS) + 1;
        let armed = self.timers.arm(slot, tick);
        let at = armed.saturating_mul(TICK_MS.into());
        self.expect(at.saturating_sub(self.clock).min(u32::MAX.into()) as u32);
    }

    /// Milliseconds since the first splice, which wrap.
    pub(super) fn milliseconds(&mut self, now: Instant) -> u32 {
        let epoch = *self.epoch.get_or_insert(now);
        let passed = now.saturating_duration_since(epoch).as_millis() as u64;
        self.clock = self.clock.max(passed);
        self.clock as u32
    }

    fn look_at(&mut self, slot: Slot, now: u32, hosts: &mut Hosts<'_>) {
        let Some(pair) = self.table.get(slot) else {
            return;
        };
        let (until, reason) = match pair.phase {
            Phase::Open { idle, heard } if idle != 0 => {
                // What was lost behind the device is sent again in a moment.
                let more = if pair.is_drained() { 0 } else { DRAIN_MS };
                let idle = idle.saturating_add(more);
                (heard.wrapping_add(idle), SpliceEnd::Idle)
            }
            Phase::Draining { until, .. } => (until, SpliceEnd::TakenBack),
            _ => return,
        };
        if is_past(until, now) {
            self.end(slot, reason, hosts);
        } else {
            self.arm(slot, until.wrapping_sub(now));
        }
    }

    /// Forgets all splices of a function, without a word.
    pub(in crate::accel) fn reset_function(
        &mut self,
        flows: &mut Flows,
        hasher: &FlowHasher,
        function: FunctionId,
    ) {
        self.ended.forget(function);
        let hosts = &mut Hosts {
            flows,
            hasher,
            functions: &mut [],
        };
        for slot in self.table.slots_of(function) {
            self.lingering.remove(&mut self.table, slot);
            self.forget(slot, hosts);
        }
    }

    /// Takes a splice out of everything.
    fn forget(&mut self, slot: Slot, hosts: &mut Hosts<'_>) {
        let Some(pair) = self.table.remove(hosts.hasher, slot) else {
            return;
        };
        for side in [Side::A, Side::B] {
            let (half, _) = pair.legs(side);
            let hash = hosts.hasher.hash(&half.flow().reversed());
            hosts.flows.remove(hash, Owned::Spliced(slot, side));
        }
    }

    /// Something may be due in `delay` milliseconds.
    fn expect(&mut self, delay: u32) {
        let at = self.instant(self.clock + u64::from(delay));
        self.due = [self.due, at].into_iter().flatten().min();
    }

    fn next(&self) -> Option<Instant> {
        let lingering = self.lingering.oldest(&self.table);
        let lingering = lingering
            .map(|(_, until)| until.wrapping_sub(self.clock as u32))
            .min()
            .and_then(|wait| self.instant(self.clock + u64::from(wait)));
        let tick = self.timers.next();
        let wheel = tick.and_then(|tick| self.instant(tick.saturating_mul(TICK_MS.into())));
        [lingering, wheel].into_iter().flatten().min()
    }

    fn instant(&self, milliseconds: u64) -> Option<Instant> {
        self.epoch?.checked_add(Duration::from_millis(milliseconds))
    }
}

/// Whether a time that is less than 2^31 ms away has come.
fn is_past(time: u32, now: u32) -> bool {
    now.wrapping_sub(time) as i32 >= 0
}
