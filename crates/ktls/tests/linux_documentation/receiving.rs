//! "Receiving TLS application data".

use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicI32, AtomicIsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::sockets::*;

cases! {
    "all recv family socket calls are decrypted": every_call_decrypts,
    "a full TLS record must be received before decryption can happen": whole_records_only,
    "if the buffer is too small, data is decrypted and copied": small_buffers,
    "EINVAL is returned if the TLS version in the received message does not match": another_version,
    "EMSGSIZE is returned if the received message is too big": too_big,
    "EBADMSG is returned if decryption failed for any other reason": cannot_be_opened,
    "what came before a record that can't be opened is received first": good_before_bad,
    "a header that is none is told once, and what is behind it is dropped": told_once,
    "a look goes across records, and takes none": looks_across,
    "a look does not go past a record of another type": looks_at_one_type,
    "a control message can't be spliced, and stays": not_spliced,
    "a pipe that was spliced to before takes content as another one": spliced_again,
    "SO_RCVLOWAT counts content": low_water,
    "SO_RCVLOWAT counts content also if it was set before the keys": low_water_before_keys,
    "FIONREAD tells how much content there is": told_by_ioctl,
    "SO_ERROR tells a reset that a call came to behind content": reset_behind_content,
    "what comes out of the error queue is no content": error_queue,
    "a thread that ends may receive": in_a_destructor,
    "recvmmsg waits for all messages, or for one, and looks at the time": several_messages,
    "room at no address is EFAULT": no_room,
}

const WORDS: &[u8] = b"eight by";

fn reset_behind_content() {
    let Pair { a, b } = Pair::keyed(TLS_1_3, 51);
    send(a.as_raw_fd(), WORDS, 0).unwrap();
    rustix::net::sockopt::set_socket_linger(&a, Some(std::time::Duration::ZERO)).unwrap();
    drop(a);
    let mut polled = [rustix::event::PollFd::new(
        &b,
        rustix::event::PollFlags::ERR,
    )];
    rustix::event::poll(&mut polled, None).unwrap();
    let b = b.as_raw_fd();
    assert_eq!(recv(b, 100, 0).unwrap(), WORDS);
    let error = || get(b, libc::SOL_SOCKET, libc::SO_ERROR, 4).unwrap();
    assert_eq!(error(), libc::ECONNRESET.to_ne_bytes());
    assert_eq!(error(), [0; 4]);
    assert_eq!(recv(b, 100, 0).unwrap(), b"");
}

fn every_call_decrypts() {
    for (version, cipher) in [(TLS_1_2, 51), (TLS_1_2, 54), (TLS_1_3, 52), (TLS_1_3, 54)] {
        let pair = Pair::keyed(version, cipher);
        let b = pair.b();
        let (from, to) = rustix::pipe::pipe().unwrap();
        for call in 0..8 {
            send(pair.a(), WORDS, 0).unwrap();
            let mut room = [0_u8; 8];
            let at = room.as_mut_ptr().cast::<libc::c_void>();
            let mut piece = libc::iovec {
                iov_base: at,
                iov_len: 8,
            };
            let none = std::ptr::null_mut();
            // SAFETY: room of eight bytes, and what describes it, live as long as the calls.
            let len = unsafe {
                let mut message: libc::msghdr = std::mem::zeroed();
                message.msg_iov = &mut piece;
                message.msg_iovlen = 1;
                let mut messages = [libc::mmsghdr {
                    msg_hdr: message,
                    msg_len: 0,
                }];
                match call {
                    0 => libc::read(b, at, 8),
                    1 => libc::recv(b, at, 8, 0),
                    2 => libc::recvfrom(b, at, 8, 0, std::ptr::null_mut(), std::ptr::null_mut()),
                    3 => libc::readv(b, &piece, 1),
                    4 => libc::preadv2(b, &piece, 1, -1, 0),
                    5 => libc::recvmsg(b, &mut message, 0),
                    6 => {
                        let none = std::ptr::null_mut();
                        libc::recvmmsg(b, messages.as_mut_ptr(), 1, 0, none) as isize
                            * messages[0].msg_len as isize
                    }
                    _ => {
                        let moved = libc::splice(b, none, to.as_raw_fd(), none, 8, 0);
                        rustix::io::read(&from, &mut room).unwrap();
                        moved
                    }
                }
            };
            assert_eq!((len, &room[..]), (8, WORDS), "call {call}");
        }
    }
}

