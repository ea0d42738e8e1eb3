//! What is written comes out, whatever the sizes and the calls.

use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use rustix::io::Errno;

use super::{CIPHERS, TLS_1_2, TLS_1_3, keyed, pattern};
use crate::{RECORD_TYPE_DATA, flush_all, wait_for_all};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any sizes of writes and reads, with and without `MSG_MORE`, blocking and not, in every version and cipher.
    #[test]
    fn the_stream_is_what_was_written(
        version in prop::sample::select(vec![TLS_1_2, TLS_1_3]),
        cipher in prop::sample::select(CIPHERS.to_vec()),
        writes in prop::collection::vec((0usize..60_000, any::<bool>(), any::<bool>()), 1..12),
        reads in prop::collection::vec((1usize..50_000, any::<bool>()), 1..12),
    ) {
        let (a, b) = keyed(version, cipher)?;
        let total: usize = writes.iter().map(|(len, ..)| len).sum();
        let data = pattern(total);
        let expected = data.clone();
        let writer = thread::spawn(move || {
            let mut at = 0;
            for (len, more, waits) in writes {
                let flags = if more { libc::MSG_MORE } else { 0 };
                let end = at + len;
                while at < end {
                    let how = if waits { 0 } else { libc::MSG_DONTWAIT };
                    match a.send(&data[at..end], RECORD_TYPE_DATA, flags | how) {
                        Ok(sent) => at += sent,
                        Err(Errno::AGAIN) => thread::yield_now(),
                        Err(error) => panic!("{error}"),
                    }
                }
            }
            a.session.finish(a.socket.as_fd());
            a
        });
        let mut got = Vec::new();
        for (room, waits) in reads.iter().cycle() {
            if got.len() == total {
                break;
            }
            let flags = if *waits { 0 } else { libc::MSG_DONTWAIT };
            match b.receive((*room).min(total - got.len()), false, flags) {
                Ok((data, _)) => got.extend(data),
                Err(Errno::AGAIN) => thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
        }
        prop_assert!(got == expected, "the bytes differ");
        writer.join().expect("the writer");
    }
}

#[test]
fn several_pieces_make_one_record() {
    let (a, b) = keyed(TLS_1_3, 51).expect("loopback");
    let fd = a.socket.as_fd();
    let sent = a
        .session
        .send(fd, &[b"ab", b"", b"cde", b"f"], RECORD_TYPE_DATA, 0);
    assert_eq!(sent, Ok(6));
    assert_eq!(b.read_exactly(6), b"abcdef");
    assert_eq!(
        crate::session::Session::option(&a.session, crate::TLS_TX, &mut [0; 4]),
        Ok(4)
    );
}

#[test]
fn a_file_is_sent_from_where_the_caller_reads_it() {
    let (a, b) = keyed(TLS_1_3, 52).expect("loopback");
    let file = pattern(1_000_000);
    let expected = file.clone();
    let reader = thread::spawn(move || b.read_exactly(expected.len()) == expected);
    let fd = rustix::fs::memfd_create("file", rustix::fs::MemfdFlags::CLOEXEC).expect("memory");
    rustix::io::write(&fd, &file).expect("memory");
    rustix::fs::seek(&fd, rustix::fs::SeekFrom::Start(0)).expect("memory");
    let sent = a
        .session
        .send_file(a.socket.as_fd(), fd.as_fd(), None, 2_000_000);
    assert_eq!(sent, Ok(1_000_000));
    let stands = rustix::fs::seek(&fd, rustix::fs::SeekFrom::Current(0));
    assert_eq!(stands, Ok(1_000_000));
    assert!(reader.join().expect("the reader"));
}

#[test]
fn a_fork_and_its_parent_never_use_a_record_number_twice() {
    let (a, b) = keyed(TLS_1_3, 51).expect("loopback");
    a.write(b"before");
    // SAFETY: the child calls nothing but what sends, and ends.
    match unsafe { libc::fork() } {
        0 => {
            let sent = a.send(b" child", RECORD_TYPE_DATA, 0);
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
    a.write(b" after");
    assert_eq!(b.read_exactly(18), b"before child after");
}

#[test]
fn the_end_of_the_program_waits_for_what_is_being_sent() {
    let (a, b) = keyed(TLS_1_3, 51).expect("loopback");
    let mut accepted = 0;
    while let Ok(sent) = a.send(&[7; 100_000], RECORD_TYPE_DATA, libc::MSG_DONTWAIT) {
        accepted += sent;
    }
    // Room comes: the library's thread takes the socket off its list, and waits for the direction.
    let held = a.session.sending();
    let reader = thread::spawn(move || b.read_exactly(accepted));
    thread::sleep(Duration::from_millis(100));
    let (begun, limit) = (Instant::now(), Duration::from_millis(300));
    flush_all(limit);
    assert!(begun.elapsed() >= limit);
    let begun = Instant::now();
    wait_for_all(limit);
    assert!(begun.elapsed() >= limit);
    drop(held);
    flush_all(Duration::from_secs(30));
    assert!(a.session.sending().is_pushed());
    reader.join().expect("the reader");
}
