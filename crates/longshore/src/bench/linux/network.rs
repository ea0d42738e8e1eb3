//! Two hosts in network namespaces, the NIC of one of them, and the wire.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anyhow::Context as _;

use super::forwarder::Forwarder;
use super::nic::Nic;
use crate::bench::folder::Folder;
use crate::bench::web::namespace::Namespace;

/// The server's interface.
const SERVER: &str = "ls0";
/// The client's.
const CLIENT: &str = "ls1";
/// The server's address.
const SERVER_ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// The client's.
const CLIENT_ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
/// As these, with nothing but a forwarder in between.
const BESIDE: [&str; 2] = ["ls2", "ls3"];
/// The server's address there.
const SERVER_BESIDE: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
/// The client's.
const CLIENT_BESIDE: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 2);
/// Length of their networks' prefixes.
const PREFIX: u8 = 24;

/// A server's host with its NIC, and a client's.
pub struct Network {
    /// Between the server's interface and the wire.
    pub nic: Nic,
    /// Between two other interfaces of theirs.
    pub forwarder: Forwarder,
    /// Where servers are started.
    pub server: Namespace,
    /// Where the client is started.
    pub client: Namespace,
}

impl Network {
    /// Makes both hosts, and starts the NIC.
    ///
    /// # Errors
    /// Without CAP_SYS_ADMIN and CAP_NET_ADMIN, or without iproute2.
    pub fn create(folder: &Folder) -> anyhow::Result<Self> {
        let server = Namespace::create("server")?;
        let client = Namespace::create("client")?;
        let host = format!("tap:{SERVER},ip={SERVER_ADDRESS}/{PREFIX}");
        let nic = Nic::start(&server, folder, &host, &format!("tap:{CLIENT}"))?;
        // All clients may come at once.
        for limit in ["core/somaxconn", "ipv4/tcp_max_syn_backlog"] {
            server.run(move || {
                let path = format!("/proc/sys/net/{limit}");
                std::fs::write(&path, "65535").context(path)
            })?;
        }
        let forwarder = Forwarder::start(&server, BESIDE)?;
        let [server_beside, client_beside] = BESIDE;
        up(&server, server_beside, SERVER_BESIDE)?;
        // The other ends of the wires are the client's interfaces.
        for (name, address) in [(CLIENT, CLIENT_ADDRESS), (client_beside, CLIENT_BESIDE)] {
            server.ip(&["link", "set", name, "netns", client.path()])?;
            up(&client, name, address)?;
        }
        Ok(Self {
            nic,
            forwarder,
            server,
            client,
        })
    }

    /// The server's address that is reached without the NIC, with any free port.
    pub fn beside_nic() -> SocketAddr {
        SocketAddr::new(IpAddr::V4(SERVER_BESIDE), 0)
    }

    /// The server's address with this port.
    pub fn at(port: u16) -> SocketAddr {
        SocketAddr::new(IpAddr::V4(SERVER_ADDRESS), port)
    }
}

fn up(host: &Namespace, interface: &str, address: Ipv4Addr) -> anyhow::Result<()> {
    let address = format!("{address}/{PREFIX}");
    host.ip(&["addr", "add", &address, "dev", interface])?;
    host.ip(&["link", "set", interface, "up"])
}
