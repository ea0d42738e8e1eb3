//! ICMP for IPv4 (RFC 792, RFC 1122 §3.2.2) and IPv6 (RFC 4443): pings, and errors about TCP's packets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use tcp::State;
use wire::ethernet::{self, EtherType, MacAddr};
use wire::icmp::v4::{self, Unreachable};
use wire::icmp::{Quoted, v6};
use wire::ipv4::{self, protocol};
use wire::ipv6;
use wire::packet::IpPacket;

use crate::CloseReason;
use crate::driver::Frame;
use crate::input::{answerable, source_mac};
use crate::interface::MIN_MSS;
use crate::stack::Stack;

/// Errors sent in each interval at most.
const ERRORS: u32 = 100;
const INTERVAL: Duration = Duration::from_millis(100);
/// Bytes of a packet that an error quotes: all of it up to the least MTU (RFC 1812 §4.3.2.3, RFC 4443 §2.4).
const QUOTED_V4: usize = 548;
const QUOTED_V6: usize = 1232;
const HOP_LIMIT: u8 = 64;

impl Stack {
    pub(crate) fn take_icmp_v4(&mut self, now: Instant, frame: &[u8], ip: &IpPacket) {
        self.core.counters.icmp_in_msgs += 1;
        let (IpAddr::V4(src), IpAddr::V4(dst)) = (ip.src, ip.dst) else {
            return;
        };
        if !self.core.interface.is_local(ip.dst) {
            self.core.counters.ip_in_addr_errors += 1;
            return;
        }
        match v4::Message::parse(ip.payload(frame)) {
            Ok(v4::Message::EchoRequest(echo)) => {
                let Some(mac) = source_mac(frame).filter(|_| answerable(ip).is_some()) else {
                    return;
                };
                self.core.counters.icmp_out_echo_reps += 1;
                self.send_icmp_v4(mac, dst, src, &v4::Message::EchoReply(echo));
            }
            Ok(v4::Message::Unreachable { reason, original }) => {
                let Some(quoted) = Quoted::parse(original) else {
                    return;
                };
                match reason {
                    Unreachable::FragmentationNeeded { mtu } => {
                        // RFC 1191 §5: an old router does not say; take the next plateau that every path has.
                        let mtu = if mtu == 0 { 576 } else { u32::from(mtu) };
                        self.path_shrank(now, quoted, mtu, 40);
                    }
                    Unreachable::Port | Unreachable::Protocol => {
                        self.unreachable(quoted, CloseReason::Refused);
                    }
                    _ => self.unreachable(quoted, CloseReason::Unreachable),
                }
            }
            Ok(_) => {}
            Err(_) => self.core.counters.icmp_in_errors += 1,
        }
    }

    pub(crate) fn take_icmp_v6(&mut self, now: Instant, frame: &[u8], ip: &IpPacket) {
        self.core.counters.icmp_in_msgs += 1;
        let (IpAddr::V6(src), IpAddr::V6(dst)) = (ip.src, ip.dst) else {
            return;
        };
        if !self.core.interface.is_local(ip.dst) && !self.core.interface.is_group(dst) {
            self.core.counters.ip_in_addr_errors += 1;
            return;
        }
        match v6::Message::parse(src, dst, ip.hop_limit, ip.payload(frame)) {
            Ok(v6::Message::NeighborDiscovery(message)) => {
                self.take_neighbour_discovery(now, src, message)
            }
            Ok(v6::Message::EchoRequest(echo)) if self.core.interface.is_local(ip.dst) => {
                let Some(mac) = source_mac(frame).filter(|_| answerable(ip).is_some()) else {
                    return;
                };
                self.core.counters.icmp_out_echo_reps += 1;
                self.send_icmp_v6(mac, dst, src, &v6::Message::EchoReply(echo));
            }
            Ok(v6::Message::PacketTooBig { mtu, original }) => {
                if let Some(quoted) = Quoted::parse(original) {
                    // RFC 8201 §4: less than the least MTU of IPv6 is never true.
                    self.path_shrank(now, quoted, mtu.max(u32::from(ipv6::MIN_MTU)), 60);
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
            Err(_) => self.core.counters.icmp_in_errors += 1,
        }
    }

    /// A packet for a protocol that nobody speaks here.
    pub(crate) fn refuse_protocol(&mut self, now: Instant, frame: &[u8], ip: &IpPacket) {
        let is_ours = self.core.interface.is_local(ip.dst);
        let (Some(mac), Some(_), true) = (source_mac(frame), answerable(ip), is_ours) else {
            return;
        };
        if now >= self.core.icmp_refill_at {
            self.core.icmp_budget = ERRORS;
            self.core.icmp_refill_at = now + INTERVAL;
        }
        if self.core.icmp_budget == 0 {
            return;
        }
        self.core.icmp_budget -= 1;
        self.core.counters.icmp_out_dest_unreachs += 1;
        let end = ip.l4_offset + ip.l4_len;
        let packet = &frame[ip.l3_offset..end];
        match (ip.src, ip.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                // UDP exists, but nobody listens on any of its ports.
                let reason = if ip.protocol == protocol::UDP {
                    Unreachable::Port
                } else {
                    Unreachable::Protocol
                };
                let original = &packet[..packet.len().min(QUOTED_V4)];
                self.send_icmp_v4(
                    mac,
                    dst,
                    src,
                    &v4::Message::Unreachable { reason, original },
                );
            }
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let original = &packet[..packet.len().min(QUOTED_V6)];
                self.send_icmp_v6(
                    mac,
                    dst,
                    src,
                    &v6::Message::Unreachable { code: 4, original },
                );
            }
            _ => {}
        }
    }

