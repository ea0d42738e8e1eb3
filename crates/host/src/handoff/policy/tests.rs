use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::{Choice, Record, Selection, Selector};

const PORT: u16 = 80;

fn selector(selection: Selection, limit: u32) -> Selector<u32> {
    Selector::new(selection, &[], limit)
}

#[test]
fn selections_are_written_as_they_are_read() {
    for text in ["off", "fcfs", "t1", "t4", "t20", "t4294967295", "predict"] {
        assert_eq!(text.parse::<Selection>().unwrap().to_string(), text);
    }
    assert_eq!("T20".parse(), Ok(Selection::Threshold(20)));
    for text in [
        "",
        "t",
        "t0",
        "t-1",
        "t+4",
        "t 4",
        "t99999999999",
        "FIFO",
        "predictt",
    ] {
        let error = text.parse::<Selection>().unwrap_err().to_string();
        assert!(error.contains("off, fcfs, predict"), "{error}");
    }
}

#[test]
fn first_come_first_served_asks_once() {
    let now = Instant::now();
    let mut selector = selector(Selection::Fcfs, 1);
    let (mut first, mut second) = (Record::default(), Record::default());
    assert_eq!(
        selector.established(now, PORT, 1, &mut first),
        Choice::HandOff
    );
    assert_eq!(
        selector.established(now, PORT, 2, &mut second),
        Choice::Stay
    );
    selector.left(&mut first);
    assert_eq!(selector.held(), 0);
    // There is room now, but its attempt has failed; and who was restored stays.
    for record in [&mut first, &mut second] {
        assert_eq!(selector.sent(now, PORT, 3, record, 1000, 0), Choice::Stay);
    }
}

#[test]
fn a_threshold_is_a_number_of_sends() {
    let now = Instant::now();
    let mut selector = selector(Selection::Threshold(4), 10);
    let mut record = Record::default();
    assert_eq!(
        selector.established(now, PORT, 1, &mut record),
        Choice::Stay
    );
    let choices: Vec<_> = (0..6)
        .map(|_| selector.sent(now, PORT, 1, &mut record, 1000, 0))
        .collect();
    let mut expected = [Choice::Stay; 6];
    expected[3] = Choice::HandOff;
    assert_eq!(choices, expected);
}

#[test]
fn ports_have_policies_of_their_own() {
    let now = Instant::now();
    let ports = [(443, Selection::Fcfs), (80, Selection::Off)];
    let mut selector: Selector<u32> = Selector::new(Selection::Threshold(1), &ports, 10);
    let mut record = Record::default();
    assert_eq!(selector.established(now, 80, 1, &mut record), Choice::Stay);
    assert_eq!(selector.sent(now, 80, 1, &mut record, 1, 0), Choice::Stay);
    assert_eq!(
        selector.established(now, 443, 1, &mut record),
        Choice::HandOff
    );
    selector.left(&mut record);
    selector.established(now, 8080, 1, &mut record);
    assert_eq!(
        selector.sent(now, 8080, 1, &mut record, 1, 0),
        Choice::HandOff
    );
}

#[test]
fn a_limit_that_was_lowered_admits_nobody() {
    let now = Instant::now();
    let mut selector = selector(Selection::Fcfs, 2);
    let mut records = [Record::default(); 4];
    for (key, record) in records.iter_mut().enumerate() {
        selector.established(now, PORT, key as u32, record);
    }
    assert_eq!(selector.held(), 2);
    selector.set_soft_limit(1);
    selector.left(&mut records[0]);
    assert_eq!(
        selector.established(now, PORT, 9, &mut records[3]),
        Choice::Stay
    );
    selector.set_soft_limit(2);
    assert_eq!(
        selector.established(now, PORT, 9, &mut records[3]),
        Choice::HandOff
    );
}

#[test]
fn a_refused_connection_is_tried_again_later_by_predict_only() {
    let start = Instant::now();
    for (selection, again) in [(Selection::Predict, true), (Selection::Fcfs, false)] {
        let mut selector = selector(selection, 4);
        let mut record = Record::default();
        let mut asked = selector.established(start, PORT, 1, &mut record) == Choice::HandOff;
        asked |= selector.sent(start, PORT, 1, &mut record, 1000, 1 << 20) == Choice::HandOff;
        assert!(asked && record.is_held());
        selector.refused(start, PORT, &mut record);
        assert!(!record.is_held());
        let soon = start + Duration::from_millis(10);
        assert_eq!(
            selector.sent(soon, PORT, 1, &mut record, 1000, 1 << 20),
            Choice::Stay
        );
        let later = start + Duration::from_secs(1);
        let choice = selector.sent(later, PORT, 1, &mut record, 1000, 1 << 20);
        assert_eq!(choice == Choice::HandOff, again);
    }
}

#[test]
fn predict_gives_the_place_of_an_idle_connection_to_a_busy_one() {
    let start = Instant::now();
    let mut selector = selector(Selection::Predict, 2);
    let mut records = [Record::default(); 3];
    for (key, record) in records.iter_mut().enumerate() {
        selector.established(start, PORT, key as u32, record);
    }
    // Two are handed off, one of them goes on, the other one has nothing more to send.
    for (key, record) in records[..2].iter_mut().enumerate() {
        let choice = selector.sent(start, PORT, key as u32, record, 60_000, 0);
        assert_eq!(choice, Choice::HandOff);
    }
    let later = start + Duration::from_secs(2);
    selector.sent(later, PORT, 1, &mut records[1], 60_000, 0);
    assert_eq!(
        selector.sent(later, PORT, 2, &mut records[2], 60_000, 0),
        Choice::Instead(0)
    );
    assert_eq!(selector.held(), 2);
    // This one is no better than both of them: no exchange would pay.
    let mut fourth = Record::default();
    selector.established(later, PORT, 3, &mut fourth);
    assert_eq!(
        selector.sent(later, PORT, 3, &mut fourth, 20_000, 0),
        Choice::Stay
    );
    selector.left(&mut records[0]);
    assert_eq!(selector.held(), 2);
}

