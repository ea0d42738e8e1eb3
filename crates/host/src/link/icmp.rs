//! ICMP for IPv4 (RFC 792, RFC 1122 §3.2.2) and IPv6 (RFC 4443): pings, and errors about TCP's packets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use tcp::MIN_MSS;
use wire::ethernet::{self, EtherType, MacAddr};
use wire::icmp::v4::{self, Unreachable};
use wire::icmp::{Quoted, v6};
use wire::ipv4::{self, protocol};
use wire::ipv6;
use wire::packet::IpPacket;

use super::{Link, LinkEvent, answerable, source_mac};
use crate::CloseReason;
use crate::device::Device;
use crate::driver::Frame;
use crate::memory::Purpose;

/// Errors sent in each interval at most.
const ERRORS: u32 = 100;
const INTERVAL: Duration = Duration::from_millis(100);

/// Errors that may still be sent this interval (RFC 1812 §4.3.2.8, RFC 4443 §2.4).
#[derive(Debug)]
pub(super) struct ErrorLimit {
    left: u32,
    refill_at: Instant,
}

impl ErrorLimit {
    pub fn new(now: Instant) -> Self {
        Self {
            left: 0,
            refill_at: now,
        }
    }

    /// Counts an error, if it may be sent.
    fn allow(&mut self, now: Instant) -> bool {
        if now >= self.refill_at {
            self.left = ERRORS;
            self.refill_at = now + INTERVAL;
        }
        let is_allowed = self.left > 0;
        self.left -= u32::from(is_allowed);
        is_allowed
    }
}

/// Bytes of a packet that an error quotes: all of it up to the least MTU (RFC 1812 §4.3.2.3, RFC 4443 §2.4).
const QUOTED_V4: usize = 548;
const QUOTED_V6: usize = 1232;
const HOP_LIMIT: u8 = 64;

impl Link {
    pub(super) fn handle_icmp_v4(&mut self, frame: &[u8], ip: &IpPacket, device: &mut Device) {
        device.counters.icmp_in_msgs += 1;
        let (IpAddr::V4(src), IpAddr::V4(dst)) = (ip.src, ip.dst) else {
            return;
        };
        if !self.interface.is_local(ip.dst) {
            device.counters.ip_in_addr_errors += 1;
            return;
        }
        match v4::Message::parse(ip.payload(frame)) {
            Ok(v4::Message::EchoRequest(echo)) => {
                let Some(mac) = source_mac(frame).filter(|_| answerable(ip).is_some()) else {
                    return;
                };
                device.counters.icmp_out_echo_reps += 1;
                self.send_icmp_v4(mac, dst, src, &v4::Message::EchoReply(echo), device);
            }
            Ok(v4::Message::Unreachable { reason, original }) => {
                let Some(quoted) = Quoted::parse(original) else {
                    return;
                };
                match reason {
                    Unreachable::FragmentationNeeded { mtu } => {
                        // RFC 1191 §5: an old router does not say; take the next plateau that every path has.
                        let mtu = if mtu == 0 { 576 } else { u32::from(mtu) };
                        self.packet_too_big(quoted, mtu, 40);
                    }
                    Unreachable::Port | Unreachable::Protocol => {
                        self.unreachable(quoted, CloseReason::Refused);
                    }
                    _ => self.unreachable(quoted, CloseReason::Unreachable),
                }
            }
            Ok(_) => {}
            Err(_) => device.counters.icmp_in_errors += 1,
        }
    }

    pub(super) fn handle_icmp_v6(
        &mut self,
        now: Instant,
        frame: &[u8],
        ip: &IpPacket,
        device: &mut Device,
    ) {
        device.counters.icmp_in_msgs += 1;
        let (IpAddr::V6(src), IpAddr::V6(dst)) = (ip.src, ip.dst) else {
            return;
        };
        if !self.interface.is_local(ip.dst) && !self.interface.is_group(dst) {
            device.counters.ip_in_addr_errors += 1;
            return;
        }
        match v6::Message::parse(src, dst, ip.hop_limit, ip.payload(frame)) {
            Ok(v6::Message::NeighborDiscovery(message)) => {
                let mac = source_mac(frame);
                if !self.take_duplicate(now, src, &message, mac, device) {
                    self.handle_discovery(now, (src, mac), message, device);
                }
            }
            Ok(v6::Message::ListenerQuery(query)) => {
                self.handle_listener_query(now, &frame[ip.l3_offset..], &query);
            }
            Ok(v6::Message::EchoRequest(echo)) if self.interface.is_local(ip.dst) => {
                let Some(mac) = source_mac(frame).filter(|_| answerable(ip).is_some()) else {
                    return;
                };
                device.counters.icmp_out_echo_reps += 1;
                self.send_icmp_v6(mac, dst, src, &v6::Message::EchoReply(echo), device);
            }
            Ok(v6::Message::PacketTooBig { mtu, original }) => {
                if let Some(quoted) = Quoted::parse(original) {
                    // RFC 8201 §4: less than the least MTU of IPv6 is never true.
                    self.packet_too_big(quoted, mtu.max(u32::from(ipv6::MIN_MTU)), 60);
                }
            }
            Ok(v6::Message::Unreachable { code, original }) => {
                if let Some(quoted) = Quoted::parse(original) {
                    let reason = if code == 4 {
                        CloseReason::Refused
                    } else {
                        CloseReason::Unreachable
                    };
                    self.unreachable(quoted, reason);
                }
            }
            Ok(_) => {}
            Err(_) => device.counters.icmp_in_errors += 1,
        }
    }

