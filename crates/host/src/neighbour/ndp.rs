//! Neighbour discovery for IPv6 (RFC 4861).

use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use wire::ethernet::{self, EtherType, MacAddr};
use wire::icmp::ndp::{HOP_LIMIT, Message};
use wire::icmp::v6;
use wire::ipv4::protocol;
use wire::ipv6;

use super::Solicit;
use crate::driver::Frame;
use crate::stack::Stack;
use crate::{CloseReason, SocketId};

/// RFC 4861 §10.
const ROUTER_SOLICITATION_INTERVAL: Duration = Duration::from_secs(4);
const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

impl Stack {
    /// Takes a message of neighbour discovery, which has come from this link.
    pub(crate) fn take_neighbour_discovery(
        &mut self,
        now: Instant,
        src: Ipv6Addr,
        message: Message,
    ) {
        self.core.counters.neighbour_in += 1;
        match message {
            Message::NeighborSolicitation { target, source_mac } => {
                if !self.core.interface.is_local(target.into()) {
                    return;
                }
                if src.is_unspecified() {
                    // Somebody checks whether the address is free (RFC 4862 §5.4): it is not.
                    return self.advertise(target, None);
                }
                if let Some(mac) = source_mac.filter(|mac| mac.is_unicast())
                    && self.core.neighbours.asked(now, src.into(), mac)
                {
                    self.wake_waiting(src.into());
                }
                let mac = source_mac.or_else(|| self.core.neighbours.peek(src.into()));
                self.advertise(target, mac.map(|mac| (src, mac)));
            }
            Message::NeighborAdvertisement {
                target,
                target_mac,
                solicited,
                replaces,
                ..
            } => {
                let mac = target_mac.filter(|mac| mac.is_unicast());
                if self
                    .core
                    .neighbours
                    .answered(now, target.into(), mac, solicited, replaces)
                {
                    self.wake_waiting(target.into());
                }
            }
            Message::RouterAdvertisement(advertisement) if src.is_unicast_link_local() => {
                self.core.router_solicitations = 0;
                self.core
                    .interface
                    .advertised(src, advertisement.router_lifetime);
                if let Some(mac) = advertisement
                    .options
                    .source_mac
                    .filter(|mac| mac.is_unicast())
                    && self.core.neighbours.asked(now, src.into(), mac)
                {
                    self.wake_waiting(src.into());
                }
            }
            Message::RouterAdvertisement(_) | Message::RouterSolicitation { .. } => {}
        }
    }

    /// Sends the questions that are due, and gives up on neighbours that do not answer.
    pub(crate) fn poll_neighbours(&mut self, now: Instant) -> bool {
        let mut progress = self.solicit_router(now);
        if self
            .core
            .neighbours
            .poll_timeout()
            .is_none_or(|at| at > now)
        {
            return progress;
        }
        let (mut questions, mut silent) = (Vec::new(), Vec::new());
        self.core.neighbours.poll(
            now,
            |solicit| questions.push(solicit),
            |address| silent.push(address),
        );
        progress |= !questions.is_empty() || !silent.is_empty();
        for solicit in questions {
            match solicit.target {
                IpAddr::V4(target) => self.solicit_v4(target, &solicit),
                IpAddr::V6(target) => self.solicit_v6(target, &solicit),
            }
        }
        for address in silent {
            self.core.counters.neighbour_failed += 1;
            self.give_up(now, address);
        }
        let mut turned_away = Vec::new();
        self.core
            .neighbours
            .take_turned_away(now, |id| turned_away.push(id));
        for id in turned_away {
            self.lose_segments(now, id);
        }
        progress
    }

    /// Sockets that waited for an address can go on.
    pub(super) fn wake_waiting(&mut self, address: IpAddr) {
        let mut woken = Vec::new();
        self.core
            .neighbours
            .take_waiting(address, |id| woken.push(id));
        for id in woken {
            if let Some(socket) = self.sockets.get_mut(id) {
                socket.awaits_hop = false;
                self.core.mark_ready(id, socket);
            }
        }
    }

