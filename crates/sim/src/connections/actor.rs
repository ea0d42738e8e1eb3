//! An application at one end of a connection.

use std::fmt;
use std::time::Instant;

use host::{CloseReason, SocketError, SocketId, Stack};
use nic::ring::{RegionId, Slice};

use super::{Operation, Reads, Script};

/// How one side ended.
#[derive(Clone, Debug)]
pub struct End {
    /// All that it read.
    pub received: Vec<u8>,
    /// It never read anything.
    pub never_read: bool,
    /// Whether it read to the end of the stream.
    pub eof: bool,
    /// Why the connection ended, if it did before this side let it go.
    pub closed: Option<CloseReason>,
}

impl End {
    /// Whether the network would not carry the connection on.
    pub fn is_cut_off(&self) -> bool {
        matches!(
            self.closed,
            Some(CloseReason::Unreachable | CloseReason::TimedOut | CloseReason::NicReset)
        )
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "end of stream {}, closed {:?}", self.eof, self.closed)
    }
}

pub(super) struct Actor {
    /// The node that has its connection, once there is one.
    pub(super) node: usize,
    pub(super) socket: Option<SocketId>,
    pub(super) is_connected: bool,
    pub(super) closed: Option<CloseReason>,
    /// The socket is given up.
    pub(super) has_left: bool,
    script: Script,
    next: usize,
    /// Bytes of the operation under way that are written.
    done: u32,
    waits_until: Option<Instant>,
    stream: Vec<u8>,
    /// Registered memory that holds the stream, and where.
    memory: (RegionId, u64),
    written: usize,
    received: Vec<u8>,
    eof: bool,
}

impl Actor {
    pub(super) fn new(
        script: Script,
        node: usize,
        stream: Vec<u8>,
        memory: (RegionId, u64),
    ) -> Self {
        Self {
            node,
            socket: None,
            is_connected: false,
            closed: None,
            has_left: false,
            script,
            next: 0,
            done: 0,
            waits_until: None,
            stream,
            memory,
            written: 0,
            received: Vec::new(),
            eof: false,
        }
    }

    /// When an operation that waits goes on.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.waits_until.filter(|_| !self.has_left)
    }

    /// Whether its connection is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.socket.is_some() && !self.has_left
    }

    /// Bytes that it has written.
    pub(super) fn written(&self) -> u64 {
        self.written as u64
    }

    pub(super) fn end(self) -> End {
        End {
            received: self.received,
            never_read: self.script.reads == Reads::Never,
            eof: self.eof,
            closed: self.closed,
        }
    }

    /// How far it is, for a report.
    pub(super) fn position(&self) -> String {
        format!(
            "operation {} of {}, {} of {} bytes written, {} read, end of stream {}, closed {:?}",
            self.next,
            self.script.operations.len(),
            self.written,
            self.stream.len(),
            self.received.len(),
            self.eof,
            self.closed
        )
    }

    /// Reads what there is, and goes on with the operations. Answers whether anything was done.
    pub(super) fn poll(&mut self, now: Instant, stack: &mut Stack) -> bool {
        let Some(socket) = self.socket.filter(|_| !self.has_left) else {
            return false;
        };
        let mut moved = self.read(now, stack, socket);
        if self.closed.is_some() {
            let _ = stack.close(now, socket);
            self.has_left = true;
            return true;
        }
        while self.is_connected && !self.has_left && self.operate(now, stack, socket) {
            moved = true;
            moved |= !self.has_left && self.read(now, stack, socket);
        }
        moved
    }

    fn read(&mut self, now: Instant, stack: &mut Stack, socket: SocketId) -> bool {
        let mut moved = false;
        while !self.eof {
            let before = self.received.len();
            let result = match self.script.reads {
                Reads::Copied(most) => {
                    self.received.resize(before + most, 0);
                    let result = stack.read(now, socket, &mut self.received[before..]);
                    let read = result.as_ref().map_or(0, |len| *len);
                    self.received.truncate(before + read);
                    result.map(|len| len > 0)
                }
                Reads::InPlace => stack.read_chunk(now, socket).map(|chunk| {
                    if let Some(chunk) = &chunk {
                        self.received.extend_from_slice(chunk);
                    }
                    chunk.is_some()
                }),
                Reads::Never => return false,
            };
            match result {
                Ok(true) => moved = true,
                Ok(false) => {
                    self.eof = true;
                    moved = true;
                }
                Err(_) => break,
            }
        }
        moved
    }

    /// One step of the operation under way.
    fn operate(&mut self, now: Instant, stack: &mut Stack, socket: SocketId) -> bool {
        let operation = self.script.operations.get(self.next).copied();
        let never = self.script.reads == Reads::Never;
        match operation.unwrap_or(Operation::Close) {
            Operation::Write(bytes) => {
                let left = &self.stream[self.written..][..(bytes - self.done) as usize];
                let result = match left {
                    [] => Ok(0),
                    _ => stack.write(now, socket, left),
                };
                self.wrote(result, bytes)
            }
            Operation::Send(bytes) => {
                let (region, start) = self.memory;
                let slice = Slice {
                    region,
                    offset: start + self.written as u64,
                    len: bytes - self.done,
                };
                let result = match slice.len {
                    0 => Ok(0),
                    _ => stack.send_slices(now, socket, &[slice]),
                };
                self.wrote(result, bytes)
            }
            Operation::Wait(time) => {
                let until = *self.waits_until.get_or_insert(now + time);
                now >= until && self.finish()
            }
            Operation::Await(bytes) => {
                (never || self.eof || self.received.len() >= bytes as usize) && self.finish()
            }
            Operation::AwaitEnd => (never || self.eof) && self.finish(),
            Operation::Shutdown => {
                stack.shutdown(now, socket).expect("the socket is there");
                self.finish()
            }
            Operation::Close => {
                stack.close(now, socket).expect("the socket is there");
                self.leave()
            }
            Operation::Abort => {
                stack.abort(now, socket).expect("the socket is there");
                self.leave()
            }
        }
    }

    /// A part of an operation of so many bytes was written, or not. Answers whether anything was done.
    fn wrote(&mut self, result: Result<usize, SocketError>, bytes: u32) -> bool {
        match result {
            Ok(written) => {
                self.written += written;
                self.done += written as u32;
                if self.done == bytes {
                    self.finish();
                }
                true
            }
            // If it is closed, the event is on its way.
            Err(SocketError::WouldBlock | SocketError::Closed(_)) => false,
            Err(error) => panic!("a write failed: {error}; {}", self.position()),
        }
    }

    /// Resets the connection, if it is under way.
    pub(super) fn give_up(&mut self, now: Instant, stack: &mut Stack) -> bool {
        let Some(socket) = self.socket.filter(|_| !self.has_left) else {
            return false;
        };
        let _ = stack.abort(now, socket);
        self.leave()
    }

    fn leave(&mut self) -> bool {
        self.has_left = true;
        self.finish()
    }

    fn finish(&mut self) -> bool {
        self.next += 1;
        self.done = 0;
        self.waits_until = None;
        true
    }
}
