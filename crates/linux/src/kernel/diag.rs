//! Which sockets there are, between two addresses or behind an interface (`sock_diag(7)`). No socket is locked for that.

use std::net::IpAddr;

use attachment::Errno;
use wire::FlowKey;

use super::netlink::{Netlink, ip, u32_at};
use crate::sockets::{SocketAt, SocketPhase};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// `INET_DIAG_NOCOOKIE`, twice.
const ANY_COOKIE: u64 = u64::MAX;
/// States of `net/tcp_states.h`.
const ESTABLISHED: u8 = 1;
const SYN_SENT: u8 = 2;
const SYN_RECV: u8 = 3;
const FIN_WAIT_1: u8 = 4;
const FIN_WAIT_2: u8 = 5;
const TIME_WAIT: u8 = 6;
const CLOSE: u8 = 7;
const CLOSE_WAIT: u8 = 8;
const LAST_ACK: u8 = 9;
const LISTEN: u8 = 10;
const CLOSING: u8 = 11;
const NEW_SYN_RECV: u8 = 12;
/// There is a peer to which something may still be sent.
const CONNECTED: u32 = 1 << ESTABLISHED
    | 1 << SYN_RECV
    | 1 << FIN_WAIT_1
    | 1 << FIN_WAIT_2
    | 1 << CLOSE_WAIT
    | 1 << LAST_ACK
    | 1 << CLOSING;
/// Where `struct inet_diag_msg` has the state, the ports, the addresses, the interface, the cookie and the inode.
const STATE: usize = 1;
const PORTS: usize = 4;
const ADDRESSES: usize = 8;
const INTERFACE: usize = 40;
const COOKIE: usize = 44;
const INODE: usize = 68;

/// The connection's socket between these addresses, which may be bound to `interface`.
pub(super) fn look_up(
    netlink: &mut Netlink,
    flow: &FlowKey,
    interface: u32,
) -> Result<Option<SocketAt>, Errno> {
    let mut body = request(family(flow.src.0), u32::MAX);
    body.extend(flow.src.1.to_be_bytes());
    body.extend(flow.dst.1.to_be_bytes());
    for address in [flow.src.0, flow.dst.0] {
        let mut octets = [0; 16];
        match address {
            IpAddr::V4(address) => octets[..4].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => octets = address.octets(),
        }
        body.extend(octets);
    }
    // Without it a socket that is bound is not found.
    body.extend(interface.to_ne_bytes());
    body.extend(ANY_COOKIE.to_ne_bytes());
    match netlink.ask(SOCK_DIAG_BY_FAMILY, &body) {
        Ok(answer) => {
            let state = *answer.get(STATE).ok_or(Errno::BADMSG)?;
            let cookie = cookie(answer).ok_or(Errno::BADMSG)?;
            Ok(phase(state).map(|phase| SocketAt { cookie, phase }))
        }
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// All connections of sockets that are bound to `interface`.
pub(super) fn bound(netlink: &mut Netlink, interface: u32) -> Result<Vec<(FlowKey, u64)>, Errno> {
    let mut found = Vec::new();
    let opened = !(1 << LISTEN | 1 << CLOSE | 1 << TIME_WAIT);
    list(netlink, opened, |message, family| {
        if u32_at(message, INTERFACE) == Some(interface)
            && let (Some(flow), Some(cookie)) = (flow(message, family), cookie(message))
        {
            found.push((flow, cookie));
        }
    })?;
    Ok(found)
}

/// How many connections are bound to `interface`, or have one of these addresses.
pub(super) fn count_through(
    netlink: &mut Netlink,
    interface: u32,
    addresses: &[IpAddr],
) -> Result<usize, Errno> {
    let mut count = 0;
    list(netlink, CONNECTED, |message, family| {
        // Closed by its program too, with all that it had to tell.
        let is_over = message.get(STATE) == Some(&FIN_WAIT_2) && u32_at(message, INODE) == Some(0);
        let is_bound = u32_at(message, INTERFACE) == Some(interface);
        let local = message
            .get(ADDRESSES..)
            .and_then(|octets| ip(octets, family));
        let has_address = local.is_some_and(|local| addresses.contains(&local));
        count += usize::from(!is_over && (is_bound || has_address));
    })?;
    Ok(count)
}

/// Gives the `struct inet_diag_msg` of each socket in one of these states to `take`, with the family.
fn list(netlink: &mut Netlink, states: u32, mut take: impl FnMut(&[u8], i32)) -> Result<(), Errno> {
    for family in [libc::AF_INET, libc::AF_INET6] {
        let mut body = request(family, states);
        // Any addresses, ports, interface and cookie.
        body.extend([0; 48]);
        netlink.dump(SOCK_DIAG_BY_FAMILY, &body, |message| take(message, family))?;
    }
    Ok(())
}

/// `struct inet_diag_req_v2` up to the socket's id: family, protocol, extensions, padding, states.
fn request(family: i32, states: u32) -> Vec<u8> {
    let mut body = vec![family as u8, libc::IPPROTO_TCP as u8, 0, 0];
    body.extend(states.to_ne_bytes());
    body
}

fn family(address: IpAddr) -> i32 {
    match address {
        IpAddr::V4(_) => libc::AF_INET,
        IpAddr::V6(_) => libc::AF_INET6,
    }
}

/// How far a socket's connection is; `None` for one without a connection.
fn phase(state: u8) -> Option<SocketPhase> {
    match state {
        LISTEN => None,
        SYN_SENT | SYN_RECV | NEW_SYN_RECV => Some(SocketPhase::Opening),
        TIME_WAIT | CLOSE => Some(SocketPhase::Over),
        _ => Some(SocketPhase::Synchronized),
    }
}

fn cookie(message: &[u8]) -> Option<u64> {
    let low = u32_at(message, COOKIE)?;
    let high = u32_at(message, COOKIE + 4)?;
    Some(u64::from(high) << 32 | u64::from(low))
}

fn flow(message: &[u8], family: i32) -> Option<FlowKey> {
    let address = |at: usize| ip(message.get(at..)?, family);
    let port = |at: usize| Some(u16::from_be_bytes(*message.get(at..)?.first_chunk()?));
    Some(FlowKey {
        src: (address(ADDRESSES)?, port(PORTS)?),
        dst: (address(ADDRESSES + 16)?, port(PORTS + 2)?),
    })
}
