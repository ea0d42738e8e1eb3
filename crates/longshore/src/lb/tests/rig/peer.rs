//! One end of a connection of the clients' and servers' machine.

use std::time::{Duration, Instant};

use host::{CloseReason, Offload, SocketError, SocketId, Stack, TlsRole};

/// One end of a connection of the clients' and servers' machine.
#[derive(Debug)]
pub struct Peer {
    pub(super) id: SocketId,
    /// Whose it is.
    pub(super) node: usize,
    /// What it sends, and how much of it is gone.
    pub out: Vec<u8>,
    pub(super) sent: usize,
    /// Bytes that it sends at a time.
    segment: usize,
    /// What came.
    pub input: Vec<u8>,
    /// The other side ended its direction.
    pub at_end: bool,
    /// The connection broke.
    pub is_broken: bool,
    /// It was told so by an alert.
    pub was_alerted: bool,
    /// It ends its direction when all is sent.
    pub ends: bool,
    has_ended: bool,
    /// Its part in a handshake that is yet to begin.
    pub(super) tls: Option<TlsRole>,
    /// What it sends before that.
    pub introduction: Vec<u8>,
    /// It takes so many bytes a second; else all that come.
    pub pace: Option<usize>,
    reads_at: Option<Instant>,
}

impl Peer {
    pub(super) fn new(node: usize, id: SocketId, segment: usize) -> Self {
        Peer {
            id,
            node,
            out: Vec::new(),
            sent: 0,
            segment,
            input: Vec::new(),
            at_end: false,
            is_broken: false,
            was_alerted: false,
            ends: false,
            has_ended: false,
            tls: None,
            introduction: Vec::new(),
            pace: None,
            reads_at: None,
        }
    }

    /// It and the other side have ended.
    pub fn is_over(&self) -> bool {
        self.is_broken || self.at_end
    }

    /// When it reads next, if nothing wakes it.
    pub(super) fn due(&self) -> Option<Instant> {
        let reads = self.pace.is_some() && !self.is_over();
        self.reads_at.filter(|_| reads)
    }

    fn broke(&mut self, error: SocketError) {
        self.is_broken = true;
        self.was_alerted = matches!(error, SocketError::Closed(CloseReason::PeerAlert(_)));
    }

    fn read_at_most(&mut self, now: Instant, stack: &mut Stack, most: usize) -> bool {
        let mut buffer = vec![0; most];
        match stack.read(now, self.id, &mut buffer) {
            Ok(0) => self.at_end = true,
            Ok(len) => self.input.extend_from_slice(&buffer[..len]),
            Err(SocketError::WouldBlock | SocketError::NotConnected) => return false,
            Err(error) => self.broke(error),
        }
        true
    }

    pub(super) fn turn(&mut self, now: Instant, stack: &mut Stack) -> bool {
        let mut moved = false;
        if self.is_broken {
            return false;
        }
        if let Some(role) = self.tls.clone() {
            if !self.introduction.is_empty() {
                let most = self.introduction.len().min(self.segment);
                let Ok(len) = stack.write(now, self.id, &self.introduction[..most]) else {
                    return false;
                };
                self.introduction.drain(..len);
                return true;
            }
            if stack.start_tls(now, self.id, role, Offload::Both).is_err() {
                return false;
            }
            self.tls = None;
            moved = true;
        }
        let end = self.out.len().min(self.sent + self.segment);
        if self.sent < end {
            match stack.write(now, self.id, &self.out[self.sent..end]) {
                Ok(len) => {
                    self.sent += len;
                    moved = true;
                }
                Err(SocketError::WouldBlock | SocketError::NotConnected) => {}
                Err(error) => self.broke(error),
            }
        }
        if self.ends && !self.has_ended && self.sent == self.out.len() {
            self.has_ended = true;
            moved = true;
            let _ = stack.shutdown(now, self.id);
        }
        let mut buffer = [0; 4096];
        if let Some(pace) = self.pace {
            if self.reads_at.is_some_and(|at| now < at) {
                return moved;
            }
            self.reads_at = Some(now + Duration::from_secs(1));
            return moved | self.read_at_most(now, stack, pace);
        }
        while !self.at_end && !self.is_broken {
            match stack.read(now, self.id, &mut buffer) {
                Ok(0) => self.at_end = true,
                Ok(len) => self.input.extend_from_slice(&buffer[..len]),
                Err(SocketError::WouldBlock | SocketError::NotConnected) => break,
                Err(error) => self.broke(error),
            }
            moved = true;
        }
        moved
    }
}
