//! Packets of connections that the device runs: through checksum, context and placing as all others, and then to the queue
//! of NIC packets in place of the receive ring (Connection handoff policies §3.1). And from there back to the host, when the device does
//! not run the connection after all.

use ::tcp::Accepted;
use probes::DropReason;
use wire::FlowKey;
use wire::ethernet::MacAddr;
use wire::packet::{MAX_TCP_HEADERS_LEN, emit_tcp_headers};
use wire::tcp::{self, Header};
use wire::{ethernet, ipv4};

use super::Host;
use crate::buffers;
use crate::context::receive::placing::{MAX_PLACED, Placed, PlacedList};
use crate::frame::Segment;
use crate::function::Function;
use crate::lro::Session;
use crate::ring::toe::ToeEvent;
use crate::ring::{Packet, Processed, RecvDescriptor, Slice};
use crate::rss::Steering;
use crate::rx_queue::Taken;
use crate::rx_queue::{NicPacket, Stored};

/// Whose packets these are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sender<'a> {
    /// Of received packets: from the peer to us.
    pub(crate) flow: &'a FlowKey,
    /// Of the flow.
    pub(crate) hash: u64,
    /// The hop that they come from.
    pub(crate) hop: MacAddr,
}

/// Ends the session of a flow that comes on this queue, if it has one, so that what comes after it may go another way.
pub(crate) fn end_session(function: &mut Function, queue: usize, hash: u64, flow: &FlowKey) {
    if let Some(mut host) = Host::of(function, queue)
        && let Some(at) = host.queue.receive.sessions.find(hash, flow)
    {
        host.end_session(at);
    }
}

/// Ends all sessions, so that what comes after them may go another way.
pub(crate) fn end_sessions(function: &mut Function) {
    for queue in 0..function.queues.len() {
        if let Some(mut host) = Host::of(function, queue) {
            host.end_sessions();
        }
    }
}

/// Ends all sessions of connections that the device runs: what has come is in the queue of NIC packets then.
pub(crate) fn end_own_sessions(function: &mut Function) {
    for queue in 0..function.queues.len() {
        if let Some(mut host) = Host::of(function, queue) {
            while let Some(at) = host.queue.receive.sessions.any_own() {
                host.end_session(at);
            }
        }
    }
}

/// Takes all buffers back of packets that were not delivered, and forgets these packets.
pub(crate) fn reset(function: &mut Function) {
    let connections = function.nic_packets.connections();
    for queue in 0..function.queues.len() {
        let Some(mut host) = Host::of(function, queue) else {
            continue;
        };
        for connection in 0..connections {
            if host.nic_packets.queue_of(connection) != queue {
                continue;
            }
            while let Some(packet) = host.nic_packets.take(connection, |_| {}) {
                if let Stored::Buffer(packet, whole) = packet.stored {
                    host.take_back(&packet, whole);
                }
            }
        }
        while let Some(at) = host.queue.receive.sessions.any() {
            if let Some(session) = host.queue.receive.sessions.take(at) {
                let buffers = &mut host.queue.receive.buffers;
                buffers.give_back(session.buffer, host.large_bytes);
            }
        }
    }
    function.nic_packets.clear();
}

/// Passes what is queued of a connection to the host, in order and as any packet. False when the receive ring has no room for
/// all of it: call it again.
///
/// A packet that was kept as a header only is written anew. If there is no buffer for it, it is lost, as it would have been
/// when it came.
pub(crate) fn pass_to_host(function: &mut Function, connection: u32, sender: &Sender<'_>) -> bool {
    let queue = function.nic_packets.queue_of(connection);
    end_session(function, queue, sender.hash, sender.flow);
    let source = function.config.mac;
    let steering = function.rss.steer_tcp(sender.hash, sender.flow);
    function.nic_packets.hold(connection);
    let Some(mut host) = Host::of(function, queue) else {
        return true;
    };
    while let Some(packet) = host.nic_packets.front(connection) {
        let descriptors = 1 + u32::from(packet.placed());
        if !host.has_space(descriptors) {
            return false;
        }
        let mut placed = PlacedList::default();
        let taken = host.nic_packets.take(connection, |part| {
            placed.push(part);
        });
        let Some(packet) = taken else {
            return true;
        };
        host.counters.toe_rx_to_host += u64::from(packet.segments());
        match packet.stored {
            Stored::Buffer(packet, _) => host.show(packet, placed.as_slice()),
            Stored::Header { hop_limit } => {
                host.write_anew(&packet.header, sender, source, hop_limit, steering);
            }
        }
    }
    true
}

/// Tells the host what TCP has taken of a packet, on the queue's receive ring, which has room for it; or takes the packet's buffer
/// back, if that is nothing.
///
/// What was placed is reported either way: the host must know what was written to its buffers.
pub(crate) fn settle(
    function: &mut Function,
    queue: usize,
    packet: &NicPacket,
    placed: &[Placed],
    taken: &Taken,
) {
    let Stored::Buffer(stored, whole) = packet.stored else {
        return;
    };
    let Some(mut host) = Host::of(function, queue) else {
        return;
    };
    let accepted = taken.accepted.filter(|accepted| accepted.len > 0);
    if accepted.is_none() && placed.is_empty() {
        host.take_back(&stored, whole);
        return;
    }
    let nothing = Accepted {
        skip: 0,
        len: 0,
        seq: packet.header.seq,
    };
    let Accepted { skip, len, seq } = accepted.unwrap_or(nothing);
    host.emit(RecvDescriptor::Toe(ToeEvent::Delivered {
        toe: taken.toe,
        seq,
        skip,
        len,
        rcv_nxt: taken.rcv_nxt,
        snd_una: taken.acked.0,
        flight: taken.acked.1,
    }));
    host.show(stored, placed);
}

