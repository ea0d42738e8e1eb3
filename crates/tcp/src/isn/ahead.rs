//! Flows whose sequence numbers are ahead of the clock that makes them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use wire::{FlowKey, SeqNum};

use super::{Generator, ISN_TICK};
use crate::time_wait::Keyed;

/// Remembers of connections that others finish where their sequence numbers ended, for as long as a new connection of the flow would
/// begin below that (RFC 9293 §3.6.1, MAY-2). That is 4 µs for each byte that was sent faster than 250 kB/s.
#[derive(Clone, Debug)]
pub struct Ahead {
    flows: HashMap<FlowKey, (SeqNum, Instant), Keyed>,
    /// Those that are over are removed when there are so many.
    sweep_at: usize,
}

/// All of a flow's connection has died out by then, wherever it rests.
const LONGEST: Duration = Duration::from_secs(240);
const SWEEP: usize = 256;
/// Flows at most.
const MOST: usize = 1 << 16;

impl Ahead {
    /// Without flows, which are hashed with a secret key.
    pub fn new(key: [u8; 16]) -> Self {
        Self {
            flows: HashMap::with_hasher(Keyed(key)),
            sweep_at: SWEEP,
        }
    }

    /// The connection of a flow, from us to the peer, has used the numbers before `end`.
    pub fn note(&mut self, now: Instant, isns: &Generator, flow: &FlowKey, end: SeqNum) {
        let next = isns.initial(now, flow).seq;
        if !end.after(next) {
            return;
        }
        self.sweep(now);
        if self.flows.len() < MOST {
            let until = (ISN_TICK * next.distance_to(end)).min(LONGEST);
            self.flows.insert(*flow, (end, now + until));
        }
    }

    /// What a new connection of the flow, from us to the peer, has to begin above.
    pub fn used(&self, now: Instant, flow: &FlowKey) -> Option<SeqNum> {
        let (end, until) = *self.flows.get(flow)?;
        (now <= until).then_some(end)
    }

    fn sweep(&mut self, now: Instant) {
        if self.flows.len() >= self.sweep_at {
            self.flows.retain(|_, (_, until)| now <= *until);
            self.sweep_at = SWEEP.max(2 * self.flows.len());
        }
    }
}

#[cfg(test)]
mod tests;
