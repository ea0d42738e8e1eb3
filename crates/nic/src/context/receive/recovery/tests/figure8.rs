//! Autonomous NIC offloads, Figure 8, packet by packet.

use super::*;
use crate::context::receive::recovery::out_of_step::BYTES_PER_REQUEST;

const FIRST_REPEAT_MS: u32 = FIRST_REPEAT_TICKS as u32 * TICK_MS;
const OFFLOADED: Verdict = Verdict::Offloaded;

fn bypassed(why: Bypass) -> Verdict {
    Verdict::Bypassed(why)
}

/// Messages of 300 bytes in packets of 100: packet n is `100 * n..`, headers at 0, 300, 600, …, moved by `shift`.
fn stream(shift: usize) -> Stream {
    let mut plaintexts = vec![vec![7; 300 + shift - 12]];
    plaintexts.extend((1..20u8).map(|n| vec![n; 288]));
    Stream::new(SeqNum(u32::MAX - 450), &plaintexts)
}

fn packet(stream: &Stream, context: &mut Context, n: usize) -> Verdict {
    stream.receive(context, 100 * n, 100 * n + 100)
}

#[test]
fn packets_in_sequence_are_all_offloaded_across_the_wrap_of_the_sequence_space() {
    for order in [ArrivalOrder::Sequence, ArrivalOrder::Any] {
        let stream = stream(30);
        let mut context = stream.context(order);
        for n in 0..50 {
            assert_eq!(packet(&stream, &mut context, n), OFFLOADED, "packet {n}");
        }
    }
}

#[test]
fn figure_8a_retransmission_of_the_past_bypasses_and_changes_nothing() {
    for order in [ArrivalOrder::Sequence, ArrivalOrder::Any] {
        let stream = stream(30);
        let mut context = stream.context(order);
        for n in 0..3 {
            assert_eq!(packet(&stream, &mut context, n), OFFLOADED);
        }
        let tcpsn = context.tcpsn();
        assert_eq!(packet(&stream, &mut context, 1), bypassed(Bypass::Past));
        assert_eq!(context.tcpsn(), tcpsn);
        assert_eq!(packet(&stream, &mut context, 3), OFFLOADED);
    }
}

#[test]
fn figure_8b_offload_resumes_at_the_packet_after_the_one_with_the_next_header() {
    let stream = stream(30);
    let mut context = stream.context(ArrivalOrder::Sequence);
    // The second message begins at 330, in packet 3.
    assert_eq!(packet(&stream, &mut context, 0), OFFLOADED);
    assert_eq!(packet(&stream, &mut context, 2), bypassed(Bypass::Gap));
    assert_eq!(packet(&stream, &mut context, 3), bypassed(Bypass::Absorbed));
    assert_eq!(packet(&stream, &mut context, 4), OFFLOADED);
    assert_eq!(packet(&stream, &mut context, 1), bypassed(Bypass::Past));
    assert_eq!(packet(&stream, &mut context, 5), OFFLOADED);
    assert!(context.is_in_step());
}

#[test]
fn figure_8b_a_packet_that_begins_with_the_next_header_is_offloaded_itself() {
    let stream = stream(0);
    let mut context = stream.context(ArrivalOrder::Sequence);
    assert_eq!(packet(&stream, &mut context, 0), OFFLOADED);
    assert_eq!(packet(&stream, &mut context, 2), bypassed(Bypass::Gap));
    assert_eq!(packet(&stream, &mut context, 3), OFFLOADED);
}

#[test]
fn figure_8b_a_late_packet_still_continues_the_message_while_no_header_was_passed() {
    let stream = stream(30);
    let mut context = stream.context(ArrivalOrder::Sequence);
    assert_eq!(packet(&stream, &mut context, 0), OFFLOADED);
    assert_eq!(packet(&stream, &mut context, 2), bypassed(Bypass::Gap));
    assert_eq!(packet(&stream, &mut context, 1), OFFLOADED);
    // Packet 2 has gone up raw; the next header is found behind it.
    assert_eq!(packet(&stream, &mut context, 3), bypassed(Bypass::Absorbed));
    assert_eq!(packet(&stream, &mut context, 4), OFFLOADED);
}

