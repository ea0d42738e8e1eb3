//! The device's side of a send ring.

use std::sync::Arc;

use zerocopy::IntoBytes;
use zeroize::Zeroize;

use super::block::Block;
use super::command::{BadDescriptor, Command, check_lengths, decode, words_in_use};
use super::error::ErrorCode;
use super::gather::{Gather, MAX_CONTINUATIONS};
use super::layout::{self, Form, PARAMETER_WORDS, SLOT_WORDS, SendSlot, View};
use super::region::Slice;
use super::spsc::{Consumer, Ring};
use crate::features::Features;

/// What [`SendConsumer::take`] found.
#[derive(Debug)]
pub(crate) struct Taken {
    /// Index of the descriptor's first slot.
    pub(crate) index: u64,
    /// Bytes read from the ring.
    pub(crate) bytes: u32,
    pub(crate) command: Result<Command, BadDescriptor>,
}

/// The device's side of a send ring.
#[derive(Debug)]
pub(crate) struct SendConsumer {
    ring: Consumer<SLOT_WORDS>,
    /// What was given back when [`has_freed`](Self::has_freed) was asked last.
    freed: u64,
    /// Bit `n` is set if the function may use opcode `n`.
    allowed: u64,
}

impl SendConsumer {
    /// `None` unless the ring is empty.
    pub(super) fn resume(
        block: &Arc<Block>,
        at: usize,
        entries: u32,
        features: Features,
    ) -> Option<Self> {
        let ring = Consumer::resume(Ring::new(Arc::clone(block), at, entries))?;
        let allowed = Form::all()
            .filter(|form| form.is_allowed(features))
            .fold(0, |allowed, form| allowed | 1 << form.layout.opcode);
        let freed = ring.freed();
        Some(SendConsumer {
            ring,
            freed,
            allowed,
        })
    }

    /// Whether slots were given back to the host since this was asked last.
    pub(crate) fn has_freed(&mut self) -> bool {
        let freed = self.ring.freed();
        std::mem::replace(&mut self.freed, freed) != freed
    }

    /// Whether a descriptor waits.
    pub(crate) fn has_work(&mut self) -> bool {
        self.ring.available() > 0
    }

    /// Index of the next slot to be taken.
    pub(crate) fn next(&self) -> u64 {
        self.ring.next()
    }

    /// Index of the slot that the host publishes next, always asking it.
    pub(crate) fn published(&mut self) -> u64 {
        let waiting = self.ring.available_now();
        self.ring.next() + u64::from(waiting)
    }

    /// Whether a descriptor waits, always asking the host.
    pub(crate) fn has_work_now(&mut self) -> bool {
        self.ring.available_now() > 0
    }

    /// Takes the next descriptor with its continuations off the ring; its slices go to `gather`. One that is refused takes the
    /// `Continuation` slots that directly follow it, as many as it claims and may have, so that it is answered once.
    ///
    /// The host gets the slots back only at [`publish`](Self::publish), after the memory they name
    /// was read.
    pub(crate) fn take(&mut self, gather: &mut Gather) -> Option<Taken> {
        if self.ring.available() == 0 {
            return None;
        }
        gather.clear();
        let index = self.ring.next();
        let mut words = [0; SLOT_WORDS];
        self.ring.read(0, &mut words[..8]);
        let head = *layout::Head::of(&words);
        let mut bytes = 64;
        let refuse = |words: &_, error| Err(BadDescriptor::new(head.opcode, words, error));
        let mut taken = Taken {
            index,
            bytes: 0,
            command: self
                .decode(head, &mut words, &mut bytes)
                .or_else(|error| refuse(&words, error)),
        };
        let mut continuations = u32::from(head.continuations);
        // A command is large: it stays where it was decoded to.
        if let Ok(command) = &taken.command
            && let Err(error) = self
                .slices(head, &words, gather, &mut bytes)
                .and_then(|()| check_lengths(command, &words, gather))
        {
            taken.command = refuse(&words, error);
        }
        if taken.command.is_err() {
            continuations = self.continuations_behind(head.continuations);
        }
        taken.bytes = bytes;
        if head.opcode == layout::CreateContext::OPCODE {
            // The keys stay neither in the ring nor here.
            self.ring.erase(PARAMETER_WORDS);
            words.zeroize();
        }
        self.ring.advance(1 + continuations);
        Some(taken)
    }

