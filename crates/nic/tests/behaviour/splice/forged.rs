//! Segments of someone who does not see the connection (RFC 5961): never forwarded, and never an end.

use std::time::Duration;

use nic::ring::RecvDescriptor;
use proptest::prelude::*;
use wire::SeqNum;
use wire::tcp::{Flags, Options, SackBlocks};

use super::rig::{A, ACK, B, FIN, RST, Rig, SYN};

/// 64 KiB that A has announced, and 128 KiB that was announced to it, as the legs say.
const WINDOW: u32 = 128 << 10;

#[track_caller]
fn challenged(rig: &mut Rig, segment: &[u8]) {
    let left = rig.frame(segment);
    rig.one(A, &left).is(0, 0, ACK, b"");
    let left = rig.one(A, &left);
    let timestamps = left.parsed.tcp.options.timestamps.expect("timestamps");
    assert_eq!((timestamps.val, timestamps.echo), (900, 100));
}

#[test]
fn a_reset_inside_of_the_window_is_challenged_now_and_then() {
    let mut rig = Rig::new();
    let reset = rig.segment(A, 1, 0, RST, b"");
    challenged(&mut rig, &reset);
    for _ in 0..4 {
        assert!(rig.frame(&reset).is_empty());
        rig.pass(Duration::from_millis(100));
    }
    rig.pass(Duration::from_millis(200));
    challenged(&mut rig, &reset);
    assert_eq!(rig.reported(), []);
    assert_eq!(rig.counters().accel_splice_challenges, 2);
}

/// A segment of a VLAN is another connection's; one with a priority alone is the peer's.
#[test]
fn a_segment_of_a_vlan_is_the_hosts() {
    for (vlan, forwarded) in [(5, 0), (0, 1)] {
        for (flags, payload) in [(ACK, &b"data"[..]), (RST, b"")] {
            let mut rig = Rig::new();
            let mut segment = rig.segment(A, 0, 0, flags, payload);
            segment.splice(12..12, [0x81, 0x00, 0, vlan]);
            assert_eq!(rig.frame(&segment).len(), forwarded);
            let reported = rig.reported();
            match vlan {
                0 => assert_eq!(reported.len(), usize::from(flags == RST)),
                _ => assert!(matches!(reported[..], [RecvDescriptor::Packet(_)])),
            }
        }
    }
}

#[test]
fn a_reset_outside_of_the_window_is_nothing() {
    let mut rig = Rig::new();
    for seq in [WINDOW + 1, u32::MAX, 1 << 31, u32::MAX - WINDOW] {
        assert!(rig.bring(A, seq, 0, RST, b"").is_empty());
    }
    assert_eq!(rig.reported(), []);
}

#[test]
fn a_syn_is_challenged() {
    let mut rig = Rig::new();
    let syn = rig.segment(A, 99, 0, SYN, b"");
    challenged(&mut rig, &syn);
    rig.pass(Duration::from_secs(1));
    let syn_ack = rig.segment(A, 0, 0, SYN.union(ACK), b"");
    challenged(&mut rig, &syn_ack);
    assert_eq!(rig.reported(), []);
}

#[test]
fn data_outside_of_the_window_are_challenged() {
    for seq in [WINDOW + 2, 1 << 31, u32::MAX - 4 * WINDOW] {
        let mut rig = Rig::new();
        let data = rig.segment(A, seq, 0, ACK, b"forged");
        challenged(&mut rig, &data);
    }
}

#[test]
fn an_acknowledgement_of_what_was_never_sent_is_challenged() {
    for ack in [1, 1 << 20, 1 << 31, u32::MAX - 4 * WINDOW] {
        let mut rig = Rig::new();
        let data = rig.segment(A, 0, ack, ACK, b"forged");
        challenged(&mut rig, &data);
    }
}

#[test]
fn segments_without_acknowledgement_or_timestamps_are_nothing() {
    let mut rig = Rig::new();
    assert!(rig.bring(A, 0, 0, Flags::PSH, b"forged").is_empty());
    let data = rig.segment_with(A, (0, 0), ACK, 1000, Options::default(), b"forged");
    assert!(rig.frame(&data).is_empty());
    assert_eq!(rig.counters().accel_splice_dropped, 2);
}

#[test]
fn a_damaged_segment_is_nothing() {
    let mut rig = Rig::new();
    let mut data = rig.segment(A, 0, 0, FIN, b"damaged");
    let last = data.len() - 1;
    data[last] ^= 4;
    assert!(rig.frame(&data).is_empty());
    assert_eq!(rig.counters().rx_csum_bad, 1);
}

proptest! {
    /// Whatever comes, the splice forwards no more than the window has room for, and only a RST at one of two numbers, or
    /// FINs of both sides, end it.
    #[test]
    fn nothing_that_comes_does_harm(
        segments in proptest::collection::vec(
            (0usize..2, prop_oneof![0u32..20, any::<u32>()], prop_oneof![0u32..20, any::<u32>()], any::<u8>(),
             proptest::collection::vec(any::<u8>(), 0..20), any::<[u16; 2]>(), any::<bool>()),
            1..60,
        ),
    ) {
        let mut rig = Rig::new();
        let mut sent = [0u32; 2];
        // An old acknowledgement within the largest window is forwarded (RFC 5961 §5.2): less than nothing.
        let mut acked = [0i32; 2];
        for (from, seq, ack, flags, payload, [window, odd], broken) in segments {
            let flags = Flags(flags);
            // The numbers at which a RST is believed.
            let believed = seq == sent[from] || seq as i32 == acked[from];
            let flags = if flags.contains(RST) && believed { flags.without(RST) } else { flags };
            let flags = flags.without(Flags::FIN);
            let mut segment = rig.segment(from, seq, ack, flags, &payload);
            if broken {
                let options = Options {
                    sack: SackBlocks::from_iter([(SeqNum(seq), SeqNum(ack)); 2]),
                    ..Options::default()
                };
                segment = rig.segment_with(from, (seq, ack), flags, window, options, &payload);
                let at = usize::from(odd) % segment.len();
                segment[at] ^= 1 << (window % 8);
            }
            for frame in rig.frame(&segment) {
                let to = [A, B].into_iter().find(|side| {
                    wire::packet::parse(&frame).is_ok_and(|parsed| parsed.flow == rig.leg(*side).flow)
                });
                let to = to.expect("it is for one of the peers");
                let left = rig.read(to, &frame);
                if to != from {
                    let end = left.seq.wrapping_add(left.payload.len() as u32);
                    if (end.wrapping_sub(sent[from]) as i32) > 0 {
                        sent[from] = end;
                    }
                    prop_assert!(sent[from] < 1 << 28);
                    let ack = left.ack as i32;
                    prop_assert!(ack <= sent[to] as i32, "{} of {}", ack, sent[to]);
                    acked[to] = acked[to].max(ack);
                }
            }
        }
        prop_assert_eq!(rig.reported().iter().filter(|reported| !matches!(reported, nic::ring::RecvDescriptor::Packet(_))).count(), 0);
        // It goes on.
        let data = rig.segment(A, acked[A] as u32, acked[B] as u32, ACK, b"on");
        let left = rig.frame(&data);
        prop_assert_eq!(rig.one(B, &left).payload, b"on");
    }
}
