//! The host asks where a splice stands, which goes on.

use nic::ring::accel::{LegState, SpliceId, SpliceState};
use nic::ring::{ErrorCode, RecvDescriptor, SendDescriptor};
use wire::tcp::Flags;

use super::rig::{A, ACK, B, FIN, RST, Rig, SPLICE, side};

const QUERY: SendDescriptor<'_> = SendDescriptor::QuerySplice { splice: SPLICE };

/// Both legs, as a query finds them.
#[track_caller]
fn asked(rig: &mut Rig) -> [LegState; 2] {
    assert!(rig.post(&QUERY).is_empty());
    let reported = rig.reported();
    let [
        RecvDescriptor::SpliceState(a),
        RecvDescriptor::SpliceState(b),
    ] = reported[..]
    else {
        panic!("{reported:?}");
    };
    assert_eq!((a.splice, b.splice), (SPLICE, SPLICE));
    assert_eq!((a.side, b.side), (side(A), side(B)));
    [a.state, b.state]
}

#[track_caller]
fn assert_refused(rig: &mut Rig, splice: SpliceId, error: ErrorCode) {
    rig.post(&SendDescriptor::QuerySplice { splice });
    let reported = rig.reported();
    let [
        RecvDescriptor::Completion {
            tcpsn, error: told, ..
        },
    ] = reported[..]
    else {
        panic!("{reported:?}");
    };
    assert_eq!((tcpsn.0, told), (splice.0, error));
}

#[test]
fn it_tells_what_was_forwarded_and_what_of_it_is_acknowledged() {
    let mut rig = Rig::new();
    let [a, b] = asked(&mut rig);
    assert_eq!((a.forwarded, b.forwarded), (0, 0));
    let content = [7; 1000];
    rig.forwarded(B, 0, 0, ACK, &content);
    rig.forwarded(B, 1000, 0, ACK, &content);
    rig.forwarded(A, 0, 1500, ACK, b"x");
    let [a, b] = asked(&mut rig);
    let start = rig.splice.a.snd_nxt;
    assert_eq!((a.snd_una, a.snd_nxt), (start + 1500, start + 2000));
    assert_eq!((a.forwarded, b.forwarded), (2000, 1));
    assert_eq!(a.peer_window, 1000 << rig.splice.a.peer_shift);
    // It goes on.
    rig.forwarded(B, 2000, 1, FIN, b"end");
    let [a, b] = asked(&mut rig);
    assert_eq!((a.forwarded, b.forwarded), (2003, 1));
    assert!(a.fin_sent && !b.fin_sent);
}

#[test]
fn a_probe_counts_as_one_until_something_new_comes() {
    let mut rig = Rig::new();
    rig.forwarded(B, 0, 0, ACK, b"full");
    rig.forwarded(A, 0, 4, ACK, b"");
    // As Linux probes: the byte before the next, without data.
    rig.forwarded(B, 3, 0, ACK, b"");
    let [a, b] = asked(&mut rig);
    assert_eq!((a.probed, b.probed), (true, false));
    rig.forwarded(A, 0, 4, ACK, b"");
    assert!(asked(&mut rig)[0].probed);
    // Sent again is not new.
    rig.forwarded(B, 0, 0, ACK, b"full");
    assert!(asked(&mut rig)[0].probed);
    rig.forwarded(B, 4, 0, ACK, b"more");
    assert!(!asked(&mut rig)[0].probed);
}

#[test]
fn one_that_is_taken_back_or_not_there_is_not_told_of_twice() {
    let mut rig = Rig::new();
    assert_refused(&mut rig, SpliceId(6), ErrorCode::NoSplice);
    rig.forwarded(A, 0, 0, ACK, b"forwarded");
    assert!(
        rig.post(&SendDescriptor::Unsplice { splice: SPLICE })
            .is_empty()
    );
    // While it waits for the acknowledgment.
    assert_eq!(asked(&mut rig)[1].forwarded, 9);
    rig.forwarded(B, 0, 0, RST.union(Flags::ACK), b"");
    let reported = rig.reported();
    assert!(
        matches!(reported[..], [RecvDescriptor::SpliceEnded(_)]),
        "{reported:?}"
    );
    assert_refused(&mut rig, SPLICE, ErrorCode::NoSplice);
}

#[test]
fn without_room_for_the_answer_it_is_refused_and_may_be_asked_again() {
    let mut rig = Rig::new();
    let mut states = 0;
    let mut refused = 0;
    for _ in 0..40 {
        rig.bare.post(&QUERY);
    }
    rig.bare.host.publish();
    for _ in 0..40 {
        rig.transmitted();
        for descriptor in rig.reported() {
            match descriptor {
                RecvDescriptor::SpliceState(SpliceState { .. }) => states += 1,
                RecvDescriptor::Completion { error, .. } => {
                    assert_eq!(error, ErrorCode::TableFull);
                    refused += 1;
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(states / 2 + refused, 40);
    assert!(states > 0 && states % 2 == 0 && refused > 0, "{states}");
    assert_eq!(asked(&mut rig)[0].forwarded, 0);
}
