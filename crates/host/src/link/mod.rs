//! The host on its link: addresses and routes, neighbours, ARP, NDP and ICMP.
//!
//! The link knows no connections. What concerns them it tells by [`LinkEvent`]s.

mod arp;
mod dad;
mod icmp;
mod interface;
mod mld;
mod ndp;
mod neighbours;
mod path_mtu;
mod routers;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Instant;

use wire::ethernet::MacAddr;
use wire::icmp::{Quoted, v4, v6};
use wire::packet::{self, Class, IpPacket, Parsed};
use wire::tcp::Header;
use wire::{FlowKey, SeqNum, ethernet, ipv4, ipv6};

use crate::deadlines::earliest;
use crate::device::Device;
use crate::driver::Frame;
use crate::{CloseReason, SocketId, StackConfig};
use dad::Detection;
use icmp::ErrorLimit;
use mld::Listening;

pub(crate) use interface::Interface;
pub(crate) use neighbours::{Hop, Neighbours, Resolution};
pub(crate) use path_mtu::LEAST as LEAST_PATH_MSS;
use path_mtu::PathMtus;

/// The stack's one link.
#[derive(Debug)]
pub(crate) struct Link {
    pub interface: Interface,
    pub neighbours: Neighbours,
    pub path_mtus: PathMtus,
    /// It answers who asks for its addresses: not if another stack with the same ones does.
    answers: bool,
    solicitations: Solicitations,
    detection: Detection,
    listening: Listening,
    /// When something of these, or of the routers, is due: nothing of them is touched in the polls before.
    due: Option<Instant>,
    /// When the next answer to another host that has our IPv4 address may go out.
    defends_at: Option<Instant>,
    icmp_errors: ErrorLimit,
    /// The next hop that was looked up last for a peer without a socket.
    last_hop: Option<(IpAddr, Hop)>,
    events: VecDeque<LinkEvent>,
}

/// What the link tells of connections.
#[derive(Debug)]
pub(crate) enum LinkEvent {
    /// The next hop that this socket waits for is known.
    HopKnown(SocketId),
    /// It does not answer.
    HopUnreachable(SocketId),
    /// The table had no room to ask for it, and may have now.
    HopTurnedAway(SocketId),
    /// The host has more addresses than before, or fewer.
    AddressesChanged,
    /// Another host has this address, which is ours no longer.
    Duplicate(Ipv6Addr),
    /// A link on the path of the quoted segment takes no larger packets (RFC 1191, RFC 8201).
    PacketTooBig { quoted: Quoted, mtu: u32, mss: u16 },
    /// The quoted segment can't be delivered.
    Unreachable { quoted: Quoted, reason: CloseReason },
}

/// Router solicitations still to be sent, and when the next one is (RFC 4861 §6.3.7).
#[derive(Debug)]
struct Solicitations {
    /// When no router is known: one is asked for.
    wanted: bool,
    left: u8,
    at: Instant,
}

/// A segment that another peer has sent and a link on the way did not take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TooBig {
    /// From this host to the peer.
    pub flow: FlowKey,
    /// Where the peer is on the link.
    pub mac: MacAddr,
    pub seq: SeqNum,
    /// Bytes of its payload.
    pub payload: u32,
    /// What the link takes.
    pub mtu: u32,
}

/// How often a router is asked for (RFC 4861 §10).
const SOLICITATIONS: u8 = 3;
/// Bytes behind the IP header that tell which packet it was (RFC 792).
const QUOTED: usize = 8;

impl Link {
    pub fn new(now: Instant, config: &StackConfig, mac: MacAddr) -> Self {
        let answers = config.shard.is_none_or(|shard| shard.worker == 0);
        let solicits = answers && config.gateway_v6.is_none();
        let interface = Interface::new(mac, config);
        let mut link = Self {
            detection: Detection::new(now, config.dad, interface.own_v6()),
            listening: Listening::new(answers && config.mld, &config.secret),
            interface,
            neighbours: Neighbours::new(config.max_neighbours, &config.secret),
            path_mtus: PathMtus::default(),
            answers,
            solicitations: Solicitations {
                wanted: solicits,
                left: if solicits { SOLICITATIONS } else { 0 },
                at: now,
            },
            defends_at: None,
            icmp_errors: ErrorLimit::new(now),
            last_hop: None,
            events: VecDeque::new(),
            due: None,
        };
        link.sync_groups(now);
        link.due = link.next_due();
        link
    }

