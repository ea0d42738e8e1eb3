//! The client: opens connections, sends requests one after the other, checks the responses. Its cycles do not count.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::Context as _;
use hdrhistogram::Histogram;
use host::{Event, SocketError, SocketId, Stack};
use sim::Suite;

use super::messages::Messages;
use super::secure::{End, secure};
use crate::bench::latency::{self, nanos};
use crate::bench::turn::{Talk, slot, work};

/// Connections opened in a turn at most.
const OPENED_AT_ONCE: u32 = 256;

/// A client on our stack.
pub struct Client {
    server: SocketAddr,
    transactions_per_connection: u32,
    at_once: u64,
    /// By the index of its socket.
    connections: Vec<Option<Connection>>,
    opened: u64,
    finished: u64,
    until: u64,
    verified: bool,
    latency: Histogram<u64>,
    secured: Option<Suite>,
    request: Vec<u8>,
    buffer: Vec<u8>,
}

#[derive(Clone, Copy)]
struct Connection {
    socket: SocketId,
    /// Among all connections.
    number: u64,
    /// Transactions done.
    transactions: u32,
    /// Bytes of the request that are written.
    written: u32,
    /// Bytes of the response that came.
    received: u32,
    /// When the transaction began.
    began: Instant,
}

impl Client {
    /// A client of that server, which has so many connections at once.
    ///
    /// # Errors
    /// Never in practice: when there is no such histogram.
    pub fn new(
        server: SocketAddr,
        at_once: u32,
        transactions_per_connection: u32,
        messages: &Messages,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            server,
            transactions_per_connection,
            at_once: at_once.into(),
            connections: Vec::new(),
            opened: 0,
            finished: 0,
            until: 0,
            verified: true,
            latency: latency::histogram(),
            secured: None,
            request: Vec::new(),
            buffer: vec![0; messages.response_len()],
        })
    }

    /// With TLS on its connections, if a suite is given: from their first byte on, with keys that the server knows.
    pub fn secured_by(self, secured: Option<Suite>) -> Self {
        Self { secured, ..self }
    }

    /// Has so many connections more to open.
    pub fn ask_for(&mut self, connections: u64) {
        self.until += connections;
    }

    /// Whether all connections have ended.
    pub fn is_done(&self) -> bool {
        self.finished == self.until
    }

    /// Whether every response was the right one.
    pub fn verified(&self) -> bool {
        self.verified
    }

    /// Nanoseconds from a request to the end of its response; for the first one of a connection from the connection's
    /// beginning.
    pub fn latency(&mut self) -> &mut Histogram<u64> {
        &mut self.latency
    }

    /// Has its turn on a stack of its own: opens connections, and works until nothing is left to do. Answers whether there was anything.
    ///
    /// # Errors
    /// When a connection fails.
    pub fn turn(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        messages: &Messages,
    ) -> anyhow::Result<bool> {
        self.open(now, stack)?;
        work(now, stack, |stack| {
            self.run(&mut Talk {
                now,
                stack,
                messages,
            })
        })
    }

    /// Does what the events of a stack of its own ask for.
    ///
    /// # Errors
    /// When a connection fails.
    pub fn run(&mut self, talk: &mut Talk<'_, Messages>) -> anyhow::Result<()> {
        while let Some(event) = talk.stack.poll_event() {
            self.handle(talk, &event)?;
        }
        Ok(())
    }

    /// Whether an event is about a connection of the client's.
    pub fn is_about(&self, event: &Event) -> bool {
        let (Event::Connected(socket)
        | Event::Readable(socket)
        | Event::Writable(socket)
        | Event::Closed(socket, _)) = event
        else {
            return false;
        };
        self.connection(*socket).is_some()
    }

    fn connection(&self, socket: SocketId) -> Option<Connection> {
        let known = self.connections.get(socket.index()).copied().flatten();
        known.filter(|connection| connection.socket == socket)
    }

    /// Does what an event asks for.
    ///
    /// # Errors
    /// When a connection fails.
    pub fn handle(&mut self, talk: &mut Talk<'_, Messages>, event: &Event) -> anyhow::Result<()> {
        match *event {
            Event::Connected(socket) => {
                if let Some(suite) = self.secured {
                    secure(talk, socket, suite, End::Client)?;
                }
                self.write(talk, socket)
            }
            Event::Writable(socket) => self.write(talk, socket),
            Event::Readable(socket) => self.read(talk, socket),
            Event::Closed(socket, ref reason) => {
                let is_over = self.connection(socket).is_none();
                anyhow::ensure!(is_over, "a connection of the client ended early: {reason}");
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Opens connections as long as there are less than there may be, but not all in one turn.
    ///
    /// # Errors
    /// When there is no port to connect from.
    pub fn open(&mut self, now: Instant, stack: &mut Stack) -> anyhow::Result<()> {
        for _ in 0..OPENED_AT_ONCE {
            if self.opened == self.until || self.opened - self.finished == self.at_once {
                break;
            }
            self.open_one(now, stack)?;
        }
        Ok(())
    }

    fn open_one(&mut self, now: Instant, stack: &mut Stack) -> anyhow::Result<()> {
        let socket = stack
            .connect(now, self.server)
            .context("the client can't connect")?;
        *slot(&mut self.connections, socket) = Some(Connection {
            socket,
            number: self.opened,
            transactions: 0,
            written: 0,
            received: 0,
            began: now,
        });
        self.opened += 1;
        Ok(())
    }

    fn write(&mut self, talk: &mut Talk<'_, Messages>, socket: SocketId) -> anyhow::Result<()> {
        let Some(connection) = &mut self.connections[socket.index()] else {
            return Ok(());
        };
        if connection.transactions == self.transactions_per_connection {
            return Ok(());
        }
        self.request.clear();
        let messages = talk.messages;
        let key = messages.key(connection.transaction(self.transactions_per_connection));
        messages.write_request(key, &mut self.request);
        talk.write_rest(socket, &self.request, &mut connection.written)
            .context("a write of a client failed")?;
        Ok(())
    }

    fn read(&mut self, talk: &mut Talk<'_, Messages>, socket: SocketId) -> anyhow::Result<()> {
        let (now, messages) = (talk.now, talk.messages);
        loop {
            let Some(connection) = &mut self.connections[socket.index()] else {
                return Ok(());
            };
            let place = connection.received as usize;
            let over = connection.transactions == self.transactions_per_connection;
            let len = match talk.stack.read(now, socket, &mut self.buffer[place..]) {
                Ok(0) if over => {
                    let closed = talk.stack.close(now, socket);
                    closed.context("the client can't close")?;
                    self.connections[socket.index()] = None;
                    self.finished += 1;
                    return Ok(());
                }
                Ok(0) => anyhow::bail!("the server closed before its last response"),
                Ok(_) if over => anyhow::bail!("the server sent more than it was asked for"),
                Ok(len) => len,
                Err(SocketError::WouldBlock) => return Ok(()),
                Err(error) => return Err(error).context("a read of the client failed"),
            };
            let key = messages.key(connection.transaction(self.transactions_per_connection));
            let piece = &self.buffer[place..place + len];
            self.verified &= messages.check_response(key, place, piece);
            connection.received += len as u32;
            if connection.received as usize == messages.response_len() {
                self.latency.record(nanos(now - connection.began))?;
                connection.transactions += 1;
                connection.written = 0;
                connection.received = 0;
                connection.began = now;
                self.write(talk, socket)?;
            }
        }
    }
}

impl Connection {
    /// The number of the transaction that goes on, among all.
    fn transaction(&self, of_a_connection: u32) -> u64 {
        self.number * u64::from(of_a_connection) + u64::from(self.transactions)
    }
}
