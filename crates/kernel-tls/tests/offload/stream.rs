//! What is written comes out of the NIC, whatever the sizes and the calls, and the NIC is told what it must know.

use std::os::fd::AsFd;
use std::time::Duration;

use attachment::{Direction, Errno, OffloadState};
use kernel_tls::{Counter, RECORD_TYPE_DATA, TLS_RX, counters};
use proptest::prelude::*;

use crate::end::{
    CASES, Record, connect, content, eventually, finish, goes_on_in_software, info, keys, pattern,
    records,
};
use crate::nic;

const ALERT: u8 = 21;

/// The record types of a stream with what has come of each, joined where they follow one another.
fn joined(records: &[Record]) -> Vec<(u8, Vec<u8>)> {
    let mut all: Vec<(u8, Vec<u8>)> = Vec::new();
    for record in records {
        match all.last_mut() {
            Some((last, content)) if *last == record.record_type => content.extend(&record.content),
            _ => all.push((record.record_type, record.content.clone())),
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any sizes, types and pieces, held open or not, blocking or not, with new keys in between.
    #[test]
    fn records_are_framed_around_what_was_written(
        case in prop::sample::select(CASES.to_vec()),
        writes in prop::collection::vec(
            (1usize..150_000, any::<bool>(), any::<bool>(), prop::bool::weighted(0.2), prop::bool::weighted(0.1)), 1..12),
    ) {
        let _running = nic::running();
        let (sender, received) = connect();
        sender.set_keys(&keys(case, 1, 5));
        let mut expected: Vec<(u8, Vec<u8>)> = Vec::new();
        let mut rekeys = 0;
        for (len, more, waits, alert, rekey) in writes {
            let record_type = if alert { ALERT } else { RECORD_TYPE_DATA };
            let more = if more { libc::MSG_MORE } else { 0 };
            let wait = if waits { 0 } else { libc::MSG_DONTWAIT };
            let data = pattern(len);
            let (front, back) = data.split_at(len / 3);
            let both = [front, b"", back];
            let sent = sender.session.send(sender.socket.as_fd(), &both, record_type, more | wait);
            let sent = match sent {
                Ok(sent) => sent,
                Err(Errno::AGAIN) => 0,
                Err(error) => panic!("{error}"),
            };
            sender.send_all(&data[sent..], record_type, more | wait);
            match expected.last_mut() {
                Some((last, content)) if *last == record_type => content.extend(&data),
                _ => expected.push((record_type, data)),
            }
            if rekey && case.0 == 0x0304 {
                let new = keys(case, 7 + rekeys, 0);
                while sender.try_set_keys(&new) == Err(Errno::AGAIN) {
                    std::thread::yield_now();
                }
                rekeys += 1;
            }
        }
        let cookie = sender.close();
        let stream = received.join().expect("the peer");
        let got = records(cookie, &stream, None);
        prop_assert!(joined(&got) == expected, "the bytes differ");
        prop_assert!(nic::flow(cookie).key_changes.len() <= usize::from(rekeys) + 1);
    }
}

#[test]
fn a_record_is_made_of_a_call_unless_more_is_to_come() {
    let _running = nic::running();
    for case in CASES {
        let (sender, received) = connect();
        sender.set_keys(&keys(case, 1, 0));
        let data = pattern(40_000);
        sender.send_all(&data[..10], RECORD_TYPE_DATA, 0);
        sender.send_all(&data[10..20], RECORD_TYPE_DATA, libc::MSG_MORE);
        sender.send_all(&data[20..], RECORD_TYPE_DATA, 0);
        sender.send_all(&[1, 0], ALERT, 0);
        let cookie = sender.close();
        let got = records(cookie, &received.join().unwrap(), None);
        let lens: Vec<usize> = got.iter().map(|record| record.content.len()).collect();
        assert_eq!(lens, [10, 16_384, 16_384, 40_000 - 10 - 2 * 16_384, 2]);
        assert_eq!(got[4].record_type, ALERT);
        assert_eq!(content(&got[..4], RECORD_TYPE_DATA), data);
    }
}

#[test]
fn a_record_leaves_although_what_was_announced_does_not_come() {
    let _running = nic::running();
    let (sender, received) = connect();
    sender.set_keys(&keys((0x0304, 51), 1, 0));
    sender.send_all(b"announced", RECORD_TYPE_DATA, libc::MSG_MORE);
    // Five times as long as it is held open.
    std::thread::sleep(Duration::from_secs(1));
    sender.send_all(b"later", RECORD_TYPE_DATA, 0);
    let cookie = sender.close();
    let got = records(cookie, &received.join().unwrap(), None);
    let contents: Vec<&[u8]> = got.iter().map(|record| &record.content[..]).collect();
    assert_eq!(contents, [&b"announced"[..], b"later"]);
}

#[test]
fn a_socket_that_the_nic_refuses_is_done_in_software() {
    let _running = nic::running();
    let (sender, received) = connect();
    nic::refuse(&sender.socket);
    let before = counters().get(Counter::TxDeviceRefused);
    sender.set_keys(&keys((0x0304, 51), 1, 9));
    assert!(counters().get(Counter::TxDeviceRefused) > before);
    let data = pattern(100_000);
    sender.send_all(&data, RECORD_TYPE_DATA, 0);
    let cookie = sender.close();
    assert!(nic::flow(cookie).key_changes.is_empty());
    let got = records(cookie, &received.join().unwrap(), Some(info(1, 9)));
    assert_eq!(content(&got, RECORD_TYPE_DATA), data);
}

#[test]
fn a_session_that_is_to_ask_no_nic_asks_none() {
    let _running = nic::running();
    let (sender, received) = connect();
    sender.session.ask_no_nic();
    let keys = keys((0x0304, 51), 1, 9);
    let set = sender
        .session
        .set_option(sender.socket.as_fd(), TLS_RX, &keys);
    assert_eq!(set, Ok(()));
    sender.set_keys(&keys);
    sender.send_all(b"all", RECORD_TYPE_DATA, 0);
    let cookie = sender.close();
    assert!(nic::flow(cookie).slot.is_none());
    let got = records(cookie, &received.join().unwrap(), Some(info(1, 9)));
    assert_eq!(content(&got, RECORD_TYPE_DATA), b"all");
}

#[test]
fn records_are_made_in_software_from_where_the_nic_stops() {
    let _running = nic::running();
    goes_on_in_software(|_| {});
}

#[test]
fn a_connection_that_the_nic_has_given_up_is_reset() {
    let _running = nic::running();
    let (sender, received) = connect();
    sender.set_keys(&keys((0x0304, 51), 1, 9));
    sender.send_all(b"before", RECORD_TYPE_DATA, 0);
    let slot = nic::flow(sender.cookie).slot.expect("a slot");
    slot.slot()
        .set_status(Direction::Transmit, slot.generation(), OffloadState::Reset);
    assert_eq!(
        sender.send(b"after", RECORD_TYPE_DATA, 0),
        Err(Errno::CONNRESET)
    );
    assert_eq!(
        sender.send(b"after", RECORD_TYPE_DATA, 0),
        Err(Errno::CONNRESET)
    );
    let cookie = sender.cookie;
    let stream = received.join().unwrap();
    assert!(!stream.windows(5).any(|bytes| bytes == b"after"));
    drop(sender);
    eventually("the slot is given back", || nic::flow(cookie).released);
}

#[test]
fn a_fork_and_its_parent_send_by_the_same_offload() {
    let _running = nic::running();
    let (sender, received) = connect();
    sender.set_keys(&keys((0x0303, 51), 1, 9));
    sender.send_all(b"before", RECORD_TYPE_DATA, 0);
    // SAFETY: the child calls nothing but what sends, and ends.
    match unsafe { libc::fork() } {
        0 => {
            let sent = sender.send(b" child", RECORD_TYPE_DATA, 0);
            // SAFETY: ends the child without running what the parent has registered.
            unsafe { libc::_exit(i32::from(sent != Ok(6))) };
        }
        child => {
            let mut status = 0;
            // SAFETY: the status is borrowed for the call.
            unsafe { libc::waitpid(child, &mut status, 0) };
            assert_eq!(status, 0);
        }
    }
    sender.send_all(b" after", RECORD_TYPE_DATA, 0);
    let cookie = sender.close();
    // The explicit nonces are counted on: `records` looks.
    let got = records(cookie, &received.join().unwrap(), None);
    assert_eq!(content(&got, RECORD_TYPE_DATA), b"before child after");
}

/// The peer may wait for the caller to receive something before it acknowledges anything.
#[test]
fn who_sends_under_one_set_of_keys_too_many_is_asked_to_try_again() {
    let _running = nic::running();
    let (sender, received) = connect();
    let case = (0x0304, 51);
    sender.set_keys(&keys(case, 1, 0));
    sender.send_all(b"before, ", RECORD_TYPE_DATA, 0);
    nic::be_busy(&sender.socket);
    sender.set_keys(&keys(case, 2, 0));
    let sent = sender.send(b"after", RECORD_TYPE_DATA, libc::MSG_DONTWAIT);
    assert_eq!(sent, Err(Errno::AGAIN));
    nic::be_busy_no_more(&sender.socket);
    sender.send_all(b"after", RECORD_TYPE_DATA, 0);
    assert_eq!(finish(sender, received, None), b"before, after");
}
