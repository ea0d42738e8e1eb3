//! Ways to write to a descriptor, and to read from it, that are seldom taken: each goes through the library, or nothing is sent.

use std::ffi::{c_char, c_int, c_long, c_void};
use std::os::fd::{AsRawFd, RawFd};

use crate::sockets::*;

cases! {
    "seldom taken ways to write are encrypted": writes,
    "seldom taken ways to read are decrypted": reads,
    "text that the C library formats is encrypted": text,
    "text for other descriptors is as it was": text_elsewhere,
    "asynchronous writes and reads are refused, and nothing is sent": asynchronous,
    "a TLS socket gets no stream": no_stream,
    "a socket with a stream becomes no TLS socket": no_tls,
    "a TLS socket is not copied to where a stream writes": no_copy,
    "a TLS socket is not connected anew": no_connection,
    "nothing is sent out of a TLS socket without being decrypted": no_records_as_content,
}

unsafe extern "C" {
    fn pwritev64v2(
        fd: c_int,
        pieces: *const libc::iovec,
        count: c_int,
        offset: i64,
        flags: c_int,
    ) -> isize;
    fn preadv64v2(
        fd: c_int,
        pieces: *const libc::iovec,
        count: c_int,
        offset: i64,
        flags: c_int,
    ) -> isize;
    fn __write(fd: c_int, data: *const c_void, len: usize) -> isize;
    fn __read(fd: c_int, room: *mut c_void, len: usize) -> isize;
    fn __send(fd: c_int, data: *const c_void, len: usize, flags: c_int) -> isize;
    fn dprintf(fd: c_int, format: *const c_char, ...) -> c_int;
    fn __dprintf_chk(fd: c_int, flag: c_int, format: *const c_char, ...) -> c_int;
    fn eventfd_write(fd: c_int, value: u64) -> c_int;
    fn lio_listio64(
        mode: c_int,
        list: *const *mut libc::aiocb,
        count: c_int,
        event: *mut c_void,
    ) -> c_int;
    fn aio_write64(request: *mut libc::aiocb) -> c_int;
    fn aio_read64(request: *mut libc::aiocb) -> c_int;
}

const SECRET: &[u8] = b"a secret of some length\0";

fn piece(bytes: &[u8]) -> libc::iovec {
    libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    }
}

fn header(piece: &mut libc::iovec) -> libc::msghdr {
    // SAFETY: a message without name and control messages is all zeros.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    (header.msg_iov, header.msg_iovlen) = (piece, 1);
    header
}

fn writes() {
    type Write = unsafe fn(RawFd) -> isize;
    let (data, len) = (SECRET.as_ptr().cast::<c_void>(), SECRET.len());
    let ways: [Write; 9] = [
        // SAFETY: data of this length.
        |fd| unsafe { pwritev64v2(fd, &piece(SECRET), 1, -1, 0) },
        // SAFETY: data of this length.
        |fd| unsafe { __write(fd, SECRET.as_ptr().cast(), SECRET.len()) },
        // SAFETY: data of this length.
        |fd| unsafe { __send(fd, SECRET.as_ptr().cast(), SECRET.len(), 0) },
        // SAFETY: data of this length.
        |fd| unsafe { libc::syscall(libc::SYS_write, fd, SECRET.as_ptr(), SECRET.len()) as isize },
        // SAFETY: data of this length.
        |fd| unsafe {
            libc::syscall(libc::SYS_sendto, fd, SECRET.as_ptr(), SECRET.len(), 0, 0, 0) as isize
        },
        // SAFETY: data of this length.
        |fd| unsafe { libc::syscall(libc::SYS_writev, fd, &piece(SECRET), 1) as isize },
        // SAFETY: data of this length.
        |fd| unsafe {
            libc::syscall(libc::SYS_pwritev2, fd, &piece(SECRET), 1, -1_i64, -1_i64, 0) as isize
        },
        // SAFETY: data of this length.
        |fd| unsafe {
            libc::syscall(libc::SYS_sendmsg, fd, &header(&mut piece(SECRET)), 0) as isize
        },
        // SAFETY: data of this length.
        |fd| unsafe {
            let mut piece = piece(SECRET);
            let mut message = libc::mmsghdr {
                msg_hdr: header(&mut piece),
                msg_len: 0,
            };
            libc::syscall(libc::SYS_sendmmsg, fd, &mut message, 1, 0) as isize
                * message.msg_len as isize
        },
    ];
    for (which, way) in ways.into_iter().enumerate() {
        let pair = Pair::keyed(TLS_1_3, 51);
        // SAFETY: data of this length.
        assert_eq!(unsafe { way(pair.a()) }, len as isize, "way {which}");
        assert_eq!(recv(pair.b(), 100, 0).unwrap(), SECRET, "way {which}");
    }
    // SAFETY: a file of this length.
    unsafe {
        let file = libc::memfd_create(c"file".as_ptr(), libc::MFD_CLOEXEC);
        assert_eq!(libc::write(file, data, len), len as isize);
        let pair = Pair::keyed(TLS_1_3, 51);
        let mut offset = 0_i64;
        let sent = libc::syscall(libc::SYS_sendfile, pair.a(), file, &mut offset, len);
        assert_eq!(sent, len as c_long);
        assert_eq!(recv(pair.b(), 100, 0).unwrap(), SECRET);
        libc::close(file);
    }
}

