//! A connection changes its owner in the middle of everything: its control block is taken out and put back.

use std::time::Duration;

use proptest::prelude::*;
use tcp::{Config, Connection, KeepAlive, State};

use crate::ms;
use crate::pair::{App, Link, Pair, Setup};
use crate::peer::Peer;

/// Takes the control block of a side out, and puts it into a connection that knows nothing, or into the one that it was in.
pub fn change_owner(pair: &mut Pair, side: usize, config: &Config, anew: bool) {
    let connection = &mut pair.sides[side].connection;
    let Some(tcb) = connection.tcb(pair.now) else {
        return;
    };
    if anew {
        *connection = Connection::resume(pair.now, config, &tcb);
    } else {
        connection.put_back(pair.now, &tcb);
    }
    connection.assert_invariants();
    let after = connection.tcb(pair.now).expect("it is synchronized");
    assert_eq!(after.snd_una..after.snd_nxt, tcb.snd_una..tcb.snd_nxt);
    assert_eq!(
        (after.rcv_nxt, after.unread, &after.held),
        (tcb.rcv_nxt, tcb.unread, &tcb.held)
    );
    assert_eq!((after.state, after.linger), (tcb.state, tcb.linger));
}

fn config(timestamps: bool, sack: bool, window_scale: bool) -> Config {
    Config {
        timestamps,
        sack,
        window_scale,
        rcv_buf: 64 << 10,
        ..Config::default()
    }
}

proptest! {
    #![proptest_config(crate::cases(24))]

    /// Whatever is lost, late or doubled: no byte is lost by the move, and both ends close in order.
    #[test]
    fn a_move_loses_nothing(
        moves in prop::collection::vec((1u64..60, 0usize..2, any::<bool>()), 1..24),
        totals in (0u64..400_000, 0u64..400_000),
        (loss, reorder, duplicate) in (0.0f64..0.05, 0.0f64..0.1, 0.0f64..0.05),
        (timestamps, sack, window_scale) in any::<(bool, bool, bool)>(),
        (paced, closes_first, seed) in any::<(bool, bool, u64)>(),
    ) {
        let config = config(timestamps, sack, window_scale);
        let link = Link { loss, reorder, duplicate, ..Link::default() };
        let mut pair = Pair::both_send(&config, totals, link, paced, closes_first, seed);
        for (wait, side, anew) in moves {
            pair.run(ms(wait));
            change_owner(&mut pair, side, &config, anew);
        }
        pair.run_to_end(Duration::from_secs(600));
    }
}

/// In each state that the move can meet, the close goes on to its end.
#[test]
fn every_synchronized_state_can_move() {
    let config = Config::default();
    let states = [
        State::Established,
        State::FinWait1,
        State::FinWait2,
        State::CloseWait,
        State::Closing,
        State::LastAck,
        State::TimeWait,
    ];
    for state in states {
        let together = state == State::Closing;
        let short = Config {
            snd_buf: 20_000,
            ..Config::default()
        };
        let mut pair = Pair::new(Setup {
            configs: [config.clone(), short],
            apps: [
                App::sends(9000),
                // LAST-ACK and CLOSE-WAIT are of the side that closes second.
                App {
                    total: if together { 9000 } else { 200_000 },
                    closes_first: together,
                    ..App::default()
                },
            ],
            links: [Link {
                delay: ms(10),
                rate: 10_000_000,
                ..Link::default()
            }; 2],
            ..Setup::default()
        });
        pair.run_until(Duration::from_secs(9), |pair| {
            pair.sides.iter().any(|side| side.state() == state)
        });
        let side = usize::from(pair.sides[0].state() != state);
        assert_eq!(pair.sides[side].state(), state);
        for _ in 0..3 {
            change_owner(&mut pair, side, &config, true);
            pair.run(ms(1));
        }
        // What the application has read before the move does not make the buffer grow, nor does the peer's FIN.
        let connection = &mut pair.sides[side].connection;
        let buffer = connection.info(pair.now).rcv_space;
        connection.consumed(pair.now + ms(1000), 0);
        assert_eq!(connection.info(pair.now).rcv_space, buffer);
        pair.run_to_end(Duration::from_secs(120));
    }
}

/// RFC 5681 §4.1: after the move at most an initial window goes out at once.
#[test]
fn the_congestion_window_starts_anew() {
    let config = Config::default();
    let mut pair = Pair::new(Setup {
        apps: [App::sends(8 << 20), App::default()],
        ..Setup::default()
    });
    pair.run_until(Duration::from_secs(5), |pair| pair.sides[1].read > 4 << 20);
    let before = pair.sides[0].connection.info(pair.now).cwnd;
    change_owner(&mut pair, 0, &config, true);
    let after = pair.sides[0].connection.info(pair.now).cwnd;
    assert!(before > 20 * 1448, "it had grown: {before}");
    assert_eq!(after, 10 * 1448);
    pair.run_to_end(Duration::from_secs(30));
}

