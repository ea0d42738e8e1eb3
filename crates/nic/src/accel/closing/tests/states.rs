//! How connections end, state by state.

use std::time::Duration;

use wire::SeqNum;
use wire::tcp::{Flags, Timestamps};

use super::rig::{Peer, RCV, Rig, TICK, UNA, bytes, flow, teardown};
use crate::accel::Handled;
use crate::ring::ErrorCode;
use crate::ring::accel::Teardown;

const MINUTE: Duration = Duration::from_secs(60);
const FIN_ACK: Flags = Flags::FIN.union(Flags::ACK);

/// A connection that is in FIN-WAIT-2.
fn in_fin_wait_2() -> (Rig, Peer) {
    in_fin_wait_2_with(&teardown(1))
}

fn in_fin_wait_2_with(teardown: &Teardown) -> (Rig, Peer) {
    let (mut rig, mut peer) = (Rig::new(), Peer::of(teardown));
    rig.close(teardown, &[]).expect("room");
    let fin = rig.only();
    assert_eq!((fin.flags(), fin.header.seq), (FIN_ACK, UNA));
    peer.acknowledge(&mut rig, UNA + 1);
    assert!(rig.sent().is_empty());
    (rig, peer)
}

/// A connection that rests in TIME-WAIT.
fn in_time_wait() -> (Rig, Peer) {
    let (mut rig, mut peer) = in_fin_wait_2();
    peer.finish(&mut rig);
    assert_eq!(rig.only().header.ack, RCV + 1);
    (rig, peer)
}

/// Who takes the device away can know whether anything is lost with it.
#[test]
fn a_connection_is_unfinished_until_its_end_is_acknowledged() {
    let mut rig = Rig::new();
    let unfinished = |rig: &Rig| rig.accel.unfinished_teardowns(None);
    assert_eq!(unfinished(&rig), 0);
    let (one, other) = (teardown(1), teardown(2));
    let mut peer = Peer::of(&one);
    rig.close(&one, &bytes(64)).expect("room");
    rig.close(&other, &[]).expect("room");
    assert_eq!(unfinished(&rig), 2);
    assert_eq!(rig.accel.closing_flows(), [one.flow, other.flow]);
    assert_eq!(rig.sent().len(), 2);
    peer.acknowledge(&mut rig, UNA + 65);
    assert_eq!(unfinished(&rig), 1, "the other's");
    peer.finish(&mut rig);
    assert_eq!(rig.only().header.ack, RCV + 1);
    assert_eq!(unfinished(&rig), 1);
}

/// RFC 9293 §3.6.1, figure 12.
#[test]
fn a_response_goes_with_the_fin_and_the_close_is_completed() {
    for v6 in [false, true] {
        let (mut rig, mut teardown) = (Rig::new(), teardown(1));
        teardown.flow = flow(1, v6);
        let mut peer = Peer::of(&teardown);
        rig.close(&teardown, &bytes(64)).expect("room");
        let sent = rig.only();
        assert_eq!(sent.flow, teardown.flow);
        assert_eq!(sent.flags(), FIN_ACK | Flags::PSH);
        assert_eq!((sent.header.seq, sent.header.ack), (UNA, RCV));
        assert_eq!(sent.header.window, teardown.window);
        assert_eq!(sent.payload, bytes(64));
        let echo = sent.header.options.timestamps;
        assert_eq!(
            echo,
            Some(Timestamps {
                val: 5000,
                echo: 1000
            })
        );
        // ACK and FIN of the peer in one.
        peer.ack = UNA + 65;
        peer.timestamps = Some(Timestamps {
            val: 1007,
            echo: 5000,
        });
        rig.now += Duration::from_millis(10);
        peer.finish(&mut rig);
        let ack = rig.only();
        assert_eq!((ack.flags(), ack.header.seq), (Flags::ACK, UNA + 65));
        assert_eq!(ack.header.ack, RCV + 1);
        let echo = ack.header.options.timestamps;
        assert_eq!(
            echo,
            Some(Timestamps {
                val: 5010,
                echo: 1007
            })
        );
        assert_eq!(rig.closing(), 1);
        assert!(rig.pass(MINUTE).is_empty());
        assert!(rig.pass(TICK).is_empty());
        assert_eq!(rig.closing(), 0);
        assert_eq!(rig.counters().accel_closing_ended, 1);
    }
}

