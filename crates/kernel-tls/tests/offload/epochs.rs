//! The NIC stops, dies and comes back at any moment: no content is in the stream outside of an epoch in which it makes records.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use attachment::{Direction, OffloadState};
use kernel_tls::{Errno, RECORD_TYPE_DATA};
use proptest::prelude::*;

use crate::end::{
    Received, connect, connect_unread, content, eventually, finish, info, keys, pattern, records,
};
use crate::files::file;
use crate::{linux, nic};

/// The keys that [`info`] tells of.
const CASE: (u16, u16) = (0x0304, 51);

/// The NIC wants to stop, if it makes records.
pub fn ask_to_stop(cookie: u64) {
    let Some(slot) = nic::flow(cookie).slot else {
        return;
    };
    let (memory, generation) = (slot.slot(), slot.generation());
    if memory.status(Direction::Transmit, generation) == OffloadState::Offloaded {
        memory.set_status(Direction::Transmit, generation, OffloadState::Software);
    }
}

/// Reads all that comes; something happens once `first` bytes have come.
fn read_and(
    mut peer: TcpStream,
    first: usize,
    happens: impl FnOnce() + Send + 'static,
) -> Received {
    thread::spawn(move || {
        let mut all = vec![0; first];
        peer.read_exact(&mut all).expect("as much is sent");
        happens();
        let _ = peer.read_to_end(&mut all);
        all
    })
}

/// What happens to the NIC, so many microseconds after the last thing that happened.
#[derive(Clone, Copy, Debug)]
enum Event {
    AsksToStop,
    /// It dies, and comes back.
    Restarts,
    /// It dies when it is told to stop, having done it.
    IsLostInStopping,
    /// It has no room to stop, twice.
    IsBusy,
}

/// What the program sends.
#[derive(Clone, Debug)]
enum Step {
    Message(usize, bool),
    File(usize),
    Waits,
}

fn events() -> impl Strategy<Value = Vec<(u64, Event)>> {
    let event = prop_oneof![
        4 => Just(Event::AsksToStop),
        2 => Just(Event::Restarts),
        1 => Just(Event::IsLostInStopping),
        1 => Just(Event::IsBusy),
    ];
    prop::collection::vec((0_u64..6000, event), 1..5)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        1 => (1usize..60_000, any::<bool>()).prop_map(|(len, more)| Step::Message(len, more)),
        1 => (1usize..1500).prop_map(|len| Step::Message(len, false)),
        2 => (1usize..600_000).prop_map(Step::File),
        1 => Just(Step::Waits),
    ];
    prop::collection::vec(step, 10..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// The peer's stream is framed content where the NIC makes records, and records elsewhere, which authenticate: in any order of events.
    #[test]
    fn no_content_is_in_the_stream_but_while_the_nic_makes_records(
        events in events(),
        steps in steps(),
        zerocopy in any::<bool>(),
        waits in any::<bool>(),
    ) {
        let _alone = nic::alone();
        let bytes = pattern(600_000);
        let file = file(&bytes);
        let (sender, received) = connect();
        sender.set_keys(&keys(CASE, 1, 9));
        if zerocopy {
            sender.allow_zerocopy();
        }
        sender.socket.set_nonblocking(!waits).expect("a socket");
        let (cookie, socket) = (sender.cookie, sender.socket.try_clone().expect("a descriptor"));
        let happens = thread::spawn(move || {
            for (after, event) in events {
                thread::sleep(Duration::from_micros(after));
                match event {
                    Event::AsksToStop => ask_to_stop(cookie),
                    Event::Restarts => {
                        nic::stop();
                        nic::restart();
                    }
                    Event::IsLostInStopping => nic::die_when_stopped(&socket),
                    Event::IsBusy => nic::be_busy_to_stop(&socket, 2),
                }
            }
        });
        let mut expected = Vec::new();
        for step in steps {
            match step {
                Step::Message(len, more) => {
                    let flags = if more { libc::MSG_MORE } else { 0 };
                    sender.send_all(&bytes[..len], RECORD_TYPE_DATA, flags);
                    expected.extend(&bytes[..len]);
                }
                Step::File(len) => {
                    sender.send_file_all(&file, 0, len);
                    expected.extend(&bytes[..len]);
                }
                Step::Waits => kernel_tls::before_wait(),
            }
        }
        happens.join().expect("the NIC");
        sender.close();
        let got = records(cookie, &received.join().expect("the peer"), Some(info(1, 9)));
        prop_assert!(content(&got, RECORD_TYPE_DATA) == expected, "the bytes differ");
    }
}