fn whole_records_only() {
    let other = Pair::plain();
    other.sends(&keys(TLS_1_3, 51, 1));
    send(other.a(), WORDS, 0).unwrap();
    let wire = other.wire();
    let pair = Pair::plain();
    pair.receives(&keys(TLS_1_3, 51, 1));
    for byte in &wire[..wire.len() - 1] {
        pair.put(&[*byte]);
        assert_eq!(errno(recv(pair.b(), 100, libc::MSG_DONTWAIT)), libc::EAGAIN);
    }
    pair.put(&wire[wire.len() - 1..]);
    assert_eq!(recv(pair.b(), 100, 0).unwrap(), WORDS);
}

fn small_buffers() {
    let pair = Pair::keyed(TLS_1_2, 51);
    send(pair.a(), WORDS, 0).unwrap();
    for part in WORDS.chunks(3) {
        assert!(becomes_readable(&pair.b));
        assert_eq!(recv(pair.b(), part.len(), 0).unwrap(), part);
    }
    assert!(!is_readable(&pair.b));
}

fn header_gives(header: &[u8], expected: i32) {
    let pair = Pair::plain();
    pair.receives(&keys(TLS_1_3, 51, 1));
    pair.put(header);
    assert_eq!(errno(recv(pair.b(), 100, 0)), expected);
}

fn another_version() {
    header_gives(&[23, 2, 3, 0, 100], libc::EINVAL);
}

fn too_big() {
    header_gives(&[23, 3, 3, 0x7f, 0xff], libc::EMSGSIZE);
}

fn cannot_be_opened() {
    let pair = Pair::plain();
    pair.sends(&keys(TLS_1_3, 51, 1));
    pair.receives(&keys(TLS_1_3, 51, 2));
    send(pair.a(), WORDS, 0).unwrap();
    assert_eq!(errno(recv(pair.b(), 100, 0)), libc::EBADMSG);
}

fn good_before_bad() {
    for version in [TLS_1_2, TLS_1_3] {
        let other = Pair::plain();
        other.sends(&keys(version, 51, 1));
        send(other.a(), WORDS, 0).unwrap();
        let first = other.wire().len();
        for at in [6, 9, first - 1] {
            let other = Pair::plain();
            other.sends(&keys(version, 51, 1));
            let mut wire = Vec::new();
            for _ in 0..2 {
                send(other.a(), WORDS, 0).unwrap();
                wire.extend(other.wire());
            }
            wire[first + at] ^= 1;
            let pair = Pair::plain();
            pair.receives(&keys(version, 51, 1));
            pair.put(&wire);
            assert_eq!(recv(pair.b(), 100, 0).unwrap(), WORDS);
            for _ in 0..2 {
                assert_eq!(errno(recv(pair.b(), 100, 0)), libc::EBADMSG);
            }
        }
    }
}

fn told_once() {
    for version in [TLS_1_2, TLS_1_3] {
        let pair = Pair::keyed(version, 51);
        send(pair.a(), WORDS, 0).unwrap();
        pair.put(&[0x55; 64]);
        assert_eq!(recv(pair.b(), 100, 0).unwrap(), WORDS);
        assert!(becomes_readable(&pair.b));
        assert_eq!(errno(recv(pair.b(), 100, 0)), libc::EMSGSIZE);
        for _ in 0..2 {
            assert_eq!(errno(recv(pair.b(), 100, libc::MSG_DONTWAIT)), libc::EAGAIN);
            assert!(!is_readable(&pair.b));
            pair.put(&[0x55; 64]);
        }
        pair.a.shutdown(std::net::Shutdown::Write).unwrap();
        assert!(becomes_readable(&pair.b));
        assert_eq!(recv(pair.b(), 100, 0).unwrap(), b"");
    }
}

