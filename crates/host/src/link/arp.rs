//! ARP for IPv4 (RFC 826).

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use wire::arp::{Operation, PACKET_LEN, Packet};
use wire::ethernet::{self, EtherType, MacAddr};

use super::Link;
use super::neighbours::Solicit;
use crate::device::Device;
use crate::driver::Frame;

/// RFC 5227 §1.1.
const DEFEND_INTERVAL: Duration = Duration::from_secs(10);

impl Link {
    /// Takes an ARP packet: learns who the sender is, and answers if it asks for this host.
    pub(super) fn handle_arp(&mut self, now: Instant, bytes: &[u8], device: &mut Device) {
        let Ok(packet) = Packet::parse(bytes) else {
            device.counters.ip_in_hdr_errors += 1;
            return;
        };
        device.counters.neighbour_in += 1;
        if !packet.sender_mac.is_unicast() {
            return;
        }
        if self.interface.is_local(packet.sender_ip.into()) {
            if packet.sender_mac != self.interface.mac {
                self.defend(now, packet.sender_ip, device);
            }
            return;
        }
        let for_us = self.interface.is_local(packet.target_ip.into());
        let sender = IpAddr::from(packet.sender_ip);
        let is_probe = packet.sender_ip.is_unspecified();
        let resolved = match packet.operation {
            _ if is_probe => false,
            // RFC 826: an entry that exists is updated by whatever the sender says; a new one is made only if it speaks to us.
            Operation::Request if for_us => self.neighbours.asked(now, sender, packet.sender_mac),
            Operation::Request => {
                self.neighbours
                    .answered(now, sender, Some(packet.sender_mac), false, true)
            }
            Operation::Reply => {
                self.neighbours
                    .answered(now, sender, Some(packet.sender_mac), for_us, true)
            }
        };
        if resolved {
            self.wake_waiting(sender);
        }
        if packet.operation == Operation::Request && for_us && self.answers {
            let reply = Packet {
                operation: Operation::Reply,
                sender_mac: self.interface.mac,
                sender_ip: packet.target_ip,
                target_mac: packet.sender_mac,
                target_ip: packet.sender_ip,
            };
            self.send_arp(packet.sender_mac, &reply, device);
        }
    }

    /// Another host has an IPv4 address of this one: neighbours are told once more whose it is, now and then (RFC 5227 §2.4).
    fn defend(&mut self, now: Instant, address: Ipv4Addr, device: &mut Device) {
        device.counters.neighbour_duplicates += 1;
        if !self.answers || self.defends_at.is_some_and(|at| now < at) {
            return;
        }
        self.defends_at = Some(now + DEFEND_INTERVAL);
        let announcement = Packet {
            operation: Operation::Request,
            sender_mac: self.interface.mac,
            sender_ip: address,
            target_mac: MacAddr::ZERO,
            target_ip: address,
        };
        self.send_arp(MacAddr::BROADCAST, &announcement, device);
    }

    /// Asks who has an IPv4 address.
    pub(super) fn solicit_v4(&self, target: Ipv4Addr, solicit: &Solicit, device: &mut Device) {
        let Some(source) = self.interface.any_v4(target) else {
            return;
        };
        let request = Packet {
            operation: Operation::Request,
            sender_mac: self.interface.mac,
            sender_ip: source,
            target_mac: MacAddr::ZERO,
            target_ip: target,
        };
        let to = solicit.unicast.unwrap_or(MacAddr::BROADCAST);
        self.send_arp(to, &request, device);
    }

    fn send_arp(&self, to: MacAddr, packet: &Packet, device: &mut Device) {
        let mut bytes = [0; ethernet::HEADER_LEN + PACKET_LEN];
        let header = ethernet::Header {
            destination: to,
            source: self.interface.mac,
            ether_type: EtherType::ARP,
        };
        let at = header.emit(&mut bytes);
        packet.emit(&mut bytes[at..]);
        device.counters.neighbour_out += 1;
        device.post_frame(Frame::short(&bytes, false));
    }
}
