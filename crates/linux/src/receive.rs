//! The receive direction of connections whose records the NIC opens.
//!
//! The device decrypts packets on their way to Linux. What it did is told in the connection's [results](attachment::results) before the packet
//! goes to Linux, so that the program's library finds it there with the bytes. What is awkward about that is what TCP does meanwhile: packets
//! come twice, overlap, and are dropped. Linux never knows of two forms, and keeps whatever copy it likes. So:
//!
//! - The forms in which bytes went up that Linux has not acknowledged are remembered, frame by frame ([`forms`]). A second copy in another form is
//!   told as such before it goes up; the library finds out which one Linux has kept, for of all combinations only one has the right tag.
//! - A frame of which that can't be told does not go up. TCP brings it again, and the device never decrypts anything twice.
//! - URG is taken off: Linux would leave a byte out of the stream, and everything behind it would be one place off.
//!
//! Positions are exact because this driver carries all of the flow's packets, and is given keys between two of them.

mod flow;
mod forms;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};

use attachment::SlotRef;
use attachment::results::Mark;
use l5p::Layers;
use l5p::tls::CryptoInfo;
use nic::ring::{ContextId, Direction, SendDescriptor, SendProducer};
use wire::packet::Parsed;
use wire::tcp::Flags;
use wire::{FlowKey, SeqNum};

use crate::counters::Counters;
use flow::{Beginning, Flow, Following, Refused};

pub(crate) use flow::Start;

/// A context that has to find its place in the stream begins so far before it that no packet is taken for its first one.
pub(crate) const FAR_BEHIND: u32 = 1 << 29;

/// All flows, and their contexts in the device.
#[derive(Debug)]
pub(crate) struct Receive {
    /// By the flow of the packets that come.
    flows: HashMap<FlowKey, Flow>,
    contexts: HashMap<ContextId, Context>,
    /// The one given back last is used last: packets that name it may be on their way.
    free: VecDeque<ContextId>,
    /// What the send ring had no room for, in order.
    commands: VecDeque<Command>,
    /// Flows whose device asked something.
    asking: Vec<FlowKey>,
}

/// What a packet that names a context is of.
#[derive(Clone, Copy, Debug)]
struct Context {
    flow: FlowKey,
    mark: Mark,
}

/// Something for the device.
#[derive(Debug)]
enum Command {
    Create {
        context: ContextId,
        flow: FlowKey,
        tcpsn: SeqNum,
        keys: Box<CryptoInfo>,
    },
    Destroy(ContextId),
    Answer {
        context: ContextId,
        tcpsn: SeqNum,
        index: Option<u64>,
    },
}

impl Receive {
    /// With these ids for contexts.
    pub(crate) fn new(ids: std::ops::Range<u32>) -> Receive {
        Receive {
            flows: HashMap::new(),
            contexts: HashMap::new(),
            free: ids.map(ContextId).collect(),
            commands: VecDeque::new(),
            asking: Vec::new(),
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
    ) {
        self.stop_following(flow);
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
            self.follow(flow, beginning);
        }
    }

    /// Decrypts nothing any more of a flow. What went up of it stays known.
    pub(crate) fn stop(&mut self, flow: FlowKey) {
        self.stop_following(flow);
    }

