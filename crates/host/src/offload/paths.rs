//! What the link tells of the paths of connections.

use std::net::IpAddr;
use std::time::Instant;

use tcp::State;
use wire::icmp::Quoted;
use wire::packet::Class;

use super::ConnectionOffload;
use crate::link::LinkEvent;
use crate::socket::Membership;
use crate::socket::quasi::Flag;
use crate::{CloseReason, SocketId};

impl ConnectionOffload {
    /// Takes a frame that is no TCP segment.
    pub fn handle_other_frame(&mut self, now: Instant, frame: &[u8], class: Class) {
        let transport = &mut self.transport;
        let link = &mut transport.link;
        link.handle_frame(now, frame, class, &mut transport.device);
        self.handle_link_events(now);
    }

    /// Does what is due on the link. Answers whether that was anything.
    #[inline]
    pub fn poll_link(&mut self, now: Instant) -> bool {
        let transport = &mut self.transport;
        let progress = transport.link.poll(now, &mut transport.device);
        self.handle_link_events(now);
        progress
    }

    /// Acts on what the link tells of connections.
    #[inline]
    fn handle_link_events(&mut self, now: Instant) {
        while let Some(event) = self.transport.link.poll_event() {
            self.handle_link_event(now, event);
        }
    }

    #[inline(never)]
    fn handle_link_event(&mut self, now: Instant, event: LinkEvent) {
        match event {
            LinkEvent::HopKnown(id) => {
                let transport = &mut self.transport;
                if let Some(socket) = transport.sockets.get_mut(id) {
                    socket.membership.leave(Membership::AWAITS_HOP);
                    transport.schedule.mark_ready(id, socket);
                }
            }
            LinkEvent::HopUnreachable(id) => self.handle_hop_unreachable(now, id),
            LinkEvent::HopTurnedAway(id) => self.lose_segments(now, id),
            LinkEvent::AddressesChanged => self.sync_rules(),
            LinkEvent::Duplicate(address) => self.lose_address(now, address.into()),
            LinkEvent::PacketTooBig { quoted, mtu, mss } => {
                self.handle_packet_too_big(now, quoted, mtu, mss);
            }
            LinkEvent::Unreachable { quoted, reason } => {
                self.handle_unreachable(quoted, reason);
            }
        }
    }

    /// Another host has the address: connections from there end, and those that the host runs say nothing more.
    fn lose_address(&mut self, now: Instant, address: IpAddr) {
        let sockets = &self.transport.sockets;
        let is_of_it = |id: &SocketId| sockets.flow(*id).is_some_and(|flow| flow.src.0 == address);
        let lost: Vec<SocketId> = sockets.ids().filter(is_of_it).collect();
        for id in lost {
            let quasi = self.transport.sockets.quasi(id);
            if quasi.is_some_and(|(quasi, _)| !quasi.is(Flag::Handed)) {
                self.promote(now, id);
            }
            let socket = self.transport.sockets.get(id);
            if let Some(part) = socket.and_then(|socket| socket.owner.spliced()) {
                self.call_back(part.splice);
            }
            let transport = &mut self.transport;
            transport.reset(id, CloseReason::DuplicateAddress(address));
            if let Some(socket) = transport.sockets.get_mut(id)
                && !socket.tcp.is_parked()
            {
                socket.tcp.conclude();
            }
        }
    }

    /// Connections that are being opened fail; others go on trying for as long as TCP does.
    fn handle_hop_unreachable(&mut self, now: Instant, id: SocketId) {
        let Some(socket) = self.transport.sockets.get_mut(id) else {
            return;
        };
        if socket.tcp.state().is_synchronized() {
            self.lose_segments(now, id);
        } else {
            socket.membership.leave(Membership::AWAITS_HOP);
            self.transport.reset(id, CloseReason::Unreachable);
        }
    }

    /// What a socket has to send, and has no next hop for, counts as lost on the way, so that TCP's own timers decide how long to go on.
    fn lose_segments(&mut self, now: Instant, id: SocketId) {
        let transport = &mut self.transport;
        if let Some(socket) = transport.sockets.get_mut(id) {
            socket.membership.leave(Membership::AWAITS_HOP);
            socket.lose_segments(now);
            transport.schedule.mark_ready(id, socket);
        }
    }

    /// A link on the way takes only smaller packets (RFC 1191, RFC 8201).
    fn handle_packet_too_big(&mut self, now: Instant, quoted: Quoted, mtu: u32, mss: u16) {
        if self.handle_spliced_too_big(now, &quoted, mtu, mss) {
            self.transport.device.counters.icmp_in_too_big += 1;
            return;
        }
        let id = self.find_quoted(&quoted);
        if id.is_none() && !self.accel.teardowns.have_sent(now, &quoted) {
            return;
        }
        let transport = &mut self.transport;
        transport.device.counters.icmp_in_too_big += 1;
        if mtu >= u32::from(transport.link.interface.mtu) {
            return;
        }
        let destination = quoted.flow.dst.0;
        transport.link.path_mtus.note(now, destination, mss);
        // Of a connection that the NIC finishes, that sends in smaller packets what was lost.
        let Some(id) = id else { return };
        let Some(socket) = transport.sockets.get_mut(id) else {
            return;
        };
        let handoff = socket.owner.handoff_mut();
        if let Some(offloaded) = handoff.filter(|offloaded| offloaded.is_away()) {
            offloaded.path_mss = Some(mss);
            self.recall(now, id);
            return;
        }
        socket.tcp.handle_path_mss(now, mss);
        transport.schedule.mark_ready(id, socket);
    }

    /// A hard error ends a connection that is being opened, a soft one is told when that has failed (RFC 9293 §3.9.2.2, MUST-56); an
    /// established one sees to itself.
    fn handle_unreachable(&mut self, quoted: Quoted, reason: CloseReason) {
        let Some(id) = self.find_quoted(&quoted) else {
            return;
        };
        let opening = |state: State| matches!(state, State::SynSent | State::SynReceived);
        let socket = self.transport.sockets.get_mut(id);
        let Some(socket) = socket.filter(|socket| opening(socket.tcp.state())) else {
            return;
        };
        match reason {
            CloseReason::Unreachable => socket.is_unreachable = true,
            hard => self.transport.reset(id, hard),
        }
    }

    /// The connection that an error is about, if what it quotes is in flight (RFC 5927 §4.1).
    fn find_quoted(&mut self, quoted: &Quoted) -> Option<SocketId> {
        let index = self.transport.demux.find(&quoted.flow)?;
        let id = self.transport.sockets.id_at(index)?;
        let socket = self.transport.sockets.get(id)?;
        let tcp = &socket.tcp;
        // Of what was posted to the NIC, only it knows what was sent.
        let away = socket.owner.handoff().filter(|_| tcp.is_parked());
        let end = away.map_or(tcp.snd_nxt(), |offloaded| offloaded.posted);
        let in_flight = tcp.snd_una().at_or_before(quoted.seq) && quoted.seq.before(end);
        in_flight.then_some(id)
    }
}
