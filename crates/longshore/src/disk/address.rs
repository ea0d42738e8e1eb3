//! Where a server is.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use anyhow::{Context, Result, anyhow};
use host::Cidr;

/// The address of a host by name or address, of a family that we have an address of.
///
/// # Errors
/// When the name can't be resolved, or we have no address of its family.
pub(crate) fn address_of(host: &str, port: u16, ours: &[Cidr]) -> Result<SocketAddr> {
    let all: Vec<SocketAddr> = match host.parse::<IpAddr>() {
        Ok(ip) => vec![SocketAddr::new(ip, port)],
        Err(_) => (host, port)
            .to_socket_addrs()
            .with_context(|| format!("the name {host} can't be resolved"))?
            .collect(),
    };
    let reachable = all.iter().find(|address| {
        let family = address.is_ipv4();
        ours.iter().any(|cidr| cidr.address.is_ipv4() == family)
    });
    reachable.copied().ok_or_else(|| {
        let family = match all.iter().any(SocketAddr::is_ipv6) {
            true => "IPv6",
            false => "IPv4",
        };
        anyhow!(
            "{} has {family} addresses only; give --ip an address of that family",
            host
        )
    })
}