/// RFC 9293 §3.6, case 2.
#[test]
fn the_peer_has_closed_first() {
    let mut teardown = teardown(1);
    teardown.peer_closed = true;
    let (mut rig, mut peer) = (Rig::new(), Peer::of(&teardown));
    rig.close(&teardown, &bytes(10)).expect("room");
    assert_eq!(rig.only().flags(), FIN_ACK | Flags::PSH);
    peer.acknowledge(&mut rig, UNA + 10);
    assert_eq!(rig.closing(), 1, "the FIN is not acknowledged");
    // Its FIN again: acknowledged again.
    let mut again = peer;
    again.seq -= 1;
    rig.deliver(&again.frame(FIN_ACK, &[]));
    assert_eq!(rig.only().header.ack, RCV);
    peer.acknowledge(&mut rig, UNA + 11);
    assert!(rig.sent().is_empty());
    assert_eq!((rig.closing(), rig.counters().accel_time_wait), (0, 0));
}

/// RFC 9293 §3.6, case 3, figure 13.
#[test]
fn both_close_at_once() {
    let (mut rig, teardown) = (Rig::new(), teardown(1));
    let mut peer = Peer::of(&teardown);
    rig.close(&teardown, &bytes(10)).expect("room");
    rig.only();
    peer.finish(&mut rig);
    let ack = rig.only();
    assert_eq!((ack.header.seq, ack.header.ack), (UNA + 11, RCV + 1));
    // What was sent before its FIN is no news; data beyond it can't be.
    rig.deliver(&peer.frame(Flags::ACK, b"late"));
    assert_eq!(rig.only().flags(), Flags::ACK);
    peer.acknowledge(&mut rig, UNA + 11);
    assert_eq!(rig.counters().accel_time_wait, 1);
    assert!(rig.sent().is_empty());
    assert!(rig.pass(MINUTE + TICK).is_empty());
    assert_eq!(rig.closing(), 0);
}

#[test]
fn fin_wait_2_does_not_last_for_ever() {
    let (mut rig, _) = in_fin_wait_2();
    assert!(rig.pass(MINUTE - TICK).is_empty());
    assert_eq!(rig.closing(), 1);
    assert!(rig.pass(TICK * 2).is_empty());
    assert_eq!(rig.closing(), 0);
    assert!(rig.accel.is_idle());
}

/// RFC 1122 §4.2.2.13: it will not be read, and the peer should know.
#[test]
fn data_after_the_close_is_answered_with_a_reset() {
    for acknowledged in [false, true] {
        let (mut rig, teardown) = (Rig::new(), teardown(1));
        let mut peer = Peer::of(&teardown);
        rig.close(&teardown, &bytes(3000)).expect("room");
        rig.sent();
        if acknowledged {
            peer.acknowledge(&mut rig, UNA + 3001);
        }
        assert_eq!(
            rig.deliver(&peer.frame(Flags::ACK, b"more")),
            Handled::Taken
        );
        let reset = rig.only();
        assert_eq!((reset.flags(), reset.header.seq), (Flags::RST, UNA + 3001));
        assert_eq!(rig.closing(), 0);
        assert_eq!(rig.counters().accel_closing_aborted, 1);
        assert_eq!(rig.room(), Rig::new().room());
        // The flow is the host's.
        let handled = rig.deliver(&peer.frame(Flags::ACK, b"more"));
        assert_eq!(handled, Handled::Pass(None));
    }
}

