//! Received bytes that were not used yet.

use host::ReadChunk;

/// Bytes of one direction, from the front. A chunk is used where it lies in the stack's memory; only what has to lie in
/// one piece, a head that came in several packets, is gathered.
#[derive(Debug, Default)]
pub struct Inbox {
    gathered: Vec<u8>,
    chunk: Option<ReadChunk>,
    /// Bytes used of whichever it is.
    used: usize,
}

/// Gathering memory that is kept from one head to the next.
const KEPT: usize = 4096;

impl Inbox {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match &self.chunk {
            Some(chunk) => &chunk[self.used..],
            None => &self.gathered[self.used..],
        }
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.bytes().is_empty()
    }

    /// Bytes from the front are done with.
    pub fn consume(&mut self, len: usize) {
        self.used += len;
        if self.is_empty() {
            self.chunk = None;
            self.gathered.clear();
            self.gathered.shrink_to(KEPT);
            self.used = 0;
        }
    }

    /// Takes a chunk behind what is there.
    pub fn put(&mut self, chunk: ReadChunk) {
        if self.is_empty() {
            self.chunk = Some(chunk);
            return;
        }
        self.put_bytes(&chunk);
    }

    /// Copies bytes behind what is there.
    pub fn put_bytes(&mut self, bytes: &[u8]) {
        if let Some(before) = self.chunk.take() {
            self.gathered.extend_from_slice(&before[self.used..]);
        } else {
            self.gathered.drain(..self.used);
        }
        self.used = 0;
        self.gathered.extend_from_slice(bytes);
    }
}
