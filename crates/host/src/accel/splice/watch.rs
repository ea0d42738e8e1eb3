//! What happens to the paths of spliced connections, which only the host hears of: ICMP, and neighbours that move or go away.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use wire::icmp::{Quoted, v4, v6};
use wire::packet::emit_tcp_headers;
use wire::tcp::Header;
use wire::{SeqNum, ethernet, ipv4, ipv6};

use super::table::{Part, Phase};
use crate::stack::Stack;

/// How often each splice's next hops are looked at, and how many splices at once.
const INTERVAL: Duration = Duration::from_secs(1);
const AT_ONCE: u32 = 256;
/// Bytes behind the IP header that tell which packet it was (RFC 792).
const QUOTED: usize = 8;

impl Stack {
    /// A link on the path of a spliced connection takes only smaller packets: the splice is taken back, and the other peer,
    /// whose packets they are, is told to send what is on its way once more in smaller ones. False when the flow belongs
    /// to no splice.
    pub(crate) fn spliced_path_shrank(
        &mut self,
        now: Instant,
        quoted: &Quoted,
        mtu: u32,
        mss: u16,
    ) -> bool {
        let socket = self
            .core
            .demux
            .find(&quoted.flow)
            .and_then(|index| self.sockets.id_at(index))
            .and_then(|id| self.sockets.get(id));
        let Some(part) = socket.and_then(|socket| socket.owner.splice()) else {
            return false;
        };
        // What is in flight only the NIC knows; but older than the splice it can't be (RFC 5927 §4.1).
        let is_old = socket.is_some_and(|socket| quoted.seq.before(socket.tcp.snd_nxt()));
        // Packets that fit are none that a link would have dropped.
        let in_use = socket.and_then(|socket| socket.tcp.tcb(now));
        let fits = in_use.is_some_and(|tcb| tcb.mss <= mss);
        if !part.is_given_away || is_old || fits {
            return part.is_given_away;
        }
        if let Some(spliced) = self.splices.get_mut(part.splice) {
            spliced.path_mss[part.side] = Some(mss);
            self.call_back(part.splice);
            self.pass_on_too_big(part, quoted.seq, mtu);
        }
        true
    }

    /// Tells the peer of the other connection what its packet has met, as whoever translates addresses does (RFC 5508 §4.2).
    fn pass_on_too_big(&mut self, part: Part, seq: SeqNum, mtu: u32) {
        let Some(spliced) = self.splices.get(part.splice) else {
            return;
        };
        let other = 1 - part.side;
        let socket = |side: usize| self.sockets.get(spliced.sockets[side]);
        let (Some(to), Some(from)) = (socket(part.side), socket(other)) else {
            return;
        };
        // Where the one stream was when the NIC got both, the other one was too.
        let sent = from.tcp.rcv_nxt() + to.tcp.snd_nxt().distance_to(seq);
        let flow = from.flow;
        let mac = spliced.hops[other];
        let header = Header {
            src_port: flow.dst.1,
            dst_port: flow.src.1,
            seq: sent,
            ..Header::default()
        };
        let mut frame = [0; nic::ring::MAX_HEADER_LEN];
        let own = self.core.interface.mac;
        let payload = u32::from(from.tcp.mss());
        emit_tcp_headers(&mut frame, mac, own, &flow.reversed(), &header, payload, 64);
        match (flow.src.0, flow.dst.0) {
            (IpAddr::V4(us), IpAddr::V4(peer)) => {
                let end = ethernet::HEADER_LEN + ipv4::HEADER_LEN;
                ipv4::fill_checksum(&mut frame[ethernet::HEADER_LEN..end]);
                let reason = v4::Unreachable::FragmentationNeeded {
                    mtu: mtu.min(u16::MAX.into()) as u16,
                };
                let original = &frame[ethernet::HEADER_LEN..end + QUOTED];
                let message = v4::Message::Unreachable { reason, original };
                self.send_icmp_v4(mac, us, peer, &message);
            }
            (IpAddr::V6(us), IpAddr::V6(peer)) => {
                let end = ethernet::HEADER_LEN + ipv6::HEADER_LEN;
                let original = &frame[ethernet::HEADER_LEN..end + QUOTED];
                let message = v6::Message::PacketTooBig { mtu, original };
                self.send_icmp_v6(mac, us, peer, &message);
            }
            _ => {}
        }
    }

    /// Looks whether the next hops of some splices are still where they were. A splice whose neighbour has moved is taken
    /// back: the host finds it again, or finds that it is gone.
    pub(super) fn watch_paths(&mut self, now: Instant) -> bool {
        let Some(at) = self.splices.watch_at else {
            self.splices.watch_at = Some(now + INTERVAL);
            return false;
        };
        if at > now {
            return false;
        }
        let (some, next) = self.splices.some_from(self.splices.watched, AT_ONCE);
        let is_round_over = (next - self.splices.watched) < AT_ONCE;
        self.splices.watched = if is_round_over { 0 } else { next };
        self.splices.watch_at = Some(if is_round_over { now + INTERVAL } else { now });
        for handle in some {
            let Some(spliced) = self.splices.get(handle) else {
                continue;
            };
            if !matches!(spliced.phase, Phase::Relaying) {
                continue;
            }
            let has_moved = (0..2).any(|side| {
                let socket = self.sockets.get(spliced.sockets[side]);
                let next_hop = socket.map(|socket| socket.next_hop);
                let known = next_hop.and_then(|next_hop| self.core.neighbours.peek(next_hop));
                known.is_some_and(|mac| mac != spliced.hops[side])
            });
            if has_moved {
                self.call_back(handle);
            }
        }
        true
    }
}