    /// The next thing to tell of connections.
    #[inline]
    pub fn poll_event(&mut self) -> Option<LinkEvent> {
        self.events.pop_front()
    }

    /// When there is something to do, if nothing comes before.
    pub fn poll_timeout(&self) -> Option<Instant> {
        debug_assert_eq!(self.due, self.next_due());
        earliest([self.neighbours.poll_timeout(), self.due])
    }

    fn next_due(&self) -> Option<Instant> {
        let solicitations = &self.solicitations;
        earliest([
            (solicitations.left > 0).then_some(solicitations.at),
            self.detection.poll_timeout(),
            self.interface.routers.poll_timeout(),
            self.listening.poll_timeout(),
        ])
    }

    /// Does what is due. Answers whether that was anything.
    #[inline]
    pub fn poll(&mut self, now: Instant, device: &mut Device) -> bool {
        let mut progress = false;
        if self.due.is_some_and(|at| at <= now) {
            progress |= self.poll_addresses(now, device);
            self.due = self.next_due();
        }
        if self.neighbours.poll_timeout().is_some_and(|at| at <= now) {
            progress |= self.poll_neighbours(now, device);
        }
        progress
    }

    /// Does what is due for addresses, groups and routers.
    #[inline(never)]
    fn poll_addresses(&mut self, now: Instant, device: &mut Device) -> bool {
        // A group is joined before its first question (RFC 4862 §5.4.2).
        let mut progress = self.report_groups(now, device);
        progress |= self.detect_duplicates(now, device);
        while let Some(router) = self.interface.routers.take_expired(now) {
            self.has_lost_router(now, router);
        }
        progress | self.solicit_router(now, device)
    }

    /// Takes a frame that is no TCP segment.
    pub fn handle_frame(&mut self, now: Instant, frame: &[u8], class: Class, device: &mut Device) {
        match class {
            Class::Arp { offset } => self.handle_arp(now, &frame[offset..], device),
            Class::IcmpV4(ip) => self.handle_icmp_v4(frame, &ip, device),
            Class::IcmpV6(ip) => self.handle_icmp_v6(now, frame, &ip, device),
            Class::Fragment(_) => device.counters.ip_in_fragments += 1,
            Class::OtherIp(ip) => {
                device.counters.ip_in_unknown_protos += 1;
                self.refuse_protocol(now, frame, &ip, device);
            }
            Class::Other(_) | Class::Tcp(_) => {}
            Class::Malformed(_) => device.counters.ip_in_hdr_errors += 1,
        }
        self.due = self.next_due();
    }

    /// RFC 9293 §3.10.7.1: a segment of no connection is answered by a reset.
    pub fn refuse(&self, frame: &[u8], parsed: &Parsed, device: &mut Device) {
        if let Some(reset) = tcp::reset_for(&parsed.tcp, parsed.payload_len) {
            device.counters.tcp_out_rsts += 1;
            self.reply(frame, parsed, &reset, device);
        }
    }

    /// Sends a segment of no connection to where a frame came from.
    pub fn reply(&self, frame: &[u8], parsed: &Parsed, header: &Header, device: &mut Device) {
        let Some(mac) = source_mac(frame) else { return };
        let flow = parsed.flow.reversed();
        let own = self.interface.mac;
        let mut bytes = [0; nic::ring::MAX_HEADER_LEN];
        let len = packet::emit_tcp_headers(&mut bytes, own, mac, &flow, header, 0, 64);
        device.counters.tcp_out_segs += 1;
        device.post_frame(Frame::short(&bytes[..len], true));
    }

