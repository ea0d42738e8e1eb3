//! Windows and acknowledgments.

use std::time::Duration;

use tcp::{CloseReason, Config, Event, State};
use wire::tcp::{Flags, Header, Options};

use crate::pair::{App, Link, Pair, Reader, Setup};
use crate::peer::{Peer, modern};
use crate::{MSS, ms};

/// RFC 9293 §3.8.6.1.
#[test]
fn a_closed_window_is_probed_with_backoff_for_as_long_as_the_peer_answers() {
    let mut peer = Peer::modern();
    peer.window = 0;
    let ack = peer.ack;
    peer.acknowledge(ack);
    peer.queue(5000);
    assert!(peer.sent().is_empty());
    let mut last = Duration::ZERO;
    for _ in 0..40 {
        let waited = peer.next_timer().expect("the persist timer");
        assert!(waited >= last && waited <= Duration::from_secs(120));
        last = waited;
        let probe = peer.sent();
        assert_eq!(probe.len(), 1);
        assert_eq!((probe[0].payload, probe[0].header.seq), (0, ack - 1));
        peer.acknowledge(ack);
    }
    assert_eq!(last, Duration::from_secs(120));
    assert_eq!(peer.connection.state(), State::Established);
    // The window opens.
    peer.window = 100;
    peer.acknowledge(ack);
    assert_eq!(peer.sent_data(), [(ack, 5000)]);
}

#[test]
fn a_peer_that_does_not_answer_window_probes_is_given_up() {
    let mut peer = Peer::connected(
        &Config {
            retries: 4,
            ..Config::default()
        },
        modern(),
    );
    peer.window = 0;
    let ack = peer.ack;
    peer.acknowledge(ack);
    peer.queue(5000);
    peer.sent();
    for _ in 0..5 {
        peer.next_timer();
        peer.sent();
    }
    assert_eq!(peer.event(), Some(Event::Closed(CloseReason::TimedOut)));
}

/// A peer that takes back its window (RFC 9293 §3.8.6) with data outstanding is not given up while it answers.
#[test]
fn a_window_taken_back_is_waited_for() {
    let mut peer = Peer::modern();
    let ack = peer.ack;
    peer.queue(5000);
    assert_eq!(peer.sent_data(), [(ack, 5000)]);
    peer.window = 0;
    for _ in 0..60 {
        peer.acknowledge(ack);
        peer.next_timer();
        peer.sent();
    }
    assert_eq!(peer.connection.state(), State::Established);
    // One that falls silent is.
    for _ in 0..20 {
        peer.next_timer();
        peer.sent();
    }
    assert_eq!(peer.connection.state(), State::Closed);
}

/// A closed connection does not wait for ever for a peer that does not take its last data.
#[test]
fn a_detached_connection_does_not_probe_for_ever() {
    let mut peer = Peer::modern();
    let ack = peer.ack;
    peer.window = 0;
    peer.acknowledge(ack);
    peer.queue(5000);
    peer.connection.close(peer.now);
    peer.connection.detach(peer.now);
    peer.sent();
    for _ in 0..30 {
        peer.next_timer();
        peer.acknowledge(ack);
        if peer
            .sent()
            .iter()
            .any(|transmit| transmit.header.flags.contains(Flags::RST))
        {
            return;
        }
    }
    panic!("it probes for ever");
}

/// Without window scaling a larger buffer can't be announced: reading from it sends no ACKs of its own.
#[test]
fn a_window_beyond_what_the_field_holds_is_no_reason_for_an_update() {
    for window_scale in [None, Some(7)] {
        let config = Config {
            rcv_buf: 512 << 10,
            rcv_buf_max: 512 << 10,
            delayed_ack: Some(ms(200)),
            ..Config::default()
        };
        let options = Options {
            window_scale,
            ..modern()
        };
        let mut peer = Peer::connected(&config, options);
        let mut acks = 0;
        for _ in 0..100 {
            peer.data(2 * MSS);
            acks += peer.sent().len();
            let (now, unread) = (peer.now, peer.connection.unread());
            peer.connection.consumed(now, unread);
            acks += peer.sent().len();
        }
        assert!(acks <= 100, "{acks} with {window_scale:?}");
    }
}

