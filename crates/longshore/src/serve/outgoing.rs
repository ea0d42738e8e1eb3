//! The response that is under way to a client.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Instant;

use host::memory::{FileIdentity, MappedFile};
use host::{Messages, SocketError, SocketId};
use nic::ring::{RegionId, Slice};

use super::files::{Bytes, Source};
use super::session::{READ_BYTES, Shared};
use crate::http::{ByteRange, Piece, Response, Status};
use crate::log::LIMITED;
use crate::store::OpenFile;

/// The response that is being sent.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) status: Status,
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece that are queued already.
    sent: u64,
    source: Option<Source>,
    /// Bytes of it that are queued.
    queued: u64,
    /// Bytes of it before its content.
    head_bytes: u64,
    pub(super) keep_alive: bool,
}

impl Outgoing {
    /// All of a response, whose file's bytes come from `source`.
    pub(super) fn with_head(response: Response, source: Option<Source>) -> Self {
        let head_bytes = response.head.len() as u64;
        let mut head = response.head.into_bytes();
        let mut pieces = VecDeque::from(response.content);
        if let Some(Piece::Bytes(first)) = pieces.front_mut() {
            head.append(first);
            pieces.pop_front();
        }
        pieces.push_front(Piece::Bytes(head));
        Outgoing {
            status: response.status,
            pieces,
            sent: 0,
            source,
            queued: 0,
            head_bytes,
            keep_alive: response.keep_alive,
        }
    }

    /// Its content alone.
    pub(super) fn without_head(response: Response, source: Option<Source>) -> Self {
        Outgoing {
            status: response.status,
            pieces: response.content.into(),
            sent: 0,
            source,
            queued: 0,
            head_bytes: 0,
            keep_alive: response.keep_alive,
        }
    }

    /// Bytes of its content that are queued.
    pub(super) fn content_queued(&self) -> u64 {
        self.queued.saturating_sub(self.head_bytes)
    }

    /// Bytes of memory that it holds.
    pub(super) fn held(&self) -> usize {
        let held = self.pieces.iter().map(|piece| match piece {
            Piece::Bytes(bytes) => bytes.len(),
            Piece::File(_) => 0,
        });
        held.sum()
    }

    /// Bytes of it that are not queued.
    pub(super) fn left(&self) -> u64 {
        let all: u64 = self.pieces.iter().map(piece_len).sum();
        all - self.sent
    }

    /// That the file is what the head tells of: a client that gets all of a response gets what its head promises.
    pub(super) fn check_source(
        &self,
        now: Instant,
        id: SocketId,
        shared: &mut Shared<'_>,
    ) -> Result<(), SocketError> {
        if let Some(source) = &self.source
            && source.has_changed()
        {
            shared.counters.files_changed += 1;
            let file = source.path.display();
            tracing::warn!(target: LIMITED, %file, "the file changed while it was sent");
            let _ = shared.stack.abort(now, id);
            return Err(SocketError::NotFound);
        }
        Ok(())
    }

    /// Queues what the socket takes, `turn` bytes at most, as long as the file is what the head tells of; whether the response is queued whole.
    pub(super) fn queue(
        &mut self,
        now: Instant,
        id: SocketId,
        shared: &mut Shared<'_>,
        turn: &mut u64,
    ) -> Result<bool, SocketError> {
        self.check_source(now, id, shared)?;
        while let Some(piece) = self.pieces.front() {
            if *turn == 0 {
                return Ok(false);
            }
            let queued = match piece {
                Piece::Bytes(bytes) => shared.stack.write(now, id, &bytes[self.sent as usize..]),
                Piece::File(range) => {
                    let rest = self.rest_of(*range, *turn);
                    let bytes = self.source.as_ref().map(|source| &source.bytes);
                    send_file(now, id, bytes, rest, shared)
                }
            };
            let queued = match queued {
                Ok(queued) => queued as u64,
                Err(SocketError::WouldBlock) => return Ok(false),
                Err(error) => return Err(error),
            };
            *turn = turn.saturating_sub(queued);
            self.advance(queued);
        }
        self.source = None;
        Ok(true)
    }

