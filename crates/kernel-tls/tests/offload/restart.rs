//! The NIC's process dies and comes back.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::sync::Arc;

use attachment::results::{Results, Writer};
use attachment::{Direction, OffloadState, Resume};
use kernel_tls::{Errno, RECORD_TYPE_DATA, Session, TLS_RX, TLS_TX};
use proptest::prelude::*;

use crate::end::{
    CASES, connect, connect_unread, content, eventually, finish, goes_on_in_software, info, keys,
    pattern, read_all, records,
};
use crate::epochs::ask_to_stop;
use crate::{linux, nic};

/// Processor time that this process has used.
fn processor_time() -> std::time::Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.try_into().expect("a time")
}

#[test]
fn a_nic_that_stays_away_costs_nothing_when_it_has_no_connections() {
    let _alone = nic::alone();
    let (sender, received) = connect();
    sender.set_keys(&keys((0x0304, 51), 1, 0));
    sender.close();
    received.join().unwrap();
    nic::stop();
    std::thread::sleep(std::time::Duration::from_millis(100));
    let before = processor_time();
    std::thread::sleep(std::time::Duration::from_millis(500));
    let used = processor_time() - before;
    nic::restart();
    assert!(used.as_millis() < 100, "{used:?} of 500 ms");
}

#[test]
fn a_nic_that_comes_back_is_told_the_keys_and_a_boundary() {
    let _alone = nic::alone();
    let (sender, received) = connect();
    let (idle, idle_received) = connect();
    let case = (0x0304, 51);
    sender.set_keys(&keys(case, 1, 5));
    idle.set_keys(&keys(case, 2, 0));
    let data = pattern(900_000);
    sender.send_all(&data[..100_000], RECORD_TYPE_DATA, libc::MSG_DONTWAIT);
    nic::stop();
    // What is written meanwhile waits for room in the socket, and is framed as ever.
    sender.send_all(
        &data[100_000..300_000],
        RECORD_TYPE_DATA,
        libc::MSG_DONTWAIT,
    );
    nic::restart();
    for cookie in [sender.cookie, idle.cookie] {
        eventually("the keys are told again", || {
            !nic::flow(cookie).resumed.is_empty()
        });
    }
    sender.send_all(&data[300_000..400_000], RECORD_TYPE_DATA, 0);
    // New keys while it is away: the next caller that sets them or sends waits for it.
    nic::stop();
    let restarts = std::thread::spawn(|| {
        std::thread::sleep(std::time::Duration::from_millis(300));
        nic::restart();
    });
    sender.set_keys(&keys(case, 3, 0));
    sender.send_all(&data[400_000..], RECORD_TYPE_DATA, 0);
    restarts.join().expect("the NIC");
    let (idle_cookie, cookie) = (idle.close(), sender.close());
    assert!(idle_received.join().unwrap().is_empty());
    let stream = received.join().unwrap();
    let got = records(cookie, &stream, None);
    assert_eq!(content(&got, RECORD_TYPE_DATA), data);
    let idle = nic::flow(idle_cookie).resumed[0];
    assert_eq!((idle.tcpsn, idle.index), (nic::tcpsn(0), 0));
    assert_is_boundary(nic::flow(cookie).resumed[0], &stream, 5);
}

/// Another process has closed the socket, and the NIC has freed the slot, before this one has told the keys.
#[test]
fn a_slot_that_has_had_another_use_is_another_slot_from_then_on() {
    let _alone = nic::alone();
    let (sender, received) = connect();
    let case = (0x0304, 51);
    sender.set_keys(&keys(case, 1, 0));
    sender.send_all(b"before, ", RECORD_TYPE_DATA, 0);
    let slot = || nic::flow(sender.cookie).slot.expect("a slot");
    let first = slot();
    nic::stop();
    nic::reuse_slot(sender.cookie, |_| ());
    // New keys, which it is told behind the older ones.
    let restarts = std::thread::spawn(|| {
        std::thread::sleep(std::time::Duration::from_millis(300));
        nic::restart();
    });
    sender.set_keys(&keys(case, 2, 0));
    sender.send_all(b"between, ", RECORD_TYPE_DATA, 0);
    restarts.join().expect("the NIC");
    let second = slot();
    assert_ne!(second, first);
    let key_changes = nic::flow(sender.cookie).key_changes;
    assert!(key_changes.len() == 2 && key_changes[1].keys.is_some());
    // It dies when it has stopped, before it says so.
    let cookie = sender.cookie;
    let restarts = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        nic::reuse_slot(cookie, |_| ());
        nic::restart();
    });
    nic::die_for_long_when_stopped(&sender.socket);
    second.slot().set_status(
        Direction::Transmit,
        second.generation(),
        OffloadState::Software,
    );
    sender.send_all(b"after", RECORD_TYPE_DATA, 0);
    restarts.join().expect("the NIC");
    let got = finish(sender, received, Some(info(2, 0)));
    assert_eq!(got, b"before, between, after");
}

