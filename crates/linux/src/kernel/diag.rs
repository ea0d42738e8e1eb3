//! Whether a socket is still there (`sock_diag(7)`).

use std::net::IpAddr;

use attachment::Errno;
use wire::FlowKey;

use super::netlink::Netlink;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// States of a socket without data to send again: TIME-WAIT, CLOSE.
const WITHOUT_DATA: [u8; 2] = [6, 7];
/// Where `struct inet_diag_msg` has the state.
const STATE: usize = 1;

/// Whether the socket of this cookie, which is bound to `interface`, is there, in a state in which it may send data.
pub(super) fn has_data(
    netlink: &mut Netlink,
    flow: &FlowKey,
    interface: u32,
    cookie: u64,
) -> Result<bool, Errno> {
    let family = match flow.src.0 {
        IpAddr::V4(_) => libc::AF_INET,
        IpAddr::V6(_) => libc::AF_INET6,
    };
    // struct inet_diag_req_v2: family, protocol, extensions, padding, states, then the socket's id.
    let mut body = vec![family as u8, libc::IPPROTO_TCP as u8, 0, 0];
    body.extend(u32::MAX.to_ne_bytes());
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
    body.extend((cookie as u32).to_ne_bytes());
    body.extend(((cookie >> 32) as u32).to_ne_bytes());
    match netlink.ask(SOCK_DIAG_BY_FAMILY, &body) {
        Ok(answer) => {
            let state = answer.get(STATE).ok_or(Errno::BADMSG)?;
            Ok(!WITHOUT_DATA.contains(state))
        }
        Err(Errno::NOENT | Errno::STALE) => Ok(false),
        Err(error) => Err(error),
    }
}
