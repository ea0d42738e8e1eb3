//! The host's addresses on its link, and where packets for others go first.

use std::cmp::Reverse;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use wire::ethernet::MacAddr;
use wire::ipv6;

use super::routers::Routers;
use crate::{Cidr, Dad, StackConfig};

/// The stack's one network interface.
#[derive(Debug)]
pub(crate) struct Interface {
    pub mac: MacAddr,
    /// Largest IP packet on the link.
    pub mtu: u16,
    addresses: Vec<Cidr>,
    /// Those that are not used yet.
    withheld: Vec<Cidr>,
    gateway_v4: Option<Ipv4Addr>,
    /// As configured; one that is advertised does not take its place.
    gateway_v6: Option<Ipv6Addr>,
    pub routers: Routers,
}

impl Interface {
    /// An interface; an IPv6 link-local address is added (RFC 4291 §2.5.6) if none is configured.
    pub fn new(mac: MacAddr, config: &StackConfig) -> Self {
        let mut addresses = config.addresses.clone();
        if !addresses.iter().any(|cidr| is_link_local(cidr.address)) {
            addresses.push(Cidr::new(ipv6::link_local(mac).into(), 64));
        }
        let is_withheld = |cidr: &mut Cidr| config.dad == Dad::Wait && cidr.address.is_ipv6();
        let withheld = addresses.extract_if(.., is_withheld).collect();
        Self {
            mac,
            mtu: config.mtu,
            addresses,
            withheld,
            gateway_v4: config.gateway_v4,
            gateway_v6: config.gateway_v6,
            routers: Routers::default(),
        }
    }

