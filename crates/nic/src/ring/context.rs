//! Descriptors of contexts that say more than a context and a tag.

use l5p::{Direction, Layers};
use wire::{FlowKey, SeqNum};
use zerocopy::FromZeros;

use super::error::ErrorCode;
use super::layout::{self, ContextId, Head, flags, inner_fields, inner_place, slot};
use super::toe::ToeId;

/// A context to be made (`l5o_create`; Autonomous NIC offloads, Listing 1).
#[derive(Debug, Clone)]
pub struct CreateContext {
    /// An id below the function's quota that is not in use.
    pub context: ContextId,
    /// Which way the packets go.
    pub direction: Direction,
    /// Source and destination as packets of this direction carry them.
    pub flow: FlowKey,
    /// Sequence number of the first byte of the next message.
    pub tcpsn: SeqNum,
    /// The protocols, and what their engines need to know. The first message of each begins at `tcpsn`.
    pub layers: Layers,
}

impl CreateContext {
    const RECEIVE: u8 = layout::CreateContext::RECEIVE;
    const V6: u8 = layout::CreateContext::V6;

    /// It has keys in it.
    pub(super) fn encode(&self) -> layout::CreateContext {
        let mut create = layout::CreateContext {
            head: Head::flagged(flags([
                (self.direction == Direction::Receive, Self::RECEIVE),
                (self.flow.src.0.is_ipv6(), Self::V6),
            ])),
            context: self.context.0,
            tcpsn: self.tcpsn.0,
            flow: (&self.flow).into(),
            protocols: self.layers.ids_word().to_le_bytes(),
            ..FromZeros::new_zeroed()
        };
        let parameters = self.layers.encoded();
        create.parameters[..parameters.len()].copy_from_slice(parameters);
        create
    }

    #[inline]
    pub(super) fn decode(slot: &layout::CreateContext) -> Option<CreateContext> {
        let has = |flag: u8| slot.head.flags & flag != 0;
        Some(CreateContext {
            context: ContextId(slot.context),
            direction: match has(Self::RECEIVE) {
                true => Direction::Receive,
                false => Direction::Transmit,
            },
            flow: slot.flow.key(has(Self::V6))?,
            tcpsn: SeqNum(slot.tcpsn),
            layers: Layers::decode(u32::from_le_bytes(slot.protocols), &slot.parameters).ok()?,
        })
    }
}

/// The place in the stream that a transmit context is to be brought to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoverContext {
    /// The context.
    pub context: ContextId,
    /// First byte of the message that contains `resume`.
    pub start: SeqNum,
    /// The message's index.
    pub index: u64,
    /// The message's length, header and trailer included.
    pub len: u32,
    /// Where the next `Send` begins: `start <= resume < start + len`.
    pub resume: SeqNum,
    /// What to prove before anything is sent again.
    pub verify: Verify,
    /// For a stack of two protocols, the inner one's place.
    pub inner: Option<InnerRecover>,
    /// On the command ring the connection that has asked ([`ToeEvent::Recover`](super::toe::ToeEvent::Recover)), and nothing on
    /// the send ring. If it does not wait for that context any more, the context stays where it is.
    pub toe: Option<ToeId>,
}

/// How a [`RecoverContext`] proves that the source is what was sent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verify {
    /// Not at all: the source is memory that only this host writes, and it has not.
    #[default]
    None,
    /// The prefix is the whole message, whose integrity value the device has written to its end when it first sent it.
    WholeMessage,
    /// The prefix is as much of the message as was ever sent; the device has kept its digest.
    Frontier,
    /// Not at all, as with [`None`](Self::None), and nothing is read: there is no prefix. The context stays where it is; only the
    /// `Send` that follows on this ring is of the place that is named. For a protocol that is
    /// [seekable](l5p::Layer5::is_seekable), and a payload that ends before the message's integrity check value.
    Seek,
}

/// Where the inner layer of a stacked transmit context is to be brought to: the PDU that holds the first plaintext byte of
/// the record that the outer layer is brought to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InnerRecover {
    /// The PDU's index.
    pub index: u64,
    /// The PDU's length, header and digests included.
    pub len: u32,
    /// Which byte of the PDU the record's first plaintext byte is: below `len`.
    pub offset: u32,
}

/// A place in the stream of a protocol that is inside another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InnerPlace {
    /// The layer: 1 for the one inside the outermost.
    pub layer: u8,
    /// Bytes from the beginning of the content of the outermost protocol's message to the place.
    pub offset: u32,
}

