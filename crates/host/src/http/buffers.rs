//! The buffers that the NIC writes decoded content to, around and around.

use std::io::{self, Write};

use l5p::ResultRing;
use nic::ring::ContextId;

use crate::counters::Counters;
use crate::driver::Driver;
use crate::memory::{Arena, Buffer, Purpose, SizeClass};

/// Most buffers for one response: 4 MiB.
const MOST: u16 = 64;
/// Bytes of one that are used.
const BUFFER_LEN: u32 = 64 << 10;

/// The buffers for one response.
#[derive(Debug)]
pub(super) struct ResultBuffers {
    buffers: Vec<Buffer>,
    ring: ResultRing,
    /// Bytes of content that were taken out.
    taken: u64,
    /// Buffers that were mapped, each as often as it was.
    mapped: u64,
    context: Option<ContextId>,
}

impl ResultBuffers {
    /// As many as the arena can spare. `None` when it can spare no buffer.
    pub fn new(arena: &Arena) -> Option<ResultBuffers> {
        let spare = arena.headroom(Purpose::Queued) / 8 / u64::from(SizeClass::Large.bytes());
        let count = spare.min(MOST.into());
        let take = |_| arena.allocate_class(Purpose::Received, SizeClass::Large);
        let buffers = (0..count).map_while(take);
        let buffers: Vec<Buffer> = buffers.collect();
        let ring = ResultRing {
            buffer_len: BUFFER_LEN,
            buffers: buffers.len() as u16,
        };
        (ring.buffers > 0).then_some(ResultBuffers {
            buffers,
            ring,
            taken: 0,
            mapped: 0,
            context: None,
        })
    }

    pub fn ring(&self) -> ResultRing {
        self.ring
    }

    /// They are for this context from now on.
    pub fn begin(&mut self, context: ContextId) {
        self.context = Some(context);
    }

    /// Maps those again, behind all others, whose content was taken out. Not for another context than that which they are for.
    pub fn renew(
        &mut self,
        context: Option<ContextId>,
        driver: &mut Driver,
        counters: &mut Counters,
    ) {
        let Some(context) = self.context.filter(|own| context == Some(*own)) else {
            self.context = None;
            return;
        };
        let count = u64::from(self.ring.buffers);
        let emptied = self.taken / u64::from(self.ring.buffer_len);
        while self.mapped < emptied + count {
            let tag = (self.mapped % count) as u16;
            let mut slice = self.buffers[usize::from(tag)].slice();
            slice.len = self.ring.buffer_len;
            if self.mapped >= count {
                driver.l5o_del_rr_state(context, tag, counters);
            }
            self.mapped += 1;
            if !driver.l5o_add_rr_state(context, tag, &[slice], counters) {
                // The NIC will find no buffer there, and leave the rest to software.
                self.context = None;
                return;
            }
        }
    }

    /// Writes the next `len` bytes to `output`.
    pub fn take(&mut self, len: u64, output: &mut dyn Write) -> io::Result<()> {
        let end = self.taken + len;
        while self.taken < end {
            let (tag, at, room) = self.ring.place(self.taken);
            let len = u64::from(room).min(end - self.taken);
            let (from, to) = (at as usize, at as usize + len as usize);
            output.write_all(&self.buffers[usize::from(tag)][from..to])?;
            self.taken += len;
        }
        Ok(())
    }

    /// Gives them back, once the NIC has done what it was told last: to destroy the context.
    pub fn retire(self, driver: &mut Driver) {
        for buffer in self.buffers {
            driver.retire_later(buffer);
        }
    }
}
