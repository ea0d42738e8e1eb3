//! The IPv6 routers that have advertised themselves (RFC 4861 §6.3.4 to §6.3.6).

use std::net::Ipv6Addr;
use std::time::{Duration, Instant};

/// Routers that are known at most: who forges advertisements of others takes no place of one that is there.
const MOST: usize = 8;

/// In the order in which they are preferred.
#[derive(Debug, Default)]
pub(crate) struct Routers(Vec<Router>);

#[derive(Debug)]
struct Router {
    address: Ipv6Addr,
    until: Instant,
}

impl Routers {
    /// The one that packets beyond the link are handed to.
    pub fn first(&self) -> Option<Ipv6Addr> {
        self.0.first().map(|router| router.address)
    }

    /// A router has advertised itself for so many seconds; for none it is a router no more.
    pub fn advertised(&mut self, now: Instant, address: Ipv6Addr, lifetime: u16) {
        let until = now + Duration::from_secs(lifetime.into());
        let known = self.0.iter().position(|router| router.address == address);
        match known {
            Some(at) if lifetime == 0 => drop(self.0.remove(at)),
            Some(at) => self.0[at].until = until,
            None if lifetime > 0 && self.0.len() < MOST => self.0.push(Router { address, until }),
            None => {}
        }
    }

    /// A neighbour does not answer: if it is a router, others are preferred.
    pub fn is_silent(&mut self, address: Ipv6Addr) {
        if let Some(at) = self.0.iter().position(|router| router.address == address) {
            let router = self.0.remove(at);
            self.0.push(router);
        }
    }

    /// Takes out those whose time is over; gives one at a time.
    pub fn take_expired(&mut self, now: Instant) -> Option<Ipv6Addr> {
        let at = self.0.iter().position(|router| router.until <= now)?;
        Some(self.0.remove(at).address)
    }

    /// When the time of the next one is over.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.0.iter().map(|router| router.until).min()
    }
}
