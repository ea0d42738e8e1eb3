//! An error that the socket tells once comes to the program, whichever call of ours was told it.

use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt;

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
    let told = a.socket.take_error().expect("SO_ERROR");
    assert_eq!(
        told.map(|error| error.kind()),
        Some(ErrorKind::ConnectionReset)
    );
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
