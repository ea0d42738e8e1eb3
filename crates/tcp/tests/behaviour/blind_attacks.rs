//! What an attacker who can't see the connection may try (RFC 5961), and old duplicates (RFC 7323 §5).

use std::time::Duration;

use proptest::prelude::*;
use tcp::{CloseReason, Config, Event, State};
use wire::SeqNum;
use wire::tcp::{Flags, Header, Timestamps};

use crate::peer::Peer;

/// RFC 5961 §3.2.
#[test]
fn a_reset_counts_only_at_exactly_the_next_position() {
    let mut peer = Peer::modern();
    let mut reset = peer.header(Flags::RST);
    reset.seq += 1;
    peer.deliver(&reset, 0);
    assert_eq!(peer.connection.state(), State::Established);
    let challenge = peer.sent();
    assert_eq!(challenge.len(), 1);
    assert_eq!(challenge[0].header.flags, Flags::ACK);
    assert_eq!(challenge[0].header.ack, peer.seq);
    // Far outside of the window: not even an answer.
    reset.seq += 1 << 30;
    peer.deliver(&reset, 0);
    assert!(peer.sent().is_empty());
    peer.deliver(&peer.header(Flags::RST), 0);
    assert_eq!(peer.event(), Some(Event::Closed(CloseReason::Reset)));
}

/// RFC 5961 §4.2.
#[test]
fn a_syn_in_the_window_is_challenged() {
    let mut peer = Peer::modern();
    peer.deliver(&peer.header(Flags::SYN), 0);
    assert_eq!(peer.connection.state(), State::Established);
    assert_eq!(peer.sent().len(), 1);
}

/// RFC 5961 §5.2.
#[test]
fn data_with_an_impossible_ack_is_not_taken() {
    for (ack, fine) in [(1i64, false), (0, true), (-(1 << 25), false)] {
        let mut peer = Peer::modern();
        peer.queue(100);
        peer.sent();
        let mut header = peer.header(Flags::ACK);
        header.ack = SeqNum((i64::from(peer.connection.snd_nxt().0) + ack) as u32);
        let received = peer.deliver(&header, 10);
        assert_eq!(received.data.is_some(), fine, "ack {ack}");
        assert!(!peer.sent().is_empty());
    }
}

/// What is old brings its ACK field, as in BSD, and nothing else: no window, no duplicate ACK, no payload. Older than all that the
/// peer can have had on its way, or with an ACK that can't be, it is but challenged.
#[test]
fn the_ack_of_an_old_duplicate_counts_if_it_could_be_the_peers() {
    for (age, len, ack, counts) in [
        (1, 0, 100, true),
        (100, 100, 100, true),
        (1000, 100, 60, true),
        (100, 100, 101, false),
        (1 << 26, 100, 100, false),
        (1 << 26, 0, 100, false),
    ] {
        let mut peer = Peer::modern();
        peer.data(2000);
        peer.deliver(&peer.header(Flags::ACK), 0);
        peer.sent();
        peer.queue(100);
        assert_eq!(peer.sent_data().len(), 1);
        let una = peer.connection.snd_una();
        let window = peer.connection.tcb(peer.now).expect("established").snd_wnd;
        let mut old = peer.header(Flags::ACK);
        old.seq -= age;
        old.ack = una + ack;
        old.window = 1;
        let received = peer.deliver(&old, len);
        assert_eq!(received.data, None);
        let expected = if counts { una + ack } else { una };
        assert_eq!(peer.connection.snd_una(), expected, "{age} {len} {ack}");
        let after = peer.connection.tcb(peer.now).expect("established");
        assert_eq!(after.snd_wnd, window);
        assert_eq!(peer.sent().len(), 1, "it is answered");
    }
}

/// RFC 7323 §5.3: not even that of a segment with an old timestamp.
#[test]
fn the_ack_of_an_old_timestamp_does_not_count() {
    let mut peer = Peer::modern();
    peer.timestamps = Some((5000, 0));
    peer.data(100);
    peer.queue(100);
    peer.sent();
    let una = peer.connection.snd_una();
    peer.timestamps = Some((4000, 0));
    peer.acknowledge(una + 100);
    assert_eq!(peer.connection.snd_una(), una);
}