/// What it tells there is not of this socket.
#[test]
fn what_is_received_is_opened_in_software_while_its_slot_has_another_use() {
    let _alone = nic::alone();
    let (reader, peer) = connect_unread();
    let case = (0x0304, 52);
    nic::refuse(&peer);
    let writer = Arc::new(Session::new(peer.as_fd()).unwrap());
    let option = writer.set_option(peer.as_fd(), TLS_TX, &keys(case, 1, 0));
    assert_eq!(option, Ok(()));
    let set = reader
        .session
        .set_option(reader.socket.as_fd(), TLS_RX, &keys(case, 1, 0));
    assert_eq!(set, Ok(()));
    let passes = |data: &[u8]| {
        let sent = writer.send(peer.as_fd(), &[data], RECORD_TYPE_DATA, 0);
        assert_eq!(sent, Ok(data.len()));
        let mut room = [0; 100];
        let read = reader
            .session
            .receive(reader.socket.as_fd(), &mut [&mut room], false, 0);
        assert_eq!(read.map(|read| &room[..read.len]), Ok(data));
    };
    passes(b"before");
    nic::stop();
    nic::reuse_slot(reader.cookie, |slot| {
        let results = Results::new(slot.slot().results());
        let tag = results.next_tag(1);
        let all = (nic::tcpsn(0), 1000);
        Writer::default().decrypted(results, all, tag).unwrap();
    });
    passes(b"behind it");
    nic::restart();
    let told = || nic::flow(reader.cookie).resumed_receiving;
    eventually("the keys are told again", || told() == 1);
    passes(b"after");
}

/// It takes no more keys before the peer has acknowledged something, and nothing is acknowledged before it has the older ones.
#[test]
fn who_sends_under_new_keys_tells_a_nic_that_comes_back_the_older_ones() {
    let _alone = nic::alone();
    let (sender, received) = connect();
    let case = (0x0304, 51);
    sender.set_keys(&keys(case, 1, 0));
    sender.send_all(b"before, ", RECORD_TYPE_DATA, 0);
    nic::stop();
    nic::be_busy(&sender.socket);
    let restarts = std::thread::spawn(|| {
        std::thread::sleep(std::time::Duration::from_millis(300));
        nic::restart();
    });
    sender.set_keys(&keys(case, 2, 0));
    sender.send_all(b"after", RECORD_TYPE_DATA, 0);
    restarts.join().expect("the NIC");
    assert_eq!(finish(sender, received, None), b"before, after");
}

/// It would send framed content as it is from there on.
#[test]
fn a_nic_that_has_stopped_without_saying_so_gets_no_more_framed_content() {
    let _alone = nic::alone();
    goes_on_in_software(|sender| nic::die_when_stopped(&sender.socket));
}

