//! A connection is run by another owner, and the one who has handed it off keeps a mirror of it (Connection handoff policies §2).

use std::time::Duration;

use proptest::prelude::*;
use tcp::{Config, Connection, Disagreement, State};
use wire::tcp::Flags;

use crate::ms;
use crate::pair::{App, Link, Pair, Setup};
use crate::peer::Peer;

/// What would have been posted to the other owner, and reported by it, since the last time.
fn tell(mirror: &mut Connection, pair: &Pair, side: usize) {
    let owner = &pair.sides[side].connection;
    let Some(tcb) = owner.tcb(pair.now) else {
        return;
    };
    let queued = mirror.write_seq().distance_to(owner.write_seq());
    assert_eq!(mirror.queue(pair.now, queued), queued);
    if tcb.fin_queued {
        mirror.close(pair.now);
    }
    assert!(mirror.handle_received(tcb.rcv_nxt - u32::from(tcb.fin_taken)));
    assert!(mirror.handle_acked(tcb.snd_una, owner.flight_limit()));
    if tcb.fin_taken {
        assert!(mirror.handle_fin(tcb.rcv_nxt));
    }
    let read = mirror.read_seq().distance_to(owner.read_seq());
    mirror.consumed(pair.now, read);
    while mirror.poll_event().is_some() {}
    assert_eq!(mirror.poll_timeout(), None);
    assert_eq!(mirror.poll_transmit(pair.now), None);
    assert_eq!(mirror.unread(), owner.unread());
    assert_eq!(mirror.snd_una(), owner.snd_una());
    assert_eq!(mirror.flight_limit(), owner.flight_limit().max(1));
    mirror.assert_invariants();
}

/// Another owner runs a side for some rounds of so many milliseconds, and hands it back, or dies with it.
pub fn lend(pair: &mut Pair, side: usize, dies: bool, (wait, rounds): (u64, usize)) {
    let state = pair.sides[side].state();
    if !state.is_synchronized() || state == State::TimeWait {
        return;
    }
    let mut mirror = pair.sides[side].connection.clone();
    mirror.park();
    for _ in 0..rounds {
        pair.run(ms(wait));
        tell(&mut mirror, pair, side);
    }
    let Some(tcb) = pair.sides[side].connection.tcb(pair.now) else {
        return;
    };
    if dies {
        let fin = tcb.fin_queued;
        mirror.take_over(pair.now, tcb.write_seq, fin, tcb.held.iter().copied());
    } else {
        assert_eq!(mirror.bring_back(pair.now, &tcb), Ok(()));
        assert_eq!(mirror.state(), tcb.state);
    }
    assert!(!mirror.is_parked());
    mirror.assert_invariants();
    pair.sides[side].connection = mirror;
}

proptest! {
    #![proptest_config(crate::cases(24))]

    /// Whether the other owner hands the connection back or is lost with it, and whatever is lost, late or doubled: no byte is
    /// lost, and both ends close in order.
    #[test]
    fn lending_loses_nothing(
        lendings in prop::collection::vec((1u64..40, 0usize..2, any::<bool>(), 1usize..5), 1..16),
        totals in (0u64..400_000, 0u64..400_000),
        (loss, reorder, duplicate) in (0.0f64..0.05, 0.0f64..0.1, 0.0f64..0.05),
        (timestamps, sack, window_scale) in any::<(bool, bool, bool)>(),
        (paced, closes_first, seed) in any::<(bool, bool, u64)>(),
    ) {
        let config = Config { timestamps, sack, window_scale, rcv_buf: 64 << 10, ..Config::default() };
        let link = Link { loss, reorder, duplicate, ..Link::default() };
        let mut pair = Pair::both_send(&config, totals, link, paced, closes_first, seed);
        for (wait, side, dies, rounds) in lendings {
            pair.run(ms(wait));
            lend(&mut pair, side, dies, (wait, rounds));
        }
        pair.run_to_end(Duration::from_secs(600));
    }
}

