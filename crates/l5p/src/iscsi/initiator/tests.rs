//! What an initiator counts (RFC 7143 §4.2.2).

use wire::iscsi::{Lun, NO_TAG, NopIn, Pdu, ProtocolError, ResponseNumbers};

use super::numbers::Numbers;

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
