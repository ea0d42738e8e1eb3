//! A client, a proxy and a backend, of which the proxy's NIC may join connections.

use std::time::Duration;

use host::{Accel, Event, SocketId, SpliceHandle, SpliceRefused, SpliceReport};
use sim::{NodeConfig, World, WorldConfig};

pub const CLIENT: usize = 0;
pub const PROXY: usize = 1;
pub const BACKEND: usize = 2;

/// Where the proxy and the backend listen.
const PORT: u16 = 80;

/// Both connections of the proxy's, at each end.
#[derive(Clone, Copy, Debug)]
pub struct Joined {
    pub client: SocketId,
    pub front: SocketId,
    pub back: SocketId,
    pub server: SocketId,
}

pub fn world() -> World {
    world_with(|_, _| {})
}

/// A world whose settings `adjust` has changed.
pub fn world_with(adjust: impl Fn(usize, &mut NodeConfig)) -> World {
    let mut config = WorldConfig::modest(3);
    config.nodes[PROXY].stack.accel = Accel {
        splice: true,
        ..Accel::NONE
    };
    for (at, node) in config.nodes.iter_mut().enumerate() {
        adjust(at, node);
    }
    World::new(config)
}

/// What tests do with the proxy.
pub trait Proxied {
    /// The client's connection to the proxy and the proxy's to the backend.
    fn join(&mut self) -> Joined {
        self.join_over([false, false])
    }

    /// The same, each over IPv6 or not.
    fn join_over(&mut self, ipv6: [bool; 2]) -> Joined;

    /// Splices, and waits for the answer.
    fn splice(&mut self, joined: &Joined) -> Result<SpliceHandle, SpliceRefused>;

    fn is_spliced(&self, splice: SpliceHandle) -> bool;

    fn refused(&self, splice: SpliceHandle) -> Option<SpliceRefused>;

    fn ended(&self, splice: SpliceHandle) -> Option<SpliceReport>;
}

impl Proxied for World {
    fn join_over(&mut self, ipv6: [bool; 2]) -> Joined {
        let (client, front) = self.connect_between([CLIENT, PROXY], PORT, ipv6[0]);
        let (back, server) = self.connect_between([PROXY, BACKEND], PORT, ipv6[1]);
        for (node, ipv6) in [(PROXY, ipv6[0]), (BACKEND, ipv6[1])] {
            self.stop_listening(node, PORT, ipv6);
        }
        Joined {
            client,
            front,
            back,
            server,
        }
    }

    fn splice(&mut self, joined: &Joined) -> Result<SpliceHandle, SpliceRefused> {
        let now = self.now();
        let (a, b) = (joined.front, joined.back);
        let splice = self.stack(PROXY).splice(now, a, b, Default::default())?;
        let answered = self.run_until(Duration::from_secs(5), |world| {
            world.is_spliced(splice) || world.refused(splice).is_some()
        });
        assert!(answered, "{:?}", self.events(PROXY));
        match self.refused(splice) {
            Some(reason) => Err(reason),
            None => Ok(splice),
        }
    }

    fn is_spliced(&self, splice: SpliceHandle) -> bool {
        self.events(PROXY).contains(&Event::Spliced(splice))
    }

    fn refused(&self, splice: SpliceHandle) -> Option<SpliceRefused> {
        self.events(PROXY).iter().find_map(|event| match event {
            Event::SpliceRefused(handle, reason) if *handle == splice => Some(*reason),
            _ => None,
        })
    }

    fn ended(&self, splice: SpliceHandle) -> Option<SpliceReport> {
        self.events(PROXY).iter().find_map(|event| match event {
            Event::SpliceEnded(handle, report) if *handle == splice => Some(*report),
            _ => None,
        })
    }
}
