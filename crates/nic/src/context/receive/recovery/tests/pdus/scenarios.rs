//! Packet by packet.

use super::*;

#[test]
fn packets_in_sequence_are_placed_and_their_digests_hold() {
    for order in [ArrivalOrder::Sequence, ArrivalOrder::Any] {
        let stream = thousands(10);
        let mut host = Host::mapped(&stream, order);
        let mut placed = 0;
        for from in (0..10_000).step_by(300) {
            let (verdict, bytes) = host.receive(from, (from + 300).min(10_000));
            assert_eq!(verdict, OFFLOADED);
            placed += bytes;
        }
        assert_eq!(placed, 9720);
        assert_eq!(host.shared.noted.refused, 0);
    }
}

#[test]
fn one_packet_may_hold_pdus_of_several_commands_and_answers_between_them() {
    let parameters = nvme(Role::Controller, true, true);
    let stream = PduStream::new(
        &parameters,
        &[
            data(1, 0, 100),
            data(2, 0, 50),
            Kind::Ready,
            data(1, 100, 30),
            Kind::Capsule(0),
            data(2, 50, 70),
        ],
    );
    let mut host = Host::mapped(&stream, ArrivalOrder::Any);
    let end = stream.len();
    assert_eq!(host.receive(0, end), (OFFLOADED, 250));
    assert_eq!(host.shared.noted.len(), 4);
}

#[test]
fn what_a_host_sends_is_placed_by_its_transfer_tag() {
    let parameters = nvme(Role::Host, true, true);
    let stream = PduStream::new(
        &parameters,
        &[Kind::Capsule(512), data(9, 0, 4000), Kind::Capsule(0)],
    );
    let mut host = Host::mapped(&stream, ArrivalOrder::Any);
    let end = stream.len();
    let mut placed = 0;
    for from in (0..end).step_by(700) {
        let (verdict, bytes) = host.receive(from, (from + 700).min(end));
        assert_eq!(verdict, OFFLOADED);
        placed += bytes;
    }
    assert_eq!(placed, 4000, "not what is in the capsule");
}

#[test]
fn past_data_are_not_placed() {
    // Figure 8a
    let stream = thousands(3);
    let mut host = Host::mapped(&stream, ArrivalOrder::Any);
    host.receive(0, 400);
    assert_eq!(host.receive(100, 400), (bypassed(Bypass::Past), 0));
    assert_eq!(host.receive(400, 1000), (OFFLOADED, 596));
    // Begins in the past: the digest goes on, and only what is new is placed.
    let (verdict, placed) = host.receive(500, 1500);
    assert_eq!((verdict, placed), (bypassed(Bypass::Absorbed), 476));
}

#[test]
fn behind_a_loss_inside_a_pdu_data_are_placed_on() {
    // Figure 8b; NVMeTCP offload: "the HW will continue the direct data placement of the following packets".
    let stream = thousands(4);
    let mut host = Host::mapped(&stream, ArrivalOrder::Sequence);
    assert_eq!(host.receive(0, 300), (OFFLOADED, 276));
    assert_eq!(host.receive(600, 900), (bypassed(Bypass::Gap), 300));
    // With the next header: what it ends is placed, and what it begins.
    let (verdict, placed) = host.receive(900, 1300);
    assert_eq!((verdict, placed), (bypassed(Bypass::Absorbed), 96 + 276));
    assert_eq!(host.receive(1300, 1900), (OFFLOADED, 600));
    // "When the missing packet arrives, the HW will bypass the offload flow."
    assert_eq!(host.receive(300, 600), (bypassed(Bypass::Past), 0));
    assert!(host.recovery.is_in_step());
}

#[test]
fn a_late_packet_of_a_pdu_is_placed_and_completes_its_digest() {
    let stream = thousands(4);
    let mut host = Host::mapped(&stream, ArrivalOrder::Any);
    assert_eq!(host.receive(0, 300), (OFFLOADED, 276));
    assert_eq!(host.receive(600, 900), (OFFLOADED, 300));
    assert_eq!(host.receive(900, 1300), (OFFLOADED, 96 + 276));
    assert_eq!(host.receive(300, 600), (OFFLOADED, 300));
    assert_eq!(host.receive(300, 600), (bypassed(Bypass::Past), 0));
    assert_eq!(host.shared.counts.late, 1);
}

