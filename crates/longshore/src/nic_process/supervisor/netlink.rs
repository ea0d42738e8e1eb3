//! Lists that the kernel gives over netlink: of addresses, and of TCP sockets.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send,
    socket_with,
};

/// Bytes of `struct nlmsghdr`.
const HEADER: usize = 16;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// `NLM_F_REQUEST`, and `NLM_F_DUMP`: all there are.
const LIST: u16 = 0x1 | 0x300;

const RTM_GETADDR: u16 = 22;
/// Bytes of `struct ifaddrmsg`, and where it has the interface.
const ADDRESS_HEADER: usize = 8;
const ADDRESS_INTERFACE: usize = 4;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// Bytes of `struct inet_diag_req_v2`.
const SOCKETS_REQUEST: usize = 56;
/// Where `struct inet_diag_msg` has what is asked for here.
const STATE: usize = 1;
const LOCAL: usize = 8;
const INTERFACE: usize = 40;
const INODE: usize = 68;
/// `TCP_*` states of `net/tcp_states.h` in which there is a peer that may still be told something.
const ESTABLISHED: u8 = 1;
const SYN_RECV: u8 = 3;
const FIN_WAIT_1: u8 = 4;
const FIN_WAIT_2: u8 = 5;
const CLOSE_WAIT: u8 = 8;
const LAST_ACK: u8 = 9;
const CLOSING: u8 = 11;
const CONNECTED: [u8; 7] = [
    ESTABLISHED,
    SYN_RECV,
    FIN_WAIT_1,
    FIN_WAIT_2,
    CLOSE_WAIT,
    LAST_ACK,
    CLOSING,
];

/// How many TCP connections of this network namespace go through an interface: they are bound to it, or have one of its addresses.
///
/// # Errors
/// What the kernel answers instead.
pub fn connections_through(interface: u32) -> Result<usize, Errno> {
    let mut addresses = Vec::new();
    list(
        libc::NETLINK_ROUTE,
        RTM_GETADDR,
        &[0; ADDRESS_HEADER],
        |message| {
            addresses.extend(address_of(message, interface));
        },
    )?;
    let mut count = 0;
    for family in [libc::AF_INET, libc::AF_INET6] {
        let states = CONNECTED
            .iter()
            .fold(0u32, |states, state| states | 1 << state);
        let mut request = vec![family as u8, libc::IPPROTO_TCP as u8, 0, 0];
        request.extend(states.to_ne_bytes());
        request.resize(SOCKETS_REQUEST, 0);
        list(
            libc::NETLINK_SOCK_DIAG,
            SOCK_DIAG_BY_FAMILY,
            &request,
            |message| {
                let bound = u32_at(message, INTERFACE) == Some(interface);
                let local = ip_at(message, LOCAL, family);
                let has_address = local.is_some_and(|local| addresses.contains(&local));
                count += usize::from(is_connection(message) && (bound || has_address));
            },
        )?;
    }
    Ok(count)
}

/// Whether somebody is still to be told something: not where both have all, and the program has closed it.
fn is_connection(message: &[u8]) -> bool {
    match message.get(STATE) {
        Some(&FIN_WAIT_2) => u32_at(message, INODE) != Some(0),
        Some(state) => CONNECTED.contains(state),
        None => false,
    }
}

/// The address that a message tells of, if it is this interface's.
fn address_of(message: &[u8], interface: u32) -> Option<IpAddr> {
    if u32_at(message, ADDRESS_INTERFACE) != Some(interface) {
        return None;
    }
    let family = i32::from(*message.first()?);
    let (mut local, mut at) = (None, ADDRESS_HEADER);
    while let (Some(len), Some(kind)) = (u16_at(message, at), u16_at(message, at + 2)) {
        match kind {
            IFA_LOCAL => local = ip_at(message, at + 4, family),
            IFA_ADDRESS if local.is_none() => local = ip_at(message, at + 4, family),
            _ => {}
        }
        at += usize::from(len).next_multiple_of(4).max(4);
    }
    local
}

/// Has the kernel list something; shows each message without its header.
fn list(protocol: i32, kind: u16, body: &[u8], mut show: impl FnMut(&[u8])) -> Result<(), Errno> {
    let socket = open(protocol)?;
    let mut request = Vec::with_capacity(HEADER + body.len());
    request.extend(((HEADER + body.len()) as u32).to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend(LIST.to_ne_bytes());
    request.extend([0; 8]);
    request.extend(body);
    send(&socket, &request, SendFlags::empty())?;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let (received, _) = recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        let mut rest = &buffer[..received];
        while let (Some(len), Some(kind)) = (u32_at(rest, 0), u16_at(rest, 4)) {
            let message = rest.get(HEADER..len as usize).ok_or(Errno::BADMSG)?;
            match kind {
                NLMSG_DONE => return Ok(()),
                NLMSG_ERROR => {
                    let code = u32_at(message, 0).ok_or(Errno::BADMSG)? as i32;
                    return Err(Errno::from_raw_os_error(code.wrapping_neg()));
                }
                _ => show(message),
            }
            rest = rest
                .get((len as usize).next_multiple_of(4)..)
                .unwrap_or(&[]);
        }
    }
}

fn open(protocol: i32) -> Result<OwnedFd, Errno> {
    let protocol = NonZeroU32::new(protocol as u32).map(Protocol::from_raw);
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, protocol)?;
    connect(&socket, &SocketAddrNetlink::new(0, 0))?;
    Ok(socket)
}

fn ip_at(bytes: &[u8], at: usize, family: i32) -> Option<IpAddr> {
    let bytes = bytes.get(at..)?;
    match family {
        libc::AF_INET => Some(Ipv4Addr::from(*bytes.first_chunk::<4>()?).into()),
        _ => Some(IpAddr::from(Ipv6Addr::from(*bytes.first_chunk::<16>()?)).to_canonical()),
    }
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}
