//! "Sending TLS application data".

use std::io::Write;
use std::os::fd::AsRawFd;

use crate::sockets::*;

cases! {
    "TLS_TX_MAX_PAYLOAD_LEN specifies the maximum size of the plaintext of records": limited,
    "all application data sent over this socket is encrypted": every_call_encrypts,
    "sendfile sends the file's data over TLS records of maximum length": files_in_full_records,
    "TLS records are created and sent after each send call unless MSG_MORE is passed": records_per_call,
    "MSG_MORE delays a record until it is not passed or the maximum is reached": more_delays,
    "flags that kernel TLS does not know are not supported": unknown_flags,
    "if send fails, data of a previous call with MSG_MORE is left on the socket buffer": left_by_a_failure,
    "a send on a socket that is shut down for sending raises SIGPIPE, unless MSG_NOSIGNAL is set": broken_pipes,
    "RWF_NOWAIT has preadv2 and pwritev2 not wait, and unknown flags are not supported": vector_flags,
    "what is held back for a file leaves before the program waits": held_for_a_file,
}

const SECRET: &[u8] = b"this must not be read";

fn every_call_encrypts() {
    for (version, cipher) in [(TLS_1_2, 51), (TLS_1_2, 54), (TLS_1_3, 52), (TLS_1_3, 54)] {
        let pair = Pair::plain();
        pair.sends(&keys(version, cipher, 1));
        let a = pair.a();
        let (data, len) = (SECRET.as_ptr().cast::<libc::c_void>(), SECRET.len());
        let mut piece = libc::iovec {
            iov_base: data.cast_mut(),
            iov_len: len,
        };
        let (from, to) = rustix::pipe::pipe().unwrap();
        rustix::io::write(&to, SECRET).unwrap();
        let mut file = std::fs::File::from(memory());
        file.write_all(SECRET).unwrap();
        let mut offset = 0;
        // SAFETY: pointers and lengths of what lives as long as the calls.
        let sent = unsafe {
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = &mut piece;
            message.msg_iovlen = 1;
            let mut messages = [libc::mmsghdr {
                msg_hdr: message,
                msg_len: 0,
            }];
            [
                libc::write(a, data, len),
                libc::send(a, data, len, 0),
                libc::sendto(a, data, len, 0, std::ptr::null(), 0),
                libc::writev(a, &piece, 1),
                libc::pwritev2(a, &piece, 1, -1, 0),
                libc::sendmsg(a, &message, 0),
                libc::sendmmsg(a, messages.as_mut_ptr(), 1, 0) as isize
                    * messages[0].msg_len as isize,
                libc::sendfile(a, file.as_raw_fd(), &mut offset, len),
                libc::splice(
                    from.as_raw_fd(),
                    std::ptr::null_mut(),
                    a,
                    std::ptr::null_mut(),
                    len,
                    0,
                ),
            ]
        };
        assert_eq!(sent, [len as isize; 9]);
        let mut wire = Vec::new();
        while records_of(&wire) < sent.len() {
            wire.extend(pair.wire());
        }
        assert!(!holds(&wire, SECRET), "{version:#x} {cipher}");
        // And they are what was sent.
        let pair = Pair {
            a: pair.a,
            b: pair.b,
        };
        let other = Pair::plain();
        other.receives(&keys(version, cipher, 1));
        other.put(&wire);
        assert_eq!(recv(other.b(), 1000, 0).unwrap(), SECRET.repeat(sent.len()));
        drop(pair);
    }
}

/// Whole records in bytes off the wire.
fn records_of(mut wire: &[u8]) -> usize {
    let mut count = 0;
    while wire.len() >= 5 {
        let len = 5 + usize::from(u16::from_be_bytes([wire[3], wire[4]]));
        let Some(rest) = wire.get(len..) else { break };
        (wire, count) = (rest, count + 1);
    }
    count
}

fn memory() -> std::os::fd::OwnedFd {
    rustix::fs::memfd_create("file", rustix::fs::MemfdFlags::CLOEXEC).unwrap()
}

fn files_in_full_records() {
    let pair = Pair::plain();
    pair.sends(&keys(TLS_1_3, 51, 1));
    let mut file = std::fs::File::from(memory());
    file.write_all(&[7; 40_000]).unwrap();
    let mut offset = 0;
    // SAFETY: the offset is borrowed for the call.
    let sent = unsafe { libc::sendfile(pair.a(), file.as_raw_fd(), &mut offset, 50_000) };
    assert_eq!((sent, offset), (40_000, 40_000));
    let mut wire = Vec::new();
    while records_of(&wire) < 3 {
        wire.extend(pair.wire());
    }
    let around = 5 + 1 + 16;
    let lens = [16_384, 16_384, 40_000 - 2 * 16_384].map(|len| (DATA, len + around));
    assert_eq!(records(&wire), lens);
}