#[test]
fn the_rest_of_a_file_is_made_records_here_from_where_the_nic_stops() {
    let _running = nic::running();
    // A file is mapped by windows of so many bytes.
    let window = 64_u64 << 20;
    let bytes = pattern(900_000);
    let mut file = file(&[]);
    for from in [0, 5_000, window - 200_000] {
        file.set_len(from).expect("memory");
        std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(from)).expect("memory");
        file.write_all(&bytes).expect("memory");
        for (first, zerocopy, waits) in [1, 16_000, 40_000, 200_000].into_iter().flat_map(|first| {
            [
                (first, false, true),
                (first, false, false),
                (first, true, false),
            ]
        }) {
            let (sender, peer) = connect_unread();
            sender.set_keys(&keys(CASE, 1, 9));
            if zerocopy {
                sender.allow_zerocopy();
            }
            sender.socket.set_nonblocking(!waits).expect("a socket");
            let cookie = sender.cookie;
            let received = read_and(peer, first, move || ask_to_stop(cookie));
            sender.send_file_all(&file, from, bytes.len());
            sender.close();
            let key_changes = nic::flow(cookie).key_changes;
            assert_eq!(
                key_changes.len(),
                2,
                "it has stopped in the middle of the file"
            );
            let got = records(cookie, &received.join().unwrap(), Some(info(1, 9)));
            assert!(content(&got, RECORD_TYPE_DATA) == bytes, "the bytes differ");
        }
    }
}

/// What waits for room was framed for the NIC, and it must not stop before that is in the socket.
#[test]
fn a_record_that_waits_for_room_leaves_before_the_nic_stops() {
    let _running = nic::running();
    let (sender, peer) = connect_unread();
    sender.set_keys(&keys(CASE, 1, 9));
    let data = pattern(1_000_000);
    let mut sent = 0;
    while let Ok(more) = sender.send(&data[sent..], RECORD_TYPE_DATA, libc::MSG_DONTWAIT) {
        sent += more;
    }
    ask_to_stop(sender.cookie);
    let waiting = sender.send(&data[sent..], RECORD_TYPE_DATA, libc::MSG_DONTWAIT);
    assert_eq!(waiting, Err(Errno::AGAIN));
    assert_eq!(nic::flow(sender.cookie).key_changes.len(), 1);
    let received = read_and(peer, 1, || {});
    sender.send_all(&data[sent..], RECORD_TYPE_DATA, 0);
    assert!(
        finish(sender, received, Some(info(1, 9))) == data,
        "the bytes differ"
    );
}

#[test]
fn a_message_that_is_held_back_when_the_nic_stops_is_made_a_record_here() {
    let _running = nic::running();
    let file = file(&pattern(1000));
    let (sender, received) = connect();
    sender.set_keys(&keys(CASE, 1, 9));
    kernel_tls::before_wait();
    sender.send_all(b"head", RECORD_TYPE_DATA, 0);
    sender.send_file_all(&file, 0, 1000);
    sender.send_all(b"held", RECORD_TYPE_DATA, 0);
    ask_to_stop(sender.cookie);
    sender.send_file_all(&file, 0, 1000);
    let cookie = sender.close();
    assert_eq!(nic::flow(cookie).key_changes.len(), 2);
    let got = records(cookie, &received.join().unwrap(), Some(info(1, 9)));
    let file = pattern(1000);
    let all = [b"head", &file[..], b"held", &file].concat();
    assert!(content(&got, RECORD_TYPE_DATA) == all, "the bytes differ");
}

#[test]
fn new_keys_that_the_nic_refuses_are_used_here() {
    let _running = nic::running();
    let (sender, received) = connect();
    sender.set_keys(&keys(CASE, 1, 9));
    sender.send_all(b"before, ", RECORD_TYPE_DATA, 0);
    nic::refuse(&sender.socket);
    sender.set_keys(&keys(CASE, 2, 0));
    sender.send_all(b"after", RECORD_TYPE_DATA, 0);
    let cookie = sender.close();
    assert_eq!(nic::flow(cookie).key_changes.len(), 2);
    let got = records(cookie, &received.join().unwrap(), Some(info(2, 0)));
    assert_eq!(content(&got, RECORD_TYPE_DATA), b"before, after");
}

