//! IP addresses of an interface, by rtnetlink (rtnetlink(7)).

use std::io;
use std::net::IpAddr;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::interface;

/// Adds an address. That it is there already is no error.
pub(super) fn add(name: &str, ip: IpAddr, prefix_len: u8) -> io::Result<()> {
    let index = interface::index(name)?;
    let kind = SocketType::RAW;
    // Protocol 0 is NETLINK_ROUTE, and the other end the kernel.
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, kind, flags, None)?;
    let request = request(index, ip, prefix_len);
    rustix::net::send(&socket, &request, SendFlags::empty())?;
    let mut answer = [0; 512];
    let (len, _) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty())?;
    match error_of(&answer[..len]) {
        None => Err(io::ErrorKind::InvalidData.into()),
        Some(0 | libc::EEXIST) => Ok(()),
        Some(error) => Err(io::Error::from_raw_os_error(error)),
    }
}

/// An RTM_NEWADDR message: `nlmsghdr`, `ifaddrmsg`, and the address twice, as the interface's own and as its network's.
fn request(index: u32, ip: IpAddr, prefix_len: u8) -> Vec<u8> {
    let (family, octets) = match ip {
        IpAddr::V4(ip) => (libc::AF_INET, ip.octets().to_vec()),
        IpAddr::V6(ip) => (libc::AF_INET6, ip.octets().to_vec()),
    };
    let flags = libc::NLM_F_REQUEST | libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let mut message = Vec::new();
    message.extend([0; 4]);
    message.extend(libc::RTM_NEWADDR.to_ne_bytes());
    message.extend((flags as u16).to_ne_bytes());
    message.extend([0; 8]);
    // The address is unique on this wire: it can be used at once.
    message.extend([family as u8, prefix_len, libc::IFA_F_NODAD as u8, 0]);
    message.extend(index.to_ne_bytes());
    for attribute in [libc::IFA_LOCAL, libc::IFA_ADDRESS] {
        message.extend((4 + octets.len() as u16).to_ne_bytes());
        message.extend(attribute.to_ne_bytes());
        message.extend(&octets);
    }
    let len = message.len() as u32;
    message[..4].copy_from_slice(&len.to_ne_bytes());
    message
}

/// The error number of an acknowledgement. `None` for another message.
fn error_of(message: &[u8]) -> Option<i32> {
    let kind = u16::from_ne_bytes(*message.get(4..)?.first_chunk()?);
    let error = i32::from_ne_bytes(*message.get(16..)?.first_chunk()?);
    (i32::from(kind) == libc::NLMSG_ERROR).then_some(-error)
}
