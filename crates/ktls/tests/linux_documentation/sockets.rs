//! Sockets by the C library's functions, and beside them: what is really on the wire is read by system calls.

use std::io::{Error, Result};
use std::mem::{size_of, zeroed};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, RawFd};

pub const SOL_TLS: i32 = 282;
pub const TLS_TX: i32 = 1;
pub const TLS_RX: i32 = 2;
pub const DATA: u8 = 23;
pub const ALERT: u8 = 21;
pub const HANDSHAKE: u8 = 22;
pub const TLS_1_2: u16 = 0x0303;
pub const TLS_1_3: u16 = 0x0304;

/// Both ends of a connection.
pub struct Pair {
    pub a: TcpStream,
    pub b: TcpStream,
}

impl Pair {
    /// An established connection.
    pub fn plain() -> Pair {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let a = TcpStream::connect(listener.local_addr().unwrap()).expect("loopback");
        let (b, _) = listener.accept().expect("loopback");
        a.set_nodelay(true).unwrap();
        Pair { a, b }
    }

    /// `a` sends what `b` receives.
    pub fn keyed(version: u16, cipher: u16) -> Pair {
        let pair = Pair::plain();
        pair.sends(&keys(version, cipher, 1));
        pair.receives(&keys(version, cipher, 1));
        pair
    }

    pub fn sends(&self, keys: &[u8]) {
        ulp(self.a.as_raw_fd()).expect("TCP_ULP");
        set(self.a.as_raw_fd(), SOL_TLS, TLS_TX, keys).expect("TLS_TX");
    }

    pub fn receives(&self, keys: &[u8]) {
        ulp(self.b.as_raw_fd()).expect("TCP_ULP");
        set(self.b.as_raw_fd(), SOL_TLS, TLS_RX, keys).expect("TLS_RX");
    }

    pub fn a(&self) -> RawFd {
        self.a.as_raw_fd()
    }

    pub fn b(&self) -> RawFd {
        self.b.as_raw_fd()
    }

    /// The bytes on the wire towards `b`, as many as there are: by a system call.
    pub fn wire(&self) -> Vec<u8> {
        let mut bytes = vec![0; 1 << 20];
        let flags = rustix::net::RecvFlags::empty();
        let (len, _) = rustix::net::recv(&self.b, &mut bytes[..], flags).expect("bytes");
        bytes.truncate(len);
        bytes
    }

    /// Puts bytes on the wire towards `b`: by a system call.
    pub fn put(&self, bytes: &[u8]) {
        let flags = rustix::net::SendFlags::empty();
        assert_eq!(rustix::net::send(&self.a, bytes, flags), Ok(bytes.len()));
    }
}

/// Keys from record 0 on.
pub fn keys(version: u16, cipher: u16, key: u8) -> Vec<u8> {
    crate::keys::keys(version, cipher, key, 0)
}

pub fn checked(result: isize) -> Result<usize> {
    usize::try_from(result).map_err(|_| Error::last_os_error())
}

pub fn ulp(fd: RawFd) -> Result<()> {
    set(fd, libc::SOL_TCP, libc::TCP_ULP, b"tls\0")
}

pub fn set(fd: RawFd, level: i32, option: i32, value: &[u8]) -> Result<()> {
    // SAFETY: the value has this length.
    let done =
        unsafe { libc::setsockopt(fd, level, option, value.as_ptr().cast(), value.len() as u32) };
    checked(done as isize).map(drop)
}

pub fn get(fd: RawFd, level: i32, option: i32, room: usize) -> Result<Vec<u8>> {
    let (mut value, mut len) = (vec![0; room], room as u32);
    // SAFETY: there is room for this length.
    let done = unsafe { libc::getsockopt(fd, level, option, value.as_mut_ptr().cast(), &mut len) };
    value.truncate(len as usize);
    checked(done as isize).map(|_| value)
}

pub fn send(fd: RawFd, data: &[u8], flags: i32) -> Result<usize> {
    // SAFETY: the data have this length.
    checked(unsafe { libc::send(fd, data.as_ptr().cast(), data.len(), flags) })
}