fn reads() {
    type Read = unsafe fn(RawFd, &mut [u8]) -> isize;
    let ways: [Read; 6] = [
        // SAFETY: room of this length.
        |fd, room| unsafe { preadv64v2(fd, &piece(room), 1, -1, 0) },
        // SAFETY: room of this length.
        |fd, room| unsafe { __read(fd, room.as_mut_ptr().cast(), room.len()) },
        // SAFETY: room of this length.
        |fd, room| unsafe {
            libc::syscall(libc::SYS_read, fd, room.as_mut_ptr(), room.len()) as isize
        },
        // SAFETY: room of this length.
        |fd, room| unsafe {
            libc::syscall(
                libc::SYS_recvfrom,
                fd,
                room.as_mut_ptr(),
                room.len(),
                0,
                0_usize,
                0_usize,
            ) as isize
        },
        // SAFETY: room of this length.
        |fd, room| unsafe { libc::syscall(libc::SYS_readv, fd, &piece(room), 1) as isize },
        // SAFETY: room of this length.
        |fd, room| unsafe {
            libc::syscall(libc::SYS_recvmsg, fd, &mut header(&mut piece(room)), 0) as isize
        },
    ];
    for (which, way) in ways.into_iter().enumerate() {
        let pair = Pair::keyed(TLS_1_3, 51);
        send(pair.a(), SECRET, 0).unwrap();
        let mut room = [0; 100];
        // SAFETY: room of this length.
        let read = unsafe { way(pair.b(), &mut room) };
        assert_eq!(read, SECRET.len() as isize, "way {which}");
        assert_eq!(&room[..SECRET.len()], SECRET, "way {which}");
    }
}

/// What the arguments below give: more than the registers take, of both kinds.
const TEXT: &[u8] = b"1 2 3 4 5 6 7 8 0.5 1.5 2.5 3.5 4.5 5.5 6.5 7.5 8.5 9.5 end\n";

macro_rules! print {
    ($function:ident($($first:expr),+)) => {
        $function(
            $($first),+, c"%d %d %ld %d %d %d %d %d %.1f %.1f %.1f %.1f %.1f %.1f %.1f %.1f %.1f %.1f %s\n".as_ptr(),
            1, 2, 3_i64, 4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, c"end".as_ptr())
    };
}

fn text() {
    let pair = Pair::keyed(TLS_1_3, 51);
    // SAFETY: arguments as the format has them.
    let printed = unsafe {
        [
            print!(dprintf(pair.a())),
            print!(__dprintf_chk(pair.a(), 1)),
        ]
    };
    assert_eq!(printed, [TEXT.len() as c_int; 2]);
    for _ in 0..2 {
        assert_eq!(recv(pair.b(), TEXT.len(), libc::MSG_WAITALL).unwrap(), TEXT);
    }
}

fn text_elsewhere() {
    let (from, to) = rustix::pipe::pipe().unwrap();
    let to = to.as_raw_fd();
    // SAFETY: arguments as the format has them.
    let printed = unsafe { [print!(dprintf(to)), print!(__dprintf_chk(to, 1))] };
    assert_eq!(printed, [TEXT.len() as c_int; 2]);
    let mut read = [0; 1000];
    let len = rustix::io::read(&from, &mut read).unwrap();
    assert_eq!(&read[..len], TEXT.repeat(2));
}

/// `io_submit`'s `struct iocb`.
#[repr(C)]
struct Submitted {
    data: u64,
    key: u64,
    opcode: u16,
    priority: i16,
    descriptor: u32,
    buffer: u64,
    length: u64,
    rest: [u64; 3],
}

