//! The system calls of a packet socket.

use std::ffi::c_int;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

use super::{BATCH, RECEIVED, STRIDE};
use crate::interface::check;

/// A packet socket that receives nothing yet.
pub(super) fn open() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: the call takes numbers only.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    check(fd)?;
    // SAFETY: a descriptor that was made just now and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Lets it receive what comes to an interface, whatever its destination, with virtio-net's header before each frame.
pub(super) fn set_up(socket: &OwnedFd, index: u32) -> io::Result<()> {
    set(socket, libc::SOL_PACKET, PACKET_VNET_HDR, &(1 as c_int))?;
    set(
        socket,
        libc::SOL_PACKET,
        PACKET_IGNORE_OUTGOING,
        &(1 as c_int),
    )?;
    refuse_tagged(socket)?;
    for (force, usual) in [
        (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
        (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
    ] {
        set(socket, libc::SOL_SOCKET, force, &SOCKET_BUFFER)
            .or_else(|_| set(socket, libc::SOL_SOCKET, usual, &SOCKET_BUFFER))?;
    }
    let membership = libc::packet_mreq {
        mr_ifindex: index as c_int,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set(
        socket,
        libc::SOL_PACKET,
        libc::PACKET_ADD_MEMBERSHIP,
        &membership,
    )?;
    // SAFETY: a socket address is made of integers and may be all zeroes.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index as c_int;
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the address is one of packet sockets, and of that length.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) })
}

/// Refuses frames with a VLAN tag, which the kernel would give without it: they are not for stations without a tag.
fn refuse_tagged(socket: &OwnedFd) -> io::Result<()> {
    let instruction = |code: u32, jf: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf,
        k,
    };
    const VLAN_TAG_PRESENT: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_VLAN_TAG_PRESENT) as u32;
    let mut program = [
        instruction(
            libc::BPF_LD | libc::BPF_B | libc::BPF_ABS,
            0,
            VLAN_TAG_PRESENT,
        ),
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, 0),
        instruction(libc::BPF_RET | libc::BPF_K, 0, u32::MAX),
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0),
    ];
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
}

/// Sends frames, each with its header, that are at these places (start, length). Gives how many were taken, at least one.
pub(super) fn send(
    socket: &OwnedFd,
    bytes: &[u8],
    places: &[(usize, usize)],
) -> Result<usize, Errno> {
    let count = places.len().min(BATCH);
    // SAFETY: both are made of integers and pointers, and may be all zeroes.
    let mut parts: [libc::iovec; BATCH] = unsafe { zeroed() };
    // SAFETY: as above.
    let mut messages: [libc::mmsghdr; BATCH] = unsafe { zeroed() };
    for ((start, len), (part, message)) in places.iter().zip(parts.iter_mut().zip(&mut messages)) {
        let frame = &bytes[*start..*start + *len];
        part.iov_base = frame.as_ptr().cast_mut().cast();
        part.iov_len = frame.len();
        message.msg_hdr.msg_iov = part;
        message.msg_hdr.msg_iovlen = 1;
    }
    // SAFETY: the first `count` messages name one part each, and these bytes of `bytes`, which are read only.
    let sent = unsafe {
        let (fd, flags) = (socket.as_raw_fd(), libc::MSG_DONTWAIT);
        libc::sendmmsg(fd, messages.as_mut_ptr(), count as u32, flags)
    };
    usize::try_from(sent).map_err(|_| last_error())
}

/// Receives frames with their headers, one in each [`STRIDE`] of `bytes`, and writes down their lengths. Gives their number, at
/// least one.
pub(super) fn receive(
    socket: &OwnedFd,
    bytes: &mut [u8],
    lens: &mut [usize; RECEIVED],
) -> Result<usize, Errno> {
    // SAFETY: both are made of integers and pointers, and may be all zeroes.
    let mut parts: [libc::iovec; RECEIVED] = unsafe { zeroed() };
    // SAFETY: as above.
    let mut messages: [libc::mmsghdr; RECEIVED] = unsafe { zeroed() };
    let rooms = bytes.chunks_exact_mut(STRIDE);
    let mut count = 0;
    for (room, (part, message)) in rooms.zip(parts.iter_mut().zip(&mut messages)) {
        part.iov_base = room.as_mut_ptr().cast();
        part.iov_len = room.len();
        message.msg_hdr.msg_iov = part;
        message.msg_hdr.msg_iovlen = 1;
        count += 1;
    }
    // SAFETY: the first `count` messages name one part each, of `bytes`, which is borrowed exclusively.
    let received = unsafe {
        let (fd, flags) = (socket.as_raw_fd(), libc::MSG_DONTWAIT);
        let timeout = std::ptr::null_mut();
        libc::recvmmsg(fd, messages.as_mut_ptr(), count, flags, timeout)
    };
    let received = usize::try_from(received).map_err(|_| last_error())?;
    for (len, message) in lens.iter_mut().zip(&messages[..received]) {
        *len = message.msg_len as usize;
    }
    Ok(received)
}

fn set<T>(socket: &OwnedFd, level: c_int, option: c_int, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    let value: *const T = value;
    // SAFETY: the value is valid for its own length, which is what the call reads.
    check(unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value.cast(), len) })
}

fn last_error() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Super-frames count with all of their memory: room for some hundred of them.
const SOCKET_BUFFER: c_int = 16 << 20;

// linux/if_packet.h
const PACKET_VNET_HDR: c_int = 15;
const PACKET_IGNORE_OUTGOING: c_int = 23;
