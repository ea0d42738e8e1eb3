//! Connections that the NIC has set up (AccelTCP, "Connection Setup Offload").

use std::net::IpAddr;
use std::time::Instant;

use nic::ring::accel::Established;
use tcp::{Connection, Handshake, State};
use wire::packet::Parsed;
use wire::tcp::{Flags, Header};
use wire::{FlowKey, SeqNum};

use super::{AccelState, ConnectionOffload};
use crate::driver::FrameInfo;
use crate::link::source_mac;
use crate::memory::{Buffer, MemoryLevel};
use crate::socket::quasi::{Flag, Held, Opening, Quasi};
use crate::socket::{Membership, Socket};
use crate::{CloseReason, ListenerId, SocketId};

/// Payload so short that a block of its own class is taken for it, rather than the packet's kept.
const SHRINK_BELOW: u32 = 256;

/// What a connection begins with that the NIC has set up.
#[derive(Clone, Copy, Debug)]
struct Setup {
    listener: ListenerId,
    handshake: Handshake,
    next_hop: IpAddr,
}

/// What becomes of a packet that opens no connection.
#[derive(Clone, Copy, Debug)]
enum Unopened {
    /// The peer hears that there is no connection.
    Refused,
    /// The peer sends it again, and by then there may be room.
    Dropped,
}

impl ConnectionOffload {
    /// Takes the packet that opens a connection which the NIC has set up; the host has none of this flow.
    pub fn take_opening(
        &mut self,
        now: Instant,
        established: Established,
        frame: Buffer,
        parsed: &Parsed,
        info: FrameInfo,
    ) {
        let setup = match self.admit(&established, parsed) {
            Ok(setup) => setup,
            Err(unopened) => {
                self.accel.rules.give_back(established.rule, None);
                return match unopened {
                    Unopened::Refused => self.refuse(&frame, parsed),
                    Unopened::Dropped => {}
                };
            }
        };
        let (flow, transport) = (parsed.flow.reversed(), &mut self.transport);
        transport.device.counters.accel_setups += 1;
        if !transport.time_wait.is_empty() {
            transport.time_wait.remove(&flow);
        }
        if let Some(mac) = source_mac(&frame) {
            let link = &mut transport.link;
            link.hop_answered(now, setup.next_hop, mac, flow.dst.0);
        }
        let config = &transport.config;
        let is_lazy = config.accel.lazy_tcb && config.tcp.keep_alive.is_none();
        let waiting = if is_lazy {
            self.open_quasi(now, &setup, frame, parsed, info)
        } else {
            self.open_full(now, &setup, frame, parsed, info)
        };
        if let Some(id) = waiting {
            self.transport
                .connection_admitted(setup.listener, id, Some(established.rule));
        }
    }

    /// What a connection begins with, if it is new and there is room for it.
    fn admit(&mut self, established: &Established, parsed: &Parsed) -> Result<Setup, Unopened> {
        let flow = parsed.flow.reversed();
        let (rules, transport) = (&mut self.accel.rules, &mut self.transport);
        let counters = &mut transport.device.counters;
        let listener = rules.listener(established.rule, flow.src);
        let listener = listener.or_else(|| transport.listeners.find(flow.src));
        let listener = listener.ok_or(Unopened::Refused)?;
        let Some(next_hop) = transport.link.interface.next_hop(flow.dst.0) else {
            counters.ip_out_no_routes += 1;
            return Err(Unopened::Dropped);
        };
        let has_room = transport.sockets.len() < transport.config.max_sockets;
        if !has_room || !transport.listeners.has_room(listener) {
            counters.tcp_listen_drops += 1;
            return Err(Unopened::Dropped);
        }
        let header = &parsed.tcp;
        if !self.accel.replays.spend(header.seq, header.ack) {
            // Its connection was here, and is over.
            counters.accel_replays += 1;
            return Err(Unopened::Refused);
        }
        Ok(Setup {
            listener,
            handshake: Handshake {
                mss: established.mss,
                window_scale: established.window_scale,
                sack: established.sack,
                timestamp: established.timestamp,
            },
            next_hop,
        })
    }

