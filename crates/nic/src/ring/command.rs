//! The device's side of a send ring: descriptors copied out once, checked, and made into [`Command`]s.

use std::sync::Arc;

use l5p::{Direction, Layers, MAX_RESOURCE, ProtocolId, ResourceId};
use wire::{FlowKey, SeqNum};
use zerocopy::IntoBytes;
use zeroize::Zeroize;

use super::accel::{self, AccelCommand};
use super::block::Block;
use super::error::ErrorCode;
use super::gather::{Gather, MAX_CONTINUATIONS, MAX_RR_SLICES};
use super::layout::{self, ContextId, Form, PARAMETER_WORDS, SLOT_WORDS, SendSlot, View};
use super::region::Slice;
use super::send::{InnerPlace, InnerRecover, MAX_HEADER_LEN, MAX_SEND_PAYLOAD, SendFlags, Verify};
use super::spsc::{Consumer, Ring};
use super::toe::{self, ToeId, ToeRequest};
use crate::features::Features;

/// A packet to send; its slices are in the [`Gather`] that was filled along with it.
#[derive(Debug, Clone)]
pub(crate) struct Send {
    pub(crate) header: [u8; MAX_HEADER_LEN],
    pub(crate) header_len: u8,
    pub(crate) mss: u16,
    pub(crate) context: Option<ContextId>,
    pub(crate) flags: SendFlags,
    pub(crate) payload_len: u32,
}

/// The place in the stream that a transmit context is to be brought to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recover {
    pub(crate) context: ContextId,
    pub(crate) start: SeqNum,
    pub(crate) index: u64,
    pub(crate) len: u32,
    pub(crate) resume: SeqNum,
    pub(crate) verify: Verify,
    pub(crate) inner: Option<InnerRecover>,
    pub(crate) toe: Option<ToeId>,
}

/// A context to be made.
#[derive(Debug, Clone)]
pub(crate) struct CreateContext {
    pub(crate) context: ContextId,
    pub(crate) direction: Direction,
    pub(crate) flow: FlowKey,
    pub(crate) tcpsn: SeqNum,
    pub(crate) layers: Layers,
}

/// A buffer to be mapped, whose slices are in the [`Gather`], or unmapped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RrState {
    pub(crate) context: ContextId,
    pub(crate) tag: u16,
}

/// The answer to a resync request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResyncResponse {
    pub(crate) context: ContextId,
    pub(crate) tcpsn: SeqNum,
    pub(crate) inner: Option<InnerPlace>,
    pub(crate) confirmed: bool,
    pub(crate) index: u64,
}

/// A descriptor whose form is right. Regions, bounds and contexts are still to be looked up.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant)] // one at a time, on the stack
pub(crate) enum Command {
    Send(Send),
    Create(CreateContext),
    Destroy(ContextId),
    Recover(Recover),
    Resync(ResyncResponse),
    AddRr(RrState),
    DelRr(RrState),
    Load(ResourceId, ProtocolId),
    Unload(ResourceId),
    Accel(AccelCommand),
    Toe(ToeRequest),
}

/// A descriptor that was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadDescriptor {
    pub(crate) is_send: bool,
    pub(crate) context: Option<ContextId>,
    /// The rule, ticket, splice or resource of a descriptor that has no context.
    pub(crate) subject: u32,
    pub(crate) error: ErrorCode,
}