    /// A flow has ended.
    pub(crate) fn remove(&mut self, flow: FlowKey) {
        self.stop_following(flow);
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
    ) -> bool {
        let Some(flow) = self.flows.get_mut(&parsed.flow) else {
            // Plaintext for nobody.
            return context.is_none();
        };
        if parsed.payload_len == 0 || parsed.tcp.flags.intersects(NO_STREAM_DATA) {
            return context.is_none();
        }
        if parsed.tcp.flags.contains(Flags::URG) {
            clear_urgent(&mut frame[parsed.l4_offset..]);
        }
        let mark = match context {
            None => None,
            Some(id) => match self.contexts.get(&id) {
                Some(context) if context.flow == parsed.flow => Some(context.mark),
                _ => return false,
            },
        };
        match flow.admit((parsed.tcp.seq, parsed.payload_len), mark) {
            Ok(is_second) => {
                counters.rx_tls_second_copies += u64::from(is_second);
                if flow.is_low() && matches!(flow.following, Following::By(_)) {
                    counters.rx_tls_paused += 1;
                    self.stop_following(parsed.flow);
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
    pub(crate) fn linux_sent(&mut self, parsed: &Parsed) {
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
            self.follow(key, Beginning::Anywhere);
        }
    }

    /// The device asks whether a record begins at `tcpsn` (`l5o_resync_rx_req`).
    pub(crate) fn resync_request(&mut self, context: ContextId, tcpsn: SeqNum) {
        let Some(Context { flow: key, .. }) = self.contexts.get(&context).copied() else {
            return;
        };
        let Some(flow) = self.flows.get_mut(&key) else {
            return;
        };
        if flow.following == Following::By(context) {
            flow.ask(tcpsn);
            if !self.asking.contains(&key) {
                self.asking.push(key);
            }
        }
    }

    /// A command was refused that named this context. False when there is none.
    pub(crate) fn refused(&mut self, context: ContextId) -> bool {
        let Some(Context { flow, .. }) = self.contexts.get(&context).copied() else {
            return false;
        };
        if let Some(flow) = self.flows.get_mut(&flow)
            && flow.following == Following::By(context)
        {
            flow.following = Following::No;
        }
        self.release(context);
        true
    }

    /// Passes the library's answers on, and posts what there is room for.
    pub(crate) fn publish(&mut self, ring: &mut SendProducer) {
        if !self.asking.is_empty() {
            self.take_answers();
        }
        while let Some(command) = self.commands.front() {
            let posted = match command {
                Command::Create {
                    context,
                    flow,
                    tcpsn,
                    keys,
                } => ring.post(&SendDescriptor::CreateContext {
                    context: *context,
                    direction: Direction::Receive,
                    flow: *flow,
                    tcpsn: *tcpsn,
                    layers: &Layers::of(&**keys),
                }),
                Command::Destroy(context) => {
                    ring.post(&SendDescriptor::DestroyContext { context: *context })
                }
                Command::Answer {
                    context,
                    tcpsn,
                    index,
                } => ring.post(&SendDescriptor::ResyncResponse {
                    context: *context,
                    tcpsn: *tcpsn,
                    inner: None,
                    confirmed: index.is_some(),
                    index: index.unwrap_or(0),
                }),
            };
            if posted.is_err() {
                break;
            }
            self.commands.pop_front();
        }
    }

    fn take_answers(&mut self) {
        let mut asking = std::mem::take(&mut self.asking);
        asking.retain(|key| {
            let Some(flow) = self.flows.get_mut(key) else {
                return false;
            };
            let Following::By(context) = flow.following else {
                flow.forget_question();
                return false;
            };
            if let Some((tcpsn, index)) = flow.poll_answer() {
                self.commands.push_back(Command::Answer {
                    context,
                    tcpsn,
                    index,
                });
            }
            flow.asks()
        });
        self.asking = asking;
    }

    /// Makes a context, if there is one left.
    fn follow(&mut self, key: FlowKey, beginning: Beginning) {
        let Some(flow) = self.flows.get_mut(&key) else {
            return;
        };
        let Some(context) = self.free.pop_front() else {
            flow.following = Following::No;
            return;
        };
        let mut keys = Box::new(flow.keys.clone());
        let tcpsn = match beginning {
            Beginning::At { tcpsn, index } => {
                keys.sequence = index;
                tcpsn
            }
            Beginning::Anywhere => flow.acknowledged() - FAR_BEHIND,
        };
        let mark = flow.next_mark();
        flow.following = Following::By(context);
        self.contexts.insert(context, Context { flow: key, mark });
        self.commands.push_back(Command::Create {
            context,
            flow: key,
            tcpsn,
            keys,
        });
    }

    fn stop_following(&mut self, key: FlowKey) {
        let Some(flow) = self.flows.get_mut(&key) else {
            return;
        };
        if let Following::By(context) = flow.following {
            flow.following = Following::No;
            flow.forget_question();
            self.commands.push_back(Command::Destroy(context));
            self.release(context);
        }
    }

    /// The id may be used again, after all others. Packets of the context that are on their way are still known as such.
    fn release(&mut self, context: ContextId) {
        self.free.push_back(context);
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
