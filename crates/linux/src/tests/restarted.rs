//! A driver that takes the place of another one, and one that is about to end.

use std::time::Duration;

use attachment::{Direction, Errno, OffloadState, Resume, SlotRequest};
use wire::SeqNum;
use wire::tcp::Flags;

use super::program::{
    CIPHER, Program, Stretch, greeting_and_records, greeting_records_and_plain, keys, program,
    resume,
};
use super::rig::{PAIRS, flow};

/// RFC 6069: what Linux sends again meanwhile it sends at its first interval.
#[test]
fn linux_is_told_of_what_does_not_come_to_the_peer_while_the_library_is_away() {
    for pair in PAIRS {
        let stretches = [Stretch::Plain(100), Stretch::Records(vec![1000; 8])];
        let mut program = Program::new(flow(pair), CIPHER, 1000, &stretches, 1 << 20);
        program.write(usize::MAX).unwrap();
        program.send(0, 4000, 1400, (false, true));
        program.drain();
        assert_eq!(program.unreachable, []);
        program.restart();
        program.send(100, 4000, 1400, (false, false));
        program.drain();
        assert_eq!(program.unreachable, [program.at(100)]);
        program.resume().unwrap();
        program.finish(1400).unwrap();
        program.drain();
        assert_eq!(program.unreachable.len(), 1);
    }
}

#[test]
fn after_a_restart_nothing_leaves_until_the_library_is_back() {
    let mut program = greeting_and_records();
    program.send(0, 4000, 1400, (false, true));
    program.restart();
    program.send(0, 6000, 1400, (false, false));
    assert_eq!(program.received(), 0);
    assert_eq!(program.function.counters().tx_tls_fenced_dropped, 1);
    program.resume().unwrap();
    program.finish(1400).unwrap();
    assert_eq!(program.resets, (0, 0));
}

#[test]
fn an_orphan_is_reset_after_a_while() {
    let mut program = greeting_and_records();
    program.send(0, 4000, 1400, (false, true));
    program.restart();
    program.wait(29);
    program.send(0, 4000, 1400, (false, false));
    assert_eq!(program.resets, (0, 0));
    let due = program.function.poll_timeout().unwrap();
    assert!(
        due <= program.now + Duration::from_secs(1),
        "the end is not slept over"
    );
    program.wait(1);
    program.send(0, 4000, 1400, (false, false));
    program.drain();
    assert_eq!(program.resets, (1, 1));
    assert_eq!(program.received(), 0);
}

#[test]
fn keys_with_another_record_number_than_before_are_refused() {
    let mut program = greeting_and_records();
    program.send(0, 4000, 1400, (false, true));
    program.restart();
    let resume = resume(program.at(100 + 1022), keys(CIPHER, 1).sequence + 2);
    assert_eq!(
        program.set_keys(keys(CIPHER, 1), Some(resume)),
        Err(Errno::INVAL)
    );
    assert_eq!(program.function.counters().tls_resets, 1);
}

/// The NIC has noted as many sets as there can be, and died before the library knew of the last one.
#[test]
fn keys_that_nothing_was_sent_under_are_taken_again_after_a_restart() {
    let records = || Stretch::Records(vec![100]);
    let stretches = [
        Stretch::Plain(100),
        records(),
        records(),
        records(),
        records(),
    ];
    let mut program = program(&stretches);
    let boundary = |program: &Program, number: u8| program.at(100 + 122 * usize::from(number));
    program.write(100 + 122 * 3).unwrap();
    program.send(0, 100 + 122 * 3, 1400, (false, true));
    program.restart();
    for number in 1..=3 {
        let info = keys(CIPHER, number);
        let resume = resume(boundary(&program, number), info.sequence + 1);
        assert_eq!(program.set_keys(info, Some(resume)), Ok(resume.tcpsn));
    }
    let last = program.set_keys(keys(CIPHER, 4), None);
    assert_eq!(last, Ok(boundary(&program, 3)));
    program.send(0, 100 + 122 * 3, 1400, (false, false));
    program.finish(1400).unwrap();
    assert_eq!(program.resets, (0, 0));
}

/// A library whose first keys were lost on their way may go on without the NIC then.
#[test]
fn a_connection_that_is_not_known_has_nothing_to_stop() {
    let mut program = program(&[Stretch::Plain(100), Stretch::Records(vec![1000; 8])]);
    program.forget();
    for direction in [Direction::Transmit, Direction::Receive] {
        let stop = SlotRequest::Stop {
            slot: program.slot.clone(),
            direction,
            socket: program.facts(),
        };
        assert_eq!(program.order(stop), Err(Errno::NOENT));
    }
}

/// The library of `longshore-ktls` comes back only with keys that the state has; others may say anything.
#[test]
fn keys_to_go_on_with_that_the_nic_never_had_are_taken_if_nothing_may_have_to_be_sent_again() {
    for (at, upto, taken) in [
        (100, 100, Ok(100)),
        (100, 99, Err(Errno::INVAL)),
        (99, 100, Err(Errno::INVAL)),
    ] {
        let mut program = program(&[Stretch::Plain(100), Stretch::Records(vec![1000; 8])]);
        program.write(99).unwrap();
        program.write_before_keys();
        program.send(0, 100, 1400, (false, false));
        program.acknowledge(upto, false);
        let info = keys(CIPHER, 1);
        let resume = resume(program.at(at), info.sequence);
        let answered = program.set_keys(info, Some(resume));
        assert_eq!(answered, taken.map(|offset| program.at(offset)));
        let is_taken = taken.is_ok();
        assert_eq!(program.function.counters().tls_resets, u64::from(!is_taken));
        program.written = program.source.len();
        program.send(100, 4000, 1400, (false, false));
        assert_eq!(program.received(), if is_taken { 4000 } else { 100 });
    }
}

