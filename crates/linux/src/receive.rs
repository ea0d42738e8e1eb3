//! The receive direction of connections whose records the NIC opens.
//!
//! The device decrypts packets on their way to Linux. What it did is reported in the connection's [results](attachment::results) before the packet
//! goes to Linux, so that the program's library finds it there with the bytes. What is awkward about that is what TCP does meanwhile: packets
//! come twice, overlap, and are dropped. Linux never knows of two forms, and keeps whatever copy it likes. So:
//!
//! - The forms in which bytes went up that Linux has not acknowledged are remembered, frame by frame ([`forms`]). A second copy in another form is
//!   reported as such before it goes up; the library finds out which one Linux has kept, for of all combinations only one has the right tag.
//! - A frame of which that can't be reported does not go up. TCP brings it again, and the device never decrypts anything twice.
//! - URG is taken off: Linux would leave a byte out of the stream, and everything behind it would be one place off.
//!
//! Positions are exact because this driver carries all of the flow's packets, and is given keys between two of them.

mod flow;
mod forms;
#[cfg(test)]
mod tests;

use attachment::SlotRef;
use l5p::Layers;
use l5p::tls::CryptoInfo;
use nic::ring::{ContextId, Direction};
use wire::packet::Parsed;
use wire::tcp::Flags;
use wire::{FlowKey, SeqNum};

use crate::contexts::{Owner, Quota, Rings};
use crate::counters::Counters;
use crate::following::{Flows, Following};
use flow::{Beginning, Flow, Refused};

pub(crate) use flow::Start;

/// A context that has to find its place in the stream begins so far before it that no packet is taken for its first one.
pub(crate) const FAR_BEHIND: u32 = 1 << 29;

/// All flows, and their contexts in the device.
#[derive(Debug)]
pub(crate) struct Receive {
    pub(crate) flows: Flows<Flow>,
    quota: Quota,
}

impl Receive {
    /// With so many contexts.
    pub(crate) fn new(quota: Quota) -> Receive {
        Receive {
            flows: Flows::default(),
            quota,
        }
    }

    /// Opens the records that come from `start` on; the next one has the number in `keys` and begins there, or at `boundary` if that is given. Keys
    /// for a flow that has some take their place. `flow` is that of the packets that come.
    pub(crate) fn set_keys(
        &mut self,
        flow: FlowKey,
        slot: SlotRef,
        keys: CryptoInfo,
        start: Start,
        boundary: Option<SeqNum>,
        rings: &mut Rings,
    ) {
        self.stop_following(flow, rings);
        let index = keys.sequence;
        match self.flows.get_mut(&flow) {
            Some(known) => known.rekey(slot, keys, start),
            None => drop(self.flows.insert(flow, Flow::new(slot, keys, start))),
        }
        let is_seen = start.next == start.tcpsn && boundary.is_none_or(|tcpsn| tcpsn == start.next);
        let waits = self
            .flows
            .get(&flow)
            .is_some_and(|flow| flow.following != Following::No);
        if !waits {
            let beginning = match is_seen {
                true => Beginning::At {
                    tcpsn: start.tcpsn,
                    index,
                },
                false => Beginning::Anywhere,
            };
            self.follow(flow, beginning, rings);
        }
    }

    /// Decrypts nothing any more of a flow. What went up of it stays known.
    pub(crate) fn stop(&mut self, flow: FlowKey, rings: &mut Rings) {
        self.stop_following(flow, rings);
    }

    /// A flow has ended.
    pub(crate) fn remove(&mut self, flow: FlowKey, rings: &mut Rings) {
        self.stop_following(flow, rings);
        self.flows.remove(&flow);
    }

    /// Whether there is any flow.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Looks at a frame that comes, which `context` has decrypted if there is one, and tells of it. False when it must not go to Linux.
    pub(crate) fn admit(
        &mut self,
        frame: &mut [u8],
        parsed: &Parsed,
        context: Option<ContextId>,
        counters: &mut Counters,
        rings: &mut Rings,
    ) -> bool {
        let Some(flow) = self.flows.get_mut(&parsed.flow) else {
            // Plaintext of an unknown connection.
            return context.is_none();
        };
        if parsed.payload_len == 0 || parsed.tcp.flags.intersects(NO_STREAM_DATA) {
            return context.is_none();
        }
        if parsed.tcp.flags.contains(Flags::URG) {
            clear_urgent(&mut frame[parsed.l4_offset..]);
        }
        let tag = match context {
            None => None,
            Some(id) => match rings.contexts.get_received(id) {
                Some(Owner::Receiver(flow, tag)) if *flow == parsed.flow => Some(*tag),
                _ => return false,
            },
        };
        match flow.admit((parsed.tcp.seq, parsed.payload_len), tag) {
            Ok(is_second) => {
                counters.rx_tls_second_copies += u64::from(is_second);
                if flow.is_low() && matches!(flow.following, Following::By(_)) {
                    counters.rx_tls_paused += 1;
                    self.stop_following(parsed.flow, rings);
                    if let Some(flow) = self.flows.get_mut(&parsed.flow) {
                        flow.following = Following::Paused;
                    }
                }
                true
            }
            Err(Refused::Full) => {
                counters.rx_tls_results_full += 1;
                false
            }
            Err(Refused::Unfit(_)) => {
                counters.rx_tls_unfit += 1;
                false
            }
        }
    }

    /// Looks at a frame that Linux has sent.
    #[inline]
    pub(crate) fn linux_sent(&mut self, parsed: &Parsed, rings: &mut Rings) {
        let flags = parsed.tcp.flags;
        if self.flows.is_empty() || !flags.contains(Flags::ACK) || flags.contains(Flags::RST) {
            return;
        }
        let key = parsed.flow.reversed();
        let Some(flow) = self.flows.get_mut(&key) else {
            return;
        };
        flow.acknowledge(parsed.tcp.ack);
        if flow.may_follow() {
            self.follow(key, Beginning::Anywhere, rings);
        }
    }

    /// A command was refused that named this context.
    pub(crate) fn refused(&mut self, context: ContextId, flow: FlowKey, rings: &mut Rings) {
        if self.flows.is_followed_by(context, flow) {
            self.stop_following(flow, rings);
        }
    }

    /// Makes a context, if there is one left.
    fn follow(&mut self, key: FlowKey, beginning: Beginning, rings: &mut Rings) {
        let Some(flow) = self.flows.get_mut(&key) else {
            return;
        };
        let mut keys = flow.keys.clone();
        let tcpsn = match beginning {
            Beginning::At { tcpsn, index } => {
                keys.sequence = index;
                tcpsn
            }
            Beginning::Anywhere => flow.acknowledged() - FAR_BEHIND,
        };
        let owner = Owner::Receiver(key, flow.next_tag());
        let layers = Layers::of(&keys);
        let context = self
            .quota
            .take(|| rings.create(owner, Direction::Receive, key, tcpsn, layers));
        flow.following = context.map_or(Following::No, Following::By);
    }

    fn stop_following(&mut self, key: FlowKey, rings: &mut Rings) {
        if self.flows.stop_following(key, rings) {
            self.quota.give();
        }
    }
}

/// Makes a segment one without urgent data. Its checksum is still to be made.
pub(crate) fn clear_urgent(segment: &mut [u8]) {
    const FLAGS: usize = 13;
    const POINTER: usize = 18;
    segment[FLAGS] &= !Flags::URG.0;
    segment[POINTER..POINTER + 2].fill(0);
}

/// Segments that carry no bytes of the stream.
pub(crate) const NO_STREAM_DATA: Flags = Flags::SYN.union(Flags::RST);
