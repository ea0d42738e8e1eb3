//! A client's requests in flight, and what replies say of them.

/// Where in a read's buffer `len` bytes of the export are that begin at `offset`.
fn place_in(read: &Request, offset: u64, len: u32) -> Option<u32> {
    let at = offset.checked_sub(read.offset)?;
    let end = at.checked_add(len.into())?;
    (len > 0 && end <= read.len.into()).then_some(at as u32)
}

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use thiserror::Error;
use wire::nbd::{Chunk, ChunkType, Kind, Reply, Request};

use super::{Cookie, NbdError};
use crate::pdus::Coverage;

/// Requests in flight on one connection, by tag.
#[derive(Debug)]
pub struct Requests {
    structured: bool,
    slots: Vec<Slot>,
    free: Vec<u16>,
    /// The reply whose data or text is coming.
    coming: Option<Coming>,
    ended: VecDeque<Ended>,
}

#[derive(Debug, Default)]
struct Slot {
    generation: u16,
    request: Option<Request>,
    /// Data of a read that came.
    covered: Coverage,
    /// Why it failed, if a chunk said so.
    error: Option<RequestError>,
}

#[derive(Clone, Copy, Debug)]
struct Coming {
    tag: u16,
    /// The reply ends with it.
    done: bool,
    /// Bytes of text at its beginning, if it is an error's.
    text: Option<usize>,
}

/// A request that the server has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its tag.
    pub tag: u16,
    /// What became of it.
    pub result: Result<(), RequestError>,
}

/// Why the server did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}{}", name_of(*.number), if .message.is_empty() { String::new() } else { format!(": {}", .message) })]
pub struct RequestError {
    /// Its number, which is Linux's.
    pub number: u32,
    /// The server's own words.
    pub message: String,
}

/// What comes with a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// Nothing.
    Nothing,
    /// Data of a read: bytes `at..at + len` of its buffer.
    Data {
        /// The read's tag.
        tag: u16,
        /// Where in its buffer.
        at: u32,
        /// Bytes.
        len: u32,
    },
    /// Bytes `at..at + len` of a read's buffer are zeroes.
    Zeroes {
        /// The read's tag.
        tag: u16,
        /// Where in its buffer.
        at: u32,
        /// Bytes.
        len: u32,
    },
    /// The text of an error, which [`Requests::end`] is to have.
    Text,
}

impl Requests {
    /// Up to `depth` requests at a time.
    #[must_use]
    pub fn new(depth: u16, structured: bool) -> Requests {
        Requests {
            structured,
            slots: (0..depth).map(|_| Slot::default()).collect(),
            free: (0..depth).rev().collect(),
            coming: None,
            ended: VecDeque::with_capacity(usize::from(depth)),
        }
    }

    /// Takes a request, of which `cookie` counts for nothing; gives its tag, and how it is to be sent. `None`: as many as there may be are in
    /// flight.
    pub fn begin(&mut self, request: Request) -> Option<(u16, Request)> {
        let tag = self.free.pop()?;
        let slot = &mut self.slots[usize::from(tag)];
        slot.generation = slot.generation.wrapping_add(1);
        let cookie = Cookie {
            tag,
            generation: slot.generation,
            low: match (request.kind, self.structured) {
                (Kind::Read, true) => request.offset as u32,
                (Kind::Read, false) => request.len,
                _ => 0,
            },
        };
        let request = Request {
            cookie: cookie.to_bits(),
            ..request
        };
        slot.request = Some(request);
        slot.covered.clear();
        slot.error = None;
        Some((tag, request))
    }

    /// Takes in the header of a reply. One without data or text has ended with it.
    ///
    /// # Errors
    /// What ends the connection.
    pub fn handle_reply(&mut self, reply: &Reply) -> Result<Incoming, NbdError> {
        match reply {
            Reply::Simple { error, cookie } => self.handle_simple(*error, *cookie),
            Reply::Chunk(chunk) => self.handle_chunk(chunk),
        }
    }

    fn handle_simple(&mut self, error: u32, cookie: u64) -> Result<Incoming, NbdError> {
        let structured = self.structured;
        let (tag, slot, request) = self.find(cookie)?;
        if request.kind == Kind::Read && error == 0 {
            if structured {
                return Err(NbdError::Mismatch(cookie));
            }
            self.coming = Some(Coming {
                tag,
                done: true,
                text: None,
            });
            return Ok(Incoming::Data {
                tag,
                at: 0,
                len: request.len,
            });
        }
        // The spec forbids it for reads, but what it says is plain.
        if error != 0 {
            slot.error = Some(RequestError {
                number: error,
                message: String::new(),
            });
        }
        self.finish(tag);
        Ok(Incoming::Nothing)
    }

