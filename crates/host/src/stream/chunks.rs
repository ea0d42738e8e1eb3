//! Received content as it lies in memory.

use std::ops::Deref;

use crate::memory::Buffer;

/// Received bytes in place, in a buffer that goes back to the stack's memory when this is dropped, on any thread.
#[derive(Debug)]
pub struct ReadChunk(Buffer);

impl ReadChunk {
    pub(crate) fn new(buffer: Buffer) -> Self {
        Self(buffer)
    }

    pub(crate) fn into_buffer(self) -> Buffer {
        self.0
    }
}

impl Deref for ReadChunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for ReadChunk {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Received content in place, in order: what one call of [`Stack::read_chunks`](crate::Stack::read_chunks) has given. Its memory
/// goes back to the stack when this is cleared, filled again or dropped, on any thread.
///
/// Contents of several records may lie in one buffer, with what was around them in between.
#[derive(Debug, Default)]
pub struct ReadChunks {
    buffers: Vec<Buffer>,
    pieces: Vec<Piece>,
}

/// A part of a buffer.
#[derive(Clone, Copy, Debug)]
struct Piece {
    buffer: u32,
    start: u32,
    len: u32,
}

impl ReadChunks {
    /// The contents, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().map(|piece| {
            let start = piece.start as usize;
            &self.buffers[piece.buffer as usize][start..start + piece.len as usize]
        })
    }

    /// Bytes of content.
    pub fn bytes(&self) -> usize {
        self.pieces.iter().map(|piece| piece.len as usize).sum()
    }

    /// Gives the memory back.
    pub fn clear(&mut self) {
        self.pieces.clear();
        self.buffers.clear();
    }

    /// Appends a buffer that is all content.
    pub(crate) fn push(&mut self, buffer: Buffer) {
        self.push_piece(0, 0, buffer.len() as u32);
        self.buffers.push(buffer);
    }

    /// Appends content that lies in the `ahead`-th of the buffers that are [put](Self::put) next.
    #[inline]
    pub(super) fn push_piece(&mut self, ahead: usize, start: u32, len: u32) {
        let buffer = (self.buffers.len() + ahead) as u32;
        self.pieces.push(Piece { buffer, start, len });
    }

    /// Puts a buffer behind the others.
    #[inline]
    pub(super) fn put(&mut self, buffer: Buffer) {
        self.buffers.push(buffer);
    }
}