/// A FIN that comes before the data in front of it is not taken; the data is then what resets.
#[test]
fn a_fin_behind_a_gap_waits() {
    let (mut rig, mut peer) = in_fin_wait_2();
    peer.seq += 100;
    rig.deliver(&peer.frame(FIN_ACK, &[]));
    assert_eq!(rig.only().header.ack, RCV);
    peer.seq -= 100;
    rig.deliver(&peer.frame(Flags::ACK, &bytes(100)));
    assert_eq!(rig.only().flags(), Flags::RST);
}

/// Old data that comes again together with the FIN is old.
#[test]
fn a_fin_on_old_data_counts() {
    let (mut rig, mut peer) = in_fin_wait_2();
    peer.seq -= 50;
    rig.deliver(&peer.frame(FIN_ACK, &bytes(50)));
    assert_eq!(rig.only().header.ack, RCV + 1);
    assert_eq!(rig.counters().accel_time_wait, 1);
}

/// RFC 5961 §3.2: a RST must hit the next byte exactly.
#[test]
fn a_blind_reset_is_challenged() {
    let (mut rig, mut peer) = in_fin_wait_2();
    peer.seq += 1;
    rig.deliver(&peer.frame(Flags::RST, &[]));
    let challenge = rig.only();
    assert_eq!(
        (challenge.flags(), challenge.header.seq),
        (Flags::ACK, UNA + 1)
    );
    // Outside of the window not even that.
    peer.seq += 1 << 20;
    rig.pass(Duration::from_secs(1));
    rig.deliver(&peer.frame(Flags::RST, &[]));
    assert!(rig.sent().is_empty());
    assert_eq!(rig.closing(), 1);
    peer.seq = RCV;
    assert_eq!(rig.deliver(&peer.frame(Flags::RST, &[])), Handled::Taken);
    assert!(rig.sent().is_empty());
    assert_eq!(rig.closing(), 0);
}

/// RFC 5961 §4.2 and §7: challenged, and not more often than twice a second.
#[test]
fn a_syn_is_challenged_now_and_then() {
    let (mut rig, peer) = in_fin_wait_2();
    let mut answers = 0;
    for _ in 0..100 {
        rig.now += Duration::from_millis(10);
        rig.deliver(&peer.frame(Flags::SYN, &[]));
        answers += rig.sent().len();
    }
    assert!((2..=3).contains(&answers), "{answers}");
    assert_eq!(rig.closing(), 1);
}

/// RFC 5961 §5.2.
#[test]
fn an_impossible_ack_is_challenged() {
    let (mut rig, mut peer) = in_fin_wait_2();
    peer.ack = UNA + 2;
    rig.deliver(&peer.frame(FIN_ACK, &[]));
    assert_eq!(rig.only().header.ack, RCV, "the FIN is not taken");
    rig.now += Duration::from_secs(1);
    peer.ack = UNA - 70_000;
    rig.deliver(&peer.frame(FIN_ACK, &[]));
    assert_eq!(rig.only().header.ack, RCV);
}

/// RFC 7323 §5.3 and §3.2.
#[test]
fn old_timestamps_and_none_are_not_taken() {
    let (mut rig, mut peer) = in_fin_wait_2();
    peer.timestamps = Some(Timestamps { val: 999, echo: 0 });
    rig.deliver(&peer.frame(FIN_ACK, &[]));
    assert_eq!(rig.only().header.ack, RCV, "acknowledged, not taken");
    peer.timestamps = None;
    rig.deliver(&peer.frame(FIN_ACK, &[]));
    assert!(rig.sent().is_empty());
    assert_eq!(rig.closing(), 1);
}

#[test]
fn connections_without_timestamps_send_none() {
    let mut teardown = teardown(1);
    teardown.timestamps = None;
    let (mut rig, mut peer) = in_fin_wait_2_with(&teardown);
    peer.finish(&mut rig);
    assert_eq!(rig.only().header.options.timestamps, None);
    // A SYN beyond what was seen opens anew.
    peer.seq += 5;
    let opened = rig.deliver(&peer.frame(Flags::SYN, &[]));
    assert_eq!((opened, rig.closing()), (Handled::Pass(None), 0));
}

