//! One download, in a world of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use aws_lc_rs::digest::{Context, Digest, SHA256};
use host::{Event, ListenOptions, Offload, SocketError, SocketId, Stack, read_cycles};
use indicatif::ProgressBar;
use l5p::http::Progress;
use nic::ring::Region;
use port::impair::Impairment;
use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use sim::{Identity, NodeConfig, SERVER_NAME, Suite, World, WorldConfig};

use super::Options;
use super::server::Server;
use crate::bench::case::{Round, Unit};
use crate::bench::tls::{Case, Counted, Direction, Mode, Records, Resyncs, Side};
use crate::bench::{CycleSum, Taken, pcie};
use crate::http;

const CLIENT: usize = 0;
const SERVER: usize = 1;
const PATH: &str = "/file";
/// Each way; the round trip of a small datacentre.
const DELAY: Duration = Duration::from_micros(50);
const TICK: Duration = Duration::from_micros(20);

/// The file: random bytes in memory that a NIC can read.
pub struct Content {
    region: Arc<Region>,
    digest: Digest,
}

impl Content {
    /// A file of that many bytes.
    pub fn new(seed: u64, len: u64) -> Self {
        let region = Region::anonymous(len as usize);
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let mut sha = Context::new(&SHA256);
        let mut piece = vec![0; 1 << 20];
        let mut offset = 0;
        while offset < len {
            let piece = &mut piece[..(len - offset).min(1 << 20) as usize];
            rng.fill_bytes(piece);
            sha.update(piece);
            assert!(
                region.write(offset, piece),
                "the piece is inside of the region"
            );
            offset += piece.len() as u64;
        }
        Self {
            region: Arc::new(region),
            digest: sha.finish(),
        }
    }

    /// Its size in bytes.
    pub fn len(&self) -> u64 {
        self.region.len() as u64
    }