    /// A packet for a protocol that this host does not speak.
    pub(super) fn refuse_protocol(
        &mut self,
        now: Instant,
        frame: &[u8],
        ip: &IpPacket,
        device: &mut Device,
    ) {
        let is_ours = self.interface.is_local(ip.dst) && ethernet::is_for_one(frame);
        let has_payload = ip.dst.is_ipv4() || ip.protocol != ipv6::NO_NEXT_HEADER;
        let (Some(mac), Some(_), true) =
            (source_mac(frame), answerable(ip), is_ours && has_payload)
        else {
            return;
        };
        if !self.icmp_errors.allow(now) {
            return;
        }
        let end = ip.l4_offset + ip.l4_len;
        let packet = &frame[ip.l3_offset..end];
        match (ip.src, ip.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                // UDP exists, but none of its ports is open.
                let reason = if ip.protocol == protocol::UDP {
                    Unreachable::Port
                } else {
                    Unreachable::Protocol
                };
                let original = &packet[..packet.len().min(QUOTED_V4)];
                let message = v4::Message::Unreachable { reason, original };
                device.counters.icmp_out_dest_unreachs += 1;
                self.send_icmp_v4(mac, dst, src, &message, device);
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let original = &packet[..packet.len().min(QUOTED_V6)];
                let message = match ip.protocol {
                    protocol::UDP => v6::Message::Unreachable { code: 4, original },
                    _ => v6::Message::ParameterProblem {
                        code: 1,
                        pointer: ipv6::protocol_place(packet) as u32,
                        original,
                    },
                };
                let counters = &mut device.counters;
                match ip.protocol {
                    protocol::UDP => counters.icmp_out_dest_unreachs += 1,
                    _ => counters.icmp_out_parm_probs += 1,
                }
                self.send_icmp_v6(mac, dst, src, &message, device);
            }
            _ => {}
        }
    }

    /// A link on the way takes only smaller packets (RFC 1191, RFC 8201).
    fn packet_too_big(&mut self, quoted: Quoted, mtu: u32, headers: u32) {
        let mss = mtu.saturating_sub(headers).max(u32::from(MIN_MSS));
        let mss = u16::try_from(mss).unwrap_or(u16::MAX);
        let event = LinkEvent::PacketTooBig { quoted, mtu, mss };
        self.events.push_back(event);
    }

    fn unreachable(&mut self, quoted: Quoted, reason: CloseReason) {
        let event = LinkEvent::Unreachable { quoted, reason };
        self.events.push_back(event);
    }

    pub(super) fn send_icmp_v4(
        &self,
        mac: MacAddr,
        src: Ipv4Addr,
        dst: Ipv4Addr,
        message: &v4::Message<'_>,
        device: &mut Device,
    ) {
        let ip = ipv4::Header {
            src,
            dst,
            protocol: protocol::ICMP,
            ttl: HOP_LIMIT,
            traffic_class: 0,
            identification: 0,
            dont_fragment: true,
            payload_len: message.len() as u16,
            fragment: None,
        };
        self.send_icmp(mac, EtherType::IPV4, message.len(), device, |buffer| {
            let at = ip.emit(buffer);
            ipv4::fill_checksum(&mut buffer[..at]);
            at + message.emit(&mut buffer[at..])
        });
    }

    pub(super) fn send_icmp_v6(
        &self,
        mac: MacAddr,
        src: Ipv6Addr,
        dst: Ipv6Addr,
        message: &v6::Message<'_>,
        device: &mut Device,
    ) {
        let ip = ipv6::Header {
            src,
            dst,
            next_header: protocol::ICMPV6,
            hop_limit: HOP_LIMIT,
            traffic_class: 0,
            flow_label: 0,
            payload_len: message.len() as u16,
        };
        self.send_icmp(mac, EtherType::IPV6, message.len(), device, |buffer| {
            let at = ip.emit(buffer);
            at + message.emit(src, dst, &mut buffer[at..])
        });
    }

    /// Sends an ICMP packet of `len` bytes behind its IP header, which `emit` writes.
    pub(super) fn send_icmp(
        &self,
        mac: MacAddr,
        ether_type: EtherType,
        len: usize,
        device: &mut Device,
        emit: impl FnOnce(&mut [u8]) -> usize,
    ) {
        let room = ipv6::HEADER_LEN + len;
        if room > usize::from(self.interface.mtu) + ipv6::HEADER_LEN - ipv4::HEADER_LEN {
            return;
        }
        let Some(mut packet) = device
            .driver
            .arena()
            .allocate(Purpose::Control, room as u32)
        else {
            return;
        };
        let written = emit(&mut packet);
        packet.truncate(written as u32);
        let mut header = [0; ethernet::HEADER_LEN];
        ethernet::Header {
            destination: mac,
            source: self.interface.mac,
            ether_type,
        }
        .emit(&mut header);
        device.post_frame(Frame::long(&header, packet));
    }
}
