//! The receive ring: packets, resync requests and error completions to the host; and the fill
//! rings, by which the host gives the device buffers.

use l5p::{MAX_LAYERS, Note, ResourceId};
use wire::SeqNum;
use zerocopy::{FromZeros, transmute_ref};

use super::accel::{AccelRoom, Established, SpliceEnded, SpliceState};
use super::context::InnerPlace;
use super::error::ErrorCode;
use super::layout::{self, ContextId, RECV_WORDS, View, inner_fields, inner_place, slot, value};
use super::region::Slice;
use super::rss::HashType;
use super::toe::{ToeEvent, ToeId};

/// Notes that one descriptor has room for.
pub const NOTES_PER_DESCRIPTOR: usize = 3;

/// What the device reports to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecvDescriptor {
    /// A packet, or several that were coalesced (LRO) into one with the first one's headers.
    Packet(Packet),
    /// Part of the payload of the [`Packet`] before it, which the device wrote into a buffer that the host has mapped.
    Placed {
        /// Which byte of the packet's payload the first of them is.
        at: u32,
        /// Where they are.
        slice: Slice,
        /// The tag that the buffer is mapped to.
        tag: u16,
    },
    /// What the innermost protocol of the context has to say of the payload of the [`Packet`] before it.
    Notes {
        /// In order; [`Note::at`] is a byte of the packet's payload. What lies behind the count has no meaning.
        notes: [Note; NOTES_PER_DESCRIPTOR],
        /// How many they are.
        count: u8,
    },
    /// What became of a resource that was to be loaded.
    Resource {
        /// The host's number.
        resource: ResourceId,
        /// Why it could not be made; its number is free again.
        error: Option<ErrorCode>,
    },
    /// `l5o_resync_rx_req`: does a message begin at `tcpsn`?
    ResyncRequest {
        /// The receive context that asks.
        context: ContextId,
        /// Where it believes to have found a header; with `inner`, the first byte of a message of the outermost protocol.
        tcpsn: SeqNum,
        /// A protocol inside that one asks about this place in that message's content.
        inner: Option<InnerPlace>,
    },
    /// A descriptor was refused.
    Completion {
        /// Index of the descriptor's first slot in the send ring of this queue.
        send_index: u64,
        /// The context it named.
        context: Option<ContextId>,
        /// Where in the stream: the packet's first byte, or for [`ErrorCode::SourceChanged`] the message's.
        tcpsn: SeqNum,
        /// What was wrong.
        error: ErrorCode,
    },
    /// The [`Packet`] that comes next opens a connection.
    Established(Established),
    /// How much room is left for connections that the device owns.
    AccelRoom(AccelRoom),
    /// A splice has ended.
    SpliceEnded(SpliceEnded),
    /// Where a leg of the splice named by the [`SpliceEnded`] before it stands: first A, then B.
    SpliceState(SpliceState),
    /// What became of a connection that the device runs.
    Toe(ToeEvent),
    /// The device was reset: of all that it had for the function, contexts, listeners and connections, nothing is left. What was reported
    /// before is true still; what was posted and not done is not done any more. It comes once on each receive ring.
    Reset {
        /// Resets of the function so far.
        epoch: u32,
    },
}

/// A received packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// The part of a host buffer that holds it, from the Ethernet header on.
    pub buffer: Slice,
    /// Bytes of Ethernet, IP and TCP headers; 0 when it is not TCP.
    pub header_len: u16,
    /// Bytes of TCP payload after them, as the stream has them. The buffer holds those that were not placed, one after the
    /// other.
    pub payload_len: u32,
    /// Packets that were on the wire.
    pub segments: u16,
    /// The receive context of its flow.
    pub context: Option<ContextId>,
    /// What the protocols of its context made of its payload.
    pub processed: Processed,
    /// So many [`RecvDescriptor::Placed`] follow it at once, by ascending `at`.
    pub placed: u16,
    /// So many notes, in [`RecvDescriptor::Notes`] behind those, by ascending `at`.
    pub notes: u8,
    /// IP and TCP checksums were found right.
    pub checksum_ok: bool,
    /// Hash of its flow.
    pub hash: u32,
    /// What the hash covers; `None` if it is the NIC's own, or there is none.
    pub hash_type: Option<HashType>,
}

