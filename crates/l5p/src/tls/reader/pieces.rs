//! A record as its pieces, and what the NIC did to them.

use std::ops::Range;

use shared::{Input, SharedSlice};

use super::ContextTag;
use crate::tls::HEADER_LEN;

/// Consecutive bytes of a record, and what the NIC did to them.
#[derive(Debug)]
pub struct Piece<'a> {
    /// The bytes.
    pub data: PieceData<'a>,
    /// The NIC context that decrypted them, if one did. That the packet was offloaded
    /// also says that the checks which end in it held.
    pub decrypted: Option<ContextTag>,
}

/// The bytes of a piece.
#[derive(Debug)]
pub enum PieceData<'a> {
    /// Bytes that may be changed in place.
    Own(&'a mut [u8]),
    /// Content that a NIC has put where it belongs, and may put something else in place of meanwhile. It must have been decrypted under the current
    /// keys.
    Placed(SharedSlice<'a>),
}

impl<'a> From<&'a mut [u8]> for PieceData<'a> {
    fn from(bytes: &'a mut [u8]) -> Self {
        PieceData::Own(bytes)
    }
}

impl PieceData<'_> {
    #[inline]
    pub(super) fn len(&self) -> usize {
        match self {
            PieceData::Own(bytes) => bytes.len(),
            PieceData::Placed(bytes) => bytes.len(),
        }
    }

    /// Some of the bytes, to be read.
    #[inline]
    pub(super) fn input(&self, range: Range<usize>) -> Input<'_> {
        match self {
            PieceData::Own(bytes) => Input::Own(&bytes[range]),
            PieceData::Placed(bytes) => {
                let (front, _) = bytes.split_at(range.end);
                Input::Shared(front.split_at(range.start).1)
            }
        }
    }

    /// The bytes, to be changed.
    pub(super) fn own(&mut self) -> Option<&mut [u8]> {
        match self {
            PieceData::Own(bytes) => Some(bytes),
            PieceData::Placed(_) => None,
        }
    }
}

/// Where the plaintext shall go.
#[derive(Debug)]
pub enum Output<'a> {
    /// Where the record is.
    InPlace,
    /// To the front of this buffer, in the same pass. It is used when all of the plaintext but the
    /// inner content type of TLS 1.3 fits; else the record is opened in place.
    To(&'a mut [u8]),
}

/// The record's first bytes: header and room for an explicit nonce.
pub(super) struct Head {
    pub(super) bytes: [u8; HEADER_LEN + 8],
    pub(super) len: usize,
}

impl Head {
    pub(super) fn gather(pieces: &[Piece<'_>]) -> Head {
        let mut head = Head {
            bytes: [0; HEADER_LEN + 8],
            len: 0,
        };
        for piece in pieces {
            let room = &mut head.bytes[head.len..];
            if room.is_empty() {
                break;
            }
            let taken = piece.data.len().min(room.len());
            piece.data.input(0..taken).copy_to(&mut room[..taken]);
            head.len += taken;
        }
        head
    }
}
