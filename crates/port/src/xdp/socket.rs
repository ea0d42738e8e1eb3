//! The system calls of an AF_XDP socket.

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::{MaybeUninit, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

use crate::interface::{Request, any_socket, check, ioctl};

pub(super) fn open() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: the call takes numbers only.
    let fd = unsafe { libc::socket(libc::AF_XDP, kind, 0) };
    check(fd)?;
    // SAFETY: a descriptor that was made just now and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Shares memory with the kernel, in frames of a size. It must stay mapped as long as the socket is open.
pub(super) fn register(socket: &OwnedFd, addr: u64, len: u64, frame: u32) -> io::Result<()> {
    // SAFETY: made of integers.
    let mut registration: libc::xdp_umem_reg = unsafe { zeroed() };
    registration.addr = addr;
    registration.len = len;
    registration.chunk_size = frame;
    set(socket, libc::XDP_UMEM_REG, &registration)
}

pub(super) fn set_ring(socket: &OwnedFd, ring: c_int, entries: u32) -> io::Result<()> {
    set(socket, ring, &entries)
}

pub(super) fn ring_offsets(socket: &OwnedFd) -> io::Result<libc::xdp_mmap_offsets> {
    get(socket, libc::XDP_MMAP_OFFSETS)
}

pub(super) fn statistics(socket: &OwnedFd) -> io::Result<libc::xdp_statistics> {
    get(socket, libc::XDP_STATISTICS)
}

/// Gives it a queue of an interface; the kernel copies frames where the driver does not share memory.
pub(super) fn bind(socket: &OwnedFd, interface: u32, queue: u32) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: libc::XDP_USE_NEED_WAKEUP,
        sxdp_ifindex: interface,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    let len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the address is one of AF_XDP, and of that length.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) })
}

/// Has the kernel look at the ring of frames to send.
pub(super) fn wake_sender(socket: &OwnedFd) -> Result<(), Errno> {
    let (fd, flags) = (socket.as_raw_fd(), libc::MSG_DONTWAIT);
    let nothing = std::ptr::null::<c_void>();
    // SAFETY: no bytes and no address are passed.
    result(unsafe { libc::sendto(fd, nothing, 0, flags, std::ptr::null(), 0) })
}

/// Has the kernel look at the ring of frames to fill.
pub(super) fn wake_receiver(socket: &OwnedFd) -> Result<(), Errno> {
    let (fd, flags) = (socket.as_raw_fd(), libc::MSG_DONTWAIT);
    let nothing = std::ptr::null_mut::<c_void>();
    let (address, len) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: no memory is passed that could be written.
    result(unsafe { libc::recvfrom(fd, nothing, 0, flags, address, len) })
}

/// Receive queues of an interface; one when it does not say.
pub(super) fn queues(name: &str) -> u32 {
    #[repr(C)]
    #[derive(Default)]
    struct Channels {
        command: u32,
        max: [u32; 4],
        rx: u32,
        tx: u32,
        other: u32,
        combined: u32,
    }
    let mut channels = Channels {
        command: ETHTOOL_GCHANNELS,
        ..Channels::default()
    };
    let Some(mut request) = Request::new(name) else {
        return 1;
    };
    request.0.ifr_ifru.ifru_data = (&raw mut channels).cast();
    let asked = any_socket().and_then(|socket| {
        // SAFETY: SIOCETHTOOL reads an `ifreq`, whose data is an `ethtool_channels`, which it fills.
        unsafe { ioctl(&socket, libc::SIOCETHTOOL as _, &raw mut request.0) }
    });
    match asked {
        Ok(()) => (channels.rx + channels.combined).max(1),
        Err(_) => 1,
    }
}

fn set<T>(socket: &OwnedFd, option: c_int, value: &T) -> io::Result<()> {
    let (fd, len) = (socket.as_raw_fd(), size_of::<T>() as libc::socklen_t);
    let value: *const T = value;
    // SAFETY: the value is valid for its own length, which is what the call reads.
    check(unsafe { libc::setsockopt(fd, libc::SOL_XDP, option, value.cast(), len) })
}

/// The value of an option that is made of integers.
fn get<T: Copy>(socket: &OwnedFd, option: c_int) -> io::Result<T> {
    let mut value = MaybeUninit::<T>::zeroed();
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the call writes at most `len` bytes, and the value has so many.
    check(unsafe {
        let (fd, to) = (socket.as_raw_fd(), value.as_mut_ptr().cast());
        libc::getsockopt(fd, libc::SOL_XDP, option, to, &raw mut len)
    })?;
    if len as usize != size_of::<T>() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // SAFETY: all of it was written by the kernel, and any bits are a value of integers.
    Ok(unsafe { value.assume_init() })
}

fn result(returned: isize) -> Result<(), Errno> {
    match returned {
        0.. => Ok(()),
        _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

// linux/ethtool.h
const ETHTOOL_GCHANNELS: u32 = 0x3c;
