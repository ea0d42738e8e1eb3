//! A short message waits for the file that is likely to follow it, and for nothing else.

use std::fs::File;
use std::io::Write;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use rustix::io::Errno;

use super::{CIPHERS, End, TLS_1_2, TLS_1_3, keyed, keys, pair, pattern};
use crate::{RECORD_TYPE_DATA, TLS_TX, before_wait};

const HEAD: &[u8] = b"a head";
/// Behind a record's content in TLS 1.3: type, and what authenticates it.
const AROUND: usize = 1 + 16;

fn file(bytes: &[u8]) -> File {
    let fd = rustix::fs::memfd_create("file", rustix::fs::MemfdFlags::CLOEXEC).expect("memory");
    let mut file = File::from(fd);
    file.write_all(bytes).expect("memory");
    file
}

fn send_file(end: &End, file: &File, count: usize) -> Result<usize, Errno> {
    let session = &end.session;
    session.send_file(end.socket.as_fd(), file.as_fd(), Some(0), count)
}

/// Whether a message is held back at this moment.
fn holds(end: &End) -> bool {
    end.session.sending().is_held
}

fn take(socket: &TcpStream, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    std::io::Read::read_exact(&mut &*socket, &mut bytes).expect("loopback");
    bytes
}

/// Takes a record; gives the length of its content.
fn take_record(socket: &TcpStream) -> usize {
    let header = take(socket, 5);
    let len = u16::from_be_bytes([header[3], header[4]]).into();
    take(socket, len).len() - AROUND
}

/// A session on which a file has followed a short message, and the peer's socket, which has nothing left.
fn likely() -> (End, TcpStream) {
    before_wait();
    let (a, b) = pair().expect("loopback");
    a.set(TLS_TX, &keys(TLS_1_3, 51, 1, 0)).expect("keys");
    a.write(HEAD);
    assert_eq!(send_file(&a, &file(&[7; 100]), 100), Ok(100));
    assert_eq!(take_record(&b.socket), HEAD.len());
    assert_eq!(take_record(&b.socket), 100);
    (a, b.socket)
}

#[test]
fn a_short_message_goes_into_the_record_of_the_file_that_follows_it() {
    let (a, b) = likely();
    // A thread that is held up in between finds that its message has left.
    for _ in 0..1000 {
        before_wait();
        a.write(HEAD);
        assert_eq!(send_file(&a, &file(&[7; 100]), 100), Ok(100));
        match take_record(&b) {
            106 => return,
            len => assert_eq!((len, take_record(&b)), (HEAD.len(), 100)),
        }
    }
    panic!("in none of 1000 attempts");
}

#[test]
fn nothing_is_held_back_where_no_file_has_followed() {
    let (a, b) = likely();
    a.write(HEAD);
    before_wait();
    assert_eq!(take_record(&b), HEAD.len());
    a.write(HEAD);
    assert!(!holds(&a));
    assert_eq!(take_record(&b), HEAD.len());
}

#[test]
fn a_thread_that_does_not_say_when_it_waits_holds_nothing_back() {
    let (a, b) = likely();
    thread::scope(|scope| {
        scope.spawn(|| {
            a.write(HEAD);
            assert!(!holds(&a));
        });
    });
    assert_eq!(take_record(&b), HEAD.len());
}

#[test]
fn what_is_held_back_leaves_without_another_call() {
    let (a, b) = likely();
    a.write(HEAD);
    assert_eq!(take_record(&b), HEAD.len());
    assert!(!holds(&a));
}

/// One that waits for its NIC with its direction locked.
#[test]
fn a_session_that_is_busy_keeps_no_other_ones_message_back() {
    let (a, b) = likely();
    a.write(HEAD);
    let busy = a.session.sending();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (c, d) = likely();
            let patience = Some(Duration::from_secs(2));
            d.set_read_timeout(patience).expect("a TCP socket");
            c.write(HEAD);
            assert_eq!(take_record(&d), HEAD.len());
        });
    });
    drop(busy);
    assert_eq!(take_record(&b), HEAD.len());
}

#[test]
fn another_session_and_more_to_come_and_a_read_do_not_keep_it_back() {
    let others: [fn(&End); 4] = [
        |_| drop(likely()),
        |a| assert_eq!(a.send(b"more", RECORD_TYPE_DATA, libc::MSG_MORE), Ok(4)),
        |_| crate::send_held(),
        |a| assert!(send_file(a, &file(&[7; 100]), 100).is_ok()),
    ];
    for other in others {
        let (a, b) = likely();
        a.write(HEAD);
        other(&a);
        assert!(take_record(&b) >= HEAD.len());
        assert!(!holds(&a));
    }
}

