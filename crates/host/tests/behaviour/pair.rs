//! A client and a server, and what the tests do with both.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use handshake::{Certificate, Options, Trust, client_config, server_config};
use host::{CloseReason, Event, Offload, SocketId, TlsRole};
use l5p::tls::{Algorithm, Version};
use nic::ring::{Region, RegionId, Slice};
use rustls::pki_types::ServerName;
use sim::{Fate, NodeConfig, WorldConfig};
use wire::packet::{self, Class};

pub use sim::World as Pair;

pub const PORT: u16 = 443;
pub const CLIENT: usize = 0;
pub const SERVER: usize = 1;

pub fn hosts() -> Pair {
    hosts_with(|_, _| {})
}

/// Hosts whose settings `adjust` has changed.
pub fn hosts_with(adjust: impl Fn(usize, &mut NodeConfig)) -> Pair {
    let mut config = WorldConfig::modest(2);
    for (at, node) in config.nodes.iter_mut().enumerate() {
        node.function.contexts = 4096;
        adjust(at, node);
    }
    Pair::new(config)
}

/// Connections of the client's to the server.
pub trait Connected {
    /// A connection, client and server side.
    fn connected(&mut self, ip: fn(usize) -> IpAddr) -> (SocketId, SocketId);

    /// A connection over IPv4 with TLS on it.
    fn secured(&mut self, options: &Options, offload: [Offload; 2]) -> (SocketId, SocketId);

    /// Starts TLS between both ends of a connection.
    fn start_tls(&mut self, ends: (SocketId, SocketId), roles: [TlsRole; 2], offload: [Offload; 2]);

    /// Why the first connection of a host's that has ended did.
    fn ended(&self, at: usize) -> Option<CloseReason>;

    /// A host has no socket any more, but for listeners.
    fn assert_no_sockets(&self, at: usize);
}

impl Connected for Pair {
    fn connected(&mut self, ip: fn(usize) -> IpAddr) -> (SocketId, SocketId) {
        let (client, server) = self.connect(PORT, ip(SERVER).is_ipv6());
        let connected = Event::Connected(client);
        assert!(self.events(CLIENT).contains(&connected), "no connection");
        (client, server)
    }

    fn secured(&mut self, options: &Options, offload: [Offload; 2]) -> (SocketId, SocketId) {
        let (client, server) = self.connected(v4);
        self.start_tls((client, server), roles(options), offload);
        let secured = self.run_until(Duration::from_secs(30), |pair| {
            pair.events(CLIENT).contains(&Event::Secured(client))
                && pair.events(SERVER).contains(&Event::Secured(server))
        });
        let events = [CLIENT, SERVER].map(|at| self.events(at));
        assert!(secured, "{events:?}");
        (client, server)
    }

    fn start_tls(
        &mut self,
        (client, server): (SocketId, SocketId),
        roles: [TlsRole; 2],
        offload: [Offload; 2],
    ) {
        let now = self.now();
        let ends = [(CLIENT, client), (SERVER, server)];
        for ((at, id), role) in ends.into_iter().zip(roles) {
            let started = self.stack(at).start_tls(now, id, role, offload[at]);
            started.expect("a connection without TLS");
        }
    }

    fn ended(&self, at: usize) -> Option<CloseReason> {
        self.events(at).iter().find_map(|event| match event {
            Event::Closed(_, reason) => Some(reason.clone()),
            _ => None,
        })
    }

    fn assert_no_sockets(&self, at: usize) {
        let left = self.stack_ref(at).sockets();
        let left: Vec<_> = left.filter(|socket| socket.id.is_some()).collect();
        assert!(left.is_empty(), "host {at} has {left:?}");
    }
}

/// The client's part of a handshake and the server's, whose certificate is for `server.test`.
pub fn roles(options: &Options) -> [TlsRole; 2] {
    let config = client_config(Trust::Anyone, options).expect("a configuration");
    let name = ServerName::try_from("server.test").expect("a name");
    let certificate = Certificate::self_signed(["server.test".to_owned()]);
    let certificate = certificate.expect("a certificate");
    let server = server_config(certificate, options).expect("a configuration");
    [
        TlsRole::Client { config, name },
        TlsRole::Server { config: server },
    ]
}

pub fn v4(at: usize) -> IpAddr {
    Pair::address(at, false)
}

pub fn v6(at: usize) -> IpAddr {
    Pair::address(at, true)
}

/// Loses segments and delays frames of one side, the same at every run.
pub fn lossy(
    sender: usize,
    loss: f64,
    reorder: f64,
    seed: u64,
) -> impl FnMut(usize, usize, &mut [u8]) -> Fate {
    let mut state = seed | 1;
    let mut chance = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    move |from, _, frame| {
        if from != sender {
            return Fate::Pass;
        }
        let roll = chance();
        if roll < loss {
            // Without an answer to three questions a neighbour is unreachable, and no connection comes about.
            match packet::classify(frame) {
                Class::Tcp(_) => Fate::Drop,
                _ => Fate::Pass,
            }
        } else if roll < loss + reorder {
            Fate::Late(Duration::from_micros(80))
        } else {
            Fate::Pass
        }
    }
}

pub fn options(version: Version, algorithm: Algorithm) -> Options {
    Options {
        versions: vec![version],
        algorithms: vec![algorithm],
        ..Options::default()
    }
}

/// A part of registered memory.
pub fn slice(region: RegionId, offset: u64, len: u32) -> Slice {
    Slice {
        region,
        offset,
        len,
    }
}

/// Memory with bytes in it.
pub fn region(data: &[u8]) -> Arc<Region> {
    let region = Region::anonymous(data.len());
    assert!(region.write(0, data));
    Arc::new(region)
}