    /// Opens a connection with a quasi control block, and gives it the packet.
    fn open_quasi(
        &mut self,
        now: Instant,
        setup: &Setup,
        frame: Buffer,
        parsed: &Parsed,
        info: FrameInfo,
    ) -> Option<SocketId> {
        let header = &parsed.tcp;
        let opening = Opening {
            flow: parsed.flow.reversed(),
            start: header.seq,
            first: header.ack,
            recent: header.options.timestamps.map_or(0, |it| it.val),
            clock: setup
                .handshake
                .timestamp
                .wrapping_sub(self.accel.clock(now)),
            window: header.window,
            handshake: setup.handshake,
        };
        let held = Held {
            listener: Some(setup.listener),
            ..Held::default()
        };
        let Some(id) = self.transport.sockets.insert_quasi(&opening, held) else {
            return self.open_full(now, setup, frame, parsed, info);
        };
        self.transport.device.counters.accel_curr_quasi += 1;
        self.transport.demux.insert(&opening.flow, id.index);
        if let Some((quasi, _)) = self.transport.sockets.quasi_mut(id) {
            quasi.set(Flag::WantsRead, true);
        }
        self.deliver_to_quasi(now, id, frame, parsed, info);
        Some(id)
    }

    /// Opens a connection with a full control block, and gives it the packet.
    fn open_full(
        &mut self,
        now: Instant,
        setup: &Setup,
        frame: Buffer,
        parsed: &Parsed,
        info: FrameInfo,
    ) -> Option<SocketId> {
        let transport = &mut self.transport;
        let config = transport.listeners.connection_config(setup.listener)?;
        let handshake = &setup.handshake;
        let mut connection = Connection::from_handshake(now, config, &parsed.tcp, handshake);
        // That it is established is told here.
        let connected = connection.poll_event();
        debug_assert_eq!(connected, Some(tcp::Event::Connected));
        let id = transport.add_passive(now, setup.listener, connection, parsed, setup.next_hop);
        self.deliver(now, id, frame, parsed, info);
        Some(id)
    }

    /// Gives a segment to a connection with a quasi control block, which becomes a full one unless that can say it.
    pub fn deliver_to_quasi(
        &mut self,
        now: Instant,
        id: SocketId,
        mut frame: Buffer,
        parsed: &Parsed,
        info: FrameInfo,
    ) {
        let Some((quasi, held)) = self.transport.sockets.quasi_mut(id) else {
            return;
        };
        if quasi.is(Flag::Handed) {
            return self.put_back(frame, &info);
        }
        let header = &parsed.tcp;
        let has_fin = header.flags.contains(Flags::FIN);
        let brings = parsed.payload_len > 0 || has_fin;
        let window = u32::from(self.transport.config.tcp.syn_window());
        let is_second = held.taken > 0 || quasi.is(Flag::PeerFin);
        let may_bring = !is_second && parsed.payload_len <= window;
        if info.is_placed || !is_plain(quasi, held, header) || (brings && !may_bring) {
            self.promote(now, id);
            return self.deliver(now, id, frame, parsed, info);
        }
        quasi.window = header.window;
        if !brings {
            if let Some(timestamps) = header.options.timestamps {
                quasi.recent = timestamps.val;
            }
            return;
        }
        if parsed.payload_len > 0 {
            if !self.transport.device.supply.allows(0, true) {
                // As if it were lost.
                self.transport.device.counters.driver_rx_no_memory += 1;
                return;
            }
            self.transport.device.counters.driver_rx_bytes += u64::from(parsed.payload_len);
            frame.advance(parsed.payload_offset as u32);
            frame.truncate(parsed.payload_len);
            let is_wasteful = self.transport.device.level != MemoryLevel::Free
                && parsed.payload_len <= SHRINK_BELOW;
            if is_wasteful {
                frame = self.transport.device.driver.arena().shrink(frame);
            }
            self.transport.device.supply.keep();
            held.received = Some(frame);
            held.taken = parsed.payload_len;
        }
        if let Some(timestamps) = header.options.timestamps {
            quasi.recent = timestamps.val;
        }
        quasi.set(Flag::PeerFin, has_fin);
        let delay = self.transport.config.tcp.delayed_ack.unwrap_or_default();
        self.accel.unacknowledged.push_back((now + delay, id));
        self.tell_quasi(id);
    }

