//! Commands in slots: written by the host, and decoded by the device.

use wire::ethernet::MacAddr;
use wire::{FlowKey, SeqNum};

use super::super::error::ErrorCode;
use super::super::gather::Gather;
use super::super::layout::{
    ContextId, Head, Opcode, SLOT_WORDS, decode_flow, encode_flow, pair, unpair,
};
use super::super::region::Slice;
use super::super::send::SendFlags;
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

const V6: u8 = 1;
const MUTABLE: u8 = 2;

const NO_DELAY: u32 = 1;
const CORK: u32 = 2;

/// Writes the words behind the first but for slices; gives the opcode and the flags.
pub(in crate::ring) fn encode(
    command: &ToeCommand<'_>,
    words: &mut [u64; SLOT_WORDS],
) -> (Opcode, u8) {
    let toe = command.toe();
    words[1] = pair(toe.index, toe.generation);
    let family = |v6: bool| if v6 { V6 } else { 0 };
    match *command {
        ToeCommand::Begin { ref flow, .. } => (Opcode::ToeBegin, family(encode_flow(flow, words))),
        ToeCommand::Offer(offer) => {
            let v6 = encode_flow(&offer.flow, words);
            let [a, b, c, d, e, f] = offer.hop.0;
            words[7] = u64::from_le_bytes([a, b, c, d, e, f, offer.hop_limit, 0]);
            (Opcode::ToeOffer, family(v6))
        }
        ToeCommand::Cancel { .. } => (Opcode::ToeCancel, 0),
        ToeCommand::Restore { .. } => (Opcode::ToeRestore, 0),
        ToeCommand::Send {
            seq,
            context,
            flags,
            payload,
            ..
        } => {
            let bytes: u64 = payload.iter().map(|slice| u64::from(slice.len)).sum();
            words[2] = pair(seq.0, bytes.min(u64::from(u32::MAX)) as u32);
            words[3] = u64::from(context.map_or(ContextId::NONE, |context| context.0));
            let mutable = flags.contains(SendFlags::MUTABLE_SOURCE);
            (Opcode::ToeSend, if mutable { MUTABLE } else { 0 })
        }
        ToeCommand::Consumed { bytes, .. } => {
            words[2] = u64::from(bytes);
            (Opcode::ToeConsumed, 0)
        }
        ToeCommand::Close { .. } => (Opcode::ToeClose, 0),
        ToeCommand::Abort { .. } => (Opcode::ToeAbort, 0),
        ToeCommand::Detach { .. } => (Opcode::ToeDetach, 0),
        ToeCommand::Option { option, .. } => {
            match option {
                ToeOption::NoDelay(on) => words[2] = pair(NO_DELAY, on.into()),
                ToeOption::Cork(on) => words[2] = pair(CORK, on.into()),
            }
            (Opcode::ToeOption, 0)
        }
        ToeCommand::Resume {
            context,
            tcpsn,
            len,
            ..
        } => {
            words[2] = pair(context.0, tcpsn.0);
            words[3] = u64::from(len);
            (Opcode::ToeResume, 0)
        }
    }
}

/// The command in a slot of which all words were read.
pub(in crate::ring) fn decode(
    opcode: Opcode,
    head: Head,
    words: &[u64; SLOT_WORDS],
) -> Result<ToeRequest, ErrorCode> {
    let toe = ToeId::from_word(words[1]);
    let (low, high) = unpair(words[2]);
    let flow = || decode_flow(words, head.flags & V6 != 0).ok_or(ErrorCode::BadParameters);
    Ok(match opcode {
        Opcode::ToeBegin => ToeRequest::Begin { toe, flow: flow()? },
        Opcode::ToeOffer => {
            let [a, b, c, d, e, f, hop_limit, _] = words[7].to_le_bytes();
            let hop = MacAddr([a, b, c, d, e, f]);
            if !hop.is_unicast() || hop_limit == 0 {
                return Err(ErrorCode::BadParameters);
            }
            ToeRequest::Offer(ToeOffer {
                toe,
                flow: flow()?,
                hop,
                hop_limit,
                tcb: Slice::from_words([words[8], words[9]]),
            })
        }
        Opcode::ToeCancel => ToeRequest::Cancel(toe),
        Opcode::ToeRestore => ToeRequest::Restore(toe),
        Opcode::ToeSend => {
            let context = Some(words[3] as u32).filter(|id| *id != ContextId::NONE);
            ToeRequest::Send {
                toe,
                seq: SeqNum(low),
                bytes: high,
                context: context.map(ContextId),
                flags: match head.flags & MUTABLE {
                    0 => SendFlags::NONE,
                    _ => SendFlags::MUTABLE_SOURCE,
                },
            }
        }
        Opcode::ToeConsumed => ToeRequest::Consumed { toe, bytes: low },
        Opcode::ToeClose => ToeRequest::Close(toe),
        Opcode::ToeAbort => ToeRequest::Abort(toe),
        Opcode::ToeDetach => ToeRequest::Detach(toe),
        Opcode::ToeOption => ToeRequest::Option(toe, option(words)?),
        Opcode::ToeResume => ToeRequest::Resume {
            toe,
            context: ContextId(low),
            tcpsn: SeqNum(high),
            len: words[3] as u32,
        },
        _ => return Err(ErrorCode::BadOpcode),
    })
}

fn option(words: &[u64; SLOT_WORDS]) -> Result<ToeOption, ErrorCode> {
    let (which, value) = unpair(words[2]);
    Ok(match (which, value) {
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
        ToeRequest::Offer(_) => gather.slices().len() == 1,
        _ => gather.slices().is_empty(),
    }
}

/// Most bytes of one `ToeSend`: a quarter of what may be queued.
const MAX_TOE_SEND_BYTES: u32 = 1 << 28;
