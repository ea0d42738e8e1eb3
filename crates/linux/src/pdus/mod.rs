//! Connections that carry NVMe/TCP PDUs, whose data the device places and whose digests it checks.
//!
//! The device writes data where the library wants it, on the way to Linux. What it did is reported in the connection's [slot](attachment::pdus)
//! before Linux gets the packet; the packet has all of its bytes, so that a library that does not believe the report reads them from the socket.
//!
//! ```text
//!   library ── mappings ──▶ slot ──▶ take changes, before a packet leaves ──▶ AddRrState, DelRrState ──▶ device
//!   library ◀── runs ────── slot ◀── admit, before Linux gets the packet ◀─── Packet, Placed ◀────────── device
//! ```
//!
//! - A mapping is taken over when a packet of the connection leaves, which the command is in: before it, on the same ring.
//! - Linux may drop a packet that the device has looked at, and take another copy, which another sender may have sent. So what comes again
//!   of bytes that Linux has not acknowledged is reported as [doubtful](attachment::pdus::Span::doubtful) before it goes up.
//! - A connection has an entry in the [state](crate::State), so that the next NIC knows its sequence numbers and need not have seen its handshake. It places
//!   nothing before Linux has acknowledged what the one before may have passed up.
//! - The end of a mapping is reported when the device can't write for it any more, after all that it wrote.

mod flow;
mod memories;
mod passed;
mod rebuilt;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use attachment::pdus::{Generation, Mapping};
use attachment::{DataMemory, Errno, FileIdentity, OffloadState, Shares, SlotRef};
use driver::{Command, PlacedPart, Ticket};
use l5p::Layers;
use l5p::nvme::Parameters;
use nic::ring::{ContextId, Direction, Packet, Region, RegionId, Regions};
use wire::packet::Parsed;
use wire::tcp::Flags;
use wire::{FlowKey, SeqNum};

use crate::contexts::{Owner, Rings};
use crate::counters::Counters;
use crate::following::{Flows, Following};
use crate::receive::{FAR_BEHIND, NO_STREAM_DATA, clear_urgent};
use crate::sockets::Sockets;
use crate::tracking::Located;
use flow::Flow;
use memories::Memories;
pub(crate) use rebuilt::Rebuilt;

/// Contexts for such connections.
pub(crate) const CONTEXTS: u32 = 4096;
/// How often it is asked whether sockets have gone of which there is a sign of that.
const CHECK: Duration = Duration::from_secs(1);
/// And all others.
const CHECK_ALL: Duration = Duration::from_secs(60);

/// All such connections of a function.
#[derive(Debug)]
pub(crate) struct Pdus {
    memories: Memories,
    pub(crate) flows: Flows<Flow>,
    by_slot: HashMap<(FileIdentity, u32), FlowKey>,
    /// Contexts that tenants have.
    shares: Shares,
    /// What is due when the device has come to a place in the order of what was posted.
    settling: VecDeque<(Ticket, Due)>,
    ended_entries: Vec<u32>,
    changes: Vec<(u16, Option<Mapping>)>,
    /// When to ask whether sockets have gone, and when all were asked about last.
    check_at: Option<Instant>,
    checked_all: Option<Instant>,
    /// When something was last posted that has to settle.
    touched: Option<Instant>,
}

/// What is due when the device is done with something.
#[derive(Debug)]
enum Due {
    /// Tell that a mapping has ended.
    Mapping(SlotRef, u16, Generation),
    /// A connection of this slot is no more; it may be used again if its library has released it.
    Flow {
        slot: SlotRef,
        is_released: bool,
        region: RegionId,
    },
}

impl Pdus {
    /// With memory among these regions.
    pub(crate) fn new(regions: &Arc<Regions>) -> Pdus {
        Pdus {
            memories: Memories::new(regions),
            flows: Flows::default(),
            by_slot: HashMap::new(),
            shares: Shares::new(CONTEXTS.into()),
            settling: VecDeque::new(),
            ended_entries: Vec::new(),
            changes: Vec::new(),
            check_at: None,
            checked_all: None,
            touched: None,
        }
    }

    /// Whether there is any connection.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// A connection has this entry in the table of those that outlive the NIC.
    pub(crate) fn set_entry(&mut self, facts: &Located, entry: Option<u32>) {
        if let Some(flow) = self.flows.get_mut(&facts.flow.reversed()) {
            flow.entry = entry;
        }
    }

    /// An entry of a connection that has ended.
    pub(crate) fn poll_ended_entry(&mut self) -> Option<u32> {
        self.ended_entries.pop()
    }

