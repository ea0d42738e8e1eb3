//! The messages, in fixed sizes: little-endian, the version first.

use l5p::Direction;
use l5p::nvme::Parameters;
use l5p::tls::CryptoInfo;
use rustix::io::Errno;
use wire::SeqNum;
use zerocopy::byteorder::little_endian::{I32, U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Version of the messages. Another one is refused with `EPROTO`.
pub const VERSION: u16 = 3;
/// What a library writes to the NIC's control socket to make it an attachment.
pub const ATTACH_LINE: &str = "{\"command\":\"attach\"}\n";
/// What the NIC answers to it. Messages begin behind it.
pub const ATTACHED_LINE: &str = "\"attached\"\n";

/// A slot as it is named in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotId {
    /// Number of the slab on this connection, as [`Request::Attach`] was answered.
    pub slab: u16,
    /// Index in the slab.
    pub index: u32,
    /// Which use of the slot ([`Slab::claim`](crate::Slab::claim)).
    pub generation: u32,
}

/// A boundary between records that both sides can know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resume {
    /// Where a record begins.
    pub tcpsn: SeqNum,
    /// Its number under the keys.
    pub index: u64,
    /// Of the receiving direction: where the library reads the next byte.
    pub read: Option<SeqNum>,
}

/// Keys for one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// The connection's slot.
    pub slot: SlotId,
    /// Which direction they are for.
    pub direction: Direction,
    /// As [`Slot::next_request`](crate::Slot::next_request) gave it. A request that another one has followed meanwhile is refused with `ESTALE`: the library
    /// has had no answer, and may have gone on without the NIC.
    pub number: u32,
    /// The keys, with the number of the record that begins where they begin to hold.
    pub info: CryptoInfo,
    /// The NIC has had these keys before, and was restarted or is told by another library's connection: a record's boundary at or before the
    /// socket's position.
    pub resume: Option<Resume>,
}

/// NVMe/TCP PDUs that a connection carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PduOffload {
    /// The connection's slot.
    pub slot: SlotId,
    /// As in [`Keys`], for the receiving direction.
    pub number: u32,
    /// Number of the memory that data goes to, on this connection, as [`Request::Memory`] was answered.
    pub memory: u16,
    /// What was agreed on for what the peer sends.
    pub parameters: Parameters,
}

/// What the library asks for. Each has an [`Answer`], in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Use this slab. Along with it comes the file's descriptor; the answer gives the slab's number, and in the place of a position the NIC's own.
    Attach,
    /// Make, or open, records from the socket's position on. Along with it comes the socket's descriptor.
    SetKeys(Keys),
    /// Stop doing so: from the socket's position on, the bytes are the library's own records. Along with it comes the socket's descriptor.
    Stop {
        /// The connection's slot.
        slot: SlotId,
        /// Which direction.
        direction: Direction,
        /// As in [`Keys`].
        number: u32,
    },
    /// The program has closed the socket. Another process may have it still.
    Release {
        /// The connection's slot.
        slot: SlotId,
        /// The socket's `SO_COOKIE`: a NIC that was restarted knows the connection by it. 0 if the library does not say.
        cookie: u64,
    },
    /// Data may go to this memory. Along with it comes the file's descriptor; the answer gives the memory's number.
    Memory,
    /// Place data, and check digests, of the PDUs that come from the socket's position on. Along with it comes the socket's descriptor.
    Pdus(PduOffload),
    /// Look at what has changed in the slot's mappings, although nothing is sent.
    Settle {
        /// The connection's slot.
        slot: SlotId,
    },
}

/// What the NIC answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The `errno` of a refusal.
    pub result: Result<(), Errno>,
    /// From where on the keys hold, or hold no more; to [`Request::Attach`] a number that tells this NIC from others.
    pub tcpsn: SeqNum,
    /// Number of the slab, or of the memory.
    pub slab: u16,
}

