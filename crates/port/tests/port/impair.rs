use std::time::{Duration, Instant};

use port::impair::{Impair, Impairment, Impairments};
use port::memory::{End, LinkConfig, link};
use port::{Meta, Port};
use proptest::prelude::*;

use crate::frames::{numbered, numbers, receive, receive_bytes, send, send_plain};

const NONE: Duration = Duration::ZERO;
const MILLISECOND: Duration = Duration::from_millis(1);

fn only(set: impl FnOnce(&mut Impairment)) -> Impairment {
    let mut impairment = Impairment::default();
    set(&mut impairment);
    impairment
}

fn impaired(impairments: Impairments, seed: u64) -> (Impair<End>, End) {
    let (left, right) = link(LinkConfig::for_mtu(1500));
    (Impair::new(left, impairments, seed), right)
}

/// Has frames leave whose time has come.
fn pass_time(port: &mut impl Port, now: Instant) {
    port.transmit(now, &mut |_| None).unwrap();
}

/// Sends `frames` through `impairment`, on the transmit or on the receive side, then waits until nothing is held.
fn pass(impairment: Impairment, on_transmit: bool, seed: u64, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut now = Instant::now();
    let mut out = Vec::new();
    let impairments = if on_transmit {
        Impairments::on_transmit(impairment)
    } else {
        Impairments::on_receive(impairment)
    };
    let (mut left, mut right) = impaired(impairments, seed);
    for chunk in frames.chunks(64) {
        if on_transmit {
            send_plain(&mut left, now, chunk);
            out.extend(receive_bytes(&mut right, now));
        } else {
            send_plain(&mut right, now, chunk);
            out.extend(receive_bytes(&mut left, now));
        }
    }
    while let Some(then) = left.poll_timeout() {
        assert!(then >= now || on_transmit);
        now = now.max(then);
        pass_time(&mut left, now);
        out.extend(receive_bytes(&mut left, now));
        out.extend(receive_bytes(&mut right, now));
    }
    out
}

#[test]
fn without_impairment_everything_passes() {
    for on_transmit in [true, false] {
        let frames = numbered(1000);
        assert_eq!(pass(Impairment::default(), on_transmit, 1, &frames), frames);
    }
}

#[test]
fn losses_are_as_many_as_asked_for() {
    for on_transmit in [true, false] {
        let loss = |loss| only(|it| it.loss = loss);
        let passed = pass(loss(0.1), on_transmit, 1, &numbered(20_000)).len();
        assert!(
            (17_700..18_300).contains(&passed),
            "{passed} of 20,000 at a loss of 0.1"
        );
        assert!(pass(loss(1.0), on_transmit, 1, &numbered(100)).is_empty());
    }
}

#[test]
fn duplicates_follow_their_originals() {
    let duplicate = only(|it| it.duplicate = 1.0);
    for on_transmit in [true, false] {
        let passed = numbers(&pass(duplicate, on_transmit, 1, &numbered(100)));
        let expected: Vec<u32> = (0..100).flat_map(|n| [n, n]).collect();
        assert_eq!(passed, expected);
    }
}

#[test]
fn reordered_frames_are_overtaken_by_a_few() {
    let impairment = only(|it| {
        it.reorder = 0.02;
        it.reorder_gap = 3;
    });
    for on_transmit in [true, false] {
        let passed = numbers(&pass(impairment, on_transmit, 5, &numbered(10_000)));
        let mut sorted = passed.clone();
        sorted.sort_unstable();
        assert!(
            sorted.iter().copied().eq(0..10_000),
            "nothing is lost or doubled"
        );
        let late = passed.windows(2).filter(|pair| pair[1] < pair[0]).count();
        assert!(
            (120..280).contains(&late),
            "{late} of 10,000 came late at 0.02"
        );
        for (at, &number) in passed.iter().enumerate() {
            assert!(
                at.abs_diff(number as usize) <= 16,
                "{number} came as {at}th"
            );
        }
    }
}

#[test]
fn a_held_frame_goes_on_after_a_millisecond() {
    let reorder = only(|it| it.reorder = 1.0);
    let (mut left, mut right) = impaired(Impairments::on_transmit(reorder), 1);
    let now = Instant::now();
    send_plain(&mut left, now, &numbered(1));
    assert!(receive(&mut right, now).is_empty());
    assert_eq!(left.poll_timeout(), Some(now + MILLISECOND));
    pass_time(&mut left, now + MILLISECOND);
    assert_eq!(receive(&mut right, now).len(), 1);
    assert_eq!(left.poll_timeout(), None);
}

