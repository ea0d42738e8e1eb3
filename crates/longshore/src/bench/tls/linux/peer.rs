//! Our side: NIC and host behind the TAP, the same receiver and sender as in every other mode.

use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use host::{CloseReason, Event, ListenOptions, Offload, SocketError, SocketId, Stack, StackConfig};
use nic::ring::RegionId;
use port::impair::{Impair, Impairments};
use port::tap::Tap;
use sim::{Identity, Suite};

use super::{Settings, Source};
use crate::bench::tap::TapHost;
use crate::bench::tap::namespace::OURS;

/// Where our host listens.
pub const PORT: u16 = 443;
/// First byte of a connection on which Linux sends.
pub const SEND: u8 = b's';
/// First byte of a connection on which Linux receives, and what it asks for each round with.
pub const RECEIVE: u8 = b'r';

/// Longest time without a step forward.
const PATIENCE: Duration = Duration::from_secs(60);

/// Serves until `finished`. Answers whether all that came was right.
pub fn run(
    settings: &Settings,
    tap: Tap,
    source: &Source,
    identity: &Identity,
    ready: &SyncSender<()>,
    finished: impl Fn() -> bool,
) -> anyhow::Result<bool> {
    let mut peer = peer(settings, tap)?;
    let region = peer
        .stack
        .register(source.region(), "the benchmark's payload")?;
    peer.stack.listen(
        SocketAddr::new(IpAddr::V4(OURS), PORT),
        ListenOptions::default(),
    )?;
    ready.send(()).context("Linux's thread has ended")?;

    let mut connections: Vec<Connection> = Vec::new();
    let mut verified = true;
    let mut moved_at = Instant::now();
    while !finished() {
        let now = Instant::now();
        let mut moved = peer.poll(now)?;
        take_events(&mut peer.stack, now, identity, &mut connections)?;
        for connection in &mut connections {
            moved |= connection.poll(
                now,
                &mut peer.stack,
                settings,
                source,
                region,
                &mut verified,
            )?;
        }
        if moved {
            moved_at = now;
        } else {
            anyhow::ensure!(
                now - moved_at < PATIENCE,
                "nothing has come over the TAP for {PATIENCE:?}"
            );
            std::hint::spin_loop();
        }
    }
    Ok(verified)
}

/// Keeps the list of connections.
fn take_events(
    stack: &mut Stack,
    now: Instant,
    identity: &Identity,
    connections: &mut Vec<Connection>,
) -> anyhow::Result<()> {
    while let Some(event) = stack.poll_event() {
        match event {
            Event::Accepted(listener) => {
                let socket = stack
                    .accept(listener)
                    .context("a connection that was announced")?;
                let server = identity.server(Suite::DEFAULT);
                stack.start_tls(now, socket, server, Offload::Both)?;
                connections.push(Connection::new(socket));
            }
            Event::Closed(socket, _) => connections.retain(|one| one.socket != socket),
            _ => {}
        }
    }
    Ok(())
}

/// Our host, behind a TAP that loses and delays as the settings say.
fn peer(settings: &Settings, tap: Tap) -> anyhow::Result<TapHost<Impair<Tap>>> {
    let impairment = settings.faults.impairment();
    let port = Impair::new(tap, Impairments::both(impairment), settings.seed);
    TapHost::new(Instant::now(), port, StackConfig::default())
}

/// One connection from Linux.
struct Connection {
    socket: SocketId,
    /// The first byte, once it came.
    what: Option<u8>,
    /// Bytes that came, or went out.
    position: u64,
    /// Bytes that are asked for and not yet sent.
    owed: u64,
    /// An answer that is due.
    answer: bool,
    buffer: Vec<u8>,
}

impl Connection {
    fn new(socket: SocketId) -> Self {
        Self {
            socket,
            what: None,
            position: 0,
            owed: 0,
            answer: false,
            buffer: vec![0; 1 << 16],
        }
    }

    fn poll(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        settings: &Settings,
        source: &Source,
        region: RegionId,
        verified: &mut bool,
    ) -> anyhow::Result<bool> {
        let mut moved = false;
        while let Some(len) = would_block(stack.read(now, self.socket, &mut self.buffer))? {
            if len == 0 {
                break;
            }
            moved = true;
            let mut bytes = &self.buffer[..len];
            if self.what.is_none() {
                self.what = Some(bytes[0]);
                bytes = &bytes[1..];
            }
            if self.what == Some(SEND) {
                *verified &= source.verify(0, self.position, bytes);
                let rounds = self.position / settings.bytes;
                self.position += bytes.len() as u64;
                self.answer |= self.position / settings.bytes > rounds;
            } else {
                self.owed += settings.bytes * bytes.len() as u64;
            }
        }
        if self.answer && would_block(stack.write(now, self.socket, b"!"))?.is_some() {
            self.answer = false;
            moved = true;
        }
        while self.owed > 0 {
            let len = self.owed.min(u64::from(settings.message_bytes)) as u32;
            let slice = source.slice(region, 0, self.position, len);
            let Some(sent) = would_block(stack.send_slices(now, self.socket, &[slice]))? else {
                break;
            };
            self.position += sent as u64;
            self.owed -= sent as u64;
            moved = true;
        }
        Ok(moved)
    }
}

fn would_block(result: Result<usize, SocketError>) -> anyhow::Result<Option<usize>> {
    match result {
        Ok(len) => Ok(Some(len)),
        Err(SocketError::WouldBlock | SocketError::NotConnected) => Ok(None),
        // Linux's thread has ended; whether that was all right is for it to say.
        Err(SocketError::Closed(
            CloseReason::Graceful | CloseReason::Reset | CloseReason::Truncated,
        )) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
