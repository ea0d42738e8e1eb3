//! One connection of a session: what came and was not used yet, what is to be sent and found no room.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use host::{CloseReason, Offload, SocketError, SocketId, Stack, TlsRole};

use super::http2::Conduit;
use super::inbox::Inbox;
use crate::matching::Matcher;

/// One connection.
#[derive(Debug)]
pub struct Leg {
    /// Its socket; of a stream, that of the connection which it is in.
    pub id: SocketId,
    /// What takes the place of the socket, if this is a stream of HTTP/2.
    pub conduit: Option<Conduit>,
    /// What came.
    pub inbox: Inbox,
    /// A read may give something: edge-triggered, until one would block.
    pub is_readable: bool,
    /// The peer sends no more.
    pub at_end: bool,
    /// We send no more.
    pub is_shut: bool,
    /// What the peer may not send.
    search: Option<Search>,
    /// The peer has sent it.
    pub is_forbidden: bool,
    /// The peer was sent all that it is to get: what comes is dropped.
    pub is_dismissed: bool,
    outbox: Vec<u8>,
    sent: usize,
}

/// The search in what comes.
#[derive(Debug)]
struct Search {
    matcher: Arc<Matcher>,
    peer: SocketAddr,
}

/// What a read gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// Bytes.
    Bytes,
    /// The end.
    End,
    /// Nothing before the next event.
    Nothing,
}

impl Leg {
    /// A connection of which nothing was read yet.
    pub fn new(id: SocketId) -> Self {
        Leg {
            id,
            conduit: None,
            inbox: Inbox::default(),
            is_readable: true,
            at_end: false,
            is_shut: false,
            search: None,
            is_forbidden: false,
            is_dismissed: false,
            outbox: Vec::new(),
            sent: 0,
        }
    }

    /// A stream of HTTP/2 on the connection of that socket.
    pub fn of_stream(connection: SocketId, conduit: Conduit) -> Self {
        Leg {
            conduit: Some(conduit),
            ..Leg::new(connection)
        }
    }

    /// From now on what comes is searched.
    pub fn search(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        matcher: &Arc<Matcher>,
        peer: SocketAddr,
    ) {
        matcher.begin(now, stack, self.id);
        let matcher = Arc::clone(matcher);
        self.search = Some(Search { matcher, peer });
    }

    /// The peer speaks for this one.
    pub fn speaks_for(&mut self, peer: SocketAddr) {
        if let Some(search) = &mut self.search {
            search.peer = peer;
        }
    }

    /// Reads once.
    ///
    /// # Errors
    /// When the connection is broken, or must end for what has come.
    pub fn fill(&mut self, now: Instant, stack: &mut Stack) -> Result<Filled, SocketError> {
        if self.at_end {
            return Ok(Filled::End);
        }
        if let Some(conduit) = &self.conduit {
            let filled = conduit.read(&mut self.inbox)?;
            self.at_end = filled == Filled::End;
            return Ok(filled);
        }
        if !self.is_readable {
            return Ok(Filled::Nothing);
        }
        match stack.read_chunk(now, self.id) {
            Ok(Some(chunk)) => {
                let search = self.search.as_ref();
                let forbids = search.is_some_and(|it| it.matcher.forbids(stack, self.id, it.peer));
                // A reset would take away from the peer what it has not read yet.
                if forbids && !self.is_dismissed {
                    self.is_forbidden = true;
                    self.at_end = true;
                    return Err(SocketError::Closed(CloseReason::Aborted));
                }
                self.inbox.put(chunk);
                Ok(Filled::Bytes)
            }
            Ok(None) => {
                self.at_end = true;
                Ok(Filled::End)
            }
            Err(SocketError::WouldBlock) => {
                self.is_readable = false;
                Ok(Filled::Nothing)
            }
            Err(error) => Err(error),
        }
    }