/// RFC 5961 §7.
#[test]
fn challenges_are_few() {
    let mut peer = Peer::modern();
    let mut answers = 0;
    for _ in 0..100 {
        peer.pass(Duration::from_millis(10));
        peer.deliver(&peer.header(Flags::SYN), 0);
        answers += peer.sent().len();
    }
    assert!((1..=3).contains(&answers), "{answers}");
}

/// RFC 7323 §5.3: PAWS.
#[test]
fn old_timestamps_are_not_taken() {
    let mut peer = Peer::modern();
    peer.timestamps = Some((5000, 0));
    peer.data(100);
    peer.sent();
    peer.timestamps = Some((4999, 0));
    let received = peer.data(100);
    assert_eq!(received.data, None);
    let ack = peer.sent();
    assert_eq!(ack.len(), 1, "RFC 7323 §5.3 R1: it is acknowledged");
    assert_eq!(
        ack[0]
            .header
            .options
            .timestamps
            .map(|timestamps| timestamps.echo),
        Some(5000)
    );
    // A RST is not subject to it.
    peer.seq -= 100;
    peer.deliver(&peer.header(Flags::RST), 0);
    assert_eq!(peer.connection.state(), State::Closed);
}

/// RFC 7323 §3.2: without the option that both agreed on, a segment is dropped.
#[test]
fn segments_without_timestamps_are_dropped_once_agreed() {
    let mut peer = Peer::modern();
    peer.timestamps = None;
    assert_eq!(peer.data(100).data, None);
    assert!(peer.sent().is_empty());
}

/// RFC 5961 §5.2: who can't guess an ACK can't spoil TS.Recent either, which would make the peer's own segments look old.
#[test]
fn an_impossible_ack_does_not_poison_the_timestamps() {
    let mut peer = Peer::modern();
    peer.timestamps = Some((5000, 0));
    peer.data(100);
    peer.sent();
    let mut forged = peer.header(Flags::ACK);
    forged.ack = peer.connection.snd_nxt() + 1000;
    forged.options.timestamps = Some(Timestamps {
        val: 1 << 30,
        echo: 0,
    });
    assert_eq!(peer.deliver(&forged, 10).data, None);
    peer.timestamps = Some((5001, 0));
    assert!(peer.data(100).data.is_some());
}

/// RFC 7323 §5.5: after 24 days of silence a timestamp proves nothing.
#[test]
fn timestamps_go_stale() {
    let mut peer = Peer::modern();
    peer.timestamps = Some((5000, 0));
    peer.data(100);
    peer.sent();
    let day = Duration::from_secs(24 * 3600);
    peer.pass(23 * day);
    peer.timestamps = Some((1, 0));
    assert_eq!(peer.deliver(&peer.header(Flags::ACK), 100).data, None);
    peer.pass(2 * day);
    assert!(peer.data(100).data.is_some());
}

/// RFC 7323 §4.3: TS.Recent is that of the segment that the ACK is for.
#[test]
fn the_echo_is_of_the_oldest_unacknowledged_segment() {
    let mut peer = Peer::connected(
        &Config {
            delayed_ack: None,
            ..Config::default()
        },
        crate::peer::modern(),
    );
    peer.timestamps = Some((2000, 0));
    peer.data_ahead(100, 100);
    let ack = peer.sent().remove(0).header;
    assert_eq!(
        ack.options.timestamps.map(|timestamps| timestamps.echo),
        Some(1000),
        "not of data out of order"
    );
    peer.timestamps = Some((2001, 0));
    peer.data(100);
    let ack = peer.sent().remove(0).header;
    assert_eq!(
        ack.options.timestamps.map(|timestamps| timestamps.echo),
        Some(2001)
    );
}

