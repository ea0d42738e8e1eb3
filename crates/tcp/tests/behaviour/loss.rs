//! Loss detection and recovery.

use std::time::Duration;

use tcp::{Algorithm, Config};
use wire::SeqNum;
use wire::tcp::{Flags, Options};

use crate::pair::{App, Link, Pair, Setup};
use crate::peer::{Peer, modern};
use crate::{MSS, ms};

/// A bulk sender with ten segments outstanding from the position returned.
pub fn ten_outstanding(config: &Config, options: Options) -> (Peer, SeqNum, u32) {
    let mut peer = Peer::connected(config, options);
    let base = peer.connection.snd_nxt();
    peer.queue(1 << 20);
    let sent = peer.sent_bytes();
    let mss = u32::from(peer.connection.mss());
    assert_eq!(sent, 10 * mss, "RFC 6928: an initial window of ten");
    peer.pass(ms(10));
    (peer, base, mss)
}

/// All that is outstanding is acknowledged after 10 ms, every second segment; gives the end of it.
pub fn a_round_later(peer: &mut Peer, mut acked: SeqNum) -> SeqNum {
    peer.pass(ms(10));
    let nxt = peer.connection.snd_nxt();
    while acked.before(nxt) {
        acked = (acked + 2 * MSS).min(nxt);
        peer.acknowledge(acked);
    }
    acked
}

/// So many segments of bulk data, all of them sent 10 ms ago; gives the position of the first.
pub fn outstanding(segments: u32) -> (Peer, SeqNum) {
    let mut peer = Peer::modern();
    let base = peer.connection.snd_nxt();
    peer.queue(segments * MSS);
    peer.sent();
    peer.pass(ms(10));
    (peer, base)
}

/// RFC 6675 §5: three segments above the hole, and it is sent again, once.
#[test]
fn three_segments_above_a_hole_repair_it() {
    let (mut peer, base, mss) = ten_outstanding(&Config::default(), modern());
    peer.acknowledge(base + mss);
    peer.sent();
    peer.sack(&[(base + 2 * mss, base + 4 * mss)]);
    assert!(
        peer.sent_data().iter().all(|(seq, _)| *seq != base + mss),
        "perhaps only reordered"
    );
    peer.sack(&[(base + 2 * mss, base + 5 * mss)]);
    let resent = peer.sent_data();
    assert_eq!(resent.first(), Some(&(base + mss, mss)));
    assert_eq!(peer.info().recovery, "recovery");
    peer.sack(&[(base + 2 * mss, base + 6 * mss)]);
    assert!(
        peer.sent_data().iter().all(|(seq, _)| *seq != base + mss),
        "once is enough"
    );
    let info = peer.info();
    assert_eq!((info.retrans, info.bytes_retrans), (1, mss.into()));
}

/// RFC 8985 §6.2: two segments above the hole and some time do as well.
#[test]
fn time_tells_loss_from_reordering() {
    let (mut peer, base, mss) = ten_outstanding(&Config::default(), modern());
    peer.sack(&[(base + mss, base + 2 * mss)]);
    assert_eq!(peer.info().lost, 0);
    peer.sent();
    // A quarter of the smallest round-trip time.
    let waited = peer.next_timer().expect("the reordering timer");
    assert!(waited <= ms(3) && waited >= ms(2), "{waited:?}");
    assert_eq!(peer.sent_data().first(), Some(&(base, mss)));
}

/// RFC 6675 §4, NextSeg: adjacent holes go out together, TSO-sized.
#[test]
fn adjacent_losses_are_resent_together() {
    let mut peer = Peer::modern();
    let base = peer.connection.snd_nxt();
    peer.queue(1 << 20);
    peer.sent();
    // Let the window grow to 40 segments.
    let mut acked = base;
    for _ in 0..2 {
        acked = a_round_later(&mut peer, acked);
        peer.sent();
    }
    peer.pass(ms(10));
    let nxt = peer.connection.snd_nxt();
    assert!(acked.distance_to(nxt) >= 36 * MSS);
    peer.sack(&[(acked + 8 * MSS, acked + 36 * MSS)]);
    let resent = peer.sent();
    assert!(resent[0].retransmit);
    assert_eq!((resent[0].header.seq, resent[0].payload), (acked, 8 * MSS));
}