    /// Queues `len` bytes of the content behind `front`, as far as the socket takes them, or adds them to `front` if they are copied anyhow. `len` says
    /// what is left; whether nothing is. The file [is what the head tells of](Self::check_source).
    pub(super) fn queue_behind(
        &mut self,
        now: Instant,
        id: SocketId,
        shared: &mut Shared<'_>,
        front: &mut Vec<u8>,
        len: &mut u64,
    ) -> Result<bool, SocketError> {
        while *len > 0 {
            let queued = match self.pieces.front() {
                Some(Piece::Bytes(bytes)) => {
                    let rest = &bytes[self.sent as usize..];
                    let rest = &rest[..rest.len().min(*len as usize)];
                    front.extend_from_slice(rest);
                    rest.len() as u64
                }
                Some(Piece::File(range)) => {
                    let rest = self.rest_of(*range, *len);
                    let bytes = self.source.as_ref().map(|source| &source.bytes);
                    match send_behind(now, id, bytes, rest, front, shared) {
                        Err(SocketError::WouldBlock) => return Ok(false),
                        queued => queued?,
                    }
                }
                None => return Err(SocketError::NotFound),
            };
            *len -= queued;
            self.advance(queued);
        }
        Ok(true)
    }

    /// Bytes ahead that lie together in a mapped file.
    pub(super) fn mapped_ahead(&self) -> u64 {
        let bytes = self.source.as_ref().map(|source| &source.bytes);
        match (self.pieces.front(), bytes) {
            (Some(Piece::File(range)), Some(Bytes::Mapped(..))) => range.len - self.sent,
            _ => 0,
        }
    }

    /// Queues messages of `each` of the bytes [ahead](Self::mapped_ahead) behind `heads`, as many as the socket takes; how many of `count`.
    pub(super) fn queue_messages(
        &mut self,
        now: Instant,
        id: SocketId,
        shared: &mut Shared<'_>,
        (heads, count, each): (&[u8], u32, u64),
    ) -> Result<u32, SocketError> {
        let bytes = self.source.as_ref().map(|source| &source.bytes);
        let (Some(Piece::File(range)), Some(Bytes::Mapped(file, region))) =
            (self.pieces.front(), bytes)
        else {
            return Err(SocketError::NotFound);
        };
        let range = self.rest_of(*range, u64::from(count) * each);
        let slice = slice(now, id, (file, *region), range, shared)?;
        let messages = Messages::new(heads, slice, count)
            .ok_or(SocketError::Unsupported("uneven messages"))?;
        let queued = match shared.stack.write_messages(now, id, &messages) {
            Err(SocketError::WouldBlock) => 0,
            queued => queued?,
        };
        let bytes = u64::from(queued) * each;
        shared.counters.file_bytes_zero_copy += bytes;
        self.advance(bytes);
        Ok(queued)
    }

    /// What is left of a range that is the first piece, `most` bytes at most.
    fn rest_of(&self, range: ByteRange, most: u64) -> ByteRange {
        ByteRange {
            start: range.start + self.sent,
            len: (range.len - self.sent).min(most),
        }
    }

    fn advance(&mut self, queued: u64) {
        self.sent += queued;
        self.queued += queued;
        if self.pieces.front().map(piece_len) == Some(self.sent) {
            self.sent = 0;
            self.pieces.pop_front();
        }
    }
}