#[test]
fn figure_8c_lost_header_searches_asks_tracks_and_resumes_once_confirmed() {
    let stream = stream(30);
    let mut context = stream.context(ArrivalOrder::Sequence);
    for n in 0..3 {
        assert_eq!(packet(&stream, &mut context, n), OFFLOADED);
    }
    // Packet 3 with the header at 330 is missing: packets 4 and 5 hold no header, packet 6 holds the one at 630.
    for n in 4..6 {
        assert_eq!(
            packet(&stream, &mut context, n),
            bypassed(Bypass::OutOfStep)
        );
        assert_eq!(context.due_request(0), None);
    }
    assert_eq!(
        packet(&stream, &mut context, 6),
        bypassed(Bypass::OutOfStep)
    );
    assert_eq!(context.due_request(0), Some(stream.seq(630)));
    context.request_sent(0);
    // Meanwhile it tracks over the header at 930.
    for n in 7..11 {
        assert_eq!(
            packet(&stream, &mut context, n),
            bypassed(Bypass::OutOfStep)
        );
        assert_eq!(context.due_request(0), None, "asked once");
    }
    assert_eq!(context.answer(stream.seq(630), true, 2), Answer::Resumed);
    // The rest of the message that the answer came in, then one whole message that proves the answer.
    assert_eq!(packet(&stream, &mut context, 11), bypassed(Bypass::Past));
    for n in 12..16 {
        assert_eq!(
            packet(&stream, &mut context, n),
            bypassed(Bypass::Absorbed),
            "packet {n}"
        );
    }
    for n in 16..30 {
        assert_eq!(packet(&stream, &mut context, n), OFFLOADED, "packet {n}");
    }
}

#[test]
fn a_lost_header_that_comes_before_the_next_one_needs_no_confirmation() {
    let stream = stream(30);
    let mut context = stream.context(ArrivalOrder::Any);
    for n in 0..3 {
        assert_eq!(packet(&stream, &mut context, n), OFFLOADED);
    }
    assert_eq!(
        packet(&stream, &mut context, 4),
        bypassed(Bypass::OutOfStep)
    );
    assert_eq!(packet(&stream, &mut context, 3), OFFLOADED);
    assert!(context.is_in_step());
    for n in 5..20 {
        assert_eq!(packet(&stream, &mut context, n), OFFLOADED, "packet {n}");
    }
}

#[test]
fn a_lost_header_that_comes_after_the_next_one_confirms_the_guess_itself() {
    let stream = stream(30);
    let mut context = stream.context(ArrivalOrder::Any);
    for n in [0, 1, 2, 4, 5, 6, 7, 8, 9, 10] {
        packet(&stream, &mut context, n);
    }
    assert!(!context.is_in_step());
    assert_eq!(packet(&stream, &mut context, 3), OFFLOADED);
    assert!(context.is_in_step());
    // The message at 930 was passed over; the one at 1230 is offloaded from its first byte on.
    assert_eq!(packet(&stream, &mut context, 11), bypassed(Bypass::Past));
    assert_eq!(
        packet(&stream, &mut context, 12),
        bypassed(Bypass::Absorbed)
    );
    assert_eq!(packet(&stream, &mut context, 13), OFFLOADED);
}

#[test]
fn late_packets_of_an_open_message_are_offloaded_when_they_come() {
    let stream = stream(30);
    let mut context = stream.context(ArrivalOrder::Any);
    for n in [0, 2, 3, 4, 1, 5, 6, 8, 7, 9] {
        assert_eq!(packet(&stream, &mut context, n), OFFLOADED, "packet {n}");
    }
    assert_eq!(packet(&stream, &mut context, 1), bypassed(Bypass::Past));
}

