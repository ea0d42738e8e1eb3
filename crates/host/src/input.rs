//! What becomes of a frame that has come.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use nic::ring::ErrorCode;
use nic::ring::accel::Established;
use tcp::{Accepted, AckAction, Chunk, State, SynAction, Verdict};
use wire::SeqNum;
use wire::ethernet::MacAddr;
use wire::packet::{self, Class, IpPacket, Parsed};
use wire::tcp::{Flags, Header};

use crate::SocketId;
use crate::accel::is_of_splice;
use crate::driver::{Frame, FrameInfo, Received, Supply};
use crate::memory::Buffer;
use crate::meter::Component;
use crate::socket::{Marks, Placed, Segment, Socket};
use crate::stack::{Core, Stack};

/// Payload so short that keeping it in a packet's buffer would waste it.
const COPY_BELOW: u32 = 256;
/// Payload that goes behind what came before it, if there is room, so that many short segments don't take a block each.
const APPEND_BELOW: u32 = 1024;

impl Stack {
    /// Takes what the NIC has to say.
    pub(crate) fn take_in(&mut self, now: Instant, received: Received) {
        match received {
            Received::Frame { frame, info, .. } if info.is_placed => {
                match packet::parse_headers(&frame) {
                    Ok(parsed) if parsed.payload_len == info.payload_len && info.checksum_ok => {
                        self.take_segment(now, frame, &parsed, info, None);
                    }
                    // No device of ours takes the payload of such a packet away.
                    _ => self.core.counters.driver_errors += 1,
                }
            }
            Received::Frame {
                frame,
                info,
                opening,
            } => match packet::classify(&frame) {
                Class::Tcp(parsed) => self.take_segment(now, frame, &parsed, info, opening),
                class => self.take_other(now, &frame, class),
            },
            Received::Delivered { frame, info, taken } => {
                self.take_delivered(now, frame, info, taken);
            }
            Received::Toe(event) => self.take_toe_event(now, event),
            Received::Reset => self.take_nic_reset(now),
            Received::Room(room) => self.core.take_room(room),
            Received::Resource { resource, error } => {
                self.core.pattern_sets.told(resource, error.is_none());
            }
            Received::ResyncRequest { context, place } => {
                self.handle_resync_request(context, place)
            }
            Received::Refused {
                context,
                tcpsn,
                error,
                index,
            } => match context {
                None if self.accel_refused(now, index, error) => {}
                // A splice reads no memory; a packet's position may look like a splice's number.
                None if error != ErrorCode::SourceFaulted && is_of_splice(tcpsn.0) => {
                    self.take_splice_refusal(now, tcpsn.0, error);
                }
                _ => self.take_refusal(context, tcpsn, error),
            },
            Received::SpliceEnded(ended) => self.take_splice_ended(ended),
            Received::SpliceState(state) => self.take_splice_state(now, state),
        }
    }

    fn take_segment(
        &mut self,
        now: Instant,
        frame: Buffer,
        parsed: &Parsed,
        info: FrameInfo,
        opening: Option<Established>,
    ) {
        let core = &mut self.core;
        core.counters.tcp_in_segs += 1;
        if !info.checksum_ok && !parsed.verify_checksums(&frame) {
            core.counters.tcp_in_errs += 1;
            return;
        }
        let flow = parsed.flow.reversed();
        let mut found = core
            .demux
            .find(&flow)
            .and_then(|index| self.sockets.id_at(index));
        if let (Some(id), Some(established)) = (found, opening) {
            if self.forget_former(now, id, &flow, &parsed.tcp) {
                found = None;
            } else {
                // The first packet brought the same cookie.
                self.core.accel.rules.give_back_repeated(established.rule);
            }
        }
        match (found, opening) {
            (Some(id), _) if self.sockets.is_quasi(id) => {
                self.deliver_to_quasi(now, id, frame, parsed, info)
            }
            (Some(id), _) => self.deliver(now, id, frame, parsed, info),
            (None, Some(established)) => self.take_opening(now, established, frame, parsed, info),
            (None, None) if self.core.interface.is_local(flow.src.0) => {
                self.handle_unmatched_segment(now, frame, parsed, info.segments)
            }
            (None, None) => self.core.counters.ip_in_addr_errors += 1,
        }
    }