impl Host<'_> {
    /// Queues a segment without payload by its header alone, unless it may still be the host's to see. False when it needs a
    /// buffer as any other.
    pub(super) fn queue_header(&mut self, connection: u32, segment: &Segment<'_>) -> bool {
        let parsed = segment.parsed;
        if parsed.payload_len > 0 || self.nic_packets.holds(connection) {
            return false;
        }
        let sessions = &self.queue.receive.sessions;
        if let Some(session) = sessions.find(segment.hash, &parsed.flow) {
            self.end_session(session);
        }
        if self.has_place() {
            let packet = NicPacket {
                header: parsed.tcp,
                stored: Stored::Header {
                    hop_limit: parsed.hop_limit,
                },
            };
            self.put(connection, packet, &[]);
        }
        true
    }

    /// Queues a packet, which is in its buffer.
    pub(super) fn queue_packet(
        &mut self,
        connection: u32,
        header: Header,
        stored: Stored,
        placed: &[Placed],
    ) {
        self.put(connection, NicPacket { header, stored }, placed);
    }

    /// Queues a session that was just taken from this place.
    pub(super) fn queue_session(&mut self, at: usize, session: &Session) {
        let Some(connection) = session.connection else {
            return;
        };
        let mut placed = [Placed::NOTHING; MAX_PLACED];
        let parts = self.queue.receive.sessions.placed(at);
        let placed = &mut placed[..parts.len()];
        placed.copy_from_slice(parts);
        self.nic_packets.redeem(placed.len() as u32);
        let packet = session.packet(placed.len() as u16, 0);
        let stored = Stored::Buffer(packet, session.buffer.len);
        self.queue_packet(connection, session.header(), stored, placed);
    }

    /// Whether the queue of NIC packets has room for one more. A full queue is counted.
    pub(super) fn has_place(&mut self) -> bool {
        let has_room = self.nic_packets.has_room();
        if !has_room {
            self.count_drop(DropReason::ToeRxQueueFull);
        }
        has_room
    }

    /// Whether a resync request may go up now. For the host's own packets there is room already.
    pub(super) fn may_ask(&mut self, segment: &Segment<'_>) -> bool {
        segment.connection.is_none() || self.has_space(1)
    }

    /// Shows the host a packet, for which there is room.
    pub(super) fn show(&mut self, packet: Packet, placed: &[Placed]) {
        let placed_len = placed.len() as u16;
        self.emit(RecvDescriptor::Packet(Packet {
            placed: placed_len,
            ..packet
        }));
        for part in placed {
            self.emit(part.descriptor());
        }
    }

    /// Takes back the buffer of a packet that is not delivered.
    pub(super) fn take_back(&mut self, packet: &Packet, whole: u32) {
        let buffer = Slice {
            len: whole,
            ..packet.buffer
        };
        self.queue
            .receive
            .buffers
            .give_back(buffer, self.large_bytes);
    }

    fn put(&mut self, connection: u32, packet: NicPacket, placed: &[Placed]) {
        self.counters.toe_rx_packets += u64::from(packet.segments());
        let taken = self
            .nic_packets
            .push(connection, packet, placed.iter().copied());
        if taken {
            return;
        }
        self.count_drop(DropReason::ToeRxQueueFull);
        if let Stored::Buffer(packet, whole) = packet.stored {
            self.take_back(&packet, whole);
        }
    }

    /// As [`has_room_for`](Self::has_room_for), without counting.
    fn has_space(&mut self, descriptors: u32) -> bool {
        let needed = self.queue.receive.reserved() + descriptors;
        self.queue.rings.recv.free(needed) >= needed
    }

    /// Writes a packet that is known by its header only.
    fn write_anew(
        &mut self,
        header: &Header,
        sender: &Sender<'_>,
        own: MacAddr,
        hop_limit: u8,
        steering: Steering,
    ) {
        let Some(buffer) = self.take_buffer(MAX_TCP_HEADERS_LEN as u32) else {
            return;
        };
        let flow = sender.flow;
        let mut out = [0; MAX_TCP_HEADERS_LEN];
        let len = emit_tcp_headers(&mut out, sender.hop, own, flow, header, 0, hop_limit);
        let l4 = len - header.len();
        if flow.src.0.is_ipv4() {
            ipv4::fill_checksum(&mut out[ethernet::HEADER_LEN..l4]);
        }
        tcp::fill_checksum(flow.src.0, flow.dst.0, &mut out[l4..len]);
        let (out, len) = (&out[..len], len as u32);
        if buffers::write(self.regions, buffer, 0, len, |to| to.copy_from(out)).is_none() {
            return self.count_drop(DropReason::RxBadBuffer);
        }
        self.counters.pcie_payload_rx += u64::from(len);
        let packet = Packet {
            buffer: Slice { len, ..buffer },
            header_len: len as u16,
            payload_len: 0,
            segments: 1,
            context: None,
            processed: Processed::NONE,
            placed: 0,
            notes: 0,
            checksum_ok: true,
            hash: steering.hash,
            hash_type: steering.hash_type,
        };
        self.show(packet, &[]);
    }
}
