//! Splices that their host takes back.

use std::time::Duration;

use nic::ring::accel::{LegState, SpliceEnd, TimestampState};
use nic::ring::{RecvDescriptor, SendDescriptor};
use wire::SeqNum;
use wire::tcp::{Options, Timestamps};

use super::endings::ended;
use super::rig::{A, ACK, B, FIN, RST, Rig, SPLICE, side};

pub const UNSPLICE: SendDescriptor<'static> = SendDescriptor::Unsplice { splice: SPLICE };

/// Both legs' states, which follow the end.
#[track_caller]
pub fn states(reported: &[RecvDescriptor]) -> [LegState; 2] {
    assert_eq!(ended(reported).reason, SpliceEnd::TakenBack);
    let [
        RecvDescriptor::SpliceState(a),
        RecvDescriptor::SpliceState(b),
    ] = reported[1..]
    else {
        panic!("{reported:?}");
    };
    assert_eq!((a.side, b.side), (side(A), side(B)));
    [a.state, b.state]
}

#[test]
fn a_drained_one_comes_back_at_once_as_it_was() {
    let mut rig = Rig::new();
    assert!(rig.post(&UNSPLICE).is_empty());
    let states = states(&rig.reported());
    for (side, state) in states.into_iter().enumerate() {
        let leg = rig.leg(side);
        let expected = LegState {
            snd_una: leg.snd_nxt,
            snd_nxt: leg.snd_nxt,
            rcv_nxt: leg.rcv_nxt,
            peer_window: leg.peer_window,
            our_window: leg.our_window,
            forwarded: 0,
            probed: false,
            fin_sent: false,
            fin_received: false,
            timestamps: leg.timestamps,
            ecn_echo: false,
        };
        assert_eq!(state, expected);
    }
    // The flows are the host's.
    assert!(rig.bring(A, 0, 0, ACK, b"x").is_empty());
    assert!(matches!(rig.reported()[..], [RecvDescriptor::Packet(_)]));
}

#[test]
fn what_was_forwarded_is_waited_for_and_what_is_new_is_not_forwarded() {
    let mut rig = Rig::new();
    let data = rig.segment(A, 0, 0, ACK, b"forwarded");
    rig.frame(&data);
    assert!(rig.post(&UNSPLICE).is_empty());
    assert_eq!(rig.reported(), []);
    // Sent again: passes. New behind it: cut off, and the host gets it.
    let left = rig.frame(&data);
    rig.one(B, &left).is(0, 0, ACK, b"forwarded");
    let more = rig.segment(A, 4, 0, FIN, b"arded and more");
    let left = rig.frame(&more);
    rig.one(B, &left).is(4, 0, ACK, b"arded");
    // New altogether: only what it acknowledges passes.
    rig.forwarded(A, 9, 0, ACK, b"and more").is(9, 0, ACK, b"");
    let new = rig.segment(B, 0, 4, ACK, b"answer");
    let left = rig.frame(&new);
    rig.one(A, &left).is(0, 4, ACK, b"");
    let reported = rig.reported();
    let is_packet = |reported: &RecvDescriptor| matches!(reported, RecvDescriptor::Packet(_));
    assert!(
        reported.len() == 3 && reported.iter().all(is_packet),
        "{reported:?}"
    );

    rig.forwarded(B, 0, 9, ACK, b"").is(0, 9, ACK, b"");
    let reported = rig.reported();
    assert_eq!(ended(&reported).bytes, [9, 0]);
    let [a, b] = states(&reported);
    assert_eq!(a.rcv_nxt, rig.leg(A).rcv_nxt + 9);
    assert_eq!(b.snd_una, rig.leg(B).snd_nxt + 9);
    assert_eq!(b.snd_nxt, b.snd_una);
    assert_eq!(b.rcv_nxt, rig.leg(B).rcv_nxt);
    assert!(!a.fin_received && !b.fin_sent);
    // The new data comes again, to the host.
    assert!(rig.frame(&new).is_empty());
    assert!(matches!(rig.reported()[..], [RecvDescriptor::Packet(_)]));
}