    /// Follows the PDUs of a socket from its next byte on. Before `queued` Linux may have bytes, or be about to get them.
    pub(crate) fn start(
        &mut self,
        now: Instant,
        slot: &SlotRef,
        memory: &Arc<DataMemory>,
        parameters: Parameters,
        (facts, queued): (&Located, SeqNum),
        rings: &mut Rings,
    ) -> Result<SeqNum, Errno> {
        let key = facts.flow.reversed();
        match self.flows.get(&key) {
            Some(known) if known.cookie == facts.cookie => return Err(Errno::BUSY),
            // There are no two sockets of the same addresses and ports: that one has gone.
            Some(_) => self.remove(key, false, rings),
            None => {}
        }
        if self.by_slot.contains_key(&slot.place()) {
            return Err(Errno::BUSY);
        }
        if parameters.commands > attachment::pdus::TAGS {
            return Err(Errno::INVAL);
        }
        if !self.shares.admits(facts.tenant, 1) {
            return Err(Errno::NOSPC);
        }
        let region = self.memories.take(memory)?;
        self.shares.force(facts.tenant, 1);
        let place = (facts, queued);
        let flow = Flow::new(place, slot.clone(), parameters, region, memory.len() as u64);
        self.flows.insert(key, flow);
        self.by_slot.insert(slot.place(), key);
        let waits = queued.after(facts.receive_next);
        // Nothing of the stream has come that the device does not see.
        let is_seen = facts.receive_next == facts.read && !facts.reordered;
        let start = match is_seen {
            true => facts.read,
            false => facts.read - FAR_BEHIND,
        };
        if !waits && !self.follow(key, start, rings) {
            self.remove(key, false, rings);
            return Err(Errno::NOSPC);
        }
        if let Some(flow) = self.flows.get_mut(&key) {
            if waits {
                flow.following = Following::From(queued);
            }
            flow.report(OffloadState::Offloaded);
        }
        self.check_at.get_or_insert(now + CHECK);
        Ok(facts.read)
    }

    /// Looks at what has changed in a connection's mappings although nothing is sent. False for a slot that is not known.
    pub(crate) fn settle(
        &mut self,
        now: Instant,
        slot: &SlotRef,
        counters: &mut Counters,
        rings: &mut Rings,
    ) -> bool {
        let Some(key) = self.key_of(slot) else {
            return false;
        };
        self.touched = Some(now);
        self.take_changes(key, counters, rings);
        true
    }

    /// The program is about to close the socket. False for a slot that is not known.
    pub(crate) fn release(&mut self, now: Instant, slot: &SlotRef, rings: &mut Rings) -> bool {
        let Some(key) = self.key_of(slot) else {
            return false;
        };
        self.touched = Some(now);
        self.remove(key, true, rings);
        true
    }

    /// The connection of a slot.
    fn key_of(&self, slot: &SlotRef) -> Option<FlowKey> {
        let key = self.by_slot.get(&slot.place())?;
        let flow = self.flows.get(key)?;
        (flow.slot == *slot).then_some(*key)
    }

    /// The memory for data of this id.
    pub(crate) fn memory(&self, id: RegionId) -> Option<&Region> {
        self.memories.get(id)
    }

    /// Looks at a frame that Linux is sending, before it is posted.
    #[inline]
    pub(crate) fn linux_sent(
        &mut self,
        parsed: &Parsed,
        counters: &mut Counters,
        rings: &mut Rings,
    ) {
        let flags = parsed.tcp.flags;
        if self.flows.is_empty() {
            return;
        }
        let key = parsed.flow.reversed();
        let Some(flow) = self.flows.get_mut(&key) else {
            return;
        };
        if flags.contains(Flags::ACK) && !flags.contains(Flags::RST) {
            flow.acknowledge(parsed.tcp.ack);
        }
        flow.is_ending |= flags.intersects(Flags::RST.union(Flags::FIN));
        if flow.may_go_on() {
            let start = flow.acknowledged() - FAR_BEHIND;
            self.follow(key, start, rings);
        }
        self.take_changes(key, counters, rings);
    }

    fn take_changes(&mut self, key: FlowKey, counters: &mut Counters, rings: &mut Rings) {
        let Some(flow) = self.flows.get_mut(&key) else {
            return;
        };
        flow.take_changes(&mut self.changes);
        let mut is_invalid = false;
        for (tag, mapping) in self.changes.drain(..) {
            let Ok(change) = flow.change(tag, mapping) else {
                is_invalid = true;
                break;
            };
            if let Some(context) = change.unmaps {
                rings.command(Command::DelRr(context, tag));
            }
            if let Some((context, slice)) = change.maps {
                rings.command(Command::AddRr(context, tag, slice));
            }
            if let Some(generation) = change.ends {
                let due = Due::Mapping(flow.slot.clone(), tag, generation);
                self.settling.push_back((rings.ticket(), due));
            }
        }
        self.changes.clear();
        if is_invalid {
            counters.nvme_lies += 1;
            self.flows.stop_following(key, rings);
            if let Some(flow) = self.flows.get(&key) {
                flow.report(OffloadState::Software);
            }
        }
    }

