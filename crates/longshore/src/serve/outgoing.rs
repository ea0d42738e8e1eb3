//! The response that is under way to a client.

use std::collections::VecDeque;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use host::memory::FileIdentity;
use host::{SocketError, SocketId};

use super::files::{Bytes, Source};
use super::session::{READ_BYTES, Shared};
use crate::http::{ByteRange, Piece, Response};
use crate::log::LIMITED;
use crate::store::OpenFile;

/// The response that is being sent.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece that are queued already.
    sent: u64,
    source: Option<Source>,
    /// Bytes of it that are queued.
    pub(super) queued: u64,
    pub(super) keep_alive: bool,
    /// A response is under way, even if its pieces are all queued.
    pub(super) active: bool,
}

impl Outgoing {
    /// All of a response, whose file's bytes come from `source`.
    pub(super) fn new(response: Response, source: Option<Source>) -> Self {
        Outgoing {
            pieces: response.pieces.into(),
            sent: 0,
            source,
            queued: 0,
            keep_alive: response.keep_alive,
            active: true,
        }
    }

    /// Queues what the socket takes, `turn` bytes at most, as long as the file is what the head tells of; whether the response is queued whole.
    pub(super) fn queue(
        &mut self,
        now: Instant,
        id: SocketId,
        shared: &mut Shared<'_>,
        turn: &mut u64,
    ) -> Result<bool, SocketError> {
        // A client that gets all of a response gets what its head promises.
        if let Some(source) = &self.source
            && source.has_changed()
        {
            shared.counters.files_changed += 1;
            let file = source.path.display();
            tracing::warn!(target: LIMITED, %file, "the file changed while it was sent");
            let _ = shared.stack.abort(now, id);
            return Err(SocketError::NotFound);
        }
        while let Some(piece) = self.pieces.front() {
            if *turn == 0 {
                return Ok(false);
            }
            let queued = match piece {
                Piece::Bytes(bytes) => shared.stack.write(now, id, &bytes[self.sent as usize..]),
                Piece::File(range) => {
                    let rest = ByteRange {
                        start: range.start + self.sent,
                        len: (range.len - self.sent).min(*turn),
                    };
                    {
                        let bytes = self.source.as_ref().map(|source| &source.bytes);
                        send_file(now, id, bytes, rest, shared)
                    }
                }
            };
            let queued = match queued {
                Ok(queued) => queued as u64,
                Err(SocketError::WouldBlock) => return Ok(false),
                Err(error) => return Err(error),
            };
            *turn = turn.saturating_sub(queued);
            self.sent += queued;
            self.queued += queued;
            if self.sent == piece_len(piece) {
                self.sent = 0;
                self.pieces.pop_front();
            }
        }
        self.active = false;
        self.source = None;
        Ok(true)
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
    let ByteRange { start: offset, len } = range;
    match source {
        Some(Bytes::Mapped(file, region)) => {
            if file.faulted() {
                tracing::warn!(target: LIMITED, file = %file.path().display(), offset, "the file shrank while it was sent");
                let _ = shared.stack.abort(now, id);
                return Err(SocketError::NotFound);
            }
            let slice = file.slice(*region, offset, len as u32);
            let queued = shared.stack.send_slices(now, id, &[slice])?;
            shared.counters.file_bytes_zero_copy += queued as u64;
            Ok(queued)
        }
        Some(Bytes::Read(file)) => {
            shared.scratch.resize(READ_BYTES, 0);
            let wanted = len.min(READ_BYTES as u64) as usize;
            let read = match file.read_at(&mut shared.scratch[..wanted], offset) {
                Ok(len) if len > 0 => len,
                _ => {
                    tracing::warn!(target: LIMITED, offset, "a file shrank or failed while it was sent");
                    let _ = shared.stack.abort(now, id);
                    return Err(SocketError::NotFound);
                }
            };
            let queued = shared.stack.write(now, id, &shared.scratch[..read])?;
            shared.counters.file_bytes_copied += queued as u64;
            Ok(queued)
        }
        None => Err(SocketError::NotFound),
    }
}

/// Puts the file's ranges into the response, as one piece.
///
/// # Errors
/// When the file can't be read; [`ResourceBusy`](std::io::ErrorKind::ResourceBusy) when it was written to meanwhile.
pub(super) fn read_pieces(open: &OpenFile, response: Response) -> std::io::Result<Response> {
    let mut whole = Vec::new();
    for piece in &response.pieces {
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
        pieces: vec![Piece::Bytes(whole)],
        ..response
    })
}

fn piece_len(piece: &Piece) -> u64 {
    match piece {
        Piece::Bytes(bytes) => bytes.len() as u64,
        Piece::File(range) => range.len,
    }
}