#[test]
fn a_nic_that_comes_back_is_told_the_keys_of_records_that_may_have_to_be_sent_again_although_it_makes_no_more()
 {
    let _alone = nic::alone();
    let (sender, peer) = connect_unread();
    let case = (0x0304, 51);
    sender.set_keys(&keys(case, 1, 0));
    // More than the peer's Linux takes.
    let stream = pattern(100_000);
    let size = rustix::net::sockopt::set_socket_send_buffer_size(&sender.socket, 200 << 10);
    assert_eq!(size, Ok(()));
    sender.send_all(&stream, RECORD_TYPE_DATA, 0);
    ask_to_stop(sender.cookie);
    sender.send_all(b"after", RECORD_TYPE_DATA, 0);
    let stopped = nic::flow(sender.cookie)
        .key_changes
        .last()
        .map(|change| change.keys.is_none());
    assert_eq!(stopped, Some(true));
    let told = || nic::flow(sender.cookie).resumed.len();
    let restart = || {
        nic::stop();
        nic::restart();
    };
    restart();
    eventually("the keys are told", || told() == 1);
    let received = read_all(peer);
    eventually("all is acknowledged", || {
        linux::unacknowledged(&sender.socket) == 0
    });
    restart();
    eventually("the keys are told for the last time", || told() == 2);
    restart();
    sender.send_all(b", later", RECORD_TYPE_DATA, 0);
    assert_eq!(told(), 2);
    assert_eq!(
        finish(sender, received, Some(info(1, 0))),
        [&stream[..], b"after, later"].concat()
    );
}

/// All that was sent under them is acknowledged, but they are the last that the NIC has.
#[test]
fn keys_before_those_that_nothing_was_sent_under_are_told_at_every_restart() {
    let _alone = nic::alone();
    let (sender, received) = connect();
    let case = (0x0304, 51);
    sender.set_keys(&keys(case, 1, 0));
    sender.send_all(b"before, ", RECORD_TYPE_DATA, 0);
    sender.set_keys(&keys(case, 2, 0));
    eventually("all is acknowledged", || {
        linux::unacknowledged(&sender.socket) == 0
    });
    for restarts in 1..=2 {
        nic::stop();
        nic::restart();
        eventually("the older keys are told", || {
            nic::flow(sender.cookie).resumed.len() == restarts
        });
    }
    sender.send_all(b"after", RECORD_TYPE_DATA, 0);
    assert_eq!(finish(sender, received, None), b"before, after");
}

/// As when the peer has ended meanwhile: Linux has all that comes, and the keys have no other use.
#[test]
fn new_receive_keys_that_the_nic_died_with_and_then_refuses_are_used_without_it() {
    let _alone = nic::alone();
    let (reader, peer) = connect_unread();
    let case = (0x0304, 52);
    nic::refuse(&peer);
    let writer = Arc::new(Session::new(peer.as_fd()).unwrap());
    let option = writer.set_option(peer.as_fd(), TLS_TX, &keys(case, 2, 0));
    assert_eq!(option, Ok(()));
    let set = |key| {
        let socket = reader.socket.as_fd();
        reader
            .session
            .set_option(socket, TLS_RX, &keys(case, key, 0))
    };
    assert_eq!(set(1), Ok(()));
    nic::die_of(&reader.socket);
    assert_eq!(set(2), Ok(()));
    let data = b"under the new keys";
    let sent = writer.send(peer.as_fd(), &[data], RECORD_TYPE_DATA, 0);
    assert_eq!(sent, Ok(data.len()));
    let mut room = [0; 100];
    let read = reader
        .session
        .receive(reader.socket.as_fd(), &mut [&mut room], false, 0);
    assert_eq!(read.map(|read| &room[..read.len]), Ok(&data[..]));
}

/// What it has decrypted of the stream nothing tells: that must not come to the program as if it were the peer's bytes.
#[test]
fn a_direction_that_fails_for_its_first_keys_receives_no_more() {
    let _alone = nic::alone();
    let (reader, _peer) = connect_unread();
    let case = (0x0304, 51);
    reader.set_keys(&keys(case, 1, 0));
    nic::die_of(&reader.socket);
    let socket = reader.socket.as_fd();
    let set = reader.session.set_option(socket, TLS_RX, &keys(case, 2, 0));
    assert_eq!(set, Err(Errno::IO));
    assert!(reader.session.receives());
    let read = reader
        .session
        .receive(socket, &mut [&mut [0; 100]], false, 0);
    assert_eq!(read.err(), Some(Errno::IO));
}

