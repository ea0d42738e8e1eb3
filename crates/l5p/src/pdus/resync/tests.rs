use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

fn answers(resync: &mut Resync) -> Vec<(u32, Option<u32>, Option<u64>)> {
    std::iter::from_fn(|| resync.poll_answer())
        .map(|answer| (answer.tcpsn.0, answer.inner, answer.index))
        .collect()
}

#[test]
fn the_next_start_is_known_from_the_header_before() {
    let mut resync = Resync::new(SeqNum(100), 0);
    resync.request(SeqNum(1 << 20), None);
    resync.request(SeqNum(500), None);
    assert_eq!(answers(&mut resync), []);
    resync.note_pdu(SeqNum(100), (1 << 20) - 100, 0);
    assert_eq!(
        answers(&mut resync),
        [(1 << 20, None, Some(1)), (500, None, None)]
    );
    resync.request(SeqNum(100), None);
    assert_eq!(answers(&mut resync), [(100, None, Some(0))]);
}

#[test]
fn a_place_in_a_record_waits_for_the_record_and_for_the_pdu() {
    let mut resync = Resync::new(SeqNum(0), 0);
    // PDUs of 1,000 bytes in records that carry 400.
    resync.request(SeqNum(2000), Some(200));
    resync.note_record(SeqNum(1000), SeqNum(0), 400);
    resync.note_pdu(SeqNum(0), 1000, 0);
    resync.note_record(SeqNum(1500), SeqNum(400), 400);
    assert_eq!(answers(&mut resync), []);
    resync.note_record(SeqNum(2000), SeqNum(800), 400);
    assert_eq!(answers(&mut resync), [(2000, Some(200), Some(1))]);
    // No record begins there; no PDU does; the record is not as long.
    resync.request(SeqNum(1999), Some(201));
    resync.request(SeqNum(2000), Some(201));
    resync.request(SeqNum(1500), Some(600));
    resync.note_pdu(SeqNum(1000), 1000, 1);
    let refused = [(1999, 201), (1500, 600), (2000, 201)];
    assert_eq!(
        answers(&mut resync),
        refused.map(|(tcpsn, inner)| (tcpsn, Some(inner), None))
    );
}

proptest! {
    /// Every request gets one answer, and it is right or a refusal.
    #[test]
    fn nobody_waits_for_ever(
        start in any::<u32>(),
        steps in vec((1..500u32, vec(0..2000u32, 0..4)), 1..40),
    ) {
        let mut at = SeqNum(start);
        let mut resync = Resync::new(at, 0);
        let (mut asked, mut answered, mut pdus) = (0, 0, vec![]);
        for (index, (len, requests)) in steps.iter().enumerate() {
            pdus.push((at, index as u64));
            for request in requests {
                resync.request(at + *request - 1000, None);
                asked += 1;
            }
            resync.note_pdu(at, *len, index as u64);
            at += *len;
        }
        pdus.push((at, steps.len() as u64));
        resync.note_pdu(at, 5000, steps.len() as u64);
        while let Some(answer) = resync.poll_answer() {
            answered += 1;
            if let Some(index) = answer.index {
                prop_assert!(pdus.contains(&(answer.tcpsn, index)));
            }
        }
        prop_assert_eq!(asked, answered);
    }
}
