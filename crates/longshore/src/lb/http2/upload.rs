//! A request's content on its way to the session, whose windows are opened again for what backends have taken.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use h2::{FlowControl, RecvStream};

use super::head::{self, Content};
use super::held::Held;
use super::stream::Stream;

/// Bytes of content that are one piece at most, of small frames or before a window is opened.
const PIECE: usize = 16 * 1024;

impl Stream {
    /// Gives the session what has come of the request's content, which windows bound; whether there was something.
    pub(super) fn pull_request(&mut self, context: &mut Context<'_>) -> bool {
        let Some(used) = self.conduit.used() else {
            self.discard(context);
            return false;
        };
        let mut has_more = false;
        self.uploaded.release(used);
        // A small frame is no chunk of its own, and takes no memory of its own.
        let mut piece = Vec::new();
        while let Some(body) = &mut self.body {
            match body.poll_data(context) {
                Poll::Pending => break,
                Poll::Ready(Some(Ok(bytes))) => {
                    has_more = true;
                    if piece.len() + bytes.len() > PIECE {
                        self.put(&std::mem::take(&mut piece));
                    }
                    piece.extend_from_slice(&bytes);
                }
                // The stream is reset, which is found out where the response is.
                Poll::Ready(Some(Err(_))) => self.body = None,
                Poll::Ready(None) => match body.poll_trailers(context) {
                    Poll::Pending => break,
                    Poll::Ready(fields) => {
                        has_more = true;
                        self.put(&std::mem::take(&mut piece));
                        if self.content == Content::Chunked {
                            let fields = fields.ok().flatten();
                            self.conduit.put(&head::trailers(fields.as_ref()));
                        }
                        self.body = None;
                    }
                },
            }
        }
        self.put(&piece);
        has_more
    }

    /// What comes of the request is of no use any more: its window is for the rest of it, and for others.
    fn discard(&mut self, context: &mut Context<'_>) {
        self.uploaded.release(u64::MAX);
        while let Some(body) = &mut self.body {
            match body.poll_data(context) {
                Poll::Pending => break,
                // A stream that is gone needs no window.
                Poll::Ready(Some(Ok(bytes))) => {
                    let _ = body.flow_control().release_capacity(bytes.len());
                }
                Poll::Ready(_) => self.body = None,
            }
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let around = match self.content {
            Content::Chunked => {
                let size = format!("{:x}\r\n", bytes.len());
                self.conduit.put(size.as_bytes());
                self.conduit.put(bytes);
                self.conduit.put(b"\r\n");
                size.len() + 2
            }
            Content::Length | Content::None => {
                self.conduit.put(bytes);
                0
            }
        };
        self.uploaded.put(bytes.len(), around);
    }
}

/// Content of a request whose windows are opened again when the session has used it.
#[derive(Debug)]
pub(super) struct Uploaded {
    /// Nothing for a request without content.
    flow: Option<FlowControl>,
    /// Bytes that were put in the conduit.
    put: u64,
    /// How many those were behind a piece, and how much content it is.
    pieces: VecDeque<(u64, usize)>,
    /// What counts it.
    held: Held,
}

impl Uploaded {
    /// None yet, behind so many bytes of a head.
    pub(super) fn new(body: Option<&mut RecvStream>, head: usize, held: Held) -> Uploaded {
        Uploaded {
            flow: body.map(|body| body.flow_control().clone()),
            put: head as u64,
            pieces: VecDeque::new(),
            held,
        }
    }

    /// So much content was put in the conduit, with so much around it.
    pub(super) fn put(&mut self, content: usize, around: usize) {
        self.held.upload(content);
        self.put += (content + around) as u64;
        match self.pieces.back_mut() {
            Some((end, len)) if *len + content <= PIECE => {
                *end = self.put;
                *len += content;
            }
            _ => self.pieces.push_back((self.put, content)),
        }
    }

    /// So many bytes of the conduit are used.
    pub(super) fn release(&mut self, used: u64) {
        while let Some(&(end, len)) = self.pieces.front()
            && end <= used
        {
            self.pieces.pop_front();
            self.held.open(len);
            // A stream that is gone needs no window.
            let _ = self.flow.as_mut().map(|flow| flow.release_capacity(len));
        }
    }
}

impl Drop for Uploaded {
    /// A stream that is forgotten has its windows opened by `h2`.
    fn drop(&mut self) {
        self.release(u64::MAX);
    }
}
