//! What an initiator counts (RFC 7143 §4.2.2).

use wire::iscsi::{Lun, NO_TAG, NopIn, Pdu, ProtocolError, ResponseNumbers, TextResponse};

use super::login::Failed;
use super::negotiation::Negotiation;
use super::numbers::Numbers;
use super::{Agreed, Failure};

/// A NOP-In: with a status if it has a task's tag.
fn nop(task_tag: u32, stat_sn: u32, [exp_cmd_sn, max_cmd_sn]: [u32; 2]) -> Pdu {
    Pdu::NopIn(NopIn {
        lun: Lun::default(),
        task_tag,
        transfer_tag: NO_TAG,
        numbers: ResponseNumbers {
            stat_sn,
            exp_cmd_sn,
            max_cmd_sn,
        },
        data_len: 0,
    })
}

#[test]
fn a_status_that_is_missing_ends_the_session() {
    let mut numbers = Numbers::new();
    assert_eq!(numbers.take(&nop(1, 7, [1, 4])), Ok(()));
    assert_eq!(numbers.exp_stat_sn(), 8);
    // What has no status tells the number of the next one.
    assert_eq!(numbers.take(&nop(NO_TAG, 8, [1, 4])), Ok(()));
    assert_eq!(numbers.exp_stat_sn(), 8);
    let missing = ProtocolError::Sequence {
        what: "StatSN",
        got: 9,
        expected: 8,
    };
    assert_eq!(numbers.take(&nop(1, 9, [1, 4])), Err(missing));
    assert_eq!(numbers.take(&nop(1, 8, [1, 4])), Ok(()));
}

#[test]
fn commands_go_as_far_as_the_target_has_said_that_it_has_room() {
    let mut numbers = Numbers::new();
    let mut sent = |window: Option<[u32; 2]>| {
        if let Some(window) = window {
            numbers.take(&nop(NO_TAG, 7, window)).unwrap();
        }
        std::iter::from_fn(|| numbers.next())
            .map(|numbers| numbers.cmd_sn)
            .collect::<Vec<_>>()
    };
    assert_eq!(sent(None), [1]);
    assert_eq!(sent(Some([2, 3])), [2, 3]);
    // One that is smaller than it was, or than nothing, is old.
    assert_eq!(sent(Some([2, 2])), []);
    assert_eq!(sent(Some([9, 7])), []);
    assert_eq!(sent(Some([4, 4])), [4]);
    // Of no commands.
    assert_eq!(sent(Some([5, 4])), []);
    assert_eq!(sent(Some([5, 6])), [5, 6]);
}

#[test]
fn a_negotiation_takes_64_kib_of_text_and_no_byte_more() {
    const PARTS: usize = 8;
    for (more, is_taken) in [(0, true), (1, false)] {
        let mut agreed = Agreed::DEFAULT;
        let mut negotiation = Negotiation::default();
        let mut answer = |part: &[u8], continues| {
            let response = TextResponse {
                is_final: false,
                continues,
                lun: Lun::default(),
                task_tag: 1,
                transfer_tag: 2,
                numbers: ResponseNumbers {
                    stat_sn: 1,
                    exp_cmd_sn: 1,
                    max_cmd_sn: 1,
                },
                data_len: part.len() as u32,
            };
            negotiation.answer(&mut agreed, &response, part)
        };
        let mut part = vec![0; (64 << 10) / PARTS];
        part[..4].copy_from_slice(b"X-y=");
        for _ in 1..PARTS {
            assert!(answer(&part, true).is_ok());
        }
        part.extend(vec![0; more]);
        match answer(&part, false) {
            Ok(answers) => assert!(is_taken && answers.is_some_and(|answers| !answers.is_empty())),
            Err(Failed::Failure(Failure::TextTooLong)) => assert!(!is_taken),
            Err(Failed::Protocol(error)) => panic!("{error}"),
            Err(Failed::Failure(failure)) => panic!("{failure}"),
        }
    }
}
