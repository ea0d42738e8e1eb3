//! The response that one socket receives.

use std::io::{self, Write};

use l5p::http::{Content, ContentError, MadeBy, Parameters, Sink};
use l5p::{HostEvent, Listed, Note, ResultRing};
use nic::ring::ContextId;
use tcp::Accepted;

use super::ResponseInfo;
use super::buffers::ResultBuffers;
use crate::counters::Counters;
use crate::device::Device;
use crate::driver::{Driver, Place};
use crate::layer5::{ContentFront, ContentReader};
use crate::memory::Arena;
use crate::stream::{Segment, Stream};

/// How many bytes a compressed byte becomes, before it is known.
const USUAL_GROWTH: u64 = 4;

/// The response that a socket receives.
#[derive(Debug)]
pub(crate) struct Response {
    content: Content,
    buffers: Option<ResultBuffers>,
    /// The NIC's context, where the response is not inside of another protocol.
    pub context: Option<ContextId>,
    made_by_nic: u64,
}

/// Where content goes.
struct Output<'a> {
    buffers: Option<&'a mut ResultBuffers>,
    output: &'a mut dyn Write,
}

impl Sink for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.output.write_all(bytes)
    }

    fn write_placed(&mut self, len: u64) -> io::Result<()> {
        match &mut self.buffers {
            Some(buffers) => buffers.take(len, self.output),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

impl Response {
    /// At its first byte.
    pub fn new(limit: Option<u64>, by_nic: bool, arena: &Arena) -> Response {
        let decodes = by_nic && limit.is_some();
        let buffers = decodes.then(|| ResultBuffers::new(arena)).flatten();
        Response {
            content: Content::new(limit, buffers.as_ref().map(ResultBuffers::ring)),
            buffers,
            context: None,
            made_by_nic: 0,
        }
    }

    /// The buffers that the NIC is to use, if it is to decode.
    pub fn ring(&self) -> Option<ResultRing> {
        self.buffers.as_ref().map(ResultBuffers::ring)
    }

    /// Gives the NIC all of its buffers, which are for this context.
    pub fn map(&mut self, context: ContextId, device: &mut Device) {
        if let Some(buffers) = &mut self.buffers {
            buffers.begin(context);
        }
        self.renew(Some(context), device);
    }

    /// Gives the NIC those buffers again whose content was taken out.
    pub fn renew(&mut self, context: Option<ContextId>, device: &mut Device) {
        if let Some(buffers) = &mut self.buffers {
            buffers.renew(context, &mut device.driver, &mut device.counters);
        }
    }

    /// The widest window for the stream whose decoded content has room in the buffers, if the rest grows as what was decoded did.
    pub fn window(&self) -> u32 {
        let Some(ring) = self
            .ring()
            .filter(|_| self.content.is_by_nic() && !self.is_done())
        else {
            return u32::MAX;
        };
        let (taken, made) = match (self.content.taken(), self.content.made()) {
            (taken, made) if taken > 0 && made > 0 => (taken, made),
            _ => (1, USUAL_GROWTH),
        };
        let window = u128::from(ring.bytes()) * u128::from(taken) / u128::from(made);
        u32::try_from(window * 7 / 8).unwrap_or(u32::MAX)
    }

    /// Whether its head has come.
    pub fn has_head(&self) -> bool {
        self.content.head().is_some()
    }

    /// Whether the response is whole.
    pub fn is_done(&self) -> bool {
        self.content.is_done()
    }

    pub fn info(&self) -> ResponseInfo<'_> {
        ResponseInfo {
            head: self.content.head(),
            is_done: self.content.is_done(),
            taken: self.content.taken(),
            made: self.content.made(),
            made_by_nic: self.made_by_nic,
        }
    }

    /// TCP has taken this of a packet's payload of `len` bytes, of which the NIC has said this.
    pub fn arrived(&mut self, taken: Accepted, len: u32, notes: &[Note]) {
        // What the NIC has seen of a packet and TCP has not taken, was not in the stream.
        if taken.skip == 0 && taken.len == len {
            self.content.note(taken.seq, len, notes);
        }
    }

    /// Takes what lies together at the stream's front: bytes of the head, or behind it if it was there when the read began. Answers how many
    /// bytes.
    pub fn take(
        &mut self,
        stream: &mut Stream,
        content: ContentFront,
        had_head: bool,
        output: &mut dyn Write,
    ) -> (u32, Result<(), ContentError>) {
        let mut sink = Output {
            buffers: self.buffers.as_mut(),
            output,
        };
        let mut taken = 0;
        while taken < content.len
            && !self.content.is_done()
            && !self.content.is_behind()
            && self.content.head().is_some() == had_head
            && let Some(front) = stream.front().and_then(Segment::as_buffer)
        {
            let left = content.len - taken;
            let bytes = &front[..front.len().min(left as usize)];
            let known = if content.is_agreed { left } else { 0 };
            match self.content.take(stream.start(), bytes, known, &mut sink) {
                Ok(used) => {
                    stream.skip(used as u32);
                    taken += used as u32;
                }
                Err(error) => return (taken, Err(error)),
            }
        }
        (taken, Ok(()))
    }

    /// Whether software has to catch up before more can be read.
    pub fn is_behind(&self) -> bool {
        self.content.is_behind()
    }

    /// Decodes some more of what the NIC has left to software.
    pub fn catch_up(&mut self, output: &mut dyn Write) -> Result<(), ContentError> {
        let buffers = self.buffers.as_mut();
        self.content.catch_up(&mut Output { buffers, output })
    }

    /// The stream has ended in order.
    pub fn handle_end(&mut self) -> Result<(), ContentError> {
        self.content.handle_end()
    }

    /// Counts what was done since this was called last.
    pub fn count(&mut self, counters: &mut Counters) {
        let MadeBy {
            nic,
            software,
            fallbacks,
        } = self.content.take_made_by();
        self.made_by_nic += nic;
        for (event, count) in [
            (HostEvent::RxBytesByNic, nic),
            (HostEvent::RxBytesBySoftware, software),
            (HostEvent::RxFallbacks, fallbacks),
        ] {
            counters.protocols.add(Parameters::ID, event, count);
        }
    }
}

impl ContentReader for Response {
    fn context(&self) -> Option<ContextId> {
        self.context
    }

    fn context_mut(&mut self) -> &mut Option<ContextId> {
        &mut self.context
    }

    /// The NIC has missed something, and decodes no more.
    fn resync(&mut self, _: Place) -> Option<u64> {
        None
    }

    fn release(&mut self, driver: &mut Driver) {
        if let Some(buffers) = self.buffers.take() {
            buffers.retire(driver);
        }
    }
}
