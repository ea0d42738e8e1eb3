//! What can be asked of any network interface by its name, and told it.

use std::ffi::{c_int, c_short, c_uint};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// The interface's number.
pub(crate) fn index(name: &str) -> io::Result<u32> {
    index_by(&any_socket()?, name)
}

/// The interface's number, asked by an open socket: a process that has dropped its privileges may not be able to make one.
pub(crate) fn index_by(socket: &OwnedFd, name: &str) -> io::Result<u32> {
    let mut request = Request::new(name).ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: SIOCGIFINDEX reads and writes an `ifreq`, which `request` is.
    unsafe { ioctl(socket, libc::SIOCGIFINDEX as _, &raw mut request.0) }?;
    // SAFETY: the call has filled this member of the union.
    let index = unsafe { request.0.ifr_ifru.ifru_ifindex };
    u32::try_from(index).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// The interface's MTU.
pub(crate) fn mtu(name: &str) -> io::Result<u16> {
    let mut request = Request::new(name).ok_or(io::ErrorKind::InvalidInput)?;
    let socket = any_socket()?;
    // SAFETY: SIOCGIFMTU reads and writes an `ifreq`, which `request` is.
    unsafe { ioctl(&socket, libc::SIOCGIFMTU as _, &raw mut request.0) }?;
    // SAFETY: the call has filled this member of the union.
    let mtu = unsafe { request.0.ifr_ifru.ifru_mtu };
    Ok(u16::try_from(mtu).unwrap_or(u16::MAX))
}

/// Whether frames can pass an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// It is administratively down.
    Down,
    /// It is up and has no carrier: the cable, or the other end, is missing.
    NoCarrier,
    /// It is up and has a carrier.
    Up,
}

/// The state of an interface, by its name.
///
/// # Errors
/// What the system gives, `ENODEV` if there is no such interface.
pub fn link_state(name: &str) -> io::Result<LinkState> {
    let mut request = Request::new(name).ok_or(io::ErrorKind::InvalidInput)?;
    let socket = any_socket()?;
    // SAFETY: SIOCGIFFLAGS reads and writes an `ifreq`, which `request` is.
    unsafe { ioctl(&socket, libc::SIOCGIFFLAGS as _, &raw mut request.0) }?;
    let has = |flag: c_int| request.flags() & flag as c_short != 0;
    Ok(match (has(libc::IFF_UP), has(libc::IFF_RUNNING)) {
        (false, _) => LinkState::Down,
        (true, false) => LinkState::NoCarrier,
        (true, true) => LinkState::Up,
    })
}

/// Sets the interface up.
pub(crate) fn set_up(name: &str) -> io::Result<()> {
    let mut request = Request::new(name).ok_or(io::ErrorKind::InvalidInput)?;
    let socket = any_socket()?;
    // SAFETY: SIOCGIFFLAGS reads and writes an `ifreq`, which `request` is.
    unsafe { ioctl(&socket, libc::SIOCGIFFLAGS as _, &raw mut request.0) }?;
    request.set_flags(request.flags() | libc::IFF_UP as c_short);
    // SAFETY: SIOCSIFFLAGS reads an `ifreq`.
    unsafe { ioctl(&socket, libc::SIOCSIFFLAGS as _, &raw mut request.0) }
}

/// A socket to ask for an interface's properties.
pub(crate) fn any_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        flags,
        None,
    )?)
}

/// An `ifreq` that names an interface.
pub(crate) struct Request(pub(crate) libc::ifreq);

impl Request {
    /// One that names none yet.
    pub(crate) fn blank() -> Request {
        // SAFETY: an `ifreq` is made of integers and may be all zeroes.
        Request(unsafe { std::mem::zeroed() })
    }

    /// `None` if no interface can have the name.
    pub(crate) fn new(name: &str) -> Option<Request> {
        let Request(mut request) = Request::blank();
        let is_bad = |byte: u8| byte == b'/' || byte == 0 || byte.is_ascii_whitespace();
        if name.is_empty() || name.len() >= request.ifr_name.len() || name.bytes().any(is_bad) {
            return None;
        }
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as _;
        }
        Some(Request(request))
    }

    pub(crate) fn name(&self) -> String {
        let bytes = self
            .0
            .ifr_name
            .iter()
            .map(|&byte| byte as u8)
            .take_while(|&byte| byte != 0);
        String::from_utf8_lossy(&bytes.collect::<Vec<_>>()).into_owned()
    }

    pub(crate) fn flags(&self) -> c_short {
        // SAFETY: the members of the union are integers and arrays of them; all bits were initialised.
        unsafe { self.0.ifr_ifru.ifru_flags }
    }

    pub(crate) fn set_flags(&mut self, flags: c_short) {
        self.0.ifr_ifru.ifru_flags = flags;
    }
}

/// # Safety
/// `argument` must point to what `request` reads and writes.
pub(crate) unsafe fn ioctl<T>(fd: &impl AsFd, request: c_uint, argument: *mut T) -> io::Result<()> {
    // SAFETY: the caller's promise; the descriptor is open as it is borrowed.
    check(unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), request as _, argument) })
}

pub(crate) fn check(result: c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