    /// Nobody has the address: connections that were being opened there fail, others go on trying for as long as TCP does.
    fn give_up(&mut self, now: Instant, address: IpAddr) {
        let mut waiting = Vec::new();
        self.core
            .neighbours
            .take_waiting(address, |id| waiting.push(id));
        for id in waiting {
            let Some(socket) = self.sockets.get_mut(id) else {
                continue;
            };
            if socket.tcp.state().is_synchronized() {
                self.lose_segments(now, id);
            } else {
                socket.awaits_hop = false;
                self.reset(id, CloseReason::Unreachable);
            }
        }
    }

    /// What a socket has to send and nobody takes counts as lost on the way, so that TCP's own timers decide how long to
    /// go on.
    fn lose_segments(&mut self, now: Instant, id: SocketId) {
        if let Some(socket) = self.sockets.get_mut(id) {
            socket.awaits_hop = false;
            while socket.tcp.poll_transmit(now).is_some() {}
            self.core.mark_ready(id, socket);
        }
    }

    /// Asks for a router (RFC 4861 §6.3.7), where none is configured.
    fn solicit_router(&mut self, now: Instant) -> bool {
        if self.core.router_solicitations == 0 || self.core.solicit_at > now {
            return false;
        }
        self.core.router_solicitations -= 1;
        self.core.solicit_at = now + ROUTER_SOLICITATION_INTERVAL;
        let source = ipv6::link_local(self.core.interface.mac);
        if !self.core.interface.is_local(source.into()) {
            self.core.router_solicitations = 0;
            return false;
        }
        let message = Message::RouterSolicitation {
            source_mac: Some(self.core.interface.mac),
        };
        self.send_discovery(source, ALL_ROUTERS, None, message);
        true
    }

    fn solicit_v6(&mut self, target: Ipv6Addr, solicit: &Solicit) {
        let Some(source) = self.core.interface.any_v6(target) else {
            return;
        };
        let message = Message::NeighborSolicitation {
            target,
            source_mac: Some(self.core.interface.mac),
        };
        let to = if solicit.unicast.is_some() {
            target
        } else {
            ipv6::solicited_node(target)
        };
        self.send_discovery(source, to, solicit.unicast, message);
    }

    /// Says that this host has `target`, to who asked or to everybody.
    fn advertise(&mut self, target: Ipv6Addr, to: Option<(Ipv6Addr, MacAddr)>) {
        let message = Message::NeighborAdvertisement {
            target,
            target_mac: Some(self.core.interface.mac),
            router: false,
            solicited: to.is_some(),
            replaces: true,
        };
        match to {
            Some((asker, mac)) => self.send_discovery(target, asker, Some(mac), message),
            None => self.send_discovery(target, ALL_NODES, None, message),
        }
    }

    fn send_discovery(
        &mut self,
        src: Ipv6Addr,
        dst: Ipv6Addr,
        mac: Option<MacAddr>,
        message: Message,
    ) {
        let Some(destination) = mac.or_else(|| MacAddr::of_group(dst.into())) else {
            return;
        };
        let message = v6::Message::NeighborDiscovery(message);
        let mut bytes = [0; nic::ring::MAX_HEADER_LEN];
        let ethernet = ethernet::Header {
            destination,
            source: self.core.interface.mac,
            ether_type: EtherType::IPV6,
        };
        let mut at = ethernet.emit(&mut bytes);
        let ip = ipv6::Header {
            src,
            dst,
            next_header: protocol::ICMPV6,
            hop_limit: HOP_LIMIT,
            traffic_class: 0,
            flow_label: 0,
            payload_len: message.len() as u16,
        };
        at += ip.emit(&mut bytes[at..]);
        at += message.emit(src, dst, &mut bytes[at..]);
        self.core.counters.neighbour_out += 1;
        self.core
            .driver
            .post_frame(Frame::short(&bytes[..at], false), &mut self.core.counters);
    }
}
