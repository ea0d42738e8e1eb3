//! The application on one side: goes through its operations and reads what comes.

use std::time::Instant;

use host::{
    CloseReason, Event, ListenerId, Offload, ReadChunks, SocketError, SocketId, Stack, TlsRole,
};
use l5p::tls::CryptoInfo;
use nic::ring::{RegionId, Slice};

use super::run::is_cut_off;
use super::{Operation, Reads, Side};

/// How the connection gets its keys, from one side's point of view.
pub(super) enum Session {
    Handshake(TlsRole),
    Installed {
        transmit: CryptoInfo,
        receive: CryptoInfo,
    },
}

pub(super) struct Endpoint {
    side: Side,
    offload: Offload,
    session: Option<Session>,
    key_updates: bool,
    pub(super) socket: Option<SocketId>,
    /// Whether writes carry plaintext of the session from here on.
    pub(super) secured: bool,

    operations: Vec<Operation>,
    next: usize,
    /// Bytes of the operation under way that are written.
    done: u32,
    waits_until: Option<Instant>,
    stream: Vec<u8>,
    region: RegionId,
    written: usize,

    reads: Reads,
    pub(super) received: Vec<u8>,
    pub(super) eof: bool,
    pub(super) closed: Option<CloseReason>,
}

impl Endpoint {
    /// `region` holds the stream.
    pub(super) fn new(
        side: Side,
        session: Session,
        offload: Offload,
        (stream, region): (&[u8], RegionId),
        operations: &[Operation],
        reads: Reads,
    ) -> Self {
        Self {
            side,
            offload,
            key_updates: matches!(session, Session::Handshake(_)),
            session: Some(session),
            socket: None,
            secured: false,
            operations: operations.to_vec(),
            next: 0,
            done: 0,
            waits_until: None,
            stream: stream.to_vec(),
            region,
            written: 0,
            reads,
            received: Vec::new(),
            eof: false,
            closed: None,
        }
    }

    pub(super) fn side(&self) -> Side {
        self.side
    }

    /// Whether there is nothing more to do or to come.
    pub(super) fn is_done(&self) -> bool {
        self.closed.is_some()
    }

    /// Whether the network would not carry the connection on.
    pub(super) fn is_cut_off(&self) -> bool {
        is_cut_off(self.closed.as_ref())
    }