#[test]
fn corrupted_frames_have_one_bit_flipped_and_no_valid_mark() {
    let corrupt = only(|it| it.corrupt = 1.0);
    let now = Instant::now();
    for impairments in [
        Impairments::on_transmit(corrupt),
        Impairments::on_receive(corrupt),
    ] {
        let (mut left, mut right) = impaired(impairments, 3);
        let meta = Meta {
            checksum_valid: true,
            ..Meta::default()
        };
        let sent = vec![vec![0xaa; 60]; 50];
        let received = if impairments.transmit.corrupt > 0.0 {
            send(&mut left, now, &sent, meta);
            receive(&mut right, now)
        } else {
            send(&mut right, now, &sent, meta);
            receive(&mut left, now)
        };
        assert_eq!(received.len(), 50);
        for (frame, meta) in received {
            assert!(!meta.checksum_valid);
            let flipped: u32 = frame.iter().map(|byte| (byte ^ 0xaa).count_ones()).sum();
            assert_eq!(flipped, 1);
            assert_eq!(frame[..14], [0xaa; 14], "the Ethernet header stays");
        }
    }
}

#[test]
fn an_unfinished_checksum_is_finished_before_the_corruption() {
    let corrupt = only(|it| it.corrupt = 1.0);
    let (mut left, mut right) = impaired(Impairments::on_transmit(corrupt), 3);
    let now = Instant::now();
    let meta = Meta {
        needs_checksum: Some((14, 4)),
        checksum_valid: true,
        gso_size: 0,
    };
    for round in 0..50u8 {
        let mut frame = vec![round; 75];
        frame[18..20].copy_from_slice(&0x1234u16.to_be_bytes());
        send(&mut left, now, &[frame], meta);
        let (frame, meta) = receive(&mut right, now).remove(0);
        assert_eq!(meta, Meta::default());
        let sum = frame[14..].chunks(2).fold(0u32, |sum, word| {
            let sum = sum + (u32::from(word[0]) << 8) + u32::from(*word.get(1).unwrap_or(&0));
            (sum & 0xffff) + (sum >> 16)
        });
        // Finished: pseudo header's sum and all words would make 0xffff. One bit is wrong.
        let difference = (0xffff - u32::from(0x1234u16) + 0xffff - sum) % 0xffff;
        let is_bit = |n: u32| n.is_power_of_two() || (0xffff - n).is_power_of_two();
        assert!(is_bit(difference), "{difference:#x}");
    }
}

#[test]
fn delayed_frames_come_in_order_when_their_time_has_come() {
    let delay = only(|it| it.delay = 10 * MILLISECOND);
    let now = Instant::now();
    let (mut left, mut right) = impaired(Impairments::on_transmit(delay), 1);
    send_plain(&mut left, now, &numbered(5));
    assert_eq!(left.poll_timeout(), Some(now + 10 * MILLISECOND));
    pass_time(&mut left, now + 9 * MILLISECOND);
    assert!(receive(&mut right, now).is_empty());
    pass_time(&mut left, now + 10 * MILLISECOND);
    assert_eq!(receive_bytes(&mut right, now), numbered(5));
    assert_eq!(left.poll_timeout(), None);

    let (mut left, mut right) = impaired(Impairments::on_receive(delay), 1);
    send_plain(&mut right, now, &numbered(5));
    assert!(receive(&mut left, now).is_empty());
    assert_eq!(
        receive_bytes(&mut left, now + 10 * MILLISECOND),
        numbered(5)
    );
}

#[test]
fn jitter_spreads_the_delay_and_keeps_the_order() {
    let jitter = only(|it| {
        it.delay = 10 * MILLISECOND;
        it.jitter = 2 * MILLISECOND;
    });
    let start = Instant::now();
    let (mut left, mut right) = impaired(Impairments::on_transmit(jitter), 1);
    let mut arrivals = Vec::new();
    for (n, frame) in (0..200).zip(numbered(200)) {
        let sent_at = start + n * 10 * MILLISECOND;
        send_plain(&mut left, sent_at, &[frame]);
        let arrives_at = left.poll_timeout().unwrap();
        pass_time(&mut left, arrives_at);
        arrivals.push(arrives_at - sent_at);
    }
    assert_eq!(receive_bytes(&mut right, start), numbered(200));
    assert!(
        arrivals
            .iter()
            .all(|&took| (8 * MILLISECOND..=12 * MILLISECOND).contains(&took))
    );
    let spread = *arrivals.iter().max().unwrap() - *arrivals.iter().min().unwrap();
    assert!(spread > 3 * MILLISECOND, "{spread:?}");
}