fn asynchronous() {
    let pair = Pair::keyed(TLS_1_3, 51);
    // SAFETY: requests whose data live longer than they do; all zeros are one.
    unsafe {
        let mut request: libc::aiocb = std::mem::zeroed();
        request.aio_fildes = pair.a();
        request.aio_buf = SECRET.as_ptr().cast_mut().cast();
        request.aio_nbytes = SECRET.len();
        request.aio_lio_opcode = libc::LIO_WRITE;
        let refused = |done: c_int| assert_eq!((done, errno_now()), (-1, libc::EOPNOTSUPP));
        refused(libc::aio_write(&mut request));
        refused(aio_write64(&mut request));
        refused(libc::aio_read(&mut request));
        refused(aio_read64(&mut request));
        let list = [std::ptr::null_mut(), &raw mut request];
        refused(libc::lio_listio(
            libc::LIO_WAIT,
            list.as_ptr(),
            2,
            std::ptr::null_mut(),
        ));
        refused(lio_listio64(
            libc::LIO_WAIT,
            list.as_ptr(),
            2,
            std::ptr::null_mut(),
        ));
        assert_eq!(
            (eventfd_write(pair.a(), 7), errno_now()),
            (-1, libc::EINVAL)
        );
        let submitted = Submitted {
            data: 0,
            key: 0,
            opcode: 1,
            priority: 0,
            descriptor: pair.a() as u32,
            buffer: SECRET.as_ptr() as u64,
            length: SECRET.len() as u64,
            rest: [0; 3],
        };
        let mut context = 0_usize;
        if libc::syscall(libc::SYS_io_setup, 4, &mut context) == 0 {
            let list = [&raw const submitted];
            refused(libc::syscall(libc::SYS_io_submit, context, 1, list.as_ptr()) as c_int);
            libc::syscall(libc::SYS_io_destroy, context);
        }
    }
    nothing_was_sent(&pair);
}

fn errno_now() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap()
}

/// What is sent next is all that comes, and it authenticates.
fn nothing_was_sent(pair: &Pair) {
    send(pair.a(), b"next", 0).unwrap();
    let wire = {
        let mut bytes = [0; 1000];
        let flags = rustix::net::RecvFlags::PEEK;
        let (len, _) = rustix::net::recv(&pair.b, &mut bytes[..], flags).unwrap();
        bytes[..len].to_vec()
    };
    assert_eq!(records(&wire).len(), 1);
    assert_eq!(recv(pair.b(), 100, 0).unwrap(), b"next");
}

fn no_stream() {
    let pair = Pair::keyed(TLS_1_3, 51);
    // SAFETY: a C string.
    let stream = unsafe { libc::fdopen(pair.a(), c"r+".as_ptr()) };
    assert_eq!((stream.is_null(), errno_now()), (true, libc::EOPNOTSUPP));
    nothing_was_sent(&pair);
}

fn no_tls() {
    let pair = Pair::plain();
    // SAFETY: the stream has a copy of the descriptor, which is closed with it.
    unsafe {
        let copy = libc::dup(pair.a());
        let stream = libc::fdopen(copy, c"r+".as_ptr());
        assert_eq!(errno(ulp(copy)), libc::EOPNOTSUPP);
        assert_eq!(libc::fclose(stream), 0);
        // The number has no stream any more.
        assert_eq!(libc::dup2(pair.a(), copy), copy);
        ulp(copy).unwrap();
        libc::close(copy);
    }
}

fn no_copy() {
    let pair = Pair::keyed(TLS_1_3, 51);
    // SAFETY: numbers only; a stream's descriptor is closed with it.
    unsafe {
        for standard in 0..=2 {
            assert_eq!(
                (libc::dup2(pair.a(), standard), errno_now()),
                (-1, libc::EOPNOTSUPP)
            );
        }
        let file = libc::memfd_create(c"file".as_ptr(), libc::MFD_CLOEXEC);
        let stream = libc::fdopen(file, c"r+".as_ptr());
        assert_eq!(
            (libc::dup2(pair.a(), file), errno_now()),
            (-1, libc::EOPNOTSUPP)
        );
        libc::fputs(SECRET.as_ptr().cast(), stream);
        assert_eq!(libc::fclose(stream), 0);
    }
    nothing_was_sent(&pair);
}

fn no_connection() {
    let pair = Pair::keyed(TLS_1_3, 51);
    // SAFETY: an address without one, with its length.
    let refused = unsafe {
        let mut nowhere: libc::sockaddr = std::mem::zeroed();
        nowhere.sa_family = libc::AF_UNSPEC as u16;
        libc::connect(pair.a(), &nowhere, size_of_val(&nowhere) as u32)
    };
    assert_eq!((refused, errno_now()), (-1, libc::EOPNOTSUPP));
    nothing_was_sent(&pair);
}

fn no_records_as_content() {
    let (from, to) = (Pair::keyed(TLS_1_3, 51), Pair::keyed(TLS_1_3, 52));
    send(from.a(), SECRET, 0).unwrap();
    // SAFETY: numbers only.
    let sent = unsafe { libc::sendfile(to.a(), from.b(), std::ptr::null_mut(), 100) };
    assert_eq!((sent, errno_now()), (-1, libc::EINVAL));
    nothing_was_sent(&to);
    assert_eq!(recv(from.b(), 100, 0).unwrap(), SECRET);
}