/// RFC 8985 §6.2: a retransmission that is lost is found lost, without a timeout.
#[test]
fn a_lost_retransmission_is_sent_again() {
    let (mut peer, base, mss) = ten_outstanding(&Config::default(), modern());
    peer.sack(&[(base + mss, base + 5 * mss)]);
    assert_eq!(peer.sent_data().first(), Some(&(base, mss)));
    // New data that was sent after the retransmission arrives.
    let fresh = base + 10 * mss;
    peer.pass(ms(10));
    peer.sack(&[(base + mss, base + 10 * mss)]);
    peer.sent();
    peer.pass(ms(10));
    peer.sack(&[(fresh, fresh + mss), (base + mss, base + 10 * mss)]);
    peer.pass(ms(5));
    let resent = peer.sent_data();
    assert_eq!(resent.first(), Some(&(base, mss)), "{resent:?}");
    assert_eq!(peer.info().timeouts, 0);
}

/// RFC 3708: fast retransmits that were all duplicates are taken back, and reordering is remembered.
#[test]
fn dsacks_undo_a_needless_recovery() {
    let (mut peer, base, mss) = ten_outstanding(&Config::default(), modern());
    let before = peer.info().cwnd;
    peer.sack(&[(base + mss, base + 4 * mss)]);
    assert_eq!(peer.sent_data().first(), Some(&(base, mss)));
    assert!(peer.info().cwnd < before);
    peer.acknowledge(base + 10 * mss);
    peer.sent();
    peer.ack = base + 10 * mss;
    peer.sack(&[(base, base + mss)]);
    let info = peer.info();
    assert_eq!((info.undos, info.dsack_dups), (1, 1));
    assert!(info.cwnd >= before && info.reordering_seen);
}

/// A reduction of long ago is not taken back: what is reported twice then was not resent in it.
#[test]
fn late_dsacks_bring_no_old_window_back() {
    let (mut peer, base, mss) = ten_outstanding(&Config::default(), modern());
    peer.sack(&[(base + mss, base + 4 * mss)]);
    assert_eq!(peer.sent_data().first(), Some(&(base, mss)));
    peer.acknowledge(base + 10 * mss);
    peer.sent();
    // Two round-trip times later.
    for _ in 0..2 {
        peer.pass(ms(10));
        let nxt = peer.connection.snd_nxt();
        peer.acknowledge(nxt);
        peer.sent();
    }
    let before = peer.info();
    // A copy that the network made.
    let end = peer.ack;
    peer.sack(&[(end - mss, end)]);
    let info = peer.info();
    assert_eq!((info.undos, info.cwnd), (0, before.cwnd));
}

/// RFC 2018 §8: what was selectively acknowledged may be dropped by the peer.
#[test]
fn reneging_is_survived() {
    let (mut peer, base, mss) = ten_outstanding(&Config::default(), modern());
    peer.sack(&[(base + mss, base + 10 * mss)]);
    peer.sent();
    peer.acknowledge(base + mss);
    let mut resent = Vec::new();
    for _ in 0..30 {
        peer.next_timer();
        for (seq, len) in peer.sent_data() {
            resent.push(seq);
            let end = seq + len;
            if seq == peer.ack {
                peer.acknowledge(end);
            }
        }
    }
    assert!(peer.ack.at_or_after(base + 10 * mss), "{resent:?}");
}

/// RFC 6675 §5.1: as long as the oldest segment is not selectively acknowledged, a timeout forgets nothing that the peer has.
#[test]
fn a_timeout_resends_only_what_the_peer_has_not() {
    let (mut peer, base, mss) = ten_outstanding(&Config::default(), modern());
    let had = [base + 2 * mss, base + 3 * mss];
    peer.sack(&[(base + 2 * mss, base + 4 * mss)]);
    peer.sent();
    while peer.info().recovery != "loss" {
        peer.next_timer();
        let resent = peer.sent_data();
        assert!(resent.iter().all(|(seq, _)| !had.contains(seq)));
    }
    let mut resent = Vec::new();
    while peer.ack.before(base + 10 * mss) && resent.len() < 50 {
        let sent = peer.sent_data();
        if sent.is_empty() {
            peer.next_timer();
        }
        for (seq, len) in sent {
            resent.push(seq);
            if seq == peer.ack {
                let end = seq + len;
                peer.acknowledge(if end == had[0] { base + 4 * mss } else { end });
            }
        }
    }
    assert!(peer.ack.at_or_after(base + 10 * mss), "{resent:?}");
    assert!(resent.iter().all(|seq| !had.contains(seq)), "{resent:?}");
}

