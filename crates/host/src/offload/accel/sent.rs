//! What the NIC sends of connections that it finishes, for as long as a router may say that it is too big.
//!
//! The NIC heeds such a report itself. The host, which has forgotten the connection, learns from it what the path takes, for the next one to there; and a
//! sender that has not seen the connection must not be able to teach it (RFC 5927 §4.1).

use std::time::{Duration, Instant};

use wire::icmp::Quoted;
use wire::{FlowKey, SeqNum};

use crate::link::LEAST_PATH_MSS;

/// Connections remembered. Direct-mapped by ports: a newer one takes the place of an older one.
const PLACES: usize = 1024;
/// A report comes within a round trip of a segment, or of one that is sent again.
const MEMORY: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug)]
struct Sent {
    flow: FlowKey,
    first: SeqNum,
    end: SeqNum,
    at: Instant,
}

/// The payload of connections that were handed over last.
#[derive(Debug, Default)]
pub(super) struct LastSent {
    /// None before the first.
    places: Box<[Option<Sent>]>,
}

impl LastSent {
    /// The NIC is to send so many bytes from `first` on. Of few bytes no report would tell anything.
    #[inline]
    pub fn note(&mut self, now: Instant, flow: &FlowKey, first: SeqNum, bytes: u32) {
        if bytes <= u32::from(LEAST_PATH_MSS) {
            return;
        }
        if self.places.is_empty() {
            self.places = vec![None; PLACES].into_boxed_slice();
        }
        self.places[place(flow)] = Some(Sent {
            flow: *flow,
            first,
            end: first + bytes,
            at: now,
        });
    }

    /// Whether a report quotes something of it.
    pub fn has(&self, now: Instant, quoted: &Quoted) -> bool {
        let sent = self.places.get(place(&quoted.flow)).copied().flatten();
        sent.is_some_and(|sent| {
            sent.flow == quoted.flow
                && now.saturating_duration_since(sent.at) < MEMORY
                && sent.first.at_or_before(quoted.seq)
                && quoted.seq.before(sent.end)
        })
    }
}

fn place(flow: &FlowKey) -> usize {
    let ports = u32::from(flow.src.1) << 16 | u32::from(flow.dst.1);
    ports.wrapping_mul(0x9e37_79b9) as usize >> 16 & (PLACES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_not_seen_a_segment_can_not_report_it_and_nobody_can_for_long() {
        let at = |port| std::net::SocketAddr::from(([10, 0, 0, 1], port));
        let (flow, other) = (FlowKey::new(at(80), at(1)), FlowKey::new(at(80), at(2)));
        let (mut sent, now) = (LastSent::default(), Instant::now());
        let reports = |sent: &LastSent, flow, seq, now| {
            let seq = SeqNum(seq);
            sent.has(now, &Quoted { flow, seq })
        };
        assert!(!reports(&sent, flow, 100, now));
        sent.note(now, &flow, SeqNum(100), 2000);
        sent.note(now, &other, SeqNum(100), u32::from(LEAST_PATH_MSS));
        for (flow, seq, is_sent) in [
            (flow, 99, false),
            (flow, 100, true),
            (flow, 2099, true),
            (flow, 2100, false),
            (other, 100, false),
        ] {
            assert_eq!(reports(&sent, flow, seq, now), is_sent, "{seq}");
        }
        assert!(!reports(&sent, flow, 100, now + MEMORY));
    }
}