#[test]
fn half_closed_connections_come_back_half_closed() {
    let mut rig = Rig::new();
    rig.bring(A, 0, 0, FIN, b"last");
    rig.post(&UNSPLICE);
    assert_eq!(rig.reported(), []);
    rig.bring(B, 0, 5, ACK, b"");
    let [a, b] = states(&rig.reported());
    assert!(a.fin_received && b.fin_sent && !a.fin_sent && !b.fin_received);
    assert_eq!(a.rcv_nxt, rig.leg(A).rcv_nxt + 5);
    assert_eq!(b.snd_nxt, rig.leg(B).snd_nxt + 5);
}

#[test]
fn timestamps_go_on_where_the_peers_clocks_led() {
    let mut rig = Rig::new();
    let options = |val, echo| Options {
        timestamps: Some(Timestamps { val, echo }),
        ..Options::default()
    };
    // A's clock is far faster than the host's.
    let data = rig.segment_with(A, (0, 0), ACK, 9, options(100 + 50_000, 900), b"x");
    let left = rig.frame(&data);
    let timestamps = rig.one(B, &left).parsed.tcp.options.timestamps;
    let expected = Timestamps {
        val: 300 + 50_000,
        echo: 700,
    };
    assert_eq!(timestamps, Some(expected));
    let ack = rig.segment_with(B, (0, 1), ACK, 9, options(703, 300 + 50_000), b"");
    let left = rig.frame(&ack);
    let timestamps = rig.one(A, &left).parsed.tcp.options.timestamps;
    assert_eq!(
        timestamps,
        Some(Timestamps {
            val: 903,
            echo: 100 + 50_000
        })
    );
    rig.post(&UNSPLICE);
    let [a, b] = states(&rig.reported());
    assert_eq!(
        a.timestamps,
        Some(TimestampState {
            recent: 50_100,
            value: 903
        })
    );
    assert_eq!(
        b.timestamps,
        Some(TimestampState {
            recent: 703,
            value: 50_300
        })
    );
}

/// An acknowledgement whose data are not forwarded shows the other peer a later clock, which the host must go on from; and to
/// the host the data must not seem old.
#[test]
fn timestamps_of_what_is_not_forwarded_count_for_us_only() {
    let mut rig = Rig::new();
    rig.bring(A, 0, 0, ACK, b"x");
    rig.post(&UNSPLICE);
    let later = Options {
        timestamps: Some(Timestamps {
            val: 100 + 40,
            echo: 900,
        }),
        ..Options::default()
    };
    let new = rig.segment_with(A, (1, 0), ACK, 9, later, b"new");
    let left = rig.frame(&new);
    let shown = rig.one(B, &left).parsed.tcp.options.timestamps;
    assert_eq!(shown.map(|timestamps| timestamps.val), Some(300 + 40));
    rig.reported();
    rig.bring(B, 0, 1, ACK, b"");
    let [a, b] = states(&rig.reported());
    let expected = |recent, value| Some(TimestampState { recent, value });
    assert_eq!(a.timestamps, expected(100, 900));
    assert_eq!(b.timestamps, expected(700, 340));
}

#[test]
fn a_peer_that_is_silent_does_not_keep_it() {
    let mut rig = Rig::new();
    rig.bring(A, 0, 0, ACK, b"lost");
    rig.post(&UNSPLICE);
    rig.pass(Duration::from_secs(9));
    assert_eq!(rig.reported(), []);
    rig.pass(Duration::from_secs(2));
    let [_, b] = states(&rig.reported());
    assert_eq!(b.snd_una + 4, b.snd_nxt);
}

#[test]
fn a_reset_comes_before() {
    let mut rig = Rig::new();
    rig.bring(A, 0, 0, ACK, b"1234");
    rig.post(&UNSPLICE);
    rig.bring(A, 4, 0, RST, b"");
    let reported = rig.reported();
    assert_eq!(ended(&reported).reason, SpliceEnd::Reset { by: side(A) });
    assert_eq!(reported.len(), 1);
}

#[test]
fn windows_come_back_as_they_were_last_told() {
    let mut rig = Rig::new();
    rig.bring(B, 0, 0, ACK, b"12345678");
    rig.bring(A, 0, 8, ACK, b"");
    rig.post(&UNSPLICE);
    let [a, b] = states(&rig.reported());
    // Fields of 1000, as the segments have them, on the legs that they came by; and as they were announced to the others.
    assert_eq!((a.peer_window, b.peer_window), (1000 << 2, 1000 << 7));
    assert_eq!(a.our_window, 128 << 10);
    assert_eq!(b.our_window, (128 << 10) - 8);
    assert_eq!(b.rcv_nxt, SeqNum(6008));
}
