//! The clients: each keeps its connection, and asks for a file whenever it is its turn. Their cycles do not count.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Instant;

use anyhow::Context as _;
use hdrhistogram::Histogram;
use host::{Event, SocketError, SocketId};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use super::pages::Pages;
use crate::bench::latency::{self, nanos};
use crate::bench::turn::{Talk, slot};

/// Connections opened in a turn at most.
const OPENED_AT_ONCE: u32 = 256;

/// Clients on one stack.
pub struct Clients {
    server: SocketAddr,
    wanted: u32,
    opened: u32,
    established: u32,
    /// By the index of its socket.
    connections: Vec<Option<Connection>>,
    /// Connections whose client waits for its turn to ask, the longest first.
    idle: VecDeque<usize>,
    /// Requests under way at most.
    at_once: u64,
    /// Requests that are still to be made.
    left: u64,
    /// Requests that are made and not answered.
    open: u64,
    random: Pcg64Mcg,
    verified: bool,
    latency: Histogram<u64>,
    request: Vec<u8>,
    buffer: Vec<u8>,
}

#[derive(Clone, Copy)]
struct Connection {
    socket: SocketId,
    /// The file that was asked for.
    file: u32,
    /// Bytes of the request that are written.
    written: u32,
    /// Bytes of the response that came.
    received: u32,
    /// When it was asked for.
    began: Instant,
    /// There is a request whose response is not here.
    asks: bool,
}

impl Clients {
    /// So many clients of that server, of which so many ask at the same time.
    ///
    /// # Errors
    /// Never in practice: when there is no such histogram.
    pub fn new(
        server: SocketAddr,
        (clients, at_once): (u32, u32),
        pages: &Pages,
        seed: u64,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            server,
            wanted: clients,
            opened: 0,
            established: 0,
            connections: Vec::new(),
            idle: VecDeque::new(),
            at_once: at_once.into(),
            left: 0,
            open: 0,
            random: Pcg64Mcg::seed_from_u64(seed),
            verified: true,
            latency: latency::histogram(),
            request: Vec::new(),
            buffer: vec![0; pages.response_len()],
        })
    }

    /// Has so many requests more to make, over all connections.
    pub fn ask_for(&mut self, requests: u64) {
        self.left += requests;
    }

    /// Whether every client has its connection and every request its response.
    pub fn is_done(&self) -> bool {
        self.established == self.wanted && self.left == 0 && self.open == 0
    }

    /// Whether every response was the right one.
    pub fn verified(&self) -> bool {
        self.verified
    }

    /// Nanoseconds from a request to the end of its response.
    pub fn latency(&mut self) -> &mut Histogram<u64> {
        &mut self.latency
    }

    /// Does what there is to do without an event: opens connections, but not all in one turn, and makes requests where
    /// there was nothing to ask for.
    ///
    /// # Errors
    /// When there is no port to connect from, or a connection fails.
    pub fn start(&mut self, talk: &mut Talk<'_, Pages>) -> anyhow::Result<()> {
        for _ in 0..OPENED_AT_ONCE.min(self.wanted - self.opened) {
            let connected = talk.stack.connect(talk.now, self.server);
            let socket = connected.context("a client can't connect")?;
            *slot(&mut self.connections, socket) = Some(Connection {
                socket,
                file: 0,
                written: 0,
                received: 0,
                began: talk.now,
                asks: false,
            });
            self.opened += 1;
        }
        self.ask(talk)
    }

    /// Does what the events ask for.
    ///
    /// # Errors
    /// When a connection fails.
    pub fn run(&mut self, talk: &mut Talk<'_, Pages>) -> anyhow::Result<()> {
        while let Some(event) = talk.stack.poll_event() {
            match event {
                Event::Connected(socket) => {
                    self.established += 1;
                    self.idle.push_back(socket.index());
                    self.read(talk, socket.index())?;
                }
                Event::Writable(socket) => self.write(talk, socket.index())?,
                Event::Readable(socket) => self.read(talk, socket.index())?,
                Event::Closed(_, reason) => {
                    anyhow::bail!("a connection of a client ended: {reason}")
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Has clients ask for files, as many as may and have not been asking for the longest time.
    fn ask(&mut self, talk: &mut Talk<'_, Pages>) -> anyhow::Result<()> {
        while self.left > 0 && self.open < self.at_once {
            let Some(at) = self.idle.pop_front() else {
                break;
            };
            let Some(connection) = self.connections[at].as_mut() else {
                continue;
            };
            self.left -= 1;
            self.open += 1;
            *connection = Connection {
                socket: connection.socket,
                file: self.random.random_range(0..talk.messages.files()),
                written: 0,
                received: 0,
                began: talk.now,
                asks: true,
            };
            self.write(talk, at)?;
        }
        Ok(())
    }

    fn write(&mut self, talk: &mut Talk<'_, Pages>, at: usize) -> anyhow::Result<()> {
        let connection = self.connections[at].as_mut();
        let Some(connection) = connection.filter(|connection| connection.asks) else {
            return Ok(());
        };
        talk.messages
            .write_request(connection.file, &mut self.request);
        let (socket, request) = (connection.socket, &self.request[..]);
        talk.write_rest(socket, request, &mut connection.written)
            .context("a write of a client failed")?;
        Ok(())
    }

    fn read(&mut self, talk: &mut Talk<'_, Pages>, at: usize) -> anyhow::Result<()> {
        let (now, pages) = (talk.now, talk.messages);
        loop {
            let Some(connection) = self.connections[at].as_mut() else {
                return Ok(());
            };
            let place = connection.received as usize;
            // With no room left, a read would not tell more from nothing.
            let room = if connection.asks { place } else { 0 };
            let buffer = &mut self.buffer[room..];
            let len = match talk.stack.read(now, connection.socket, buffer) {
                Ok(0) => anyhow::bail!("the server closed a connection"),
                Ok(_) if !connection.asks => {
                    anyhow::bail!("the server sent more than it was asked for")
                }
                Ok(len) => len,
                Err(SocketError::WouldBlock) => return Ok(()),
                Err(error) => return Err(error).context("a read of a client failed"),
            };
            let piece = &self.buffer[place..place + len];
            self.verified &= pages.check_response(connection.file, place, piece);
            connection.received += len as u32;
            if connection.received as usize == pages.response_len() {
                connection.asks = false;
                self.latency.record(nanos(now - connection.began))?;
                self.open -= 1;
                self.idle.push_back(at);
                self.ask(talk)?;
            }
        }
    }
}