fn records_per_call() {
    let pair = Pair::plain();
    pair.sends(&keys(TLS_1_3, 51, 1));
    for len in [1, 2, 3] {
        send(pair.a(), &SECRET[..len], 0).unwrap();
        assert_eq!(records(&pair.wire()), [(DATA, 5 + len + 17)]);
    }
}

fn more_delays() {
    let pair = Pair::plain();
    pair.sends(&keys(TLS_1_2, 54, 1));
    send(pair.a(), &[1; 10], libc::MSG_MORE).unwrap();
    assert!(!is_readable(&pair.b));
    send(pair.a(), &[1; 5], 0).unwrap();
    assert_eq!(records(&pair.wire()), [(DATA, 5 + 15 + 16)]);
    send(pair.a(), &[1; 16_385], libc::MSG_MORE).unwrap();
    assert_eq!(records(&pair.wire()), [(DATA, 5 + 16_384 + 16)]);
    assert!(!is_readable(&pair.b));
    // Closing sends what is left.
    let Pair { a, b } = pair;
    // SAFETY: it is closed only here.
    unsafe { libc::close(std::os::fd::IntoRawFd::into_raw_fd(a)) };
    let mut rest = [0; 100];
    let flags = rustix::net::RecvFlags::empty();
    let (len, _) = rustix::net::recv(&b, &mut rest[..], flags).unwrap();
    assert_eq!(records(&rest[..len]), [(DATA, 5 + 1 + 16)]);
}

fn unknown_flags() {
    let pair = Pair::keyed(TLS_1_3, 51);
    for flag in [libc::MSG_OOB, libc::MSG_ZEROCOPY, libc::MSG_DONTROUTE] {
        assert_eq!(errno(send(pair.a(), b"x", flag)), libc::EOPNOTSUPP);
    }
    let both = libc::MSG_MORE | libc::MSG_EOR;
    assert_eq!(errno(send(pair.a(), b"x", both)), libc::EINVAL);
}

/// Whether a child dies of `SIGPIPE` when it does this to the socket.
fn dies_of_signal(act: &dyn Fn()) -> bool {
    let mut status = 0;
    // SAFETY: the child does nothing but what is tried, and ends.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            act();
            libc::_exit(0);
        }
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
    }
    libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGPIPE
}

fn broken_pipes() {
    let pair = Pair::keyed(TLS_1_3, 51);
    let a = pair.a();
    let (data, len) = (SECRET.as_ptr().cast::<libc::c_void>(), SECRET.len());
    let piece = libc::iovec {
        iov_base: data.cast_mut(),
        iov_len: len,
    };
    let mut file = std::fs::File::from(memory());
    file.write_all(SECRET).unwrap();
    let (from, to) = rustix::pipe::pipe().unwrap();
    rustix::io::write(&to, SECRET).unwrap();
    let nowhere = std::ptr::null_mut;
    // SAFETY: numbers only.
    assert_eq!(unsafe { libc::shutdown(a, libc::SHUT_WR) }, 0);
    // SAFETY: pointers and lengths of what lives as long as the calls.
    let calls: [&dyn Fn() -> isize; 6] = unsafe {
        [
            &|| libc::send(a, data, len, 0),
            &|| libc::write(a, data, len),
            &|| libc::writev(a, &piece, 1),
            &|| libc::pwritev2(a, &piece, 1, -1, 0),
            &|| libc::sendfile(a, file.as_raw_fd(), &mut 0, len),
            &|| libc::splice(from.as_raw_fd(), nowhere(), a, nowhere(), len, 0),
        ]
    };
    for (number, call) in calls.iter().enumerate() {
        let act = || {
            call();
        };
        assert!(dies_of_signal(&act), "call {number}");
    }
    let act = || drop(send(a, SECRET, libc::MSG_NOSIGNAL));
    assert!(!dies_of_signal(&act));
    // The program that runs the tests ignores it.
    assert_eq!(errno(send(a, SECRET, 0)), libc::EPIPE);
}

fn vector_flags() {
    let pair = Pair::keyed(TLS_1_3, 51);
    let mut room = vec![0_u8; 10_000];
    let piece = libc::iovec {
        iov_base: room.as_mut_ptr().cast(),
        iov_len: room.len(),
    };
    // SAFETY: the piece lives as long as the calls.
    let read = |flags| checked(unsafe { libc::preadv2(pair.b(), &piece, 1, -1, flags) });
    // SAFETY: as above.
    let write = |flags| checked(unsafe { libc::pwritev2(pair.a(), &piece, 1, -1, flags) });
    assert_eq!(errno(read(libc::RWF_NOWAIT)), libc::EAGAIN);
    assert_eq!(errno(read(1 << 30)), libc::EOPNOTSUPP);
    assert_eq!(errno(write(1 << 30)), libc::EOPNOTSUPP);
    let mut written = 0;
    let full = loop {
        match write(libc::RWF_NOWAIT | libc::RWF_DSYNC) {
            Ok(bytes) => written += bytes,
            Err(error) => break error.raw_os_error(),
        }
    };
    assert_eq!(full, Some(libc::EAGAIN));
    assert!(written > 0);
    assert_eq!(read(0).unwrap(), room.len());
}