/// RFC 9293 §3.8.6.2.1: the sender does not dribble into a small window.
#[test]
fn a_small_window_is_left_alone_until_the_override() {
    let mut peer = Peer::connected(
        &Config::default(),
        Options {
            window_scale: None,
            ..modern()
        },
    );
    peer.window = 500;
    let ack = peer.ack;
    peer.acknowledge(ack);
    peer.queue(5000);
    assert!(peer.sent().is_empty());
    peer.next_timer();
    assert_eq!(peer.sent_data(), [(ack, 500)]);
}

/// RFC 9293 §3.8.6.2.2: the receiver does not offer crumbs, and never takes back what it offered.
#[test]
fn the_window_opens_in_steps_and_never_shrinks() {
    let config = Config {
        rcv_buf: 20_000,
        rcv_buf_max: 20_000,
        delayed_ack: None,
        ..Config::default()
    };
    let mut peer = Peer::connected(&config, modern());
    let mut edge = peer.seq;
    let mut unread = 0;
    for round in 0..200u32 {
        let offered = edge.distance_to(peer.seq) as i32;
        let room = if offered < 0 {
            edge.diff(peer.seq) as u32
        } else {
            0
        };
        let len = room.min(1448);
        if len > 0 {
            let received = peer.data(len);
            assert_eq!(received.data.map(|data| data.len), Some(len));
            unread += len;
        }
        if round % 3 == 0 {
            let bite = unread.min(700);
            peer.connection.consumed(peer.now, bite);
            unread -= bite;
        }
        for transmit in peer.sent() {
            let new = transmit.header.ack + u32::from(transmit.header.window);
            assert!(new.at_or_after(edge), "shrunk");
            let step = edge.distance_to(new);
            assert!(
                step == 0 || step >= 1448 || edge.diff(peer.seq) < 0 || round < 2,
                "a crumb of {step}"
            );
            edge = new;
        }
    }
}

/// Data beyond the window is cut off.
#[test]
fn data_beyond_the_window_is_not_taken() {
    let config = Config {
        rcv_buf: 10_000,
        rcv_buf_max: 10_000,
        ..Config::default()
    };
    let mut peer = Peer::connected(&config, modern());
    let received = peer.deliver(&peer.header(Flags::ACK), 12_000);
    assert_eq!(
        received.data.map(|data| (data.skip, data.len)),
        Some((0, 10_000))
    );
    peer.seq += 10_000;
    assert_eq!(
        peer.sent().last().map(|transmit| transmit.header.window),
        Some(0)
    );
    // A full window still takes ACKs (RFC 9293 §3.10.7.4).
    peer.queue(10);
    peer.sent();
    peer.ack = peer.connection.snd_nxt();
    let received = peer.deliver(&peer.header(Flags::ACK), 5);
    assert_eq!(received.data, None);
    assert_eq!(peer.connection.snd_una(), peer.ack);
    // Reading reopens it.
    peer.sent();
    peer.connection.consumed(peer.now, 10_000);
    assert_eq!(peer.sent().len(), 1);
}

/// A slow reader is never overrun, and never starves.
#[test]
fn a_slow_reader_sets_the_pace() {
    let reader = Reader::Paced {
        bytes: 20_000,
        every: ms(10),
    };
    let mut pair = Pair::new(Setup {
        apps: [
            App::sends(4_000_000),
            App {
                reader,
                ..App::default()
            },
        ],
        ..Setup::default()
    });
    let elapsed = pair.run_to_end(Duration::from_secs(100));
    // 4 MB at 2 MB/s.
    assert!(elapsed < ms(2_300), "{elapsed:?}");
    assert_eq!(pair.sides[0].resent_out, 0);
}