/// RFC 5681 §3.2 and RFC 6582 without SACK.
#[test]
fn duplicate_acks_do_without_sack() {
    let options = Options {
        sack_permitted: false,
        ..modern()
    };
    let (mut peer, base, mss) = ten_outstanding(
        &Config {
            congestion: Algorithm::NewReno,
            ..Config::default()
        },
        options,
    );
    // The first only brings a larger window.
    peer.acknowledge(base);
    for _ in 0..2 {
        peer.acknowledge(base);
        // RFC 3042: limited transmit.
        assert_eq!(peer.sent_bytes(), mss);
    }
    peer.acknowledge(base);
    assert_eq!(peer.sent_data().first(), Some(&(base, mss)));
    // A partial ACK: the next hole, at once.
    peer.acknowledge(base + 5 * mss);
    assert_eq!(peer.sent_data().first(), Some(&(base + 5 * mss, mss)));
    let nxt = peer.connection.snd_nxt();
    peer.acknowledge(nxt);
    assert_eq!(peer.info().recovery, "open");
}

/// RFC 6937: in recovery no more is sent than was delivered, give or take a segment.
#[test]
fn recovery_sends_in_proportion() {
    let mut peer = Peer::modern();
    let base = peer.connection.snd_nxt();
    peer.queue(4 << 20);
    peer.sent();
    let mut acked = base;
    for _ in 0..3 {
        peer.pass(ms(10));
        let nxt = peer.connection.snd_nxt();
        while acked.before(nxt) {
            acked = (acked + 2 * MSS).min(nxt);
            peer.acknowledge(acked);
            peer.sent();
        }
    }
    peer.pass(ms(10));
    let outstanding = acked.distance_to(peer.connection.snd_nxt());
    let segments = outstanding / MSS;
    // The first segment is lost, the others come one by one.
    let mut sent_in_recovery = 0;
    for n in 2..=segments {
        peer.sack(&[(acked + MSS, acked + n * MSS)]);
        let sent = peer.sent_bytes();
        if n > 4 {
            assert!(sent <= 2 * MSS, "a burst of {sent}");
        }
        sent_in_recovery += sent;
    }
    assert!(sent_in_recovery > outstanding / 2, "it does not pause");
    let info = peer.info();
    let ssthresh = info.ssthresh.expect("a loss");
    assert!(
        info.in_flight.abs_diff(ssthresh) <= 2 * MSS,
        "{} for {ssthresh}",
        info.in_flight
    );
}

/// Every segment but its first transmission arrives: no timeout is needed for any loss that later data shows.
#[test]
fn scattered_losses_cost_no_timeout() {
    for algorithm in [Algorithm::NewReno, Algorithm::Cubic] {
        for seed in 0..10 {
            let config = Config {
                congestion: algorithm,
                ..Config::default()
            };
            let link = Link {
                loss: 0.005,
                delay: ms(5),
                ..Link::default()
            };
            let mut pair = Pair::new(Setup {
                configs: [config.clone(), config],
                apps: [App::sends(4 << 20), App::default()],
                links: [link, Link { loss: 0.0, ..link }],
                seed,
                ..Setup::default()
            });
            pair.run_to_end(Duration::from_secs(600));
            let info = pair.sides[0].connection.info(pair.now);
            assert_eq!(info.timeouts, 0, "seed {seed}: {info:?}");
            let wasted = info.bytes_retrans / u64::from(info.snd_mss);
            assert!(
                wasted <= pair.dropped + 3,
                "{wasted} resent for {} lost",
                pair.dropped
            );
        }
    }
}