/// What the protocols of a context made of a packet: a bit for each layer, the outermost's the lowest, and whether the payload is another
/// one than was on the wire.
///
/// A layer's bit is set when that layer has processed the whole payload, and every check that ended in it held: the content of records
/// is decrypted, the bytes of PDUs are covered by digests. Packets that differ in it are never merged. Whether data were placed is another question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Processed(u8);

impl Processed {
    /// By no layer.
    pub const NONE: Processed = Processed(0);

    /// By the layers whose bits are set; the outermost of which `replaces` what it processes, or does not.
    #[must_use]
    pub fn by_layers(layers: u8, replaces: bool) -> Processed {
        let layers = layers & ((1 << MAX_LAYERS) - 1);
        Processed(layers | u8::from(replaces && layers & 1 != 0) << MAX_LAYERS)
    }

    /// The payload is what the outermost layer has made of it: plaintext, if that encrypts.
    #[must_use]
    pub fn is_replaced(self) -> bool {
        self.0 >> MAX_LAYERS != 0
    }

    /// Whether by this one; the outermost is layer 0.
    #[must_use]
    #[inline]
    pub fn by(self, layer: usize) -> bool {
        self.0 >> layer & 1 != 0
    }
}

/// Where in a packet's flags [`Processed`] begins.
const PROCESSED_BITS: u32 = layout::Packet::LAYER_0.trailing_zeros();
const _: () = {
    use layout::Packet;
    let layers = [
        Packet::LAYER_0,
        Packet::LAYER_1,
        Packet::LAYER_2,
        Packet::LAYER_3,
        Packet::REPLACED,
    ];
    assert!(layers.len() == MAX_LAYERS + 1);
    let mut layer = 0;
    while layer < layers.len() {
        assert!(layers[layer] == 1 << layer << PROCESSED_BITS);
        layer += 1;
    }
};

impl RecvDescriptor {
    #[inline]
    pub(super) fn to_words(self) -> [u64; RECV_WORDS] {
        match self {
            RecvDescriptor::Packet(packet) => packet.encode().words(),
            RecvDescriptor::Placed { at, slice, tag } => {
                slot!(Placed: opcode = layout::Placed::OPCODE, tag, at, slice).words()
            }
            RecvDescriptor::Notes { notes, count } => {
                let notes = notes.map(|Note { at, code, value }| layout::Note { at, code, value });
                slot!(Notes: opcode = layout::Notes::OPCODE, count, notes = notes).words()
            }
            RecvDescriptor::Resource { resource, error } => {
                let error = error.map_or(0, |error| error as u8);
                slot!(Resource: opcode = layout::Resource::OPCODE, error, resource).words()
            }
            RecvDescriptor::ResyncRequest {
                context,
                tcpsn,
                inner,
            } => {
                let opcode = layout::ResyncRequest::OPCODE;
                let (offset, layer) = inner_fields(inner);
                slot!(ResyncRequest: opcode, context, tcpsn, offset, layer).words()
            }
            RecvDescriptor::Completion {
                send_index,
                context,
                tcpsn,
                error,
            } => {
                let (opcode, error) = (layout::Completion::OPCODE, error as u8);
                slot!(Completion: opcode, error, context, tcpsn, index = send_index).words()
            }
            RecvDescriptor::Established(established) => established.encode(),
            RecvDescriptor::AccelRoom(room) => room.encode(),
            RecvDescriptor::SpliceEnded(ended) => ended.encode(),
            RecvDescriptor::SpliceState(state) => state.encode(),
            RecvDescriptor::Toe(event) => event.encode(),
            RecvDescriptor::Reset { epoch } => {
                slot!(Reset: opcode = layout::Reset::OPCODE, epoch).words()
            }
        }
    }

