//! Windows, acknowledgments and small segments.

use std::time::Duration;

use tcp::{CloseReason, Config, Event, KeepAlive, State};
use wire::tcp::{Flags, Header, Options};

use crate::pair::{App, Link, Pair, Reader, Setup};
use crate::peer::{Peer, modern};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const MSS: u32 = 1448;

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

/// RFC 9293 §3.8.6.3, RFC 5681 §4.2.
#[test]
fn acks_are_delayed_after_the_start() {
    let mut peer = Peer::modern();
    let mut at_once = 0;
    for _ in 0..16 {
        peer.data(MSS);
        at_once += peer.sent().len();
        peer.connection.consumed(peer.now, MSS);
    }
    assert_eq!(
        at_once, 16,
        "quick at the start, so that the peer's window grows"
    );
    peer.data(MSS);
    assert!(peer.sent().is_empty());
    peer.data(MSS);
    assert_eq!(peer.sent().len(), 1, "every second segment");
    peer.data(MSS);
    assert_eq!(peer.next_timer(), Some(ms(40)));
    assert_eq!(peer.sent().len(), 1);
    // An LRO packet stands for the segments that it was made of.
    let header = peer.header(Flags::ACK);
    peer.connection
        .handle_segment(peer.now, &header, 3 * MSS, 3);
    assert_eq!(peer.sent().len(), 1);
}

/// An ACK rides on data.
#[test]
fn answers_carry_the_ack() {
    let mut peer = Peer::modern();
    peer.data(100);
    peer.queue(200);
    let sent = peer.sent();
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].payload, sent[0].header.ack), (200, peer.seq));
}

/// RFC 9293 §3.7.4 in Minshall's variant: one short segment outstanding.
#[test]
fn nagle_holds_back_small_segments() {
    let mut peer = Peer::modern();
    peer.queue(100);
    assert_eq!(peer.sent_data().len(), 1);
    peer.queue(100);
    assert!(peer.sent_data().is_empty());
    peer.queue(2 * MSS);
    let sent = peer.sent_bytes();
    assert_eq!(sent, 2 * MSS, "full segments go");
    let all = peer.connection.snd_nxt();
    peer.acknowledge(all);
    let sent = peer.sent_bytes();
    assert_eq!(sent, 100);
    peer.connection.set_nagle(false);
    peer.queue(7);
    peer.queue(7);
    assert_eq!(peer.sent_data().len(), 1);
}

#[test]
fn a_cork_holds_short_segments_for_a_while() {
    let mut peer = Peer::modern();
    peer.connection.set_cork(peer.now, true);
    peer.queue(100);
    assert!(peer.sent().is_empty());
    peer.queue(MSS);
    assert_eq!(peer.sent_bytes(), MSS);
    let all = peer.connection.snd_nxt();
    peer.acknowledge(all);
    assert!(peer.sent().is_empty());
    assert!(peer.next_timer().is_some_and(|waited| waited <= ms(200)));
    assert_eq!(peer.sent_bytes(), 100);
    peer.queue(50);
    assert!(peer.sent().is_empty());
    peer.connection.set_cork(peer.now, false);
    let all = peer.connection.snd_nxt();
    peer.acknowledge(all);
    assert_eq!(peer.sent_data().len(), 1);
}

/// The last segment of what is queued says so.
#[test]
fn push_marks_the_end_of_the_queue() {
    let mut peer = Peer::modern();
    peer.queue(8 * MSS + 10);
    let sent = peer.sent();
    let pushes: Vec<_> = sent
        .iter()
        .map(|transmit| transmit.header.flags.contains(Flags::PSH))
        .collect();
    assert_eq!(pushes.last(), Some(&true));
    assert!(!pushes[..pushes.len() - 1].contains(&true));
}

/// A Transmit is at most half the window, so that ACKs keep coming.
#[test]
fn bursts_leave_room_for_the_ack_clock() {
    let mut peer = Peer::modern();
    peer.queue(1 << 20);
    let sent = peer.sent();
    assert_eq!(sent.len(), 2);
    assert!(sent.iter().all(|transmit| transmit.payload == 5 * MSS));
}

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
