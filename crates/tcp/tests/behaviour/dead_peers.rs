//! When a peer is given up: keep-alive, user timeout, retries.

use std::time::Duration;

use tcp::{CloseReason, Config, Event, KeepAlive, State};
use wire::tcp::{Flags, Options};

use crate::ms;
use crate::peer::{Peer, modern};

/// RFC 9293 §3.8.4.
#[test]
fn keep_alive_finds_a_dead_peer() {
    let keep_alive = KeepAlive {
        idle: Duration::from_secs(10),
        interval: Duration::from_secs(2),
        probes: 3,
    };
    let config = Config {
        keep_alive: Some(keep_alive),
        ..Config::default()
    };
    let mut peer = Peer::connected(&config, modern());
    peer.pass(Duration::from_secs(5));
    peer.data(10);
    peer.sent();
    // 10 s after the last that was heard.
    while peer.sent().is_empty() {
        assert!(peer.next_timer().is_some());
    }
    assert_eq!(peer.now - peer.start, ms(15_010));
    let ack = peer.ack;
    peer.acknowledge(ack);
    while peer.sent().is_empty() {
        assert!(peer.next_timer().is_some());
    }
    for _ in 0..3 {
        assert_eq!(peer.next_timer(), Some(Duration::from_secs(2)));
        peer.sent();
    }
    assert_eq!(peer.event(), Some(Event::Closed(CloseReason::TimedOut)));
}

/// As many probes as the user timeout lets, and more than a byte counts.
#[test]
fn keep_alive_goes_on_until_the_user_timeout() {
    let keep_alive = KeepAlive {
        idle: Duration::from_secs(10),
        interval: Duration::from_secs(1),
        probes: 3,
    };
    let config = Config {
        keep_alive: Some(keep_alive),
        user_timeout: Some(Duration::from_secs(400)),
        ..Config::default()
    };
    let mut peer = Peer::connected(&config, modern());
    let heard = peer.now;
    let mut probes = 0;
    while peer.event() != Some(Event::Closed(CloseReason::TimedOut)) {
        assert!(peer.next_timer().is_some());
        probes += peer.sent().len();
    }
    assert_eq!(peer.now - heard, Duration::from_secs(400));
    assert!(probes > 300, "{probes}");
}

/// `SO_KEEPALIVE` of a connection that there is.
#[test]
fn keep_alive_may_be_wanted_later() {
    let keep_alive = KeepAlive {
        idle: Duration::from_secs(10),
        interval: Duration::from_secs(2),
        probes: 3,
    };
    let mut peer = Peer::modern();
    let heard = peer.now;
    peer.pass(Duration::from_secs(5));
    assert_eq!(peer.connection.poll_timeout(), None);
    peer.connection.set_keep_alive(peer.now, Some(keep_alive));
    while peer.sent().is_empty() {
        assert!(peer.next_timer().is_some());
    }
    assert_eq!(peer.now - heard, keep_alive.idle);
    peer.connection.set_keep_alive(peer.now, None);
    assert_eq!(peer.next_timer(), None);
}

/// RFC 9293 §3.8.3.
#[test]
fn the_user_timeout_ends_a_connection_that_makes_no_progress() {
    let limit = Duration::from_secs(7);
    let mut peer = Peer::connected(
        &Config {
            user_timeout: Some(limit),
            ..Config::default()
        },
        modern(),
    );
    peer.pass(Duration::from_secs(100));
    peer.queue(100);
    peer.sent();
    let begin = peer.now;
    while peer.connection.state() != State::Closed {
        assert!(peer.next_timer().is_some());
        peer.sent();
    }
    assert_eq!(peer.now - begin, limit);
    assert_eq!(peer.event(), Some(Event::Closed(CloseReason::TimedOut)));
}

