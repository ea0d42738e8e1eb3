//! The device's side of a send ring: descriptors copied out once, checked, and made into [`Command`]s.

use std::sync::Arc;

use l5p::{Direction, Layers, MAX_RESOURCE, ProtocolId, ResourceId};
use wire::{FlowKey, SeqNum};
use zeroize::Zeroize;

use super::accel::{self, AccelCommand, TEARDOWN_SLICES, TEARDOWN_SLICES_AT};
use super::block::Block;
use super::error::ErrorCode;
use super::gather::{
    CONTINUATION_SLICES, Gather, MAX_CONTINUATIONS, MAX_RR_SLICES, RECOVER_SLICES, RR_SLICES,
    SEND_SLICES,
};
use super::layout::{
    ContextId, Head, Opcode, PARAMETER_WORDS, SLOT_WORDS, create_words, decode_flow, decode_inner,
    decode_layers,
};
use super::region::Slice;
use super::send::{
    HAS_INNER, HAS_TOE, InnerPlace, InnerRecover, MAX_HEADER_LEN, MAX_SEND_PAYLOAD, SendFlags,
    Verify,
};
use super::spsc::{Consumer, Ring};
use super::toe::{self, TOE_SEND_SLICES, TOE_SEND_SLICES_AT, ToeId, ToeRequest};

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
    pub(crate) context: Option<ContextId>,
    pub(crate) error: ErrorCode,
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
}

impl SendConsumer {
    /// `None` unless the ring is empty.
    pub(super) fn resume(block: &Arc<Block>, at: usize, entries: u32) -> Option<Self> {
        let ring = Consumer::resume(Ring::new(Arc::clone(block), at, entries))?;
        Some(SendConsumer { ring })
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

    /// Takes the next descriptor with its continuations off the ring; its slices go to `gather`.
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
        let head = Head::from_word(words[0]);
        let mut bytes = 64;
        let mut slots = 1;
        let context = Some(words[1] as u32).filter(|id| *id != ContextId::NONE);
        let context = context.map(ContextId);
        let mut taken = Taken {
            index,
            bytes: 0,
            command: self
                .decode(head, &mut words, &mut bytes)
                .map_err(|error| BadDescriptor { context, error }),
        };
        if let Ok(command) = &taken.command {
            let checked = inline_slices(head, &words).and_then(|inline| {
                for pair in inline.chunks_exact(Slice::WORDS) {
                    gather.push(Slice::from_words([pair[0], pair[1]]));
                }
                slots += self.continuations(head, gather, &mut bytes)?;
                check_lengths(command, &words, gather)
            });
            if let Err(error) = checked {
                taken.command = Err(BadDescriptor { context, error });
            }
        }
        taken.bytes = bytes;
        if head.opcode == Opcode::CreateContext as u8 {
            // The keys stay neither in the ring nor here.
            self.ring.erase(PARAMETER_WORDS);
            words.zeroize();
        }
        self.ring.advance(slots);
        Some(taken)
    }

