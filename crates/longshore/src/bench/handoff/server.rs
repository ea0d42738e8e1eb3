//! The server: answers each request with a head, which is copied, and a file, which is not.

use anyhow::Context as _;
use host::{Event, ListenerId, SocketError, SocketId};
use nic::ring::RegionId;

use super::pages::{MAX_REQUEST, Pages, Parsed};
use crate::bench::turn::{Talk, slot};

/// A server on our stack.
pub struct Server {
    listener: ListenerId,
    region: RegionId,
    /// By the index of its socket.
    connections: Vec<Connection>,
    buffer: [u8; MAX_REQUEST],
}

#[derive(Clone, Default)]
struct Connection {
    socket: Option<SocketId>,
    /// A request that has not come as a whole.
    part: Vec<u8>,
    /// A response that is not written as a whole.
    response: Option<Response>,
}

#[derive(Clone, Copy)]
struct Response {
    file: u32,
    /// Bytes of head and file that are written.
    written: usize,
}

impl Server {
    /// A server behind that listener, which has the files registered.
    pub fn new(listener: ListenerId, region: RegionId) -> Self {
        Self {
            listener,
            region,
            connections: Vec::new(),
            buffer: [0; MAX_REQUEST],
        }
    }

    /// The server's ends of all connections.
    pub fn sockets(&self) -> impl Iterator<Item = SocketId> + '_ {
        self.connections
            .iter()
            .filter_map(|connection| connection.socket)
    }

    /// Does what the events ask for.
    ///
    /// # Errors
    /// When a connection fails, or a request is none.
    pub fn run(&mut self, talk: &mut Talk<'_, Pages>) -> anyhow::Result<()> {
        while let Some(event) = talk.stack.poll_event() {
            match event {
                Event::Accepted(_) => {
                    while let Some(socket) = talk.stack.accept(self.listener) {
                        *slot(&mut self.connections, socket) = Connection {
                            socket: Some(socket),
                            ..Connection::default()
                        };
                    }
                }
                Event::Readable(socket) => self.read(talk, socket)?,
                Event::Writable(socket) => self.go_on(talk, socket)?,
                Event::Closed(_, reason) => {
                    anyhow::bail!("a connection of the server ended: {reason}")
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn read(&mut self, talk: &mut Talk<'_, Pages>, socket: SocketId) -> anyhow::Result<()> {
        let pages = talk.messages;
        loop {
            let connection = &mut self.connections[socket.index()];
            if connection.response.is_some() {
                return Ok(());
            }
            let len = match talk.stack.read(talk.now, socket, &mut self.buffer) {
                Ok(0) => anyhow::bail!("a client closed its connection"),
                Ok(len) => len,
                Err(SocketError::WouldBlock) => return Ok(()),
                Err(error) => return Err(error).context("a read of the server failed"),
            };
            let parsed = if connection.part.is_empty() {
                pages.parse(&self.buffer[..len])
            } else {
                connection.part.extend_from_slice(&self.buffer[..len]);
                pages.parse(&connection.part)
            };
            match parsed {
                Parsed::File(file) => {
                    connection.part.clear();
                    connection.response = Some(Response { file, written: 0 });
                    self.answer(talk, socket)?;
                }
                Parsed::Part if connection.part.is_empty() => {
                    connection.part.extend_from_slice(&self.buffer[..len]);
                }
                Parsed::Part => {}
                Parsed::Wrong => anyhow::bail!("a client sent what is no request"),
            }
        }
    }

    /// Writes on, and reads when all is written.
    fn go_on(&mut self, talk: &mut Talk<'_, Pages>, socket: SocketId) -> anyhow::Result<()> {
        match self.answer(talk, socket)? {
            true => self.read(talk, socket),
            false => Ok(()),
        }
    }

    /// Writes what is left of a response. Answers whether all of it is written.
    fn answer(&mut self, talk: &mut Talk<'_, Pages>, socket: SocketId) -> anyhow::Result<bool> {
        let Talk {
            now,
            stack,
            messages: pages,
        } = talk;
        let connection = &mut self.connections[socket.index()];
        let Some(response) = &mut connection.response else {
            return Ok(true);
        };
        let head = pages.head();
        while response.written < pages.response_len() {
            let written = if response.written < head.len() {
                stack.write(*now, socket, &head[response.written..])
            } else {
                let offset = (response.written - head.len()) as u32;
                let rest = pages.slice(self.region, response.file, offset);
                stack.send_slices(*now, socket, &[rest])
            };
            match written {
                Ok(len) => response.written += len,
                Err(SocketError::WouldBlock) => return Ok(false),
                Err(error) => return Err(error).context("a write of the server failed"),
            }
        }
        connection.response = None;
        Ok(true)
    }
}
