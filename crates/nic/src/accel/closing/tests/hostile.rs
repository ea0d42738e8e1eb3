//! Whatever comes: no panic, no growth, and in the end nothing is left.

use std::time::Duration;

use proptest::prelude::*;
use wire::SeqNum;
use wire::tcp::{Flags, Header, Options, Timestamps};

use super::rig::{RCV, Rig, UNA, bytes, flow, frame_of, teardown};
use crate::accel::Handled;
use crate::ring::accel::{Teardown, TimestampState};

/// Few, so that they meet often.
const PORTS: u16 = 12;
const CAPACITY: u32 = 8;

#[derive(Clone, Debug)]
enum Step {
    Close(Box<Teardown>, usize),
    Segment(u16, bool, Box<Header>, usize),
    Open(u16, bool),
    Pass(u64),
    /// So many frames leave.
    Send(usize),
}

/// Numbers near a place, and any.
fn near(place: u32) -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => Just(0i64),
        4 => -3i64..4,
        3 => -3000i64..16_000,
        1 => any::<i32>().prop_map(i64::from),
    ]
    .prop_map(move |offset| place.wrapping_add(offset as u32))
}

fn flags() -> impl Strategy<Value = Flags> {
    prop_oneof![
        6 => Just(Flags::ACK),
        4 => Just(Flags::FIN | Flags::ACK),
        1 => Just(Flags::SYN),
        1 => Just(Flags::RST),
        2 => any::<u8>().prop_map(Flags),
    ]
}

fn header() -> impl Strategy<Value = Header> {
    let window = prop_oneof![1 => Just(0u16), 1 => 0u16..3000, 2 => any::<u16>()];
    let timestamps = prop::option::weighted(0.8, (near(1000), near(5000)));
    (near(RCV.0), near(UNA.0), flags(), window, timestamps).prop_map(
        |(seq, ack, flags, window, timestamps)| Header {
            seq: SeqNum(seq),
            ack: SeqNum(ack),
            flags,
            window,
            options: Options {
                timestamps: timestamps.map(|(val, echo)| Timestamps { val, echo }),
                ..Options::default()
            },
            ..Header::default()
        },
    )
}

fn closed() -> impl Strategy<Value = (Box<Teardown>, usize)> {
    let numbers = (
        prop_oneof![Just(0u32), 0u32..5000, any::<u32>()],
        prop_oneof![Just(0u32), Just(200_000), any::<u32>()],
        0usize..3000,
    );
    let kind = (any::<bool>(), any::<bool>(), any::<bool>(), 0u8..20);
    let mss = prop_oneof![
        1u16..100,
        Just(1448),
        any::<u16>().prop_map(|mss| mss.max(1))
    ];
    let times = (0u32..100_000, 0u32..100_000);
    (0..PORTS, 0u8..15, numbers, kind, mss, times).prop_map(
        |(port, shift, (window, rto, len), kind, mss, times)| {
            let (v6, peer_closed, timestamps, retransmits) = kind;
            let len = len.min(Teardown::payload_limit(mss) as usize);
            let closed = Teardown {
                flow: flow(port, v6),
                peer_closed,
                snd_nxt: UNA + (len as u32 / 2),
                peer_window: window,
                peer_shift: shift,
                our_shift: 14 - shift,
                mss,
                rto_us: rto,
                retransmits,
                timestamps: timestamps.then_some(TimestampState {
                    recent: 1000,
                    value: 5000,
                }),
                time_wait_ms: times.0,
                fin_wait2_ms: times.1,
                ..teardown(port)
            };
            (Box::new(closed), len)
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![3 => Just(0usize), 1 => 1usize..2000];
    prop_oneof![
        3 => closed().prop_map(|(closed, len)| Step::Close(closed, len)),
        10 => (0..PORTS, any::<bool>(), header(), len)
            .prop_map(|(port, v6, header, len)| Step::Segment(port, v6, Box::new(header), len)),
        1 => (0..PORTS, any::<bool>()).prop_map(|(port, v6)| Step::Open(port, v6)),
        2 => prop_oneof![0u64..1000, 0u64..200_000].prop_map(Step::Pass),
        4 => (0usize..5).prop_map(Step::Send),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn whatever_comes_changes_nothing_that_must_hold(steps in prop::collection::vec(step(), 1..60)) {
        let mut rig = Rig::limited(CAPACITY, 8192);
        let empty = rig.room();
        for step in steps {
            match step {
                Step::Close(teardown, len) => { let _ = rig.close(&teardown, &bytes(len)); }
                Step::Segment(port, v6, mut header, len) => {
                    let flow = flow(port, v6).reversed();
                    (header.src_port, header.dst_port) = (flow.src.1, flow.dst.1);
                    let handled = rig.deliver(&frame_of(&flow, &header, &bytes(len)));
                    prop_assert!(matches!(handled, Handled::Taken | Handled::Pass(None)));
                }
                Step::Open(port, v6) => { let _ = rig.open(&flow(port, v6)); }
                Step::Pass(millis) => {
                    rig.now += Duration::from_millis(millis);
                    rig.handle_time();
                }
                Step::Send(most) => for _ in 0..most {
                    if rig.poll().is_none() {
                        break;
                    }
                }
            }
            prop_assert!(rig.closing() <= CAPACITY);
            let room = rig.room();
            prop_assert!(room.closing <= CAPACITY && room.packet_memory <= empty.packet_memory);
        }
        // What is to be sent ends, and so does everything else.
        rig.sent();
        while let Some(due) = rig.accel.poll_timeout() {
            prop_assert!(rig.closing() > 0);
            rig.now = rig.now.max(due) + Duration::from_secs(1);
            rig.handle_time();
            rig.sent();
        }
        prop_assert_eq!(rig.closing(), 0);
        prop_assert!(rig.accel.is_idle());
        prop_assert_eq!(rig.room(), empty);
        let counters = rig.counters();
        let gone = counters.accel_closing_ended
            + counters.accel_closing_aborted
            + counters.accel_time_wait_reused
            + counters.accel_time_wait_overflow;
        prop_assert_eq!(counters.accel_closing, gone);
    }
}
