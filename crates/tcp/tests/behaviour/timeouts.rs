//! The timers of sending: tail loss probe and retransmission timeout.

use std::time::Duration;

use tcp::{Config, State};
use wire::tcp::Options;

use crate::loss::{a_round_later, outstanding, ten_outstanding};
use crate::peer::{Peer, modern};
use crate::{MSS, ms};

/// RFC 8985 §7: the loss of the last segments is found by a probe, not by a timeout.
#[test]
fn a_lost_tail_is_probed() {
    let mss = MSS;
    let (mut peer, base) = outstanding(6);
    peer.acknowledge(base + 3 * mss);
    let waited = peer.next_timer().expect("a probe timeout");
    assert!(waited <= ms(25), "two round-trip times: {waited:?}");
    let probe = peer.sent_data();
    assert_eq!(probe, [(base + 5 * mss, mss)], "the last segment again");
    peer.pass(ms(10));
    // The probe's SACK shows the hole: fast recovery.
    peer.sack(&[(base + 5 * mss, base + 6 * mss)]);
    peer.pass(ms(5));
    assert_eq!(peer.sent_data().first(), Some(&(base + 3 * mss, mss)));
    assert_eq!(peer.info().timeouts, 0);
}

/// RFC 8985 §7.3: a probe is new data when there is some.
#[test]
fn a_probe_prefers_new_data() {
    let (mut peer, base, mss) = ten_outstanding(&Config::default(), modern());
    peer.next_timer();
    assert_eq!(peer.sent_data(), [(base + 10 * mss, mss)]);
    // One probe only: then the retransmission timer.
    peer.next_timer();
    assert_eq!(peer.info().timeouts, 1);
    assert_eq!(peer.sent_data().first().map(|(seq, _)| *seq), Some(base));
}

/// RFC 8985 §7.4: a loss that the probe repaired still reduces the window.
#[test]
fn a_loss_repaired_by_a_probe_counts() {
    let (mut peer, base) = outstanding(10);
    peer.acknowledge(base + 9 * MSS);
    peer.next_timer();
    assert_eq!(peer.sent_data(), [(base + 9 * MSS, MSS)]);
    let before = peer.info().cwnd;
    peer.queue(MSS);
    peer.sent();
    peer.pass(ms(10));
    peer.acknowledge(base + 11 * MSS);
    assert!(peer.info().cwnd < before);
    // With a DSACK it was for nothing.
    let (mut peer, base) = outstanding(10);
    peer.acknowledge(base + 9 * MSS);
    peer.next_timer();
    peer.sent();
    let before = peer.info().cwnd;
    peer.ack = base + 10 * MSS;
    peer.sack(&[(base + 9 * MSS, base + 10 * MSS)]);
    assert!(peer.info().cwnd >= before);
}

/// It comes when all is acknowledged, and is heard all the same (RFC 8985 §7.4.2).
#[test]
fn a_report_that_a_probe_came_twice_may_be_late() {
    let (mut peer, base) = outstanding(10);
    peer.acknowledge(base + 9 * MSS);
    peer.next_timer();
    assert_eq!(peer.sent_data(), [(base + 9 * MSS, MSS)]);
    peer.acknowledge(base + 10 * MSS);
    peer.ack = base + 10 * MSS;
    peer.sack(&[(base + 9 * MSS, base + 10 * MSS)]);
    let before = peer.info();
    assert_eq!(before.dsack_dups, 1);
    assert!(!before.reordering_seen, "a probe is no reordering");
    peer.queue(MSS);
    peer.sent();
    peer.pass(ms(10));
    peer.acknowledge(base + 11 * MSS);
    assert!(peer.info().cwnd >= before.cwnd);
}

/// RFC 8985 §6.3: a timeout says nothing of what was sent less than a round-trip time before it.
#[test]
fn a_timeout_leaves_alone_what_was_sent_just_before_it() {
    let (mut peer, base) = outstanding(2);
    peer.acknowledge(base + MSS);
    let base = base + MSS;
    peer.next_timer();
    peer.sent();
    let timeout = peer.connection.poll_timeout().expect("a timeout") - peer.now;
    peer.pass(timeout - ms(1));
    peer.queue(MSS);
    assert_eq!(peer.sent_data(), [(base + MSS, MSS)]);
    peer.pass(ms(1));
    assert_eq!(peer.info().recovery, "loss");
    assert_eq!(peer.sent_data(), [(base, MSS)]);
    peer.pass(ms(5));
    peer.acknowledge(base + MSS);
    assert_eq!(peer.sent_data(), []);
}