#[test]
fn sockets_that_are_bound_to_the_interface_are_reset_by_a_driver_without_their_state() {
    let mut program = greeting_and_records();
    program.socket.with(|socket| socket.is_bound = true);
    program.forget();
    assert_eq!(program.function.connections(), 1);
    for restarts in 1..3 {
        program.send(0, 4000, 1400, (false, false));
        program.drain();
        let resets = (restarts, restarts);
        assert_eq!((program.received(), program.resets), (0, resets));
        program.restart();
    }
}

#[test]
fn what_was_made_before_its_library_took_over_is_sent_again_after_a_restart() {
    let mut program = greeting_records_and_plain();
    program.send(0, 3000, 1400, (false, true));
    program.restart();
    program.resume().unwrap();
    program.finish(1400).unwrap();
    assert_eq!(program.resets, (0, 0));
}

/// Positions are compared within 2^31.
#[test]
fn keys_of_long_ago_are_over() {
    let mut program = greeting_records_and_plain();
    program.finish(1400).unwrap();
    program.restart();
    for before in [3000, (1 << 31) - 5000, (1 << 31) + 5000] {
        let resume = resume(program.at(program.source.len()) - before, 2);
        let reported = program.set_keys(keys(CIPHER, 1), Some(resume));
        assert_eq!(reported, Ok(resume.tcpsn));
    }
    assert_eq!(program.resets, (0, 0));
}

#[test]
fn a_connection_that_its_library_has_taken_over_goes_on_after_a_restart_by_itself() {
    for is_acknowledged_first in [true, false] {
        let mut program = greeting_records_and_plain();
        program.send(0, 3000, 1400, (false, false));
        if is_acknowledged_first {
            program.acknowledge(3000, false);
            program.restart();
        } else {
            program.restart();
            program.acknowledge(100 + 2 * 1022, false);
        }
        program.wait(60);
        program.finish(1400).unwrap();
        assert_eq!(program.resets, (0, 0));
    }
}

#[test]
fn what_is_sent_behind_the_peers_end_goes_on_after_a_restart() {
    let mut program = greeting_and_records();
    program.set_receive_keys(None).unwrap();
    program.send(0, 4000, 1400, (false, false));
    program.restart();
    program.end_peer();
    let from = Resume {
        read: Some(SeqNum(1)),
        ..resume(SeqNum(1), 0)
    };
    assert_eq!(program.set_receive_keys(Some(from)), Err(Errno::NOTCONN));
    program.resume().unwrap();
    program.finish(1400).unwrap();
    assert_eq!(program.resets, (0, 0));
}

/// What Linux has of them decrypted and unacknowledged must not be followed by ciphertext.
#[test]
fn the_peers_records_wait_after_a_restart_until_the_library_is_back() {
    let mut program = greeting_and_records();
    let first = program.set_receive_keys(None).unwrap();
    program.restart();
    let passes = |program: &mut Program, payload: &[u8]| {
        let frame = program.peers_segment(first.0, program.at(0), Flags::ACK, payload);
        program.nic.handle_frame(program.now, &frame.0, frame.1);
        program.drain() > 0
    };
    assert!(!passes(&mut program, &[0x17; 100]));
    assert_eq!(program.function.counters().rx_tls_orphan_dropped, 1);
    assert!(passes(&mut program, &[]), "an acknowledgement");
    let from = Resume {
        read: Some(first),
        ..resume(first, 0)
    };
    program.set_receive_keys(Some(from)).unwrap();
    assert!(passes(&mut program, &[0x17; 100]));
    assert_eq!(program.function.counters().rx_tls_orphan_dropped, 1);
}

#[test]
fn draining_asks_for_software_and_ends_with_the_last_acknowledgement() {
    let mut program = greeting_and_records();
    program.send(0, 4000, 1400, (false, false));
    program.function.drain();
    assert_eq!(
        program.slot.slot().status(Direction::Transmit, 1),
        OffloadState::Software
    );
    assert!(!program.function.is_drained());
    let all = program.source.len();
    program.send(4000, all, 1400, (false, false));
    program.acknowledge(all, false);
    assert!(program.function.is_drained());
}

#[test]
fn one_that_is_about_to_end_takes_no_new_connections() {
    let stretches = [Stretch::Plain(100), Stretch::Records(vec![1000; 8])];
    let mut program = program(&stretches);
    program.function.drain();
    assert_eq!(program.write(usize::MAX), Err(Errno::SHUTDOWN));
}

#[test]
fn a_library_that_comes_back_to_a_nic_that_is_about_to_end_is_taken_and_asked_for_software() {
    let mut program = greeting_and_records();
    let first = program.set_receive_keys(None).unwrap();
    program.send(0, 4000, 1400, (false, true));
    program.restart();
    program.function.drain();
    let from = Resume {
        read: Some(first),
        ..resume(first, 0)
    };
    program.set_receive_keys(Some(from)).unwrap();
    program.resume().unwrap();
    assert_eq!(
        program.slot.slot().status(Direction::Transmit, 1),
        OffloadState::Software
    );
    assert!(!program.function.is_drained());
    program.finish(1400).unwrap();
    assert!(program.function.is_drained());
    assert_eq!(program.resets, (0, 0));
}