/// RFC 6429 §3.
#[test]
fn the_user_timeout_ends_the_wait_for_a_closed_window() {
    let limit = Duration::from_secs(7);
    let config = Config {
        user_timeout: Some(limit),
        ..Config::default()
    };
    let mut peer = Peer::connected(&config, modern());
    peer.window = 0;
    let ack = peer.ack;
    peer.acknowledge(ack);
    peer.pass(Duration::from_secs(100));
    peer.queue(100);
    peer.sent();
    let begin = peer.now;
    while peer.connection.state() != State::Closed {
        assert!(peer.next_timer().is_some());
        let is_reset = |it: &tcp::Transmit| it.header.flags.contains(Flags::RST);
        let resets = peer.sent().iter().filter(|it| is_reset(it)).count();
        assert_eq!(resets > 0, peer.connection.state() == State::Closed);
        peer.acknowledge(ack);
    }
    assert_eq!(peer.now - begin, limit);
    assert_eq!(peer.event(), Some(Event::Closed(CloseReason::TimedOut)));
}

/// RFC 9293 §3.8.6.1: a peer that answers has made all the progress that it can.
#[test]
fn a_user_timeout_that_is_set_later_counts_from_the_peers_last_answer() {
    let mut peer = Peer::modern();
    peer.window = 0;
    let ack = peer.ack;
    peer.acknowledge(ack);
    peer.queue(100);
    peer.sent();
    for _ in 0..10 {
        assert!(peer.next_timer().is_some());
        peer.sent();
        peer.acknowledge(ack);
    }
    let limit = Duration::from_secs(60);
    let begin = peer.now;
    assert!(begin - peer.start > limit);
    peer.connection.set_user_timeout(peer.now, Some(limit));
    while peer.connection.state() != State::Closed {
        assert!(peer.next_timer().is_some());
        peer.sent();
    }
    assert_eq!(peer.now - begin, limit);
}

/// A window below half the largest is filled when the override timer says so (RFC 9293 §3.8.6.2.1), which then is not the end.
#[test]
fn a_reader_that_opens_its_window_a_little_before_the_user_timeout_is_sent_what_fits() {
    let limit = Duration::from_secs(60);
    let config = Config {
        user_timeout: Some(limit),
        ..Config::default()
    };
    let mut peer = Peer::connected(&config, Options::default());
    peer.queue(5000);
    let ack = peer.sent().last().map(|it| it.header.seq + it.payload);
    let ack = ack.expect("some of it");
    peer.window = 0;
    peer.acknowledge(ack);
    peer.queue(5000);
    assert_eq!(peer.sent(), []);
    let begin = peer.now;
    while peer.connection.poll_timeout() < Some(begin + limit) {
        assert!(peer.next_timer().is_some());
        peer.sent();
        peer.acknowledge(ack);
    }
    peer.pass(Duration::from_secs(1));
    peer.window = 300;
    peer.acknowledge(ack);
    assert_eq!(peer.sent(), [], "less than a segment waits");
    assert!(peer.next_timer().is_some());
    assert_eq!(peer.sent_data(), [(ack, 300)]);
    assert_eq!(peer.connection.state(), State::Established);
    while peer.connection.state() != State::Closed {
        assert!(peer.next_timer().is_some());
        peer.sent();
    }
    assert_eq!(peer.now - begin, limit + limit);
}

/// Its application has let go of it, but a reset must not take away what the peer has not read yet.
#[test]
fn a_connection_whose_wait_is_limited_ends_as_an_orphan_does() {
    let mut peer = Peer::modern();
    peer.queue(100);
    let now = peer.now;
    peer.connection.close(now);
    peer.connection.limit_wait(now);
    peer.sent();
    while peer.connection.state() != State::Closed {
        assert!(peer.next_timer().is_some());
        peer.sent();
    }
    assert_eq!(peer.now - now, Config::default().orphan_timeout);
}

/// R2 of RFC 9293 §3.8.3.
#[test]
fn retries_end_too() {
    let mut peer = Peer::connected(
        &Config {
            retries: 5,
            ..Config::default()
        },
        modern(),
    );
    peer.queue(100);
    peer.sent();
    let mut tries = 0;
    while peer.connection.state() != State::Closed {
        assert!(peer.next_timer().is_some());
        tries += peer.sent_data().len();
    }
    assert_eq!(tries, 6, "a probe and five retransmissions");
}