    /// A link on the way takes only smaller packets (RFC 1191, RFC 8201).
    fn path_shrank(&mut self, now: Instant, quoted: Quoted, mtu: u32, headers: u32) {
        let mss = mtu.saturating_sub(headers).max(u32::from(MIN_MSS));
        let mss = u16::try_from(mss).unwrap_or(u16::MAX);
        if self.spliced_path_shrank(now, &quoted, mtu, mss) {
            self.core.counters.icmp_in_too_big += 1;
            return;
        }
        let Some(id) = self.find_quoted(&quoted) else {
            return;
        };
        let Some(socket) = self.sockets.get_mut(id) else {
            return;
        };
        self.core.counters.icmp_in_too_big += 1;
        if mtu < u32::from(self.core.interface.mtu) {
            if let Some(offloaded) = socket
                .owner
                .handoff_mut()
                .filter(|offloaded| offloaded.is_away())
            {
                offloaded.path_mss = Some(mss);
                self.recall(now, id);
                return;
            }
            socket.tcp.handle_path_mss(now, mss);
            self.core.mark_ready(id, socket);
        }
    }

    /// RFC 5461 §4: an error ends a connection that is being opened; an established one sees to itself.
    fn unreachable(&mut self, quoted: Quoted, reason: CloseReason) {
        let Some(id) = self.find_quoted(&quoted) else {
            return;
        };
        let opening = |state: State| matches!(state, State::SynSent | State::SynReceived);
        if self
            .sockets
            .get(id)
            .is_some_and(|socket| opening(socket.tcp.state()))
        {
            self.reset(id, reason);
        }
    }

    /// The connection that an error is about, if what it quotes is in flight (RFC 5927 §4.1).
    fn find_quoted(&mut self, quoted: &Quoted) -> Option<crate::SocketId> {
        let index = self.core.demux.find(&quoted.flow)?;
        let id = self.sockets.id_at(index)?;
        let socket = self.sockets.get(id)?;
        let tcp = &socket.tcp;
        // Of what was posted to the NIC, only it knows what was sent.
        let away = socket.owner.handoff().filter(|_| tcp.is_parked());
        let end = away.map_or(tcp.snd_nxt(), |offloaded| offloaded.posted);
        let in_flight = tcp.snd_una().at_or_before(quoted.seq) && quoted.seq.before(end);
        in_flight.then_some(id)
    }

    pub(crate) fn send_icmp_v4(
        &mut self,
        mac: MacAddr,
        src: Ipv4Addr,
        dst: Ipv4Addr,
        message: &v4::Message<'_>,
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
        self.send_icmp(mac, EtherType::IPV4, message.len(), |buffer| {
            let at = ip.emit(buffer);
            ipv4::fill_checksum(&mut buffer[..at]);
            at + message.emit(&mut buffer[at..])
        });
    }

    pub(crate) fn send_icmp_v6(
        &mut self,
        mac: MacAddr,
        src: Ipv6Addr,
        dst: Ipv6Addr,
        message: &v6::Message<'_>,
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
        self.send_icmp(mac, EtherType::IPV6, message.len(), |buffer| {
            let at = ip.emit(buffer);
            at + message.emit(src, dst, &mut buffer[at..])
        });
    }

    /// Sends an ICMP packet of `len` bytes behind its IP header, which `emit` writes.
    fn send_icmp(
        &mut self,
        mac: MacAddr,
        ether_type: EtherType,
        len: usize,
        emit: impl FnOnce(&mut [u8]) -> usize,
    ) {
        let core = &mut self.core;
        let room = ipv6::HEADER_LEN + len;
        if room > usize::from(core.interface.mtu) + ipv6::HEADER_LEN - ipv4::HEADER_LEN {
            return;
        }
        let Some(mut packet) = core.driver.arena().allocate(room as u32) else {
            return;
        };
        let written = emit(&mut packet);
        packet.truncate(written as u32);
        let mut header = [0; ethernet::HEADER_LEN];
        ethernet::Header {
            destination: mac,
            source: core.interface.mac,
            ether_type,
        }
        .emit(&mut header);
        core.driver
            .post_frame(Frame::long(&header, packet), &mut core.counters);
    }
}