    /// Whether an idle connection is still good: its peer has neither ended it nor sent anything, told by an event or not yet. Only a read that finds
    /// nothing makes the stack tell when that changes.
    pub fn is_quiet(&mut self, now: Instant, stack: &mut Stack) -> bool {
        self.is_readable = true;
        self.inbox.is_empty() && matches!(self.fill(now, stack), Ok(Filled::Nothing))
    }

    /// Reads once, and no more than `most` if that is given.
    ///
    /// # Errors
    /// As [`fill`](Self::fill).
    pub fn fill_up_to(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        most: Option<usize>,
    ) -> Result<Filled, SocketError> {
        let Some(most) = most else {
            return self.fill(now, stack);
        };
        let mut bytes = vec![0; most];
        match stack.read(now, self.id, &mut bytes) {
            Ok(0) => {
                self.at_end = true;
                Ok(Filled::End)
            }
            Ok(len) => {
                self.inbox.put_bytes(&bytes[..len]);
                Ok(Filled::Bytes)
            }
            Err(SocketError::WouldBlock) => Ok(Filled::Nothing),
            Err(error) => Err(error),
        }
    }

    /// Memory for what is to be sent before all else.
    pub fn outbox(&mut self) -> &mut Vec<u8> {
        &mut self.outbox
    }

    /// Whether all that was put in the outbox is sent.
    pub fn is_flushed(&self) -> bool {
        self.sent == self.outbox.len()
    }

    /// Sends what is in the outbox; whether that is all of it.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn flush(&mut self, now: Instant, stack: &mut Stack) -> Result<bool, SocketError> {
        if self.outbox.is_empty() {
            return Ok(true);
        }
        self.sent += self.send(now, stack, &self.outbox[self.sent..])?;
        let done = self.is_flushed();
        if done {
            self.outbox.clear();
            self.sent = 0;
        }
        Ok(done)
    }

    /// Begins a handshake behind what is in the outbox.
    ///
    /// # Errors
    /// Why there is none.
    pub fn secure(
        &mut self,
        now: Instant,
        stack: &mut Stack,
        role: &TlsRole,
        offload: Offload,
    ) -> Result<(), CloseReason> {
        let why = |error| match error {
            SocketError::Closed(reason) => reason,
            error => CloseReason::Handshake(error.to_string()),
        };
        // A new connection has room for a PROXY header.
        if !self.flush(now, stack).map_err(why)? {
            return Err(CloseReason::NoMemory);
        }
        stack
            .start_tls(now, self.id, role.clone(), offload)
            .map_err(why)
    }

    /// Sends bytes, as many as there is room for.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn send(
        &self,
        now: Instant,
        stack: &mut Stack,
        bytes: &[u8],
    ) -> Result<usize, SocketError> {
        match &self.conduit {
            Some(conduit) => conduit.write(bytes),
            None => send(now, stack, self.id, bytes),
        }
    }

    /// Whether so much more of its request may be kept to be sent again, beside those of other streams of its connection.
    pub fn may_keep(&self, len: usize) -> bool {
        let conduit = self.conduit.as_ref();
        conduit.is_none_or(|conduit| conduit.may_keep(len))
    }

    /// How long a client had no window to send content, all in all, because of what it had sent.
    pub fn closed_for(&self, now: Instant) -> Duration {
        let conduit = self.conduit.as_ref();
        conduit.map_or(Duration::ZERO, |conduit| conduit.closed_for(now))
    }

    /// Ends our direction.
    pub fn shutdown(&mut self, now: Instant, stack: &mut Stack) {
        if !self.is_shut {
            self.is_shut = true;
            // A connection that is gone needs no end.
            match &self.conduit {
                Some(conduit) => conduit.finish_content(),
                None => drop(stack.shutdown(now, self.id)),
            }
        }
    }
}

/// Writes until there is no room left, so that the stack tells when there is again.
fn send(now: Instant, stack: &mut Stack, id: SocketId, bytes: &[u8]) -> Result<usize, SocketError> {
    let mut sent = 0;
    while sent < bytes.len() {
        match stack.write(now, id, &bytes[sent..]) {
            Ok(len) => sent += len,
            Err(SocketError::WouldBlock) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}
