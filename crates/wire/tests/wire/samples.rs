//! Strategies for values that several tests need.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use wire::Ecn;
use wire::FlowKey;
use wire::SeqNum;
use wire::ethernet::MacAddr;
use wire::tcp::{Flags, Header, Options, SackBlocks, Timestamps};

pub fn mac() -> impl Strategy<Value = MacAddr> {
    any::<[u8; 6]>().prop_map(MacAddr)
}

pub fn ipv4() -> impl Strategy<Value = Ipv4Addr> {
    any::<[u8; 4]>().prop_map(Ipv4Addr::from)
}

pub fn ipv6() -> impl Strategy<Value = Ipv6Addr> {
    any::<[u8; 16]>().prop_map(Ipv6Addr::from)
}

pub fn flow() -> impl Strategy<Value = FlowKey> {
    let v4 = (ipv4(), ipv4()).prop_map(|(src, dst)| (IpAddr::V4(src), IpAddr::V4(dst)));
    let v6 = (ipv6(), ipv6()).prop_map(|(src, dst)| (IpAddr::V6(src), IpAddr::V6(dst)));
    (prop_oneof![v4, v6], any::<u16>(), any::<u16>()).prop_map(
        |((src, dst), src_port, dst_port)| FlowKey {
            src: (src, src_port),
            dst: (dst, dst_port),
        },
    )
}

prop_compose! {
    pub fn options()(
        mss in any::<Option<u16>>(),
        window_scale in proptest::option::of(0u8..=14),
        sack_permitted in any::<bool>(),
        timestamps in any::<Option<(u32, u32)>>(),
        blocks in proptest::collection::vec(any::<(u32, u32)>(), 0..=4),
    ) -> Options {
        let mut options = Options {
            mss,
            window_scale,
            sack_permitted,
            timestamps: timestamps.map(|(val, echo)| Timestamps { val, echo }),
            sack: SackBlocks::EMPTY,
        };
        // Only as many blocks as there is room for, so that a round trip is exact.
        let room = (40 - options.len()).saturating_sub(4) / 8;
        options.sack =
            blocks.into_iter().take(room).map(|(left, right)| (SeqNum(left), SeqNum(right))).collect();
        options
    }
}

prop_compose! {
    pub fn tcp_header(flow: FlowKey)(
        seq in any::<u32>(),
        ack in any::<u32>(),
        flags in any::<u8>(),
        window in any::<u16>(),
        options in options(),
    ) -> Header {
        Header {
            src_port: flow.src.1,
            dst_port: flow.dst.1,
            seq: SeqNum(seq),
            ack: SeqNum(ack),
            flags: Flags(flags),
            window,
            options,
            ecn: Ecn::NotEct,
        }
    }
}
