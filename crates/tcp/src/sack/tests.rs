use proptest::prelude::*;

use super::*;
use crate::rack::Rack;
use crate::time::MILLISECOND;

const BASE: SeqNum = SeqNum(0xffff_fff0);
const PACKET: u16 = 10;
const MSS: u32 = PACKET as u32;

fn delivery(now: Time) -> Delivery {
    Delivery::new(now, None, None)
}

/// A scoreboard without cursors and counters: one entry a packet.
#[derive(Clone, Debug)]
struct Packet {
    sent_at: Time,
    end: u32,
    status: Status,
}

#[derive(Clone, Debug)]
enum Step {
    Send(u32),
    Sack(u32, u32),
    Acknowledge(u32),
    Detect,
    Resend(u32),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (1u32..12).prop_map(Step::Send),
        4 => (0u32..60, 1u32..8).prop_map(|(at, len)| Step::Sack(at, len)),
        1 => (0u32..10).prop_map(Step::Acknowledge),
        3 => Just(Step::Detect),
        3 => (1u32..6).prop_map(Step::Resend),
        4 => (1u64..20).prop_map(Step::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Cursors and joined records find exactly what a scan of every packet finds.
    #[test]
    fn it_agrees_with_a_plain_table(steps in prop::collection::vec(step(), 1..120)) {
        let mut board = Scoreboard::new(BASE);
        let mut rack = Rack::new(BASE);
        let mut packets: Vec<Packet> = Vec::new();
        let mut acked = 0u32;
        let mut now = Time(MILLISECOND);
        for step in steps {
            let count = packets.len() as u32;
            let seq = |packet: u32| BASE + packet * MSS;
            match step {
                Step::Send(n) => {
                    board.push(seq(count), seq(count + n), now, PACKET);
                    for index in count..count + n {
                        packets.push(Packet { sent_at: now, end: index + 1, status: Status::Sent });
                    }
                }
                Step::Sack(at, len) => {
                    let from = (acked + at).min(count);
                    let to = (from + len).min(count);
                    if from < to {
                        let mut delivery = delivery(now);
                        board.sack(seq(from), seq(to), &mut delivery);
                        let fresh = packets[from as usize..to as usize].iter_mut().filter(|p| p.status != Status::Sacked);
                        let fresh = fresh.map(|p| p.status = Status::Sacked).count() as u32;
                        prop_assert_eq!(delivery.bytes, fresh * MSS);
                        if fresh > 0 {
                            rack.update(&delivery);
                        }
                    }
                }
                Step::Acknowledge(n) => {
                    let to = (acked + n).min(count);
                    let mut delivery = delivery(now);
                    board.acknowledge(seq(to), &mut delivery);
                    let fresh = packets[acked as usize..to as usize].iter().filter(|p| p.status != Status::Sacked).count();
                    prop_assert_eq!(delivery.bytes, fresh as u32 * MSS);
                    if delivery.bytes > 0 {
                        rack.update(&delivery);
                    }
                    acked = to;
                }
                Step::Detect => {
                    let (lost, _) = board.detect_losses(&rack, MILLISECOND, now);
                    let mut expected = 0;
                    for packet in &mut packets[acked as usize..] {
                        let flying = matches!(packet.status, Status::Sent | Status::Resent);
                        let end = BASE + packet.end * MSS;
                        if flying && rack.was_sent_after(packet.sent_at, end) && rack.remaining(packet.sent_at, MILLISECOND, now) == 0 {
                            packet.status = Status::Lost;
                            expected += MSS;
                        }
                    }
                    prop_assert_eq!(lost, expected);
                    // What is resent from here on is in order of time and position.
                    now = now.after(1);
                }
                Step::Resend(limit) => {
                    let first = packets[acked as usize..].iter().position(|p| p.status == Status::Lost);
                    let found = board.next_lost(limit * MSS);
                    prop_assert_eq!(found.is_some(), first.is_some());
                    if let (Some((start, end)), Some(first)) = (found, first) {
                        let first = first + acked as usize;
                        let run = packets[first..].iter().take_while(|p| p.status == Status::Lost).count().min(limit as usize);
                        prop_assert_eq!(start, seq(first as u32));
                        prop_assert_eq!(end, seq((first + run) as u32));
                        board.mark_resent(start, end, now, PACKET);
                        for packet in &mut packets[first..first + run] {
                            packet.status = Status::Resent;
                            packet.sent_at = now;
                        }
                    }
                }
                Step::Pass(millis) => now = now.after(millis * MILLISECOND),
            }
            board.assert_invariants(BASE + acked * MSS, BASE + packets.len() as u32 * MSS);
            let of = |status| packets[acked as usize..].iter().filter(|p| p.status == status).count() as u32 * MSS;
            prop_assert_eq!((board.sacked(), board.lost()), (of(Status::Sacked), of(Status::Lost)));
        }
    }
}

/// A block that cuts a packet counts for the whole packets in it only.
#[test]
fn only_whole_packets_count() {
    let mut board = Scoreboard::new(SeqNum(0));
    board.push(SeqNum(0), SeqNum(95), Time(1), PACKET);
    let mut told = delivery(Time(2));
    board.sack(SeqNum(15), SeqNum(38), &mut told);
    assert_eq!(board.sacked(), 10);
    // The last packet is short.
    board.sack(SeqNum(85), SeqNum(95), &mut told);
    assert_eq!(board.sacked(), 15);
    board.assert_invariants(SeqNum(0), SeqNum(95));
}

/// What is sent at once is one record, however many packets; so is what was acknowledged, in whatever order.
#[test]
fn records_are_few() {
    let backward: Vec<u32> = (1..1000).rev().collect();
    let forward: Vec<u32> = (1..1000).collect();
    let inward: Vec<u32> = (1..500).flat_map(|n| [n, 1000 - n]).chain([500]).collect();
    for (order, most) in [(backward, 2), (forward, 3), (inward, 4)] {
        let mut board = Scoreboard::new(SeqNum(0));
        for n in 0..1000 {
            board.push(SeqNum(n * MSS), SeqNum((n + 1) * MSS), Time(5), PACKET);
        }
        assert_eq!(board.records.len(), 1);
        let mut told = delivery(Time(6));
        for n in order {
            board.sack(SeqNum(n * MSS), SeqNum((n + 1) * MSS), &mut told);
            assert!(board.records.len() <= most, "{n}");
        }
        assert_eq!((board.records.len(), board.sacked()), (2, 999 * MSS));
    }
}

/// The cost of hostile SACK blocks is bounded.
#[test]
fn records_are_bounded() {
    let mut board = Scoreboard::new(SeqNum(0));
    let packets = 3 * MAX_RECORDS as u32;
    board.push(SeqNum(0), SeqNum(packets * MSS), Time(1), PACKET);
    let mut told = delivery(Time(2));
    for n in (1..packets).rev().step_by(2) {
        board.sack(SeqNum(n * MSS), SeqNum((n + 1) * MSS), &mut told);
    }
    assert!(board.records.len() <= MAX_RECORDS);
    board.assert_invariants(SeqNum(0), SeqNum(packets * MSS));
}

/// RFC 8985 §6.2 step 2: of segments sent at one time, the one that ends last was sent last, in whatever order the blocks name them.
#[test]
fn of_what_was_sent_at_once_the_last_byte_counts_as_sent_last() {
    let now = Time(MILLISECOND);
    for blocks in [[1, 3], [3, 1]] {
        let mut board = Scoreboard::new(BASE);
        board.push(BASE, BASE + 5 * MSS, now, PACKET);
        let mut delivery = delivery(now);
        for at in blocks {
            board.sack(BASE + at * MSS, BASE + (at + 1) * MSS, &mut delivery);
        }
        assert_eq!(delivery.newest, Some((now, BASE + 4 * MSS, false)));
    }
}

/// RFC 4821 §7.4: what was sent before packets have become larger is acknowledged packet by packet still, and so is what a smaller size came behind.
#[test]
fn packets_count_in_the_size_that_they_were_sent_in() {
    const LARGER: u16 = PACKET + 4;
    let (now, behind) = (Time(MILLISECOND), BASE + 5 * MSS);
    let mut board = Scoreboard::new(BASE);
    board.push(BASE, behind, now, PACKET);
    board.push(behind, behind + 3 * u32::from(LARGER), now, LARGER);
    let mut delivery = delivery(now);
    board.sack(BASE + MSS, BASE + 2 * MSS, &mut delivery);
    assert_eq!(board.sacked(), MSS);
    board.sack(
        behind + u32::from(LARGER),
        behind + 2 * u32::from(LARGER),
        &mut delivery,
    );
    assert_eq!(board.sacked(), MSS + u32::from(LARGER));
}