fn looks_across() {
    let pair = Pair::keyed(TLS_1_3, 51);
    for _ in 0..3 {
        send(pair.a(), WORDS, 0).unwrap();
    }
    let all = WORDS.repeat(3);
    let waits = libc::MSG_PEEK | libc::MSG_WAITALL;
    for len in [24, 20, 8, 3] {
        assert_eq!(recv(pair.b(), len, waits).unwrap(), all[..len]);
    }
    // Behind what was read of the first one, too.
    assert_eq!(recv(pair.b(), 3, 0).unwrap(), all[..3]);
    assert_eq!(recv(pair.b(), 100, libc::MSG_PEEK).unwrap(), all[3..]);
    // It waits for what is to come.
    std::thread::scope(|scope| {
        let looks = scope.spawn(|| recv(pair.b(), 29, waits).unwrap());
        std::thread::sleep(std::time::Duration::from_millis(20));
        send(pair.a(), WORDS, 0).unwrap();
        assert_eq!(looks.join().unwrap(), WORDS.repeat(4)[3..]);
    });
    assert_eq!(
        recv(pair.b(), 29, libc::MSG_WAITALL).unwrap(),
        WORDS.repeat(4)[3..]
    );
}

fn looks_at_one_type() {
    let pair = Pair::keyed(TLS_1_2, 54);
    send(pair.a(), WORDS, 0).unwrap();
    send_record(pair.a(), ALERT, &[1, 0]).unwrap();
    send(pair.a(), WORDS, 0).unwrap();
    for _ in 0..2 {
        let (data, told, _) = recv_record(pair.b(), 100, libc::MSG_PEEK).unwrap();
        assert_eq!((&data[..], told), (WORDS, Some(DATA)));
    }
}

pub fn splice(from: i32, to: i32, len: usize) -> std::io::Result<usize> {
    let none = std::ptr::null_mut();
    // SAFETY: numbers only.
    let moved = unsafe { libc::splice(from, none, to, none, len, 0) };
    usize::try_from(moved).map_err(|_| std::io::Error::last_os_error())
}

fn not_spliced() {
    let pair = Pair::keyed(TLS_1_3, 51);
    let (from, to) = rustix::pipe::pipe().unwrap();
    send(pair.a(), WORDS, 0).unwrap();
    for _ in 0..3 {
        // As in a burst of key updates.
        send_record(pair.a(), HANDSHAKE, b"a message").unwrap();
    }
    send(pair.a(), WORDS, 0).unwrap();
    assert_eq!(splice(pair.b(), to.as_raw_fd(), 100).unwrap(), 8);
    for _ in 0..3 {
        for _ in 0..2 {
            assert_eq!(errno(splice(pair.b(), to.as_raw_fd(), 100)), libc::EINVAL);
        }
        let (data, told, _) = recv_record(pair.b(), 100, 0).unwrap();
        assert_eq!((&data[..], told), (&b"a message"[..], Some(HANDSHAKE)));
    }
    assert_eq!(splice(pair.b(), to.as_raw_fd(), 100).unwrap(), 8);
    let mut room = [0; 20];
    assert_eq!(rustix::io::read(&from, &mut room), Ok(16));
    assert_eq!(room[..16], WORDS.repeat(2));
}

/// As of a proxy's pool. Linux does not write to such a pipe with `RWF_NOWAIT`.
fn spliced_again() {
    let pair = Pair::keyed(TLS_1_3, 51);
    let (from, to) = rustix::pipe::pipe().unwrap();
    let (other_from, other_to) = rustix::pipe::pipe().unwrap();
    let mut room = [0; 20];
    rustix::io::write(&other_to, b"plain").unwrap();
    assert_eq!(
        splice(other_from.as_raw_fd(), to.as_raw_fd(), 5).unwrap(),
        5
    );
    assert_eq!(rustix::io::read(&from, &mut room), Ok(5));
    send(pair.a(), WORDS, 0).unwrap();
    assert_eq!(splice(pair.b(), to.as_raw_fd(), 100).unwrap(), 8);
    assert_eq!(rustix::io::read(&from, &mut room), Ok(8));
    assert_eq!(room[..8], *WORDS);
    // What does not fit stays in the socket.
    let full = rustix::pipe::fcntl_getpipe_size(&to).unwrap();
    rustix::io::write(&to, &vec![0; full]).unwrap();
    send(pair.a(), WORDS, 0).unwrap();
    let none = std::ptr::null_mut();
    let (b, pipe, flags) = (pair.b(), to.as_raw_fd(), libc::SPLICE_F_NONBLOCK);
    // SAFETY: numbers only.
    let moved = unsafe { libc::splice(b, none, pipe, none, 100, flags) };
    assert_eq!(
        (moved, std::io::Error::last_os_error().raw_os_error()),
        (-1, Some(libc::EAGAIN))
    );
    assert_eq!(recv(pair.b(), 100, 0).unwrap(), WORDS);
}

