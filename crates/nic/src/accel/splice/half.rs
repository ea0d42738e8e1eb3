//! One connection of a splice.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ::tcp::TIMESTAMPS_LEN;
use wire::ethernet::{self, MacAddr};
use wire::tcp::{Flags, Header};
use wire::{Ecn, FlowKey, SeqNum, tcp};

use super::reply::never_challenged;
use super::translate::l4_offset;
use crate::ring::accel::Leg;

/// A connection, and what was forwarded from its peer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Half {
    pub(super) ends: Ends,
    pub(super) hop: MacAddr,
    /// Most bytes of payload and options in a packet to the peer.
    pub(super) room: u16,
    pub(super) stream: Stream,
    pub(super) deltas: Deltas,
    /// The peer's latest TSval.
    pub(super) recent: u32,
    /// When the peer was last sent a challenge ACK, in units of the [reply](super::reply)'s.
    pub(super) challenged: u16,
    pub(super) windows: Windows,
    /// Binary logarithm of an upper bound of the windows that were announced to the peer.
    reach: u8,
    /// [`FIN`] and the connection's.
    flags: u8,
    /// TTL or hop limit of packets to the peer, at most.
    pub(super) hop_limit: u8,
    counts: Counts,
}

/// The addresses of a connection; IPv4 in the first four bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    ours: [u8; 16],
    peers: [u8; 16],
    pub(super) our_port: u16,
    pub(super) peer_port: u16,
}

/// The stream from a peer, in its own sequence numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stream {
    /// Where it was when the splice began. `nxt` passes it again every 4 GiB.
    start: SeqNum,
    /// Behind the highest that was forwarded from the peer.
    pub(super) nxt: SeqNum,
    /// The highest acknowledgement that was forwarded to the peer.
    pub(super) una: SeqNum,
    /// The rightmost edge of a window that was announced to the peer.
    pub(super) edge: SeqNum,
}

/// What is added to a peer's numbers on the other leg.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deltas {
    pub(super) seq: u32,
    /// Of TSvals.
    pub(super) ts: u32,
}

/// Window fields, and their shifts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Windows {
    /// The field that was last announced to the peer.
    pub(super) sent: u16,
    /// The field that the peer last announced.
    pub(super) heard: u16,
    /// Shift of the windows that the peer announces.
    pub(super) peer_shift: u8,
    /// Shift of the windows that are announced to the peer.
    pub(super) our_shift: u8,
}

#[derive(Debug, Clone, Copy)]
struct Counts {
    /// How often `nxt` has passed `start`.
    laps: u16,
    /// 48 bits of a count.
    packets: [u16; 3],
}

/// The peer's FIN has been seen: `nxt` is behind it.
const FIN: u8 = 1;
const V6: u8 = 2;
const TIMESTAMPS: u8 = 4;
const SACK: u8 = 8;
/// One of the connections alone has ECN.
const ECN_ENDS: u8 = 16;
/// The peer hears from us of its marked packets: of all if ECN ends here, else of those from before the splice.
const ECN_ANSWERED: u8 = 64;
/// Packets of the peer were marked, and it has not said yet that it has reduced its window.
const ECHO: u8 = 128;
/// The last segment without data was from before `nxt`, and nothing new came since.
const PROBING: u8 = 32;

impl Half {
    pub(super) fn new(leg: &Leg, other: &Leg, mtu: u16, now: u32) -> Half {
        let v6 = leg.flow.is_ipv6();
        let timestamps = leg.timestamps.zip(other.timestamps);
        let recent = timestamps.map_or(0, |(ours, _)| ours.recent);
        let options = if timestamps.is_some() {
            TIMESTAMPS_LEN
        } else {
            0
        };
        let headers = (l4_offset(v6) - ethernet::HEADER_LEN + tcp::HEADER_LEN) as u16;
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let field = |window: u32, shift: u8| (window >> shift).min(u32::from(u16::MAX)) as u16;
        Half {
            ends: Ends {
                ours: octets(leg.flow.src.0),
                peers: octets(leg.flow.dst.0),
                our_port: leg.flow.src.1,
                peer_port: leg.flow.dst.1,
            },
            hop: leg.hop,
            room: leg
                .mss
                .saturating_add(options)
                .min(mtu.saturating_sub(headers)),
            stream: Stream {
                start: leg.rcv_nxt,
                nxt: leg.rcv_nxt,
                una: leg.rcv_nxt,
                edge: leg.rcv_nxt + leg.our_window.min(LARGEST_WINDOW),
            },
            deltas: Deltas {
                seq: leg.rcv_nxt.distance_to(other.snd_nxt),
                ts: timestamps.map_or(0, |(ours, other)| other.value.wrapping_sub(ours.recent)),
            },
            recent,
            challenged: never_challenged(now),
            windows: Windows {
                sent: field(leg.our_window, leg.our_shift),
                heard: field(leg.peer_window, leg.peer_shift),
                peer_shift: leg.peer_shift,
                our_shift: leg.our_shift,
            },
            reach: reach_of(leg.our_window.clamp(u32::from(u16::MAX), LARGEST_WINDOW)),
            flags: flag(v6, V6)
                | flag(timestamps.is_some(), TIMESTAMPS)
                | flag(leg.sack && other.sack, SACK)
                | flag(leg.ecn != other.ecn, ECN_ENDS)
                | flag(leg.ecn && (!other.ecn || leg.ecn_echo), ECN_ANSWERED)
                | flag(leg.ecn_echo, ECHO),
            hop_limit: leg.hop_limit,
            counts: Counts {
                laps: 0,
                packets: [0; 3],
            },
        }
    }