/// Queues bytes of a file; how many. A file that has shrunk is no more what its head promised.
fn send_file(
    now: Instant,
    id: SocketId,
    source: Option<&Bytes>,
    range: ByteRange,
    shared: &mut Shared<'_>,
) -> Result<usize, SocketError> {
    match source {
        Some(Bytes::Mapped(file, region)) => {
            let slice = slice(now, id, (file, *region), range, shared)?;
            let queued = shared.stack.send_slices(now, id, &[slice])?;
            shared.counters.file_bytes_zero_copy += queued as u64;
            Ok(queued)
        }
        Some(Bytes::Read(file)) => {
            shared.scratch.resize(READ_BYTES, 0);
            let mut scratch = std::mem::take(shared.scratch);
            let read = read(now, id, file, range, &mut scratch, shared);
            let queued = read.and_then(|read| shared.stack.write(now, id, &scratch[..read]));
            *shared.scratch = scratch;
            let queued = queued?;
            shared.counters.file_bytes_copied += queued as u64;
            Ok(queued)
        }
        None => Err(SocketError::NotFound),
    }
}

/// Queues a range of a file behind `front` and empties that, or adds some of it to `front`; how much of the range.
fn send_behind(
    now: Instant,
    id: SocketId,
    source: Option<&Bytes>,
    range: ByteRange,
    front: &mut Vec<u8>,
    shared: &mut Shared<'_>,
) -> Result<u64, SocketError> {
    match source {
        Some(Bytes::Mapped(file, region)) => {
            let slice = slice(now, id, (file, *region), range, shared)?;
            shared.stack.write_with_slices(now, id, front, &[slice])?;
            shared.counters.file_bytes_zero_copy += range.len;
            front.clear();
            Ok(range.len)
        }
        Some(Bytes::Read(file)) => {
            let filled = front.len();
            front.resize(filled + range.len as usize, 0);
            let read = read(now, id, file, range, &mut front[filled..], shared)?;
            front.truncate(filled + read);
            shared.counters.file_bytes_copied += read as u64;
            Ok(read as u64)
        }
        None => Err(SocketError::NotFound),
    }
}

fn slice(
    now: Instant,
    id: SocketId,
    (file, region): (&Arc<MappedFile>, RegionId),
    range: ByteRange,
    shared: &mut Shared<'_>,
) -> Result<Slice, SocketError> {
    let ByteRange { start: offset, len } = range;
    if file.faulted() {
        tracing::warn!(target: LIMITED, file = %file.path().display(), offset, "the file shrank while it was sent");
        let _ = shared.stack.abort(now, id);
        return Err(SocketError::NotFound);
    }
    Ok(file.slice(region, offset, len as u32))
}

fn read(
    now: Instant,
    id: SocketId,
    file: &File,
    range: ByteRange,
    to: &mut [u8],
    shared: &mut Shared<'_>,
) -> Result<usize, SocketError> {
    let ByteRange { start: offset, len } = range;
    let wanted = len.min(to.len() as u64) as usize;
    match file.read_at(&mut to[..wanted], offset) {
        Ok(len) if len > 0 => Ok(len),
        _ => {
            tracing::warn!(target: LIMITED, offset, "a file shrank or failed while it was sent");
            let _ = shared.stack.abort(now, id);
            Err(SocketError::NotFound)
        }
    }
}

/// Reads the file's ranges into the content, as one piece.
///
/// # Errors
/// When the file can't be read; [`ResourceBusy`](std::io::ErrorKind::ResourceBusy) when it was written to meanwhile.
pub(super) fn read_pieces(open: &OpenFile, response: Response) -> std::io::Result<Response> {
    let mut whole = Vec::new();
    for piece in &response.content {
        match piece {
            Piece::Bytes(bytes) => whole.extend_from_slice(bytes),
            Piece::File(range) => {
                let start = whole.len();
                whole.resize(start + range.len as usize, 0);
                open.file.read_exact_at(&mut whole[start..], range.start)?;
            }
        }
    }
    if FileIdentity::from(&open.file.metadata()?) != FileIdentity::from(&open.metadata) {
        return Err(std::io::ErrorKind::ResourceBusy.into());
    }
    Ok(Response {
        content: vec![Piece::Bytes(whole)],
        ..response
    })
}

fn piece_len(piece: &Piece) -> u64 {
    match piece {
        Piece::Bytes(bytes) => bytes.len() as u64,
        Piece::File(range) => range.len,
    }
}