fn low_water() {
    let pair = Pair::keyed(TLS_1_3, 51);
    let low = 12_i32.to_ne_bytes();
    set(pair.b(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, &low).unwrap();
    let told = get(pair.b(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, 4).unwrap();
    assert_eq!(told, low);
    send(pair.a(), WORDS, 0).unwrap();
    std::thread::scope(|scope| {
        let reads = scope.spawn(|| recv(pair.b(), 100, 0).unwrap());
        std::thread::sleep(std::time::Duration::from_millis(20));
        send(pair.a(), WORDS, 0).unwrap();
        assert_eq!(reads.join().unwrap(), WORDS.repeat(2));
    });
}

fn low_water_before_keys() {
    let (other, pair) = (Pair::keyed(TLS_1_3, 51), Pair::plain());
    let low = 100_i32.to_ne_bytes();
    set(pair.b(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, &low).unwrap();
    pair.receives(&keys(TLS_1_3, 51, 1));
    let told = get(pair.b(), libc::SOL_SOCKET, libc::SO_RCVLOWAT, 4).unwrap();
    assert_eq!(told, low);
    // A long record, all but the end of it first.
    let content = [7; 200];
    send(other.a(), &content, 0).unwrap();
    let record = other.wire();
    let (front, end) = record.split_at(record.len() - 10);
    pair.put(front);
    assert!(!is_readable(&pair.b));
    pair.put(end);
    assert!(becomes_readable(&pair.b));
    assert_eq!(recv(pair.b(), 300, 0).unwrap(), content);
}

fn told_by_ioctl() {
    for (version, cipher) in [(TLS_1_2, 51), (TLS_1_2, 54), (TLS_1_3, 52)] {
        let pair = Pair::keyed(version, cipher);
        let told = || {
            let mut bytes = -1;
            // SAFETY: room for the answer.
            let asked = unsafe { libc::ioctl(pair.b(), libc::FIONREAD, &mut bytes) };
            assert_eq!(asked, 0);
            bytes
        };
        assert_eq!(told(), 0);
        send(pair.a(), WORDS, 0).unwrap();
        send(pair.a(), WORDS, 0).unwrap();
        assert!(becomes_readable(&pair.b));
        assert_eq!(told(), 16);
        recv(pair.b(), 3, 0).unwrap();
        assert_eq!(told(), 13);
        recv(pair.b(), 13, libc::MSG_WAITALL).unwrap();
        assert_eq!(told(), 0);
    }
}

fn error_queue() {
    let pair = Pair::keyed(TLS_1_3, 51);
    send(pair.a(), WORDS, 0).unwrap();
    assert!(becomes_readable(&pair.b));
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    assert_eq!(errno(recv(pair.b(), 100, flags)), libc::EAGAIN);
    assert_eq!(errno(recv_record(pair.b(), 100, flags)), libc::EAGAIN);
    let none = std::ptr::null_mut();
    assert_eq!(errno(receive_two(pair.b(), flags, none)), libc::EAGAIN);
    assert_eq!(recv(pair.b(), 100, 0).unwrap(), WORDS);
}

/// Lengths of the messages that `recvmmsg` gives, of two at most.
fn receive_two(fd: i32, flags: i32, time: *mut libc::timespec) -> std::io::Result<Vec<u32>> {
    let mut rooms = [[0_u8; 8]; 2];
    let mut pieces = rooms.each_mut().map(|room| libc::iovec {
        iov_base: room.as_mut_ptr().cast(),
        iov_len: room.len(),
    });
    let mut messages = pieces.each_mut().map(|piece| {
        // SAFETY: a message without name and control messages is all zeros.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        (header.msg_iov, header.msg_iovlen) = (piece, 1);
        libc::mmsghdr {
            msg_hdr: header,
            msg_len: 0,
        }
    });
    // SAFETY: messages whose parts live as long as the call, and a time, or none.
    let count = unsafe { libc::recvmmsg(fd, messages.as_mut_ptr(), 2, flags, time) };
    let count = checked(count as isize)?;
    let lens = messages[..count].iter().map(|message| message.msg_len);
    Ok(lens.collect())
}

fn several_messages() {
    let pair = Pair::keyed(TLS_1_3, 51);
    let none = std::ptr::null_mut();
    send(pair.a(), WORDS, 0).unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| receive_two(pair.b(), 0, std::ptr::null_mut()).unwrap());
        std::thread::sleep(std::time::Duration::from_millis(20));
        send(pair.a(), WORDS, 0).unwrap();
        assert_eq!(waits.join().unwrap(), [8, 8]);
    });
    send(pair.a(), WORDS, 0).unwrap();
    assert_eq!(
        receive_two(pair.b(), libc::MSG_WAITFORONE, none).unwrap(),
        [8]
    );
    send(pair.a(), WORDS, 0).unwrap();
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 1,
    };
    assert_eq!(receive_two(pair.b(), 0, &mut time).unwrap(), [8]);
    assert_eq!((time.tv_sec, time.tv_nsec), (0, 0));
    time.tv_nsec = -1;
    assert_eq!(errno(receive_two(pair.b(), 0, &mut time)), libc::EINVAL);
}

