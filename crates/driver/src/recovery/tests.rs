use super::*;

fn message() -> MsgState {
    MsgState {
        start: SeqNum(1000),
        len: 500,
        index: 7,
        epoch: 0,
    }
}

#[test]
fn memory_that_only_the_host_writes_is_named_up_to_where_sending_resumes() {
    let recovery = Recovery::plan(message(), SeqNum(1200), SeqNum(5000), false);
    assert_eq!((recovery.prefix, recovery.verify), (200, Verify::None));
}

#[test]
fn a_message_of_mutable_memory_that_was_sent_whole_is_verified_whole() {
    let recovery = Recovery::plan(message(), SeqNum(1200), SeqNum(1500), true);
    assert_eq!(
        (recovery.prefix, recovery.verify),
        (500, Verify::WholeMessage)
    );
    let recovery = Recovery::plan(message(), SeqNum(1000), SeqNum(9000), true);
    assert_eq!(
        (recovery.prefix, recovery.verify),
        (500, Verify::WholeMessage)
    );
}

#[test]
fn a_message_of_mutable_memory_that_was_sent_in_part_is_verified_up_to_the_frontier() {
    let again = Recovery::plan(message(), SeqNum(1100), SeqNum(1300), true);
    assert_eq!((again.prefix, again.verify), (300, Verify::Frontier));
    let onward = Recovery::plan(message(), SeqNum(1300), SeqNum(1300), true);
    assert_eq!((onward.prefix, onward.verify), (300, Verify::Frontier));
}

#[test]
fn a_message_that_was_never_sent_needs_no_proof() {
    let recovery = Recovery::plan(message(), SeqNum(1000), SeqNum(1000), true);
    assert_eq!((recovery.prefix, recovery.verify), (0, Verify::None));
}