#[test]
fn a_rate_limit_spaces_frames_and_drops_what_the_queue_cannot_hold() {
    // 60 bytes at 480 kbit/s take a millisecond.
    let rate = only(|it| {
        it.rate = Some(480_000);
        it.queue = 600;
    });
    let (mut left, mut right) = impaired(Impairments::on_transmit(rate), 1);
    let start = Instant::now();
    send_plain(&mut left, start, &numbered(20));
    assert_eq!(left.transmit_counters().queue_dropped, 10);
    for n in 0..10u32 {
        let now = start + (n + 1) * MILLISECOND;
        assert_eq!(left.poll_timeout(), Some(now));
        pass_time(&mut left, now);
        assert_eq!(numbers(&receive_bytes(&mut right, now)), [n]);
    }
    assert_eq!(left.poll_timeout(), None);
}

#[test]
fn frames_that_the_port_has_no_room_for_wait() {
    let config = LinkConfig {
        super_frames: false,
        capacity: 0,
        ..LinkConfig::for_mtu(1500)
    };
    let (left, mut right) = link(config);
    let duplicate = only(|it| {
        it.duplicate = 1.0;
        it.delay = MILLISECOND;
    });
    let mut left = Impair::new(left, Impairments::on_transmit(duplicate), 1);
    let now = Instant::now();
    let frames: Vec<_> = numbered(100)
        .into_iter()
        .map(|frame| frame.repeat(25))
        .collect();
    send_plain(&mut left, now, &frames);
    let later = now + MILLISECOND;
    pass_time(&mut left, later);
    assert_eq!(left.poll_timeout(), None, "the port says when it has room");
    let mut received = Vec::new();
    for _ in 0..100 {
        received.extend(receive_bytes(&mut right, later));
        pass_time(&mut left, later);
    }
    assert_eq!(received.len(), 200);
}

#[test]
fn super_frames_are_refused_where_single_packets_are_to_suffer() {
    let loss = only(|it| it.loss = 0.01);
    let delay = only(|it| it.delay = MILLISECOND);
    let tso = |impairments| impaired(impairments, 1).0.capabilities().tso;
    assert!(!tso(Impairments::both(loss)));
    assert!(tso(Impairments::on_receive(loss)));
    assert!(tso(Impairments::both(delay)));
}

#[test]
fn counters_say_what_was_done() {
    let impairment = only(|it| {
        it.loss = 0.5;
        it.duplicate = 0.5;
    });
    let (mut left, mut right) = impaired(Impairments::on_transmit(impairment), 9);
    let now = Instant::now();
    send_plain(&mut left, now, &numbered(100));
    let passed = receive(&mut right, now).len() as u64;
    let counters = *left.transmit_counters();
    assert_eq!(counters.frames, 100);
    assert_eq!(passed, 100 - counters.lost + counters.duplicated);
    let mut shown = Vec::new();
    left.counters(&mut |name, value| shown.push((name, value)));
    assert!(shown.contains(&("tx_impair_lost", counters.lost)));
    assert!(
        shown.contains(&("tx_packets", passed)),
        "the wrapped port's are shown as well"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_run_is_repeated_by_its_seed_and_nothing_is_invented(
        seed: u64,
        on_transmit: bool,
        (loss, duplicate, reorder) in (0.0f64..0.3, 0.0f64..0.3, 0.0f64..0.3),
        delay in prop_oneof![Just(NONE), Just(MILLISECOND)],
        rate in prop_oneof![Just(None), Just(Some(1_000_000_000u64))],
    ) {
        let impairment =
            Impairment { loss, duplicate, reorder, delay, rate, ..Impairment::default() };
        let frames = numbered(500);
        let once = pass(impairment, on_transmit, seed, &frames);
        prop_assert_eq!(&once, &pass(impairment, on_transmit, seed, &frames));
        prop_assert!(once.iter().all(|frame| frames.contains(frame)));
    }
}
