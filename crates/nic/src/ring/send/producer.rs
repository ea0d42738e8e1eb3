//! The host's side of a send ring.

use std::sync::Arc;

use l5p::Direction;
use zeroize::Zeroize;

use super::super::accel::{self, TEARDOWN_SLICES};
use super::super::block::Block;
use super::super::gather::{
    CONTINUATION_SLICES, MAX_CONTINUATIONS, MAX_RR_SLICES, RECOVER_SLICES, RR_SLICES, SEND_SLICES,
};
use super::super::layout::{
    ContextId, Head, Opcode, SLOT_WORDS, encode_flow, encode_inner, encode_layers, pair,
};
use super::super::region::Slice;
use super::super::spsc::{Producer, Ring};
use super::super::toe::{self, TOE_SEND_SLICES, TOE_SEND_SLICES_AT, ToeCommand};
use super::{MAX_HEADER_LEN, PostError, SendDescriptor, SendFlags, Verify};

/// The host's side of a send ring.
#[derive(Debug)]
pub struct SendProducer {
    ring: Producer<SLOT_WORDS>,
}

impl SendProducer {
    pub(in crate::ring) fn new(block: &Arc<Block>, at: usize, entries: u32) -> Self {
        SendProducer {
            ring: Producer::new(Ring::new(Arc::clone(block), at, entries)),
        }
    }

    /// The device is gone: what was posted counts as done.
    pub(in crate::ring) fn clear(&mut self) {
        self.ring.clear();
    }

    /// Slots of the ring.
    pub fn capacity(&self) -> u32 {
        self.ring.capacity()
    }

    /// Free slots, as far as this side knows; it asks the device when it knows of fewer than `wanted`.
    pub fn free(&mut self, wanted: u32) -> u32 {
        self.ring.free(wanted)
    }

    /// Slots taken by a `Send` of so many slices.
    pub const fn slots_for_send(slices: usize) -> u32 {
        slots(slices, SEND_SLICES)
    }

    /// Slots taken by an `AddRrState` of so many slices.
    pub const fn slots_for_rr(slices: usize) -> u32 {
        slots(slices, RR_SLICES)
    }

    /// Slots taken by a `Teardown` of so many slices.
    pub const fn slots_for_teardown(slices: usize) -> u32 {
        slots(slices, TEARDOWN_SLICES)
    }

    /// Slots taken by a `RecoverContext` of so many slices.
    pub const fn slots_for_recover(slices: usize) -> u32 {
        slots(slices, RECOVER_SLICES)
    }

    /// Slots taken by a [`ToeCommand::Send`] of so many slices; every other command for the TOE takes one.
    pub const fn slots_for_toe_send(slices: usize) -> u32 {
        slots(slices, TOE_SEND_SLICES)
    }

    /// Index of the next slot to be posted: once [`completed`](Self::completed) has reached the value that this has
    /// after a descriptor was posted, the device has finished reading that descriptor's memory.
    pub fn posted(&self) -> u64 {
        self.ring.next()
    }

    /// Slots that the device has finished with.
    pub fn completed(&mut self) -> u64 {
        self.ring.completed()
    }

