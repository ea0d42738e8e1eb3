//! By which interface an address is reached (`RTM_GETROUTE`).

use std::net::IpAddr;

use attachment::Errno;

use super::netlink::{Netlink, attributes, u32_at};

const RTM_GETROUTE: u16 = 26;
/// Bytes of `struct rtmsg`.
const ROUTE_HEADER: usize = 12;
const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_OIF: u16 = 4;

/// Index of the interface by which packets from `local` to `remote` go.
pub(super) fn interface_to(
    netlink: &mut Netlink,
    remote: IpAddr,
    local: IpAddr,
) -> Result<u32, Errno> {
    let (family, bits) = match remote {
        IpAddr::V4(_) => (libc::AF_INET, 32),
        IpAddr::V6(_) => (libc::AF_INET6, 128),
    };
    let mut body = vec![family as u8, bits, bits];
    body.resize(ROUTE_HEADER, 0);
    for (kind, address) in [(RTA_DST, remote), (RTA_SRC, local)] {
        let octets = match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        body.extend((4 + octets.len() as u16).to_ne_bytes());
        body.extend(kind.to_ne_bytes());
        body.extend(octets);
    }
    let answer = netlink
        .ask(RTM_GETROUTE, &body)
        .map_err(|error| match error {
            Errno::NETUNREACH | Errno::HOSTUNREACH => Errno::NODEV,
            other => other,
        })?;
    let interface = attributes(answer, ROUTE_HEADER).find(|(kind, _)| *kind == RTA_OIF);
    let index = interface.and_then(|(_, value)| u32_at(value, 0));
    index.ok_or(Errno::NODEV)
}