fn left_by_a_failure() {
    let pair = Pair::keyed(TLS_1_3, 51);
    send(pair.a(), b"held ", libc::MSG_MORE).unwrap();
    assert_eq!(errno(send(pair.a(), b"x", libc::MSG_OOB)), libc::EOPNOTSUPP);
    assert_eq!(
        errno(send_control(pair.a(), b"x", (9, &[ALERT]), 0)),
        libc::EINVAL
    );
    let (_, to) = rustix::pipe::pipe().unwrap();
    // SAFETY: numbers only.
    let sent = unsafe { libc::sendfile(pair.a(), to.as_raw_fd(), std::ptr::null_mut(), 10) };
    assert_eq!(sent, -1);
    assert!(!is_readable(&pair.b));
    send(pair.a(), b"back", 0).unwrap();
    assert_eq!(recv(pair.b(), 100, 0).unwrap(), b"held back");
}

fn held_for_a_file() {
    let pair = Pair::keyed(TLS_1_3, 51);
    let mut file = std::fs::File::from(memory());
    file.write_all(&[7; 1000]).unwrap();
    for _ in 0..3 {
        assert!(!is_readable(&pair.b));
        send(pair.a(), b"head", 0).unwrap();
        let mut offset = 0;
        // SAFETY: the offset is borrowed for the call.
        let sent = unsafe { libc::sendfile(pair.a(), file.as_raw_fd(), &mut offset, 1000) };
        assert_eq!(sent, 1000);
        assert_eq!(
            recv(pair.b(), 1004, libc::MSG_WAITALL).unwrap()[..5],
            *b"head\x07"
        );
    }
    send(pair.a(), b"no file", 0).unwrap();
    assert!(becomes_readable(&pair.b));
    assert_eq!(recv(pair.b(), 100, 0).unwrap(), b"no file");
}

fn limited() {
    const MAX_PAYLOAD_LEN: i32 = 5;
    let set_limit = |fd, most: u16| set(fd, SOL_TLS, MAX_PAYLOAD_LEN, &most.to_ne_bytes());
    for (version, overhead) in [(TLS_1_2, 8 + 16), (TLS_1_3, 1 + 16)] {
        let pair = Pair::plain();
        pair.sends(&keys(version, 51, 1));
        let told = || get(pair.a(), SOL_TLS, MAX_PAYLOAD_LEN, 2).unwrap();
        assert_eq!(told(), 16384_u16.to_ne_bytes());
        let least = if version == TLS_1_3 { 63 } else { 64 };
        for bad in [0, least - 1, 16385] {
            assert_eq!(errno(set_limit(pair.a(), bad)), libc::EINVAL);
        }
        assert_eq!(
            errno(set(pair.a(), SOL_TLS, MAX_PAYLOAD_LEN, &[1; 4])),
            libc::EINVAL
        );
        set_limit(pair.a(), least).unwrap();
        set_limit(pair.a(), 100).unwrap();
        assert_eq!(told(), 100_u16.to_ne_bytes());
        let lengths = |content: &[usize]| -> Vec<_> {
            let records = content.iter().map(|content| (DATA, 5 + content + overhead));
            records.collect()
        };
        send(pair.a(), &[7; 350], 0).unwrap();
        assert_eq!(records(&pair.wire()), lengths(&[100, 100, 100, 50]));
        // What is held open stays below it.
        send(pair.a(), &[7; 130], libc::MSG_MORE).unwrap();
        assert_eq!(errno(set_limit(pair.a(), 200)), libc::EBUSY);
        send(pair.a(), &[7; 80], 0).unwrap();
        assert_eq!(records(&pair.wire()), lengths(&[100, 100, 10]));
        // Files too.
        let file = rustix::fs::memfd_create("file", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::io::write(&file, &[7; 250]).unwrap();
        let mut offset = 0;
        // SAFETY: an offset, borrowed for the call.
        let sent = unsafe {
            use std::os::fd::AsRawFd;
            libc::sendfile(pair.a(), file.as_raw_fd(), &mut offset, 250)
        };
        assert_eq!(sent, 250);
        assert_eq!(records(&pair.wire()), lengths(&[100, 100, 50]));
    }
}
