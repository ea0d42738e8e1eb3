//! Commands in slots: written by the host, and decoded by the device.

use wire::{FlowKey, SeqNum};
use zerocopy::FromZeros;

use super::super::error::ErrorCode;
use super::super::gather::Gather;
use super::super::layout::{self, ContextId, Head, SLOT_WORDS, View, flags, next_hop};
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
    let toe = command.toe().into();
    macro_rules! of_the_connection_alone {
        ($Name:ident) => {{
            let slot = layout::$Name {
                toe,
                ..FromZeros::new_zeroed()
            };
            ring.put(&slot, &[])
        }};
    }
    match *command {
        ToeCommand::Begin { ref flow, .. } => {
            let slot = layout::ToeBegin {
                head: Head::flagged(flags([(flow.src.0.is_ipv6(), layout::ToeBegin::V6)])),
                toe,
                flow: flow.into(),
                ..FromZeros::new_zeroed()
            };
            ring.put(&slot, &[])
        }
        ToeCommand::Offer(offer) => {
            let v6 = offer.flow.src.0.is_ipv6();
            let slot = layout::ToeOffer {
                head: Head::flagged(flags([(v6, layout::ToeOffer::V6)])),
                toe,
                flow: (&offer.flow).into(),
                hop: offer.hop.0,
                hop_limit: offer.hop_limit,
                ..FromZeros::new_zeroed()
            };
            ring.put(&slot, &[offer.tcb])
        }
        ToeCommand::Cancel { .. } => of_the_connection_alone!(ToeCancel),
        ToeCommand::Restore { .. } => of_the_connection_alone!(ToeRestore),
        ToeCommand::Send {
            seq,
            context,
            flags,
            payload,
            ..
        } => {
            let slot = layout::ToeSend {
                head: Head::flagged(flags.0 & layout::ToeSend::MUTABLE_SOURCE),
                toe,
                seq: seq.0,
                bytes: byte_count(payload),
                context: ContextId::field(context),
                ..FromZeros::new_zeroed()
            };
            ring.put(&slot, payload)
        }
        ToeCommand::Consumed { bytes, .. } => {
            let slot = layout::ToeConsumed {
                toe,
                bytes,
                ..FromZeros::new_zeroed()
            };
            ring.put(&slot, &[])
        }
        ToeCommand::Close { .. } => of_the_connection_alone!(ToeClose),
        ToeCommand::Abort { .. } => of_the_connection_alone!(ToeAbort),
        ToeCommand::Detach { .. } => of_the_connection_alone!(ToeDetach),
        ToeCommand::Option { option, .. } => {
            let (option, value) = match option {
                ToeOption::NoDelay(on) => (NO_DELAY, on),
                ToeOption::Cork(on) => (CORK, on),
            };
            let slot = layout::ToeOption {
                toe,
                option,
                value: value.into(),
                ..FromZeros::new_zeroed()
            };
            ring.put(&slot, &[])
        }
        ToeCommand::Resume {
            context,
            tcpsn,
            len,
            ..
        } => {
            let slot = layout::ToeResume {
                toe,
                context: context.0,
                tcpsn: tcpsn.0,
                len,
                ..FromZeros::new_zeroed()
            };
            ring.put(&slot, &[])
        }
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
            ToeRequest::Begin {
                toe,
                flow: flow.ok_or(ErrorCode::BadParameters)?,
            }
        }
        layout::ToeOffer::OPCODE => {
            let offer = offer(layout::ToeOffer::of(words));
            ToeRequest::Offer(offer.ok_or(ErrorCode::BadParameters)?)
        }
        layout::ToeCancel::OPCODE => ToeRequest::Cancel(toe),
        layout::ToeRestore::OPCODE => ToeRequest::Restore(toe),
        layout::ToeSend::OPCODE => {
            let send = layout::ToeSend::of(words);
            ToeRequest::Send {
                toe,
                seq: SeqNum(send.seq),
                bytes: send.bytes,
                context: ContextId::named(send.context),
                flags: SendFlags(head.flags),
            }
        }
        layout::ToeConsumed::OPCODE => ToeRequest::Consumed {
            toe,
            bytes: layout::ToeConsumed::of(words).bytes,
        },
        layout::ToeClose::OPCODE => ToeRequest::Close(toe),
        layout::ToeAbort::OPCODE => ToeRequest::Abort(toe),
        layout::ToeDetach::OPCODE => ToeRequest::Detach(toe),
        layout::ToeOption::OPCODE => ToeRequest::Option(toe, option(layout::ToeOption::of(words))?),
        layout::ToeResume::OPCODE => {
            let resume = layout::ToeResume::of(words);
            ToeRequest::Resume {
                toe,
                context: ContextId(resume.context),
                tcpsn: SeqNum(resume.tcpsn),
                len: resume.len,
            }
        }
        _ => return Err(ErrorCode::BadOpcode),
    })
}

fn offer(slot: &layout::ToeOffer) -> Option<ToeOffer> {
    Some(ToeOffer {
        toe: slot.toe.into(),
        flow: slot.flow.key(slot.head.flags & layout::ToeOffer::V6 != 0)?,
        hop: next_hop(slot.hop)?,
        hop_limit: Some(slot.hop_limit).filter(|limit| *limit != 0)?,
        tcb: slot.slices[0].into(),
    })
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
