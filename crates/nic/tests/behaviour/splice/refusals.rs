//! Splices that are not made: a completion says why, and owns both connections still.

use std::time::Duration;

use nic::FrameMeta;
use nic::ring::accel::{Splice, SpliceEnd, SpliceId};
use nic::ring::{ErrorCode, FunctionConfig, RecvDescriptor, SendDescriptor, function};
use testkit::bare::nic_config;
use testkit::fixtures::HOST;
use wire::SeqNum;
use wire::ethernet::MacAddr;

use super::endings::{ended, finish};
use super::rig::{A, ACK, B, FIN, RST, Rig, SPLICE, splice};

#[track_caller]
fn refused(rig: &mut Rig, splice: &Splice, why: ErrorCode) {
    assert_eq!(
        rig.post(&SendDescriptor::Splice(splice)),
        Vec::<Vec<u8>>::new()
    );
    let reported = rig.reported();
    let [RecvDescriptor::Completion { tcpsn, error, .. }] = reported[..] else {
        panic!("{reported:?}");
    };
    assert_eq!((tcpsn, error), (SeqNum(splice.splice.0), why));
}

fn other(number: u32) -> Splice {
    let mut other = splice();
    other.splice = SpliceId(number);
    other.a.flow.dst.1 += 1 + number as u16;
    other.b.flow.src.1 += 1 + number as u16;
    other
}

#[test]
fn connections_that_differ_in_what_cannot_be_translated() {
    let mut rig = Rig::empty(nic_config(), splice());
    let mut one = splice();
    one.b.timestamps = None;
    refused(&mut rig, &one, ErrorCode::SpliceOptions);
    let mut one = splice();
    one.a.our_mss = one.b.mss + 1;
    refused(&mut rig, &one, ErrorCode::SpliceMss);
    let mut one = splice();
    one.a.mss = one.b.our_mss - 1;
    refused(&mut rig, &one, ErrorCode::SpliceMss);
    let mut one = splice();
    one.b.flow.src.0 = [0xfd00, 0, 0, 0, 0, 0, 0, 1].into();
    one.b.flow.dst.0 = [0xfd00, 0, 0, 0, 0, 0, 0, 2].into();
    refused(&mut rig, &one, ErrorCode::SpliceFamilies);
    assert_eq!(rig.counters().accel_splices_refused, 4);
    // SACK on one side only is left out.
    let mut one = splice();
    one.b.sack = false;
    rig.post(&SendDescriptor::Splice(&one));
    assert_eq!(rig.reported(), []);
}

#[test]
fn a_next_hop_that_is_nobody_else() {
    let mut rig = Rig::empty(nic_config(), splice());
    let mut one = splice();
    one.b.hop = HOST;
    refused(&mut rig, &one, ErrorCode::BadParameters);
    let mut one = splice();
    one.b.flow = one.a.flow;
    refused(&mut rig, &one, ErrorCode::BadParameters);
}

/// A packet of a peer's leaves as a few, and not as a thousand.
#[test]
fn packets_that_are_smaller_than_any() {
    let mut rig = Rig::empty(nic_config(), splice());
    let mut one = splice();
    for leg in [&mut one.a, &mut one.b] {
        (leg.mss, leg.our_mss) = (51, 51);
    }
    refused(&mut rig, &one, ErrorCode::BadParameters);
    for leg in [&mut one.a, &mut one.b] {
        (leg.mss, leg.our_mss) = (52, 52);
    }
    rig.post(&SendDescriptor::Splice(&one));
    assert_eq!(rig.reported(), []);
}

#[test]
fn numbers_and_flows_that_are_in_use() {
    let mut rig = Rig::new();
    let mut same_number = other(SPLICE.0);
    refused(&mut rig, &same_number, ErrorCode::SpliceExists);
    same_number.splice = SpliceId(SPLICE.0 + 1);
    let mut same_flow = same_number;
    same_flow.a.flow = splice().b.flow;
    refused(&mut rig, &same_flow, ErrorCode::FlowExists);
    rig.post(&SendDescriptor::Splice(&same_number));
    assert_eq!(rig.reported(), []);
}

/// The NIC does not sleep until the wire or the host wakes it while it has something to tell.
#[test]
fn an_end_that_waits_for_room_in_the_receive_ring_is_reported_in_a_moment() {
    let mut rig = Rig::new();
    rig.reported();
    for _ in 0..rig.bare.host.config.receive_entries {
        rig.post(&SendDescriptor::Unsplice {
            splice: SpliceId(99),
        });
    }
    let reset = rig.segment(A, 0, 0, RST, b"");
    assert_eq!(rig.frame(&reset).len(), 1);
    let refusals = rig.reported();
    assert_eq!(
        refusals.len(),
        rig.bare.host.config.receive_entries as usize
    );
    let due = rig
        .bare
        .nic
        .poll_timeout()
        .expect("it has something to report");
    assert!(due <= rig.bare.now + Duration::from_millis(1));
    rig.bare.now = due;
    let reported = rig.reported();
    assert!(matches!(reported[..], [RecvDescriptor::SpliceEnded(_)]));
    assert_eq!(rig.bare.nic.poll_timeout(), None);
}