/// RFC 8985: reordering within a quarter of the round-trip time costs next to nothing.
#[test]
fn reordering_is_not_loss() {
    for seed in 0..5 {
        let link = Link {
            reorder: 0.02,
            delay: ms(5),
            jitter: ms(2),
            ..Link::default()
        };
        let mut pair = Pair::new(Setup {
            apps: [App::sends(16 << 20), App::default()],
            links: [link; 2],
            seed,
            ..Setup::default()
        });
        pair.run_to_end(Duration::from_secs(600));
        let info = pair.sides[0].connection.info(pair.now);
        assert!(info.reordering_seen);
        assert!(
            info.bytes_retrans * 100 < 16 << 20,
            "{} resent",
            info.bytes_retrans
        );
    }
}

/// A path that takes smaller packets than thought (RFC 1191, RFC 8201).
#[test]
fn a_smaller_path_mtu_is_obeyed() {
    let limit = 1200;
    let mut pair = Pair::new(Setup {
        apps: [App::sends(1 << 20), App::default()],
        ..Setup::default()
    });
    pair.filter = Some(Box::new(move |_, packet| packet.len() + 12 <= limit));
    pair.run_until(ms(50), |pair| pair.dropped > 0);
    let now = pair.now;
    pair.sides[0].connection.handle_path_mss(now, limit as u16);
    pair.run_to_end(Duration::from_secs(60));
    assert_eq!(u32::from(pair.sides[0].connection.mss()), limit - 12);
}

/// RFC 1191 §6.3, RFC 8201 §4: the path may take larger packets again.
#[test]
fn a_path_that_was_small_is_tried_again_after_some_minutes() {
    let mut peer = Peer::modern();
    let full = peer.connection.mss();
    let answered_after = |peer: &mut Peer, wait: Duration| {
        peer.pass(wait);
        peer.queue(100);
        let sent = peer.sent().pop().expect("data").header;
        peer.pass(ms(10));
        peer.acknowledge(sent.seq + 100);
        peer.connection.mss()
    };
    peer.connection.handle_path_mss(peer.now, 1000);
    assert_eq!(peer.connection.mss(), 1000 - 12);
    let minutes = |count: u64| Duration::from_secs(60 * count);
    assert_eq!(answered_after(&mut peer, minutes(9)), 1000 - 12);
    // Another owner has had it meanwhile.
    let tcb = peer.connection.tcb(peer.now).expect("it is open");
    peer.connection.put_back(peer.now, &tcb);
    assert_eq!(peer.connection.mss(), 1000 - 12);
    assert_eq!(answered_after(&mut peer, minutes(10)), full);
}

/// The receiver tells of duplicates (RFC 2883 §4), and of what came last first (RFC 2018 §4).
#[test]
fn the_receiver_reports_ranges_and_duplicates() {
    let mut peer = Peer::connected(
        &Config {
            delayed_ack: None,
            ..Config::default()
        },
        modern(),
    );
    let base = peer.seq;
    let blocks = |peer: &mut Peer| {
        let ack = peer.sent().pop().expect("an ACK").header;
        assert_eq!(ack.flags, Flags::ACK);
        let offset = |seq: SeqNum| base.distance_to(seq);
        ack.options
            .sack
            .iter()
            .map(|(start, end)| (offset(start), offset(end)))
            .collect::<Vec<_>>()
    };
    peer.data_ahead(1000, 100);
    assert_eq!(blocks(&mut peer), [(1000, 1100)]);
    peer.data_ahead(3000, 100);
    assert_eq!(blocks(&mut peer), [(3000, 3100), (1000, 1100)]);
    peer.data_ahead(2000, 100);
    assert_eq!(
        blocks(&mut peer),
        [(2000, 2100), (3000, 3100), (1000, 1100)]
    );
    peer.data_ahead(1100, 100);
    assert_eq!(
        blocks(&mut peer),
        [(1000, 1200), (2000, 2100), (3000, 3100)]
    );
    // A duplicate inside a range: it and the range around it.
    assert_eq!(peer.data_ahead(1050, 100).data, None);
    assert_eq!(
        blocks(&mut peer),
        [(1050, 1150), (1000, 1200), (2000, 2100)]
    );
    peer.data(1000);
    assert_eq!(blocks(&mut peer), [(2000, 2100), (3000, 3100)]);
    // A duplicate of what is in order.
    let mut old = peer.header(Flags::ACK);
    old.seq = base;
    assert_eq!(peer.deliver(&old, 500).data, None);
    assert_eq!(blocks(&mut peer)[0], (0, 500));
    assert!(peer.sent().is_empty());
}