    /// The host's own addresses.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.addresses.iter().map(|cidr| cidr.address)
    }

    /// All addresses, also those that are not used yet.
    fn own(&self) -> impl Iterator<Item = &Cidr> + '_ {
        self.addresses.iter().chain(&self.withheld)
    }

    /// The host's IPv6 addresses, also those that are not used yet.
    pub fn own_v6(&self) -> impl Iterator<Item = Ipv6Addr> + '_ {
        self.own().filter_map(|cidr| match cidr.address {
            IpAddr::V6(v6) => Some(v6),
            IpAddr::V4(_) => None,
        })
    }

    /// Whether the address is one of this host's, if not yet.
    pub fn is_own(&self, address: IpAddr) -> bool {
        self.own().any(|cidr| cidr.address == address)
    }

    /// Whether the address is not used yet.
    pub fn is_withheld(&self, address: IpAddr) -> bool {
        self.withheld.iter().any(|cidr| cidr.address == address)
    }

    /// All addresses are used from here on.
    pub fn assign(&mut self) {
        self.addresses.append(&mut self.withheld);
    }

    /// The host has this address no longer.
    pub fn remove(&mut self, address: IpAddr) {
        for addresses in [&mut self.addresses, &mut self.withheld] {
            addresses.retain(|cidr| cidr.address != address);
        }
    }

    /// Whether packets for the address are for this host.
    #[inline]
    pub fn is_local(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|cidr| cidr.address == address)
    }

    /// Whether an address is a group that this host is a member of: all nodes, or the solicited-node group of one of
    /// its addresses.
    pub fn is_group(&self, address: Ipv6Addr) -> bool {
        address == ALL_NODES || (self.own_v6()).any(|own| ipv6::solicited_node(own) == address)
    }

    /// The address that packets to `remote` are sent from (a short form of RFC 6724 §5): one on the same network, the smallest that there is,
    /// else one that is routed beyond the link; to global addresses a global one, to unique local ones a local one, and of these the one that
    /// has most of its beginning in common. Of equal ones that which was configured first.
    pub fn source_for(&self, remote: IpAddr) -> Option<IpAddr> {
        self.next_hop(remote)?;
        let of_family = |cidr: &&Cidr| cidr.address.is_ipv4() == remote.is_ipv4();
        let on_link = self.own().filter(of_family);
        let on_link = on_link
            .filter(|cidr| cidr.contains(remote))
            .min_by_key(|cidr| Reverse(cidr.prefix));
        let routed = || {
            let own = self.own().filter(of_family);
            own.filter(|cidr| !is_link_local(cidr.address))
                .min_by_key(|cidr| match (cidr.address, remote) {
                    (IpAddr::V6(own), IpAddr::V6(remote)) => {
                        let in_common = (own.to_bits() ^ remote.to_bits()).leading_zeros();
                        let is_other = own.is_unique_local() != remote.is_unique_local();
                        (is_other, Reverse(in_common.min(cidr.prefix.into())))
                    }
                    _ => (false, Reverse(0)),
                })
        };
        on_link.or_else(routed).map(|cidr| cidr.address)
    }

    /// An IPv4 address of the host's, for ARP.
    pub fn any_v4(&self, near: Ipv4Addr) -> Option<Ipv4Addr> {
        match self.source_for(near.into())? {
            IpAddr::V4(v4) => Some(v4),
            IpAddr::V6(_) => None,
        }
    }

    /// An IPv6 address of the host's, for neighbour solicitations.
    pub fn any_v6(&self, near: Ipv6Addr) -> Option<Ipv6Addr> {
        let link_local = || {
            self.own().find_map(|cidr| match cidr.address {
                IpAddr::V6(v6) if v6.is_unicast_link_local() => Some(v6),
                _ => None,
            })
        };
        match self.source_for(near.into()) {
            Some(IpAddr::V6(v6)) => Some(v6),
            _ => link_local(),
        }
    }

    /// Who is to be handed packets for `remote`: itself if it is on the link, else the gateway.
    pub fn next_hop(&self, remote: IpAddr) -> Option<IpAddr> {
        let on_link = match remote {
            IpAddr::V6(v6) if v6.is_unicast_link_local() => true,
            _ => self.own().any(|cidr| cidr.contains(remote)),
        };
        if on_link {
            return Some(remote);
        }
        match remote {
            IpAddr::V4(_) => self.gateway_v4.map(IpAddr::V4),
            IpAddr::V6(_) => self.gateway_v6.or(self.routers.first()).map(IpAddr::V6),
        }
    }

    /// The same for a connection whose packets went to `before` so far, where they go on to if there is no route now.
    pub fn next_hop_of(&self, remote: IpAddr, before: IpAddr) -> IpAddr {
        self.next_hop(remote).unwrap_or(before)
    }

    /// The MSS that fits the link, for a family (RFC 6691).
    pub fn mss(&self, ipv4: bool) -> u16 {
        let headers = if ipv4 { 40 } else { 60 };
        self.mtu.saturating_sub(headers).max(MIN_MSS)
    }
}

fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// No link is so small that less would be of use (RFC 9293 §3.7.1 allows 536).
const MIN_MSS: u16 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6724 §5, rules 2, 6 and 8.
    #[test]
    fn packets_leave_from_the_address_that_suits_their_destination() {
        let own = [
            "fd00::2/64",
            "2001:db8::2/32",
            "2001:db8:5::2/48",
            "2002:77::2/64",
        ];
        let config = StackConfig {
            addresses: own.map(|text| text.parse().expect("an address")).into(),
            gateway_v6: Some("fe80::1".parse().expect("an address")),
            ..StackConfig::default()
        };
        let interface = Interface::new(MacAddr([2, 0, 0, 0, 0, 1]), &config);
        for (remote, source) in [
            ("fd00::9", "fd00::2"),
            ("fd77::9", "fd00::2"),
            ("2001:db8:1::9", "2001:db8::2"),
            ("2001:db8:5::9", "2001:db8:5::2"),
            ("2001:4860::9", "2001:db8::2"),
            ("2002:1::9", "2002:77::2"),
        ] {
            let remote: IpAddr = remote.parse().expect("an address");
            let source: IpAddr = source.parse().expect("an address");
            assert_eq!(interface.source_for(remote), Some(source), "to {remote}");
        }
    }
}
