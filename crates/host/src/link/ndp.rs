//! Neighbour discovery for IPv6 (RFC 4861).

use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use wire::ethernet::{self, EtherType, MacAddr};
use wire::icmp::ndp::{HOP_LIMIT, Message};
use wire::icmp::v6;
use wire::ipv4::protocol;
use wire::ipv6;

use super::neighbours::Solicit;
use super::{Link, LinkEvent};
use crate::device::Device;
use crate::driver::Frame;

/// RFC 4861 §10.
const ROUTER_SOLICITATION_INTERVAL: Duration = Duration::from_secs(4);
const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

impl Link {
    /// Takes a message of neighbour discovery, which has come from this link, in a frame of `sender`.
    pub(super) fn handle_discovery(
        &mut self,
        now: Instant,
        (src, sender): (Ipv6Addr, Option<MacAddr>),
        message: Message,
        device: &mut Device,
    ) {
        device.counters.neighbour_in += 1;
        match message {
            Message::NeighborSolicitation { target, source_mac } => {
                if !self.interface.is_local(target.into()) {
                    return;
                }
                if src.is_unspecified() {
                    // A neighbour checks whether the address is free (RFC 4862 §5.4): it is not.
                    return self.advertise(target, None, device);
                }
                let source_mac = source_mac.filter(|mac| mac.is_unicast());
                self.has_told_address(now, src, source_mac);
                // One that probes whether this host is still there need not say its own address (RFC 4861 §4.3).
                let mac = source_mac
                    .or_else(|| self.neighbours.peek(src.into()))
                    .or(sender);
                self.advertise(target, mac.map(|mac| (src, mac)), device);
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
                    .neighbours
                    .answered(now, target.into(), mac, solicited, replaces)
                {
                    self.wake_waiting(target.into());
                }
            }
            Message::RouterAdvertisement(advertisement) if src.is_unicast_link_local() => {
                let lifetime = advertisement.router_lifetime;
                self.interface.routers.advertised(now, src, lifetime);
                match lifetime {
                    0 => self.has_lost_router(now, src),
                    _ => self.solicitations.left = 0,
                }
                let source_mac = advertisement.options.source_mac;
                self.has_told_address(now, src, source_mac.filter(|mac| mac.is_unicast()));
            }
            Message::RouterAdvertisement(_) | Message::RouterSolicitation { .. } => {}
        }
    }

    /// A neighbour has told its own MAC address, if it has, with a message that answers no question.
    fn has_told_address(&mut self, now: Instant, neighbour: Ipv6Addr, mac: Option<MacAddr>) {
        if let Some(mac) = mac
            && self.neighbours.asked(now, neighbour.into(), mac)
        {
            self.wake_waiting(neighbour.into());
        }
    }

    /// This neighbour forwards nothing any more: what goes through it goes through another router, if there is one (RFC 4861 §6.3.5).
    pub(super) fn has_lost_router(&mut self, now: Instant, router: Ipv6Addr) {
        self.neighbours.forget(router.into());
        let solicitations = &mut self.solicitations;
        if solicitations.wanted && self.interface.routers.first().is_none() {
            (solicitations.left, solicitations.at) = (super::SOLICITATIONS, now);
        }
    }

    /// Sends the questions that are due, and gives up on neighbours that do not answer.
    #[inline(never)]
    pub(super) fn poll_neighbours(&mut self, now: Instant, device: &mut Device) -> bool {
        let (mut questions, mut silent) = (Vec::new(), Vec::new());
        self.neighbours.poll(
            now,
            |solicit| questions.push(solicit),
            |address| silent.push(address),
        );
        let progress = !questions.is_empty() || !silent.is_empty();
        for solicit in questions {
            match solicit.target {
                IpAddr::V4(target) => self.solicit_v4(target, &solicit, device),
                IpAddr::V6(target) => self.solicit_v6(target, &solicit, device),
            }
        }
        for address in silent {
            device.counters.neighbour_failed += 1;
            if let IpAddr::V6(address) = address {
                self.interface.routers.is_silent(address);
            }
            let events = &mut self.events;
            self.neighbours.take_waiting(address, |id| {
                events.push_back(LinkEvent::HopUnreachable(id));
            });
        }
        let events = &mut self.events;
        self.neighbours.take_turned_away(now, |id| {
            events.push_back(LinkEvent::HopTurnedAway(id));
        });
        progress
    }

    /// Sockets that waited for an address can go on.
    pub(super) fn wake_waiting(&mut self, address: IpAddr) {
        let events = &mut self.events;
        self.neighbours
            .take_waiting(address, |id| events.push_back(LinkEvent::HopKnown(id)));
    }

    /// Asks for a router (RFC 4861 §6.3.7), where none is configured.
    pub(super) fn solicit_router(&mut self, now: Instant, device: &mut Device) -> bool {
        if self.solicitations.left == 0 || self.solicitations.at > now {
            return false;
        }
        let source = ipv6::link_local(self.interface.mac);
        let is_tentative = self.detection.is_tentative(source);
        let is_local = self.interface.is_local(source.into());
        if !is_local && is_tentative {
            self.solicitations.at = self.detection.poll_timeout().unwrap_or(now);
            return false;
        }
        self.solicitations.left -= 1;
        self.solicitations.at = now + ROUTER_SOLICITATION_INTERVAL;
        if !is_local {
            self.solicitations.left = 0;
            return false;
        }
        // RFC 4429 §3.2: messages from a tentative address do not say its MAC address.
        let message = Message::RouterSolicitation {
            source_mac: (!is_tentative).then_some(self.interface.mac),
        };
        self.send_discovery(source, ALL_ROUTERS, None, message, device);
        true
    }

    fn solicit_v6(&self, target: Ipv6Addr, solicit: &Solicit, device: &mut Device) {
        let Some(source) = self.interface.any_v6(target) else {
            return;
        };
        if self.detection.is_tentative(source) {
            // RFC 4429 §3.2: no solicitation is sent from there. It is sent when the address is this host's.
            return;
        }
        let message = Message::NeighborSolicitation {
            target,
            source_mac: Some(self.interface.mac),
        };
        let to = if solicit.unicast.is_some() {
            target
        } else {
            ipv6::solicited_node(target)
        };
        self.send_discovery(source, to, solicit.unicast, message, device);
    }

    /// Says that this host has `target`, to who asked or to everybody, unless another stack of it does.
    fn advertise(&self, target: Ipv6Addr, to: Option<(Ipv6Addr, MacAddr)>, device: &mut Device) {
        if !self.answers {
            return;
        }
        let message = Message::NeighborAdvertisement {
            target,
            target_mac: Some(self.interface.mac),
            router: false,
            solicited: to.is_some(),
            // RFC 4429 §3.2: who has a tentative address by right keeps it.
            replaces: !self.detection.is_tentative(target),
        };
        match to {
            Some((asker, mac)) => self.send_discovery(target, asker, Some(mac), message, device),
            None => self.send_discovery(target, ALL_NODES, None, message, device),
        }
    }

    pub(super) fn send_discovery(
        &self,
        src: Ipv6Addr,
        dst: Ipv6Addr,
        mac: Option<MacAddr>,
        message: Message,
        device: &mut Device,
    ) {
        let Some(destination) = mac.or_else(|| MacAddr::of_group(dst.into())) else {
            return;
        };
        let message = v6::Message::NeighborDiscovery(message);
        let mut bytes = [0; nic::ring::MAX_HEADER_LEN];
        let ethernet = ethernet::Header {
            destination,
            source: self.interface.mac,
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
        device.counters.neighbour_out += 1;
        device.post_frame(Frame::short(&bytes[..at], false));
    }
}