    /// Its SHA-256, in hexadecimal.
    pub fn digest(&self) -> String {
        self.digest
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

/// What a download took.
#[derive(Clone)]
pub struct Download {
    /// The server's round and the client's.
    pub rounds: [Round<Counted>; 2],
    /// Virtual time that it took.
    pub virtual_time: Duration,
}

/// What the downloads in a mode took.
pub struct Downloads {
    /// How the bytes came.
    pub mode: Mode,
    /// The server's row and the client's.
    pub cases: [Case; 2],
    /// Virtual time that the first one took.
    pub virtual_time: Duration,
}

impl Downloads {
    /// Of each host the round with the median of its cycles stands for all rounds of a mode.
    ///
    /// # Panics
    /// When there are none.
    pub fn of(mode: Mode, downloads: &[Download]) -> Self {
        let case = |direction, host: usize| {
            let rounds = downloads.iter();
            let rounds = rounds.map(|download| download.rounds[host].clone());
            Case::median(Unit::BYTE, Side { direction, mode }, rounds.collect())
        };
        Self {
            mode,
            cases: [case(Direction::Tx, 0), case(Direction::Rx, 1)],
            virtual_time: downloads[0].virtual_time,
        }
    }
}

/// Downloads the file.
///
/// # Errors
/// When a connection fails or what came is not the file.
pub fn download(
    options: &Options,
    mode: Mode,
    content: &Content,
    progress: &ProgressBar,
) -> anyhow::Result<Download> {
    let mut world = world(options);
    let address = SocketAddr::new(
        World::address(SERVER, false),
        if mode.secured() { 443 } else { 80 },
    );
    world
        .stack(SERVER)
        .listen(address, ListenOptions::default())?;
    let now = world.now();
    let socket = world.stack(CLIENT).connect(now, address)?;

    let mut pair = Pair::new(mode, content, &mut world, socket)?;
    let mut cycles = CycleSum::start(&world);
    while !pair.client.done {
        let before = pair.client.received;
        let app = pair.poll(&mut world, content)?;
        progress.inc(pair.client.received - before);
        let moved = world.step();
        cycles.step(&world, app);
        if moved {
            world.advance_to(world.now() + TICK);
        } else {
            anyhow::ensure!(
                world.advance(),
                "the download stalled after {} bytes",
                pair.client.received
            );
        }
    }
    anyhow::ensure!(
        pair.client.sha.clone().finish().as_ref() == content.digest.as_ref(),
        "{}: the SHA-256 of the download is wrong",
        mode.label()
    );
    Ok(pair.outcome(&world, content.len(), cycles.sum()))
}

fn world(options: &Options) -> World {
    let mut node = NodeConfig::default();
    node.stack.meter = true;
    let link = Impairment {
        loss: options.loss,
        reorder: options.reorder,
        delay: DELAY,
        ..Impairment::default()
    };
    World::new(WorldConfig {
        seed: options.seed,
        links: vec![link; 2],
        nodes: vec![node; 2],
        granularity: TICK,
        cycle_counter: Some(read_cycles),
        ..WorldConfig::default()
    })
}

/// Both applications.
struct Pair {
    mode: Mode,
    offload: Offload,
    identity: Identity,
    client: Client,
    server: Option<Server>,
    content: http::Content,
    region: nic::ring::RegionId,
    accepted: Option<SocketId>,
}

struct Client {
    socket: SocketId,
    http: l5p::http::Download,
    sha: Context,
    received: u64,
    done: bool,
}

impl Pair {
    fn new(
        mode: Mode,
        content: &Content,
        world: &mut World,
        socket: SocketId,
    ) -> anyhow::Result<Self> {
        let region = world
            .stack(SERVER)
            .register(Arc::clone(&content.region), "the file")?;
        Ok(Self {
            mode,
            offload: if mode.offloaded() {
                Offload::Both
            } else {
                Offload::None
            },
            identity: Identity::new(),
            client: Client {
                socket,
                http: l5p::http::Download::new(),
                sha: Context::new(&SHA256),
                received: 0,
                done: false,
            },
            server: None,
            content: http::Content {
                size: content.len(),
                media_type: "application/octet-stream".into(),
                validators: http::Validators::default(),
            },
            region,
            accepted: None,
        })
    }

    /// Lets both applications do what they can. Answers the cycles that each took, with its calls into the stack.
    fn poll(&mut self, world: &mut World, content: &Content) -> anyhow::Result<[u64; 2]> {
        let now = world.now();
        let start = read_cycles();
        let aside = self.poll_client(now, world.stack(CLIENT), content)?;
        let between = read_cycles();
        self.poll_server(now, world.stack(SERVER))?;
        let mut app = [0; 2];
        app[CLIENT] = (between - start).saturating_sub(aside);
        app[SERVER] = read_cycles() - between;
        Ok(app)
    }

    fn poll_server(&mut self, now: std::time::Instant, stack: &mut Stack) -> anyhow::Result<()> {
        while let Some(event) = stack.poll_event() {
            match event {
                Event::Accepted(listener) => {
                    let socket = stack
                        .accept(listener)
                        .context("a connection that was announced")?;
                    self.accepted = Some(socket);
                    if self.mode.secured() {
                        stack.start_tls(
                            now,
                            socket,
                            self.identity.server(Suite::DEFAULT),
                            self.offload,
                        )?;
                    } else {
                        self.server =
                            Some(Server::new(now, socket, self.content.clone(), self.region));
                    }
                }
                Event::Secured(socket) => {
                    self.server = Some(Server::new(now, socket, self.content.clone(), self.region));
                }
                Event::Closed(_, reason) => {
                    anyhow::ensure!(self.client.done, "the server's connection: {reason}")
                }
                _ => {}
            }
        }
        match &mut self.server {
            Some(server) => server.poll(now, stack),
            None => Ok(()),
        }
    }

    /// Answers the cycles that hashing took.
    fn poll_client(
        &mut self,
        now: std::time::Instant,
        stack: &mut Stack,
        content: &Content,
    ) -> anyhow::Result<u64> {
        let mut aside = 0;
        while let Some(event) = stack.poll_event() {
            match event {
                Event::Connected(socket) if self.mode.secured() => {
                    stack.start_tls(
                        now,
                        socket,
                        self.identity.client(Suite::DEFAULT),
                        self.offload,
                    )?;
                }
                Event::Connected(socket) | Event::Secured(socket) => {
                    let request = format!("GET {PATH} HTTP/1.1\r\nHost: {SERVER_NAME}\r\n\r\n");
                    stack.write(now, socket, request.as_bytes())?;
                }
                Event::Readable(_) => aside += self.client.read(now, stack, content)?,
                Event::Closed(_, reason) => anyhow::bail!("the client's connection: {reason}"),
                _ => {}
            }
        }
        Ok(aside)
    }

    fn outcome(self, world: &World, bytes: u64, cycles: [Taken; 2]) -> Download {
        let round = |node: usize, counted| Round {
            count: bytes,
            taken: cycles[node],
            counted: Counted {
                pcie_bytes: pcie(&world.nic_counters(node)),
                ..counted
            },
            verified: true,
        };
        let tls = world.stack_ref(CLIENT).info(self.client.socket);
        let tls = tls.and_then(|info| info.tls);
        let records = tls.map_or(Records::default(), |tls| Records::of(&tls));
        let resyncs = Resyncs::of(&world.nic_counters(CLIENT));
        let received = Counted {
            records: self.mode.secured().then_some(records),
            resyncs: self.mode.offloaded().then_some(resyncs),
            ..Counted::default()
        };
        let tcp = self
            .accepted
            .and_then(|socket| world.stack_ref(SERVER).info(socket)?.tcp);
        let sent = Counted {
            retransmitted_bytes: tcp.map_or(0, |tcp| tcp.bytes_retrans),
            ..Counted::default()
        };
        Download {
            rounds: [round(SERVER, sent), round(CLIENT, received)],
            virtual_time: world.elapsed(),
        }
    }
}

impl Client {
    /// Reads what there is. Answers the cycles that hashing took: the digest is the demonstration's, not the
    /// download's.
    fn read(
        &mut self,
        now: std::time::Instant,
        stack: &mut Stack,
        content: &Content,
    ) -> anyhow::Result<u64> {
        let mut aside = 0;
        loop {
            let chunk = match stack.read_chunk(now, self.socket) {
                Ok(Some(chunk)) => chunk,
                Ok(None) => {
                    self.http.handle_end()?;
                    self.done = self.http.is_done();
                    return Ok(aside);
                }
                Err(SocketError::WouldBlock) => return Ok(aside),
                Err(error) => return Err(error.into()),
            };
            let mut input = &chunk[..];
            while !input.is_empty() && !self.http.is_done() {
                let (len, progress) = self.http.advance(input)?;
                match progress {
                    Progress::Head(head) => anyhow::ensure!(
                        head.status == 200 && head.content_length == Some(content.len()),
                        "the server answered {} with {:?} bytes",
                        head.status,
                        head.content_length
                    ),
                    Progress::Content => {
                        let start = read_cycles();
                        self.sha.update(&input[..len]);
                        aside += read_cycles() - start;
                        self.received += len as u64;
                    }
                    Progress::Done | Progress::Framing => {}
                }
                input = &input[len..];
            }
            if self.http.is_done() {
                self.done = true;
                return Ok(aside);
            }
        }
    }
}