impl Answer {
    /// It is done, and this position goes with it.
    pub fn at(tcpsn: SeqNum) -> Answer {
        Answer {
            result: Ok(()),
            tcpsn,
            slab: 0,
        }
    }

    /// It is refused.
    pub fn refused(error: Errno) -> Answer {
        Answer {
            result: Err(error),
            tcpsn: SeqNum(0),
            slab: 0,
        }
    }
}

/// A malformed message. The connection must be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRequest {
    /// Another version.
    #[error("the library speaks version {0}, the NIC version 3; run both from the same release")]
    Version(u16),
    /// A kind that there is not.
    #[error("unknown request {0}")]
    Kind(u16),
    /// A direction that there is not.
    #[error("unknown direction {0}; use 0 or 1")]
    Direction(u8),
    /// Keys for a cipher or version that there is not.
    #[error(transparent)]
    Keys(#[from] l5p::tls::InvalidCryptoInfo),
    /// Parameters of PDUs that there are not.
    #[error(transparent)]
    Parameters(#[from] l5p::nvme::InvalidParameters),
}

/// A request's bytes.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct RequestBytes {
    version: U16,
    kind: U16,
    slab: U16,
    direction: u8,
    has_resume: u8,
    index: U32,
    generation: U32,
    /// Of a release the socket's cookie.
    resume_index: U64,
    resume_tcpsn: U32,
    resume_read: U32,
    memory: U16,
    _reserved: [u8; 2],
    number: U32,
    keys: [u8; CryptoInfo::ENCODED_LEN],
}

pub(crate) const REQUEST_BYTES: usize = size_of::<RequestBytes>();

/// An answer's bytes.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct AnswerBytes {
    version: U16,
    slab: U16,
    errno: I32,
    tcpsn: U32,
    _reserved: [u8; 4],
}

pub(crate) const ANSWER_BYTES: usize = size_of::<AnswerBytes>();

/// Bits of `has_resume`.
const HAS_RESUME: u8 = 1;
const HAS_READ: u8 = 2;

const ATTACH: u16 = 1;
const SET_KEYS: u16 = 2;
const STOP: u16 = 3;
const RELEASE: u16 = 4;
const MEMORY: u16 = 5;
const PDUS: u16 = 6;
const SETTLE: u16 = 7;

impl Request {
    /// Its number among those for a direction of the slot, if it has one.
    pub(crate) fn number(&self) -> Option<(Direction, u32)> {
        match self {
            Request::SetKeys(keys) => Some((keys.direction, keys.number)),
            Request::Stop {
                direction, number, ..
            } => Some((*direction, *number)),
            Request::Pdus(pdus) => Some((Direction::Receive, pdus.number)),
            _ => None,
        }
    }

    pub(crate) fn to_bytes(&self) -> [u8; REQUEST_BYTES] {
        let mut bytes = RequestBytes::new_zeroed();
        bytes.version = VERSION.into();
        let (kind, slot, direction) = match self {
            Request::Attach => (ATTACH, None, None),
            Request::SetKeys(keys) => (SET_KEYS, Some(keys.slot), Some(keys.direction)),
            Request::Stop {
                slot, direction, ..
            } => (STOP, Some(*slot), Some(*direction)),
            Request::Release { slot, .. } => (RELEASE, Some(*slot), None),
            Request::Memory => (MEMORY, None, None),
            Request::Pdus(pdus) => (PDUS, Some(pdus.slot), None),
            Request::Settle { slot } => (SETTLE, Some(*slot), None),
        };
        bytes.kind = kind.into();
        if let Some(slot) = slot {
            bytes.slab = slot.slab.into();
            bytes.index = slot.index.into();
            bytes.generation = slot.generation.into();
        }
        bytes.direction = u8::from(direction == Some(Direction::Receive));
        bytes.number = self.number().map_or(0, |(_, number)| number).into();
        if let Request::SetKeys(keys) = self {
            bytes.keys = keys.info.to_bytes();
            if let Some(resume) = keys.resume {
                bytes.has_resume = match resume.read {
                    Some(_) => HAS_RESUME | HAS_READ,
                    None => HAS_RESUME,
                };
                bytes.resume_index = resume.index.into();
                bytes.resume_tcpsn = resume.tcpsn.0.into();
                bytes.resume_read = resume.read.unwrap_or(SeqNum(0)).0.into();
            }
        }
        if let Request::Release { cookie, .. } = self {
            bytes.resume_index = (*cookie).into();
        }
        if let Request::Pdus(pdus) = self {
            bytes.memory = pdus.memory.into();
            bytes.keys[..Parameters::ENCODED_LEN].copy_from_slice(&pdus.parameters.to_bytes());
        }
        zerocopy::transmute!(bytes)
    }