/// What a connection waits for, it goes on waiting for where another owner has stopped: for an acknowledgment, and for a window.
#[test]
fn a_wait_goes_on_where_it_stopped() {
    let goes_on = |peer: &mut Peer, what: &str| {
        let due = peer.connection.poll_timeout().expect(what);
        let half = due.saturating_duration_since(peer.now) / 2;
        assert!(half > ms(1), "{what}: {half:?}");
        peer.pass(half);
        let tcb = peer.connection.tcb(peer.now).expect("it is synchronized");
        let resumed = Connection::hand_over(peer.now, &Config::default(), &tcb);
        let again = resumed.poll_timeout().expect(what);
        let apart = again.max(due) - again.min(due);
        assert!(apart <= ms(1), "{what}: {apart:?} apart");
    };
    let mut peer = Peer::modern();
    peer.queue(1000);
    peer.sent();
    goes_on(&mut peer, "a tail loss probe");
    peer.next_timer();
    peer.sent();
    goes_on(&mut peer, "a retransmission");
    let mut peer = Peer::modern();
    peer.window = 0;
    peer.queue(1000);
    peer.sent();
    peer.acknowledge(peer.connection.snd_nxt());
    peer.queue(1000);
    peer.sent();
    // The second probe: the first one is sent soon.
    peer.next_timer();
    peer.sent();
    goes_on(&mut peer, "a window");
}

/// What is settled between the peers, and what is not.
#[test]
fn drained_is_when_nothing_is_due() {
    let mut pair = Pair::new(Setup {
        apps: [
            App {
                total: 5000,
                closes_first: false,
                ..App::default()
            },
            App {
                closes_first: false,
                ..App::default()
            },
        ],
        ..Setup::default()
    });
    pair.run_until(ms(100), |pair| pair.sides[0].written == 5000);
    assert!(
        !pair.sides[0].connection.is_drained(),
        "sent and not acknowledged"
    );
    pair.run(ms(500));
    for side in &pair.sides {
        assert_eq!(side.state(), State::Established);
        assert!(
            side.connection.is_drained(),
            "{:?}",
            side.connection.tcb(pair.now)
        );
    }
}

#[test]
fn what_is_under_way_is_not_drained() {
    let mut peer = Peer::modern();
    assert!(peer.connection.is_drained());
    peer.queue(1000);
    assert!(!peer.connection.is_drained(), "not sent");
    peer.sent();
    assert!(!peer.connection.is_drained(), "not acknowledged");
    peer.acknowledge(peer.connection.snd_nxt());
    assert!(peer.connection.is_drained());
    // What came twice is acknowledged again, though nothing new has come.
    peer.data(1000);
    assert!(peer.connection.owes_ack(), "not acknowledged to the peer");
    peer.sent();
    peer.connection.consumed(peer.now, 1000);
    peer.sent();
    assert!(peer.connection.is_drained());
    peer.seq -= 1000;
    peer.data(1000);
    assert!(peer.connection.owes_ack() && !peer.connection.is_drained());
    peer.sent();
    assert!(!peer.connection.owes_ack() && peer.connection.is_drained());
}

/// The new owner of the connection does not know that a probe is due.
#[test]
fn a_keep_alive_probe_is_under_way_until_it_is_sent() {
    let mut peer = Peer::modern();
    peer.connection.set_keep_alive(
        peer.now,
        Some(KeepAlive {
            idle: ms(10_000),
            interval: ms(2000),
            probes: 3,
        }),
    );
    assert!(peer.connection.is_drained());
    peer.pass(ms(10_000));
    assert!(!peer.connection.is_drained());
    assert_eq!(peer.sent().len(), 1);
    assert!(peer.connection.is_drained());
}

/// What another owner has moved is this side's traffic too.
#[test]
fn what_was_forwarded_is_counted_with_the_rest() {
    let mut peer = Peer::modern();
    peer.data(70);
    peer.queue(30);
    peer.sent();
    peer.acknowledge(peer.connection.snd_nxt());
    peer.connection.count_forwarded(1000, 2000, 1500);
    peer.connection.count_forwarded(1, 2, 3);
    let info = peer.info();
    assert_eq!(
        (info.bytes_received, info.bytes_sent, info.bytes_acked),
        (1071, 2032, 1533)
    );
}