    /// Whether a packet with a good cookie belongs to another incarnation than the connection that the host has of its flow: the
    /// peer has forgotten that one, and has just opened another.
    fn is_other_incarnation(&self, now: Instant, id: SocketId, header: &Header) -> bool {
        if let Some((quasi, _)) = self.transport.sockets.quasi(id) {
            return header.ack != quasi.first && !quasi.is(Flag::Handed);
        }
        let Some(socket) = self.transport.sockets.get(id) else {
            return false;
        };
        if socket.owner.is_given_away() || socket.owner.splice().is_some() {
            return false;
        }
        let tcp = &socket.tcp;
        if tcp.state() == State::SynReceived {
            // One SYN was answered by the NIC and its copy by the host: the peer has taken the NIC's answer.
            return header.ack != tcp.snd_nxt();
        }
        let in_step = header.seq == tcp.rcv_nxt() && is_between(tcp, header.ack);
        if in_step || !tcp.state().is_synchronized() {
            return false;
        }
        // A packet of this connection that comes late is older than what it has sent since.
        let recent = tcp.tcb(now).and_then(|tcb| tcb.timestamps);
        let is_newer = recent.is_none_or(|recent| is_recent(header, recent.recent));
        let is_late = header.seq.before(tcp.rcv_nxt() + 1) && header.ack.before(tcp.snd_nxt() + 1);
        is_newer && !is_late
    }

    /// Takes a packet with a good cookie whose flow the host has already. Answers whether the host has it no longer.
    pub fn forget_former(
        &mut self,
        now: Instant,
        id: SocketId,
        flow: &FlowKey,
        header: &Header,
    ) -> bool {
        if !self.is_other_incarnation(now, id, header) {
            return false;
        }
        self.promote(now, id);
        self.transport.end(id, CloseReason::Reset);
        if let Some(socket) = self.transport.sockets.get_mut(id) {
            socket.tcp.abort();
            // The peer knows nothing of it any more: a reset would be about the new connection.
            socket.lose_segments(now);
            socket.membership.leave(Membership::FLOW);
            self.transport.demux.remove(flow);
            self.transport.schedule.mark_ready(id, socket);
        }
        true
    }
}

impl AccelState {
    /// Whether a segment can be of a connection that the NIC has yet to hand up: a part of a request, or what a peer answers to
    /// a second SYN-ACK while its request is lost.
    pub fn may_be_early(&mut self, now: Instant, parsed: &Parsed) -> bool {
        // A cookie of the NIC's needs timestamps, and then all of the connection's segments have them.
        let has_timestamps = parsed.tcp.options.timestamps.is_some();
        has_timestamps && self.early_segments.may_be_early(now, &parsed.flow)
    }

    /// Whether a segment answers the NIC's SYN-ACK, not that of the host, which has answered another copy of the same SYN: the peer
    /// is connected, and what brings the cookie is still to come. To reset it, as is right where only the host answers SYNs
    /// (RFC 9293 §3.10.7.4, fifth), would end that connection.
    pub fn answers_other(&self, socket: &Socket, parsed: &Parsed) -> bool {
        let header = &parsed.tcp;
        let is_nics = |listener| self.rules.answers_for(listener);
        socket.user.listener().is_some_and(is_nics)
            && header.flags.contains(Flags::ACK)
            && !header.flags.contains(Flags::RST)
            && header.options.timestamps.is_some()
            && header.ack != socket.tcp.snd_nxt()
    }
}

/// Whether a segment says nothing that a quasi control block can't.
fn is_plain(quasi: &Quasi, held: &Held, header: &Header) -> bool {
    let next = quasi.start + held.taken + u32::from(quasi.is(Flag::PeerFin));
    header.flags.contains(Flags::ACK)
        && !header.flags.intersects(Flags::SYN | Flags::RST)
        && (header.seq, header.ack) == (next, quasi.first)
        && !quasi.is(Flag::Closed)
        && is_recent(header, quasi.recent)
}

/// PAWS (RFC 7323 §5.3).
fn is_recent(header: &Header, recent: u32) -> bool {
    let timestamps = header.options.timestamps;
    timestamps.is_some_and(|it| SeqNum(it.val).at_or_after(SeqNum(recent)))
}

fn is_between(tcp: &Connection, ack: SeqNum) -> bool {
    ack.at_or_after(tcp.snd_una()) && ack.at_or_before(tcp.snd_nxt())
}