/// RFC 9293 §3.10.7.4, RFC 1337.
#[test]
fn time_wait_acknowledges_a_repeated_fin_and_begins_anew() {
    let (mut rig, mut peer) = in_time_wait();
    rig.pass(MINUTE / 2);
    peer.seq -= 1;
    rig.deliver(&peer.frame(FIN_ACK, &[]));
    assert_eq!(rig.only().header.ack, RCV + 1);
    peer.seq += 1;
    rig.deliver(&peer.frame(Flags::RST, &[]));
    assert!(rig.sent().is_empty());
    assert!(rig.pass(MINUTE - TICK).is_empty());
    assert_eq!(rig.closing(), 1);
    rig.pass(TICK * 2);
    assert_eq!(rig.closing(), 0);
}

/// RFC 6191.
#[test]
fn a_good_syn_opens_a_resting_flow_anew() {
    let (mut rig, mut peer) = in_time_wait();
    peer.seq = SeqNum(12345);
    peer.timestamps = Some(Timestamps { val: 999, echo: 0 });
    let handled = rig.deliver(&peer.frame(Flags::SYN, &[]));
    assert_eq!((handled, rig.closing()), (Handled::Taken, 1), "an old one");
    assert_eq!(rig.only().flags(), Flags::ACK);
    peer.timestamps = Some(Timestamps { val: 1001, echo: 0 });
    let handled = rig.deliver(&peer.frame(Flags::SYN, &[]));
    assert_eq!((handled, rig.closing()), (Handled::Pass(None), 0));
    assert_eq!(rig.counters().accel_time_wait_reused, 1);
    assert!(rig.accel.is_idle());
    assert!(rig.pass(MINUTE * 2).is_empty());
}

#[test]
fn the_host_opens_a_resting_flow_anew_and_no_other() {
    let (mut rig, mut peer) = in_fin_wait_2();
    let flow = peer.flow.reversed();
    assert_eq!(rig.open(&flow), Err(ErrorCode::FlowExists));
    peer.finish(&mut rig);
    assert_eq!(rig.open(&flow), Ok(()));
    assert!(rig.accel.is_idle());
    assert_eq!(rig.open(&flow), Ok(()), "it is the host's");
    assert!(rig.sent().is_empty(), "the ACK of the one before is void");
    assert_eq!(rig.closing(), 0);
}

/// What the host had sent already is waited for, not sent again.
#[test]
fn what_is_in_flight_is_not_sent_again_at_once() {
    let mut teardown = teardown(1);
    teardown.snd_nxt = UNA + 30;
    let (mut rig, mut peer) = (Rig::new(), Peer::of(&teardown));
    rig.close(&teardown, &bytes(50)).expect("room");
    let sent = rig.only();
    assert_eq!((sent.header.seq, sent.payload.len()), (UNA + 30, 20));
    assert_eq!(sent.payload, bytes(50)[30..]);
    peer.acknowledge(&mut rig, UNA + 51);
    assert!(rig.sent().is_empty());
    let room = Rig::new().room();
    assert_eq!(rig.room().closing, room.closing - 1);
    assert_eq!(
        rig.room().packet_memory,
        room.packet_memory,
        "free as soon as acknowledged"
    );
}

/// An acknowledgment that the host owed goes at once, also when no data may.
#[test]
fn what_the_host_owed_is_acknowledged() {
    let mut teardown = teardown(1);
    teardown.peer_window = 0;
    let mut rig = Rig::new();
    rig.close(&teardown, &bytes(50)).expect("room");
    let ack = rig.only();
    assert_eq!((ack.flags(), ack.header.ack), (Flags::ACK, RCV));
}
