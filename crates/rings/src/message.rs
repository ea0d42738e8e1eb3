//! The messages. Each is words of this machine: both sides are on it.

mod identity;

use nic::Features;
use nic::ring::{FunctionConfig, RegionId};
use wire::ethernet::MacAddr;

#[cfg(test)]
pub(crate) use identity::IDENTITY;
pub use identity::Identity;

/// Version of the messages and of what is in the rings.
pub const VERSION: u32 = 5;

const REQUEST_WORDS: usize = 16;
const ANSWER_WORDS: usize = 4;
/// Bytes of a request.
pub(crate) const REQUEST_BYTES: usize = REQUEST_WORDS * 8;
/// Bytes of an answer.
pub(crate) const ANSWER_BYTES: usize = ANSWER_WORDS * 8;

/// What every message begins with: `lnsr`, and the version.
const MAGIC: u64 = (u32::from_be_bytes(*b"lnsr") as u64) << 32;

/// The first word of a message of this version.
pub(crate) const fn head() -> u64 {
    MAGIC | VERSION as u64
}

/// What a host asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// A function whose rings are in the memfd that comes along. The address in it counts for nothing: the NIC gives one.
    SetUp(FunctionConfig),
    /// A region: part of the memfd or the file that comes along.
    Register(Extent),
    /// It is no region any more. There is no answer.
    Unregister(RegionId),
    /// How many connections the NIC has still to finish.
    Unfinished,
    /// A word of the NIC's [`Identity`]. Before the function is there.
    Identify(u64),
    /// The features that the function is to have. It is sent before the function is made; without it the function has no features.
    Features(Features),
}

/// A region, and where it is in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) id: RegionId,
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) writable: bool,
}

/// What came is no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadRequest {
    /// Of another version, which may mean anything by it.
    Version,
    /// It means nothing.
    Meaningless,
}

const SET_UP: u64 = 1;
const REGISTER: u64 = 2;
const UNREGISTER: u64 = 3;
const UNFINISHED: u64 = 4;
const IDENTIFY: u64 = 5;
const FEATURES: u64 = 6;

/// Names of the requests, from 1 on.
#[cfg(test)]
pub(crate) const REQUESTS: [&str; FEATURES as usize] = [
    "SetUp",
    "Register",
    "Unregister",
    "Unfinished",
    "Identify",
    "Features",
];

impl Request {
    pub(crate) fn to_bytes(self) -> [u8; REQUEST_BYTES] {
        let mut words = [0; REQUEST_WORDS];
        words[0] = head();
        match self {
            Request::SetUp(config) => {
                words[1] = SET_UP;
                words[2..].copy_from_slice(&config_words(&config));
            }
            Request::Register(extent) => {
                let id = u64::from(extent.id.0);
                words[1] = REGISTER;
                words[2..6].copy_from_slice(&[
                    id,
                    extent.offset,
                    extent.len,
                    extent.writable.into(),
                ]);
            }
            Request::Unregister(id) => (words[1], words[2]) = (UNREGISTER, id.0.into()),
            Request::Unfinished => words[1] = UNFINISHED,
            Request::Identify(at) => (words[1], words[2]) = (IDENTIFY, at),
            Request::Features(features) => (words[1], words[2]) = (FEATURES, features.bits()),
        }
        bytes_of(&words)
    }

    pub(crate) fn from_bytes(bytes: &[u8; REQUEST_BYTES]) -> Result<Request, BadRequest> {
        let words: [u64; REQUEST_WORDS] = words_of(bytes);
        if words[0] != head() {
            let is_ours = words[0] >> 32 == MAGIC >> 32;
            return Err(if is_ours {
                BadRequest::Version
            } else {
                BadRequest::Meaningless
            });
        }
        let id = || u16::try_from(words[2]).ok().map(RegionId);
        let request = match words[1] {
            SET_UP => config_of(&words[2..]).map(Request::SetUp),
            REGISTER => id().map(|id| {
                Request::Register(Extent {
                    id,
                    offset: words[3],
                    len: words[4],
                    writable: words[5] != 0,
                })
            }),
            UNREGISTER => id().map(Request::Unregister),
            UNFINISHED => Some(Request::Unfinished),
            IDENTIFY => Some(Request::Identify(words[2])),
            FEATURES => Some(Request::Features(Features::from_bits(words[2]))),
            _ => None,
        };
        request.ok_or(BadRequest::Meaningless)
    }
}

