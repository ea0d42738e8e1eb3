//! The device's side of a send ring: descriptors copied out once, checked, and made into [`Command`]s.

use l5p::{Direction, Layers, MAX_RESOURCE, ProtocolId, ResourceId};
use wire::{FlowKey, SeqNum};

use super::accel::{self, AccelCommand};
use super::error::ErrorCode;
use super::gather::{Gather, MAX_RR_SLICES};
use super::layout::{self, ContextId, Form, PARAMETER_WORDS, SLOT_WORDS, View};
use super::send::{InnerPlace, InnerRecover, MAX_HEADER_LEN, MAX_SEND_PAYLOAD, SendFlags, Verify};
use super::toe::{self, ToeId, ToeRequest};

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
    pub(super) fn new(opcode: u8, words: &[u64; SLOT_WORDS], error: ErrorCode) -> BadDescriptor {
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

/// Words of the slot that the descriptor has, by its first eight.
#[inline]
pub(super) fn words_in_use(
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
#[inline]
pub(super) fn decode(head: layout::Head, words: &[u64; SLOT_WORDS]) -> Result<Command, ErrorCode> {
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
#[inline]
pub(super) fn check_lengths(
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