impl RecoverContext {
    const INNER: u8 = layout::RecoverContext::INNER;
    const TOE: u8 = layout::RecoverContext::TOE;

    pub(super) fn encode(&self) -> layout::RecoverContext {
        let given = flags([
            (self.inner.is_some(), Self::INNER),
            (self.toe.is_some(), Self::TOE),
        ]);
        let mut recover = layout::RecoverContext {
            head: Head::flagged(self.verify.flags() | given),
            context: self.context.0,
            len: self.len,
            index: self.index,
            start: self.start.0,
            resume: self.resume.0,
            ..FromZeros::new_zeroed()
        };
        if let Some(inner) = self.inner {
            recover.inner_index = inner.index;
            recover.inner_len = inner.len;
            recover.inner_offset = inner.offset;
        }
        if let Some(toe) = self.toe {
            recover.toe = toe.into();
        }
        recover
    }

    #[inline]
    pub(super) fn decode(slot: &layout::RecoverContext) -> Result<RecoverContext, ErrorCode> {
        let flags = slot.head.flags;
        Ok(RecoverContext {
            context: ContextId(slot.context),
            start: SeqNum(slot.start),
            index: slot.index,
            len: slot.len,
            resume: SeqNum(slot.resume),
            verify: Verify::of(flags & !(Self::INNER | Self::TOE))?,
            inner: (flags & Self::INNER != 0).then_some(InnerRecover {
                index: slot.inner_index,
                len: slot.inner_len,
                offset: slot.inner_offset,
            }),
            toe: (flags & Self::TOE != 0).then(|| slot.toe.into()),
        })
    }

    /// Whether its numbers are possible, and so many bytes before the place are what it must come with.
    pub(super) fn is_prefixed_by(&self, prefix: u64) -> bool {
        let resume = self.start.distance_to(self.resume);
        let inner = self.inner.map_or(0, |inner| u64::from(inner.offset));
        let (from, to) = (inner + u64::from(resume), inner + u64::from(self.len));
        resume < self.len
            && self.inner.is_none_or(|inner| inner.offset < inner.len)
            && match self.verify {
                Verify::None => prefix == from,
                Verify::WholeMessage => prefix == to,
                Verify::Frontier => (from..to).contains(&prefix),
                Verify::Seek => prefix == 0 && self.inner.is_none(),
            }
    }
}

impl Verify {
    const WHOLE: u8 = layout::RecoverContext::VERIFY_WHOLE;
    const FRONTIER: u8 = layout::RecoverContext::VERIFY_FRONTIER;
    const SEEK: u8 = Self::WHOLE | Self::FRONTIER;

    fn flags(self) -> u8 {
        match self {
            Verify::None => 0,
            Verify::WholeMessage => Self::WHOLE,
            Verify::Frontier => Self::FRONTIER,
            Verify::Seek => Self::SEEK,
        }
    }

    fn of(flags: u8) -> Result<Verify, ErrorCode> {
        Ok(match flags {
            0 => Verify::None,
            Self::WHOLE => Verify::WholeMessage,
            Self::FRONTIER => Verify::Frontier,
            Self::SEEK => Verify::Seek,
            _ => return Err(ErrorCode::BadParameters),
        })
    }
}

/// The answer to a resync request (`l5o_resync_rx_resp`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResyncResponse {
    /// The context.
    pub context: ContextId,
    /// The position asked about.
    pub tcpsn: SeqNum,
    /// As it was asked: `Some` when the question was about a protocol inside the outermost one.
    pub inner: Option<InnerPlace>,
    /// Whether a message begins there.
    pub confirmed: bool,
    /// That message's index, when confirmed.
    pub index: u64,
}

impl ResyncResponse {
    const CONFIRMED: u8 = layout::ResyncResponse::CONFIRMED;

    pub(super) fn encode(&self) -> layout::ResyncResponse {
        let head = Head::flagged(flags([(self.confirmed, Self::CONFIRMED)]));
        let ResyncResponse {
            context,
            tcpsn,
            index,
            ..
        } = *self;
        let (offset, layer) = inner_fields(self.inner);
        slot!(ResyncResponse: head = head, context, tcpsn, index, offset, layer)
    }

    #[inline]
    pub(super) fn decode(slot: &layout::ResyncResponse) -> Result<ResyncResponse, ErrorCode> {
        Ok(ResyncResponse {
            context: ContextId(slot.context),
            tcpsn: SeqNum(slot.tcpsn),
            inner: inner_place(slot.offset, slot.layer)?,
            confirmed: slot.head.flags & Self::CONFIRMED != 0,
            index: slot.index,
        })
    }
}
