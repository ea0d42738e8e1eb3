//! What is between a connection of `h2`, which wants a socket that it can poll, and the stack's, which is given what it does.
//!
//! ```text
//!            handle_input                poll_read
//!   socket ───────────────▶ bytes ──────────────────▶ h2
//!          ◀─────────────── cuts  ◀──────────────────
//!            next_data       │           poll_write
//!                            └─ bytes as they are; of a DATA frame the head, and how long it is
//! ```
//!
//! `h2` never has the content of a response: it frames [`Blank`]s, whose places the content takes where it is queued.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Buf;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frames::{FrameCutter, FrameHead, Part};

/// Bytes of frames that wait for the socket at most, but for one frame.
const MOST: usize = 128 * 1024;

/// Bytes of content, without the content.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blank(pub(super) usize);

impl Blank {
    /// A whole frame of so many is one record of TLS with its head.
    pub(super) const MOST: usize = 16 * 1024 - 9;
}

static NOTHING: [u8; 16 * 1024] = [0; 16 * 1024];

impl Buf for Blank {
    fn remaining(&self) -> usize {
        self.0
    }

    fn chunk(&self) -> &[u8] {
        &NOTHING[..self.0.min(NOTHING.len())]
    }

    fn advance(&mut self, len: usize) {
        self.0 -= len;
    }
}

/// Content of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Data {
    pub(super) stream: u32,
    pub(super) len: u64,
    pub(super) ends_stream: bool,
}

/// The bytes of both directions.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    input: VecDeque<u8>,
    input_ended: bool,
    output: VecDeque<u8>,
    /// Bytes of the output before each content.
    cuts: VecDeque<(usize, Data)>,
    /// Bytes behind the last.
    last: usize,
    /// Bytes that wait, with those of content.
    waiting: usize,
    cutter: FrameCutter,
    /// `h2` was told to wait for room.
    is_full: bool,
    /// Writes of `h2` that were taken.
    writes: u64,
    /// The last one was not: `h2` keeps what it has framed for it.
    is_refused: bool,
}

impl Pipe {
    /// Takes what has come.
    pub(super) fn handle_input(&mut self, bytes: &[u8]) {
        self.input.extend(bytes);
    }

    /// Nothing more comes.
    pub(super) fn handle_end(&mut self) {
        self.input_ended = true;
    }

    /// Bytes that came and that `h2` has not taken.
    pub(super) fn input_len(&self) -> usize {
        self.input.len()
    }

    /// Whether there is something to send.
    pub(super) fn has_output(&self) -> bool {
        self.waiting > 0 || !self.cuts.is_empty()
    }

    /// The content to send next. What goes before it is moved to the end of `front`; all that there is, if there is no content.
    pub(super) fn next_data(&mut self, front: &mut Vec<u8>) -> Option<Data> {
        let (bytes, data) = match self.cuts.pop_front() {
            Some((bytes, data)) => (bytes, Some(data)),
            None => (std::mem::take(&mut self.last), None),
        };
        front.extend(self.output.drain(..bytes));
        self.waiting -= bytes + data.map_or(0, |data| data.len as usize);
        data
    }

    /// Gives back memory that is not in use.
    pub(super) fn trim(&mut self) {
        self.input.shrink_to_fit();
        self.output.shrink_to_fit();
        self.cuts.shrink_to_fit();
    }

    /// Whether `h2` waits for room that there is now.
    pub(super) fn has_made_room(&mut self) -> bool {
        self.waiting < MOST && std::mem::take(&mut self.is_full)
    }

    /// Writes of `h2` that were taken.
    pub(super) fn writes(&self) -> u64 {
        self.writes
    }

    /// Which write brings the last of what `h2` has framed by now; of streams that have ended since, nothing comes behind it.
    pub(super) fn last_write(&self) -> u64 {
        self.writes + u64::from(self.is_refused)
    }

    /// Whether a write is taken.
    fn admit(&mut self) -> bool {
        self.is_full |= self.waiting >= MOST;
        self.is_refused = self.is_full;
        self.writes += u64::from(!self.is_full);
        !self.is_full
    }

    fn write(&mut self, mut bytes: &[u8]) {
        while let Some(part) = self.cutter.next(&mut bytes) {
            match part {
                Part::Bytes(bytes) => {
                    self.output.extend(bytes);
                    self.last += bytes.len();
                    self.waiting += bytes.len();
                }
                // The content has its length from the frame, and not from what has come of it.
                Part::Data(_) => {}
                Part::Head(head) if head.kind == FrameHead::DATA => {
                    let data = Data {
                        stream: head.stream,
                        len: head.len.into(),
                        ends_stream: head.ends_stream(),
                    };
                    let bytes = std::mem::take(&mut self.last);
                    self.cuts.push_back((bytes, data));
                    self.waiting += head.len as usize;
                }
                Part::Head(_) => {}
            }
        }
    }
}

/// A pipe's end for `h2`, and for us.
#[derive(Clone, Debug, Default)]
pub(super) struct End(Arc<Mutex<Pipe>>);

impl End {
    /// The end of a client, which sends something before its first frame.
    #[cfg(test)]
    pub(super) fn of_client() -> End {
        let end = End::default();
        end.pipe().cutter = FrameCutter::behind(super::arrivals::PREFACE);
        end
    }

    pub(super) fn pipe(&self) -> MutexGuard<'_, Pipe> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsyncRead for End {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut pipe = self.pipe();
        if pipe.input.is_empty() && !pipe.input_ended {
            // It is polled again when more has come.
            return Poll::Pending;
        }
        let len = buffer.remaining().min(pipe.input.len());
        let (front, back) = pipe.input.as_slices();
        let front = &front[..front.len().min(len)];
        buffer.put_slice(front);
        buffer.put_slice(&back[..len - front.len()]);
        pipe.input.drain(..len);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for End {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut pipe = self.pipe();
        if !pipe.admit() {
            return Poll::Pending;
        }
        for slice in slices {
            pipe.write(slice);
        }
        Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