    /// The command without its slices. Reads the words after the first eight as far as it needs them.
    fn decode(
        &self,
        head: Head,
        words: &mut [u64; SLOT_WORDS],
        bytes: &mut u32,
    ) -> Result<Command, ErrorCode> {
        let context = ContextId(words[1] as u32);
        let high = (words[1] >> 32) as u32;
        let mut rest = |words: &mut [u64; SLOT_WORDS], count: usize| {
            self.ring.read_from(8, &mut words[8..8 + count]);
            *bytes += count as u32 * 8;
        };
        Ok(match Opcode::from_byte(head.opcode) {
            Some(Opcode::Send) => {
                let header_len = usize::from(head.header_len);
                if header_len > MAX_HEADER_LEN || high > MAX_SEND_PAYLOAD {
                    return Err(ErrorCode::BadLength);
                }
                rest(words, header_len.div_ceil(8));
                let mut header = [0; MAX_HEADER_LEN];
                for (chunk, word) in header.chunks_exact_mut(8).zip(&words[8..]) {
                    chunk.copy_from_slice(&word.to_le_bytes());
                }
                Command::Send(Send {
                    header,
                    header_len: head.header_len,
                    mss: head.mss,
                    context: (context.0 != ContextId::NONE).then_some(context),
                    flags: SendFlags(head.flags & 3),
                    payload_len: high,
                })
            }
            Some(Opcode::CreateContext) => {
                let len = create_words(words).ok_or(ErrorCode::BadParameters)?;
                rest(words, len.saturating_sub(8));
                Command::Create(CreateContext {
                    context,
                    direction: if head.flags & 1 == 0 {
                        Direction::Transmit
                    } else {
                        Direction::Receive
                    },
                    flow: decode_flow(words, head.flags & 2 != 0)
                        .ok_or(ErrorCode::BadParameters)?,
                    tcpsn: SeqNum(high),
                    layers: decode_layers(words).ok_or(ErrorCode::BadParameters)?,
                })
            }
            Some(Opcode::RecoverContext) => {
                rest(words, 16);
                Command::Recover(Recover {
                    context,
                    start: SeqNum(words[3] as u32),
                    index: words[2],
                    len: high,
                    resume: SeqNum((words[3] >> 32) as u32),
                    verify: match head.flags & !(HAS_INNER | HAS_TOE) {
                        0 => Verify::None,
                        1 => Verify::WholeMessage,
                        2 => Verify::Frontier,
                        3 => Verify::Seek,
                        _ => return Err(ErrorCode::BadParameters),
                    },
                    inner: (head.flags & HAS_INNER != 0).then_some(InnerRecover {
                        index: words[22],
                        len: words[23] as u32,
                        offset: (words[23] >> 32) as u32,
                    }),
                    toe: (head.flags & HAS_TOE != 0).then(|| ToeId::from_word(words[20])),
                })
            }
            Some(Opcode::ResyncResponse) => Command::Resync(ResyncResponse {
                context,
                tcpsn: SeqNum(high),
                inner: decode_inner(words[3])?,
                confirmed: head.flags & 1 != 0,
                index: words[2],
            }),
            Some(Opcode::DestroyContext) => Command::Destroy(context),
            Some(opcode @ (Opcode::LoadResource | Opcode::UnloadResource)) => {
                let number = u16::try_from(context.0).map_err(|_| ErrorCode::BadParameters)?;
                let protocol = u8::try_from(high).map_err(|_| ErrorCode::BadParameters)?;
                match opcode {
                    Opcode::LoadResource => Command::Load(ResourceId(number), ProtocolId(protocol)),
                    _ => Command::Unload(ResourceId(number)),
                }
            }
            Some(opcode @ (Opcode::AddRrState | Opcode::DelRrState)) => {
                let tag = u16::try_from(high).map_err(|_| ErrorCode::BadParameters)?;
                let state = RrState { context, tag };
                match opcode {
                    Opcode::AddRrState => {
                        rest(words, 16);
                        Command::AddRr(state)
                    }
                    _ => Command::DelRr(state),
                }
            }
            Some(
                opcode @ (Opcode::InstallListener
                | Opcode::RemoveListener
                | Opcode::ListenerCredit
                | Opcode::Teardown
                | Opcode::Splice
                | Opcode::Unsplice
                | Opcode::Reinject),
            ) => {
                if matches!(opcode, Opcode::Teardown | Opcode::Splice) {
                    rest(words, 16);
                }
                Command::Accel(accel::decode(opcode, head, words)?)
            }
            Some(
                opcode @ (Opcode::ToeBegin
                | Opcode::ToeOffer
                | Opcode::ToeCancel
                | Opcode::ToeRestore
                | Opcode::ToeSend
                | Opcode::ToeConsumed
                | Opcode::ToeClose
                | Opcode::ToeAbort
                | Opcode::ToeDetach
                | Opcode::ToeOption
                | Opcode::ToeResume),
            ) => {
                match opcode {
                    Opcode::ToeSend => rest(words, 16),
                    Opcode::ToeOffer => rest(words, 2),
                    _ => {}
                }
                Command::Toe(toe::decode(opcode, head, words)?)
            }
            // A continuation with nothing that it continues is as wrong as no opcode at all.
            Some(Opcode::Continuation) | None => return Err(ErrorCode::BadOpcode),
        })
    }

    /// Collects the slices of continuation slots, which must all be there. Gives their number.
    fn continuations(
        &mut self,
        head: Head,
        gather: &mut Gather,
        bytes: &mut u32,
    ) -> Result<u32, ErrorCode> {
        let count = u32::from(head.continuations);
        if count as usize > MAX_CONTINUATIONS {
            return Err(ErrorCode::BadLength);
        }
        if self.ring.available() < 1 + count && self.ring.available_now() < 1 + count {
            return Err(ErrorCode::BadLength);
        }
        for ahead in 1..=count {
            let mut words = [0; SLOT_WORDS];
            self.ring.read(ahead, &mut words);
            let next = Head::from_word(words[0]);
            let slices = usize::from(next.slices);
            if next.opcode != Opcode::Continuation as u8 || slices > CONTINUATION_SLICES {
                return Err(ErrorCode::BadOpcode);
            }
            *bytes += 16 + 16 * slices as u32;
            for pair in words[2..2 + slices * Slice::WORDS].chunks_exact(Slice::WORDS) {
                if !gather.push(Slice::from_words([pair[0], pair[1]])) {
                    return Err(ErrorCode::BadLength);
                }
            }
        }
        Ok(count)
    }

    /// Passes all that is published, unread.
    pub(crate) fn skip(&mut self) {
        let waiting = self.ring.available_now();
        self.ring.advance(waiting);
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

/// The words of the slices in the descriptor itself.
fn inline_slices(head: Head, words: &[u64; SLOT_WORDS]) -> Result<&[u64], ErrorCode> {
    let (at, most) = match Opcode::from_byte(head.opcode) {
        Some(Opcode::Send) => (2, SEND_SLICES),
        Some(Opcode::RecoverContext) => (4, RECOVER_SLICES),
        Some(Opcode::AddRrState) => (2, RR_SLICES),
        Some(Opcode::Teardown) => (TEARDOWN_SLICES_AT, TEARDOWN_SLICES),
        Some(Opcode::Reinject | Opcode::LoadResource) => (2, 1),
        Some(Opcode::ToeOffer) => (8, 1),
        Some(Opcode::ToeSend) => (TOE_SEND_SLICES_AT, TOE_SEND_SLICES),
        _ => (0, 0),
    };
    let slices = usize::from(head.slices);
    if slices > most {
        return Err(ErrorCode::BadLength);
    }
    Ok(&words[at..at + slices * Slice::WORDS])
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
        Command::Load(..) => (1..=u64::from(MAX_RESOURCE)).contains(&gather.len()),
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