/// Makes the codec of settings of a list of fields with their types.
macro_rules! set_up {
    ($($field:ident: $Type:ty),*) => {
        /// Words of a `SetUp` behind the first two.
        #[cfg(test)]
        pub(crate) const SET_UP_WORDS: [&str; REQUEST_WORDS - 2] = [$(stringify!($field)),*];

        fn config_words(config: &FunctionConfig) -> [u64; REQUEST_WORDS - 2] {
            [$(config.$field.into()),*]
        }

        /// Settings without an address and features. `None` for a number that is too large for what it says.
        fn config_of(words: &[u64]) -> Option<FunctionConfig> {
            let [$($field),*] = *words.first_chunk()?;
            Some(FunctionConfig {
                mac: MacAddr::ZERO,
                features: Features::NONE,
                $($field: <$Type>::try_from($field).ok()?,)*
            })
        }
    };
}

set_up!(
    queues: u16,
    send_entries: u32,
    command_entries: u32,
    receive_entries: u32,
    small_entries: u32,
    large_entries: u32,
    small_bytes: u32,
    large_bytes: u32,
    contexts: u32,
    tags: u32,
    closing: u32,
    packet_memory: u64,
    splices: u32,
    toe_connections: u32
);

/// What the NIC answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The function is there, with this address, on a wire of this MTU. The host's bell and the NIC's come along.
    SetUp { mac: MacAddr, mtu: u16 },
    /// The region may be named.
    Registered,
    /// So many connections are unfinished.
    Unfinished(u64),
    /// A word of the identity, and how many words that has.
    Identity { word: u64, words: u64 },
    /// The function will have these features.
    Agreed,
    /// It was not done.
    Refused(Refusal),
}

/// Why a NIC refuses a host's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is of another version.
    #[error(
        "the NIC's rings have version {0}, this program's {VERSION}; run both from the same release"
    )]
    Version(u32),
    /// It has a host there.
    #[error(
        "another program uses this socket; give the NIC one more --host rings:SOCKET for each program"
    )]
    Busy,
    /// It is about to end.
    #[error("the NIC is ending")]
    Draining,
    /// Sizes or quotas beyond what it takes.
    #[error("the function's sizes or quotas exceed the NIC's limits")]
    BadConfig,
    /// What is to be shared memory is not sealed, too small, or no ordinary memory.
    #[error("the memory is not a memfd of this size that is sealed against shrinking")]
    BadMemory,
    /// The file may not be mapped.
    #[error("not a regular file on a local file system")]
    BadFile,
    /// The rings are not empty.
    #[error("the rings are not empty")]
    NotEmpty,
    /// More regions, or bytes of them, than it takes.
    #[error("too many regions, or bytes of them, for the NIC")]
    TooMany,
    /// It has no room for a function.
    #[error("the NIC has no room for another host")]
    NoRoom,
    /// The request is malformed, or comes at a wrong time.
    #[error("the NIC does not understand the request")]
    Meaningless,
    /// It has not all of the features.
    #[error("the NIC does not offer {0}")]
    Features(Features),
}

/// Names of the refusals, from 1 on.
#[cfg(test)]
pub(crate) const REFUSALS: [&str; 11] = [
    "Version",
    "Busy",
    "Draining",
    "BadConfig",
    "BadMemory",
    "BadFile",
    "NotEmpty",
    "TooMany",
    "NoRoom",
    "Meaningless",
    "Features",
];