    /// Writes a descriptor; the device sees it after [`publish`](Self::publish). Gives the
    /// index of its first slot, which an error completion will name.
    ///
    /// # Errors
    /// When the ring has no room for all of it, or it can't be expressed. Nothing was written then.
    pub fn post(&mut self, descriptor: &SendDescriptor<'_>) -> Result<u64, PostError> {
        let mut words = [0; SLOT_WORDS];
        match *descriptor {
            SendDescriptor::Send {
                header,
                mss,
                context,
                flags,
                payload,
            } => self.post_send(header, mss, context, flags, payload),
            SendDescriptor::RecoverContext {
                context,
                start,
                index,
                len,
                resume,
                prefix,
                verify,
                inner,
                toe,
            } => {
                self.check(prefix.len(), RECOVER_SLICES)?;
                words[1] = pair(context.0, len);
                words[2] = index;
                words[3] = pair(start.0, resume.0);
                let mut flags = match verify {
                    Verify::None => 0,
                    Verify::WholeMessage => 1,
                    Verify::Frontier => 2,
                    Verify::Seek => 3,
                };
                if let Some(inner) = inner {
                    flags |= HAS_INNER;
                    words[22] = inner.index;
                    words[23] = pair(inner.len, inner.offset);
                }
                if let Some(toe) = toe {
                    flags |= HAS_TOE;
                    words[20] = pair(toe.index, toe.generation);
                }
                Ok(self.write(
                    Opcode::RecoverContext,
                    flags,
                    words,
                    4,
                    RECOVER_SLICES,
                    prefix,
                ))
            }
            SendDescriptor::CreateContext {
                context,
                direction,
                flow,
                tcpsn,
                layers,
            } => {
                self.check(0, 0)?;
                words[1] = pair(context.0, tcpsn.0);
                let v6 = encode_flow(&flow, &mut words);
                encode_layers(layers, &mut words);
                let flags = u8::from(direction == Direction::Receive) | u8::from(v6) << 1;
                Ok(self.write(Opcode::CreateContext, flags, words, 0, 0, &[]))
            }
            SendDescriptor::ResyncResponse {
                context,
                tcpsn,
                inner,
                confirmed,
                index,
            } => {
                self.check(0, 0)?;
                words[1] = pair(context.0, tcpsn.0);
                words[2] = index;
                words[3] = encode_inner(inner);
                let flags = u8::from(confirmed);
                Ok(self.write(Opcode::ResyncResponse, flags, words, 0, 0, &[]))
            }
            SendDescriptor::AddRrState {
                context,
                tag,
                slices,
            } => {
                if slices.len() > MAX_RR_SLICES {
                    return Err(PostError::TooManySlices {
                        slices: slices.len(),
                        max: MAX_RR_SLICES,
                    });
                }
                self.check(slices.len(), RR_SLICES)?;
                words[1] = pair(context.0, tag.into());
                Ok(self.write(Opcode::AddRrState, 0, words, 2, RR_SLICES, slices))
            }
            SendDescriptor::DelRrState { context, tag } => {
                self.check(0, 0)?;
                words[1] = pair(context.0, tag.into());
                Ok(self.write(Opcode::DelRrState, 0, words, 0, 0, &[]))
            }
            SendDescriptor::LoadResource {
                resource,
                protocol,
                bytes,
            } => {
                self.check(1, 1)?;
                words[1] = pair(resource.0.into(), protocol.0.into());
                Ok(self.write(Opcode::LoadResource, 0, words, 2, 1, &[bytes]))
            }
            SendDescriptor::UnloadResource { resource } => {
                self.check(0, 0)?;
                words[1] = pair(resource.0.into(), 0);
                Ok(self.write(Opcode::UnloadResource, 0, words, 0, 0, &[]))
            }
            SendDescriptor::DestroyContext { context } => {
                self.check(0, 0)?;
                words[1] = u64::from(context.0);
                Ok(self.write(Opcode::DestroyContext, 0, words, 0, 0, &[]))
            }
            SendDescriptor::InstallListener(install) => {
                self.check(0, 0)?;
                let flags = install.encode(&mut words);
                Ok(self.write(Opcode::InstallListener, flags, words, 0, 0, &[]))
            }
            SendDescriptor::RemoveListener { rule } => {
                self.check(0, 0)?;
                words[1] = u64::from(rule.0);
                Ok(self.write(Opcode::RemoveListener, 0, words, 0, 0, &[]))
            }
            SendDescriptor::ListenerCredit { rule, credits } => {
                self.check(0, 0)?;
                words[1] = pair(rule.0.into(), credits);
                Ok(self.write(Opcode::ListenerCredit, 0, words, 0, 0, &[]))
            }
            SendDescriptor::Teardown { teardown, payload } => {
                self.check(payload.len(), TEARDOWN_SLICES)?;
                let flags = teardown.encode(payload, &mut words);
                let at = accel::TEARDOWN_SLICES_AT;
                Ok(self.write(Opcode::Teardown, flags, words, at, TEARDOWN_SLICES, payload))
            }
            SendDescriptor::Splice(splice) => {
                self.check(0, 0)?;
                let flags = splice.encode(&mut words);
                Ok(self.write(Opcode::Splice, flags, words, 0, 0, &[]))
            }
            SendDescriptor::Unsplice { splice } => {
                self.check(0, 0)?;
                words[1] = u64::from(splice.0);
                Ok(self.write(Opcode::Unsplice, 0, words, 0, 0, &[]))
            }
            SendDescriptor::Reinject { frame, gso_size } => {
                self.check(1, 1)?;
                words[1] = gso_size.into();
                Ok(self.write(Opcode::Reinject, 0, words, 2, 1, &[frame]))
            }
            SendDescriptor::Toe(command) => {
                let (at, inline) = match command {
                    ToeCommand::Send { .. } => (TOE_SEND_SLICES_AT, TOE_SEND_SLICES),
                    ToeCommand::Offer(_) => (8, 1),
                    _ => (0, 0),
                };
                let slices = command.slices();
                self.check(slices.len(), inline)?;
                let (opcode, flags) = toe::encode(&command, &mut words);
                Ok(self.write(opcode, flags, words, at, inline, slices))
            }
        }
    }

