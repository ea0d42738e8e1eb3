//! NBD, from the end of the handshake on, as a protocol of PDUs: requests one way, replies the other.

use thiserror::Error;
use wire::nbd::{ChunkType, Malformed, REQUEST_LEN, Reply, Request, SIMPLE_REPLY_LEN};

use super::engine::MAX_ERROR;
use super::{Cookie, Parameters};
use crate::pdus::{Layout, MAX_FRONT, PduProtocol};
use crate::{Listed, ProtocolId};

/// Who sends messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    /// Requests.
    Client,
    /// Replies.
    Server,
}

/// The rules for the messages of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// Who sends them.
    pub sender: Sender,
    /// Reads are answered by structured replies.
    pub structured: bool,
    /// The most bytes of data in one message.
    pub max_data: u32,
}

/// A message without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pdu {
    /// The client's; the data of a write follows.
    Request(Request),
    /// The server's. If it is a simple one, the request's [`Cookie`] tells how much data follows.
    Reply(Reply),
}

/// How a message breaks the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NbdError {
    /// The header is no reply's.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The header is no request's.
    #[error("bytes that are no request")]
    NotARequest,
    /// More data than was agreed on.
    #[error("{0} bytes of data in one message")]
    TooLong(u32),
    /// A reply to no request.
    #[error("a reply with cookie {0:#018x}, which no request has")]
    UnknownCookie(u64),
    /// A reply that is not possible for its request.
    #[error("a reply with cookie {0:#018x} that does not fit its request")]
    Mismatch(u64),
    /// Data of a reply that are not part of what was asked for, or come twice.
    #[error("data at {offset} that the request with cookie {cookie:#018x} did not ask for")]
    Outside {
        /// The request's cookie.
        cookie: u64,
        /// Where in the export.
        offset: u64,
    },
}

impl Framing {
    /// Bytes of data behind a simple reply.
    fn simple_len(&self, error: u32, cookie: u64) -> u32 {
        match error == 0 && !self.structured {
            true => Cookie::from_bits(cookie).low,
            false => 0,
        }
    }

    /// What a context is told of replies to requests with tags below `tags`.
    #[must_use]
    pub fn parameters(&self, tags: u16) -> Parameters {
        Parameters {
            structured: self.structured,
            tags,
            max_data: self.max_data,
        }
    }

    fn checked(&self, pdu: Pdu) -> Result<(Pdu, Layout), NbdError> {
        let layout = self.layout_of(&pdu);
        let most = match &pdu {
            Pdu::Reply(Reply::Chunk(chunk)) if matches!(chunk.content, ChunkType::Error { .. }) => {
                MAX_ERROR
            }
            _ => self.max_data,
        };
        match layout.data_len {
            len if len > most => Err(NbdError::TooLong(len)),
            _ => Ok((pdu, layout)),
        }
    }
}

impl PduProtocol for Framing {
    type Pdu = Pdu;
    /// Bytes of the header.
    type Prelude = usize;
    type Error = NbdError;

    const ID: ProtocolId = <Parameters as Listed>::ID;
    const NAME: &'static str = "NBD";
    const PRELUDE_LEN: usize = SIMPLE_REPLY_LEN;

    #[inline]
    fn begin(&self, prelude: &[u8]) -> Result<usize, NbdError> {
        match self.sender {
            Sender::Client => Ok(REQUEST_LEN),
            Sender::Server => {
                let len = Reply::header_len(prelude)?;
                if len > SIMPLE_REPLY_LEN && !self.structured {
                    return Err(Malformed::NotStructured.into());
                }
                Ok(len)
            }
        }
    }

    #[inline]
    fn header_len(&self, prelude: &usize) -> usize {
        *prelude
    }

    #[inline]
    fn parse(&self, _: &usize, header: &[u8]) -> Result<(Pdu, Layout), NbdError> {
        let pdu = match self.sender {
            Sender::Client => {
                let header = header.first_chunk().ok_or(NbdError::NotARequest)?;
                Pdu::Request(Request::parse(header).ok_or(NbdError::NotARequest)?)
            }
            Sender::Server => Pdu::Reply(Reply::parse(header)?),
        };
        self.checked(pdu)
    }

    fn layout_of(&self, pdu: &Pdu) -> Layout {
        let (header_len, data_len) = match pdu {
            Pdu::Request(request) => (REQUEST_LEN, request.payload_len()),
            Pdu::Reply(reply) => {
                let data_len = match reply {
                    Reply::Simple { error, cookie } => self.simple_len(*error, *cookie),
                    Reply::Chunk(chunk) => match chunk.content {
                        ChunkType::Data { len, .. } | ChunkType::Error { len, .. } => len,
                        ChunkType::None | ChunkType::Hole { .. } => 0,
                    },
                };
                (reply.head().bytes().len(), data_len)
            }
        };
        Layout {
            data_len,
            ..Layout::header_only(header_len as u32)
        }
    }

    fn emit(&self, pdu: &Pdu, front: &mut [u8; MAX_FRONT]) -> Layout {
        match pdu {
            Pdu::Request(request) => front[..REQUEST_LEN].copy_from_slice(&request.to_bytes()),
            Pdu::Reply(reply) => {
                let head = reply.head();
                front[..head.bytes().len()].copy_from_slice(head.bytes());
            }
        }
        self.layout_of(pdu)
    }

    fn no_room(pdu: &Pdu) -> NbdError {
        match pdu {
            Pdu::Request(request) => NbdError::TooLong(request.len),
            Pdu::Reply(Reply::Simple { cookie, .. }) => NbdError::Mismatch(*cookie),
            Pdu::Reply(Reply::Chunk(chunk)) => NbdError::Mismatch(chunk.cookie),
        }
    }
}