#[test]
fn a_late_packet_with_wrong_data_fails_the_digest_and_is_not_placed() {
    let stream = thousands(4);
    let mut host = Host::mapped(&stream, ArrivalOrder::Any);
    host.receive(0, 300);
    host.receive(600, 1300);
    let mut wrong = stream.wire[300..600].to_vec();
    wrong[7] ^= 1;
    let (verdict, placed) = host.receive_as(300, &wrong);
    assert_eq!((verdict, placed), (bypassed(Bypass::Failed), 0));
    assert_eq!(host.receive(1300, 1900), (OFFLOADED, 600));
}

#[test]
fn a_lost_header_is_asked_about_and_placement_goes_on_after_the_answer() {
    // Figure 8c
    for order in [ArrivalOrder::Sequence, ArrivalOrder::Any] {
        let stream = thousands(8);
        let mut host = Host::mapped(&stream, order);
        assert_eq!(host.receive(0, 900).0, OFFLOADED);
        // 900..1100 is lost.
        assert_eq!(host.receive(1100, 2100), (bypassed(Bypass::OutOfStep), 0));
        assert_eq!(host.recovery.due_request(0), Some(FIRST + 2000));
        assert_eq!(host.receive(2100, 3100), (bypassed(Bypass::OutOfStep), 0));
        assert_eq!(host.answer(), Some((2000, Answer::Resumed)));
        // From the next header on.
        assert_eq!(host.receive(3100, 4000), (bypassed(Bypass::Past), 0));
        assert_eq!(host.receive(4000, 5000), (OFFLOADED, 972));
        assert_eq!(host.receive(5000, 6000), (OFFLOADED, 972));
    }
}

#[test]
fn what_was_passed_up_while_a_header_was_missing_is_not_placed_when_it_comes_again() {
    let stream = thousands(6);
    let mut host = Host::mapped(&stream, ArrivalOrder::Any);
    host.receive(0, 900);
    assert_eq!(host.receive(1300, 1500), (bypassed(Bypass::OutOfStep), 0));
    // The missing header comes; then what has come already, and what follows.
    let (verdict, placed) = host.receive(900, 1300);
    assert_eq!((verdict, placed), (OFFLOADED, 96 - 24 + 24 + 276));
    assert_eq!(host.receive(1300, 1500), (OFFLOADED, 0));
    assert_eq!(host.receive(1500, 2500), (OFFLOADED, 496 + 476));
}

#[test]
fn a_tag_that_is_not_mapped_keeps_its_data_in_the_stream() {
    let stream = thousands(3);
    let mut host = Host::new(&stream, ArrivalOrder::Any);
    host.map(1);
    assert_eq!(host.receive(0, 1000), (OFFLOADED, 0));
    assert_eq!(host.shared.noted.refused, 1);
    assert_eq!(host.receive(1000, 2000), (OFFLOADED, 972));
    // Too late for the one that has begun.
    host.receive(2000, 2100);
    host.map(2);
    assert_eq!(host.receive(2100, 3000), (OFFLOADED, 0));
}

#[test]
fn nothing_is_placed_after_unmapping_also_when_the_tag_is_mapped_again() {
    let stream = thousands(3);
    let mut host = Host::mapped(&stream, ArrivalOrder::Any);
    assert_eq!(host.receive(0, 300), (OFFLOADED, 276));
    assert_eq!(host.receive(400, 600), (OFFLOADED, 200));
    host.unmap(0);
    host.map(0);
    assert_eq!(host.receive(600, 700), (OFFLOADED, 0), "in sequence");
    assert_eq!(host.receive(300, 400), (OFFLOADED, 0), "late");
    assert_eq!(host.receive(700, 1000), (OFFLOADED, 0));
    assert_eq!(host.shared.noted.refused, 3);
}

#[test]
fn data_beyond_their_buffer_stay_in_the_stream() {
    let parameters = nvme(Role::Controller, false, false);
    let stream = PduStream::new(
        &parameters,
        &[
            data(0, BUFFER - 10, 11),
            data(0, BUFFER - 10, 10),
            data(0, 0, 10),
        ],
    );
    let mut host = Host::mapped(&stream, ArrivalOrder::Any);
    let end = stream.len();
    assert_eq!(host.receive(0, end), (OFFLOADED, 10));
    assert_eq!(host.shared.noted.refused, 2);
}

#[test]
fn more_pdus_than_a_packet_can_have_places_stay_in_the_stream() {
    let parameters = nvme(Role::Controller, false, false);
    let kinds: Vec<Kind> = (0..30).map(|tag| data(tag, 0, 20)).collect();
    let stream = PduStream::new(&parameters, &kinds);
    let mut host = Host::mapped(&stream, ArrivalOrder::Any);
    let end = stream.len();
    let most = crate::context::receive::placing::MAX_PLACED;
    assert_eq!(host.receive(0, end), (OFFLOADED, 20 * most));
}
