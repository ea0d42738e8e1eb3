//! What is asked for a virtual machine, beside what every host asks for.

use nic::Features;
use nic::ring::FunctionConfig;
use wire::ethernet::MacAddr;

use super::Memory;
use crate::message::{BadRequest, REQUEST_BYTES, Request, bytes_of, head, words_of};

/// What a gate asks for on behalf of a VMM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GuestRequest {
    /// `Identify`, `Features` or `SetUp`, the latter without a descriptor.
    Plain(Request),
    /// The address and the MTU that a function has.
    Address,
    /// Part of the file that comes along is memory.
    Map(Memory),
    /// What is mapped between these addresses is memory no more.
    Unmap { address: u64, len: u64 },
    /// Where the rings of a queue are.
    Rings { queue: u16, address: u64 },
    /// The function is removed.
    Remove,
}

const ADDRESS: u64 = 0x101;
const MAP: u64 = 0x102;
const UNMAP: u64 = 0x103;
const RINGS: u64 = 0x104;
const REMOVE: u64 = 0x105;

impl GuestRequest {
    pub(crate) fn to_bytes(self) -> [u8; REQUEST_BYTES] {
        let rest = match self {
            GuestRequest::Plain(request) => return request.to_bytes(),
            GuestRequest::Address => [ADDRESS, 0, 0, 0, 0],
            GuestRequest::Map(memory) => [
                MAP,
                memory.address,
                memory.offset,
                memory.len,
                memory.writable.into(),
            ],
            GuestRequest::Unmap { address, len } => [UNMAP, address, len, 0, 0],
            GuestRequest::Rings { queue, address } => [RINGS, queue.into(), address, 0, 0],
            GuestRequest::Remove => [REMOVE, 0, 0, 0, 0],
        };
        let mut words = [0; REQUEST_BYTES / 8];
        words[0] = head();
        words[1..6].copy_from_slice(&rest);
        bytes_of(&words)
    }

    pub(crate) fn from_bytes(bytes: &[u8; REQUEST_BYTES]) -> Result<GuestRequest, BadRequest> {
        let words: [u64; REQUEST_BYTES / 8] = words_of(bytes);
        if words[0] != head() {
            return Request::from_bytes(bytes).map(GuestRequest::Plain);
        }
        Ok(match words[1] {
            ADDRESS => GuestRequest::Address,
            MAP => GuestRequest::Map(Memory {
                address: words[2],
                offset: words[3],
                len: words[4],
                writable: words[5] != 0,
            }),
            UNMAP => GuestRequest::Unmap {
                address: words[2],
                len: words[3],
            },
            RINGS => GuestRequest::Rings {
                queue: u16::try_from(words[2]).map_err(|_| BadRequest::Meaningless)?,
                address: words[3],
            },
            REMOVE => GuestRequest::Remove,
            _ => GuestRequest::Plain(Request::from_bytes(bytes)?),
        })
    }

    /// A request of a host whose answer looks the same.
    pub(super) fn answered_like(self) -> Request {
        match self {
            GuestRequest::Plain(request) => request,
            GuestRequest::Address => Request::SetUp(FunctionConfig::new(MacAddr::ZERO)),
            _ => Request::Features(Features::NONE),
        }
    }
}
