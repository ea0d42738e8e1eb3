//! NBD and iSCSI: a client for each mode on one host, a server of one disk on the other.

use std::time::Instant;

use host::disk::{Access, Client, Event, Operation};
use host::iscsi::{self, Config};
use host::nbd;
use nic::ring::Slice;
use sim::World;
use sim::disks::{self, DiskServer, Serve, poll_client};
use wire::iscsi::Lun;

use super::case::{Mode, Stage};
use super::load::Pass;
use super::settings::{Digest, Workload};
use super::world::Protocol;

/// The most bytes of data in a PDU that a target may send.
const MAX_DATA: u32 = 256 << 10;
/// Reads of fewer bytes are not mapped.
const MAP_THRESHOLD: u32 = 16 << 10;

/// A protocol whose clients are all of one kind.
pub trait Remote {
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

impl Remote for Nbd {
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

impl Remote for Iscsi {
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
            offload: mode.stage.offload(),
            map_threshold: MAP_THRESHOLD,
        };
        iscsi::Client::new(now, options)
    }
}

impl<R: Remote> Protocol for R {
    const NAME: &'static str = R::NAME;
    const COUNTERS: &'static str = R::NAME;
    const TLS: bool = false;
    const DIGESTS: bool = R::DIGESTS;
    type Client = R::Client;
    type Server = DiskServer<R::Server>;

    fn server(
        world: &mut World,
        settings: &Workload,
        _modes: &[Mode],
    ) -> anyhow::Result<Self::Server> {
        Ok(DiskServer::new(world, settings.working_set))
    }

    fn client(now: Instant, _server: &Self::Server, settings: &Workload, mode: &Mode) -> R::Client {
        R::client(now, settings.depth, mode)
    }

    fn is_ready(client: &mut R::Client) -> anyhow::Result<bool> {
        match client.poll_event() {
            Some(Event::Ready) => Ok(true),
            Some(Event::Ended(Some(failure))) => anyhow::bail!("no connection: {failure}"),
            _ => Ok(false),
        }
    }

    fn poll_client(world: &mut World, client: &mut R::Client) -> bool {
        poll_client(world, client)
    }

    fn poll_server(world: &mut World, server: &mut Self::Server) -> bool {
        server.poll(world)
    }

    fn due(client: &R::Client, _server: &Self::Server) -> Option<Instant> {
        client.poll_timeout()
    }

    fn submit(
        client: &mut R::Client,
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
        Ok(client.submit(access, &[memory])?.index())
    }

    fn poll_done(client: &mut R::Client) -> anyhow::Result<Option<usize>> {
        let Some(completion) = client.poll_completion() else {
            return Ok(None);
        };
        if let Err(failure) = completion.result {
            anyhow::bail!("a command failed: {failure}");
        }
        Ok(Some(completion.id.index()))
    }

    fn clear(server: &mut Self::Server) -> bool {
        server.clear();
        true
    }
}
