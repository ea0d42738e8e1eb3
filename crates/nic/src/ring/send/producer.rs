//! The host's side of a send ring.

use std::mem::offset_of;
use std::sync::Arc;

use zerocopy::{IntoBytes, transmute};
use zeroize::Zeroize;

use super::super::block::Block;
use super::super::gather::{CONTINUATION_SLICES, MAX_CONTINUATIONS, MAX_RR_SLICES};
use super::super::layout::{
    self, ContextId, Head, PARAMETER_WORDS, SLOT_WORDS, SendSlot, View, slot,
};
use super::super::region::Slice;
use super::super::spsc::{Producer, Ring};
use super::super::toe;
use super::{MAX_HEADER_LEN, PostError, SendDescriptor, SendFlags};

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

    /// The device is gone: what was posted counts as done. Keys that it has not read are in the ring no more.
    pub(in crate::ring) fn clear(&mut self) {
        self.ring.erase(PARAMETER_WORDS);
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
        slots::<layout::Send>(slices)
    }

    /// Slots taken by a `RecoverContext` of so many slices.
    pub const fn slots_for_recover(slices: usize) -> u32 {
        slots::<layout::RecoverContext>(slices)
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
        match *descriptor {
            SendDescriptor::Send {
                header,
                mss,
                context,
                flags,
                payload,
            } => self.post_send(header, mss, context, flags, payload),
            SendDescriptor::CreateContext(create) => self.post_keys(create.encode()),
            SendDescriptor::RecoverContext {
                ref recover,
                prefix,
            } => self.put(&recover.encode(), prefix),
            SendDescriptor::ResyncResponse(ref response) => self.put(&response.encode(), &[]),
            SendDescriptor::AddRrState {
                context,
                tag,
                slices,
            } => {
                check_count(slices.len(), MAX_RR_SLICES)?;
                self.put(&slot!(AddRrState: context, tag), slices)
            }
            SendDescriptor::DelRrState { context, tag } => {
                self.put(&slot!(DelRrState: context, tag), &[])
            }
            SendDescriptor::DestroyContext { context } => {
                self.put(&slot!(DestroyContext: context), &[])
            }
            SendDescriptor::LoadResource {
                resource,
                protocol,
                bytes,
            } => self.put(&slot!(LoadResource: resource, protocol), &[bytes]),
            SendDescriptor::UnloadResource { resource } => {
                self.put(&slot!(UnloadResource: resource), &[])
            }
            SendDescriptor::SetRss { settings } => self.put(&slot!(SetRss), &[settings]),
            SendDescriptor::QueryRss { into } => self.put(&slot!(QueryRss), &[into]),
            SendDescriptor::SetFilter(filter) => self.put(&filter.encode(), &[]),
            SendDescriptor::InstallListener(install) => self.put(&install.encode(), &[]),
            SendDescriptor::RemoveListener { rule } => self.put(&slot!(RemoveListener: rule), &[]),
            SendDescriptor::ListenerCredit { rule, credits } => {
                self.put(&slot!(ListenerCredit: rule, credits), &[])
            }
            SendDescriptor::Teardown { teardown, payload } => {
                self.put(&teardown.encode(payload), payload)
            }
            SendDescriptor::Splice(splice) => self.put(&splice.encode(), &[]),
            SendDescriptor::Unsplice { splice } => self.put(&slot!(Unsplice: splice), &[]),
            SendDescriptor::QuerySplice { splice } => self.put(&slot!(QuerySplice: splice), &[]),
            SendDescriptor::Reinject { frame, gso_size } => {
                self.put(&slot!(Reinject: gso_size), &[frame])
            }
            SendDescriptor::Toe(command) => toe::post(self, &command),
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
        self.check::<layout::Send>(payload.len())?;
        if header.len() > MAX_HEADER_LEN {
            return Err(PostError::HeaderTooLong { len: header.len() });
        }
        let (inline, rest) = payload.split_at(payload.len().min(layout::Send::SLICES));
        // Each word is made whole: a load of what was just stored in parts waits for the stores.
        let mut words = [0; SLOT_WORDS];
        words[0] = transmute!(Head {
            opcode: layout::Send::OPCODE,
            flags: flags.0,
            header_len: header.len() as u8,
            slices: inline.len() as u8,
            continuations: continuations(rest),
            _0: 0,
            mss,
        });
        const {
            assert!(offset_of!(layout::Send, context) == 8);
            assert!(offset_of!(layout::Send, payload_len) == 12);
            assert!(offset_of!(layout::Send, header) == 64);
        };
        words[1] = transmute!([ContextId::field(context), byte_count(payload)]);
        put_slices(&mut words[layout::Send::FORM.slices.0..], inline);
        let (whole, part) = header.as_chunks();
        for (word, bytes) in words[8..].iter_mut().zip(whole) {
            *word = u64::from_ne_bytes(*bytes);
        }
        if !part.is_empty() {
            let mut padded = [0; 8];
            padded[..part.len()].copy_from_slice(part);
            words[8 + whole.len()] = u64::from_ne_bytes(padded);
        }
        let index = self.ring.next();
        self.ring.write(&words[..8 + header.len().div_ceil(8)]);
        self.write_continuations(rest);
        Ok(index)
    }

    /// Posts a context with its keys, of which no copy stays behind.
    fn post_keys(&mut self, mut create: layout::CreateContext) -> Result<u64, PostError> {
        let posted = self.put(&create, &[]);
        create.as_mut_bytes().zeroize();
        posted
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

    fn check<D: SendSlot>(&mut self, slices: usize) -> Result<(), PostError> {
        let max = D::SLICES + MAX_CONTINUATIONS * CONTINUATION_SLICES;
        check_count(slices, max)?;
        let needed = slots::<D>(slices);
        let free = self.ring.free(needed);
        if free < needed {
            return Err(PostError::Full { needed, free });
        }
        Ok(())
    }

    /// Writes a descriptor with its slices: of its head it has only the flags.
    pub(in crate::ring) fn put<D: SendSlot>(
        &mut self,
        descriptor: &D,
        slices: &[Slice],
    ) -> Result<u64, PostError> {
        self.check::<D>(slices.len())?;
        let (inline, rest) = slices.split_at(slices.len().min(D::SLICES));
        let mut words = descriptor.words();
        put_slices(&mut words[D::FORM.slices.0..], inline);
        words[0] = transmute!(Head {
            opcode: D::OPCODE,
            slices: inline.len() as u8,
            continuations: continuations(rest),
            ..Head::flagged(Head::of(&words).flags)
        });
        let index = self.ring.next();
        self.ring.write(&words);
        if D::OPCODE == layout::CreateContext::OPCODE {
            words.zeroize();
        }
        self.write_continuations(rest);
        Ok(index)
    }

    fn write_continuations(&mut self, slices: &[Slice]) {
        for part in slices.chunks(CONTINUATION_SLICES) {
            let mut words = [0; SLOT_WORDS];
            words[0] = transmute!(Head {
                opcode: layout::Continuation::OPCODE,
                slices: part.len() as u8,
                ..Head::flagged(0)
            });
            put_slices(&mut words[layout::Continuation::FORM.slices.0..], part);
            self.ring.write(&words);
        }
    }
}

fn check_count(slices: usize, max: usize) -> Result<(), PostError> {
    match slices <= max {
        true => Ok(()),
        false => Err(PostError::TooManySlices { slices, max }),
    }
}

const fn slots<D: SendSlot>(slices: usize) -> u32 {
    1 + slices
        .saturating_sub(D::SLICES)
        .div_ceil(CONTINUATION_SLICES) as u32
}

/// Continuation slots that these slices take.
fn continuations(slices: &[Slice]) -> u8 {
    slices.len().div_ceil(CONTINUATION_SLICES) as u8
}

/// Bytes of all slices together, as far as a descriptor can say.
pub(in crate::ring) fn byte_count(slices: &[Slice]) -> u32 {
    let bytes: u64 = slices.iter().map(|slice| u64::from(slice.len)).sum();
    bytes.min(u64::from(u32::MAX)) as u32
}

fn put_slices(words: &mut [u64], slices: &[Slice]) {
    for (words, slice) in words.chunks_exact_mut(Slice::WORDS).zip(slices) {
        words.copy_from_slice(&slice.to_words());
    }
}