    /// Gives a segment to its connection.
    pub(crate) fn deliver(
        &mut self,
        now: Instant,
        id: SocketId,
        mut frame: Buffer,
        parsed: &Parsed,
        info: FrameInfo,
    ) {
        if !self.host_takes(now, id, parsed) {
            // It came after its flow was handed over.
            return self.core.put_back(frame, &info);
        }
        let core = &mut self.core;
        let Some(socket) = self.sockets.get_mut(id) else {
            return;
        };
        if socket.tcp.is_parked() && !core.take_let_go(now, id, socket) {
            // All of the flow's packets are the NIC's: as if it were lost.
            core.counters.handoff_stale += 1;
            return;
        }
        if socket.owner.splice().is_some() {
            return self.take_spliced(now, id, frame, parsed, info);
        }
        if socket.tcp.state() == State::SynReceived && core.accel.answers_other(socket, parsed) {
            core.counters.accel_early_segments += 1;
            return;
        }
        let (payload_len, segments) = (parsed.payload_len, info.segments);
        core.meter.switch(Component::Tcp);
        if info.is_placed && !may_be_placed(core, id, socket, &info) {
            // As if it were lost: it comes again, and is not placed then.
            core.counters.driver_errors += 1;
            return;
        }
        // What was placed is not held here.
        if payload_len > 0 && !info.is_placed {
            core.counters.driver_rx_bytes += u64::from(payload_len);
            let held = socket.stream.segments();
            let awaited =
                socket.stream.len() == 0 && parsed.tcp.seq.at_or_before(socket.tcp.rcv_nxt());
            if !socket.discards_input && !core.supply.allows(held, awaited) {
                // The payload is as if it were lost: the peer sends it again when there may be memory for it. What the
                // segment acknowledges may free some.
                core.counters.driver_rx_no_memory += 1;
                let mut header = parsed.tcp;
                header.flags.remove(Flags::FIN);
                socket.tcp.handle_segment(now, &header, 0, segments);
                core.mark_ready(id, socket);
                core.meter.switch(Component::Driver);
                return;
            }
        }
        let received = socket
            .tcp
            .handle_segment(now, &parsed.tcp, payload_len, segments);
        if !socket.is_anchored {
            anchor(socket, received.data.map(|data| (data.seq, data.len)));
        }
        frame.advance(parsed.payload_offset as u32);
        core.keep_payload(id, socket, frame, received.data, &info);
        if socket.discards_input {
            let unread = socket.tcp.unread();
            socket.tcp.consumed(now, unread);
        }
        core.mark_ready(id, socket);
        core.meter.switch(Component::Driver);
    }

    /// Whether a segment can be of a connection that the NIC has yet to hand up: a part of a request, or what a peer answers to
    /// a second SYN-ACK while its request is lost.
    fn may_be_early(&mut self, now: Instant, parsed: &Parsed) -> bool {
        // A cookie of the NIC's serves nobody without timestamps, and then all of the connection's segments have them.
        parsed.tcp.options.timestamps.is_some() && self.core.accel.doubts.benefit(now, &parsed.flow)
    }

    /// A segment that belongs to no connection.
    fn handle_unmatched_segment(
        &mut self,
        now: Instant,
        frame: Buffer,
        parsed: &Parsed,
        segments: u16,
    ) {
        let header = &parsed.tcp;
        let payload_len = parsed.payload_len;
        match self
            .core
            .time_wait
            .handle_segment(now, &parsed.flow, header, payload_len)
        {
            Verdict::Unknown | Verdict::Reopen => {}
            Verdict::Reply(reply) => return self.reply(&frame, parsed, &reply),
            Verdict::Drop => return,
        }
        // Nobody can be connected to from a group or from nowhere.
        let from = parsed.flow.src.0;
        let is_broadcast = from == IpAddr::V4(Ipv4Addr::BROADCAST);
        let plausible = !from.is_multicast()
            && !from.is_unspecified()
            && !is_broadcast
            && parsed.flow.src.1 != 0;
        let listener = self.listeners.find(parsed.flow.dst);
        if !plausible {
            // RFC 9293 §3.9.2.3: nobody is answered there.
            self.core.counters.ip_in_addr_errors += 1;
            return;
        }
        let Some(listener) = listener else {
            return self.refuse(&frame, parsed);
        };
        let flags = header.flags;
        if flags.contains(Flags::RST) {
            return;
        }
        let Some(next_hop) = self.core.interface.next_hop(from) else {
            self.core.counters.ip_out_no_routes += 1;
            return;
        };
        if flags.contains(Flags::SYN) && !flags.contains(Flags::ACK) {
            if self.sockets.len() >= self.core.config.max_sockets {
                self.core.counters.tcp_listen_drops += 1;
                return;
            }
            match self
                .listeners
                .handle_syn(now, listener, &parsed.flow, header)
            {
                SynAction::Accept(connection) => {
                    self.add_passive(listener, connection, parsed, next_hop);
                }
                SynAction::Reply(reply) => self.reply(&frame, parsed, &reply),
                SynAction::Drop => self.core.counters.tcp_listen_drops += 1,
            }
            return;
        }
        if !flags.contains(Flags::ACK) || flags.contains(Flags::SYN) {
            return self.refuse(&frame, parsed);
        }
        let has_room = self.sockets.len() < self.core.config.max_sockets;
        match self
            .listeners
            .handle_ack(now, listener, &parsed.flow, header, has_room)
        {
            AckAction::Open(connection) => {
                self.core.counters.tcp_syncookies_recv += 1;
                let mut connection = connection;
                // That it is established is told here.
                let connected = connection.poll_event();
                debug_assert_eq!(connected, Some(tcp::Event::Connected));
                let id = self.add_passive(listener, connection, parsed, next_hop);
                self.connection_admitted(listener, id, None);
                let info = FrameInfo::plain(segments, payload_len);
                self.deliver(now, id, frame, parsed, info);
            }
            AckAction::Refuse if self.core.accel.rules.answers_for(listener) => {
                if self.may_be_early(now, parsed) {
                    self.core.counters.accel_early_segments += 1;
                } else {
                    self.core.counters.accel_bad_cookies += 1;
                    self.refuse(&frame, parsed);
                }
            }
            AckAction::Refuse => self.refuse(&frame, parsed),
            AckAction::Drop => self.core.counters.tcp_listen_drops += 1,
        }
    }

