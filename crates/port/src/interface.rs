//! What can be asked of any network interface by its name, and told it.

use std::ffi::{CStr, c_int, c_short, c_uint};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
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
    let flags = with_flags(name)?.flags();
    let has = |flag: c_int| flags & flag as c_short != 0;
    Ok(match (has(libc::IFF_UP), has(libc::IFF_RUNNING)) {
        (false, _) => LinkState::Down,
        (true, false) => LinkState::NoCarrier,
        (true, true) => LinkState::Up,
    })
}

/// Sets the interface up, unless it is. That it is takes no privilege to see.
pub(crate) fn set_up(name: &str) -> io::Result<()> {
    let mut request = with_flags(name)?;
    let up = libc::IFF_UP as c_short;
    if request.flags() & up != 0 {
        return Ok(());
    }
    request.set_flags(request.flags() | up);
    // SAFETY: SIOCSIFFLAGS reads an `ifreq`.
    unsafe { ioctl(&any_socket()?, libc::SIOCSIFFLAGS as _, &raw mut request.0) }
}

/// A request that holds the interface's flags.
fn with_flags(name: &str) -> io::Result<Request> {
    let mut request = Request::new(name).ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: SIOCGIFFLAGS reads and writes an `ifreq`, which `request` is.
    unsafe { ioctl(&any_socket()?, libc::SIOCGIFFLAGS as _, &raw mut request.0) }?;
    Ok(request)
}

/// The interface's IP addresses.
pub(crate) fn addresses(name: &str) -> io::Result<Vec<IpAddr>> {
    let mut first = std::ptr::null_mut();
    // SAFETY: writes the head of a list to `first`, which is freed below.
    check(unsafe { libc::getifaddrs(&raw mut first) })?;
    let mut found = Vec::new();
    let mut next = first;
    // SAFETY: the list's entries are valid until it is freed; the last one's `ifa_next` is null.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        // SAFETY: the name is a string with a zero at its end.
        let its = unsafe { CStr::from_ptr(entry.ifa_name) };
        if its.to_bytes() == name.as_bytes() {
            // SAFETY: null, or an address of its family.
            found.extend(unsafe { ip(entry.ifa_addr) });
        }
    }
    // SAFETY: the list is of `getifaddrs`, and nothing refers to it any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// # Safety
/// `address` must be null or point to a socket address of the family that it names.
unsafe fn ip(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: the caller's promise, which holds for each of the families too.
    unsafe {
        match i32::from((*address).sa_family) {
            libc::AF_INET => {
                let address = &*address.cast::<libc::sockaddr_in>();
                Some(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into())
            }
            libc::AF_INET6 => {
                let address = &*address.cast::<libc::sockaddr_in6>();
                Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
            }
            _ => None,
        }
    }
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
