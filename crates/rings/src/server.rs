//! The NIC's side: one function for one host at a time. Never blocks.

mod connection;
mod regions;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use attachment::Passed;
use attachment::listening::{Listening, Unusable};
use nic::ring::{DeviceFunction, FunctionConfig};
use nic::{FunctionId, Nic};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};
use wire::ethernet::MacAddr;

use crate::memory;
use crate::message::{Answer, Refusal, Request};
use connection::{Connection, Incoming};
use regions::Shown;

/// What one host may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The function's quotas, and the most slots of its rings and queues.
    pub config: FunctionConfig,
    /// Regions at a time.
    pub regions: usize,
    /// Of these, files.
    pub files: usize,
    /// Bytes of memory that the NIC may write to, in all regions.
    pub writable: u64,
    /// Bytes of address space, for all regions.
    pub mapped: u64,
}

impl Default for Limits {
    /// The quotas of [`FunctionConfig::new`], 16 queues, 16,384 slots of each ring, 4096 regions with 1024 files among them, 16 GiB of
    /// memory and 4 TiB of addresses.
    fn default() -> Limits {
        const SLOTS: u32 = 1 << 14;
        Limits {
            config: FunctionConfig {
                queues: 16,
                send_entries: SLOTS,
                command_entries: SLOTS,
                receive_entries: SLOTS,
                small_entries: SLOTS,
                large_entries: SLOTS,
                ..FunctionConfig::new(MacAddr::ZERO)
            },
            regions: 4096,
            files: 1024,
            writable: 16 << 30,
            mapped: 4 << 40,
        }
    }
}

/// The socket could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Somebody listens there.
    #[error("{0} is the socket of a running process; give --host rings:SOCKET another path")]
    InUse(PathBuf),
    /// There is something else.
    #[error("{0} exists and is no socket; give --host rings:SOCKET another path")]
    NotASocket(PathBuf),
    /// The system refused.
    #[error(
        "the socket {0} could not be made: {1}; give --host rings:SOCKET a path that you may write"
    )]
    Bind(PathBuf, io::Error),
}

/// Hosts that have connected and not yet asked for the function, at a time.
const MOST_PENDING: usize = 8;
/// Requests of the host before it is everybody else's turn.
const MOST_REQUESTS: usize = 64;

/// A listening socket, and the host that has come by it. The path goes away with it.
#[derive(Debug)]
pub struct Server {
    listening: Listening,
    mac: MacAddr,
    limits: Limits,
    host: Option<Host>,
    pending: Vec<Connection>,
    is_draining: bool,
}

/// The host that has the function.
#[derive(Debug)]
struct Host {
    function: FunctionId,
    connection: Connection,
    regions: Shown,
    bell: OwnedFd,
}

impl Server {
    /// Listens at `path`, for this user only; hosts get the address `mac`. A socket that a dead process left there is replaced.
    ///
    /// # Errors
    /// When there is something there, or the system refuses.
    pub fn bind(path: &Path, mac: MacAddr, limits: Limits) -> Result<Server, BindError> {
        let refused = |why| match why {
            Unusable::InUse => BindError::InUse(path.to_path_buf()),
            Unusable::NotASocket => BindError::NotASocket(path.to_path_buf()),
            Unusable::Refused(error) => BindError::Bind(path.to_path_buf(), error),
        };
        let listening = Listening::bind(path).map_err(refused)?;
        Ok(Server {
            listening,
            mac,
            limits,
            host: None,
            pending: Vec::new(),
            is_draining: false,
        })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        self.listening.path()
    }

    /// The address that its hosts get.
    pub fn mac(&self) -> MacAddr {
        self.mac
    }

    /// The function of the host that is there.
    pub fn function(&self) -> Option<FunctionId> {
        self.host.as_ref().map(|host| host.function)
    }