/// A side in the middle of a transfer, and the mirror of it.
fn handed_off() -> (Pair, Connection) {
    let mut pair = Pair::new(Setup {
        apps: [App::sends(32 << 20), App::sends(32 << 20)],
        links: [Link {
            rate: 20_000_000,
            delay: ms(5),
            ..Link::default()
        }; 2],
        ..Setup::default()
    });
    pair.run(ms(100));
    let mut mirror = pair.sides[0].connection.clone();
    mirror.park();
    tell(&mut mirror, &pair, 0);
    (pair, mirror)
}

/// All that both send looks old or too new to the other: only the ACK fields of what looks old can tell them where they stand.
#[test]
fn two_whose_owners_are_both_gone_find_each_other_again() {
    let (mut pair, _) = handed_off();
    // What is on its way arrives, and what would tell of that is lost.
    pair.filter = Some(Box::new(|_, _| false));
    pair.run(ms(10));
    pair.filter = None;
    let mirrors = [0, 1].map(|side| {
        let mut mirror = pair.sides[side].connection.clone();
        mirror.park();
        tell(&mut mirror, &pair, side);
        let taken = pair.sides[1 - side].connection.rcv_nxt();
        let ahead = mirror.snd_una().distance_to(taken);
        assert!(
            ahead > 5000,
            "the peer has taken more than was told: {ahead}"
        );
        // The other owner has sent what its congestion window allowed, and was given more.
        let posted = mirror.write_seq();
        mirror.take_over(pair.now, posted, false, std::iter::empty());
        mirror
    });
    for (side, mirror) in pair.sides.iter_mut().zip(mirrors) {
        side.connection = mirror;
    }
    pair.run_to_end(Duration::from_secs(300));
}

#[test]
fn what_was_queued_and_closed_meanwhile_counts() {
    let (pair, mut mirror) = handed_off();
    let tcb = pair.sides[0].connection.tcb(pair.now).expect("established");
    assert_eq!(mirror.queue(pair.now, 1000), 1000);
    mirror.close(pair.now);
    assert_eq!(mirror.bring_back(pair.now, &tcb), Ok(()));
    assert_eq!(mirror.state(), State::FinWait1);
    assert_eq!(mirror.write_seq(), tcb.write_seq + 1000);
    assert_eq!(mirror.snd_nxt(), tcb.snd_nxt);
    mirror.assert_invariants();
}

#[test]
fn what_was_aborted_meanwhile_is_reset() {
    let (pair, mut mirror) = handed_off();
    let tcb = pair.sides[0].connection.tcb(pair.now).expect("established");
    mirror.abort();
    assert!(mirror.poll_event().is_some());
    assert_eq!(
        mirror.poll_transmit(pair.now),
        None,
        "the other owner is to do it"
    );
    assert_eq!(mirror.bring_back(pair.now, &tcb), Ok(()));
    let reset = mirror.poll_transmit(pair.now).expect("a reset");
    assert!(reset.header.flags.contains(Flags::RST));
    assert_eq!(reset.header.seq, tcb.snd_nxt);
    assert_eq!((mirror.state(), mirror.poll_event()), (State::Closed, None));
}

/// RFC 5961 §3.2: outside of its window the peer does not even look at it.
#[test]
fn what_was_aborted_before_the_other_owner_was_lost_is_reset_in_the_peers_window() {
    let (pair, mut mirror) = handed_off();
    let posted = mirror.write_seq();
    mirror.abort();
    mirror.take_over(pair.now, posted, false, std::iter::empty());
    let reset = mirror.poll_transmit(pair.now).expect("a reset");
    assert!(reset.header.flags.contains(Flags::RST));
    let sent = pair.sides[0].connection.snd_nxt();
    let taken = pair.sides[1].connection.rcv_nxt();
    let at = reset.header.seq;
    assert!(
        at.at_or_after(taken) && at.before(sent + 100_000),
        "{taken} {at} {sent}"
    );
}

/// The same for one that ends after it: more than the largest window can't be under way.
#[test]
fn what_is_aborted_after_the_other_owner_was_lost_is_reset_in_the_peers_window() {
    let mut peer = Peer::modern();
    let window = peer
        .connection
        .tcb(peer.now)
        .expect("established")
        .snd_wnd_max;
    peer.queue(window + 1000);
    let (una, posted) = (peer.connection.snd_una(), peer.connection.write_seq());
    peer.connection.park();
    let nothing = std::iter::empty();
    peer.connection.take_over(peer.now, posted, false, nothing);
    peer.connection.abort();
    let sent = peer.sent();
    assert!(sent[0].header.flags.contains(Flags::RST));
    assert_eq!(sent[0].header.seq, una + window);
}

