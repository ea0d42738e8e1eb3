use wire::nvme::FatalErrorStatus;

use super::*;

const LEN: u32 = 16384;

#[test]
fn data_may_come_in_any_order() {
    let mut queue = live();
    let cid = read(&mut queue, LEN, 5);
    for (offset, last) in [(8192, false), (0, false), (12288, false), (4096, true)] {
        let incoming = take(&mut queue, data(cid, offset, 4096, last, false));
        let expected = Incoming::Data {
            cid,
            token: token(5),
            offset,
            len: 4096,
        };
        assert_eq!(incoming, Ok(expected));
    }
    assert_eq!(queue.poll_event(), None);
    take(&mut queue, response(cid, Status::SUCCESS, 0)).unwrap();
    let done = ended(&mut queue);
    assert_eq!((done.token, done.status), (token(5), Status::SUCCESS));
    assert_eq!(queue.in_flight(), 0);
}

#[test]
fn the_last_data_completes_the_command_if_it_says_so() {
    let mut queue = live();
    let cid = read(&mut queue, LEN, 1);
    take(&mut queue, data(cid, 0, LEN, true, true)).unwrap();
    assert!(ended(&mut queue).status.is_success());
    let again = take(&mut queue, data(cid, 0, LEN, true, true));
    assert_eq!(again, Err(FatalError::field(8)));
}

#[test]
fn a_command_identifier_never_issued_is_refused() {
    let mut queue = live();
    let cid = read(&mut queue, LEN, 1);
    for stranger in [cid + 1, 8, 0xffff] {
        let refused = take(&mut queue, data(stranger, 0, LEN, true, false));
        assert_eq!(refused, Err(FatalError::field(8)));
        let refused = take(&mut queue, response(stranger, Status::SUCCESS, 0));
        assert_eq!(refused, Err(FatalError::field(20)));
    }
}

#[test]
fn a_command_that_was_not_sent_yet_cannot_be_answered() {
    let mut queue = live();
    let io = Io::Read {
        blocks: blocks(LEN),
        fua: false,
    };
    assert!(queue.submit(io.entry(0, 1), Transfer::ToHost(LEN), token(1)));
    for cid in 0..8 {
        assert!(take(&mut queue, data(cid, 0, LEN, true, true)).is_err());
        assert!(take(&mut queue, response(cid, Status::SUCCESS, 0)).is_err());
    }
}

#[test]
fn data_beyond_the_buffer_is_refused() {
    let mut queue = live();
    let cid = read(&mut queue, LEN, 1);
    let beyond = Err(FatalError::of(FatalErrorStatus::DATA_OUT_OF_RANGE));
    assert_eq!(take(&mut queue, data(cid, LEN, 1, false, false)), beyond);
    assert_eq!(take(&mut queue, data(cid, 1, LEN, false, false)), beyond);
    let huge = u32::MAX - 1;
    assert_eq!(take(&mut queue, data(cid, huge, 1, false, false)), beyond);
}

#[test]
fn overlapping_data_is_refused() {
    let mut queue = live();
    let cid = read(&mut queue, LEN, 1);
    take(&mut queue, data(cid, 4096, 4096, false, false)).unwrap();
    let sequence = Err(FatalError::of(FatalErrorStatus::SEQUENCE));
    for offset in [4096, 2048, 8188] {
        let refused = take(&mut queue, data(cid, offset, 4096, false, false));
        assert_eq!(refused, sequence);
    }
}

#[test]
fn short_data_is_refused() {
    let mut queue = live();
    let cid = read(&mut queue, LEN, 1);
    let refused = take(&mut queue, data(cid, 0, 4096, true, true));
    assert_eq!(refused, Err(FatalError::field(1)));

    let mut queue = live();
    let cid = read(&mut queue, LEN, 1);
    take(&mut queue, data(cid, 0, 4096, true, false)).unwrap();
    let sequence = Err(FatalError::of(FatalErrorStatus::SEQUENCE));
    assert_eq!(
        take(&mut queue, response(cid, Status::SUCCESS, 0)),
        sequence
    );
    assert_eq!(
        take(&mut queue, data(cid, 4096, 4096, false, false)),
        sequence
    );
}

#[test]
fn a_read_that_fails_midway_may_be_short() {
    let mut queue = live();
    let cid = read(&mut queue, LEN, 1);
    take(&mut queue, data(cid, 0, 4096, false, false)).unwrap();
    let status = Status::UNRECOVERED_READ_ERROR;
    take(&mut queue, response(cid, status, 0)).unwrap();
    assert_eq!(ended(&mut queue).status, status);
}

#[test]
fn data_for_a_write_is_refused() {
    let mut queue = live();
    let (cid, _) = write(&mut queue, LEN, 1);
    let refused = take(&mut queue, data(cid, 0, LEN, true, false));
    assert_eq!(refused, Err(FatalError::of(FatalErrorStatus::SEQUENCE)));
}

#[test]
fn a_wrong_data_digest_fails_that_command_alone() {
    let mut queue = live();
    let (bad, good) = (read(&mut queue, LEN, 1), read(&mut queue, LEN, 2));
    for (cid, intact) in [(bad, false), (good, true)] {
        queue.handle_header(&data(cid, 0, LEN, true, true)).unwrap();
        queue.handle_end(intact);
    }
    let status = Status::TRANSIENT_TRANSPORT_ERROR;
    assert_eq!(ended(&mut queue).status, status);
    assert_eq!(ended(&mut queue).status, Status::SUCCESS);
}

#[test]
fn identifiers_are_used_again_as_late_as_possible() {
    let mut queue = live();
    let mut seen = Vec::new();
    for n in 0..16 {
        let cid = read(&mut queue, 512, n);
        take(&mut queue, data(cid, 0, 512, true, true)).unwrap();
        ended(&mut queue);
        seen.push(cid);
    }
    let expected: Vec<u16> = (0..8).chain(0..8).collect();
    assert_eq!(seen, expected);
}

#[test]
fn a_lost_connection_ends_all_commands() {
    let mut queue = live();
    read(&mut queue, LEN, 1);
    let io = Io::Flush.entry(0, 1);
    assert!(queue.submit(io, Transfer::None, token(2)));
    queue.close(Status::HOST_PATHING_ERROR);
    let tokens = [ended(&mut queue).token, ended(&mut queue).token];
    assert_eq!(tokens, [token(1), token(2)]);
    assert_eq!((queue.poll_pdu(), queue.poll_event()), (None, None));
    assert!(queue.handle_header(&data(0, 0, 1, false, false)).is_err());
}

#[test]
fn a_command_that_takes_too_long_is_noticed() {
    let mut queue = live();
    read(&mut queue, LEN, 1);
    let late: Vec<bool> = (0..4).map(|_| queue.tick(2)).collect();
    assert_eq!(late, [false, false, true, true]);
}
