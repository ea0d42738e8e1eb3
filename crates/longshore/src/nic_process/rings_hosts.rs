//! The NIC's hosts in other processes.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use anyhow::{Context, Result};
use nic::{FunctionId, Nic};
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

/// A place for each. They come through the gate.
#[derive(Debug)]
pub struct RingsHosts {
    servers: Vec<Server>,
}

impl RingsHosts {
    /// Those of one NIC, without a gate. The process has `all` hosts, which share what it may have.
    ///
    /// # Errors
    /// What the system gives.
    pub fn open<'a>(
        options: impl Iterator<Item = &'a RingsOption>,
        all: usize,
    ) -> Result<RingsHosts> {
        let limits = share_of(all);
        let servers = options.map(|option| {
            let mut limits = limits;
            if let Some(queues) = option.queues {
                limits.config.queues = queues;
            }
            let server = Server::new(&option.socket, option.mac, limits);
            let server = server.context("can't serve a host on rings")?;
            Ok(match option.queues {
                Some(_) => server.for_guests(),
                None => server,
            })
        });
        Ok(RingsHosts {
            servers: servers.collect::<Result<_>>()?,
        })
    }

    /// There is a gate of virtual machines or of the others, with other connections.
    pub fn connect(&mut self, channels: Vec<OwnedFd>, of_guests: bool) {
        let servers = self.servers.iter_mut();
        let servers = servers.filter(|server| server.is_for_guests() == of_guests);
        for (server, channel) in servers.zip(channels) {
            if let Err(error) = server.connect(channel) {
                tracing::warn!(
                    "can't attach the host at {}: {error}",
                    server.path().display()
                );
            }
        }
    }

    /// What to wait on for reading.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> + Clone {
        self.servers.iter().map(Server::fd)
    }

    /// Attaches the functions of hosts that have come, and detaches those of hosts that have gone. To be called when one of [`fds`](Self::fds) is
    /// readable, which it is no longer then.
    pub fn poll(&mut self, nic: &mut Nic) {
        self.servers.iter_mut().for_each(|server| server.poll(nic));
    }

    /// Each host's address, and whether the host is there.
    pub fn present(&self) -> impl Iterator<Item = (MacAddr, bool)> {
        let servers = self.servers.iter();
        servers.map(|server| (server.mac(), server.function().is_some()))
    }

    /// Wakes the hosts that slept when the NIC showed them something.
    pub fn wake(&self, nic: &mut Nic) {
        if !self.servers.is_empty() {
            nic.take_wakeups(|function, queue| {
                let servers = self.servers.iter();
                servers.for_each(|server| server.ring(function, queue));
            });
        }
    }

    /// The function of the host at a socket, if one is there.
    pub fn function_at(&self, socket: &Path) -> Option<FunctionId> {
        let mut servers = self.servers.iter();
        servers.find(|server| server.path() == socket)?.function()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_hosts_together_have_no_more_mappings_than_a_process_guards() {
        for hosts in 0..=64 {
            let share = share_of(hosts);
            assert!((1..=MAX_GUARDED).contains(&(share.files * hosts.max(1))));
            assert!((1..=REGIONS).contains(&(share.regions * hosts.max(1))));
        }
    }
}