#[test]
fn who_refuses_changes_nothing() {
    let (mut pair, _) = handed_off();
    let before = pair.sides[0].connection.clone();
    let connection = &mut pair.sides[0].connection;
    connection.park();
    assert_eq!(connection.poll_timeout(), None);
    connection.unpark();
    assert_eq!(format!("{connection:?}"), format!("{before:?}"));
    pair.run_to_end(Duration::from_secs(300));
}

#[test]
fn the_field_is_named_in_which_an_owner_contradicts_itself() {
    let (pair, mirror) = handed_off();
    let tcb = pair.sides[0].connection.tcb(pair.now).expect("established");
    type Change = fn(&mut tcp::Tcb);
    let changes: [(&str, Change); 8] = [
        ("snd_una", |tcb| tcb.snd_una = tcb.write_seq + 1),
        ("snd_una", |tcb| tcb.snd_una -= 1),
        ("snd_nxt", |tcb| tcb.snd_nxt = tcb.snd_una - 1),
        ("write_seq", |tcb| tcb.write_seq += 1),
        ("fin_queued", |tcb| tcb.fin_queued = true),
        ("rcv_nxt", |tcb| tcb.rcv_nxt += 1),
        ("mss", |tcb| tcb.mss = 0),
        ("timestamps", |tcb| tcb.timestamps = None),
    ];
    for (field, change) in changes {
        let mut wrong = tcb.clone();
        change(&mut wrong);
        let mut mirror = mirror.clone();
        assert_eq!(
            mirror.bring_back(pair.now, &wrong),
            Err(Disagreement(field))
        );
        assert!(mirror.is_parked());
    }
}

#[test]
fn what_nobody_can_have_said_is_not_believed() {
    let (_, mut mirror) = handed_off();
    let (una, end, next) = (mirror.snd_una(), mirror.write_seq(), mirror.rcv_nxt());
    assert!(!mirror.handle_acked(una - 1, 1) && !mirror.handle_acked(end + 1, 1));
    assert!(!mirror.handle_received(next - 1));
    assert!(!mirror.handle_fin(next) && !mirror.handle_fin(next + 2));
    assert!(mirror.handle_fin(next + 1) && !mirror.handle_received(next + 2));
    assert_eq!(mirror.state(), State::CloseWait);
}

#[test]
fn a_window_that_nobody_knows_is_asked_for_at_once() {
    let (mut pair, mut mirror) = handed_off();
    let posted = mirror.write_seq();
    mirror.take_over(pair.now, posted, false, std::iter::empty());
    assert_eq!(mirror.snd_nxt(), posted, "all of it may have been sent");
    let probe = mirror.poll_transmit(pair.now).expect("a probe");
    assert_eq!((probe.payload, probe.header.seq), (0, mirror.snd_una() - 1));
    pair.sides[0].connection = mirror;
    pair.run_to_end(Duration::from_secs(300));
}

/// RFC 9293 §3.6, case 3, and case 2: whose FIN came first says whether the connection rests in TIME-WAIT, though the owner is lost.
#[test]
fn who_closed_at_once_with_the_peer_rests_and_who_closed_last_does_not() {
    for is_first in [true, false] {
        let mut peer = Peer::modern();
        let fin = peer.header(Flags::FIN | Flags::ACK);
        if !is_first {
            peer.deliver(&fin, 0);
        }
        peer.connection.close(peer.now);
        peer.sent();
        if is_first {
            peer.deliver(&fin, 0);
        }
        peer.seq += 1;
        let posted = peer.connection.write_seq();
        peer.connection.park();
        let nothing = std::iter::empty();
        peer.connection.take_over(peer.now, posted, true, nothing);
        peer.acknowledge(peer.connection.snd_nxt());
        let state = if is_first {
            State::TimeWait
        } else {
            State::Closed
        };
        assert_eq!(peer.connection.state(), state);
    }
}
