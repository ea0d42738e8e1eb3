//! The system calls that open and set up a TAP device.

use std::ffi::{c_int, c_short, c_uint};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::interface::{Request, check, ioctl};

/// Why a TAP device cannot be opened, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The kernel has no TUN/TAP driver, or the container has no device file for it.
    #[error(
        "there is no /dev/net/tun: load the driver (`sudo modprobe tun`), or give the container the device \
         (`--device /dev/net/tun`)"
    )]
    NoDriver,
    /// The process must not open or make the device.
    #[error(
        "no permission to open TAP device {name}: run with sudo, or make it for your user: sudo longshore up {name} CIDR"
    )]
    NotPermitted {
        /// The device.
        name: String,
    },
    /// Another program has the device open.
    #[error(
        "TAP device {name} is in use: stop the program that has it open, or choose another name"
    )]
    InUse {
        /// The device.
        name: String,
    },
    /// An interface of that name exists and is no TAP device, or one with several queues.
    #[error(
        "{name} exists but is not a TAP device with one queue: choose another name, or make it by \
         `sudo ip tuntap add dev {name} mode tap`"
    )]
    NotATap {
        /// The interface.
        name: String,
    },
    /// An interface of that name exists and is no TAP device, or one with one queue.
    #[error(
        "{name} exists but is not a TAP device with several queues: choose another name, or make it by \
         `sudo ip tuntap add dev {name} mode tap multi_queue`"
    )]
    NoQueues {
        /// The interface.
        name: String,
    },
    /// The kernel gives it no more queues.
    #[error("TAP device {name} has as many queues as a device can have: use fewer")]
    TooManyQueues {
        /// The device.
        name: String,
    },
    /// The kernel has no such names.
    #[error(
        "{name:?} cannot be an interface's name: use 1 to 15 characters without '/' and spaces"
    )]
    BadName {
        /// The name that was given.
        name: String,
    },
    /// Anything else.
    #[error("cannot {action} TAP device {name}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The device.
        name: String,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

/// Queues of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queues {
    One,
    /// As often as it is opened.
    Several,
}

/// Opens or makes the TAP device `name`, or another queue of it; gives it with its name.
pub(super) fn open(name: &str, queues: Queues) -> Result<(OwnedFd, String), OpenError> {
    let mut request = Request::new(name).ok_or_else(|| OpenError::BadName { name: name.into() })?;
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::open(DRIVER, flags, Mode::empty()).map_err(|error| match error {
        Errno::NOENT | Errno::NODEV | Errno::NXIO => OpenError::NoDriver,
        Errno::ACCESS | Errno::PERM => OpenError::NotPermitted { name: name.into() },
        other => io_error("open /dev/net/tun for", name, other.into()),
    })?;
    let queue = match queues {
        Queues::One => 0,
        Queues::Several => libc::IFF_MULTI_QUEUE,
    };
    request.set_flags((libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR | queue) as c_short);
    // SAFETY: TUNSETIFF reads and writes an `ifreq`, which `request` is.
    unsafe { ioctl(&fd, TUNSETIFF, &raw mut request.0) }.map_err(|error| {
        let name = name.into();
        match error.raw_os_error() {
            Some(libc::EPERM) => OpenError::NotPermitted { name },
            Some(libc::EBUSY) => OpenError::InUse { name },
            Some(libc::EINVAL) if queues == Queues::One => OpenError::NotATap { name },
            Some(libc::EINVAL) => OpenError::NoQueues { name },
            Some(libc::E2BIG) => OpenError::TooManyQueues { name },
            _ => io_error("open", &name, error),
        }
    })?;
    Ok((fd, request.name()))
}

/// The name of the device that a queue is of, which has to be one with the header of virtio-net.
pub(super) fn name(queue: &OwnedFd) -> Result<String, OpenError> {
    let mut request = Request::blank();
    // SAFETY: TUNGETIFF writes an `ifreq`, which `request` is.
    unsafe { ioctl(queue, TUNGETIFF, &raw mut request.0) }
        .map_err(|error| io_error("take over a queue of", "", error))?;
    Ok(request.name())
}

