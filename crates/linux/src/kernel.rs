//! What the driver asks of the Linux that it runs on.
#![allow(unsafe_code)]

mod diag;
mod netlink;
mod options;
mod route;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use attachment::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use wire::{FlowKey, SeqNum};

use crate::sockets::{SocketFacts, Sockets};

use options::{Queue, Repair};

/// How often a socket is looked at that bytes come to by another way than this one, and so at any time.
const MOST_LOOKS: usize = 100;

/// Sockets of the network namespace that this process is in, behind one interface.
#[derive(Debug)]
pub struct KernelSockets {
    interface: String,
    index: u32,
    namespace: u64,
    route: netlink::Netlink,
    diag: netlink::Netlink,
}

impl KernelSockets {
    /// Those whose peers are behind `interface`, which is in this process's network namespace.
    ///
    /// # Errors
    /// `ENODEV` for an interface that there is not; `ENOPROTOOPT` for a kernel that can't tell a socket's namespace (before Linux 5.14).
    pub fn new(interface: &str) -> Result<KernelSockets, Errno> {
        let own = socket_with(
            AddressFamily::INET,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok(KernelSockets {
            interface: interface.to_owned(),
            index: rustix::net::netdevice::name_to_index(&own, interface)?,
            namespace: options::namespace(own.as_fd())?,
            route: netlink::Netlink::new(libc::NETLINK_ROUTE)?,
            diag: netlink::Netlink::new(libc::NETLINK_SOCK_DIAG)?,
        })
    }

    /// The positions of a socket, in repair mode for them. While it lasts, what others receive from the socket or send to it fails, or goes to the
    /// wrong queue.
    fn examine_in_repair(socket: BorrowedFd<'_>) -> Result<Positions, Errno> {
        let repair = Repair::begin(socket)?;
        // What comes meanwhile moves both: they belong together when the first has not changed.
        let mut received = (0..MOST_LOOKS).map(|_| {
            repair.select(Queue::Receive)?;
            let next = options::position(socket)?;
            let unread = options::unread(socket)?;
            let is_still = options::position(socket)? == next;
            Ok(is_still.then_some((next, unread)))
        });
        let (next, unread) = received
            .find_map(Result::transpose)
            .unwrap_or(Err(Errno::BUSY))?;
        drop(repair);
        Ok(Positions {
            write: options::position(socket)?,
            read: next.wrapping_sub(unread),
            next,
        })
    }

    /// The positions of a socket that was in repair mode before; `read` is known.
    fn examine_as_it_is(socket: BorrowedFd<'_>, read: SeqNum) -> Result<Positions, Errno> {
        Ok(Positions {
            write: options::position(socket)?,
            read: read.0,
            next: read.0.wrapping_add(options::unread(socket)?),
        })
    }

    /// Whether it is a socket that can be the NIC's; its flow.
    fn check(&mut self, socket: BorrowedFd<'_>) -> Result<FlowKey, Errno> {
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
        if route::interface_to(&mut self.route, remote.ip(), local.ip())? != self.index {
            return Err(Errno::NODEV);
        }
        options::bind_to(socket, &self.interface)?;
        Ok(FlowKey::new(local, remote))
    }
}

/// Where a socket's next bytes are.
struct Positions {
    write: u32,
    read: u32,
    next: u32,
}

/// All that is asked of a socket.
fn facts(
    socket: BorrowedFd<'_>,
    flow: FlowKey,
    positions: &Positions,
) -> Result<SocketFacts, Errno> {
    let unsent = options::unacknowledged(socket)?;
    Ok(SocketFacts {
        flow,
        cookie: options::cookie(socket)?,
        write: SeqNum(positions.write),
        unacknowledged: SeqNum(positions.write.wrapping_sub(unsent)),
        read: SeqNum(positions.read),
        receive_next: SeqNum(positions.next),
        reordered: options::has_reordered(socket)?,
        // Asked behind the positions: a FIN that comes before they are read has moved them by one.
        peer_has_ended: options::peer_has_ended(socket)?.ok_or(Errno::NOTCONN)?,
    })
}

impl Sockets for KernelSockets {
    fn examine(&mut self, socket: BorrowedFd<'_>) -> Result<SocketFacts, Errno> {
        let flow = self.check(socket)?;
        facts(socket, flow, &KernelSockets::examine_in_repair(socket)?)
    }

    fn examine_again(
        &mut self,
        socket: BorrowedFd<'_>,
        read: Option<SeqNum>,
    ) -> Result<SocketFacts, Errno> {
        let (flow, read) = (self.check(socket)?, read.unwrap_or(SeqNum(0)));
        // Another NIC may have died in the middle of its first look: this one ends what that began.
        let positions = match options::is_in_repair(socket)? {
            true => KernelSockets::examine_in_repair(socket)?,
            false => KernelSockets::examine_as_it_is(socket, read)?,
        };
        facts(socket, flow, &positions)
    }

    fn is_gone(&mut self, flow: &FlowKey, cookie: u64) -> bool {
        // What can't be asked may be there.
        diag::has_data(&mut self.diag, flow, self.index, cookie).is_ok_and(|has| !has)
    }
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