/// RFC 2018 §2: blocks of a peer that has not agreed to SACK are nothing.
#[test]
fn a_report_of_a_peer_without_sack_is_not_heard() {
    let options = Options {
        sack_permitted: false,
        ..modern()
    };
    let mut peer = Peer::connected(&Config::default(), options);
    let base = peer.connection.snd_nxt();
    peer.queue(2 * MSS);
    peer.sent();
    peer.acknowledge(base + MSS);
    while peer.info().retrans == 0 {
        peer.next_timer();
        peer.sent();
    }
    peer.acknowledge(base + 2 * MSS);
    peer.sack(&[(base + MSS, base + 2 * MSS)]);
    assert_eq!((peer.info().dsack_dups, peer.info().undos), (0, 0));
}

/// RFC 8985 §7.3: the last segment, with the FIN that it had.
#[test]
fn a_probe_has_the_last_data_with_the_fin() {
    let mut peer = Peer::modern();
    let base = peer.connection.snd_nxt();
    peer.queue(6 * MSS);
    peer.connection.close(peer.now);
    peer.sent();
    peer.next_timer();
    assert_eq!(peer.sent_data(), [(base + 5 * MSS, MSS)]);
}

/// RFC 6298 §5.1: what is sent later does not put the timer off.
#[test]
fn data_that_goes_on_to_be_sent_does_not_keep_a_loss_from_being_found() {
    let mut peer = Peer::connected(
        &Config {
            nagle: false,
            ..Config::default()
        },
        modern(),
    );
    let base = peer.connection.snd_nxt();
    let began = peer.now;
    let mut is_probed = false;
    while peer.now < began + Duration::from_secs(2) && !is_probed {
        peer.queue(100);
        peer.sent();
        peer.pass(ms(5));
        is_probed = peer.sent().iter().any(|sent| sent.retransmit);
    }
    assert!(
        is_probed && peer.now <= began + ms(1_100),
        "{:?}",
        peer.now - began
    );
    assert!(peer.connection.snd_una() == base);
}

/// RFC 8985 §7.4.2: a peer that sends no DSACK repeats its ACK when the probe was for nothing. That ends the matter; an ACK that brings a
/// window does not, and may be of the probe's original.
#[test]
fn an_ack_that_the_probe_repeats_shows_that_nothing_was_lost() {
    for window_moves in [false, true] {
        let (mut peer, base) = outstanding(10);
        peer.acknowledge(base + 9 * MSS);
        peer.next_timer();
        assert_eq!(peer.sent_data(), [(base + 9 * MSS, MSS)]);
        peer.queue(MSS);
        assert_eq!(peer.sent_data(), [(base + 10 * MSS, MSS)]);
        let before = peer.info().cwnd;
        // The original arrives, then the probe.
        peer.acknowledge(base + 10 * MSS);
        peer.window -= u16::from(window_moves);
        peer.acknowledge(base + 10 * MSS);
        peer.acknowledge(base + 11 * MSS);
        let after = peer.info().cwnd;
        assert_eq!(after < before, window_moves, "{before} then {after}");
    }
}

/// RFC 6298 §5: backoff; RFC 5681 §3.1: one segment.
#[test]
fn timeouts_back_off() {
    let (mut peer, base, mss) = ten_outstanding(&Config::default(), modern());
    peer.next_timer();
    peer.sent();
    let mut last = Duration::ZERO;
    for round in 0..5 {
        let waited = peer.next_timer().expect("a timer");
        if round > 0 {
            assert!(
                waited >= last * 2 - ms(1) && waited <= last * 2 + ms(1),
                "{waited:?} after {last:?}"
            );
        }
        last = waited;
        assert_eq!(peer.sent_data(), [(base, mss)], "round {round}");
        assert_eq!(peer.info().cwnd, mss);
    }
    let info = peer.info();
    assert_eq!(info.timeouts, 5);
    assert_eq!(
        info.ssthresh,
        Some((f64::from(10 * mss) * 0.7) as u32),
        "reduced once"
    );
    // Progress that its timestamp measures ends the backoff.
    peer.pass(ms(10));
    peer.acknowledge(base + mss);
    assert_eq!(peer.info().backoff, 0);
}

