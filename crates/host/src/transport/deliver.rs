//! Segments: to the connection that they are for, or what becomes of those that are for none.

use std::net::IpAddr;
use std::time::Instant;

use tcp::{AckAction, SynAction, Verdict};
use wire::packet::Parsed;
use wire::tcp::Flags;
use wire::{SeqNum, ethernet};

use super::Transport;
use crate::driver::FrameInfo;
use crate::events::EventKinds;
use crate::memory::Buffer;
use crate::meter::Component;
use crate::socket::ReceiveSide;
use crate::{ListenerId, SocketId};

/// What became of a segment of no connection.
#[derive(Debug)]
pub(crate) enum Unmatched {
    /// It was answered, or dropped.
    Handled,
    /// It is to be answered by a reset.
    Refused(Buffer),
    /// The same, but it may be of a connection that the NIC has set up at this listener and is yet to hand up.
    RefusedAt(ListenerId, Buffer),
}

impl Transport {
    /// Gives a segment to its connection, which the host runs.
    #[inline]
    pub fn deliver(
        &mut self,
        now: Instant,
        id: SocketId,
        mut frame: Buffer,
        parsed: &Parsed,
        info: FrameInfo,
    ) {
        let device = &mut self.device;
        let Some(socket) = self.sockets.get_mut(id) else {
            return;
        };
        let (payload_len, segments) = (parsed.payload_len, info.segments);
        device.meter.switch(Component::Tcp);
        if info.is_placed && !socket.may_be_placed(id, info.context, device) {
            // As if it were lost: it comes again, and is not placed then.
            device.counters.driver_errors += 1;
            return;
        }
        // What was placed is not held here.
        if payload_len > 0 && !info.is_placed {
            device.counters.driver_rx_bytes += u64::from(payload_len);
            let held = socket.stream.segments();
            let is_next = parsed.tcp.seq.at_or_before(socket.tcp.rcv_nxt());
            let awaited = socket.stream.len() == 0 && is_next;
            let discards = socket.receive == ReceiveSide::Discarding;
            if !discards && !device.supply.allows(held, awaited) {
                // The payload is as if it were lost: the peer sends it again when there may be memory for it. What the
                // segment acknowledges may free some.
                device.counters.driver_rx_no_memory += 1;
                let mut header = parsed.tcp;
                header.flags.remove(Flags::FIN);
                socket.tcp.handle_segment(now, &header, 0, segments);
                self.schedule.mark_ready(id, socket);
                device.meter.switch(Component::Driver);
                return;
            }
        }
        let received = socket
            .tcp
            .handle_segment(now, &parsed.tcp, payload_len, segments);
        if parsed.tcp.flags.contains(Flags::URG) && socket.takes_urgent(&frame, parsed, &received) {
            self.schedule.tell(id, socket, EventKinds::URGENT);
        }
        socket.anchor(received.data);
        frame.advance(parsed.payload_offset as u32);
        socket.keep_payload(id, frame, received.data, &info, device);
        socket.consume_discarded(now);
        self.schedule.mark_ready(id, socket);
        device.meter.switch(Component::Driver);
    }