#[test]
fn a_file_that_cannot_be_sent_leaves_it_to_the_next_wait() {
    let (_, to) = rustix::pipe::pipe().expect("a pipe");
    for (file, count) in [(File::from(to), 10), (file(&[]), 10), (file(&[7]), 0)] {
        let (a, b) = likely();
        a.write(HEAD);
        assert!(!matches!(send_file(&a, &file, count), Ok(1..)));
        before_wait();
        assert_eq!(take_record(&b), HEAD.len());
        assert!(!holds(&a));
    }
}

#[derive(Clone, Debug)]
enum Step {
    Message(usize, bool),
    File(usize),
    Wait,
    Other,
    Rekey,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1usize..3000, prop::bool::weighted(0.2)).prop_map(|(len, more)| Step::Message(len, more)),
        4 => prop_oneof![1usize..20_000, 1usize..200_000].prop_map(Step::File),
        2 => Just(Step::Wait),
        1 => Just(Step::Other),
        1 => Just(Step::Rekey),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Messages and files in any order, under any keys, on a socket that waits and on one that does not.
    #[test]
    fn messages_and_files_come_in_the_order_in_which_they_were_sent(
        version in prop::sample::select(vec![TLS_1_2, TLS_1_3]),
        cipher in prop::sample::select(CIPHERS.to_vec()),
        waits in any::<bool>(),
        steps in prop::collection::vec(step(), 1..25),
    ) {
        let (a, b) = keyed(version, cipher)?;
        let (other, other_b) = keyed(version, cipher)?;
        a.socket.set_nonblocking(!waits)?;
        let total = |step: &Step| match step {
            Step::Message(len, _) | Step::File(len) => *len,
            _ => 0,
        };
        let expected = pattern(steps.iter().map(total).sum());
        let others = steps.iter().filter(|step| matches!(step, Step::Other)).count();
        let data = expected.clone();
        let sender = thread::spawn(move || {
            before_wait();
            let mut rest = &data[..];
            let mut updates = 0;
            for step in &steps {
                let (now, later) = rest.split_at(total(step));
                rest = later;
                match step {
                    Step::Message(_, more) => {
                        let flags = if *more { libc::MSG_MORE } else { 0 };
                        patiently(now.len(), |at| a.send(&now[at..], RECORD_TYPE_DATA, flags));
                    }
                    Step::File(_) => {
                        let file = file(now);
                        patiently(now.len(), |at| {
                            let (from, left) = (Some(at as u64), now.len() - at);
                            a.session.send_file(a.socket.as_fd(), file.as_fd(), from, left)
                        });
                    }
                    Step::Wait => before_wait(),
                    Step::Other => {
                        other.write(b"x");
                    }
                    Step::Rekey if version == TLS_1_3 => {
                        updates += 1;
                        patiently(5, |_| a.send(&[24, 0, 0, 1, 0], 22, 0));
                        patiently(1, |_| a.set(TLS_TX, &keys(version, cipher, updates, 0)).map(|()| 1));
                    }
                    Step::Rekey => {}
                }
            }
            a.session.finish(a.socket.as_fd());
            other.session.finish(other.socket.as_fd());
            (a, other)
        });
        let mut got = Vec::new();
        let mut updates = 0;
        while got.len() < expected.len() {
            let (data, received) = b.receive(100_000, true, 0)?;
            prop_assert!(!data.is_empty(), "the stream ended at {}", got.len());
            if received.record_type == RECORD_TYPE_DATA {
                got.extend(data);
            } else {
                updates += 1;
                b.set(crate::TLS_RX, &keys(version, cipher, updates, 0))?;
            }
        }
        prop_assert!(got == expected, "the bytes differ");
        other_b.read_exactly(others);
        drop(sender.join().expect("the sender"));
    }
}

/// Calls until `len` bytes are accepted.
fn patiently(len: usize, mut call: impl FnMut(usize) -> Result<usize, Errno>) {
    let mut at = 0;
    while at < len {
        match call(at) {
            Ok(accepted) => at += accepted,
            Err(Errno::AGAIN) => thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}
