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

use super::frames::{FrameCutter, FrameHead, HEAD_LEN, Part};
use super::settings::Settings;

/// Bytes of frames that wait for the socket at most, but for one frame.
const MOST: usize = 512 * 1024;

/// Bytes of content, without the content.
#[derive(Clone, Copy, Debug)]
pub struct Blank(pub usize);

/// In place of content: `h2` asks how much there is, and looks at none of it.
static NOTHING: [u8; Data::TURN] = [0; Data::TURN];

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

/// Content of a response, which is sent as DATA frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    pub stream: u32,
    pub len: u64,
    pub ends_stream: bool,
}

impl Data {
    /// Bytes of a frame: with its head it is one record of TLS, and every client takes it (RFC 9113 §6.5.2).
    pub const FRAME: usize = 16 * 1024 - HEAD_LEN;
    /// Bytes of a stream that `h2` gives at a time, before others have their turn: as one frame, which is several to the client.
    pub const TURN: usize = 8 * Self::FRAME;

    /// The head of a frame of so many bytes of it; of the last one, if that is all that is left.
    pub fn head(&self, len: u64, left: u64) -> [u8; HEAD_LEN] {
        let is_last = self.ends_stream && left == len;
        FrameHead::data(self.stream, len as u32, is_last).to_bytes()
    }
}

/// The bytes of both directions.
#[derive(Debug, Default)]
pub struct Pipe {
    input: VecDeque<u8>,
    input_ended: bool,
    /// What the client says of how it is to be sent frames.
    settings: Settings,
    output: VecDeque<u8>,
    /// Bytes of the output before each content.
    cuts: VecDeque<(usize, Data)>,
    /// Bytes behind the last.
    last: usize,
    /// Bytes that wait, with those of content.
    waiting: usize,
    /// Bytes of a frame of fields before it has to be cut, and the head of what is behind.
    behind: Option<(usize, FrameHead)>,
    cutter: FrameCutter,
    /// `h2` was told to wait for room.
    is_full: bool,
    /// Writes of `h2` that were taken.
    writes: u64,
    /// The last one was not: `h2` keeps what it has framed for it.
    is_refused: bool,
}

impl Pipe {
    /// Bytes of a frame that every client takes (RFC 9113 §6.5.2).
    const FRAME: u32 = 16 * 1024;

    /// Takes what has come.
    pub fn handle_input(&mut self, bytes: &[u8]) {
        self.settings.take(bytes, &mut self.input);
    }

    /// Nothing more comes.
    pub fn handle_end(&mut self) {
        self.input_ended = true;
    }

    /// Bytes that came and that `h2` has not taken.
    pub fn input_len(&self) -> usize {
        self.input.len()
    }

    /// Whether there is something to send.
    pub fn has_output(&self) -> bool {
        self.waiting > 0 || !self.cuts.is_empty()
    }

    /// The content to send next. What goes before it is moved to the end of `front`; all that there is, if there is no content.
    pub fn next_data(&mut self, front: &mut Vec<u8>) -> Option<Data> {
        let (bytes, data) = match self.cuts.pop_front() {
            Some((bytes, data)) => (bytes, Some(data)),
            None => (std::mem::take(&mut self.last), None),
        };
        front.extend(self.output.drain(..bytes));
        self.waiting -= bytes + data.map_or(0, |data| data.len as usize);
        data
    }

    /// Bytes that came and that `h2` may take.
    fn readable(&self) -> usize {
        let held_back = self.settings.held_back();
        match self.input_ended {
            true => self.input.len(),
            false => self.input.len() - held_back,
        }
    }

    /// Gives back memory that is not in use, but for so many bytes of each direction.
    pub fn trim(&mut self, kept: usize) {
        self.input.shrink_to(kept);
        self.output.shrink_to(kept);
        self.cuts.shrink_to(kept / size_of::<(usize, Data)>());
    }

    /// Bytes of memory that both directions have.
    #[cfg(test)]
    pub fn memory(&self) -> usize {
        self.input.capacity() + self.output.capacity()
    }

    /// Whether `h2` waits for room that there is now.
    pub fn has_made_room(&mut self) -> bool {
        self.waiting < MOST && std::mem::take(&mut self.is_full)
    }

    /// Writes of `h2` that were taken.
    pub fn writes(&self) -> u64 {
        self.writes
    }

    /// Which write brings the last of what `h2` has framed by now; of streams that have ended since, nothing comes behind it.
    pub fn last_write(&self) -> u64 {
        self.writes + u64::from(self.is_refused)
    }

    /// Whether a write is taken.
    fn admit(&mut self) -> bool {
        self.is_full |= self.waiting >= MOST;
        self.is_refused = self.is_full;
        self.writes += u64::from(!self.is_full);
        !self.is_full
    }

    pub(super) fn write(&mut self, mut bytes: &[u8]) {
        while let Some(part) = self.cutter.next(&mut bytes) {
            match part {
                Part::Bytes(bytes) => self.write_bytes(bytes),
                // The content has its length from the frame, and not from what has come of it.
                Part::Data(_) => {}
                Part::Head(head) if head.kind == FrameHead::DATA => {
                    // It is framed again when it is sent.
                    self.output.truncate(self.output.len() - HEAD_LEN);
                    self.last -= HEAD_LEN;
                    self.waiting -= HEAD_LEN;
                    let data = Data {
                        stream: head.stream,
                        len: head.len.into(),
                        ends_stream: head.ends_stream(),
                    };
                    let bytes = std::mem::take(&mut self.last);
                    self.cuts.push_back((bytes, data));
                    self.waiting += head.len as usize;
                }
                Part::Head(head) => self.cut(head),
            }
        }
    }

    /// Cuts a frame of fields whose head was written, if the client does not take it whole.
    fn cut(&mut self, mut head: FrameHead) {
        if let Some(behind) = head.cut(Self::FRAME) {
            self.output.truncate(self.output.len() - HEAD_LEN);
            self.output.extend(head.to_bytes());
            self.behind = Some((head.len as usize, behind));
        }
    }

    fn write_bytes(&mut self, mut bytes: &[u8]) {
        while let Some((before, mut head)) = self.behind.take() {
            if bytes.len() <= before {
                self.behind = Some((before - bytes.len(), head));
                break;
            }
            let (front, rest) = bytes.split_at(before);
            self.put(front);
            bytes = rest;
            let behind = head.cut(Self::FRAME);
            self.put(&head.to_bytes());
            self.behind = behind.map(|behind| (head.len as usize, behind));
        }
        self.put(bytes);
    }

    fn put(&mut self, bytes: &[u8]) {
        self.output.extend(bytes);
        self.last += bytes.len();
        self.waiting += bytes.len();
    }
}

/// A pipe's end for `h2`, and for us.
#[derive(Clone, Debug, Default)]
pub struct End(Arc<Mutex<Pipe>>);

impl End {
    pub fn pipe(&self) -> MutexGuard<'_, Pipe> {
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
        let readable = pipe.readable();
        if readable == 0 && !pipe.input_ended {
            // It is polled again when more has come.
            return Poll::Pending;
        }
        let len = buffer.remaining().min(readable);
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