const DONE: u64 = 0;

impl Answer {
    pub(crate) fn to_bytes(self) -> [u8; ANSWER_BYTES] {
        let (code, values) = match self {
            Answer::SetUp { mac, mtu } => (DONE, [number(mac), mtu.into()]),
            Answer::Registered => (DONE, [0, 0]),
            Answer::Unfinished(count) => (DONE, [count, 0]),
            Answer::Identity { word, words } => (DONE, [word, words]),
            Answer::Agreed => (DONE, [0, 0]),
            Answer::Refused(Refusal::Features(missing)) => {
                let refusal = Refusal::Features(missing);
                (refusal.code(), [VERSION.into(), missing.bits()])
            }
            Answer::Refused(refusal) => (refusal.code(), [VERSION.into(), 0]),
        };
        bytes_of(&[head(), code, values[0], values[1]])
    }

    /// The answer to a request. `None` for a malformed one.
    pub(crate) fn from_bytes(bytes: &[u8; ANSWER_BYTES], to: &Request) -> Option<Answer> {
        let [magic, code, first, second]: [u64; ANSWER_WORDS] = words_of(bytes);
        if magic >> 32 != MAGIC >> 32 {
            return None;
        }
        if code != DONE {
            return Refusal::of(code, magic as u32, second).map(Answer::Refused);
        }
        Some(match to {
            Request::SetUp(_) => Answer::SetUp {
                mac: mac_of(first),
                mtu: u16::try_from(second).ok()?,
            },
            Request::Register(_) | Request::Unregister(_) => Answer::Registered,
            Request::Unfinished => Answer::Unfinished(first),
            Request::Identify(_) => Answer::Identity {
                word: first,
                words: second,
            },
            Request::Features(_) => Answer::Agreed,
        })
    }
}

impl Refusal {
    pub(crate) const ALL: [Refusal; 11] = [
        Refusal::Version(VERSION),
        Refusal::Busy,
        Refusal::Draining,
        Refusal::BadConfig,
        Refusal::BadMemory,
        Refusal::BadFile,
        Refusal::NotEmpty,
        Refusal::TooMany,
        Refusal::NoRoom,
        Refusal::Meaningless,
        Refusal::Features(Features::NONE),
    ];

    /// Its number in messages.
    pub fn code(self) -> u64 {
        let same = |other: &Refusal| std::mem::discriminant(other) == std::mem::discriminant(&self);
        let at = Refusal::ALL.iter().position(same);
        at.map_or(0, |at| at as u64 + 1)
    }

    /// `version` is that of the NIC, `missing` the features that it has not.
    fn of(code: u64, version: u32, missing: u64) -> Option<Refusal> {
        let at = usize::try_from(code).ok()?.checked_sub(1)?;
        Some(match Refusal::ALL.get(at)? {
            Refusal::Version(_) => Refusal::Version(version),
            Refusal::Features(_) => Refusal::Features(Features::from_bits(missing)),
            other => *other,
        })
    }
}

fn number(mac: MacAddr) -> u64 {
    mac.0
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn mac_of(number: u64) -> MacAddr {
    let [_, _, a, b, c, d, e, f] = number.to_be_bytes();
    MacAddr([a, b, c, d, e, f])
}

pub(crate) fn bytes_of<const WORDS: usize, const BYTES: usize>(
    words: &[u64; WORDS],
) -> [u8; BYTES] {
    const { assert!(WORDS * 8 == BYTES) };
    let mut bytes = [0; BYTES];
    for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

pub(crate) fn words_of<const WORDS: usize, const BYTES: usize>(
    bytes: &[u8; BYTES],
) -> [u64; WORDS] {
    const { assert!(WORDS * 8 == BYTES) };
    let mut words = [0; WORDS];
    for (word, from) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
        *word = u64::from_ne_bytes(*from);
    }
    words
}