fn header() -> impl Strategy<Value = (Header, u32, u16)> {
    let near = |width: i64| {
        prop_oneof![
            3 => Just(0i64),
            3 => -3000i64..3000,
            2 => -width..width,
            1 => any::<i32>().prop_map(i64::from),
        ]
    };
    let flags = prop_oneof![4 => Just(Flags::ACK), 2 => any::<u8>().prop_map(Flags), 1 => Just(Flags::FIN | Flags::ACK), 1 => Just(Flags::ACK | Flags::SYN)];
    (
        (near(1 << 20), near(1 << 20), flags, any::<u16>()),
        (
            prop_oneof![
                Just(None),
                any::<[u32; 2]>().prop_map(Some),
                (0u32..5000, 0u32..5000).prop_map(|(a, b)| Some([a, b]))
            ],
            prop::collection::vec(
                (near(1 << 20), prop_oneof![1i64..20_000, near(1 << 20)]),
                0..4,
            ),
            prop_oneof![Just(0u32), 1u32..3000, 0u32..70_000],
            0u16..50,
        ),
    )
        .prop_map(
            |((seq, ack, flags, window), (timestamps, sack, len, packets))| {
                let position = |offset: i64| SeqNum(offset as u32);
                let mut header = Header {
                    src_port: 80,
                    dst_port: 1000,
                    seq: position(seq),
                    ack: position(ack),
                    flags,
                    window,
                    ..Header::default()
                };
                header.options.timestamps = timestamps.map(|[val, echo]| Timestamps { val, echo });
                header.options.sack = sack
                    .iter()
                    .map(|&(start, len)| (position(start), position(start + len)))
                    .collect();
                (header, len, packets)
            },
        )
}

#[derive(Clone, Debug)]
enum Step {
    Segment(Box<Header>, u32, u16),
    Pass(u32),
    Queue(u32),
    Consume(u32),
    Close,
    Detach,
    Abort,
    PathMss(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => header().prop_map(|(header, len, packets)| Step::Segment(Box::new(header), len, packets)),
        3 => (0u32..3_000_000).prop_map(Step::Pass),
        3 => prop_oneof![0u32..100_000, any::<u32>()].prop_map(Step::Queue),
        2 => any::<u32>().prop_map(Step::Consume),
        1 => Just(Step::Close),
        1 => prop_oneof![3 => Just(Step::Queue(1)), 1 => Just(Step::Detach)],
        1 => prop_oneof![6 => Just(Step::Queue(1)), 1 => Just(Step::Abort)],
        1 => any::<u16>().prop_map(Step::PathMss),
    ]
}

proptest! {
    #![proptest_config(crate::cases(3_000))]

    /// Whatever comes, in whatever state: no panic, and the connection stays consistent.
    #[test]
    fn hostile_segments_change_nothing_that_must_hold(
        steps in prop::collection::vec(step(), 1..80),
        connected: bool,
        timestamps: bool,
        sack: bool,
    ) {
        let config = Config { timestamps, sack, ..Config::default() };
        let mut peer = if connected { Peer::connected(&config, crate::peer::modern()) } else { Peer::new(&config) };
        for step in steps {
            match step {
                Step::Segment(mut header, len, packets) => {
                    // Offsets are from where the connection is: most segments are nearly right.
                    header.seq = SeqNum(peer.connection.rcv_nxt().0.wrapping_add(header.seq.0));
                    header.ack = SeqNum(peer.connection.snd_una().0.wrapping_add(header.ack.0));
                    let una = peer.connection.snd_una().0;
                    let blocks: Vec<_> = header.options.sack.iter().collect();
                    header.options.sack = blocks.iter().map(|(a, b)| (SeqNum(a.0.wrapping_add(una)), SeqNum(b.0.wrapping_add(una)))).collect();
                    let before = peer.connection.rcv_nxt();
                    let received = peer.connection.handle_segment(peer.now, &header, len, packets);
                    peer.connection.assert_invariants();
                    if let Some(data) = received.data {
                        prop_assert!(data.skip + data.len <= len && data.len > 0);
                        prop_assert!(data.seq.at_or_after(before));
                    }
                }
                Step::Pass(micros) => peer.pass(Duration::from_micros(u64::from(micros))),
                Step::Queue(bytes) => { peer.connection.queue(peer.now, bytes); }
                Step::Consume(bytes) => peer.connection.consumed(peer.now, bytes),
                Step::Close => peer.connection.close(peer.now),
                Step::Detach => peer.connection.detach(peer.now),
                Step::Abort => peer.connection.abort(),
                Step::PathMss(mss) => peer.connection.handle_path_mss(peer.now, mss),
            }
            peer.connection.assert_invariants();
            for transmit in peer.sent() {
                prop_assert!(transmit.header.len() <= 60);
                prop_assert!(transmit.payload == 0 || transmit.mss > 0);
                let end = transmit.header.seq + transmit.payload;
                prop_assert!(end.at_or_before(peer.connection.write_seq()) || transmit.payload == 0);
                prop_assert!(transmit.payload == 0 || transmit.header.seq.at_or_after(peer.connection.snd_una()));
            }
            while peer.event().is_some() {}
        }
        let _ = peer.info();
    }
}
