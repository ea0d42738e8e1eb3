//! What is asked of the Linux that the NIC runs on.
#![allow(unsafe_code)]

mod address;
mod diag;
mod netlink;
mod options;
mod route;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use attachment::{Errno, Examine, SocketFacts};
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};
use wire::FlowKey;

use crate::sockets::{SocketAt, Sockets};

/// How often a socket is looked at to which bytes come meanwhile.
const MOST_LOOKS: usize = 100;

/// Sockets behind one interface, looked up by their addresses. Needs no privileges.
#[derive(Debug)]
pub struct KernelSockets {
    interface: u32,
    diag: netlink::Netlink,
}

impl KernelSockets {
    /// Those behind `interface`, which is in this process's network namespace.
    ///
    /// # Errors
    /// `ENODEV` for an interface that there is not; what the system gives.
    pub fn new(interface: &str) -> Result<KernelSockets, Errno> {
        Ok(KernelSockets {
            interface: netdevice::name_to_index(&plain_socket()?, interface)?,
            diag: netlink::Netlink::new(libc::NETLINK_SOCK_DIAG)?,
        })
    }

    /// The interface's index.
    pub fn interface(&self) -> u32 {
        self.interface
    }
}

impl Sockets for KernelSockets {
    fn look_up(&mut self, flow: &FlowKey) -> Result<Option<SocketAt>, Errno> {
        diag::look_up(&mut self.diag, flow, self.interface)
    }

    fn bound(&mut self) -> Result<Vec<(FlowKey, u64)>, Errno> {
        diag::bound(&mut self.diag, self.interface)
    }
}

/// How many TCP connections of this network namespace go through an interface: they are bound to it, or have one of its addresses.
///
/// # Errors
/// What the system gives.
pub fn connections_through(interface: u32) -> Result<usize, Errno> {
    let mut route = netlink::Netlink::new(libc::NETLINK_ROUTE)?;
    let addresses = address::addresses(&mut route, interface)?;
    let mut diag = netlink::Netlink::new(libc::NETLINK_SOCK_DIAG)?;
    diag::count_through(&mut diag, interface, &addresses)
}

/// Looks at sockets that tenants show, of the network namespace that this process is in. Needs no privileges.
#[derive(Debug)]
pub struct SocketExaminer {
    interfaces: Vec<u32>,
    namespace: u64,
    route: netlink::Netlink,
}

impl SocketExaminer {
    /// For sockets whose peers are behind one of these interfaces, which are there.
    ///
    /// # Errors
    /// `ENODEV` for an interface that there is not; `ENOPROTOOPT` for a kernel that can't tell a socket's namespace (before Linux 5.14); what the
    /// system gives.
    pub fn new(interfaces: impl IntoIterator<Item = String>) -> Result<SocketExaminer, Errno> {
        let own = plain_socket()?;
        let index = |name: String| netdevice::name_to_index(&own, &name);
        Ok(SocketExaminer {
            interfaces: interfaces
                .into_iter()
                .map(index)
                .collect::<Result<_, _>>()?,
            namespace: options::namespace(own.as_fd())?,
            route: netlink::Netlink::new(libc::NETLINK_ROUTE)?,
        })
    }

    /// Another one for the same interfaces, for another thread: it opens no socket but netlink's.
    ///
    /// # Errors
    /// What the system gives.
    pub fn another(&self) -> Result<SocketExaminer, Errno> {
        Ok(SocketExaminer {
            interfaces: self.interfaces.clone(),
            namespace: self.namespace,
            route: netlink::Netlink::new(libc::NETLINK_ROUTE)?,
        })
    }

    /// Whether it is a socket that can be the NIC's: its flow, and the interface.
    fn check(&mut self, socket: BorrowedFd<'_>) -> Result<(FlowKey, u32), Errno> {
        if options::protocol(socket)? != libc::IPPROTO_TCP {
            return Err(Errno::INVAL);
        }
        if options::namespace(socket)? != self.namespace {
            return Err(Errno::PERM);
        }
        let address = |address: rustix::net::SocketAddrAny| {
            SocketAddr::try_from(address).map_err(|_| Errno::AFNOSUPPORT)
        };
        let local = unmapped(address(rustix::net::getsockname(socket)?)?);
        let remote = unmapped(address(
            rustix::net::getpeername(socket)?.ok_or(Errno::NOTCONN)?,
        )?);
        let interface = route::interface_to(&mut self.route, remote.ip(), local.ip())?;
        if !self.interfaces.contains(&interface) {
            return Err(Errno::NODEV);
        }
        Ok((FlowKey::new(local, remote), interface))
    }
}

impl Examine for SocketExaminer {
    fn examine(&mut self, socket: BorrowedFd<'_>, tenant: u32) -> Result<SocketFacts, Errno> {
        let (flow, interface) = self.check(socket)?;
        options::bind_to(socket, interface)?;
        // What comes meanwhile moves all of them: they belong together when the first has not changed.
        for _ in 0..MOST_LOOKS {
            let progress = options::progress(socket)?;
            let unacknowledged = options::unacknowledged(socket)?;
            let unread = options::unread(socket)?;
            // The window changes without them, by what is read.
            let window = progress.window;
            let now = options::progress(socket)?;
            if (options::Progress { window, ..now }) != progress {
                continue;
            }
            let timestamp = progress
                .with_timestamps
                .then(|| options::timestamp(socket))
                .transpose()?;
            return Ok(SocketFacts {
                tenant,
                interface,
                flow,
                cookie: options::cookie(socket)?,
                acknowledged: progress.acknowledged,
                unacknowledged,
                received: progress.received,
                unread,
                window: progress.window,
                reordered: progress.has_reordered,
                peer_has_ended: progress.peer_has_ended,
                timestamp,
            });
        }
        Err(Errno::BUSY)
    }
}

fn plain_socket() -> Result<OwnedFd, Errno> {
    let (family, kind) = (AddressFamily::INET, SocketType::STREAM);
    socket_with(family, kind, SocketFlags::CLOEXEC, None)
}

/// Packets of a socket of IPv6 with an IPv4 address are IPv4's.
fn unmapped(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// A raw descriptor's number, for the calls that rustix has not.
fn raw(socket: BorrowedFd<'_>) -> i32 {
    use std::os::fd::AsRawFd;
    socket.as_raw_fd()
}

/// What the last call has failed with.
fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