/// It has no keys to be told, and what has come is still to be read.
#[test]
fn a_connection_that_both_sides_have_ended_is_not_reset_for_a_restart() {
    let _alone = nic::alone();
    let (ended, mut peer) = connect_unread();
    ended.set_keys(&keys((0x0304, 51), 1, 0));
    ended.send_all(b"all", RECORD_TYPE_DATA, 0);
    ended.socket.shutdown(Shutdown::Write).unwrap();
    peer.write_all(b"left unread").unwrap();
    peer.shutdown(Shutdown::Write).unwrap();
    let received = read_all(peer);
    eventually("both have ended", || linux::is_over(&ended.socket));
    let (other, other_received) = connect();
    other.set_keys(&keys((0x0304, 51), 2, 0));
    nic::refuse(&ended.socket);
    nic::stop();
    nic::restart();
    let cookie = other.cookie;
    eventually("the keys are told again", || {
        !nic::flow(cookie).resumed.is_empty()
    });
    let mut left = String::new();
    (&ended.socket)
        .read_to_string(&mut left)
        .expect("it was not reset");
    assert_eq!(left, "left unread");
    ended.close();
    other.close();
    received.join().unwrap();
    other_received.join().unwrap();
}

/// A record begins there, and has the number that it is told with; the stream's first one has the number `first`.
pub fn assert_is_boundary(resumed: Resume, stream: &[u8], first: u64) {
    let (mut at, mut number) = (0, first);
    while nic::tcpsn(at as u64) != resumed.tcpsn {
        at += 5 + usize::from(u16::from_be_bytes([stream[at + 3], stream[at + 4]]));
        number += 1;
        assert!(at < stream.len(), "no record begins where the NIC was told");
    }
    assert_eq!(resumed.index, number);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    /// Whatever is written before, in and after the NIC's absences, on several connections, goes on, and every boundary that it is told is one.
    #[test]
    fn streams_go_on_over_any_restarts(
        case in prop::sample::select(CASES.to_vec()),
        steps in prop::collection::vec((0usize..3, 1usize..120_000, any::<bool>(), 0u8..8), 4..16),
    ) {
        let _alone = nic::alone();
        let connections: Vec<_> = (0..3).map(|_| connect()).collect();
        let mut expected = vec![Vec::new(); 3];
        for (sender, _) in &connections {
            sender.set_keys(&keys(case, 1, 5));
        }
        let mut is_there = true;
        for (which, len, more, what) in steps {
            match what {
                0 if is_there => nic::stop(),
                0 | 1 if !is_there => nic::restart(),
                _ => {}
            }
            is_there = match what {
                0 => !is_there,
                1 => true,
                _ => is_there,
            };
            let data = pattern(len);
            let flags = libc::MSG_DONTWAIT | if more { libc::MSG_MORE } else { 0 };
            match connections[which].0.send(&data, RECORD_TYPE_DATA, flags) {
                Ok(sent) => expected[which].extend(&data[..sent]),
                Err(error) => prop_assert_eq!(error, Errno::AGAIN),
            }
        }
        if !is_there {
            nic::restart();
        }
        for ((sender, received), expected) in connections.into_iter().zip(expected) {
            let cookie = sender.close();
            let stream = received.join().expect("the peer");
            prop_assert!(content(&records(cookie, &stream, None), RECORD_TYPE_DATA) == expected, "the bytes differ");
            for resumed in nic::flow(cookie).resumed {
                if resumed.tcpsn != nic::tcpsn(stream.len() as u64) {
                    assert_is_boundary(resumed, &stream, 5);
                }
            }
        }
    }
}

#[test]
fn a_nic_that_a_new_connection_finds_first_is_told_of_the_others_too() {
    let _alone = nic::alone();
    for _ in 0..5 {
        let (old, received) = connect();
        old.set_keys(&keys((0x0304, 51), 1, 5));
        old.send_all(b"before", RECORD_TYPE_DATA, 0);
        nic::stop();
        nic::restart();
        // The first caller finds that the NIC has gone.
        let (new, new_received) = connect();
        new.set_keys(&keys((0x0304, 51), 2, 0));
        let cookie = old.cookie;
        eventually("the keys are told again", || {
            !nic::flow(cookie).resumed.is_empty()
        });
        old.send_all(b" and after", RECORD_TYPE_DATA, 0);
        new.close();
        new_received.join().unwrap();
        let cookie = old.close();
        let got = records(cookie, &received.join().unwrap(), None);
        assert_eq!(content(&got, RECORD_TYPE_DATA), b"before and after");
    }
}