/// Ticks of about a millisecond go beyond 32 bits after 52 days.
#[test]
fn predict_tells_idle_from_busy_after_months_too() {
    let start = Instant::now();
    let mut selector = selector(Selection::Predict, 1);
    let (mut idle, mut busy) = (Record::default(), Record::default());
    selector.established(start, PORT, 0, &mut idle);
    let now = start + Duration::from_secs(60 * 86_400);
    let choice = selector.sent(now, PORT, 0, &mut idle, 1_000_000, 0);
    assert_eq!(choice, Choice::HandOff);
    selector.established(now, PORT, 1, &mut busy);
    let now = now + Duration::from_secs(10);
    let choice = selector.sent(now, PORT, 1, &mut busy, 100_000, 0);
    assert_eq!(choice, Choice::Instead(0));
    selector.left(&mut idle);
    selector.refused(now, PORT, &mut busy);
    let now = now + Duration::from_secs(1);
    let choice = selector.sent(now, PORT, 1, &mut busy, 100_000, 0);
    assert_eq!(choice, Choice::HandOff);
}

#[test]
fn predict_leaves_connections_alone_that_end_soon() {
    let start = Instant::now();
    let mut selector = selector(Selection::Predict, 1000);
    let mut asked = Vec::new();
    for key in 0..1000u32 {
        let mut record = Record::default();
        let now = start + Duration::from_millis(u64::from(key));
        selector.established(now, PORT, key, &mut record);
        // Two sends of a packet: that is all they ever do.
        for _ in 0..2 {
            let choice = selector.sent(now, PORT, key, &mut record, 1000, 0);
            asked.push(choice != Choice::Stay);
        }
        selector.left(&mut record);
    }
    assert!(asked[..8].contains(&true), "nothing is known at first");
    assert!(!asked[100..].contains(&true));
    let mut record = Record::default();
    selector.established(start, PORT, 1, &mut record);
    let choice = selector.sent(start, PORT, 1, &mut record, 1000, 1 << 20);
    assert_eq!(choice, Choice::HandOff, "a megabyte waits");
}

/// What may happen to one of a few connections.
#[derive(Clone, Debug)]
enum Step {
    Establish(usize),
    Send(usize, u32, u64),
    Refuse(usize),
    Leave(usize),
    Limit(u32),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let which = 0..12usize;
    prop_oneof![
        2 => which.clone().prop_map(Step::Establish),
        8 => (which.clone(), any::<u32>(), any::<u64>()).prop_map(|(c, b, w)| Step::Send(c, b, w)),
        4 => (which.clone(), 0..100_000u32, 0..100_000u64).prop_map(|(c, b, w)| Step::Send(c, b, w)),
        1 => which.clone().prop_map(Step::Refuse),
        2 => which.prop_map(Step::Leave),
        1 => (0..8u32).prop_map(Step::Limit),
        4 => any::<u64>().prop_map(|nanos| Step::Wait(nanos >> 24)),
    ]
}

proptest! {
    /// Never more on the NIC than it takes, each once, and only those are named that are there.
    #[test]
    fn no_more_are_held_than_were_allowed(
        selection in prop_oneof![Just(Selection::Predict), Just(Selection::Fcfs), (1..5u32).prop_map(Selection::Threshold)],
        limit in 0..8u32,
        steps in prop::collection::vec(step(), 0..300),
    ) {
        let mut now = Instant::now();
        let mut limit = limit;
        let mut selector: Selector<usize> = Selector::new(selection, &[], limit);
        let mut records = [Record::default(); 12];
        let mut leaving = [false; 12];
        for step in steps {
            let held: Vec<bool> = records.iter().map(Record::is_held).collect();
            let (which, choice) = match step {
                // Established once only, as connections are.
                Step::Establish(c) if !held[c] => (c, selector.established(now, PORT, c, &mut records[c])),
                Step::Establish(_) => continue,
                Step::Send(c, bytes, waiting) => (c, selector.sent(now, PORT, c, &mut records[c], bytes, waiting)),
                Step::Refuse(c) => {
                    selector.refused(now, PORT, &mut records[c]);
                    leaving[c] = false;
                    continue;
                }
                Step::Leave(c) => {
                    selector.left(&mut records[c]);
                    leaving[c] = false;
                    continue;
                }
                Step::Limit(new) => {
                    limit = new;
                    selector.set_soft_limit(new);
                    continue;
                }
                Step::Wait(nanos) => {
                    now += Duration::from_nanos(nanos);
                    continue;
                }
            };
            prop_assert_eq!(choice != Choice::Stay, records[which].is_held() && !held[which]);
            if let Choice::Instead(other) = choice {
                prop_assert!(held[other] && !leaving[other] && other != which);
                leaving[other] = true;
            }
            let counted = (0..12).filter(|&c| records[c].is_held() && !leaving[c]).count();
            prop_assert_eq!(selector.held(), counted as u32);
            if choice != Choice::Stay {
                prop_assert!(selector.held() <= limit);
            }
        }
    }
}
