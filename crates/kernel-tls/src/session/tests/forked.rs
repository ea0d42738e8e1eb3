//! What becomes of a direction whose process ends in the middle of something, and of a record that it has held open; a child of it has the socket too.

use std::io::{PipeReader, Read, pipe};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::io::Errno;

use super::{End, TLS_1_3, keyed};
use crate::RECORD_TYPE_DATA;

/// Forks; the child ends with whether `run` was right.
fn fork(run: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the child calls nothing but what a child of a program with threads may, and ends.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: ends the child if it hangs.
            unsafe { libc::alarm(30) };
            let has_failed = !run();
            // SAFETY: ends the child without running what the parent has registered.
            unsafe { libc::_exit(i32::from(has_failed)) }
        }
        child => child,
    }
}

fn wait_for(child: i32) {
    let mut status = 0;
    // SAFETY: the status is borrowed for the call.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(status, 0, "the child has failed");
}

fn open(end: &End) -> bool {
    end.send(b"open", RECORD_TYPE_DATA, libc::MSG_MORE) == Ok(4)
}

fn is_let_go(mut end: &PipeReader) -> bool {
    end.read(&mut [0]).is_ok()
}

#[test]
fn a_child_that_waits_sends_the_record_that_its_parent_has_left_open() {
    let (a, b) = keyed(TLS_1_3, 51).expect("loopback");
    let patience = Some(Duration::from_secs(5));
    b.socket.set_read_timeout(patience).expect("a TCP socket");
    let (end, keep) = pipe().expect("a pipe");
    let mut keep = Some(keep);
    let parent = fork(|| {
        let opened = open(&a);
        fork(|| {
            drop(keep.take());
            a.session.take_over(a.socket.as_fd());
            is_let_go(&end)
        });
        // It ends at once, and without a word.
        opened
    });
    wait_for(parent);
    assert_eq!(b.read_exactly(4), b"open");
    drop(keep);
}

#[test]
fn a_record_that_is_open_leaves_when_its_process_ends() {
    let (a, b) = keyed(TLS_1_3, 51).expect("loopback");
    let patience = Some(Duration::from_secs(5));
    b.socket.set_read_timeout(patience).expect("a TCP socket");
    let parent = fork(|| {
        let opened = open(&a);
        crate::flush_all(Duration::from_secs(1));
        opened
    });
    wait_for(parent);
    assert_eq!(b.read_exactly(4), b"open");
}

/// A record number could be used twice, unless the process was about something that may end anywhere, as when it tells a new NIC its keys.
#[test]
fn a_direction_has_ended_with_a_process_that_was_changing_it() {
    let (a, b) = keyed(TLS_1_3, 51).expect("loopback");
    for keeps_order in [true, false] {
        let child = fork(|| {
            let sending = a.session.sending();
            if keeps_order {
                sending.guard.keep_order();
            }
            std::mem::forget(sending);
            true
        });
        wait_for(child);
        let sent = a.send(b"after", RECORD_TYPE_DATA, libc::MSG_NOSIGNAL);
        assert_eq!(sent, if keeps_order { Ok(5) } else { Err(Errno::PIPE) });
    }
    assert_eq!(b.read_exactly(5), b"after");
}

/// Else it would be taken for one that is busy, for ever.
#[test]
fn who_does_not_wait_for_a_direction_finds_that_it_has_ended() {
    let (a, _b) = keyed(TLS_1_3, 51).expect("loopback");
    wait_for(fork(|| {
        std::mem::forget(a.session.sending());
        true
    }));
    let fd = a.socket.as_fd();
    assert_eq!(a.session.try_flush(fd), Some(Err(Errno::PIPE)));
    let held = a.session.sending();
    assert_eq!(a.session.try_flush(fd), None);
    drop(held);
    assert_eq!(a.session.try_flush(fd), Some(Err(Errno::PIPE)));
}
