//! What Linux says of sockets.

use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use attachment::{Errno, Examine, SocketFacts};
use wire::FlowKey;

/// Linux, which says of any socket what was written to it.
pub struct Linux;

impl Examine for Linux {
    fn examine(&mut self, socket: BorrowedFd<'_>, tenant: u32) -> Result<SocketFacts, Errno> {
        let address = (Ipv4Addr::LOCALHOST.into(), 1);
        Ok(SocketFacts {
            tenant,
            interface: 1,
            flow: FlowKey {
                src: address,
                dst: address,
            },
            cookie: cookie(socket),
            acknowledged: offset(socket),
            unacknowledged: 0,
            received: 0,
            unread: 0,
            window: 0,
            reordered: false,
            peer_has_ended: false,
            timestamp: None,
        })
    }
}

pub fn cookie(socket: impl AsFd) -> u64 {
    rustix::net::sockopt::socket_cookie(socket).expect("a socket")
}

/// How many bytes were written to a socket (`tcp_info`: sent, without retransmissions, and not sent yet).
pub fn offset(socket: impl AsFd) -> u64 {
    let info = info(socket);
    let long = |at: usize| u64::from_ne_bytes(info[at..at + 8].try_into().unwrap());
    let short = |at: usize| u32::from_ne_bytes(info[at..at + 4].try_into().unwrap());
    long(200) - long(208) + u64::from(short(144))
}

/// Bytes that the peer has not acknowledged.
pub fn unacknowledged(socket: impl AsFd) -> i32 {
    let mut bytes = 0;
    // SAFETY: the request writes an `int`.
    let asked = unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    assert_eq!(asked, 0);
    bytes
}

/// Whether TCP is done with the connection (`TCP_CLOSE`).
pub fn is_over(socket: impl AsFd) -> bool {
    info(socket)[0] == 7
}

/// `struct tcp_info`.
fn info(socket: impl AsFd) -> [u8; 256] {
    let mut info = [0_u8; 256];
    let mut len = info.len() as libc::socklen_t;
    // SAFETY: room for the answer, with its length.
    let asked = unsafe {
        let fd = socket.as_fd().as_raw_fd();
        libc::getsockopt(
            fd,
            libc::SOL_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    assert_eq!(asked, 0);
    info
}
