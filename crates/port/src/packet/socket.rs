//! The system calls of a packet socket.

use std::ffi::c_int;
use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

use super::{BATCH, RECEIVED, STRIDE, TAG_LEN};
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

/// Lets it send on an interface, with virtio-net's header before each frame, and receive what comes to it, whatever its destination, if it
/// `receives`.
pub(super) fn set_up(socket: &OwnedFd, index: u32, receives: bool) -> io::Result<()> {
    set(socket, libc::SOL_PACKET, PACKET_VNET_HDR, &(1 as c_int))?;
    for (force, usual) in [
        (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF),
        (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF),
    ] {
        set(socket, libc::SOL_SOCKET, force, &SOCKET_BUFFER)
            .or_else(|_| set(socket, libc::SOL_SOCKET, usual, &SOCKET_BUFFER))?;
    }
    if receives {
        receive_all(socket, index)?;
    }
    // SAFETY: a socket address is made of integers and may be all zeroes.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    if receives {
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    }
    address.sll_ifindex = index as c_int;
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the address is one of packet sockets, and of that length.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) })
}

/// What it receives: frames to any destination, but those that Linux sends, with the tags that it takes out of them.
fn receive_all(socket: &OwnedFd, index: u32) -> io::Result<()> {
    set(
        socket,
        libc::SOL_PACKET,
        PACKET_IGNORE_OUTGOING,
        &(1 as c_int),
    )?;
    set(
        socket,
        libc::SOL_PACKET,
        libc::PACKET_AUXDATA,
        &(1 as c_int),
    )?;
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
    )
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

/// A frame that has come.
#[derive(Clone, Copy, Default)]
pub(super) struct Arrived {
    /// Its bytes, with virtio-net's header.
    pub(super) len: usize,
    /// The tag that the kernel has taken out of it.
    pub(super) tag: Option<[u8; TAG_LEN]>,
}

/// Receives frames with their headers, one in each [`STRIDE`] of `bytes`, behind room for a tag. Gives their number, at least one.
pub(super) fn receive(
    socket: &OwnedFd,
    bytes: &mut [u8],
    arrived: &mut [Arrived; RECEIVED],
) -> Result<usize, Errno> {
    // SAFETY: both are made of integers and pointers, and may be all zeroes.
    let mut parts: [libc::iovec; RECEIVED] = unsafe { zeroed() };
    // SAFETY: as above.
    let mut messages: [libc::mmsghdr; RECEIVED] = unsafe { zeroed() };
    let mut controls = [[0u64; CONTROL]; RECEIVED];
    let rooms = bytes.chunks_exact_mut(STRIDE).zip(&mut controls);
    let mut count = 0;
    for ((room, control), (part, message)) in rooms.zip(parts.iter_mut().zip(&mut messages)) {
        let room = &mut room[TAG_LEN..];
        part.iov_base = room.as_mut_ptr().cast();
        part.iov_len = room.len();
        message.msg_hdr.msg_iov = part;
        message.msg_hdr.msg_iovlen = 1;
        message.msg_hdr.msg_control = control.as_mut_ptr().cast();
        message.msg_hdr.msg_controllen = size_of_val(control) as _;
        count += 1;
    }
    // SAFETY: the first `count` messages name one part each, of `bytes`, and a control buffer, all of which are borrowed exclusively.
    let received = unsafe {
        let (fd, flags) = (socket.as_raw_fd(), libc::MSG_DONTWAIT);
        let timeout = std::ptr::null_mut();
        libc::recvmmsg(fd, messages.as_mut_ptr(), count, flags, timeout)
    };
    let received = usize::try_from(received).map_err(|_| last_error())?;
    for (arrived, message) in arrived.iter_mut().zip(&messages[..received]) {
        *arrived = Arrived {
            len: message.msg_len as usize,
            tag: tag_of(&message.msg_hdr),
        };
    }
    Ok(received)
}

/// The tag that the kernel has taken out of a frame (packet(7): `PACKET_AUXDATA`), as it was there.
fn tag_of(message: &libc::msghdr) -> Option<[u8; TAG_LEN]> {
    const LEN: u32 = size_of::<libc::tpacket_auxdata>() as u32;
    // SAFETY: the kernel has written the length of what it has put into the control buffer, which is there and aligned.
    let header = unsafe { libc::CMSG_FIRSTHDR(message).as_ref() }?;
    // SAFETY: it computes a length.
    let whole = unsafe { libc::CMSG_LEN(LEN) } as usize;
    let kind = (header.cmsg_level, header.cmsg_type);
    if kind != (libc::SOL_PACKET, libc::PACKET_AUXDATA) || (header.cmsg_len as usize) < whole {
        return None;
    }
    // SAFETY: the header says that so many bytes of data are behind it, which are integers.
    let auxdata =
        unsafe { (libc::CMSG_DATA(header).cast::<libc::tpacket_auxdata>()).read_unaligned() };
    let says = |flag| auxdata.tp_status & flag != 0;
    let kind = match says(libc::TP_STATUS_VLAN_TPID_VALID) {
        true => auxdata.tp_vlan_tpid,
        false => libc::ETH_P_8021Q as u16,
    };
    let [[a, b], [c, d]] = [kind, auxdata.tp_vlan_tci].map(u16::to_be_bytes);
    says(libc::TP_STATUS_VLAN_VALID).then_some([a, b, c, d])
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

/// Words of a buffer for what comes with a frame: a header, and `tpacket_auxdata`.
const CONTROL: usize = 5;
/// Super-frames count with all of their memory: room for some hundred of them.
const SOCKET_BUFFER: c_int = 16 << 20;

// linux/if_packet.h
const PACKET_VNET_HDR: c_int = 15;
const PACKET_IGNORE_OUTGOING: c_int = 23;