    /// Looks at a frame for Linux, of which `parts` were placed. False when it must not go to Linux.
    pub(crate) fn admit(
        &mut self,
        frame: &mut [u8],
        parsed: &Parsed,
        packet: &Packet,
        parts: &[PlacedPart],
        counters: &mut Counters,
        rings: &mut Rings,
    ) -> bool {
        let Some(flow) = self.flows.get_mut(&parsed.flow) else {
            return true;
        };
        let flags = parsed.tcp.flags;
        flow.is_ending |= flags.intersects(Flags::RST.union(Flags::FIN));
        if parsed.payload_len == 0 || flags.intersects(NO_STREAM_DATA) {
            return true;
        }
        if flags.contains(Flags::URG) {
            // Linux would leave a byte out of the stream, and everything behind it would be one place off.
            clear_urgent(&mut frame[parsed.l4_offset..]);
        }
        let bytes = (parsed.tcp.seq, parsed.payload_len);
        match flow.admit(bytes, parts, packet.processed.by(0)) {
            Ok(admitted) => {
                counters.rx_nvme_second_copies += u64::from(admitted.is_second);
                counters.rx_nvme_untold += u64::from(admitted.is_unreported);
                if flow.is_low() && matches!(flow.following, Following::By(_)) {
                    counters.rx_nvme_paused += 1;
                    self.flows.stop_following(parsed.flow, rings);
                    if let Some(flow) = self.flows.get_mut(&parsed.flow) {
                        flow.following = Following::Paused;
                    }
                }
                true
            }
            Err(_) => {
                counters.rx_nvme_results_full += 1;
                false
            }
        }
    }

    /// A command was refused that named this context.
    pub(crate) fn refused(&mut self, context: ContextId, key: FlowKey, rings: &mut Rings) {
        if self.flows.is_followed_by(context, key) {
            self.flows.stop_following(key, rings);
        }
    }

    /// Tells what the device is done with.
    pub(crate) fn handle_settled(&mut self, rings: &mut Rings) {
        while let Some((ticket, _)) = self.settling.front_mut()
            && rings.is_settled(ticket)
            && let Some((_, due)) = self.settling.pop_front()
        {
            self.done(due);
        }
    }

    fn done(&mut self, due: Due) {
        match due {
            Due::Mapping(slot, tag, generation) => {
                let key = self.key_of(&slot);
                if let Some(flow) = key.and_then(|key| self.flows.get_mut(&key)) {
                    flow.end_mapping(tag, generation);
                }
            }
            Due::Flow {
                slot,
                is_released,
                region,
            } => {
                self.memories.give_back(region);
                if is_released {
                    slot.slot().free(slot.generation());
                }
            }
        }
    }

    /// Makes a context for a connection. False when all are taken.
    fn follow(&mut self, key: FlowKey, tcpsn: SeqNum, rings: &mut Rings) -> bool {
        let Some(flow) = self.flows.get_mut(&key) else {
            return false;
        };
        let (owner, layers) = (Owner::Pdus(key), Layers::of(&flow.parameters));
        let Some(context) = rings.create(owner, Direction::Receive, key, tcpsn, layers) else {
            return false;
        };
        flow.following = Following::By(context);
        true
    }

    /// Ends a connection.
    fn remove(&mut self, key: FlowKey, is_released: bool, rings: &mut Rings) {
        self.flows.stop_following(key, rings);
        let Some(flow) = self.flows.remove(&key) else {
            return;
        };
        self.shares.give(flow.tenant, 1);
        self.ended_entries.extend(flow.entry);
        self.by_slot.remove(&flow.slot.place());
        let due = Due::Flow {
            slot: flow.slot,
            is_released,
            region: flow.region,
        };
        self.settling.push_back((rings.ticket(), due));
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), and then to publish.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let settling = self.touched.filter(|_| !self.settling.is_empty());
        [settling, self.check_at].into_iter().flatten().min()
    }

    /// Asks Linux which connections have gone, if that is due.
    pub(crate) fn handle_timeout(
        &mut self,
        now: Instant,
        sockets: &mut dyn Sockets,
        rings: &mut Rings,
    ) {
        if self.check_at.is_none_or(|at| at > now) {
            return;
        }
        let asks_all = self.checked_all.is_none_or(|at| at + CHECK_ALL <= now);
        if asks_all {
            self.checked_all = Some(now);
        }
        let asked = self.flows.iter();
        let asked = asked.filter(|(_, flow)| asks_all || flow.is_ending);
        let gone: Vec<FlowKey> = asked
            .filter(|(_, flow)| sockets.is_gone(&flow.key, flow.cookie))
            .map(|(key, _)| *key)
            .collect();
        for key in gone {
            self.touched = Some(now);
            self.remove(key, false, rings);
        }
        self.check_at = (!self.flows.is_empty()).then(|| now + CHECK);
    }
}