    pub(crate) fn from_bytes(bytes: &[u8; REQUEST_BYTES]) -> Result<Request, BadRequest> {
        let bytes: &RequestBytes = zerocopy::transmute_ref!(bytes);
        if bytes.version != VERSION {
            return Err(BadRequest::Version(bytes.version.get()));
        }
        let slot = SlotId {
            slab: bytes.slab.get(),
            index: bytes.index.get(),
            generation: bytes.generation.get(),
        };
        let number = bytes.number.get();
        let direction = match bytes.direction {
            0 => Ok(Direction::Transmit),
            1 => Ok(Direction::Receive),
            other => Err(BadRequest::Direction(other)),
        };
        Ok(match bytes.kind.get() {
            ATTACH => Request::Attach,
            SET_KEYS => Request::SetKeys(Keys {
                slot,
                direction: direction?,
                number,
                info: CryptoInfo::from_bytes(&bytes.keys)?,
                resume: (bytes.has_resume != 0).then(|| Resume {
                    tcpsn: SeqNum(bytes.resume_tcpsn.get()),
                    index: bytes.resume_index.get(),
                    read: (bytes.has_resume & HAS_READ != 0)
                        .then(|| SeqNum(bytes.resume_read.get())),
                }),
            }),
            STOP => Request::Stop {
                slot,
                direction: direction?,
                number,
            },
            RELEASE => Request::Release {
                slot,
                cookie: bytes.resume_index.get(),
            },
            MEMORY => Request::Memory,
            PDUS => Request::Pdus(PduOffload {
                slot,
                number,
                memory: bytes.memory.get(),
                parameters: {
                    let encoded = bytes.keys.first_chunk();
                    Parameters::from_bytes(encoded.expect("keys are longer than parameters"))?
                },
            }),
            SETTLE => Request::Settle { slot },
            other => return Err(BadRequest::Kind(other)),
        })
    }
}

impl Answer {
    /// Bytes of an answer.
    pub const BYTES: usize = ANSWER_BYTES;

    /// It, as it is sent.
    pub fn to_bytes(self) -> [u8; Answer::BYTES] {
        let mut bytes = AnswerBytes::new_zeroed();
        bytes.version = VERSION.into();
        bytes.slab = self.slab.into();
        bytes.errno = self.result.err().map_or(0, Errno::raw_os_error).into();
        bytes.tcpsn = self.tcpsn.0.into();
        zerocopy::transmute!(bytes)
    }

    /// The answer in these bytes; `None` for another version's.
    pub fn from_bytes(bytes: &[u8; Answer::BYTES]) -> Option<Answer> {
        let bytes: &AnswerBytes = zerocopy::transmute_ref!(bytes);
        let errno = bytes.errno.get();
        (bytes.version == VERSION).then(|| Answer {
            result: match errno {
                0 => Ok(()),
                // The kernel's own numbers, and nothing that can't be one.
                1..4096 => Err(Errno::from_raw_os_error(errno)),
                _ => Err(Errno::PROTO),
            },
            tcpsn: SeqNum(bytes.tcpsn.get()),
            slab: bytes.slab.get(),
        })
    }
}
