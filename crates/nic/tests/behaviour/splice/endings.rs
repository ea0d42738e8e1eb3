//! How splices end by themselves.

use std::time::Duration;

use nic::FrameMeta;
use nic::ring::accel::{SpliceEnd, SpliceEnded};
use nic::ring::{RecvDescriptor, SendDescriptor};
use testkit::bare::nic_config;
use wire::tcp::{Options, Timestamps};

use super::rig::{A, ACK, B, FIN, RST, Rig, SPLICE, SYN, side, splice};

const LINGER: Duration = Duration::from_secs(2);

pub fn ended(reported: &[RecvDescriptor]) -> SpliceEnded {
    match reported.first() {
        Some(RecvDescriptor::SpliceEnded(ended)) => *ended,
        other => panic!("{other:?}"),
    }
}

/// A sends two bytes, B three; both close and have their FINs acknowledged.
pub fn finish(rig: &mut Rig) {
    for (from, seq, ack, flags, payload) in [
        (A, 0, 0, ACK, &b"to"[..]),
        (B, 0, 2, ACK, b"fro"),
        (A, 2, 3, FIN, b""),
        (B, 3, 3, FIN, b""),
        (A, 3, 4, ACK, b""),
    ] {
        rig.forwarded(from, seq, ack, flags, payload)
            .is(seq, ack, flags, payload);
    }
}

#[test]
fn both_fins_end_it_after_a_rest() {
    let mut rig = Rig::new();
    finish(&mut rig);
    assert_eq!(rig.reported(), []);
    // The last ACK was lost: the FIN comes again, and so does its answer.
    let again = rig.segment(B, 3, 3, FIN, b"");
    let left = rig.frame(&again);
    rig.one(A, &left).is(3, 3, FIN, b"");
    rig.pass(LINGER / 2);
    assert_eq!(rig.reported(), []);
    rig.pass(LINGER);
    let reported = rig.reported();
    assert_eq!(reported.len(), 1);
    assert_eq!(
        ended(&reported),
        SpliceEnded {
            splice: SPLICE,
            reason: SpliceEnd::Finished,
            bytes: [2, 3],
            packets: [3, 3],
        }
    );
    // The flow is the host's again.
    let segment = rig.segment(A, 3, 4, ACK, b"");
    assert_eq!(rig.frame(&segment), Vec::<Vec<u8>>::new());
    assert!(matches!(rig.reported()[..], [RecvDescriptor::Packet(_)]));
    assert_eq!(rig.counters().accel_splices_finished, 1);
}

#[test]
fn half_a_close_ends_nothing() {
    let mut rig = Rig::new();
    rig.bring(A, 0, 0, FIN, b"last");
    rig.bring(B, 0, 5, ACK, b"");
    for n in 0..100 {
        rig.forwarded(B, n, 5, ACK, b"x").is(n, 5, ACK, b"x");
        rig.bring(A, 5, n + 1, ACK, b"");
        rig.pass(Duration::from_secs(60));
    }
    assert_eq!(rig.reported(), []);
    // What lies beyond an acknowledged FIN is not of the stream.
    rig.answered(A, 5, 100, ACK, b"more").is(100, 5, ACK, b"");
}

#[test]
fn a_fin_that_is_not_acknowledged_ends_nothing() {
    let mut rig = Rig::new();
    for from in [A, B] {
        rig.bring(from, 0, 0, FIN, b"");
    }
    rig.bring(A, 1, 1, ACK, b"");
    rig.pass(10 * LINGER);
    assert_eq!(rig.reported(), []);
}

/// The ACK of the last FIN is lost until its sender's TIME-WAIT is over.
#[test]
fn a_reset_that_answers_the_last_fin_finishes_it() {
    let mut rig = Rig::new();
    rig.bring(A, 0, 0, FIN, b"to");
    rig.bring(B, 0, 3, FIN, b"fro");
    rig.pass(Duration::from_secs(60));
    rig.bring(B, 0, 3, FIN, b"fro");
    rig.bring(A, 3, 0, RST, b"");
    let ended = ended(&rig.reported());
    assert_eq!((ended.reason, ended.bytes), (SpliceEnd::Finished, [2, 3]));
}

#[test]
fn a_reset_before_the_other_fin_is_one() {
    let mut rig = Rig::new();
    rig.bring(A, 0, 0, FIN, b"to");
    rig.bring(B, 0, 3, ACK, b"fro");
    rig.bring(A, 3, 0, RST, b"");
    assert_eq!(
        ended(&rig.reported()).reason,
        SpliceEnd::Reset { by: side(A) }
    );
}

