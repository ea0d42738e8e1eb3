//! Commands in slots: written by the host, and decoded by the device.

use wire::{FlowKey, SeqNum};
use zerocopy::FromZeros;

use super::super::error::ErrorCode;
use super::super::gather::Gather;
use super::super::layout::{self, ContextId, Head, SLOT_WORDS, View, flags, next_hop, slot, value};
use super::super::send::{PostError, SendFlags, SendProducer, byte_count};
use super::{ToeCommand, ToeId, ToeOffer, ToeOption};

/// A command whose form is right, as the device has it. Slices of a `Send` are in the [`Gather`] that was filled along with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToeRequest {
    Begin {
        toe: ToeId,
        flow: FlowKey,
    },
    Offer(ToeOffer),
    Cancel(ToeId),
    Restore(ToeId),
    Send {
        toe: ToeId,
        seq: SeqNum,
        bytes: u32,
        context: Option<ContextId>,
        flags: SendFlags,
    },
    Consumed {
        toe: ToeId,
        bytes: u32,
    },
    Close(ToeId),
    Abort(ToeId),
    Detach(ToeId),
    Option(ToeId, ToeOption),
    Resume {
        toe: ToeId,
        context: ContextId,
        tcpsn: SeqNum,
        len: u32,
    },
}

impl ToeRequest {
    pub(crate) fn toe(&self) -> ToeId {
        match *self {
            ToeRequest::Offer(offer) => offer.toe,
            ToeRequest::Begin { toe, .. }
            | ToeRequest::Send { toe, .. }
            | ToeRequest::Consumed { toe, .. }
            | ToeRequest::Resume { toe, .. }
            | ToeRequest::Cancel(toe)
            | ToeRequest::Restore(toe)
            | ToeRequest::Close(toe)
            | ToeRequest::Abort(toe)
            | ToeRequest::Detach(toe)
            | ToeRequest::Option(toe, _) => toe,
        }
    }
}

/// Posts a command with its slices.
pub(in crate::ring) fn post(
    ring: &mut SendProducer,
    command: &ToeCommand<'_>,
) -> Result<u64, PostError> {
    let toe = command.toe();
    match *command {
        ToeCommand::Begin { ref flow, .. } => {
            let v6 = flags([(flow.src.0.is_ipv6(), layout::ToeBegin::V6)]);
            let slot = slot!(ToeBegin: head = Head::flagged(v6), toe, flow = flow.into());
            ring.put(&slot, &[])
        }
        ToeCommand::Offer(offer) => ring.put(&offer.encode(), &[offer.tcb]),
        ToeCommand::Cancel { .. } => ring.put(&slot!(ToeCancel: toe), &[]),
        ToeCommand::Restore { .. } => ring.put(&slot!(ToeRestore: toe), &[]),
        ToeCommand::Send {
            seq,
            context,
            flags,
            payload,
            ..
        } => {
            let head = Head::flagged(flags.0 & layout::ToeSend::MUTABLE_SOURCE);
            let bytes = byte_count(payload);
            ring.put(
                &slot!(ToeSend: head = head, toe, seq, bytes, context),
                payload,
            )
        }
        ToeCommand::Consumed { bytes, .. } => ring.put(&slot!(ToeConsumed: toe, bytes), &[]),
        ToeCommand::Close { .. } => ring.put(&slot!(ToeClose: toe), &[]),
        ToeCommand::Abort { .. } => ring.put(&slot!(ToeAbort: toe), &[]),
        ToeCommand::Detach { .. } => ring.put(&slot!(ToeDetach: toe), &[]),
        ToeCommand::Option { option, .. } => {
            let (option, value) = match option {
                ToeOption::NoDelay(on) => (NO_DELAY, on.into()),
                ToeOption::Cork(on) => (CORK, on.into()),
            };
            ring.put(&slot!(ToeOption: toe, option, value = value), &[])
        }
        ToeCommand::Resume {
            context,
            tcpsn,
            len,
            ..
        } => ring.put(&slot!(ToeResume: toe, context, tcpsn, len), &[]),
    }
}

