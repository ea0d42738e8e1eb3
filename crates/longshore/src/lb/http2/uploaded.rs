//! How much of a request's content backends have taken: its windows are opened again for that.

use std::collections::VecDeque;

use h2::{FlowControl, RecvStream};

/// Bytes of content that are one piece at most.
const PIECE: usize = 16 * 1024;

/// Content of a request whose windows are opened again when the session has used it.
#[derive(Debug)]
pub(super) struct Uploaded {
    /// Nothing for a request without content.
    flow: Option<FlowControl>,
    /// Bytes that were put in the conduit.
    put: u64,
    /// How many those were behind a piece, and how much content it is.
    pieces: VecDeque<(u64, usize)>,
}

impl Uploaded {
    /// None yet, behind so many bytes of a head.
    pub(super) fn new(body: Option<&mut RecvStream>, head: usize) -> Uploaded {
        Uploaded {
            flow: body.map(|body| body.flow_control().clone()),
            put: head as u64,
            pieces: VecDeque::new(),
        }
    }

    /// So much content was put in the conduit, with so much around it.
    pub(super) fn put(&mut self, content: usize, around: usize) {
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
            // A stream that is gone needs no window.
            let _ = self.flow.as_mut().map(|flow| flow.release_capacity(len));
        }
    }
}
