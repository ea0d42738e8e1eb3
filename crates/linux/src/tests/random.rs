//! Random frames that Linux, or another writer to the TAP, sends, and that come from the wire.

use nic::FrameMeta;
use proptest::prelude::*;
use wire::tcp::Flags;

use super::rig::{
    NEIGHBOUR, OURS, PAIRS, PEER, PLAIN, Rig, SUPER, cases, checked, flow, pattern, segment, usual,
};
use crate::Config;

fn any_meta() -> impl Strategy<Value = FrameMeta> {
    let place = proptest::option::of((0u16..200, 0u16..40));
    (
        prop_oneof![Just(0), Just(1), 1u16..3000],
        place,
        any::<bool>(),
    )
        .prop_map(|(gso_size, needs_checksum, checksum_valid)| FrameMeta {
            gso_size,
            needs_checksum,
            checksum_valid,
        })
}

proptest! {
    #![proptest_config(cases(64))]

    /// The stream of one function reaches another one whole, whatever its pieces and batches are.
    #[test]
    fn a_stream_arrives_as_it_was_sent(
        pieces in proptest::collection::vec((1usize..65_000, any::<bool>()), 1..40),
        mss in 500u16..1400,
        pair in 0usize..2,
        cuts in any::<bool>(),
    ) {
        let wire = if cuts { SUPER } else { PLAIN };
        let mut rig = Rig::with_functions(wire, &[OURS, NEIGHBOUR], Config::default());
        let total = pieces.iter().map(|(len, _)| len).sum();
        let stream = pattern(total);
        let (mut at, mut got) = (0, Vec::new());
        for (len, publishes) in pieces {
            let (from, to) = (at, at + len);
            let flow = flow(PAIRS[pair]);
            let ends = (OURS, NEIGHBOUR);
            let (frame, meta) = segment(ends, &flow, from as u32, Flags::ACK, &stream[from..to], mss);
            if rig.functions[0].room().is_none() || publishes {
                prop_assert_eq!(rig.poll_wire().len(), 0);
                got.extend(rig.drain(1));
            }
            rig.linux_sends(&frame, meta);
            at = to;
        }
        rig.poll_wire();
        got.extend(rig.drain(1));
        let mut arrived = Vec::new();
        for frame in &got {
            let (parsed, bytes) = checked(frame);
            prop_assert_eq!(parsed.tcp.seq.0 as usize, arrived.len());
            arrived.extend(bytes);
        }
        prop_assert_eq!(arrived, stream);
    }

    /// Nothing that is written to the TAP or comes from the wire makes anybody panic, or uses memory up.
    #[test]
    fn any_bytes_are_survived(
        frames in proptest::collection::vec(
            (proptest::collection::vec(any::<u8>(), 0..300), any_meta(), any::<bool>(), 0usize..3),
            1..40,
        ),
    ) {
        let mut rig = Rig::new(SUPER);
        for (mut bytes, meta, from_linux, kind) in frames {
            let ends = if from_linux { (OURS, PEER) } else { (PEER, OURS) };
            if kind > 0 {
                // A right beginning, so that what is wrong is found late.
                let (whole, _) = segment(ends, &flow(PAIRS[kind - 1]), 1, Flags::ACK, &bytes, 1400);
                bytes = whole;
            }
            if from_linux {
                rig.linux_sends(&bytes, meta);
                rig.poll_wire();
            } else {
                rig.receive(&[(bytes, meta)]);
            }
        }
        let (frame, meta) = usual((OURS, PEER), 1, b"alive");
        rig.linux_sends(&frame, meta);
        prop_assert_eq!(rig.poll_wire().len(), 1);
    }
}