const NO_DELAY: u32 = 1;
const CORK: u32 = 2;

/// The command in a slot of which all words were read.
pub(in crate::ring) fn decode(
    head: Head,
    words: &[u64; SLOT_WORDS],
) -> Result<ToeRequest, ErrorCode> {
    let toe = layout::ToeCancel::of(words).toe.into();
    Ok(match head.opcode {
        layout::ToeBegin::OPCODE => {
            let v6 = head.flags & layout::ToeBegin::V6 != 0;
            let flow = layout::ToeBegin::of(words).flow.key(v6);
            let flow = flow.ok_or(ErrorCode::BadParameters)?;
            ToeRequest::Begin { toe, flow }
        }
        layout::ToeOffer::OPCODE => {
            let offer = ToeOffer::decode(layout::ToeOffer::of(words));
            ToeRequest::Offer(offer.ok_or(ErrorCode::BadParameters)?)
        }
        layout::ToeCancel::OPCODE => ToeRequest::Cancel(toe),
        layout::ToeRestore::OPCODE => ToeRequest::Restore(toe),
        layout::ToeSend::OPCODE => {
            let flags = SendFlags(head.flags);
            value!(ToeRequest::Send { toe, flags } of ToeSend(words): seq, bytes, context)
        }
        layout::ToeConsumed::OPCODE => {
            value!(ToeRequest::Consumed { toe } of ToeConsumed(words): bytes)
        }
        layout::ToeClose::OPCODE => ToeRequest::Close(toe),
        layout::ToeAbort::OPCODE => ToeRequest::Abort(toe),
        layout::ToeDetach::OPCODE => ToeRequest::Detach(toe),
        layout::ToeOption::OPCODE => ToeRequest::Option(toe, option(layout::ToeOption::of(words))?),
        layout::ToeResume::OPCODE => {
            value!(ToeRequest::Resume { toe } of ToeResume(words): context, tcpsn, len)
        }
        _ => return Err(ErrorCode::BadOpcode),
    })
}

impl ToeOffer {
    fn encode(&self) -> layout::ToeOffer {
        let v6 = flags([(self.flow.src.0.is_ipv6(), layout::ToeOffer::V6)]);
        layout::ToeOffer {
            head: Head::flagged(v6),
            toe: self.toe.into(),
            flow: (&self.flow).into(),
            hop: self.hop.0,
            hop_limit: self.hop_limit,
            ..FromZeros::new_zeroed()
        }
    }

    fn decode(slot: &layout::ToeOffer) -> Option<ToeOffer> {
        Some(ToeOffer {
            toe: slot.toe.into(),
            flow: slot.flow.key(slot.head.flags & layout::ToeOffer::V6 != 0)?,
            hop: next_hop(slot.hop)?,
            hop_limit: Some(slot.hop_limit).filter(|limit| *limit != 0)?,
            tcb: slot.slices[0].into(),
        })
    }
}

fn option(slot: &layout::ToeOption) -> Result<ToeOption, ErrorCode> {
    Ok(match (slot.option, slot.value) {
        (NO_DELAY, on @ 0..2) => ToeOption::NoDelay(on == 1),
        (CORK, on @ 0..2) => ToeOption::Cork(on == 1),
        _ => return Err(ErrorCode::BadParameters),
    })
}

/// Whether the slices are as many, and as long, as the command's own numbers say.
pub(in crate::ring) fn slices_fit(request: &ToeRequest, gather: &Gather) -> bool {
    match request {
        ToeRequest::Send { bytes, .. } => {
            let each = gather.slices().iter().all(|slice| slice.len > 0);
            gather.len() == u64::from(*bytes) && each && *bytes > 0 && *bytes <= MAX_TOE_SEND_BYTES
        }
        ToeRequest::Offer(offer) => gather.slices() == [offer.tcb],
        _ => gather.slices().is_empty(),
    }
}

/// Most bytes of one `ToeSend`: a quarter of what may be queued.
const MAX_TOE_SEND_BYTES: u32 = 1 << 28;
