//! Splices and segments at random.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use wire::ethernet::{self, MacAddr};
use wire::packet::{self, Parsed};
use wire::tcp::{Flags, Header, Options, SackBlocks, Timestamps};
use wire::{FlowKey, SeqNum, ipv4, tcp};

use crate::ring::accel::{Leg, Splice, SpliceId, TimestampState};

pub(super) const OWN: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
pub(super) const HOPS: [MacAddr; 2] =
    [MacAddr([2, 0, 0, 0, 0, 0xa]), MacAddr([2, 0, 0, 0, 0, 0xb])];

fn address(v6: bool) -> impl Strategy<Value = IpAddr> {
    any::<[u8; 16]>().prop_map(move |octets| match v6 {
        true => IpAddr::V6(Ipv6Addr::from(octets)),
        false => IpAddr::V4(Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3])),
    })
}

prop_compose! {
    fn leg(v6: bool, timestamps: bool)(
        ours in address(v6),
        peers in address(v6),
        ports in any::<[u16; 2]>(),
        numbers in any::<[u32; 2]>(),
        windows in [0u32..1 << 24, 0u32..1 << 24],
        shifts in [0u8..15, 0u8..15],
        [sack, ecn, owes_echo] in any::<[bool; 3]>(),
        state in any::<[u32; 2]>(),
    ) -> Leg {
        Leg {
            flow: FlowKey { src: (ours, ports[0]), dst: (peers, ports[1]) },
            hop: HOPS[0],
            hop_limit: 64,
            snd_nxt: SeqNum(numbers[0]),
            rcv_nxt: SeqNum(numbers[1]),
            peer_window: windows[0],
            our_window: windows[1],
            peer_shift: shifts[0],
            our_shift: shifts[1],
            mss: 1448,
            our_mss: 1448,
            sack,
            timestamps: timestamps.then_some(TimestampState { recent: state[0], value: state[1] }),
            ecn,
            ecn_echo: ecn && owes_echo,
        }
    }
}

pub(super) fn splice() -> impl Strategy<Value = Splice> {
    (any::<bool>(), any::<bool>())
        .prop_flat_map(|(v6, timestamps)| (leg(v6, timestamps), leg(v6, timestamps)))
        .prop_map(|(a, mut b)| {
            b.hop = HOPS[1];
            Splice {
                splice: SpliceId(7),
                a,
                b,
                idle_ms: 0,
            }
        })
}

/// Options as they come from anywhere: those of TCP, well-formed, in any order, padded in any way, and strangers.
pub(super) fn options() -> impl Strategy<Value = Vec<u8>> {
    let known =
        prop_oneof![
            Just(vec![1]),
            any::<[u8; 8]>().prop_map(|value| [&[8, 10], &value[..]].concat()),
            proptest::collection::vec(any::<[u8; 8]>(), 0..4).prop_map(|blocks| [
                &[5, 2 + 8 * blocks.len() as u8],
                &*blocks.concat()
            ]
            .concat()),
            (any::<u8>(), proptest::collection::vec(any::<u8>(), 0..6)).prop_map(
                |(kind, value)| [&[kind.max(2), 2 + value.len() as u8], &*value].concat()
            ),
        ];
    let end = proptest::option::of(Just(0u8));
    (proptest::collection::vec(known, 0..5), end).prop_map(|(options, end)| {
        let mut bytes = options.concat();
        bytes.truncate(40);
        if packet_options_are_broken(&bytes) {
            bytes.clear();
        }
        bytes.extend(end);
        let len = bytes.len().min(40).next_multiple_of(4);
        bytes.resize(len, if end.is_some() { 0xee } else { 1 });
        bytes
    })
}

fn packet_options_are_broken(bytes: &[u8]) -> bool {
    Options::parse(bytes).is_err()
}

/// A segment from the peer of a leg.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) flags: u8,
    pub(super) window: u16,
    pub(super) urgent: u16,
    pub(super) options: Vec<u8>,
    pub(super) payload: Vec<u8>,
    pub(super) hop_limit: u8,
}

prop_compose! {
    pub(super) fn sample()(
        numbers in any::<[u32; 2]>(),
        flags in any::<u8>(),
        window in any::<u16>(),
        urgent in prop_oneof![Just(0), any::<u16>()],
        options in prop_oneof![
            options(),
            any::<[u8; 8]>().prop_map(|value| [&[1, 1, 8, 10], &value[..]].concat()),
        ],
        payload in proptest::collection::vec(prop_oneof![Just(0u8), Just(0xff), any::<u8>()], 0..80),
        hop_limit in 2u8..,
    ) -> Sample {
        Sample {
            seq: numbers[0], ack: numbers[1], flags, window, urgent, options, payload, hop_limit,
        }
    }
}

impl Sample {
    /// The frame of this segment from the peer of `leg`, with right checksums.
    pub(super) fn frame(&self, leg: &Leg) -> Vec<u8> {
        let flow = leg.flow.reversed();
        let header = Header {
            src_port: flow.src.1,
            dst_port: flow.dst.1,
            seq: SeqNum(self.seq),
            ack: SeqNum(self.ack),
            flags: Flags(self.flags),
            window: self.window,
            options: Options::default(),
            ecn: wire::Ecn::NotEct,
        };
        let after = (self.options.len() + self.payload.len()) as u32;
        let mut frame = vec![0; packet::MAX_TCP_HEADERS_LEN];
        let len = packet::emit_tcp_headers(
            &mut frame,
            leg.hop,
            OWN,
            &flow,
            &header,
            after,
            self.hop_limit,
        );
        frame.truncate(len);
        frame.extend(&self.options);
        frame.extend(&self.payload);
        let l4 = len - tcp::HEADER_LEN;
        frame[l4 + 12] = ((tcp::HEADER_LEN + self.options.len()) as u8 / 4) << 4;
        frame[l4 + 18..l4 + 20].copy_from_slice(&self.urgent.to_be_bytes());
        fill(&mut frame, &flow, l4);
        frame
    }
}

/// Makes both checksums.
pub(super) fn fill(frame: &mut [u8], flow: &FlowKey, l4: usize) {
    if flow.src.0.is_ipv4() {
        ipv4::fill_checksum(&mut frame[ethernet::HEADER_LEN..l4]);
    }
    tcp::fill_checksum(flow.src.0, flow.dst.0, &mut frame[l4..]);
}

pub(super) fn parsed(frame: &[u8]) -> Parsed {
    packet::parse(frame).expect("a segment")
}

/// What a segment's options should be on the other leg.
pub(super) fn expected_options(
    options: &Options,
    timestamps: Option<(u32, u32)>,
    sack: Option<u32>,
) -> Options {
    let move_block = |(left, right): (SeqNum, SeqNum), add| (left + add, right + add);
    Options {
        timestamps: options
            .timestamps
            .zip(timestamps)
            .map(|(old, add)| Timestamps {
                val: old.val.wrapping_add(add.0),
                echo: old.echo.wrapping_add(add.1),
            }),
        sack: match sack {
            Some(add) => options
                .sack
                .iter()
                .map(|block| move_block(block, add))
                .collect(),
            None => SackBlocks::EMPTY,
        },
        ..Options::default()
    }
}