    /// RFC 9293 §3.10.7.1: a segment of no connection is answered by a reset.
    pub(crate) fn refuse(&mut self, frame: &Buffer, parsed: &Parsed) {
        if let Some(reset) = tcp::reset_for(&parsed.tcp, parsed.payload_len) {
            self.core.counters.tcp_out_rsts += 1;
            self.reply(frame, parsed, &reset);
        }
    }

    /// Sends a segment of no connection to where a frame came from.
    fn reply(&mut self, frame: &Buffer, parsed: &Parsed, header: &Header) {
        let Some(mac) = source_mac(frame) else { return };
        let core = &mut self.core;
        let flow = parsed.flow.reversed();
        let mut bytes = [0; nic::ring::MAX_HEADER_LEN];
        let len =
            packet::emit_tcp_headers(&mut bytes, core.interface.mac, mac, &flow, header, 0, 64);
        core.counters.tcp_out_segs += 1;
        core.driver
            .post_frame(Frame::short(&bytes[..len], true), &mut core.counters);
    }

    fn take_other(&mut self, now: Instant, frame: &[u8], class: Class) {
        match class {
            Class::Arp { offset } => self.take_arp(now, &frame[offset..]),
            Class::IcmpV4(ip) => self.take_icmp_v4(now, frame, &ip),
            Class::IcmpV6(ip) => self.take_icmp_v6(now, frame, &ip),
            Class::Fragment(_) => self.core.counters.ip_in_fragments += 1,
            Class::OtherIp(ip) => {
                self.core.counters.ip_in_unknown_protos += 1;
                self.refuse_protocol(now, frame, &ip);
            }
            Class::Other(_) => {}
            Class::Malformed(_) => self.core.counters.ip_in_hdr_errors += 1,
            Class::Tcp(_) => {}
        }
    }
}

