//! The server: answers requests, and closes after the last one of a connection.

use std::time::Instant;

use anyhow::Context as _;
use host::{Event, ListenerId, SocketError, SocketId, Stack, read_cycles};

use super::messages::Messages;

/// A server on our stack.
pub struct Server {
    listener: ListenerId,
    transactions_per_connection: u32,
    /// By the index of its socket.
    connections: Vec<Connection>,
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
            buffer: vec![0; messages.request_len()],
            verified: true,
            aside: 0,
        }
    }

    /// Whether every request was the right one.
    pub fn verified(&self) -> bool {
        self.verified
    }

    /// Does what there is to do on a stack of its own. Answers the cycles that the check of the bytes took.
    ///
    /// # Errors
    /// When a connection fails.
    pub fn run(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        messages: &Messages,
    ) -> anyhow::Result<u64> {
        self.aside = 0;
        while let Some(event) = stack.poll_event() {
            self.handle(now, stack, messages, &event)?;
        }
        Ok(self.aside)
    }

    /// Does what an event asks for.
    ///
    /// # Errors
    /// When a connection fails.
    pub fn handle(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        messages: &Messages,
        event: &Event,
    ) -> anyhow::Result<()> {
        match *event {
            Event::Accepted(_) => {
                self.accept(stack);
                Ok(())
            }
            Event::Readable(socket) => self.read(now, stack, messages, socket),
            Event::Writable(socket) => self.answer(now, stack, messages, socket),
            Event::Closed(_, ref reason) => {
                anyhow::bail!("a connection of the server ended early: {reason}")
            }
            _ => Ok(()),
        }
    }

    fn accept(&mut self, stack: &mut Stack) {
        while let Some(socket) = stack.accept(self.listener) {
            let at = socket.index();
            if self.connections.len() <= at {
                self.connections.resize(at + 1, Connection::default());
            }
            self.connections[at] = Connection::default();
        }
    }

    fn read(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        messages: &Messages,
        socket: SocketId,
    ) -> anyhow::Result<()> {
        let connection = &mut self.connections[socket.index()];
        while !connection.answering {
            let place = connection.received as usize;
            let len = match stack.read(now, socket, &mut self.buffer[place..]) {
                Ok(0) => anyhow::bail!("the client closed before its last request"),
                Ok(len) => len,
                Err(SocketError::WouldBlock) => return Ok(()),
                Err(error) => return Err(error).context("a read of the server failed"),
            };
            let start = read_cycles();
            let piece = &self.buffer[place..place + len];
            self.verified &= messages.take_request(&mut connection.key, place, piece);
            self.aside += read_cycles() - start;
            connection.received += len as u32;
            if connection.received as usize == messages.request_len() {
                connection.answering = true;
                if !answer(
                    now,
                    stack,
                    messages,
                    socket,
                    connection,
                    self.transactions_per_connection,
                )? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn answer(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        messages: &Messages,
        socket: SocketId,
    ) -> anyhow::Result<()> {
        let connection = &mut self.connections[socket.index()];
        let last = self.transactions_per_connection;
        if connection.answering && answer(now, stack, messages, socket, connection, last)? {
            self.read(now, stack, messages, socket)?;
        }
        Ok(())
    }
}

/// Writes what is left of a response. Answers whether another request may come.
fn answer(
    now: Instant,
    stack: &mut Stack,
    messages: &Messages,
    socket: SocketId,
    connection: &mut Connection,
    last: u32,
) -> anyhow::Result<bool> {
    let response = messages.response(connection.key);
    while (connection.written as usize) < response.len() {
        match stack.write(now, socket, &response[connection.written as usize..]) {
            Ok(len) => connection.written += len as u32,
            Err(SocketError::WouldBlock) => return Ok(false),
            Err(error) => return Err(error).context("a write of the server failed"),
        }
    }
    let transactions = connection.transactions + 1;
    *connection = Connection {
        transactions,
        ..Connection::default()
    };
    if transactions < last {
        return Ok(true);
    }
    stack.close(now, socket).context("the server can't close")?;
    Ok(false)
}
