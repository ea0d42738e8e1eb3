//! Segments whose connection the host does not know yet, or not any more.
//!
//! Neither NIC nor host keeps anything of a connection that the NIC sets up before its cookie comes back, and only what begins the peer's
//! stream brings it. When that is lost, or late, the rest of a request comes first. To reset the connection then, as is right
//! without one (RFC 9293 §3.10.7.1), would cut off a peer that will send the beginning again in a moment. So such a
//! segment is dropped the first time; when others of its flow still come after some time, there is no connection.
//!
//! A forged cookie, or one that has expired, can't be told from such a segment: it is a segment with numbers that mean nothing.
//! So its flow has the same time, unless it has no timestamps, without which there are no cookies,
//! or unless more flows wait than are remembered, as under an attack. A copy of a good one that was used is known at
//! once ([`Replays`](super::replays::Replays)).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use wire::FlowKey;

/// Time for the beginning to be sent again, a few times.
const PATIENCE: Duration = Duration::from_secs(3);
/// What has been quiet for so long is forgotten.
const MEMORY: Duration = Duration::from_secs(120);
/// Flows remembered at most: the segments of others are refused at once.
const MOST: usize = 256;

/// Flows of which something came that may be too early.
#[derive(Debug, Default)]
pub(super) struct EarlySegments {
    /// In the order in which they came first.
    flows: VecDeque<(Instant, FlowKey)>,
}

impl EarlySegments {
    /// Something has come of a flow without a connection. Whether to wait for what begins it, instead of resetting it.
    pub fn may_be_early(&mut self, now: Instant, flow: &FlowKey) -> bool {
        let is_old = |(since, _): &(Instant, FlowKey)| now.duration_since(*since) >= MEMORY;
        while self.flows.front().is_some_and(is_old) {
            self.flows.pop_front();
        }
        let known = self.flows.iter().find(|(_, known)| known == flow);
        match known {
            Some((since, _)) => now.duration_since(*since) < PATIENCE,
            None if self.flows.len() == MOST => false,
            None => {
                self.flows.push_back((now, *flow));
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(port: u16) -> FlowKey {
        let at = |port| std::net::SocketAddr::from(([10, 0, 0, 1], port));
        FlowKey::new(at(port), at(80))
    }

    #[test]
    fn a_flow_has_some_time_to_begin_and_then_none_for_long() {
        let (mut early, start) = (EarlySegments::default(), Instant::now());
        for (after, waits) in [(0, true), (2, true), (3, false), (100, false), (120, true)] {
            let now = start + Duration::from_secs(after);
            assert_eq!(early.may_be_early(now, &flow(1)), waits, "{after}");
        }
    }

    #[test]
    fn a_crowd_gets_no_memory() {
        let (mut early, now) = (EarlySegments::default(), Instant::now());
        for port in 0..MOST as u16 {
            assert!(early.may_be_early(now, &flow(port)));
        }
        assert!(!early.may_be_early(now, &flow(MOST as u16)));
        assert!(early.may_be_early(now, &flow(5)));
        assert!(early.may_be_early(now + MEMORY, &flow(MOST as u16)));
    }
}
