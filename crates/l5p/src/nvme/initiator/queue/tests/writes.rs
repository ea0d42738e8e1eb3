use wire::nvme::command::DataPointer;
use wire::nvme::{FatalErrorStatus, H2CData};

use super::*;

const LEN: u32 = 256 << 10;

fn h2c(queue: &mut Queue) -> H2CData {
    match poll(queue).pdu {
        Pdu::H2CData(data) => data,
        other => panic!("not data: {other:?}"),
    }
}

#[test]
fn a_small_write_goes_with_its_command() {
    let mut queue = live();
    let (cid, outgoing) = write(&mut queue, 8192, 3);
    let in_capsule = DataPointer::InCapsule {
        offset: 0,
        len: 8192,
    };
    assert_eq!(entry(&outgoing).data, in_capsule);
    assert_eq!(outgoing.pdu.data_len(), 8192);
    let payload = Payload::Command {
        token: token(3),
        offset: 0,
        len: 8192,
    };
    assert_eq!(outgoing.payload, payload);
    assert_eq!(
        take(&mut queue, r2t(cid, 1, 0, 4096)),
        Err(FatalError::field(12))
    );
    take(&mut queue, response(cid, Status::SUCCESS, 0)).unwrap();
    assert!(ended(&mut queue).status.is_success());
}

#[test]
fn a_large_write_waits_for_its_r2t_and_keeps_to_maxh2cdata() {
    let mut queue = live();
    let (cid, outgoing) = write(&mut queue, LEN, 3);
    assert_eq!(entry(&outgoing).data, DataPointer::Transport { len: LEN });
    assert_eq!(queue.poll_pdu(), None);
    take(&mut queue, r2t(cid, 0xabcd, 65536, 100_000)).unwrap();
    let (first, second) = (h2c(&mut queue), h2c(&mut queue));
    assert_eq!(
        (first.data_offset, first.data_len, first.last),
        (65536, 65536, false)
    );
    assert_eq!(
        (second.data_offset, second.data_len, second.last),
        (131_072, 34_464, true)
    );
    assert_eq!((first.cccid, second.ttag), (cid, 0xabcd));
    assert_eq!(queue.poll_pdu(), None);
}

#[test]
fn more_r2ts_than_agreed_on_are_refused() {
    let mut queue = live();
    let (cid, _) = write(&mut queue, LEN, 1);
    for ttag in 0..2 {
        let offset = u32::from(ttag) * 4096;
        take(&mut queue, r2t(cid, ttag, offset, 4096)).unwrap();
    }
    let limit = Err(FatalError::of(FatalErrorStatus::LIMIT_EXCEEDED));
    assert_eq!(take(&mut queue, r2t(cid, 2, 8192, 4096)), limit);
    h2c(&mut queue);
    take(&mut queue, r2t(cid, 2, 8192, 4096)).unwrap();
}

#[test]
fn r2ts_beyond_the_data_or_twice_for_the_same_are_refused() {
    let mut queue = live();
    let (cid, _) = write(&mut queue, LEN, 1);
    let beyond = Err(FatalError::of(FatalErrorStatus::DATA_OUT_OF_RANGE));
    assert_eq!(take(&mut queue, r2t(cid, 0, LEN - 4, 8)), beyond);
    take(&mut queue, r2t(cid, 0, 4096, 4096)).unwrap();
    assert_eq!(
        take(&mut queue, r2t(cid, 1, 8188, 4096)),
        Err(FatalError::field(12))
    );
    assert_eq!(
        take(&mut queue, r2t(cid + 1, 1, 0, 4096)),
        Err(FatalError::field(8))
    );
}

#[test]
fn r2ts_for_a_read_are_refused() {
    let mut queue = live();
    let cid = read(&mut queue, LEN, 1);
    assert_eq!(
        take(&mut queue, r2t(cid, 0, 0, 4096)),
        Err(FatalError::field(8))
    );
}

#[test]
fn a_write_cannot_succeed_before_its_data_was_sent() {
    let mut queue = live();
    let (cid, _) = write(&mut queue, LEN, 1);
    take(&mut queue, r2t(cid, 0, 0, LEN)).unwrap();
    let sequence = Err(FatalError::of(FatalErrorStatus::SEQUENCE));
    assert_eq!(
        take(&mut queue, response(cid, Status::SUCCESS, 0)),
        sequence
    );
}

#[test]
fn the_data_of_a_write_that_failed_is_not_sent() {
    let mut queue = live();
    let (cid, _) = write(&mut queue, LEN, 1);
    take(&mut queue, r2t(cid, 0, 0, LEN)).unwrap();
    h2c(&mut queue);
    take(&mut queue, response(cid, Status::WRITE_FAULT, 0)).unwrap();
    assert_eq!(ended(&mut queue).status, Status::WRITE_FAULT);
    assert_eq!(queue.poll_pdu(), None);
}

#[test]
fn a_capsule_does_not_wait_for_data() {
    let mut queue = live();
    let (cid, _) = write(&mut queue, LEN, 1);
    take(&mut queue, r2t(cid, 0, 0, LEN)).unwrap();
    h2c(&mut queue);
    let flush = submit(&mut queue, Io::Flush, Transfer::None, 2);
    assert!(entry(&flush.1).data.is_empty());
    assert_eq!(h2c(&mut queue).cccid, cid);
}

#[test]
fn a_full_queue_takes_no_more() {
    let mut queue = live();
    for n in 0..8 {
        write(&mut queue, 512, n);
    }
    assert!(!queue.has_room());
    assert!(!queue.submit(Io::Flush.entry(0, 1), Transfer::None, token(9)));
}
