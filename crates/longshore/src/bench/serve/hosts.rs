//! A client's host, and nginx's beside it; longshore is its own.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::Context as _;

use super::case::{Mode, Program};
use crate::bench::web::namespace::Namespace;

/// Both ends of the wire between nginx and the client.
const ETHERNET: [&str; 2] = ["ls-nginx", "ls-client"];
/// Length of the networks' prefixes.
const PREFIX: u8 = 24;
/// Where servers listen.
const PORT: u16 = 8080;

/// Hosts in network namespaces.
pub struct Hosts {
    /// Where nginx is started.
    pub nginx: Namespace,
    /// Where the client is started, and what has TAPs to it.
    pub client: Namespace,
}

/// The place of a mode's server.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// No other mode has it.
    pub number: u8,
    /// Who serves, and what.
    pub mode: Mode,
}

impl Hosts {
    /// Makes both, and what is between them.
    ///
    /// # Errors
    /// Without CAP_SYS_ADMIN and CAP_NET_ADMIN, or without iproute2.
    pub fn create() -> anyhow::Result<Self> {
        let nginx = Namespace::create("nginx")?;
        let client = Namespace::create("client")?;
        let [here, there] = ETHERNET;
        nginx.ip(&["link", "add", here, "type", "veth", "peer", "name", there])?;
        nginx.ip(&["link", "set", there, "netns", client.path()])?;
        for (host, name, last) in [(&nginx, here, 1), (&client, there, 2)] {
            let address = format!("{}/{PREFIX}", address(NGINX, last));
            host.ip(&["addr", "add", &address, "dev", name])?;
            host.ip(&["link", "set", name, "up"])?;
        }
        // All clients may come at once.
        for limit in ["core/somaxconn", "ipv4/tcp_max_syn_backlog"] {
            nginx.run(move || {
                let path = format!("/proc/sys/net/{limit}");
                std::fs::write(&path, "65535").context(path)
            })?;
        }
        Ok(Self { nginx, client })
    }
}

/// The network of nginx and its client, of those for measurements (RFC 2544); longshore's servers have the ones behind it.
const NGINX: u8 = 0;

fn address(network: u8, last: u8) -> Ipv4Addr {
    Ipv4Addr::new(198, 18, network, last)
}

impl Place {
    fn network(self) -> u8 {
        match self.mode.program {
            Program::Nginx => NGINX,
            _ => NGINX + 1 + self.number,
        }
    }

    /// Where its server listens. Those of nginx have different ports.
    pub fn listens_at(self) -> SocketAddr {
        let ip = IpAddr::V4(address(self.network(), 1));
        SocketAddr::new(ip, PORT + u16::from(self.number))
    }

    /// The server's address with its prefix length.
    pub fn server_cidr(self) -> String {
        format!("{}/{PREFIX}", address(self.network(), 1))
    }

    /// The client's address with its prefix length.
    pub fn client_cidr(self) -> String {
        format!("{}/{PREFIX}", address(self.network(), 2))
    }
}