#[test]
fn a_socket_by_another_descriptor_goes_on_with_its_next_call() {
    let _alone = nic::alone();
    let (mut sender, received) = connect();
    sender.set_keys(&keys((0x0304, 51), 1, 5));
    sender.send_all(b"before", RECORD_TYPE_DATA, 0);
    let other = sender.socket.try_clone().expect("a descriptor");
    sender.socket = other;
    nic::stop();
    nic::restart();
    let cookie = sender.cookie;
    eventually("the keys are told again", || {
        sender.send_all(b".", RECORD_TYPE_DATA, 0);
        !nic::flow(cookie).resumed.is_empty()
    });
    sender.send_all(b"after", RECORD_TYPE_DATA, 0);
    let cookie = sender.close();
    let got = records(cookie, &received.join().unwrap(), None);
    let got = content(&got, RECORD_TYPE_DATA);
    assert!(got.starts_with(b"before.") && got.ends_with(b".after"));
}

#[test]
fn a_socket_that_is_closed_while_the_nic_is_away_is_released_when_it_is_back() {
    let _alone = nic::alone();
    let (sender, received) = connect();
    let (other, other_received) = connect();
    for sender in [&sender, &other] {
        sender.set_keys(&keys((0x0304, 51), 1, 5));
    }
    nic::stop();
    let cookie = sender.close();
    received.join().unwrap();
    nic::restart();
    eventually("the slot is released", || nic::flow(cookie).released);
    other.close();
    other_received.join().unwrap();
}

/// The peer reads nothing for a while, and the NIC dies: what it has not acknowledged is under three sets of keys.
#[test]
fn a_nic_that_comes_back_is_told_all_keys_that_are_still_needed() {
    let _alone = nic::alone();
    let (sender, peer) = connect_unread();
    let case = (0x0304, 51);
    let data = pattern(41_000);
    sender.set_keys(&keys(case, 1, 5));
    sender.send_all(&data[..39_000], RECORD_TYPE_DATA, libc::MSG_DONTWAIT);
    for key in [2, 3] {
        sender.set_keys(&keys(case, key, 0));
        let from = 39_000 + usize::from(key - 2) * 1000;
        let part = &data[from..from + 1000];
        sender.send_all(part, RECORD_TYPE_DATA, libc::MSG_DONTWAIT);
    }
    nic::stop();
    nic::restart();
    let cookie = sender.cookie;
    eventually("all keys are told again", || {
        nic::flow(cookie).resumed.len() >= 3
    });
    let resumed = nic::flow(cookie).resumed;
    let key_changes = nic::flow(cookie).key_changes;
    // Each set ends where the next begins, with the number that its next record would have.
    let boundaries: Vec<_> = resumed.iter().map(|resume| resume.tcpsn).collect();
    let starts: Vec<_> = key_changes
        .iter()
        .map(|change| nic::tcpsn(change.offset))
        .collect();
    assert_eq!(boundaries, [starts[1], starts[2], starts[2]]);
    let numbers: Vec<_> = resumed.iter().map(|resume| resume.index).collect();
    assert_eq!(numbers, [5 + 3, 1, 0]);
    let received = read_all(peer);
    assert_eq!(finish(sender, received, None), data);
}

/// Nothing that was sent under the first keys is sent again.
#[test]
fn a_nic_that_comes_back_is_not_told_keys_whose_bytes_the_peer_has() {
    let _alone = nic::alone();
    let (sender, received) = connect();
    let case = (0x0304, 51);
    sender.set_keys(&keys(case, 1, 5));
    sender.send_all(b"before, ", RECORD_TYPE_DATA, 0);
    sender.set_keys(&keys(case, 2, 0));
    sender.send_all(b"after", RECORD_TYPE_DATA, 0);
    eventually("the peer has acknowledged all", || {
        linux::unacknowledged(&sender.socket) == 0
    });
    nic::stop();
    nic::restart();
    let cookie = sender.cookie;
    eventually("the keys are told again", || {
        !nic::flow(cookie).resumed.is_empty()
    });
    let data = finish(sender, received, None);
    assert_eq!(data, b"before, after");
    assert_eq!(nic::flow(cookie).resumed.len(), 1);
}
