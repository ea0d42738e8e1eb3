//! Files: from their pages, or by one copy.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::process::Command;
use std::time::Duration;

use kernel_tls::{Counter, Errno, RECORD_TYPE_DATA, TLS_TX_ZEROCOPY_RO, counters};
use proptest::prelude::*;
use rustix::net::sockopt::set_socket_linger;

use crate::end::{
    CASES, Sender, connect, connect_unread, content, eventually, finish, keys, pattern, records,
};
use crate::restart::assert_is_boundary;
use crate::signals::broken_pipes;
use crate::{linux, nic};

/// A file with these bytes and no name.
pub fn file(bytes: &[u8]) -> File {
    let fd = rustix::fs::memfd_create("file", rustix::fs::MemfdFlags::CLOEXEC).expect("memory");
    let mut file = File::from(fd);
    file.write_all(bytes).expect("memory");
    file
}

impl Sender {
    pub fn allow_zerocopy(&self) {
        let on = 1_i32.to_ne_bytes();
        self.session
            .set_option(self.socket.as_fd(), TLS_TX_ZEROCOPY_RO, &on)
            .expect("an option");
        self.socket.set_nonblocking(true).expect("a socket");
    }

    pub fn send_file(
        &self,
        file: &File,
        offset: Option<u64>,
        count: usize,
    ) -> Result<usize, Errno> {
        self.session
            .send_file(self.socket.as_fd(), file.as_fd(), offset, count)
    }

