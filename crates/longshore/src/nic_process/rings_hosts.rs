//! The NIC's hosts in other processes.

use std::os::fd::BorrowedFd;

use anyhow::{Result, bail};
use nic::Nic;
use rings::{Limits, Server};

use super::options::RingsOption;

/// One socket for each.
#[derive(Debug)]
pub struct RingsHosts {
    servers: Vec<Server>,
}

impl RingsHosts {
    /// Listens at all of the sockets.
    ///
    /// # Errors
    /// When one can't be had; the message says what to do.
    pub fn open<'a>(options: impl Iterator<Item = &'a RingsOption>) -> Result<RingsHosts> {
        let mut servers: Vec<Server> = Vec::new();
        for option in options {
            let mac = option.mac;
            if servers.iter().any(|server| server.mac() == mac) {
                bail!(
                    "two hosts have the address {mac}; give each rings:SOCKET a mac=ADDRESS of its own"
                );
            }
            servers.push(Server::bind(&option.socket, mac, Limits::default())?);
        }
        Ok(RingsHosts { servers })
    }

    /// Says where they are.
    pub fn announce(&self) {
        for server in &self.servers {
            println!("host {} at {}", server.path().display(), server.mac());
        }
    }

    /// What to wait on for reading.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.servers.iter().flat_map(Server::fds)
    }

    /// Adds functions for hosts that have come, removes those of hosts that have gone, and does what the others ask for.
    pub fn poll(&mut self, nic: &mut Nic) {
        self.servers.iter_mut().for_each(|server| server.poll(nic));
    }

    /// Wakes the hosts that slept when the NIC showed them something.
    pub fn wake(&self, nic: &mut Nic) {
        if !self.servers.is_empty() {
            nic.take_wakeups(|function, _| {
                self.servers.iter().for_each(|server| server.ring(function));
            });
        }
    }

    /// Silences the bells, after a sleep.
    pub fn answer(&self) {
        self.servers.iter().for_each(Server::answer);
    }

    /// Takes no more hosts.
    pub fn drain(&mut self) {
        self.servers.iter_mut().for_each(Server::drain);
    }

    /// Whether what hosts have handed over to the NIC is done.
    pub fn is_drained(&self, nic: &Nic) -> bool {
        self.servers.iter().all(|server| server.is_drained(nic))
    }
}
