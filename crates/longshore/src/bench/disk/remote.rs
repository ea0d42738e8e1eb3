//! NBD and iSCSI: a client for each mode on one host, a server of one disk on the other.

use std::time::{Duration, Instant};

use host::disk::{Access, Client, Event, Operation};
use host::iscsi::{self, Config};
use host::nbd;
use host::pdus::PduOffload;
use nic::ring::Slice;
use sim::World;
use sim::disks::{self, DiskServer, Serve, poll_client};
use wire::iscsi::Lun;

use super::case::{Mode, Stage};
use super::load::Pass;
use super::settings::{Digest, Workload};
use super::world::{Clocked, Disks};
use crate::bench::case;

/// The most bytes of data in a PDU that a target may send.
const MAX_DATA: u32 = 256 << 10;
/// Reads of fewer bytes are not mapped.
const MAP_THRESHOLD: u32 = 16 << 10;

/// A protocol, as both sides speak it.
pub trait Protocol {
    /// The command that measures it, and how the NIC's counters are named.
    const NAME: &'static str;
    /// It has digests.
    const DIGESTS: bool;
    /// The client.
    type Client: Client;
    /// The server.
    type Server: Serve;

    /// A client for a mode.
    fn client(now: Instant, depth: u16, mode: &Mode) -> Self::Client;
}

/// NBD.
pub struct Nbd;

/// iSCSI.
pub struct Iscsi;

impl Protocol for Nbd {
    const NAME: &'static str = "nbd";
    const DIGESTS: bool = false;
    type Client = nbd::Client;
    type Server = disks::Nbd;

    fn client(now: Instant, depth: u16, mode: &Mode) -> nbd::Client {
        let options = nbd::Options {
            placement: mode.stage >= Stage::Copy,
            map_threshold: MAP_THRESHOLD,
            depth,
            ..nbd::Options::new(DiskServer::<disks::Nbd>::address(), "disk")
        };
        nbd::Client::new(now, options)
    }
}

impl Protocol for Iscsi {
    const NAME: &'static str = "iscsi";
    const DIGESTS: bool = true;
    type Client = iscsi::Client;
    type Server = disks::Iscsi;

    fn client(now: Instant, depth: u16, mode: &Mode) -> iscsi::Client {
        let options = iscsi::Options {
            address: DiskServer::<disks::Iscsi>::address(),
            session: Config {
                name: "iqn.2024-01.org.example:host".to_owned(),
                target: Some("iqn.2024-01.org.example:disk".to_owned()),
                lun: Lun::default(),
                isid: [0x80, 0, 0, 0, 0, 0],
                chap: None,
                header_digest: mode.digest == Digest::Both,
                data_digest: mode.digest != Digest::None,
                depth,
                max_data: MAX_DATA,
            },
            offload: PduOffload {
                placement: mode.stage >= Stage::Copy,
                receive_digest: mode.stage >= Stage::Crc,
                transmit_digest: mode.stage >= Stage::Crc,
            },
            map_threshold: MAP_THRESHOLD,
        };
        iscsi::Client::new(now, options)
    }
}

/// Clients of some modes and their server.
pub struct Remote<P: Protocol> {
    clocked: Clocked,
    clients: Vec<P::Client>,
    server: DiskServer<P::Server>,
}

impl<P: Protocol> Remote<P> {
    fn connect(&mut self, settings: &Workload, mode: &Mode) -> anyhow::Result<P::Client> {
        let label = case::Mode::label(mode);
        let mut client = P::client(self.clocked.world.now(), settings.depth, mode);
        loop {
            poll_client(&mut self.clocked.world, &mut client);
            match client.poll_event() {
                Some(Event::Ready) => return Ok(client),
                Some(Event::Ended(Some(failure))) => {
                    anyhow::bail!("{label}: no connection: {failure}")
                }
                _ => {}
            }
            self.poll_server();
            let due = client.poll_timeout();
            anyhow::ensure!(
                self.clocked.step_until(due),
                "{label}: the connection is stuck"
            );
        }
    }
}

impl<P: Protocol> Disks for Remote<P> {
    const NAME: &'static str = P::NAME;
    const COUNTERS: &'static str = P::NAME;
    const TLS: bool = false;
    const DIGESTS: bool = P::DIGESTS;

    fn new(settings: &Workload, modes: &[Mode], tick: Duration) -> anyhow::Result<Self> {
        let mut clocked = Clocked::new(settings, tick);
        let server = DiskServer::new(&mut clocked.world, settings.working_set);
        let mut world = Self {
            clocked,
            clients: Vec::new(),
            server,
        };
        for mode in modes {
            let client = world.connect(settings, mode)?;
            world.clients.push(client);
        }
        Ok(world)
    }

    fn clocked(&mut self) -> &mut Clocked {
        &mut self.clocked
    }

    fn world(&self) -> &World {
        &self.clocked.world
    }

    fn poll_client(&mut self, client: usize) -> bool {
        poll_client(&mut self.clocked.world, &mut self.clients[client])
    }

    fn poll_server(&mut self) -> bool {
        self.server.poll(&mut self.clocked.world)
    }

    fn due(&self, client: usize) -> Option<Instant> {
        self.clients[client].poll_timeout()
    }

    fn submit(
        &mut self,
        client: usize,
        pass: Pass,
        chunk: u32,
        memory: Slice,
    ) -> anyhow::Result<usize> {
        let operation = match pass {
            Pass::Read => Operation::Read,
            Pass::Write => Operation::Write,
            Pass::Clear => anyhow::bail!("the server clears its disk by itself"),
        };
        let access = Access {
            operation,
            offset: u64::from(chunk) * u64::from(memory.len),
            len: memory.len,
        };
        Ok(self.clients[client].submit(access, &[memory])?.index())
    }

    fn poll_done(&mut self, client: usize) -> anyhow::Result<Option<usize>> {
        let Some(completion) = self.clients[client].poll_completion() else {
            return Ok(None);
        };
        if let Err(failure) = completion.result {
            anyhow::bail!("a command failed: {failure}");
        }
        Ok(Some(completion.id.index()))
    }

    fn clear(&mut self) -> bool {
        self.server.clear();
        true
    }
}