impl Core {
    /// Keeps what TCP has taken of a packet's payload.
    #[inline]
    pub(crate) fn keep_payload(
        &mut self,
        id: SocketId,
        socket: &mut Socket,
        mut payload: Buffer,
        data: Option<Accepted>,
        info: &FrameInfo,
    ) {
        if let Some(context) = info.context.filter(|_| info.is_placed) {
            let taken = data.filter(|_| !socket.discards_input);
            let taken = taken.map_or((0, 0), |data| (data.skip, data.len));
            socket.note_placed(context, self.driver.placed(), taken);
        }
        let Some(data) = data.filter(|_| !socket.discards_input) else {
            return;
        };
        let context = info.context;
        let shadow = context.and_then(|context| self.driver.contexts().get_received(context));
        let shadow = shadow.filter(|shadow| shadow.socket == id);
        if let Some(noted) = &mut socket.noted {
            // What the NIC has seen of bytes that came before, in another packet, need not be what they were there.
            let is_first = !socket.stream.holds_any(data.seq, data.len);
            let has_notes = info.has_notes && shadow.is_some() && is_first;
            let notes = has_notes.then(|| self.driver.notes());
            noted.arrived(data, info.payload_len, notes.unwrap_or_default());
        }
        let marks = Marks {
            replaced: shadow
                .filter(|_| info.processed.is_replaced())
                .and_then(|shadow| shadow.tag),
            checked: shadow.is_some_and(|shadow| shadow.layers.has_checked(info.processed)),
        };
        if info.is_placed {
            return insert_parts(self, socket, data, payload, marks);
        }
        payload.advance(data.skip);
        payload.truncate(data.len);
        let is_short = data.len <= APPEND_BELOW;
        if is_short && socket.stream.append(data, &payload, marks) {
            return;
        }
        let wasteful = self.supply != Supply::Plenty && data.len <= payload.class().bytes() / 2;
        let buffer = if data.len <= COPY_BELOW || wasteful {
            shrink(self.driver.arena(), payload)
        } else {
            payload
        };
        self.supply.keep();
        let segment = Segment::new(buffer, marks);
        socket.stream.insert(data, socket.tcp.rcv_nxt(), segment);
    }
}

/// Where the peer's stream begins is known once its SYN has come.
fn anchor(socket: &mut Socket, data: Option<(SeqNum, u32)>) {
    if !socket.tcp.state().is_synchronized() {
        return;
    }
    let next = socket.tcp.rcv_nxt();
    let start = match data {
        Some((seq, len)) if seq + len == next => seq,
        _ => next,
    };
    socket.stream.restart(start);
    socket.is_anchored = true;
}

/// Whether a packet's context is one of the connection's, and that has buffers for data.
fn may_be_placed(core: &Core, id: SocketId, socket: &Socket, info: &FrameInfo) -> bool {
    let shadow = info
        .context
        .and_then(|context| core.driver.contexts().get_received(context));
    shadow.is_some_and(|shadow| shadow.socket == id) && socket.places()
}

/// Puts a payload together again of which `stored` is in a buffer and the rest where the NIC has put it, as far as TCP has taken it.
fn insert_parts(
    core: &mut Core,
    socket: &mut Socket,
    data: Accepted,
    mut stored: Buffer,
    marks: Marks,
) {
    if stored.len() as u32 <= COPY_BELOW {
        stored = shrink(core.driver.arena(), stored);
    } else {
        core.supply.keep();
    }
    let mut insert = |at: u32, mut segment: Segment| {
        let len = segment.len();
        let from = data.skip.max(at);
        let to = (data.skip + data.len).min(at + len);
        if from >= to {
            return;
        }
        if to < at + len {
            segment.split_off(to - at);
        }
        if from > at {
            segment.advance(from - at);
        }
        let accepted = Accepted {
            seq: data.seq + (from - data.skip),
            len: to - from,
            skip: 0,
        };
        socket.stream.hold(accepted, segment);
    };
    let mut at = 0;
    for part in core.driver.placed() {
        let before = part.at - at;
        if before > 0 {
            let rest = stored.split_off(before);
            insert(
                at,
                Segment::new(std::mem::replace(&mut stored, rest), marks),
            );
        }
        insert(
            part.at,
            Segment::placed(Placed::new(part.slice, part.tag), marks),
        );
        at = part.at + part.slice.len;
    }
    if !stored.is_empty() {
        insert(at, Segment::new(stored, marks));
    }
    socket.stream.join(socket.tcp.rcv_nxt());
}

/// Short payload moves to a short buffer, so that the packet's goes back to the NIC.
pub(crate) fn shrink(arena: &crate::memory::Arena, buffer: Buffer) -> Buffer {
    let len = buffer.len() as u32;
    match arena.allocate(len) {
        Some(mut small) if small.class() < buffer.class() => {
            small.truncate(len);
            small.copy_from_slice(&buffer);
            small
        }
        _ => buffer,
    }
}

/// Who sent a frame, if it can be answered.
pub(crate) fn source_mac(frame: &[u8]) -> Option<MacAddr> {
    let mac: [u8; 6] = frame.get(6..12)?.try_into().ok()?;
    Some(MacAddr(mac)).filter(|mac| mac.is_unicast())
}

/// The sender of a packet, if an error may be sent to it (RFC 1122 §3.2.2).
pub(crate) fn answerable(ip: &IpPacket) -> Option<IpAddr> {
    (!ip.src.is_multicast() && !ip.src.is_unspecified() && !ip.src.is_loopback()).then_some(ip.src)
}