    /// The connection of a [`ToeEvent::Delivered`], by the first words.
    pub(super) fn delivered_to(words: &[u64; 2]) -> Option<ToeId> {
        let head: &layout::ToeHead = transmute_ref!(words);
        let is_toe = head.opcode == layout::ToeHead::OPCODE;
        is_toe.then(|| ToeEvent::delivered_to(words)).flatten()
    }

    /// `None` for words that no device of ours writes.
    pub(super) fn from_words(words: &[u64; RECV_WORDS]) -> Option<RecvDescriptor> {
        Some(match layout::ToeHead::of(words).opcode {
            layout::Packet::OPCODE => {
                RecvDescriptor::Packet(Packet::decode(layout::Packet::of(words)))
            }
            layout::Placed::OPCODE => {
                value!(RecvDescriptor::Placed of Placed(words): at, slice, tag)
            }
            layout::Notes::OPCODE => {
                let notes = layout::Notes::of(words).notes;
                let notes = notes.map(|layout::Note { at, code, value }| Note { at, code, value });
                let count = layout::Notes::of(words).count;
                let fits = usize::from(count) <= NOTES_PER_DESCRIPTOR;
                fits.then_some(RecvDescriptor::Notes { notes, count })?
            }
            layout::Resource::OPCODE => {
                let error = match layout::Resource::of(words).error {
                    0 => None,
                    error => Some(ErrorCode::from_byte(error)?),
                };
                value!(RecvDescriptor::Resource { error } of Resource(words): resource)
            }
            layout::ResyncRequest::OPCODE => {
                let request = layout::ResyncRequest::of(words);
                RecvDescriptor::ResyncRequest {
                    context: ContextId::named(request.context)?,
                    tcpsn: SeqNum(request.tcpsn),
                    inner: inner_place(request.offset, request.layer).ok()?,
                }
            }
            layout::Completion::OPCODE => {
                let completion = layout::Completion::of(words);
                RecvDescriptor::Completion {
                    send_index: completion.index,
                    context: ContextId::named(completion.context),
                    tcpsn: SeqNum(completion.tcpsn),
                    error: ErrorCode::from_byte(completion.error)?,
                }
            }
            layout::Established::OPCODE => RecvDescriptor::Established(Established::decode(words)),
            layout::AccelRoom::OPCODE => RecvDescriptor::AccelRoom(AccelRoom::decode(words)),
            layout::SpliceEnded::OPCODE => RecvDescriptor::SpliceEnded(SpliceEnded::decode(words)?),
            layout::SpliceState::OPCODE => RecvDescriptor::SpliceState(SpliceState::decode(words)),
            layout::ToeHead::OPCODE => RecvDescriptor::Toe(ToeEvent::decode(words)?),
            layout::Reset::OPCODE => value!(RecvDescriptor::Reset of Reset(words): epoch),
            _ => return None,
        })
    }
}

impl Packet {
    #[inline]
    fn encode(&self) -> layout::Packet {
        layout::Packet {
            opcode: layout::Packet::OPCODE,
            flags: u8::from(self.checksum_ok) | self.processed.0 << PROCESSED_BITS,
            header_len: self.header_len,
            segments: self.segments,
            placed: self.placed,
            context: ContextId::field(self.context),
            payload_len: self.payload_len,
            buffer: self.buffer.into(),
            hash: self.hash,
            notes: self.notes,
            hash_type: self.hash_type.map_or(0, |of| of as u8),
            ..FromZeros::new_zeroed()
        }
    }

    #[inline]
    fn decode(slot: &layout::Packet) -> Packet {
        Packet {
            buffer: slot.buffer.into(),
            header_len: slot.header_len,
            payload_len: slot.payload_len,
            segments: slot.segments,
            context: ContextId::named(slot.context),
            processed: Processed(slot.flags >> PROCESSED_BITS),
            placed: slot.placed,
            notes: slot.notes,
            checksum_ok: slot.flags & layout::Packet::CHECKSUM_OK != 0,
            hash: slot.hash,
            hash_type: HashType::from_byte(slot.hash_type),
        }
    }
}