    /// The flow of packets to the peer.
    pub(super) fn flow(&self) -> FlowKey {
        let address = |octets: &[u8; 16]| match self.is_ipv6() {
            true => IpAddr::V6(Ipv6Addr::from(*octets)),
            false => {
                let [a, b, c, d, ..] = *octets;
                IpAddr::V4(Ipv4Addr::new(a, b, c, d))
            }
        };
        FlowKey {
            src: (address(&self.ends.ours), self.ends.our_port),
            dst: (address(&self.ends.peers), self.ends.peer_port),
        }
    }

    /// Whether packets from the peer are those of `flow`.
    #[inline]
    pub(super) fn comes_by(&self, flow: &FlowKey) -> bool {
        let ports = self.ends.peer_port == flow.src.1 && self.ends.our_port == flow.dst.1;
        ports
            && match (flow.src.0, flow.dst.0) {
                (IpAddr::V4(src), IpAddr::V4(dst)) => {
                    !self.is_ipv6()
                        && self.ends.peers.first_chunk() == Some(&src.octets())
                        && self.ends.ours.first_chunk() == Some(&dst.octets())
                }
                (IpAddr::V6(src), IpAddr::V6(dst)) => {
                    self.is_ipv6()
                        && self.ends.peers == src.octets()
                        && self.ends.ours == dst.octets()
                }
                _ => false,
            }
    }

    /// Our address and the peer's, one behind the other as in a packet to it.
    pub(super) fn put_addresses(&self, bytes: &mut [u8]) {
        let len = bytes.len() / 2;
        bytes[..len].copy_from_slice(&self.ends.ours[..len]);
        bytes[len..].copy_from_slice(&self.ends.peers[..len]);
    }

    pub(super) fn is_ipv6(&self) -> bool {
        self.has(V6)
    }

    pub(super) fn timestamps(&self) -> bool {
        self.has(TIMESTAMPS)
    }

    /// Both connections take selective acknowledgements.
    pub(super) fn sack(&self) -> bool {
        self.has(SACK)
    }

    /// One of the connections alone has ECN: no packet goes on that says it may be marked, and what is said of marks ends here.
    #[inline]
    pub(super) fn ecn_ends(&self) -> bool {
        self.has(ECN_ENDS)
    }

    /// The peer hears from us of marked packets, or no packet of it that is marked may go on.
    #[inline]
    pub(super) fn heeds_marks(&self) -> bool {
        self.has(ECN_ENDS | ECN_ANSWERED)
    }

    /// A segment of the peer's, whose [marks are heeded](Self::heeds_marks), has come. Answers whether it may go on: a mark that the peer
    /// could not be told of becomes a loss, which it heeds (as RFC 6040 §4.2 has it).
    #[inline(never)]
    pub(super) fn take_marks(&mut self, segment: &Header) -> bool {
        let is_marked = segment.ecn == Ecn::Ce;
        if !self.has(ECN_ANSWERED) {
            return !is_marked;
        }
        // RFC 3168 §6.1.3.
        if segment.flags.contains(Flags::CWR) {
            self.flags &= !ECHO;
            if !self.ecn_ends() {
                // From here on the other peer tells.
                self.flags &= !ECN_ANSWERED;
            }
        }
        if is_marked && self.ecn_ends() {
            self.flags |= ECHO;
        }
        true
    }

    /// `ack`, with or without ECE, is about to be forwarded to the peer. Where both have ECN, that is the other peer's word; an older one says nothing
    /// of now.
    #[inline]
    pub(super) fn note_echo(&mut self, ack: SeqNum, flags: Flags) {
        if !self.heeds_marks() && ack.at_or_after(self.stream.una) {
            self.flags &= !ECHO;
            self.flags |= if flags.contains(Flags::ECE) { ECHO } else { 0 };
        }
    }