    fn post_send(
        &mut self,
        header: &[u8],
        mss: u16,
        context: Option<ContextId>,
        flags: SendFlags,
        payload: &[Slice],
    ) -> Result<u64, PostError> {
        self.check(payload.len(), SEND_SLICES)?;
        if header.len() > MAX_HEADER_LEN {
            return Err(PostError::HeaderTooLong { len: header.len() });
        }
        let mut words = [0; SLOT_WORDS];
        let bytes: u64 = payload.iter().map(|slice| u64::from(slice.len)).sum();
        words[1] = pair(
            context.map_or(ContextId::NONE, |context| context.0),
            bytes.min(u64::from(u32::MAX)) as u32,
        );
        let (inline, rest) = payload.split_at(payload.len().min(SEND_SLICES));
        put_slices(&mut words[2..8], inline);
        for (word, bytes) in words[8..].iter_mut().zip(header.chunks(8)) {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_le_bytes(padded);
        }
        let head = Head {
            opcode: Opcode::Send as u8,
            flags: flags.0,
            header_len: header.len() as u8,
            slices: inline.len() as u8,
            continuations: rest.len().div_ceil(CONTINUATION_SLICES) as u8,
            mss,
        };
        words[0] = head.to_word();
        let index = self.ring.next();
        self.ring.write(&words[..8 + header.len().div_ceil(8)]);
        self.write_continuations(rest);
        Ok(index)
    }

    /// Shows everything that was posted to the device.
    pub fn publish(&mut self) -> bool {
        self.ring.publish()
    }

    /// Posts one slot as it is, whatever it means: what a broken or hostile host might do. For tests
    /// of a device.
    ///
    /// # Errors
    /// When the ring is full.
    pub fn post_raw(&mut self, words: &[u64; SLOT_WORDS]) -> Result<u64, PostError> {
        let free = self.ring.free(1);
        if free == 0 {
            return Err(PostError::Full { needed: 1, free });
        }
        let index = self.ring.next();
        self.ring.write(words);
        Ok(index)
    }

    pub(in crate::ring) fn take_wakeup(&self) -> bool {
        self.ring.take_wakeup()
    }

    fn check(&mut self, slices: usize, inline: usize) -> Result<(), PostError> {
        let max = inline + MAX_CONTINUATIONS * CONTINUATION_SLICES;
        if slices > max {
            return Err(PostError::TooManySlices { slices, max });
        }
        let needed = slots(slices, inline);
        let free = self.ring.free(needed);
        if free < needed {
            return Err(PostError::Full { needed, free });
        }
        Ok(())
    }

    fn write(
        &mut self,
        opcode: Opcode,
        flags: u8,
        mut words: [u64; SLOT_WORDS],
        at: usize,
        inline: usize,
        slices: &[Slice],
    ) -> u64 {
        let (inline, rest) = slices.split_at(slices.len().min(inline));
        put_slices(&mut words[at..], inline);
        let head = Head {
            opcode: opcode as u8,
            flags,
            header_len: 0,
            slices: inline.len() as u8,
            continuations: rest.len().div_ceil(CONTINUATION_SLICES) as u8,
            mss: 0,
        };
        words[0] = head.to_word();
        let index = self.ring.next();
        self.ring.write(&words);
        if opcode == Opcode::CreateContext {
            words.zeroize();
        }
        self.write_continuations(rest);
        index
    }

    fn write_continuations(&mut self, slices: &[Slice]) {
        for part in slices.chunks(CONTINUATION_SLICES) {
            let mut words = [0; SLOT_WORDS];
            let head = Head {
                opcode: Opcode::Continuation as u8,
                flags: 0,
                header_len: 0,
                slices: part.len() as u8,
                continuations: 0,
                mss: 0,
            };
            words[0] = head.to_word();
            put_slices(&mut words[2..], part);
            self.ring.write(&words);
        }
    }
}

/// Flag of a `RecoverContext` that places the inner protocol too.
pub(in crate::ring) const HAS_INNER: u8 = 4;
/// Flag of a `RecoverContext` that a connection on the device waits for.
pub(in crate::ring) const HAS_TOE: u8 = 8;

const fn slots(slices: usize, inline: usize) -> u32 {
    1 + slices.saturating_sub(inline).div_ceil(CONTINUATION_SLICES) as u32
}

fn put_slices(words: &mut [u64], slices: &[Slice]) {
    for (words, slice) in words.chunks_exact_mut(Slice::WORDS).zip(slices) {
        words.copy_from_slice(&slice.to_words());
    }
}