    /// What to wait on for reading: something has come, the host has rung, or it has gone.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let host = self.host.iter();
        let host = host.flat_map(|host| [host.connection.as_fd(), host.bell.as_fd()]);
        let pending = self.pending.iter().map(Connection::as_fd);
        std::iter::once(self.listening.as_fd())
            .chain(host)
            .chain(pending)
    }

    /// Does what hosts ask for. The function of one that has gone, or makes no sense, is removed.
    pub fn poll(&mut self, nic: &mut Nic) {
        if let Some(host) = &mut self.host
            && let Err(why) = host.poll(nic, &self.limits)
        {
            tracing::info!(
                "the host of {} has gone: {why}",
                self.listening.path().display()
            );
            nic.detach(host.function);
            self.host = None;
        }
        self.accept();
        for mut connection in std::mem::take(&mut self.pending) {
            match connection.poll() {
                Ok(None) => self.pending.push(connection),
                Ok(Some(incoming)) => self.set_up(nic, connection, incoming),
                Err(_) => {}
            }
        }
    }

    fn accept(&mut self) {
        while let Ok(stream) = self.listening.accept() {
            if self.pending.len() == MOST_PENDING {
                // The one that has been silent for longest.
                self.pending.remove(0);
            }
            self.pending.push(Connection::new(OwnedFd::from(stream)));
        }
    }

    fn set_up(&mut self, nic: &mut Nic, mut connection: Connection, incoming: Incoming) {
        let host = match incoming.request {
            Ok(Request::SetUp(config)) => self.begin(nic, config, incoming.descriptor),
            Ok(_) => Err(Refusal::Meaningless),
            Err(refusal) => Err(refusal),
        };
        let (function, bell, theirs) = match host {
            Ok(host) => host,
            Err(refusal) => {
                tracing::info!(
                    "a host at {} is refused: {refusal}",
                    self.listening.path().display()
                );
                // It is let go of, whether it hears that or not.
                let _ = connection.answer(Answer::Refused(refusal), None);
                return;
            }
        };
        let mtu = nic.config().mtu;
        let answer = Answer::SetUp { mac: self.mac, mtu };
        if connection.answer(answer, Some(theirs.as_fd())).is_err() {
            nic.detach(function.0);
            return;
        }
        self.host = Some(Host {
            function: function.0,
            connection,
            regions: function.1,
            bell,
        });
    }

    /// Adds a function to the NIC. Gives it with its regions, and both ends of its bell.
    fn begin(
        &self,
        nic: &mut Nic,
        config: FunctionConfig,
        rings: Option<Passed>,
    ) -> Result<((FunctionId, Shown), OwnedFd, OwnedFd), Refusal> {
        if self.is_draining {
            return Err(Refusal::Draining);
        }
        if self.host.is_some() {
            return Err(Refusal::Busy);
        }
        let mac = self.mac;
        let config = FunctionConfig { mac, ..config };
        if config.check().is_err() || !self.limits.allow(&config) {
            return Err(Refusal::BadConfig);
        }
        let rings = rings.ok_or(Refusal::BadMemory)?;
        let bytes = config.block_bytes();
        if !memory::keeps(rings.as_fd(), bytes as u64) {
            return Err(Refusal::BadMemory);
        }
        let block = memory::map_block(rings.as_fd(), bytes).map_err(|_| Refusal::BadMemory)?;
        let regions = Shown::default();
        let device = DeviceFunction::over(&Arc::new(block), config, regions.registry());
        let device = device.map_err(|_| Refusal::NotEmpty)?;
        let flags = SocketFlags::CLOEXEC;
        let bell = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None);
        let (ours, theirs) = bell.map_err(|_| Refusal::NoRoom)?;
        let function = nic.attach(device).map_err(|_| Refusal::NoRoom)?;
        Ok(((function, regions), ours, theirs))
    }

    /// Wakes the host of this function, if it is ours.
    pub fn ring(&self, function: FunctionId) {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        if let Some(host) = self.host.as_ref().filter(|host| host.function == function) {
            // One that has gone is noticed in time.
            let _ = send(&host.bell, &[1], flags);
        }
    }

    /// Silences the bell. To be called after a sleep.
    pub fn answer(&self) {
        let Some(host) = &self.host else { return };
        while let Ok((1.., _)) | Err(Errno::INTR) =
            recv(&host.bell, &mut [0; 64], RecvFlags::DONTWAIT)
        {}
    }

    /// Takes no host any more.
    pub fn drain(&mut self) {
        self.is_draining = true;
    }

    /// Whether the peers of all connections that its host has handed over to be finished have all that they are to get.
    pub fn is_drained(&self, nic: &Nic) -> bool {
        self.function()
            .is_none_or(|function| nic.unfinished_teardowns_of(function) == 0)
    }
}

impl Limits {
    fn allow(&self, config: &FunctionConfig) -> bool {
        let most = &self.config;
        config.queues <= most.queues
            && config.send_entries <= most.send_entries
            && config.command_entries <= most.command_entries
            && config.receive_entries <= most.receive_entries
            && config.small_entries <= most.small_entries
            && config.large_entries <= most.large_entries
            && config.contexts <= most.contexts
            && config.tags <= most.tags
            && config.closing <= most.closing
            && config.packet_memory <= most.packet_memory
            && config.splices <= most.splices
            && config.toe_connections <= most.toe_connections
    }
}

impl Host {
    /// Does what it asks for.
    ///
    /// # Errors
    /// It is to be let go of.
    fn poll(&mut self, nic: &Nic, limits: &Limits) -> Result<(), connection::Ended> {
        for _ in 0..MOST_REQUESTS {
            let Some(incoming) = self.connection.poll()? else {
                break;
            };
            let answer = match incoming.request {
                Ok(Request::Register(extent)) => {
                    match self.regions.register(extent, incoming.descriptor, limits) {
                        Ok(()) => Answer::Registered,
                        Err(refusal) => Answer::Refused(refusal),
                    }
                }
                Ok(Request::Unregister(id)) => {
                    self.regions.unregister(id);
                    continue;
                }
                Ok(Request::Unfinished) => {
                    Answer::Unfinished(nic.unfinished_teardowns_of(self.function) as u64)
                }
                Ok(Request::SetUp(_)) => Answer::Refused(Refusal::Meaningless),
                Err(refusal) => Answer::Refused(refusal),
            };
            self.connection.answer(answer, None)?;
        }
        Ok(())
    }
}