#[test]
fn a_message_with_more_holes_than_are_kept_is_given_up_for_good() {
    let stream = Stream::new(SeqNum(u32::MAX - 500), &[vec![7; 2000], vec![8; 500]]);
    let mut context = stream.context(ArrivalOrder::Any);
    let at = |n: usize| (100 * n, 100 * n + 100);
    let mut receive = |(from, to)| stream.receive(&mut context, from, to);
    // Every other packet is lost.
    for n in [0, 2, 4, 6, 8] {
        assert_eq!(receive(at(n)), Verdict::Offloaded, "packet {n}");
    }
    for n in [10, 12, 14] {
        assert_eq!(receive(at(n)), bypassed(Bypass::Gap), "packet {n}");
    }
    // Whether the message is whole is unknown now: late packets of it stay as they came.
    for n in [1, 3, 9, 11, 13] {
        assert_ne!(receive(at(n)), Verdict::Offloaded, "packet {n}");
    }
    let (next, end) = (stream.starts[1], stream.starts[2]);
    assert_eq!(receive((next, end)), Verdict::Offloaded);
    assert_eq!(context.shared.counts.leaps, 5);
}

#[test]
fn a_message_completed_late_with_a_wrong_byte_is_passed_up_raw() {
    let mut stream = stream(30);
    stream.wire[150] ^= 1;
    stream.opened[150] ^= 1;
    let mut context = stream.context(ArrivalOrder::Any);
    for n in [0, 2, 3] {
        assert_eq!(packet(&stream, &mut context, n), OFFLOADED, "packet {n}");
    }
    assert_eq!(packet(&stream, &mut context, 1), bypassed(Bypass::Failed));
    assert_eq!(packet(&stream, &mut context, 4), OFFLOADED);
}

#[test]
fn a_message_with_a_wrong_byte_fails_at_its_end_and_the_nic_searches_again() {
    for order in [ArrivalOrder::Sequence, ArrivalOrder::Any] {
        let mut stream = stream(30);
        stream.wire[150] ^= 1;
        stream.opened[150] ^= 1;
        let mut context = stream.context(order);
        for n in 0..3 {
            assert_eq!(packet(&stream, &mut context, n), OFFLOADED);
        }
        assert_eq!(packet(&stream, &mut context, 3), bypassed(Bypass::Failed));
        assert_eq!(stream.answer(&mut context), Some(Answer::Resumed));
        for n in 4..20 {
            packet(&stream, &mut context, n);
        }
        assert_eq!(packet(&stream, &mut context, 20), OFFLOADED);
    }
}

#[test]
fn a_header_split_over_two_packets_in_sequence_is_found() {
    // Headers at 398 and 698: two bytes in packet 3, two in packet 4.
    let stream = stream(98);
    let mut context = stream.context(ArrivalOrder::Sequence);
    packet(&stream, &mut context, 0);
    for n in [4, 5] {
        assert_eq!(
            packet(&stream, &mut context, n),
            bypassed(Bypass::OutOfStep)
        );
    }
    packet(&stream, &mut context, 6);
    assert_eq!(context.due_request(0), None, "half a pattern");
    packet(&stream, &mut context, 7);
    assert_eq!(context.due_request(0), Some(stream.seq(698)));
    // Confirmed while the next header, at 998, is half there.
    for n in 8..10 {
        packet(&stream, &mut context, n);
    }
    assert_eq!(stream.answer(&mut context), Some(Answer::Resumed));
    for n in 10..13 {
        assert_eq!(
            packet(&stream, &mut context, n),
            bypassed(Bypass::Absorbed),
            "packet {n}"
        );
    }
    for n in 13..20 {
        packet(&stream, &mut context, n);
    }
    assert_eq!(packet(&stream, &mut context, 20), OFFLOADED);
}

#[test]
fn half_a_pattern_before_a_gap_is_not_joined_with_what_comes_after() {
    let stream = stream(98);
    let mut context = stream.context(ArrivalOrder::Sequence);
    for n in [0, 4, 5, 6] {
        packet(&stream, &mut context, n);
    }
    // The second half of the header at 698 comes with a gap before it.
    stream.receive(&mut context, 701, 800);
    assert_eq!(context.due_request(0), None);
}