impl BadDescriptor {
    fn new(opcode: u8, words: &[u64; SLOT_WORDS], error: ErrorCode) -> BadDescriptor {
        // All slots have their subject in one place; only some of them name a context there.
        let field = layout::DestroyContext::of(words).context;
        let (context, subject) = match opcode {
            layout::InstallListener::OPCODE..=layout::ListenerCredit::OPCODE
            | layout::LoadResource::OPCODE
            | layout::UnloadResource::OPCODE => (None, field & 0xffff),
            layout::Teardown::OPCODE..=layout::Unsplice::OPCODE => (None, field),
            layout::Reinject::OPCODE..=layout::ToeResume::OPCODE => (None, 0),
            _ => (ContextId::named(field), 0),
        };
        BadDescriptor {
            is_send: opcode == layout::Send::OPCODE,
            context,
            subject,
            error,
        }
    }
}

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
        Some(SendConsumer { ring, allowed })
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
        let command = self.command(head, &mut words, gather, &mut bytes);
        let continuations = match &command {
            Ok(_) => u32::from(head.continuations),
            Err(_) => self.continuations_behind(head.continuations),
        };
        let command = command.map_err(|error| BadDescriptor::new(head.opcode, &words, error));
        if head.opcode == layout::CreateContext::OPCODE {
            // The keys stay neither in the ring nor here.
            self.ring.erase(PARAMETER_WORDS);
            words.zeroize();
        }
        self.ring.advance(1 + continuations);
        Some(Taken {
            index,
            bytes,
            command,
        })
    }

    /// The command in the next slot, of which eight words have been read.
    fn command(
        &mut self,
        head: layout::Head,
        words: &mut [u64; SLOT_WORDS],
        gather: &mut Gather,
        bytes: &mut u32,
    ) -> Result<Command, ErrorCode> {
        let form = match head.opcode {
            // A continuation with nothing that it continues is as wrong as no opcode at all.
            layout::Continuation::OPCODE => return Err(ErrorCode::BadOpcode),
            opcode => Form::of(opcode).ok_or(ErrorCode::BadOpcode)?,
        };
        if self.allowed >> head.opcode & 1 == 0 {
            return Err(ErrorCode::Unsupported);
        }
        let rest = words_in_use(form, head, words)? - 8;
        self.ring.read_from(8, &mut words[8..8 + rest]);
        *bytes += rest as u32 * 8;
        if !form.is_clear(words) {
            return Err(ErrorCode::BadParameters);
        }
        let command = decode(head, words)?;
        self.slices(form, head, words, gather, bytes)?;
        check_lengths(&command, words, gather)?;
        Ok(command)
    }

    /// Collects the slices of the slot, and of its continuations, which must all be there.
    fn slices(
        &mut self,
        form: &Form,
        head: layout::Head,
        words: &[u64; SLOT_WORDS],
        gather: &mut Gather,
        bytes: &mut u32,
    ) -> Result<(), ErrorCode> {
        let (at, most) = form.slices;
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

/// Words of the slot that the descriptor has, by its first eight.
fn words_in_use(
    form: &Form,
    head: layout::Head,
    words: &[u64; SLOT_WORDS],
) -> Result<usize, ErrorCode> {
    Ok(match head.opcode {
        layout::Send::OPCODE => {
            let header_len = usize::from(head.header_len);
            let payload_len = layout::Send::of(words).payload_len;
            if header_len > MAX_HEADER_LEN || payload_len > MAX_SEND_PAYLOAD {
                return Err(ErrorCode::BadLength);
            }
            8 + header_len.div_ceil(8)
        }
        layout::CreateContext::OPCODE => {
            let create = layout::CreateContext::of(words);
            let bytes = Layers::encoded_len(u32::from_le_bytes(create.protocols));
            let end = PARAMETER_WORDS.start + bytes.map_err(|_| ErrorCode::BadParameters)? / 8;
            end.max(8)
        }
        _ => form.words(),
    })
}

/// The command without its slices.
fn decode(head: layout::Head, words: &[u64; SLOT_WORDS]) -> Result<Command, ErrorCode> {
    let has = |flag: u8| head.flags & flag != 0;
    Ok(match head.opcode {
        layout::Send::OPCODE => {
            let send = layout::Send::of(words);
            Command::Send(Send {
                header: send.header,
                header_len: head.header_len,
                mss: head.mss,
                context: ContextId::named(send.context),
                flags: SendFlags(head.flags),
                payload_len: send.payload_len,
            })
        }
        layout::CreateContext::OPCODE => {
            let create = layout::CreateContext::of(words);
            let layers = Layers::decode(u32::from_le_bytes(create.protocols), &create.parameters);
            Command::Create(CreateContext {
                context: ContextId(create.context),
                direction: match has(layout::CreateContext::RECEIVE) {
                    true => Direction::Receive,
                    false => Direction::Transmit,
                },
                flow: (create.flow.key(has(layout::CreateContext::V6)))
                    .ok_or(ErrorCode::BadParameters)?,
                tcpsn: SeqNum(create.tcpsn),
                layers: layers.map_err(|_| ErrorCode::BadParameters)?,
            })
        }
        layout::RecoverContext::OPCODE => Command::Recover(recover(head, words)?),
        layout::ResyncResponse::OPCODE => {
            let response = layout::ResyncResponse::of(words);
            Command::Resync(ResyncResponse {
                context: ContextId(response.context),
                tcpsn: SeqNum(response.tcpsn),
                inner: layout::inner_place(response.offset, response.layer)?,
                confirmed: has(layout::ResyncResponse::CONFIRMED),
                index: response.index,
            })
        }
        layout::DestroyContext::OPCODE => {
            Command::Destroy(ContextId(layout::DestroyContext::of(words).context))
        }
        layout::LoadResource::OPCODE => {
            let load = layout::LoadResource::of(words);
            Command::Load(ResourceId(load.resource), ProtocolId(load.protocol))
        }
        layout::UnloadResource::OPCODE => {
            Command::Unload(ResourceId(layout::UnloadResource::of(words).resource))
        }
        layout::AddRrState::OPCODE | layout::DelRrState::OPCODE => {
            let state = layout::DelRrState::of(words);
            let state = RrState {
                context: ContextId(state.context),
                tag: state.tag,
            };
            match head.opcode {
                layout::AddRrState::OPCODE => Command::AddRr(state),
                _ => Command::DelRr(state),
            }
        }
        layout::InstallListener::OPCODE..=layout::Reinject::OPCODE => {
            Command::Accel(accel::decode(head, words)?)
        }
        _ => Command::Toe(toe::decode(head, words)?),
    })
}

fn recover(head: layout::Head, words: &[u64; SLOT_WORDS]) -> Result<Recover, ErrorCode> {
    const INNER: u8 = layout::RecoverContext::INNER;
    const TOE: u8 = layout::RecoverContext::TOE;
    let recover = layout::RecoverContext::of(words);
    Ok(Recover {
        context: ContextId(recover.context),
        start: SeqNum(recover.start),
        index: recover.index,
        len: recover.len,
        resume: SeqNum(recover.resume),
        verify: match head.flags & !(INNER | TOE) {
            0 => Verify::None,
            1 => Verify::WholeMessage,
            2 => Verify::Frontier,
            3 => Verify::Seek,
            _ => return Err(ErrorCode::BadParameters),
        },
        inner: (head.flags & INNER != 0).then_some(InnerRecover {
            index: recover.inner_index,
            len: recover.inner_len,
            offset: recover.inner_offset,
        }),
        toe: (head.flags & TOE != 0).then(|| recover.toe.into()),
    })
}

/// What a descriptor says of its slices' length must be what they add up to.
fn check_lengths(
    command: &Command,
    words: &[u64; SLOT_WORDS],
    gather: &Gather,
) -> Result<(), ErrorCode> {
    let right = match command {
        Command::Send(send) => gather.len() == u64::from(send.payload_len),
        Command::Recover(recover) => {
            let resume = recover.start.distance_to(recover.resume);
            let inner = recover.inner.map_or(0, |inner| u64::from(inner.offset));
            let (from, to) = (inner + u64::from(resume), inner + u64::from(recover.len));
            let prefix = gather.len();
            resume < recover.len
                && recover.inner.is_none_or(|inner| inner.offset < inner.len)
                && match recover.verify {
                    Verify::None => prefix == from,
                    Verify::WholeMessage => prefix == to,
                    Verify::Frontier => (from..to).contains(&prefix),
                    Verify::Seek => prefix == 0 && recover.inner.is_none(),
                }
        }
        Command::AddRr(_) => {
            let slices = gather.slices().len();
            (1..=MAX_RR_SLICES).contains(&slices) && gather.len() <= u64::from(u32::MAX)
        }
        Command::Load(..) => {
            let fits = (1..=u64::from(MAX_RESOURCE)).contains(&gather.len());
            gather.slices().len() == 1 && fits
        }
        Command::Accel(command) => accel::slices_fit(command, words, gather),
        Command::Toe(request) => toe::slices_fit(request, gather),
        _ => gather.slices().is_empty(),
    };
    if right {
        Ok(())
    } else {
        Err(ErrorCode::BadLength)
    }
}
