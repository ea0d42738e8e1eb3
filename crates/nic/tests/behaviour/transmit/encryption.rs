use proptest::prelude::*;
use testkit::bare::CONTEXT;
use testkit::fixtures::SUITES;
use wire::SeqNum;

use super::driver::{Action, Driver};
use super::stream::*;
use super::*;
use nic::WireCapabilities;
use nic::ring::{SendFlags, Verify};

fn action() -> impl Strategy<Value = Action> {
    let mss = prop_oneof![100u16..1440, Just(1448)];
    prop_oneof![
        3 => (1u32..20_000, mss.clone()).prop_map(|(bytes, mss)| Action::New { bytes, mss }),
        2 => (0.0..1.0, 0.0..1.0, mss, any::<bool>())
            .prop_map(|(at, share, mss, seek)| Action::Again { at, share, mss, seek }),
    ]
}

fn run(
    suite: usize,
    mutable: bool,
    wire: WireCapabilities,
    sizes: &[usize],
    start: u32,
    cut: u32,
    actions: &[Action],
) {
    let mut driver = Driver::of_records(on_wire(wire), SUITES[suite], SeqNum(start), sizes);
    (driver.mutable, driver.cut) = (mutable, cut);
    driver.run(actions);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Whatever the records, the segments and what is sent again: the wire carries what software would have sent.
    #[test]
    fn every_segment_is_what_software_would_send(
        suite in 0..SUITES.len(),
        mutable in any::<bool>(),
        tso in any::<bool>(),
        sizes in prop::collection::vec(prop_oneof![0usize..40, 1usize..3000, Just(16_384)], 1..8),
        start in prop_oneof![any::<u32>(), Just(u32::MAX - 5000)],
        cut in prop_oneof![1u32..200, 1000u32..9000],
        actions in prop::collection::vec(action(), 1..20),
    ) {
        let wire = WireCapabilities { tso, checksum: tso };
        run(suite, mutable, wire, &sizes, start, cut, &actions);
    }
}

#[test]
fn recovery_at_every_byte_of_a_record() {
    for (suite, _) in SUITES.iter().enumerate() {
        for mutable in [false, true] {
            let sizes = [30, 40, 30];
            let total = 30 + 40 + 30 + 3 * 40;
            let mut actions = vec![Action::New {
                bytes: 120,
                mss: 1448,
            }];
            actions.extend((0..total).map(|n| Action::Again {
                at: f64::from(n) / f64::from(total),
                share: 0.7,
                mss: 13,
                seek: n % 2 == 0,
            }));
            actions.push(Action::New {
                bytes: 10_000,
                mss: 7,
            });
            run(
                suite,
                mutable,
                WireCapabilities::default(),
                &sizes,
                77,
                11,
                &actions,
            );
        }
    }
}

#[test]
fn recovery_is_counted_by_the_names_of_mlx5() {
    let mut rig = plain();
    let stream = Stream::new(&rig, SUITES[3], SeqNum(0), &[1000, 1000]);
    rig.create(SeqNum(0), &Layers::of(&stream.crypto));
    let all = stream.slices(&rig, stream.start, stream.end(), 5000);
    rig.send(SeqNum(0), 500, Some(CONTEXT), SendFlags::NONE, &all);
    let resume = stream.records[1].start + 500;
    let prefix = stream.slices(&rig, stream.records[1].start, resume, 5000);
    rig.recover(&stream.records[1], resume, &prefix, Verify::None);
    let again = stream.slices(&rig, resume, stream.end(), 5000);
    rig.send(resume, 500, Some(CONTEXT), SendFlags::NONE, &again);
    assert_eq!(rig.segments().len(), 5 + 2);
    let counters = rig.nic.counters();
    assert_eq!(counters.named("tx_tls_ctx"), 1);
    assert_eq!(counters.named("tx_tls_ooo"), 1);
    assert_eq!(counters.named("tx_tls_resync_bytes"), 500);
    assert_eq!(counters.pcie_recovery, 500);
    assert_eq!(counters.named("tx_tls_encrypted_packets"), 7);
    assert_eq!(
        counters.named("tx_tls_encrypted_bytes"),
        u64::from(stream.len()) + 522
    );
}

/// What most retransmissions are: nothing but their own bytes is read, and what was next is next still.
#[test]
fn the_middle_of_a_record_is_sent_again_without_its_beginning() {
    let mut rig = plain();
    let stream = Stream::new(&rig, SUITES[3], SeqNum(0), &[16_000, 16_000]);
    rig.create(SeqNum(0), &Layers::of(&stream.crypto));
    let (first, second) = (stream.records[0], stream.records[1]);
    let next = second.start + 3000;
    let sent = stream.slices(&rig, stream.start, next, 50_000);
    rig.send(SeqNum(0), 1000, Some(CONTEXT), SendFlags::NONE, &sent);
    let again = first.start + 12_000;
    rig.recover(&first, again, &[], Verify::Seek);
    let middle = stream.slices(&rig, again, again + 2000, 50_000);
    rig.send(again, 1000, Some(CONTEXT), SendFlags::NONE, &middle);
    let rest = stream.slices(&rig, next, stream.end(), 50_000);
    rig.send(next, 1000, Some(CONTEXT), SendFlags::NONE, &rest);
    stream.check_segments(&mut rig);
    let counters = rig.nic.counters();
    assert_eq!((counters.tx_errors, counters.pcie_recovery), (0, 0));
    assert_eq!(
        (counters.named("tx_tls_ooo"), counters.named("tx_tls_aside")),
        (1, 1)
    );
    assert_eq!(
        counters.pcie_payload_tx,
        u64::from(stream.len()) + 2000,
        "nothing else is read"
    );
}
