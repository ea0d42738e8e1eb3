//! A socket that a child of a fork goes on with when its parent has closed it, over restarts of the NIC.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use kernel_tls::{RECORD_TYPE_DATA, TLS_RX};

use crate::end::{Sender, connect, content, eventually, keys, records};
use crate::nic;

const CASE: (u16, u16) = (0x0304, 51);

/// A child process, which takes a step for each word that it is told.
struct Child {
    id: i32,
    words: UnixStream,
}

impl Child {
    /// Forks; the child calls `step` with the number of each word, and ends when that is false or there are no more words.
    fn start(step: impl Fn(usize) -> bool) -> Child {
        let (words, its) = UnixStream::pair().expect("a pair of sockets");
        // SAFETY: the child calls nothing but what a child of a program with threads may, and ends.
        match unsafe { libc::fork() } {
            0 => {
                drop(words);
                // SAFETY: ends the child if it hangs.
                unsafe { libc::alarm(30) };
                let steps = (0..).take_while(|_| (&its).read_exact(&mut [0]).is_ok());
                let all = steps
                    .map(step)
                    .all(|done| done && (&its).write_all(&[0]).is_ok());
                // SAFETY: ends the child without running what the parent has registered.
                unsafe { libc::_exit(i32::from(!all)) };
            }
            id => Child { id, words },
        }
    }

    /// Has it take its next step, and waits until it has.
    fn step(&self) {
        (&self.words).write_all(&[0]).expect("the child");
        (&self.words)
            .read_exact(&mut [0])
            .expect("the child has done it");
    }

    /// Has it end.
    fn end(self) {
        drop(self.words);
        let mut status = 0;
        // SAFETY: the status is borrowed for the call.
        unsafe { libc::waitpid(self.id, &raw mut status, 0) };
        assert_eq!(status, 0, "the child has failed");
    }
}

fn restart() {
    nic::stop();
    nic::restart();
}

fn sends(sender: &Sender, data: &[u8]) -> bool {
    sender.send(data, RECORD_TYPE_DATA, 0) == Ok(data.len())
}

/// The child has not called before: its first call tells the NIC, which knows nothing of the connection.
#[test]
fn a_child_that_sends_first_behind_a_restart_tells_the_nic_the_keys() {
    let _alone = nic::alone();
    let (sender, received) = connect();
    sender.set_keys(&keys(CASE, 1, 5));
    sender.send_all(b"parent", RECORD_TYPE_DATA, 0);
    let child = Child::start(|_| sends(&sender, b", child"));
    let cookie = sender.close();
    eventually("the parent has left it", || nic::flow(cookie).released);
    restart();
    assert_eq!(nic::flow(cookie).resumed.len(), 0, "the parent has left it");
    child.step();
    let resumed = nic::flow(cookie).resumed;
    assert_eq!((resumed[0].tcpsn, resumed[0].index), (nic::tcpsn(28), 6));
    child.end();
    let got = records(cookie, &received.join().unwrap(), None);
    assert_eq!(content(&got, RECORD_TYPE_DATA), b"parent, child");
}

/// Nothing wakes it, and its parent has ended without leaving the socket: bytes that are on their way are made records only once the NIC has the keys again.
#[test]
fn a_child_that_has_sent_tells_every_nic_that_comes_without_another_call() {
    let _alone = nic::alone();
    let (sender, received) = connect();
    sender.set_keys(&keys(CASE, 1, 5));
    let child = Child::start(|step| sends(&sender, [&b"first"[..], b", second"][step]));
    child.step();
    std::mem::forget(Arc::clone(&sender.session));
    let cookie = sender.close();
    for _ in 0..2 {
        let before = nic::flow(cookie).resumed.len();
        restart();
        eventually("the child tells the keys", || {
            nic::flow(cookie).resumed.len() > before
        });
    }
    child.step();
    child.end();
    let got = records(cookie, &received.join().unwrap(), None);
    assert_eq!(content(&got, RECORD_TYPE_DATA), b"first, second");
}

/// What comes is dropped until the NIC has the keys: a child that waits has them told.
#[test]
fn a_child_that_waits_to_receive_tells_the_nic_the_keys() {
    let _alone = nic::alone();
    let (reader, received) = connect();
    let set = reader
        .session
        .set_option(reader.socket.as_fd(), TLS_RX, &keys(CASE, 1, 5));
    assert_eq!(set, Ok(()));
    let child = Child::start(|_| {
        reader.session.take_over(reader.socket.as_fd());
        true
    });
    let cookie = reader.close();
    eventually("the parent has left it", || nic::flow(cookie).released);
    let told = || nic::flow(cookie).resumed_receiving;
    restart();
    assert_eq!(told(), 0);
    child.step();
    eventually("the child tells the keys", || told() == 1);
    restart();
    eventually("the child tells the next NIC", || told() == 2);
    child.end();
    received.join().unwrap();
}