#[test]
fn a_refusal_makes_it_search_again() {
    let stream = stream(30);
    let mut context = stream.context(ArrivalOrder::Sequence);
    for n in [0, 4, 5, 6] {
        packet(&stream, &mut context, n);
    }
    let guess = context.due_request(0).unwrap();
    context.request_sent(0);
    assert_eq!(context.answer(guess, false, 0), Answer::Refused);
    assert_eq!(context.answer(guess, true, 2), Answer::Stale);
    for n in 7..10 {
        packet(&stream, &mut context, n);
    }
    assert_eq!(context.due_request(0), Some(stream.seq(930)));
}

#[test]
fn a_gap_over_the_tracked_header_makes_it_search_again() {
    let stream = stream(30);
    let mut context = stream.context(ArrivalOrder::Sequence);
    for n in [0, 4, 5, 6, 7, 8, 10, 11, 12] {
        packet(&stream, &mut context, n);
    }
    assert_eq!(context.shared.counts.guesses_lost, 1);
    assert_eq!(context.due_request(0), Some(stream.seq(1230)));
}

#[test]
fn an_answer_that_does_not_come_is_asked_for_again() {
    let stream = stream(30);
    let mut context = stream.context(ArrivalOrder::Sequence);
    for n in [0, 4, 5, 6] {
        packet(&stream, &mut context, n);
    }
    let guess = context.due_request(1_000);
    context.request_sent(1_000);
    assert_eq!(context.due_request(1_100), None);
    assert_eq!(context.due_request(1_000 + FIRST_REPEAT_MS), guess);
    context.request_sent(1_000 + FIRST_REPEAT_MS);
    assert_eq!(context.due_request(1_000 + 2 * FIRST_REPEAT_MS), None);
    assert_eq!(context.due_request(1_000 + 3 * FIRST_REPEAT_MS), guess);
}

#[test]
fn a_lying_confirmation_delivers_nothing_wrong_and_ends_in_a_new_search() {
    for (lie, offset) in [(3, 0), (2, 0)] {
        let stream = stream(30);
        let mut context = stream.context(ArrivalOrder::Any);
        // The header at 330 never comes.
        for n in [0, 1, 2, 4, 5, 6] {
            packet(&stream, &mut context, n);
        }
        let guess = context.due_request(0).unwrap();
        context.request_sent(0);
        assert_eq!(guess, stream.seq(630 + offset));
        context.answer(guess, true, lie);
        for n in 7..13 {
            let verdict = packet(&stream, &mut context, n);
            assert_ne!(verdict, OFFLOADED, "packet {n}");
        }
        stream.answer(&mut context);
        for n in 13..25 {
            packet(&stream, &mut context, n);
        }
        assert_eq!(packet(&stream, &mut context, 25), OFFLOADED);
    }
}

#[test]
fn a_forged_packet_far_ahead_does_not_stop_the_offload_for_good() {
    for order in [ArrivalOrder::Sequence, ArrivalOrder::Any] {
        let stream = Stream::new(SeqNum(5), &vec![vec![1; 288]; 80]);
        let mut context = stream.context(order);
        packet(&stream, &mut context, 0);
        context.receive(stream.seq(1 << 29), &[0; 100], &mut [0; 100]);
        for n in 1..200 {
            packet(&stream, &mut context, n);
            stream.answer(&mut context);
        }
        assert_eq!(packet(&stream, &mut context, 200), OFFLOADED);
    }
}

#[test]
fn a_peer_that_plants_headers_gets_few_requests_asked() {
    let planted: Vec<u8> = (0..70).flat_map(|_| [0xc5, 0x3a, 0x10, 0x00]).collect();
    let mut context = Context::new(Toy::new(KEY, true), SeqNum(0), ArrivalOrder::Any);
    let mut asked = 0;
    for n in 1..2_000u32 {
        context.receive(SeqNum(n * 280), &planted, &mut [0; 280]);
        if let Some(guess) = context.due_request(0) {
            context.request_sent(0);
            context.answer(guess, false, 0);
            asked += 1;
        }
    }
    assert!(asked <= 16 + 2_000 * 280 / BYTES_PER_REQUEST, "{asked}");
}
