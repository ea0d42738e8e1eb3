//! The server: answers requests for one file, sent from registered memory without a copy.

use std::collections::VecDeque;
use std::time::{Instant, SystemTime};

use host::{SocketError, SocketId, Stack};
use nic::ring::{RegionId, Slice};

use crate::http::{self, Action, Connection, Limits, Piece};

/// One connection's state.
pub struct Server {
    socket: SocketId,
    http: Connection,
    content: http::Content,
    region: RegionId,
    /// What is left to send.
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece that are sent.
    sent: u64,
    keep_alive: bool,
}

impl Server {
    /// A connection that is ready for requests.
    pub fn new(now: Instant, socket: SocketId, content: http::Content, region: RegionId) -> Self {
        Self {
            socket,
            http: Connection::new(now, Limits::default()),
            content,
            region,
            pieces: VecDeque::new(),
            sent: 0,
            keep_alive: true,
        }
    }

    /// Does all that can be done now.
    pub fn poll(&mut self, now: Instant, stack: &mut Stack) -> anyhow::Result<()> {
        let mut buffer = [0; 4096];
        loop {
            let room = self.http.room().min(buffer.len());
            match stack.read(now, self.socket, &mut buffer[..room]) {
                Ok(0) => {
                    self.http.handle_end();
                    break;
                }
                Ok(len) => self.http.handle_input(now, &buffer[..len]),
                Err(SocketError::WouldBlock) => break,
                Err(error) => return Err(error.into()),
            }
        }
        while self.pieces.is_empty() {
            match self.http.poll_action(now) {
                Some(Action::Serve(request)) => {
                    let response =
                        http::plan(&request, &self.content, SystemTime::now(), "boundary");
                    self.keep_alive = response.keep_alive;
                    self.pieces = response.content.into();
                    let head = response.head.into_bytes();
                    self.pieces.push_front(Piece::Bytes(head));
                }
                Some(Action::Refuse { status, .. }) => {
                    anyhow::bail!("the request was refused with {status}")
                }
                Some(Action::Close) | None => return Ok(()),
            }
        }
        self.send(now, stack)
    }

    fn send(&mut self, now: Instant, stack: &mut Stack) -> anyhow::Result<()> {
        while let Some(piece) = self.pieces.front() {
            let (result, len) = match piece {
                Piece::Bytes(bytes) => (
                    stack.write(now, self.socket, &bytes[self.sent as usize..]),
                    bytes.len() as u64,
                ),
                Piece::File(range) => {
                    let left = (range.len - self.sent).min(1 << 20) as u32;
                    let slice = Slice {
                        region: self.region,
                        offset: range.start + self.sent,
                        len: left,
                    };
                    (stack.send_slices(now, self.socket, &[slice]), range.len)
                }
            };
            match result {
                Ok(sent) => self.sent += sent as u64,
                Err(SocketError::WouldBlock) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
            if self.sent == len {
                self.pieces.pop_front();
                self.sent = 0;
            }
        }
        self.http.responded(now, self.keep_alive);
        if !self.keep_alive {
            stack.shutdown(now, self.socket)?;
        }
        Ok(())
    }
}
