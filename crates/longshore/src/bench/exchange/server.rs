//! The server: answers requests, and closes after the last one of a connection.

use std::time::Instant;

use anyhow::Context as _;
use host::{Event, ListenerId, SocketError, SocketId, Stack, read_cycles};
use sim::Suite;

use super::messages::Messages;
use super::secure::{End, secure};
use crate::bench::turn::{Talk, slot, work};

/// A server on our stack.
pub struct Server {
    listener: ListenerId,
    transactions_per_connection: u32,
    /// By the index of its socket.
    connections: Vec<Connection>,
    secured: Option<Suite>,
    /// Requests that have come.
    requests: u64,
    buffer: Vec<u8>,
    verified: bool,
    /// Cycles that the check took, in this turn.
    aside: u64,
}

#[derive(Clone, Copy, Default)]
struct Connection {
    /// Transactions whose request came.
    transactions: u32,
    /// Bytes of the request that came.
    received: u32,
    /// Bytes of the response that are written.
    written: u32,
    key: u16,
    /// A response is not yet written as a whole.
    answering: bool,
}

impl Server {
    /// A server behind that listener.
    pub fn new(
        listener: ListenerId,
        messages: &Messages,
        transactions_per_connection: u32,
    ) -> Self {
        Self {
            listener,
            transactions_per_connection,
            connections: Vec::new(),
            secured: None,
            requests: 0,
            buffer: vec![0; messages.request_len()],
            verified: true,
            aside: 0,
        }
    }

    /// With TLS on its connections, if a suite is given: from their first byte on, with keys that the client knows.
    pub fn secured_by(self, secured: Option<Suite>) -> Self {
        Self { secured, ..self }
    }

    /// Requests until now.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Whether every request was the right one.
    pub fn verified(&self) -> bool {
        self.verified
    }

    /// Has its turn on a stack of its own, until nothing is left to do. Answers whether there was anything, and the cycles of it all but
    /// for the check of the bytes.
    ///
    /// # Errors
    /// When a connection fails.
    pub fn turn(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        messages: &Messages,
    ) -> anyhow::Result<(bool, u64)> {
        let (start, mut aside) = (read_cycles(), 0);
        let moved = work(now, stack, |stack| {
            aside += self.run(&mut Talk {
                now,
                stack,
                messages,
            })?;
            Ok(())
        })?;
        Ok((moved, read_cycles() - start - aside))
    }

    /// Does what there is to do on a stack of its own. Answers the cycles that the check of the bytes took.
    ///
    /// # Errors
    /// When a connection fails.
    pub fn run(&mut self, talk: &mut Talk<'_, Messages>) -> anyhow::Result<u64> {
        self.aside = 0;
        while let Some(event) = talk.stack.poll_event() {
            self.handle(talk, &event)?;
        }
        Ok(self.aside)
    }

    /// Does what an event asks for.
    ///
    /// # Errors
    /// When a connection fails.
    pub fn handle(&mut self, talk: &mut Talk<'_, Messages>, event: &Event) -> anyhow::Result<()> {
        match *event {
            Event::Accepted(_) => {
                while let Some(socket) = talk.stack.accept(self.listener) {
                    *slot(&mut self.connections, socket) = Connection::default();
                    if let Some(suite) = self.secured {
                        secure(talk, socket, suite, End::Server)?;
                    }
                }
                Ok(())
            }
            Event::Readable(socket) => self.read(talk, socket),
            Event::Writable(socket) => self.answer(talk, socket),
            Event::Closed(_, ref reason) => {
                anyhow::bail!("a connection of the server ended early: {reason}")
            }
            _ => Ok(()),
        }
    }

    fn read(&mut self, talk: &mut Talk<'_, Messages>, socket: SocketId) -> anyhow::Result<()> {
        let connection = &mut self.connections[socket.index()];
        while !connection.answering {
            let place = connection.received as usize;
            let read = talk.stack.read(talk.now, socket, &mut self.buffer[place..]);
            let len = match read {
                Ok(0) => anyhow::bail!("the client closed before its last request"),
                Ok(len) => len,
                Err(SocketError::WouldBlock) => return Ok(()),
                Err(error) => return Err(error).context("a read of the server failed"),
            };
            let start = read_cycles();
            let piece = &self.buffer[place..place + len];
            self.verified &= talk
                .messages
                .take_request(&mut connection.key, place, piece);
            self.aside += read_cycles() - start;
            connection.received += len as u32;
            if connection.received as usize == talk.messages.request_len() {
                connection.answering = true;
                self.requests += 1;
                if !answer(talk, socket, connection, self.transactions_per_connection)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn answer(&mut self, talk: &mut Talk<'_, Messages>, socket: SocketId) -> anyhow::Result<()> {
        let connection = &mut self.connections[socket.index()];
        let last = self.transactions_per_connection;
        if connection.answering && answer(talk, socket, connection, last)? {
            self.read(talk, socket)?;
        }
        Ok(())
    }
}

/// Writes what is left of a response. Answers whether another request may come.
fn answer(
    talk: &mut Talk<'_, Messages>,
    socket: SocketId,
    connection: &mut Connection,
    last: u32,
) -> anyhow::Result<bool> {
    let response = talk.messages.response(connection.key);
    let written = talk.write_rest(socket, response, &mut connection.written);
    if !written.context("a write of the server failed")? {
        return Ok(false);
    }
    let transactions = connection.transactions + 1;
    *connection = Connection {
        transactions,
        ..Connection::default()
    };
    if transactions < last {
        return Ok(true);
    }
    let closed = talk.stack.close(talk.now, socket);
    closed.context("the server can't close")?;
    Ok(false)
}
