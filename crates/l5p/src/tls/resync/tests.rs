use proptest::collection::vec;
use proptest::prelude::*;
use wire::SeqNum;

use super::Resync;
use crate::resync::OPEN_REQUESTS;

fn answers(resync: &mut Resync) -> Vec<(u32, bool, u64)> {
    std::iter::from_fn(|| resync.poll_answer())
        .map(|a| (a.tcpsn.0, a.confirmed, a.index))
        .collect()
}

#[test]
fn a_guess_is_confirmed_when_its_record_is_reached() {
    let mut resync = Resync::default();
    resync.note_record(SeqNum(100), 7, 0);
    resync.request(SeqNum(300));
    assert_eq!(answers(&mut resync), []);
    resync.note_record(SeqNum(200), 8, 0);
    assert_eq!(answers(&mut resync), []);
    resync.note_record(SeqNum(300), 9, 0);
    assert_eq!(answers(&mut resync), [(300, true, 9)]);
}

#[test]
fn a_guess_is_refused_when_the_stream_passes_it() {
    let mut resync = Resync::default();
    resync.request(SeqNum(150));
    resync.note_record(SeqNum(100), 7, 0);
    assert_eq!(answers(&mut resync), []);
    resync.note_record(SeqNum(200), 8, 0);
    assert_eq!(answers(&mut resync), [(150, false, 0)]);
}

#[test]
fn a_late_question_is_answered_from_memory() {
    let mut resync = Resync::default();
    resync.note_record(SeqNum(100), 7, 1);
    resync.note_record(SeqNum(200), 8, 2);
    resync.request(SeqNum(100));
    resync.request(SeqNum(101));
    let answer = resync.poll_answer().unwrap();
    assert_eq!((answer.confirmed, answer.index, answer.epoch), (true, 7, 1));
    assert_eq!(answers(&mut resync), [(101, false, 0)]);
}

proptest! {
    /// Every request gets one answer, and it is right or a refusal.
    #[test]
    fn nobody_waits_for_ever(
        start in any::<u32>(),
        steps in vec((1..500u32, vec(0..2000u32, 0..4)), 1..40),
    ) {
        let mut resync = Resync::default();
        let mut at = SeqNum(start);
        let (mut asked, mut answered, mut records) = (0, 0, vec![]);
        for (index, (len, requests)) in steps.iter().enumerate() {
            records.push((at, index as u64));
            resync.note_record(at, index as u64, 0);
            for request in requests {
                resync.request(at + *request - 1000);
                asked += 1;
            }
            at += *len;
        }
        resync.note_record(at + 5000, 99, 0);
        while let Some(answer) = resync.poll_answer() {
            answered += 1;
            if answer.confirmed {
                prop_assert!(records.contains(&(answer.tcpsn, answer.index)));
            }
        }
        prop_assert_eq!(asked, answered);
        prop_assert!(resync.records.open_requests() <= OPEN_REQUESTS);
    }
}