    fn handle_chunk(&mut self, chunk: &Chunk) -> Result<Incoming, NbdError> {
        let cookie = chunk.cookie;
        let (tag, slot, request) = self.find(cookie)?;
        let incoming = match chunk.content {
            ChunkType::None => Incoming::Nothing,
            ChunkType::Data { offset, len } | ChunkType::Hole { offset, len } => {
                if request.kind != Kind::Read {
                    return Err(NbdError::Mismatch(cookie));
                }
                let at = place_in(&request, offset, len)
                    .filter(|at| slot.covered.add(*at, len).is_ok())
                    .ok_or(NbdError::Outside { cookie, offset })?;
                match chunk.content {
                    ChunkType::Data { .. } => Incoming::Data { tag, at, len },
                    _ => Incoming::Zeroes { tag, at, len },
                }
            }
            ChunkType::Error {
                error, message_len, ..
            } => {
                if error == 0 {
                    return Err(NbdError::Mismatch(cookie));
                }
                slot.error.get_or_insert(RequestError {
                    number: error,
                    message: String::new(),
                });
                let coming = Coming {
                    tag,
                    done: chunk.done,
                    text: Some(message_len.into()),
                };
                if matches!(chunk.content, ChunkType::Error { len: 1.., .. }) {
                    self.coming = Some(coming);
                    return Ok(Incoming::Text);
                }
                Incoming::Nothing
            }
        };
        let is_whole = slot.error.is_some()
            || request.kind != Kind::Read
            || slot.covered.bytes() == request.len;
        if chunk.done && !is_whole {
            return Err(NbdError::Mismatch(cookie));
        }
        match incoming {
            Incoming::Data { .. } => {
                self.coming = Some(Coming {
                    tag,
                    done: chunk.done,
                    text: None,
                });
            }
            _ if chunk.done => self.finish(tag),
            _ => {}
        }
        Ok(incoming)
    }

    /// What the latest reply has brought is all there; `text` if that was an error's.
    pub fn end(&mut self, text: &[u8]) {
        let Some(coming) = self.coming.take() else {
            return;
        };
        let error = &mut self.slots[usize::from(coming.tag)].error;
        if let (Some(len), Some(error)) = (coming.text, error)
            && error.message.is_empty()
        {
            let text = String::from_utf8_lossy(text.get(..len).unwrap_or(text));
            error.message = text.chars().filter(|char| !char.is_control()).collect();
        }
        if coming.done {
            self.finish(coming.tag);
        }
    }

    /// The next request that was answered. Its tag is another one's only after [`release`](Self::release).
    pub fn poll_ended(&mut self) -> Option<Ended> {
        self.ended.pop_front()
    }

    /// Nothing touches the memory of the request that had this tag any more.
    pub fn release(&mut self, tag: u16) {
        self.free.push(tag);
    }

    /// Requests that are not released.
    #[must_use]
    pub fn in_use(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn finish(&mut self, tag: u16) {
        let slot = &mut self.slots[usize::from(tag)];
        slot.request = None;
        let result = slot.error.take().map_or(Ok(()), Err);
        self.ended.push_back(Ended { tag, result });
    }

    /// The request with this cookie.
    fn find(&mut self, cookie: u64) -> Result<(u16, &mut Slot, Request), NbdError> {
        let tag = Cookie::from_bits(cookie).tag;
        let slot = self.slots.get_mut(usize::from(tag));
        let found = slot.and_then(|slot| {
            let request = slot.request.filter(|request| request.cookie == cookie)?;
            Some((tag, slot, request))
        });
        found.ok_or(NbdError::UnknownCookie(cookie))
    }
}

/// An error by its name.
fn name_of(number: u32) -> String {
    match number {
        1 => "operation not permitted".to_owned(),
        5 => "input/output error".to_owned(),
        12 => "the server is out of memory".to_owned(),
        22 => "invalid request".to_owned(),
        28 => "no space left".to_owned(),
        75 => "value too large".to_owned(),
        95 => "operation not supported".to_owned(),
        108 => "the server is shutting down".to_owned(),
        number => format!("error {number}"),
    }
}