/// Karn's algorithm, RFC 6298 §5: an ACK of what was sent twice measures nothing, and the RTO stays backed off until
/// one of something sent once.
#[test]
fn only_a_measurement_ends_the_backoff() {
    let options = Options {
        timestamps: None,
        sack_permitted: false,
        ..modern()
    };
    let (mut peer, base, mss) = ten_outstanding(&Config::default(), options);
    for _ in 0..3 {
        peer.next_timer();
        peer.sent();
    }
    let backed_off = peer.info();
    assert_eq!(backed_off.backoff, 3);
    peer.pass(ms(10));
    // There is no room for new data, by which the timeout could be judged (RFC 5682).
    let open = std::mem::replace(&mut peer.window, ((9 * mss) >> 7) as u16);
    peer.acknowledge(base + mss);
    let info = peer.info();
    assert_eq!((info.backoff, info.rto), (3, backed_off.rto));
    peer.window = open;
    // The rest is resent, and what is new after it measures.
    let mut resent = peer.sent_data();
    while let Some((seq, len)) = resent.pop() {
        peer.pass(ms(10));
        peer.acknowledge(peer.ack.max(seq + len));
        resent.extend(peer.sent_data());
        if peer.ack.after(base + 10 * mss) {
            break;
        }
        assert_eq!(peer.info().backoff, 3);
    }
    let info = peer.info();
    assert_eq!(info.backoff, 0);
    assert!(info.rto < backed_off.rto / 4);
}

/// The tries that end a connection are those since the last progress, measured or not.
#[test]
fn progress_without_a_measurement_counts_as_progress() {
    let options = Options {
        timestamps: None,
        sack_permitted: false,
        ..modern()
    };
    let config = Config {
        retries: 3,
        ..Config::default()
    };
    let (mut peer, base, mss) = ten_outstanding(&config, options);
    for round in 1..=4 {
        for _ in 0..2 {
            peer.next_timer();
            peer.sent();
        }
        peer.acknowledge(base + round * mss);
        peer.sent();
        assert_eq!(peer.connection.state(), State::Established, "{round}");
    }
}

/// RFC 4015: a timeout that came too early is taken back.
#[test]
fn a_spurious_timeout_is_undone() {
    let (mut peer, base, mss) = ten_outstanding(&Config::default(), modern());
    let before = peer.info().cwnd;
    let original = peer.timestamps;
    peer.next_timer();
    peer.sent();
    peer.next_timer();
    assert_eq!(peer.sent_data(), [(base, mss)]);
    assert_eq!(peer.info().cwnd, mss);
    // The ACK echoes the first transmission's timestamp.
    peer.timestamps = original;
    peer.pass(ms(5));
    peer.acknowledge(base + 2 * mss);
    let info = peer.info();
    assert_eq!(info.undos, 1);
    assert!(info.cwnd >= before);
    assert_eq!(info.lost, 0);
}

/// RFC 5681 §4.1: after idling the window is not used all at once.
#[test]
fn an_idle_connection_starts_slowly() {
    let mut peer = Peer::modern();
    let base = peer.connection.snd_nxt();
    peer.queue(1 << 20);
    let mut acked = base;
    for _ in 0..4 {
        peer.sent();
        acked = a_round_later(&mut peer, acked);
    }
    let grown = peer.info().cwnd;
    assert!(grown > 80 * MSS);
    while peer.connection.snd_una() != peer.connection.write_seq() {
        peer.sent();
        let nxt = peer.connection.snd_nxt();
        peer.pass(ms(10));
        peer.acknowledge(nxt);
    }
    peer.pass(Duration::from_secs(10));
    peer.queue(1 << 20);
    let burst = peer.sent_bytes();
    assert_eq!(burst, 10 * MSS);
}

/// RFC 7323 §4.1: a timestamp that is echoed again, by an ACK of nothing new, tells no round-trip time.
#[test]
fn an_ack_of_nothing_new_tells_no_round_trip_time() {
    let mut peer = Peer::modern();
    peer.queue(1000);
    peer.sent();
    peer.pass(ms(20));
    peer.acknowledge(peer.connection.snd_nxt());
    let srtt = peer.info().srtt;
    let echo = peer.timestamps;
    peer.queue(1000);
    peer.sent();
    peer.timestamps = echo;
    peer.pass(ms(150));
    peer.acknowledge(peer.ack);
    assert_eq!(peer.info().srtt, srtt);
}