fn in_a_destructor() {
    static SOCKET: AtomicI32 = AtomicI32::new(-1);
    static RECEIVED: AtomicIsize = AtomicIsize::new(-1);
    extern "C" fn receive(_: *mut libc::c_void) {
        let mut room = [0_u8; 8];
        let (fd, at) = (SOCKET.load(SeqCst), room.as_mut_ptr().cast());
        // SAFETY: room of this length.
        RECEIVED.store(unsafe { libc::recv(fd, at, room.len(), 0) }, SeqCst);
    }
    let pair = Pair::keyed(TLS_1_3, 51);
    SOCKET.store(pair.b(), SeqCst);
    for _ in 0..2 {
        send(pair.a(), WORDS, 0).unwrap();
    }
    let mut key = 0;
    // SAFETY: room for the key, and a function that stays.
    let made = unsafe { libc::pthread_key_create(&mut key, Some(receive)) };
    assert_eq!(made, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: a key, and a value that is not looked at.
            unsafe { libc::pthread_setspecific(key, std::ptr::dangling()) };
            assert_eq!(recv(pair.b(), 8, 0).unwrap(), WORDS);
        });
    });
    // The scope ends before the thread's destructors do.
    let end = Instant::now() + Duration::from_secs(30);
    while RECEIVED.load(SeqCst) < 0 && Instant::now() < end {
        std::thread::yield_now();
    }
    assert_eq!(RECEIVED.load(SeqCst), 8);
    // SAFETY: a key that no thread has a value for.
    unsafe { libc::pthread_key_delete(key) };
}

fn no_room() {
    let pair = Pair::keyed(TLS_1_3, 51);
    let none = std::ptr::null_mut();
    send(pair.a(), WORDS, 0).unwrap();
    let piece = libc::iovec {
        iov_base: none,
        iov_len: 8,
    };
    // SAFETY: the kernel, and what stands in its place, answers EFAULT where there is no room.
    let answers = unsafe {
        [
            libc::recv(pair.b(), none, 8, 0),
            libc::readv(pair.b(), &piece, 1),
            libc::send(pair.a(), none, 8, 0),
            libc::writev(pair.a(), &piece, 1),
        ]
        .map(|answer| errno(checked(answer)))
    };
    assert_eq!(answers, [libc::EFAULT; 4]);
    // SAFETY: no room is needed.
    assert_eq!(unsafe { libc::recv(pair.b(), none, 0, 0) }, 0);
    assert_eq!(recv(pair.b(), 100, 0).unwrap(), WORDS);
}