    /// The form of a descriptor that the function may use.
    fn form(&self, opcode: u8) -> Result<&'static Form, ErrorCode> {
        // A continuation with nothing that it continues is as wrong as no opcode at all.
        let form = Form::of(opcode).filter(|_| opcode != layout::Continuation::OPCODE);
        let form = form.ok_or(ErrorCode::BadOpcode)?;
        match self.allowed >> opcode & 1 {
            0 => Err(ErrorCode::Unsupported),
            _ => Ok(form),
        }
    }

    /// The command in the next slot without its slices. Eight words have been read; reads the rest of those that it has.
    #[inline]
    fn decode(
        &self,
        head: layout::Head,
        words: &mut [u64; SLOT_WORDS],
        bytes: &mut u32,
    ) -> Result<Command, ErrorCode> {
        let form = self.form(head.opcode)?;
        let rest = words_in_use(form, head, words)? - 8;
        self.ring.read_from(8, &mut words[8..8 + rest]);
        *bytes += rest as u32 * 8;
        if !form.is_clear(words) {
            return Err(ErrorCode::BadParameters);
        }
        decode(head, words)
    }

    /// Collects the slices of the slot, and of its continuations, which must all be there.
    fn slices(
        &mut self,
        head: layout::Head,
        words: &[u64; SLOT_WORDS],
        gather: &mut Gather,
        bytes: &mut u32,
    ) -> Result<(), ErrorCode> {
        let (at, most) = self.form(head.opcode)?.slices;
        let slices = usize::from(head.slices);
        if slices > most || most == 0 && head.continuations != 0 {
            return Err(ErrorCode::BadLength);
        }
        for pair in words[at..at + slices * Slice::WORDS].as_chunks().0 {
            gather.push(Slice::from_words(*pair));
        }
        let count = u32::from(head.continuations);
        if count as usize > MAX_CONTINUATIONS {
            return Err(ErrorCode::BadLength);
        }
        if self.ring.available() < 1 + count && self.ring.available_now() < 1 + count {
            return Err(ErrorCode::BadLength);
        }
        for ahead in 1..=count {
            self.continuation(ahead, gather, bytes)?;
        }
        Ok(())
    }

    /// Collects the slices of a continuation.
    fn continuation(
        &self,
        ahead: u32,
        gather: &mut Gather,
        bytes: &mut u32,
    ) -> Result<(), ErrorCode> {
        let mut words = [0; SLOT_WORDS];
        self.ring.read(ahead, &mut words);
        let next = layout::Head::of(&words);
        if next.opcode != layout::Continuation::OPCODE {
            return Err(ErrorCode::BadOpcode);
        }
        let form = layout::Continuation::FORM;
        let (at, most) = form.slices;
        let slices = usize::from(next.slices);
        if slices > most {
            return Err(ErrorCode::BadLength);
        }
        if !form.is_clear(&words) {
            return Err(ErrorCode::BadParameters);
        }
        *bytes += 16 + 16 * slices as u32;
        for pair in words[at..at + slices * Slice::WORDS].as_chunks().0 {
            if !gather.push(Slice::from_words(*pair)) {
                return Err(ErrorCode::BadLength);
            }
        }
        Ok(())
    }

    /// How many continuations directly follow the next slot, of those that it claims and may have.
    fn continuations_behind(&mut self, claimed: u8) -> u32 {
        let most = u32::from(claimed).min(MAX_CONTINUATIONS as u32);
        let published = self.ring.available_now().saturating_sub(1);
        let is_continuation = |ahead: &u32| {
            let mut words = [0; 1];
            self.ring.read(*ahead, &mut words);
            layout::Continuation::OPCODE == words.as_bytes()[0]
        };
        let behind = (1..=most.min(published)).take_while(is_continuation);
        behind.count() as u32
    }

    /// Passes all that is published; erases the keys in it.
    pub(crate) fn skip(&mut self) {
        for _ in 0..self.ring.available_now() {
            let mut words = [0; 1];
            self.ring.read(0, &mut words);
            if words.as_bytes()[0] == layout::CreateContext::OPCODE {
                self.ring.erase(PARAMETER_WORDS);
            }
            self.ring.advance(1);
        }
    }

    /// Gives everything taken back to the host.
    pub(crate) fn publish(&mut self) {
        self.ring.publish();
    }

    /// Gives what was taken before the slot of this index back to the host.
    pub(crate) fn publish_before(&mut self, index: u64) {
        self.ring.publish_before(index);
    }

    pub(super) fn prepare_sleep(&mut self) -> bool {
        self.ring.prepare_sleep()
    }

    pub(super) fn cancel_sleep(&mut self) {
        self.ring.cancel_sleep();
    }
}