#[test]
fn a_full_table() {
    let mut config = nic_config();
    config.accel.splices = 1;
    let mut rig = Rig::empty(config, splice());
    rig.post(&SendDescriptor::Splice(&splice()));
    refused(&mut rig, &other(1), ErrorCode::TableFull);
    rig.forwarded(A, 0, 0, ACK, b"x").is(0, 0, ACK, b"x");
}

/// A function's share is its own: neither what another has nor what lingers there counts, and of its own only what lingers gives
/// way.
#[test]
fn a_functions_share_of_the_table() {
    let mut config = nic_config();
    config.accel.splices = 4;
    let mut rig = Rig::of(config, splice(), 2);
    rig.post(&SendDescriptor::Splice(&splice()));
    rig.post(&SendDescriptor::Splice(&other(1)));
    refused(&mut rig, &other(2), ErrorCode::TableFull);
    finish(&mut rig);
    let lingers = rig.segment(B, 3, 3, FIN, b"");
    assert_eq!(rig.frame(&lingers).len(), 1);
    // The end of the one that lingers is reported at once, and the new one is there.
    rig.post(&SendDescriptor::Splice(&other(2)));
    let reported = rig.reported();
    assert_eq!(reported.len(), 1);
    assert_eq!(ended(&reported).reason, SpliceEnd::Finished);
    refused(&mut rig, &other(3), ErrorCode::TableFull);
    // What lingers of one does not make room for the other's in a full table.
    let mac = MacAddr([2, 0, 0, 0, 0, 7]);
    let (mut neighbour, device) = function(FunctionConfig {
        receive_entries: 64,
        ..FunctionConfig::new(mac)
    });
    rig.bare.nic.attach(device).expect("a free address");
    rig.bare.nic.flush(rig.bare.now);
    for n in 0..3 {
        let theirs = other(n);
        let send = &mut neighbour.queues[0].send;
        send.post(&SendDescriptor::Splice(&theirs)).expect("room");
    }
    let _ = neighbour.queues[0].publish();
    assert!(rig.transmitted().is_empty());
    rig.bare.nic.flush(rig.bare.now);
    let mut reported = Vec::new();
    while let Some(descriptor) = neighbour.queues[0].recv.pop() {
        reported.push(descriptor);
    }
    let refused = |reported: &RecvDescriptor| {
        matches!(
            reported,
            RecvDescriptor::Completion {
                error: ErrorCode::TableFull,
                tcpsn: SeqNum(2),
                ..
            }
        )
    };
    assert_eq!(
        reported.iter().filter(|reported| refused(reported)).count(),
        1,
        "{reported:?}"
    );
    let room = reported.iter().rev().find_map(|reported| match reported {
        RecvDescriptor::AccelRoom(room) => Some(room.splices),
        _ => None,
    });
    assert_eq!(room, Some(0));
    assert_eq!(rig.reported(), []);
}

#[test]
fn taking_back_what_is_not_there() {
    let mut rig = Rig::new();
    rig.post(&SendDescriptor::Unsplice {
        splice: SpliceId(6),
    });
    let reported = rig.reported();
    assert!(matches!(
        reported[..],
        [RecvDescriptor::Completion {
            error: ErrorCode::NoSplice,
            tcpsn: SeqNum(6),
            ..
        }]
    ));
}

/// A function has its own connections only, though another one's have the same addresses.
#[test]
fn a_function_splices_no_other_ones_connections() {
    let mut rig = Rig::new();
    let mac = MacAddr([2, 0, 0, 0, 0, 7]);
    let (mut neighbour, device) = function(FunctionConfig {
        receive_entries: 64,
        ..FunctionConfig::new(mac)
    });
    rig.bare.nic.attach(device).expect("a free address");
    let unsplice = SendDescriptor::Unsplice { splice: SPLICE };
    neighbour.queues[0].send.post(&unsplice).expect("room");
    let _ = neighbour.queues[0].publish();
    assert!(rig.transmitted().is_empty());
    rig.bare.nic.flush(rig.bare.now);
    let reported = neighbour.queues[0].recv.pop();
    assert!(matches!(
        reported,
        Some(RecvDescriptor::Completion {
            error: ErrorCode::NoSplice,
            ..
        })
    ));
    // The same addresses to the other function's MAC are not the splice's.
    let mut data = rig.segment(A, 0, 0, ACK, b"x");
    data[..6].copy_from_slice(&mac.0);
    rig.bare
        .nic
        .handle_frame(rig.bare.now, &data, FrameMeta::default());
    assert!(rig.transmitted().is_empty());
    // It may have a splice of the same number, and of the same flows.
    let same = splice();
    neighbour.queues[0]
        .send
        .post(&SendDescriptor::Splice(&same))
        .expect("room");
    let _ = neighbour.queues[0].publish();
    assert!(rig.transmitted().is_empty());
    rig.bare
        .nic
        .handle_frame(rig.bare.now, &data, FrameMeta::default());
    let left = rig.transmitted();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].0[6..12], mac.0);
}
