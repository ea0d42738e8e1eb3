//! The device's side of a send ring: descriptors copied out once, checked, and made into [`Command`]s.

use l5p::{Layers, MAX_RESOURCE, ProtocolId, ResourceId};

use super::accel::{self, AccelCommand};
use super::context::{CreateContext, RecoverContext, ResyncResponse};
use super::error::ErrorCode;
use super::filter::MulticastFilter;
use super::gather::{Gather, MAX_RR_SLICES};
use super::layout::{self, ContextId, Form, PARAMETER_WORDS, SLOT_WORDS, View, value};
use super::rss::RSS_BYTES;
use super::send::{MAX_HEADER_LEN, MAX_SEND_PAYLOAD, SendFlags};
use super::toe::{self, ToeRequest};

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

/// A buffer to be mapped, whose slices are in the [`Gather`], or unmapped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RrState {
    pub(crate) context: ContextId,
    pub(crate) tag: u16,
}

/// A descriptor whose form is right. Regions, bounds and contexts are still to be looked up.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant)] // one at a time, on the stack
pub(crate) enum Command {
    Send(Send),
    Create(CreateContext),
    Destroy(ContextId),
    Recover(RecoverContext),
    Resync(ResyncResponse),
    AddRr(RrState),
    DelRr(RrState),
    Load(ResourceId, ProtocolId),
    Unload(ResourceId),
    SetRss,
    QueryRss,
    SetFilter(MulticastFilter),
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
            layout::Teardown::OPCODE..=layout::Unsplice::OPCODE | layout::QuerySplice::OPCODE => {
                (None, field)
            }
            layout::Reinject::OPCODE..=layout::ToeResume::OPCODE
            | layout::SetRss::OPCODE
            | layout::QueryRss::OPCODE
            | layout::SetFilter::OPCODE => (None, 0),
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
            let create = CreateContext::decode(layout::CreateContext::of(words));
            Command::Create(create.ok_or(ErrorCode::BadParameters)?)
        }
        layout::RecoverContext::OPCODE => {
            Command::Recover(RecoverContext::decode(layout::RecoverContext::of(words))?)
        }
        layout::ResyncResponse::OPCODE => {
            Command::Resync(ResyncResponse::decode(layout::ResyncResponse::of(words))?)
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
        layout::SetRss::OPCODE => Command::SetRss,
        layout::QueryRss::OPCODE => Command::QueryRss,
        layout::SetFilter::OPCODE => {
            Command::SetFilter(MulticastFilter::decode(head.flags, words)?)
        }
        layout::AddRrState::OPCODE => {
            Command::AddRr(value!(RrState of AddRrState(words): context, tag))
        }
        layout::DelRrState::OPCODE => {
            Command::DelRr(value!(RrState of DelRrState(words): context, tag))
        }
        layout::InstallListener::OPCODE..=layout::Reinject::OPCODE
        | layout::QuerySplice::OPCODE => Command::Accel(accel::decode(head, words)?),
        _ => Command::Toe(toe::decode(head, words)?),
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
        Command::Recover(recover) => recover.is_prefixed_by(gather.len()),
        Command::AddRr(_) => {
            let slices = gather.slices().len();
            (1..=MAX_RR_SLICES).contains(&slices) && gather.len() <= u64::from(u32::MAX)
        }
        Command::Load(..) => {
            let fits = (1..=u64::from(MAX_RESOURCE)).contains(&gather.len());
            gather.slices().len() == 1 && fits
        }
        Command::SetRss | Command::QueryRss => {
            gather.slices().len() == 1 && gather.len() == RSS_BYTES as u64
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