#[test]
fn a_reset_ends_it_for_both() {
    // At what is acknowledged, and at what was sent.
    for (seq, at) in [(0, 0), (7, 7)] {
        for from in [A, B] {
            let mut rig = Rig::new();
            rig.bring(from, 0, 0, ACK, b"1234567");
            let reset = rig.segment(from, seq, 0, RST, b"");
            let left = rig.frame(&reset);
            let left = rig.one(1 - from, &left);
            assert_eq!((left.seq, left.flags), (at, RST));
            let reported = rig.reported();
            assert_eq!(reported.len(), 1);
            assert_eq!(ended(&reported).reason, SpliceEnd::Reset { by: side(from) });
        }
    }
}

#[test]
fn silence_ends_it_with_its_state() {
    let mut idle = splice();
    idle.idle_ms = 5_000;
    let mut rig = Rig::with(idle);
    for n in 0..4 {
        rig.pass(Duration::from_millis(4_000));
        rig.bring([A, B][n % 2], 0, 0, ACK, b"");
        assert_eq!(rig.reported(), []);
    }
    rig.pass(Duration::from_millis(4_900));
    assert_eq!(rig.reported(), []);
    rig.pass(Duration::from_millis(400));
    let reported = rig.reported();
    assert_eq!(ended(&reported).reason, SpliceEnd::Idle);
    assert!(matches!(
        reported[1..],
        [
            RecvDescriptor::SpliceState(_),
            RecvDescriptor::SpliceState(_)
        ]
    ));
    assert_eq!(rig.bare.nic.poll_timeout(), None);
}

#[test]
fn a_new_connection_between_the_same_ends_goes_to_the_host() {
    let mut rig = Rig::new();
    finish(&mut rig);
    rig.answered(A, 0, 0, SYN, b"").is(4, 3, ACK, b"");
    let newer = Options {
        timestamps: Some(Timestamps { val: 101, echo: 0 }),
        ..Options::default()
    };
    let syn = rig.segment_with(A, (77, 0), SYN, 1000, newer, b"");
    assert!(rig.frame(&syn).is_empty());
    let reported = rig.reported();
    assert_eq!(ended(&reported).reason, SpliceEnd::Finished);
    assert!(matches!(reported[1..], [RecvDescriptor::Packet(_)]));
}

#[test]
fn a_full_table_lets_the_oldest_finished_one_go() {
    let mut config = nic_config();
    config.accel.splices = 2;
    let mut rig = Rig::empty(config, splice());
    let mut numbers = [splice(); 4];
    for (n, splice) in numbers.iter_mut().enumerate() {
        splice.splice.0 = n as u32;
        splice.a.flow.dst.1 += n as u16;
        splice.b.flow.src.1 += n as u16;
    }
    for splice in &numbers[..2] {
        rig.post(&SendDescriptor::Splice(splice));
        rig.splice = *splice;
        finish(&mut rig);
        rig.pass(LINGER / 4);
    }
    assert_eq!(rig.reported(), []);
    rig.post(&SendDescriptor::Splice(&numbers[2]));
    let reported = rig.reported();
    assert_eq!(ended(&reported).splice, numbers[0].splice);
    assert_eq!(ended(&reported).reason, SpliceEnd::Finished);
    rig.post(&SendDescriptor::Splice(&numbers[3]));
    assert_eq!(ended(&rig.reported()).splice, numbers[1].splice);
    assert_eq!(rig.counters().accel_splices, 4);
}

#[test]
fn an_end_waits_for_room_in_the_hosts_ring() {
    let mut rig = Rig::new();
    // The host does not look: packets that are its own fill its ring.
    let foreign = {
        let mut other = splice();
        other.a.flow.dst.1 = 1;
        Rig::empty(nic_config(), other).segment(A, 0, 0, ACK, b"x")
    };
    for _ in 0..100 {
        rig.bare
            .nic
            .handle_frame(rig.bare.now, &foreign, FrameMeta::default());
        rig.bare.nic.flush(rig.bare.now);
    }
    rig.bring(A, 0, 0, RST, b"");
    // Until the host knows, the flow is not its own.
    assert!(rig.bring(B, 0, 0, ACK, b"").is_empty());
    let first = rig.reported();
    let packets = |reported: &[RecvDescriptor]| {
        let is_packet = |reported: &&RecvDescriptor| matches!(reported, RecvDescriptor::Packet(_));
        reported.iter().filter(is_packet).count()
    };
    assert!(packets(&first) > 10);
    assert!(
        !first
            .iter()
            .any(|reported| matches!(reported, RecvDescriptor::SpliceEnded(_)))
    );
    let rest = rig.reported();
    let all = [first, rest].concat();
    let ends = all
        .iter()
        .filter(|reported| matches!(reported, RecvDescriptor::SpliceEnded(_)));
    assert_eq!(ends.count(), 1);
}