    /// Takes a segment that belongs to no connection.
    pub fn handle_unmatched_segment(
        &mut self,
        now: Instant,
        frame: Buffer,
        parsed: &Parsed,
        segments: u16,
    ) -> Unmatched {
        let (header, payload_len) = (&parsed.tcp, parsed.payload_len);
        if !ethernet::is_for_one(&frame) || !is_plausible(parsed.flow.src) {
            // RFC 9293 §3.9.2.3: it is not answered.
            self.device.counters.ip_in_addr_errors += 1;
            return Unmatched::Handled;
        }
        let mut used = None;
        match self
            .time_wait
            .handle_segment(now, &parsed.flow, header, payload_len)
        {
            Verdict::Unknown => {}
            Verdict::Reopen(seq) => used = Some(seq),
            Verdict::Reply(reply) => {
                self.link.reply(&frame, parsed, &reply, &mut self.device);
                return Unmatched::Handled;
            }
            Verdict::Drop => return Unmatched::Handled,
        }
        let Some(listener) = self.listeners.find(parsed.flow.dst) else {
            // A SYN that no listener takes leaves TIME-WAIT as it is.
            let acknowledgement =
                used.and_then(|_| self.time_wait.acknowledge(now, &parsed.flow, header));
            let Some(reply) = acknowledgement else {
                return Unmatched::Refused(frame);
            };
            self.link.reply(&frame, parsed, &reply, &mut self.device);
            return Unmatched::Handled;
        };
        let flags = header.flags;
        if flags.contains(Flags::RST) || !flags.intersects(Flags::SYN | Flags::ACK) {
            // RFC 9293 §3.10.7.2, first and fourth.
            return Unmatched::Handled;
        }
        let Some(next_hop) = self.link.interface.next_hop(parsed.flow.src.0) else {
            self.device.counters.ip_out_no_routes += 1;
            return Unmatched::Handled;
        };
        if flags.contains(Flags::SYN) && !flags.contains(Flags::ACK) {
            self.handle_syn(now, listener, &frame, parsed, next_hop, used);
            return Unmatched::Handled;
        }
        if flags.contains(Flags::SYN) {
            return Unmatched::Refused(frame);
        }
        self.handle_ack(now, listener, frame, parsed, next_hop, segments)
    }

    fn handle_ack(
        &mut self,
        now: Instant,
        listener: ListenerId,
        frame: Buffer,
        parsed: &Parsed,
        next_hop: IpAddr,
        segments: u16,
    ) -> Unmatched {
        let (header, payload_len) = (&parsed.tcp, parsed.payload_len);
        let has_room = self.sockets.len() < self.config.max_sockets;
        match self
            .listeners
            .handle_ack(now, listener, &parsed.flow, header, has_room)
        {
            AckAction::Open(mut connection) => {
                self.device.counters.tcp_syncookies_recv += 1;
                // That it is established is told here.
                let connected = connection.poll_event();
                debug_assert_eq!(connected, Some(tcp::Event::Connected));
                let id = self.add_passive(now, listener, connection, parsed, next_hop);
                self.connection_admitted(listener, id, None);
                let info = FrameInfo::plain(segments, payload_len);
                self.deliver(now, id, frame, parsed, info);
                Unmatched::Handled
            }
            AckAction::Refuse => Unmatched::RefusedAt(listener, frame),
            AckAction::Drop => {
                self.device.counters.tcp_listen_drops += 1;
                Unmatched::Handled
            }
        }
    }

    /// Takes a SYN. With `used` it ends the TIME-WAIT of a connection that has sent what lies before that.
    fn handle_syn(
        &mut self,
        now: Instant,
        listener: ListenerId,
        frame: &Buffer,
        parsed: &Parsed,
        next_hop: IpAddr,
        used: Option<SeqNum>,
    ) {
        let used = used.or_else(|| self.ahead.used(now, &parsed.flow.reversed()));
        let has_room = self.sockets.len() < self.config.max_sockets;
        let listening = self.listeners.get_mut(listener).filter(|_| has_room);
        let listening = listening.map(|listening| &mut listening.tcp);
        let (flow, syn) = (&parsed.flow, &parsed.tcp);
        let action = match (listening, used) {
            (None, _) => SynAction::Drop,
            (Some(listener), None) => listener.handle_syn(now, flow, syn),
            (Some(listener), Some(used)) => listener.handle_reopening(now, flow, syn, used),
        };
        if used.is_some() && !matches!(action, SynAction::Drop) {
            self.time_wait.remove(&flow.reversed());
        }
        match action {
            SynAction::Accept(connection) => {
                self.add_passive(now, listener, connection, parsed, next_hop);
            }
            SynAction::Reply(reply) => self.link.reply(frame, parsed, &reply, &mut self.device),
            SynAction::Drop => self.device.counters.tcp_listen_drops += 1,
        }
    }
}

/// Whether a connection can be to there: not to a group, nor to nowhere.
fn is_plausible(end: (IpAddr, u16)) -> bool {
    let (address, port) = end;
    wire::is_of_one_host(address) && port != 0
}
