//! An error that the socket tells once comes to the program, whichever call of ours was told it.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt;

use super::signals::broken_pipes;
use super::{End, TLS_1_3, keyed, pattern};
use crate::RECORD_TYPE_DATA;
use crate::socket::is_over;

/// The peer resets the connection, and that has come to `end`.
fn reset(peer: End, end: &End) {
    sockopt::set_socket_linger(&peer.socket, Some(Duration::ZERO)).expect("a socket option");
    drop(peer);
    while !is_over(end.socket.as_fd()) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

impl End {
    /// As `SO_ERROR` is told: by the socket, or by the library if the reset came while its thread was sending.
    fn take_error(&self) -> Option<Errno> {
        let told = self.socket.take_error().expect("SO_ERROR");
        let told = told.and_then(|error| Errno::from_io_error(&error));
        told.or_else(|| self.session.take_error())
    }
}

#[test]
fn a_reset_is_told_although_the_librarys_thread_has_something_to_send() {
    let (a, b) = keyed(TLS_1_3, 51).expect("loopback");
    assert_eq!(a.send(b"open", RECORD_TYPE_DATA, libc::MSG_MORE), Ok(4));
    reset(b, &a);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(a.read(100), Err(Errno::CONNRESET));
    assert_eq!(a.read(100).map(|data| data.len()), Ok(0));
}

#[test]
fn a_reset_is_left_to_the_program_where_what_was_accepted_waits_for_room() {
    let (a, b) = keyed(TLS_1_3, 51).expect("loopback");
    let data = pattern(100_000);
    while a.send(&data, RECORD_TYPE_DATA, libc::MSG_DONTWAIT).is_ok() {}
    reset(b, &a);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(a.take_error(), Some(Errno::CONNRESET));
    assert_eq!(a.take_error(), None);
}

#[test]
fn a_reset_behind_content_is_told_by_the_next_call() {
    let (a, b) = keyed(TLS_1_3, 51).expect("loopback");
    b.write(b"content");
    reset(b, &a);
    assert_eq!(a.read(100), Ok(b"content".to_vec()));
    assert_eq!(a.read(100), Err(Errno::CONNRESET));
    assert_eq!(a.read(100).map(|data| data.len()), Ok(0));
}

#[test]
fn a_reset_that_a_look_has_come_to_is_told_by_the_call_behind_it() {
    for sends in [false, true] {
        let (a, b) = keyed(TLS_1_3, 51).expect("loopback");
        reset(b, &a);
        assert!(a.session.is_readable(a.socket.as_fd()));
        let told = match sends {
            // What a record takes is accepted. The next call is told.
            true => (0..2).find_map(|_| a.send(b"x", RECORD_TYPE_DATA, 0).err()),
            false => a.read(100).err(),
        };
        assert_eq!(told, Some(Errno::CONNRESET));
        assert_eq!(a.session.take_error(), None);
    }
}

#[test]
fn a_broken_pipe_is_one_signal_unless_the_call_wants_none() {
    for is_reset in [false, true] {
        for flags in [0, libc::MSG_MORE] {
            let (a, b) = keyed(TLS_1_3, 51).expect("loopback");
            // The peer has to be there for the end.
            let _peer = match is_reset {
                false => {
                    assert_eq!(a.session.shut_sending(a.socket.as_fd()), Ok(()));
                    Some(b)
                }
                true => {
                    reset(b, &a);
                    assert_eq!(a.read(1), Err(Errno::CONNRESET));
                    // It is made a record, and waits.
                    assert_eq!(a.send(b"x", RECORD_TYPE_DATA, 0), Ok(1));
                    None
                }
            };
            let send = |flags| broken_pipes(|| a.send(b"x", RECORD_TYPE_DATA, flags));
            assert_eq!(send(flags), (Err(Errno::PIPE), 1));
            assert_eq!(send(flags | libc::MSG_NOSIGNAL), (Err(Errno::PIPE), 0));
        }
    }
}

#[test]
fn a_message_that_would_be_held_back_has_the_signal_too() {
    let (a, _b) = keyed(TLS_1_3, 51).expect("loopback");
    crate::before_wait();
    a.session.joins_files.store(true, Relaxed);
    assert_eq!(a.session.shut_sending(a.socket.as_fd()), Ok(()));
    let sent = broken_pipes(|| a.send(b"x", RECORD_TYPE_DATA, 0));
    assert_eq!(sent, (Err(Errno::PIPE), 1));
}

#[test]
fn a_connection_that_is_over_is_not_shut_down() {
    let (a, b) = keyed(TLS_1_3, 51).expect("loopback");
    reset(b, &a);
    let shut = a.session.shut_sending(a.socket.as_fd());
    assert_eq!(shut, Err(Errno::NOTCONN));
    assert_eq!(a.read(1), Err(Errno::CONNRESET));
}