/// The answer is lost: what it was told it may do later still.
#[test]
fn a_nic_that_may_have_stopped_gets_no_framed_content_even_if_it_is_too_busy_to_stop() {
    let _alone = nic::alone();
    let (sender, received) = connect();
    sender.set_keys(&keys(CASE, 1, 9));
    let data = pattern(50_000);
    sender.send_all(&data[..20_000], RECORD_TYPE_DATA, 0);
    let asked_at = linux::offset(&sender.socket);
    nic::die_when_stopped(&sender.socket);
    nic::be_busy_to_stop(&sender.socket, 3);
    ask_to_stop(sender.cookie);
    sender.send_all(&data[20_000..], RECORD_TYPE_DATA, 0);
    let cookie = sender.close();
    assert_eq!(nic::flow(cookie).key_changes[1].offset, asked_at);
    let got = records(cookie, &received.join().unwrap(), Some(info(1, 9)));
    assert!(content(&got, RECORD_TYPE_DATA) == data, "the bytes differ");
}

/// As by `io_uring`, which the library does not see: the NIC's position is another one.
#[test]
fn a_connection_whose_bytes_are_not_all_the_librarys_ends_when_the_nic_stops() {
    let _running = nic::running();
    let (sender, received) = connect();
    sender.set_keys(&keys(CASE, 1, 9));
    sender.send_all(b"framed", RECORD_TYPE_DATA, 0);
    (&sender.socket)
        .write_all(b"past the library")
        .expect("room");
    ask_to_stop(sender.cookie);
    let after = sender.send(b"after", RECORD_TYPE_DATA, 0);
    assert_eq!(after, Err(Errno::CONNRESET));
    drop(sender);
    let stream = received.join().unwrap();
    assert!(!stream.windows(5).any(|bytes| bytes == b"after"));
}

/// It says nothing of the connection any more, as when a request to stop is done late.
#[test]
fn a_connection_that_the_nic_says_nothing_of_any_more_is_reset() {
    let _running = nic::running();
    let (sender, received) = connect();
    sender.set_keys(&keys(CASE, 1, 9));
    sender.send_all(b"before", RECORD_TYPE_DATA, 0);
    let slot = nic::flow(sender.cookie).slot.expect("a slot");
    let (memory, generation) = (slot.slot(), slot.generation());
    memory.set_status(Direction::Transmit, generation, OffloadState::None);
    let after = sender.send(b"after", RECORD_TYPE_DATA, 0);
    assert_eq!(after, Err(Errno::CONNRESET));
    let stream = received.join().unwrap();
    assert!(!stream.windows(5).any(|bytes| bytes == b"after"));
}

/// The NIC may have stopped, and the process that has told it to is no more: what another process holds back must not leave.
#[test]
fn what_is_held_back_stays_when_a_process_dies_as_it_stops_the_nic() {
    let _alone = nic::alone();
    let body = file(&pattern(1000));
    let (sender, received) = connect();
    sender.set_keys(&keys(CASE, 1, 9));
    kernel_tls::before_wait();
    sender.send_all(b"head", RECORD_TYPE_DATA, 0);
    sender.send_file_all(&body, 0, 1000);
    sender.send_all(b"held back", RECORD_TYPE_DATA, 0);
    nic::die_for_long_when_stopped(&sender.socket);
    ask_to_stop(sender.cookie);
    // SAFETY: the child calls nothing but what sends, and is killed in that.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let _ = sender
            .session
            .send_file(sender.socket.as_fd(), body.as_fd(), Some(0), 1000);
        // SAFETY: ends the child without running what the parent has registered.
        unsafe { libc::_exit(0) };
    }
    eventually("the NIC has stopped", || {
        nic::flow(sender.cookie).key_changes.len() == 2
    });
    // SAFETY: a child of ours, which has not been waited for.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    kernel_tls::send_held();
    let after = sender.send(b"after", RECORD_TYPE_DATA, 0);
    assert_eq!(after, Err(Errno::PIPE));
    nic::restart();
    // On a machine that is busy for long the library has sent it before the NIC stopped, as it may.
    let stopped_at = nic::flow(sender.cookie).key_changes[1].offset as usize;
    drop(sender);
    let stream = received.join().unwrap();
    let behind = &stream[stopped_at..];
    assert!(!behind.windows(4).any(|bytes| bytes == b"held"));
}