    /// The peer has answered what the NIC has sent to this MAC address: the host's packets go there too, if its own table says
    /// nothing else.
    pub fn hop_answered(&mut self, now: Instant, next_hop: IpAddr, mac: MacAddr, peer: IpAddr) {
        if let Some((address, hop)) = self.last_hop
            && address == next_hop
            && self.neighbours.mac_now(hop) == Some(mac)
        {
            return self.neighbours.confirm(hop, now);
        }
        // What others forward says nothing of who is to be asked to forward.
        let is_neighbour = next_hop == peer;
        if let Some(hop) = self.neighbours.reached(now, next_hop, mac, is_neighbour) {
            self.last_hop = Some((next_hop, hop));
        }
    }

    /// The MAC address of a peer's next hop, if nothing needs to be asked for it.
    #[inline]
    pub fn known_hop(&mut self, now: Instant, peer: IpAddr) -> Option<MacAddr> {
        let next_hop = self.interface.next_hop(peer)?;
        if let Some((address, hop)) = self.last_hop
            && address == next_hop
            && let Some(mac) = self.neighbours.mac(hop, now)
        {
            return Some(mac);
        }
        match self.neighbours.resolve(now, next_hop) {
            Resolution::Known(hop, mac) => {
                self.last_hop = Some((next_hop, hop));
                Some(mac)
            }
            Resolution::Pending | Resolution::Full => None,
        }
    }

    /// Where packets of a connection go now that were handed to `before` so far, if that is known.
    pub fn mac_towards(&self, remote: IpAddr, before: IpAddr) -> Option<MacAddr> {
        self.neighbours
            .peek(self.interface.next_hop_of(remote, before))
    }

    /// Tells a peer that its packet was too big for a link behind this host, as a translator of addresses does (RFC 5508 §4.2).
    pub fn send_too_big(&self, packet: &TooBig, device: &mut Device) {
        let TooBig { flow, mac, .. } = *packet;
        let header = Header {
            src_port: flow.dst.1,
            dst_port: flow.src.1,
            seq: packet.seq,
            ..Header::default()
        };
        let mut frame = [0; nic::ring::MAX_HEADER_LEN];
        let (own, flow_in) = (self.interface.mac, flow.reversed());
        packet::emit_tcp_headers(&mut frame, mac, own, &flow_in, &header, packet.payload, 64);
        match (flow.src.0, flow.dst.0) {
            (IpAddr::V4(us), IpAddr::V4(peer)) => {
                let end = ethernet::HEADER_LEN + ipv4::HEADER_LEN;
                ipv4::fill_checksum(&mut frame[ethernet::HEADER_LEN..end]);
                let reason = v4::Unreachable::FragmentationNeeded {
                    mtu: packet.mtu.min(u16::MAX.into()) as u16,
                };
                let original = &frame[ethernet::HEADER_LEN..end + QUOTED];
                let message = v4::Message::Unreachable { reason, original };
                self.send_icmp_v4(mac, us, peer, &message, device);
            }
            (IpAddr::V6(us), IpAddr::V6(peer)) => {
                let end = ethernet::HEADER_LEN + ipv6::HEADER_LEN;
                let original = &frame[ethernet::HEADER_LEN..end + QUOTED];
                let mtu = packet.mtu;
                let message = v6::Message::PacketTooBig { mtu, original };
                self.send_icmp_v6(mac, us, peer, &message, device);
            }
            _ => {}
        }
    }
}

/// The sender of a frame, if it can be answered.
pub(crate) fn source_mac(frame: &[u8]) -> Option<MacAddr> {
    let mac: [u8; 6] = frame.get(6..12)?.try_into().ok()?;
    Some(MacAddr(mac)).filter(|mac| mac.is_unicast())
}

/// The sender of a packet, if an error may be sent to it (RFC 1122 §3.2.2).
fn answerable(ip: &IpPacket) -> Option<IpAddr> {
    (!ip.src.is_multicast() && !ip.src.is_unspecified() && !ip.src.is_loopback()).then_some(ip.src)
}