pub fn recv(fd: RawFd, room: usize, flags: i32) -> Result<Vec<u8>> {
    let mut bytes = vec![0; room];
    // SAFETY: there is room for this length.
    let len = checked(unsafe { libc::recv(fd, bytes.as_mut_ptr().cast(), room, flags) })?;
    bytes.truncate(len);
    Ok(bytes)
}

/// Sends with a control message of this type, level and content.
pub fn send_control(
    fd: RawFd,
    data: &[u8],
    (kind, value): (i32, &[u8]),
    flags: i32,
) -> Result<usize> {
    let mut control = [0_u64; 8];
    let mut piece = libc::iovec {
        iov_base: data.as_ptr().cast_mut().cast(),
        iov_len: data.len(),
    };
    // SAFETY: a message whose parts live as long as the call, laid out by the macros of cmsg(3).
    unsafe {
        let mut message: libc::msghdr = zeroed();
        message.msg_iov = &mut piece;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(value.len() as u32) as usize;
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = SOL_TLS;
        (*header).cmsg_type = kind;
        (*header).cmsg_len = libc::CMSG_LEN(value.len() as u32) as usize;
        std::ptr::copy_nonoverlapping(value.as_ptr(), libc::CMSG_DATA(header), value.len());
        checked(libc::sendmsg(fd, &message, flags))
    }
}

/// Sends a record of a type.
pub fn send_record(fd: RawFd, record_type: u8, data: &[u8]) -> Result<usize> {
    send_control(fd, data, (1, &[record_type]), 0)
}

/// Receives with room for a control message: data, the record type told, and the message's flags.
pub fn recv_record(fd: RawFd, room: usize, flags: i32) -> Result<(Vec<u8>, Option<u8>, i32)> {
    let mut bytes = vec![0; room];
    let mut control = [0_u64; 8];
    let mut piece = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: room,
    };
    // SAFETY: as above.
    unsafe {
        let mut message: libc::msghdr = zeroed();
        message.msg_iov = &mut piece;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of::<[u64; 8]>();
        let len = checked(libc::recvmsg(fd, &mut message, flags))?;
        bytes.truncate(len);
        let header = libc::CMSG_FIRSTHDR(&message);
        let told =
            (!header.is_null() && (*header).cmsg_level == SOL_TLS && (*header).cmsg_type == 2)
                .then(|| *libc::CMSG_DATA(header));
        Ok((bytes, told, message.msg_flags))
    }
}

/// The `errno` of an error.
pub fn errno<T: std::fmt::Debug>(result: Result<T>) -> i32 {
    result
        .expect_err("an error")
        .raw_os_error()
        .expect("of the system")
}

/// Whether `poll` says that there is something to read, at once.
pub fn is_readable(socket: impl AsFd) -> bool {
    is_readable_within(socket, 30)
}

/// Whether it says so, however busy the machine is.
pub fn becomes_readable(socket: impl AsFd) -> bool {
    is_readable_within(socket, 30_000)
}

fn is_readable_within(socket: impl AsFd, milliseconds: i32) -> bool {
    let fd = socket.as_fd().as_raw_fd();
    let mut polled = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one entry, borrowed for the call.
    unsafe { libc::poll(&mut polled, 1, milliseconds) == 1 }
}

/// Lengths of the records on the wire, header included, and their outer types.
pub fn records(mut wire: &[u8]) -> Vec<(u8, usize)> {
    let mut all = Vec::new();
    while wire.len() >= 5 {
        assert_eq!(wire[1..3], [3, 3]);
        let len = 5 + usize::from(u16::from_be_bytes([wire[3], wire[4]]));
        all.push((wire[0], len));
        wire = &wire[len..];
    }
    all
}

/// Whether bytes are anywhere in others.
pub fn holds(wire: &[u8], bytes: &[u8]) -> bool {
    wire.windows(bytes.len()).any(|window| window == bytes)
}
