//! A protocol that exists only here: what the page "Add a protocol" comes to, in one file. It is built and tested with the feature `toy` only.
//!
//! A peer asks for blobs by a tag, in a way that is not our affair, and gets them in parts, in any order:
//!
//! ```text
//! 0         4         6         8         12        16                16 + len      20 + len
//! | "toy\0" | tag     | zero    | offset  | len     | data            | CRC-32C of the data |
//! ```
//!
//! Numbers are little-endian. The file has four parts: the header on the wire, what a NIC context is told, the rules that the NIC judges
//! headers by, and the framing for the host's reader and writer. `Stack::start_pdus` and `pdus_negotiated` do the rest on the host;
//! the test `toy` of the crate `sim` shows how.

use std::fmt;

use thiserror::Error;

use crate::pdus::counters::counters;
use crate::pdus::{self, Judged, Layout, MAX_FRONT, PduProtocol};
use crate::{Direction, Listed, Placement, Protocol, ProtocolId, Resource};

// The header on the wire. -------------------------------------------------------------------------------------------

const MAGIC: [u8; 4] = *b"toy\0";
const HEADER_LEN: usize = 16;

/// A part of a blob: the only kind of message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blob {
    /// Which blob.
    pub tag: u16,
    /// Where in it the part begins, in bytes.
    pub offset: u32,
    /// Bytes of the part.
    pub len: u32,
}

/// Bytes that are not a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ToyError {
    /// It begins with other bytes.
    #[error("no header of a blob")]
    NotABlob,
    /// It has more data than was agreed on, or than there is room for.
    #[error("a part of {0} bytes")]
    TooLong(u32),
}

impl Blob {
    fn parse(header: &[u8; HEADER_LEN]) -> Result<Blob, ToyError> {
        let [m0, m1, m2, m3, t0, t1, 0, 0, o0, o1, o2, o3, len @ ..] = *header else {
            return Err(ToyError::NotABlob);
        };
        match [m0, m1, m2, m3] == MAGIC {
            true => Ok(Blob {
                tag: u16::from_le_bytes([t0, t1]),
                offset: u32::from_le_bytes([o0, o1, o2, o3]),
                len: u32::from_le_bytes(len),
            }),
            false => Err(ToyError::NotABlob),
        }
    }

    fn emit(&self, header: &mut [u8]) {
        header[..4].copy_from_slice(&MAGIC);
        header[4..6].copy_from_slice(&self.tag.to_le_bytes());
        header[6..8].fill(0);
        header[8..12].copy_from_slice(&self.offset.to_le_bytes());
        header[12..16].copy_from_slice(&self.len.to_le_bytes());
    }

    fn layout(&self) -> Layout {
        Layout {
            data_len: self.len,
            data_digest: self.len > 0,
            ..Layout::header_only(HEADER_LEN as u32)
        }
    }
}

// What a NIC context is told. ---------------------------------------------------------------------------------------

/// What both sides know before the first blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Blobs have tags below this.
    pub tags: u16,
    /// The most bytes of a part: below 2^24.
    pub max_len: u32,
}

const MOST: u32 = 1 << 24;

impl crate::Parameters for Parameters {
    const ENCODED_LEN: usize = 8;

    fn encode(&self, bytes: &mut [u8]) {
        bytes[..2].copy_from_slice(&self.tags.to_le_bytes());
        bytes[2..4].fill(0);
        bytes[4..8].copy_from_slice(&self.max_len.to_le_bytes());
    }

    fn decode(bytes: &[u8]) -> Option<Parameters> {
        let [t0, t1, 0, 0, max @ ..] = *bytes.first_chunk::<8>()? else {
            return None;
        };
        let max_len = u32::from_le_bytes(max);
        (max_len < MOST).then_some(Parameters {
            tags: u16::from_le_bytes([t0, t1]),
            max_len,
        })
    }

    fn tags(&self) -> u16 {
        self.tags
    }
}

// What the NIC judges headers by, and how the list names it all. ----------------------------------------------------

/// The NIC's part.
pub type Engine = pdus::Engine<Rules>;

/// What headers are judged by.
#[derive(Clone, Debug)]
pub struct Rules(Parameters);

impl pdus::Rules for Rules {
    type Header = [u8; HEADER_LEN];

    fn may_begin(&self, bytes: &[u8]) -> bool {
        bytes.iter().zip(MAGIC).all(|(byte, right)| *byte == right)
    }

    fn judge(&self, header: &[u8], direction: Direction) -> Option<Judged> {
        let blob = Blob::parse(header.first_chunk()?).ok()?;
        if blob.len > self.0.max_len || blob.tag >= self.0.tags {
            return None;
        }
        let layout = blob.layout();
        let receives = direction == Direction::Receive && blob.len > 0;
        Some(Judged {
            layout,
            header_digest: false,
            placement: receives.then(|| Placement {
                from: layout.data().start,
                to: layout.data().end,
                tag: blob.tag,
                at: blob.offset,
            }),
        })
    }

    fn has_digests(&self) -> bool {
        true
    }
}

impl Protocol for Engine {
    type Parameters = Parameters;
    const NAME: &'static str = "toy";
    const REPLACES: bool = false;
    const CHECK_LEN: u32 = 4;
    counters!("toy", "Toy", "Toy", digests);

    fn create(
        parameters: &Parameters,
        direction: Direction,
        _: Option<&Resource>,
    ) -> Option<Engine> {
        Some(Engine::of(Rules(*parameters), direction))
    }
}

// How the host reads and writes. ------------------------------------------------------------------------------------

/// The framing: the same in both directions, and from the first byte on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Framing {
    /// The most bytes of a part.
    pub max_len: u32,
}

impl fmt::Debug for Framing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "blobs in parts of {} bytes", self.max_len)
    }
}

impl PduProtocol for Framing {
    type Pdu = Blob;
    type Prelude = Blob;
    type Error = ToyError;

    const ID: ProtocolId = <Parameters as Listed>::ID;
    const NAME: &'static str = "toy";
    const PRELUDE_LEN: usize = HEADER_LEN;

    fn begin(&self, prelude: &[u8]) -> Result<Blob, ToyError> {
        let header = prelude.first_chunk().ok_or(ToyError::NotABlob)?;
        let blob = Blob::parse(header)?;
        match blob.len > self.max_len {
            true => Err(ToyError::TooLong(blob.len)),
            false => Ok(blob),
        }
    }

    fn header_len(&self, _: &Blob) -> usize {
        HEADER_LEN
    }

    fn parse(&self, blob: &Blob, _: &[u8]) -> Result<(Blob, Layout), ToyError> {
        Ok((*blob, blob.layout()))
    }

    fn layout_of(&self, blob: &Blob) -> Layout {
        blob.layout()
    }

    fn emit(&self, blob: &Blob, front: &mut [u8; MAX_FRONT]) -> Layout {
        blob.emit(&mut front[..HEADER_LEN]);
        blob.layout()
    }

    fn no_room(blob: &Blob) -> ToyError {
        ToyError::TooLong(blob.len)
    }
}
