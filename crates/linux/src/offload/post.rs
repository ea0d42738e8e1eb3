//! Parts of a segment on the send ring.

use std::ops::Range;

use driver::Recovery;
use l5p::MsgState;
use nic::ring::{ContextId, MAX_HEADER_LEN, SendDescriptor, Slice};
use wire::SeqNum;
use wire::packet::Parsed;
use wire::tcp::Flags;

use super::DriverEnv;
use super::transmit::{FLAGS, Withheld};
use crate::memory::Staging;
use crate::outgoing::Outgoing;

/// Where a TCP header has its sequence number and its flags.
const SEQ: usize = 4;
const FLAG_BYTE: usize = 13;

/// A segment of Linux's, with payload.
#[derive(Debug)]
pub(super) struct Segment<'a> {
    frame: &'a Outgoing,
    parsed: &'a Parsed,
}

impl<'a> Segment<'a> {
    pub(super) fn new(frame: &'a Outgoing, parsed: &'a Parsed) -> Segment<'a> {
        Segment { frame, parsed }
    }

    pub(super) fn start(&self) -> SeqNum {
        self.parsed.tcp.seq
    }

    pub(super) fn end(&self) -> SeqNum {
        self.start() + self.parsed.payload_len
    }

    pub(super) fn has_fin(&self) -> bool {
        self.parsed.tcp.flags.contains(Flags::FIN)
    }

    /// Bytes of the frame before the payload.
    pub(super) fn skip(&self) -> u32 {
        self.parsed.payload_offset as u32
    }

    /// The payload of a range inside of the segment.
    pub(super) fn payload<'s>(&self, range: Range<SeqNum>, staging: &'s Staging) -> &'s [u8] {
        staging.bytes(self.slice(range))
    }

    fn slice(&self, range: Range<SeqNum>) -> Slice {
        let offset = self.start().distance_to(range.start) as usize + self.parsed.payload_offset;
        Slice {
            offset: self.frame.slice.offset + offset as u64,
            len: range.start.distance_to(range.end),
            ..self.frame.slice
        }
    }

    /// Posts a part of the payload as it is.
    pub(super) fn post_plain(
        &self,
        range: Range<SeqNum>,
        env: &mut DriverEnv<'_>,
    ) -> Result<(), Withheld> {
        let slice = self.slice(range.clone());
        self.post(range, &[slice], None, env)
    }

    /// Posts a part of the segment, the payload of which is in `payload`.
    pub(super) fn post(
        &self,
        range: Range<SeqNum>,
        payload: &[Slice],
        context: Option<ContextId>,
        env: &mut DriverEnv<'_>,
    ) -> Result<(), Withheld> {
        let (parsed, header_len) = (self.parsed, self.parsed.payload_offset);
        let mut header = [0; MAX_HEADER_LEN];
        let header = &mut header[..header_len];
        header.copy_from_slice(&env.staging.bytes(self.frame.slice)[..header_len]);
        let l4 = parsed.l4_offset;
        header[l4 + SEQ..l4 + SEQ + 4].copy_from_slice(&range.start.0.to_be_bytes());
        let mut flags = Flags(header[l4 + FLAG_BYTE]);
        if range.end != self.end() {
            flags.remove(Flags::FIN.union(Flags::PSH));
        }
        if range.start != self.start() {
            flags.remove(Flags::CWR);
        }
        header[l4 + FLAG_BYTE] = flags.0;
        let len = range.start.distance_to(range.end);
        let mss = match self.frame.meta.gso_size {
            mss if len > u32::from(mss) => mss,
            _ => 0,
        };
        let descriptor = SendDescriptor::Send {
            header,
            mss,
            context,
            flags: FLAGS,
            payload,
        };
        let posted = env.rings.send().post(&descriptor);
        posted.map(drop).map_err(|_| Withheld::NoRoom)
    }
}

/// Posts what brings a context to `resume`, inside of `message`, whose bytes before that are in `prefix`, if there is room for a packet of so many slices
/// behind it.
pub(super) fn recover(
    context: ContextId,
    resume: SeqNum,
    message: MsgState,
    prefix: &[Slice],
    slices: usize,
    env: &mut DriverEnv<'_>,
) -> Result<(), Withheld> {
    // What is retained does not change: there is nothing to verify.
    let recovery = Recovery::plan(message, resume, resume, false);
    let posted = env
        .rings
        .recover((context, resume), &recovery, (prefix, None), slices);
    posted.map_err(|_| Withheld::NoRoom)
}