/// Sets the length of the virtio-net header.
pub(super) fn set_header_len(fd: &OwnedFd, len: usize, name: &str) -> Result<(), OpenError> {
    let mut len = len as c_int;
    // SAFETY: TUNSETVNETHDRSZ reads an `int`.
    unsafe { ioctl(fd, TUNSETVNETHDRSZ, &raw mut len) }
        .map_err(|error| io_error("set the header length of", name, error))
}

/// Says what frames we take: it decides what Linux sends as it is, and what it finishes before.
pub(super) fn set_offload(
    fd: &OwnedFd,
    checksum: bool,
    tso: bool,
    name: &str,
) -> Result<(), OpenError> {
    let checksum = if checksum { TUN_F_CSUM } else { 0 };
    let tso = if tso {
        TUN_F_TSO4 | TUN_F_TSO6 | TUN_F_TSO_ECN
    } else {
        0
    };
    // SAFETY: TUNSETOFFLOAD takes its argument by value and touches no memory of ours.
    let result = unsafe {
        libc::ioctl(
            fd.as_raw_fd(),
            TUNSETOFFLOAD as _,
            (checksum | tso) as libc::c_ulong,
        )
    };
    check(result).map_err(|error| io_error("set the offloads of", name, error))
}

/// Keeps the device when it is closed, or not.
pub(super) fn set_persistent(fd: &OwnedFd, persistent: bool) -> io::Result<()> {
    // SAFETY: TUNSETPERSIST takes its argument by value and touches no memory of ours.
    let result = unsafe {
        libc::ioctl(
            fd.as_raw_fd(),
            TUNSETPERSIST as _,
            libc::c_ulong::from(persistent),
        )
    };
    check(result)
}

/// Lets a user open the device without privileges.
pub(super) fn set_owner(fd: &OwnedFd, uid: u32) -> io::Result<()> {
    // SAFETY: TUNSETOWNER takes its argument by value and touches no memory of ours.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), TUNSETOWNER as _, libc::c_ulong::from(uid)) };
    check(result)
}

/// The Ethernet address of the kernel's side.
pub(super) fn address(fd: &OwnedFd) -> io::Result<[u8; 6]> {
    let mut request = Request::blank();
    // SAFETY: SIOCGIFHWADDR on the device itself writes an `ifreq`.
    unsafe { ioctl(fd, libc::SIOCGIFHWADDR as _, &raw mut request.0) }?;
    // SAFETY: the call has filled this member of the union.
    let bytes = unsafe { request.0.ifr_ifru.ifru_hwaddr.sa_data };
    Ok(std::array::from_fn(|at| bytes[at] as u8))
}

/// Sets the Ethernet address of the kernel's side.
pub(super) fn set_address(fd: &OwnedFd, address: [u8; 6]) -> io::Result<()> {
    let mut request = Request::blank();
    let mut data = [0; 14];
    for (to, from) in data.iter_mut().zip(address) {
        *to = from as _;
    }
    request.0.ifr_ifru.ifru_hwaddr = libc::sockaddr {
        sa_family: libc::ARPHRD_ETHER,
        sa_data: data,
    };
    // SAFETY: SIOCSIFHWADDR on the device itself reads an `ifreq`.
    unsafe { ioctl(fd, libc::SIOCSIFHWADDR as _, &raw mut request.0) }
}

pub(super) fn io_error(action: &'static str, name: &str, source: io::Error) -> OpenError {
    OpenError::Io {
        action,
        name: name.into(),
        source,
    }
}

const DRIVER: &str = "/dev/net/tun";

// linux/if_tun.h
const TUNSETIFF: c_uint = 0x4004_54ca;
const TUNSETPERSIST: c_uint = 0x4004_54cb;
const TUNSETOWNER: c_uint = 0x4004_54cc;
const TUNGETIFF: c_uint = 0x8004_54d2;
const TUNSETOFFLOAD: c_uint = 0x4004_54d0;
const TUNSETVNETHDRSZ: c_uint = 0x4004_54d8;
const TUN_F_CSUM: c_uint = 0x01;
const TUN_F_TSO4: c_uint = 0x02;
const TUN_F_TSO6: c_uint = 0x04;
const TUN_F_TSO_ECN: c_uint = 0x08;