    /// All of a part of a file, however often it takes.
    pub fn send_file_all(&self, file: &File, from: u64, len: usize) {
        let mut sent = 0;
        while sent < len {
            let place = Some(from + sent as u64);
            match self.send_file(file, place, len - sent) {
                Ok(more) => sent += more,
                Err(Errno::AGAIN) => std::thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any part of a file, in any steps, without a copy and with one, behind what is held open or held back.
    #[test]
    fn files_come_out_as_they_are(
        case in prop::sample::select(CASES.to_vec()),
        zerocopy in any::<bool>(),
        waits in any::<bool>(),
        offset in 0usize..100_000,
        steps in prop::collection::vec((1usize..700_000, 0usize..20_000, any::<bool>()), 1..6),
    ) {
        let _running = nic::running();
        let bytes = pattern(1_500_000);
        let file = file(&bytes);
        let (sender, received) = connect();
        sender.set_keys(&keys(case, 1, 5));
        if zerocopy {
            sender.allow_zerocopy();
        }
        sender.socket.set_nonblocking(!waits).expect("a socket");
        let (mut at, mut expected) = (offset, Vec::new());
        kernel_tls::before_wait();
        for (count, before, held) in steps {
            let (before, flags) = if held { (before % 2100, 0) } else { (before, libc::MSG_MORE) };
            let header = pattern(before);
            sender.send_all(&header, RECORD_TYPE_DATA, flags);
            expected.extend(header);
            let end = (at + count).min(bytes.len());
            expected.extend(&bytes[at..end]);
            sender.send_file_all(&file, at as u64, end.saturating_sub(at));
            at = end.max(at);
        }
        prop_assert!(finish(sender, received, None) == expected, "the bytes differ");
    }
}

#[test]
fn a_file_goes_without_a_copy_where_it_may() {
    let _running = nic::running();
    let bytes = pattern(262_144);
    let mut file = file(&bytes);
    file.seek(SeekFrom::Start(0)).expect("memory");
    let (sender, received) = connect();
    sender.set_keys(&keys((0x0304, 51), 1, 5));
    match std::env::var_os(nic::ZEROCOPY) {
        None => sender.allow_zerocopy(),
        Some(_) => sender.socket.set_nonblocking(true).expect("a socket"),
    }
    let before = counters().get(Counter::TxZerocopyBytes);
    let mut sent = 0;
    while sent < bytes.len() {
        match sender.send_file(&file, None, bytes.len() - sent) {
            Ok(more) => sent += more,
            Err(Errno::AGAIN) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
    assert!(counters().get(Counter::TxZerocopyBytes) > before);
    assert_eq!(
        file.read(&mut [0; 10]).expect("memory"),
        0,
        "the file stands behind what was sent"
    );
    assert_eq!(finish(sender, received, None), bytes);
}

/// The same test in a process of its own, whose library is told so at its start.
#[test]
fn a_file_goes_without_a_copy_where_the_library_was_told_that_all_may() {
    let this = std::env::current_exe().expect("this program");
    let output = Command::new(this)
        .args(["--exact", "files::a_file_goes_without_a_copy_where_it_may"])
        .env(nic::ZEROCOPY, "1")
        .output()
        .expect("this program again");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
}

#[test]
fn a_file_for_a_connection_that_is_over_is_one_signal() {
    let _running = nic::running();
    let file = file(&pattern(100_000));
    for zerocopy in [false, true] {
        let (sender, peer) = connect_unread();
        sender.set_keys(&keys((0x0304, 51), 1, 5));
        if zerocopy {
            sender.allow_zerocopy();
        }
        set_socket_linger(&peer, Some(Duration::ZERO)).expect("a socket option");
        drop(peer);
        eventually("the reset comes", || linux::is_over(&sender.socket));
        let send = || broken_pipes(|| sender.send_file(&file, Some(0), 100_000));
        assert_eq!(send(), (Err(Errno::CONNRESET), 0));
        assert_eq!(send(), (Err(Errno::PIPE), 1));
    }
}

#[test]
fn what_was_held_back_is_a_record_of_its_own_before_the_files() {
    let _running = nic::running();
    let bytes = pattern(262_144);
    let file = file(&bytes);
    let head = pattern(300);
    for zerocopy in [false, true] {
        let (sender, received) = connect();
        sender.set_keys(&keys((0x0304, 51), 1, 5));
        if zerocopy {
            sender.allow_zerocopy();
        }
        kernel_tls::before_wait();
        for _ in 0..2 {
            sender.send_all(&head, RECORD_TYPE_DATA, 0);
            sender.send_file_all(&file, 0, bytes.len());
        }
        let cookie = sender.close();
        let got = records(cookie, &received.join().unwrap(), None);
        let lens: Vec<usize> = got.iter().map(|record| record.content.len()).collect();
        let response = [vec![300], vec![16_384; 16]].concat();
        assert_eq!(lens, response.repeat(2));
        let all = [&head[..], &bytes].concat().repeat(2);
        assert!(content(&got, RECORD_TYPE_DATA) == all, "the bytes differ");
    }
}

#[test]
fn a_pipe_is_sent_from_and_nothing_of_it_is_lost() {
    let _running = nic::running();
    let (from, to) = rustix::pipe::pipe().expect("a pipe");
    let bytes = pattern(60_000);
    let (sender, received) = connect();
    sender.set_keys(&keys((0x0304, 51), 1, 5));
    sender.socket.set_nonblocking(true).expect("a socket");
    rustix::io::write(&to, &bytes).expect("room in the pipe");
    drop(to);
    // With something held open there is less room for what is read.
    sender.send_all(&bytes[..10_000], RECORD_TYPE_DATA, libc::MSG_MORE);
    let pipe = File::from(from);
    let mut sent = 0;
    while sent < bytes.len() {
        match sender.send_file(&pipe, None, bytes.len() + 1) {
            Ok(more) => sent += more,
            Err(Errno::AGAIN) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(
        finish(sender, received, None),
        [&bytes[..10_000], &bytes].concat()
    );
}

#[test]
fn a_file_that_becomes_shorter_in_a_call_ends_its_record_early_or_the_connection() {
    let _running = nic::running();
    for (case, micros) in CASES
        .into_iter()
        .flat_map(|case| [30, 60, 120, 500].map(|us| (case, us)))
    {
        let bytes = pattern(1_000_000);
        let file = file(&bytes);
        let (sender, received) = connect();
        sender.set_keys(&keys(case, 1, 5));
        sender.allow_zerocopy();
        let other = file.try_clone().expect("a descriptor");
        let shortens = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_micros(micros));
            other.set_len(222_222).expect("memory");
        });
        let mut sent = 0;
        loop {
            match sender.send_file(&file, Some(sent as u64), bytes.len() - sent) {
                Ok(0) => break,
                Ok(more) => sent += more,
                Err(Errno::AGAIN) => std::thread::yield_now(),
                Err(error) => {
                    assert_eq!((case.0, error), (0x0303, Errno::CONNRESET));
                    break;
                }
            }
        }
        shortens.join().expect("memory");
        sender.socket.set_nonblocking(false).expect("a socket");
        let ended = sender.send(&[1, 0], 21, 0);
        let cookie = sender.close();
        let stream = received.join().unwrap();
        if ended == Ok(2) {
            let mut got = records(cookie, &stream, None);
            assert_eq!(got.pop().map(|last| last.record_type), Some(21));
            let got = content(&got, RECORD_TYPE_DATA);
            assert_eq!(got.len(), sent);
            // Behind the file's end its last page has zeros.
            let mut pairs = got.iter().zip(&bytes).enumerate();
            assert!(pairs.all(|(at, (got, sent))| got == sent || at >= 222_222 && *got == 0));
        } else {
            assert_eq!((case.0, ended), (0x0303, Err(Errno::CONNRESET)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// The socket is full most of the time: it has taken a part of a record from the file's pages when the NIC dies.
    #[test]
    fn files_go_on_from_their_pages_over_any_restarts(
        case in prop::sample::select(CASES.to_vec()),
        steps in prop::collection::vec((1usize..300_000, 0u8..5), 4..20),
    ) {
        let _alone = nic::alone();
        let bytes = pattern(300_000);
        let file = file(&bytes);
        let (sender, received) = connect();
        sender.set_keys(&keys(case, 1, 5));
        sender.allow_zerocopy();
        let (mut is_there, mut restarts, mut expected) = (true, 0, Vec::new());
        let before = counters().get(Counter::TxZerocopyBytes);
        for (len, what) in steps {
            match (what, is_there) {
                (0, true) => nic::stop(),
                (0 | 1, false) => nic::restart(),
                _ => {}
            }
            restarts += usize::from(what < 2 && !is_there);
            is_there = if is_there { what != 0 } else { what < 2 };
            let from = bytes.len() - len;
            match sender.send_file(&file, Some(from as u64), len) {
                Ok(sent) => expected.extend(&bytes[from..from + sent]),
                Err(error) => prop_assert_eq!(error, Errno::AGAIN),
            }
        }
        if !is_there {
            nic::restart();
            restarts += 1;
        }
        let cookie = sender.cookie;
        let told = || nic::flow(cookie).resumed.len();
        eventually("the keys are told again", || restarts == 0 || told() > 0);
        sender.close();
        let stream = received.join().expect("the peer");
        prop_assert!(content(&records(cookie, &stream, None), RECORD_TYPE_DATA) == expected, "the bytes differ");
        prop_assert!(expected.len() < 40_000 || counters().get(Counter::TxZerocopyBytes) > before);
        for resumed in nic::flow(cookie).resumed {
            if resumed.tcpsn != nic::tcpsn(stream.len() as u64) {
                assert_is_boundary(resumed, &stream, 5);
            }
        }
    }
}