    /// When an operation that waits goes on.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.waits_until
    }

    /// How far it is, for a report.
    pub(super) fn position(&self) -> String {
        format!(
            "{:?}: operation {} of {}, {} of {} bytes written, {} read, end of stream {}, closed {:?}",
            self.side,
            self.next,
            self.operations.len(),
            self.written,
            self.stream.len(),
            self.received.len(),
            self.eof,
            self.closed
        )
    }

    /// Takes events; `listener` is the server's.
    pub(super) fn handle_events(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        listener: Option<ListenerId>,
    ) -> bool {
        let mut moved = false;
        while let Some(event) = stack.poll_event() {
            moved = true;
            match event {
                Event::Accepted(id) => {
                    assert_eq!(Some(id), listener);
                    if let Some(socket) = stack.accept(id) {
                        self.socket = Some(socket);
                        self.secure(now, stack, socket);
                    }
                }
                Event::Connected(socket) if self.side == Side::Client => {
                    self.secure(now, stack, socket)
                }
                Event::Secured(_) => self.secured = true,
                Event::Closed(_, reason) => self.closed = Some(reason),
                Event::Connected(_)
                | Event::Readable(_)
                | Event::Writable(_)
                | Event::Urgent(_)
                | Event::Spliced(_)
                | Event::SpliceRefused(..)
                | Event::SpliceProgress(..)
                | Event::SpliceEnded(..) => {}
            }
        }
        moved
    }

    fn secure(&mut self, now: Instant, stack: &mut Stack, socket: SocketId) {
        match self.session.take() {
            Some(Session::Handshake(role)) => {
                stack
                    .start_tls(now, socket, role, self.offload)
                    .expect("TLS starts on a new connection");
            }
            Some(Session::Installed { transmit, receive }) => {
                stack
                    .install_tls(now, socket, transmit, receive, self.offload)
                    .expect("keys are installed on a new connection");
                self.secured = true;
            }
            None => {}
        }
    }

    /// Reads what there is, and goes on with the operations if `go`. Answers whether anything was done.
    pub(super) fn poll(&mut self, now: Instant, stack: &mut Stack, go: bool) -> bool {
        let Some(socket) = self.socket else {
            return false;
        };
        if !self.secured {
            return false;
        }
        let mut moved = self.read(now, stack, socket);
        while go && self.closed.is_none() && self.operate(now, stack, socket) {
            moved = true;
        }
        moved
    }

    fn read(&mut self, now: Instant, stack: &mut Stack, socket: SocketId) -> bool {
        let mut moved = false;
        while !self.eof {
            let before = self.received.len();
            let result = match self.reads {
                Reads::Copied(most) => {
                    self.received.resize(before + most, 0);
                    let result = stack.read(now, socket, &mut self.received[before..]);
                    self.received
                        .truncate(before + result.as_ref().map_or(0, |&len| len));
                    result.map(|len| len > 0)
                }
                // Either call, and both of them between each other's.
                Reads::InPlace if before.is_multiple_of(2) => {
                    let mut chunks = ReadChunks::default();
                    let read = stack.read_chunks(now, socket, &mut chunks);
                    let taken = chunks.iter();
                    taken.for_each(|chunk| self.received.extend_from_slice(chunk));
                    assert_eq!(chunks.bytes(), self.received.len() - before);
                    read.map(|len| len > 0)
                }
                Reads::InPlace => stack.read_chunk(now, socket).map(|chunk| {
                    if let Some(chunk) = &chunk {
                        self.received.extend_from_slice(chunk);
                    }
                    chunk.is_some()
                }),
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
        let Some(&operation) = self.operations.get(self.next) else {
            return false;
        };
        let is_done = match operation {
            Operation::Write(bytes) => {
                let left = &self.stream[self.written..][..(bytes - self.done) as usize];
                let result = match left {
                    [] => Ok(0),
                    _ => stack.write(now, socket, left),
                };
                return self.wrote(result, bytes);
            }
            Operation::Send(bytes) => {
                let slice = Slice {
                    region: self.region,
                    offset: self.written as u64,
                    len: bytes - self.done,
                };
                let result = match slice.len {
                    0 => Ok(0),
                    _ => stack.send_slices(now, socket, &[slice]),
                };
                return self.wrote(result, bytes);
            }
            Operation::KeyUpdate { request_peer } => {
                let may_be = |error: &_| matches!(error, SocketError::Unsupported(_));
                !self.key_updates || {
                    let result = stack.key_update(now, socket, request_peer);
                    self.has_nothing_left(result, may_be, "changes its key")
                }
            }
            Operation::SetOffload(offload) => {
                self.offload == Offload::None || {
                    let result = stack.set_offload(now, socket, offload);
                    self.has_nothing_left(result, |_| false, "changes its offload")
                }
            }
            Operation::Wait(time) => now >= *self.waits_until.get_or_insert(now + time),
            Operation::Await(bytes) => self.received.len() >= bytes as usize || self.eof,
            Operation::Shutdown => {
                let may_be = |error: &_| matches!(error, SocketError::SendClosed);
                self.has_nothing_left(stack.shutdown(now, socket), may_be, "shuts down")
            }
        };
        if is_done {
            self.finish();
        }
        is_done
    }

    /// Whether a call has nothing left to do: there was room for it, or the socket is closed or else such that it `may_be` refused.
    fn has_nothing_left(
        &self,
        result: Result<(), SocketError>,
        may_be: impl Fn(&SocketError) -> bool,
        what: &str,
    ) -> bool {
        match result {
            Ok(()) | Err(SocketError::Closed(_)) => true,
            Err(SocketError::WouldBlock) => false,
            Err(error) if may_be(&error) => true,
            Err(error) => panic!("{:?} {what}: {error}", self.side),
        }
    }

    /// A part of an operation of so many bytes was written, or not. Answers whether anything was done.
    fn wrote(&mut self, result: Result<usize, SocketError>, bytes: u32) -> bool {
        match result {
            Ok(len) => {
                self.written += len;
                self.done += len as u32;
                if self.done == bytes {
                    self.finish();
                    return true;
                }
                len > 0
            }
            Err(SocketError::WouldBlock | SocketError::Closed(_)) => false,
            Err(error) => panic!("{:?} writes: {error}", self.side),
        }
    }

    fn finish(&mut self) {
        self.next += 1;
        self.done = 0;
        self.waits_until = None;
    }
}
