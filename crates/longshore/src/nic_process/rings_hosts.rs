//! The NIC's hosts in other processes.

use std::io::Write;
use std::os::fd::BorrowedFd;

use anyhow::{Result, bail};
use attachment::listening::Listening;
use nic::Nic;
use rings::fault::MAX_GUARDED;
use rings::{Limits, Server};
use wire::ethernet::MacAddr;

use super::options::RingsOption;

/// Regions of all hosts together. A process may have 65,530 mappings (`vm.max_map_count`), and a region can take three.
const REGIONS: usize = 16_384;

/// What each of so many hosts may have, whatever the others take.
fn share_of(hosts: usize) -> Limits {
    let (most, hosts) = (Limits::default(), hosts.max(1));
    Limits {
        regions: most.regions.min(REGIONS / hosts),
        files: most.files.min(MAX_GUARDED / hosts),
        ..most
    }
}

/// One socket for each.
#[derive(Debug)]
pub struct RingsHosts {
    /// Those that are not answered at yet.
    listening: Vec<(Listening, MacAddr)>,
    servers: Vec<Server>,
}

impl RingsHosts {
    /// Listens at all of the sockets.
    ///
    /// # Errors
    /// When one can't be had; the message says what to do.
    pub fn open<'a>(options: impl Iterator<Item = &'a RingsOption>) -> Result<RingsHosts> {
        let mut listening: Vec<(Listening, MacAddr)> = Vec::new();
        for option in options {
            let mac = option.mac;
            if listening.iter().any(|(_, other)| *other == mac) {
                bail!(
                    "two hosts have the address {mac}; give each rings:SOCKET a mac=ADDRESS of its own"
                );
            }
            listening.push((Server::listen(&option.socket)?, mac));
        }
        Ok(RingsHosts {
            listening,
            servers: Vec::new(),
        })
    }

    /// Starts the threads that answer there.
    ///
    /// # Errors
    /// When there can be none.
    pub fn start(&mut self) -> Result<()> {
        let limits = share_of(self.listening.len());
        for (listening, mac) in self.listening.drain(..) {
            self.servers.push(Server::start(listening, mac, limits)?);
        }
        Ok(())
    }

    /// Says where they are.
    pub fn announce(&self, out: &mut impl Write) {
        for server in &self.servers {
            let _ = writeln!(out, "host {} at {}", server.path().display(), server.mac());
        }
    }

    /// What to wait on for reading.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.servers.iter().map(Server::fd)
    }

    /// Attaches the functions of hosts that have come, and detaches those of hosts that have gone. To be called when one of [`fds`](Self::fds) is
    /// readable, which it is no longer then.
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

    /// Takes no more hosts.
    pub fn drain(&mut self) {
        self.servers.iter_mut().for_each(Server::drain);
    }

    /// Whether what hosts have handed over to the NIC is done.
    pub fn is_drained(&self, nic: &Nic) -> bool {
        self.servers.iter().all(|server| server.is_drained(nic))
    }
}