/// The receive buffer follows the path's bandwidth-delay product (up to 16 MiB), not the other way round.
#[test]
fn the_receive_buffer_tunes_itself() {
    let link = Link {
        rate: 1_000_000_000,
        delay: ms(20),
        coalesce: Duration::from_micros(50),
        queue: 16 << 20,
        ..Link::default()
    };
    let mut pair = Pair::new(Setup {
        apps: [App::sends(100 << 20), App::default()],
        links: [link; 2],
        ..Setup::default()
    });
    pair.run_until(Duration::from_secs(5), |pair| pair.sides[1].read > 90 << 20);
    let fast = pair.sides[1].connection.info(pair.now).rcv_space;
    assert!(fast > 8 << 20, "{fast}");
    let link = Link {
        rate: 10_000_000,
        delay: ms(1),
        queue: 30_000,
        ..link
    };
    let mut pair = Pair::new(Setup {
        apps: [App::sends(4 << 20), App::default()],
        links: [link; 2],
        ..Setup::default()
    });
    pair.run_until(Duration::from_secs(5), |pair| pair.sides[1].read > 3 << 20);
    let slow = pair.sides[1].connection.info(pair.now).rcv_space;
    assert!(slow < 1 << 20, "{slow}");
}

/// More than two laps of the sequence space, each way.
#[test]
fn the_sequence_space_wraps() {
    let mut peer = Peer::modern();
    let mut total: u64 = 0;
    while total < 9 << 30 {
        let space = peer.connection.send_space();
        peer.queue(space.min(8 << 20));
        peer.pass(ms(1));
        let sent = u64::from(peer.sent_bytes());
        total += sent;
        let nxt = peer.connection.snd_nxt();
        peer.acknowledge(nxt);
        while peer.event().is_some() {}
        assert!(sent > 0, "stalls at {total}");
    }
    let mut peer = Peer::modern();
    for round in 0..150_000 {
        let received = peer.data(60_000);
        assert!(
            received.data.is_some_and(|data| data.len == 60_000),
            "round {round}"
        );
        let unread = peer.connection.unread();
        peer.connection.consumed(peer.now, unread);
        peer.connection.poll_transmit(peer.now);
    }
}

/// As Linux's `tcp_acceptable_seq`: a peer that has taken back its window takes nothing beyond it, and no ACK there either.
#[test]
fn acknowledgments_go_where_the_peer_takes_them() {
    let mut peer = Peer::modern();
    peer.queue(10_000);
    peer.sent();
    let una = peer.connection.snd_una();
    peer.window = 4000 >> 7;
    peer.acknowledge(una + 1000);
    peer.data(100);
    let acks = peer.sent();
    let pure = acks.iter().find(|it| it.payload == 0).expect("an ACK");
    assert_eq!(pure.header.seq, una + 1000 + (4000 >> 7 << 7));
    peer.window = u16::MAX;
    peer.acknowledge(una + 10_000);
    peer.data(100);
    assert_eq!(peer.sent()[0].header.seq, una + 10_000);
}

/// RFC 7323 §3.2: what it says of the other direction is what holds when it goes.
#[test]
fn a_segment_that_had_to_wait_says_what_holds_when_it_goes() {
    let mut peer = Peer::modern();
    peer.queue(100);
    let mut segment = peer.connection.poll_transmit(peer.now).expect("data");
    let before = segment.header;
    peer.pass(ms(30));
    peer.data(1000);
    peer.connection.bring_up_to_date(peer.now, &mut segment);
    assert_eq!(segment.header.seq, before.seq);
    assert_eq!(segment.header.flags, before.flags);
    assert_eq!(segment.header.ack, peer.seq);
    let value = |header: &Header| header.options.timestamps.map(|it| it.val);
    assert!(value(&segment.header) > value(&before));
    assert!(peer.sent().is_empty(), "it has acknowledged what came");
}
