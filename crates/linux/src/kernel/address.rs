//! Which addresses an interface has (`RTM_GETADDR`).

use std::net::IpAddr;

use attachment::Errno;

use super::netlink::{Netlink, attributes, ip, u32_at};

const RTM_GETADDR: u16 = 22;
/// Bytes of `struct ifaddrmsg`, and where it has the interface.
const ADDRESS_HEADER: usize = 8;
const INTERFACE: usize = 4;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;

/// The interface's own addresses.
pub(super) fn addresses(netlink: &mut Netlink, interface: u32) -> Result<Vec<IpAddr>, Errno> {
    let mut addresses = Vec::new();
    netlink.dump(RTM_GETADDR, &[0; ADDRESS_HEADER], |message| {
        if u32_at(message, INTERFACE) == Some(interface) {
            addresses.extend(address(message));
        }
    })?;
    Ok(addresses)
}

/// On a link between two, `IFA_ADDRESS` is the other's.
fn address(message: &[u8]) -> Option<IpAddr> {
    let family = i32::from(*message.first()?);
    let value = |wanted: u16| {
        let mut all = attributes(message, ADDRESS_HEADER);
        all.find_map(|(kind, value)| (kind == wanted).then_some(value))
    };
    ip(value(IFA_LOCAL).or_else(|| value(IFA_ADDRESS))?, family)
}