    /// A segment from the peer is forwarded. Where both have ECN, one with CWR has the other peer say no more of earlier marks (RFC 3168 §6.1.3).
    #[inline]
    pub(super) fn note_reduced(&mut self, flags: Flags) {
        if flags.contains(Flags::CWR) && !self.heeds_marks() {
            self.flags &= !ECHO;
        }
    }

    /// The peer is to be told of marked packets still.
    pub(super) fn owes_echo(&self) -> bool {
        self.has(ECHO)
    }

    /// What every acknowledgement to the peer has beside.
    pub(super) fn echo_flag(&self) -> Flags {
        match self.has(ECHO) {
            true => Flags::ECE,
            false => Flags::NONE,
        }
    }

    /// Our latest TSval to the peer.
    pub(super) fn our_value(&self, other: &Half) -> u32 {
        other.recent.wrapping_add(other.deltas.ts)
    }

    /// The peer's FIN was forwarded.
    pub(super) fn has_fin(&self) -> bool {
        self.has(FIN)
    }

    /// The peer's FIN is acknowledged.
    pub(super) fn is_finished(&self) -> bool {
        self.has(FIN) && self.stream.una == self.stream.nxt
    }

    /// A segment from the peer up to `end`, with its FIN there or without, is forwarded.
    pub(super) fn note_sent(&mut self, end: SeqNum, fin: bool) {
        if end.after(self.stream.nxt) {
            let before = self.stream.start.distance_to(self.stream.nxt);
            let after = self.stream.start.distance_to(end);
            self.counts.laps = self.counts.laps.wrapping_add(u16::from(after < before));
            self.stream.nxt = end;
            // The FIN that was forwarded before was not the stream's end.
            self.flags &= !(FIN | PROBING);
        }
        if fin && end == self.stream.nxt {
            self.flags |= FIN;
        }
    }

    /// A segment without data from the peer is forwarded. Stacks that have something for a closed window send one byte of before, or none, at
    /// times (RFC 9293 §3.8.6.1): the other peer's answer tells of its window.
    pub(super) fn note_empty(&mut self, seq: SeqNum) {
        if seq.before(self.stream.nxt) {
            self.flags |= PROBING;
        }
    }

    /// The peer may be probing the other one's window.
    pub(super) fn is_probing(&self) -> bool {
        self.has(PROBING)
    }

    /// `ack` is forwarded to the peer, with the window field `window`.
    pub(super) fn note_acknowledged(&mut self, ack: SeqNum, window: u16) {
        let bytes = u32::from(window) << self.windows.our_shift;
        self.stream.edge = self.stream.edge.max(ack + bytes);
        self.reach = self.reach.max(reach_of(bytes));
        if ack.at_or_after(self.stream.una) {
            self.stream.una = ack;
            self.windows.sent = window;
        }
    }

    pub(super) fn count_packets(&mut self, packets: u32) {
        let bytes = (self.packets() + u64::from(packets)).to_le_bytes();
        let word = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        self.counts.packets = [word(0), word(2), word(4)];
    }

    /// Packets forwarded from the peer.
    pub(super) fn packets(&self) -> u64 {
        let [low, middle, high] = self.counts.packets.map(u64::from);
        low | middle << 16 | high << 32
    }

    /// Bytes of the peer's stream that were forwarded.
    pub(super) fn bytes(&self) -> u64 {
        let sequence = u64::from(self.counts.laps) << 32
            | u64::from(self.stream.start.distance_to(self.stream.nxt));
        sequence.saturating_sub(u64::from(self.has(FIN)))
    }

    /// What the peer sends again from before the splice is not the other leg's.
    pub(super) fn is_before_splice(&self, end: SeqNum) -> bool {
        // How far back it lies, not whether it is before `start`: from 2 GiB on, what is new would be that too.
        let forwarded = self.stream.start.distance_to(self.stream.nxt);
        let back = self.stream.nxt.diff(end);
        self.counts.laps == 0 && i64::from(back) >= i64::from(forwarded)
    }

    /// The furthest back that a segment from the peer, or an acknowledgement of its stream, may lie (RFC 5961 §5.2).
    pub(super) fn oldest(&self) -> SeqNum {
        self.stream.una - (1 << self.reach)
    }

    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// The largest window (RFC 7323 §2.3).
const LARGEST_WINDOW: u32 = 1 << 30;

fn reach_of(window: u32) -> u8 {
    (u32::BITS - window.leading_zeros()) as u8
}

/// IPv4 in the first four.
pub(super) fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        }
        IpAddr::V6(address) => address.octets(),
    }
}
