//! What splices take.

use crate::accel::flows::{Flows, Owned};
use crate::accel::splice::Splices;
use crate::accel::splice::pair::Pair;
use crate::accel::splice::table::Table;
use crate::accel::splice::tests::samples::HOPS;
use crate::config::AccelConfig;
use crate::ring::accel::{Leg, Side, Splice, SpliceId};
use crate::rss::FlowHasher;
use wire::{FlowKey, SeqNum};

const PAIRS: u32 = 64 << 10;

/// The goal of AccelTCP's splices: the table of pairs, the index by number, the timers and the index by flow.
#[test]
fn sixty_four_ki_splices_take_at_most_sixteen_mib() {
    assert_eq!(AccelConfig::default().splices, PAIRS);
    let hasher = FlowHasher::new(&[3; 16]);
    let mut flows = Flows::default();
    let mut table = Table::new(PAIRS);
    for n in 0..PAIRS {
        let splice = numbered(n);
        let slot = table
            .insert(&hasher, Pair::new(&splice, 0, 1500, 0))
            .expect("room");
        for (side, leg) in [(Side::A, &splice.a), (Side::B, &splice.b)] {
            let hash = hasher.hash(&leg.flow.reversed());
            flows.insert(hash, Owned::Spliced(slot, side));
        }
    }
    assert!(
        table
            .insert(&hasher, Pair::new(&numbered(PAIRS), 0, 1500, 0))
            .is_none()
    );
    let bytes = Splices::bytes(PAIRS) + flows.memory();
    assert!(bytes <= 16 << 20, "{bytes}");
    for n in 0..PAIRS {
        let slot = table.find(&hasher, 0, SpliceId(n * 7)).expect("is there");
        assert_eq!(table.get(slot).map(|pair| pair.id), Some(SpliceId(n * 7)));
        assert!(table.find(&hasher, 1, SpliceId(n * 7)).is_none());
    }
    for n in 0..PAIRS {
        let slot = table.find(&hasher, 0, SpliceId(n * 7)).expect("is there");
        assert!(table.remove(&hasher, slot).is_some());
        assert!(table.find(&hasher, 0, SpliceId(n * 7)).is_none());
    }
    assert!(table.is_empty());
}

/// IPv6, with everything.
pub(super) fn numbered(n: u32) -> Splice {
    let leg = |side: u16| Leg {
        flow: FlowKey {
            src: ([0xfd00, 0, 0, side, 0, 0, 0, 1].into(), 443),
            dst: (
                [0xfd00, 1, 0, side, 0, 0, (n >> 16) as u16, n as u16].into(),
                40_000,
            ),
        },
        hop: HOPS[usize::from(side)],
        hop_limit: 64,
        snd_nxt: SeqNum(n),
        rcv_nxt: SeqNum(!n),
        peer_window: 65_535,
        our_window: 65_535,
        peer_shift: 7,
        our_shift: 8,
        mss: 1428,
        our_mss: 1428,
        sack: true,
        timestamps: None,
        ecn: false,
        ecn_echo: false,
    };
    Splice {
        splice: SpliceId(n * 7),
        a: leg(0),
        b: leg(1),
        idle_ms: 60_000,
    }
}
