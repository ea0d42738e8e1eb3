//! The receive ring: packets, resync requests and error completions to the host; and the fill
//! rings, by which the host gives the device buffers.
//!
//! ```text
//! word  Packet                                   ResyncRequest    Completion        Placed
//! 0     opcode|flags|header_len|segments|placed  opcode|flags     opcode|error      opcode
//! 1     context | payload bytes                  context | tcpsn  context | tcpsn   tag | at
//! 2–3   buffer                                   inner offset     send ring index   slice
//! 4     hash | notes
//!
//! word  Notes                                    Resource
//! 0     opcode|count                             opcode|error
//! 1, 2  at | code, value                         resource
//! 3–6   the same of the second and the third
//! ```
//!
//! What is told of connections that the device sets up, finishes or joins is laid out in [`accel`](super::accel), of those that it runs in
//! [`toe`](super::toe).

use std::sync::Arc;

use l5p::{MAX_LAYERS, Note, ResourceId};
use wire::SeqNum;

use super::accel::{AccelRoom, Established, SpliceEnded, SpliceState};
use super::block::Block;
use super::error::ErrorCode;
use super::layout::{ContextId, decode_inner, encode_inner};
use super::region::Slice;
use super::send::InnerPlace;
use super::spsc::{Consumer, Producer, Ring};
use super::toe::{ToeEvent, ToeId};

/// Words of a receive slot: 64 bytes.
pub(super) const RECV_WORDS: usize = 8;
/// Words of a fill slot.
pub(super) const FILL_WORDS: usize = Slice::WORDS;

const PACKET: u8 = 1;
const RESYNC_REQUEST: u8 = 2;
const COMPLETION: u8 = 3;
const PLACED: u8 = 4;
const ESTABLISHED: u8 = 5;
const ACCEL_ROOM: u8 = 6;
const SPLICE_ENDED: u8 = 7;
const SPLICE_STATE: u8 = 8;
const TOE: u8 = 9;
const RESET: u8 = 10;
const NOTES: u8 = 11;
const RESOURCE: u8 = 12;

/// Notes that one descriptor has room for.
pub const NOTES_PER_DESCRIPTOR: usize = 3;

/// What the device tells the host.
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
    /// The device was reset: of all that it had for the function, contexts, listeners and connections, nothing is left. What was told
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
    /// Hash of its flow, as used to choose the queue.
    pub hash: u32,
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
const PROCESSED_BITS: u32 = 3;
const _: () = assert!(MAX_LAYERS as u32 + 1 + PROCESSED_BITS <= u8::BITS);

impl RecvDescriptor {
    fn to_words(self) -> [u64; RECV_WORDS] {
        let mut words = [0; RECV_WORDS];
        match self {
            RecvDescriptor::Packet(packet) => {
                let flags =
                    u64::from(packet.checksum_ok) | u64::from(packet.processed.0) << PROCESSED_BITS;
                words[0] = u64::from(PACKET)
                    | flags << 8
                    | u64::from(packet.header_len) << 16
                    | u64::from(packet.segments) << 32
                    | u64::from(packet.placed) << 48;
                words[1] = context_word(packet.context) | u64::from(packet.payload_len) << 32;
                words[2..4].copy_from_slice(&packet.buffer.to_words());
                words[4] = u64::from(packet.hash) | u64::from(packet.notes) << 32;
            }
            RecvDescriptor::Placed { at, slice, tag } => {
                words[0] = u64::from(PLACED);
                words[1] = u64::from(tag) | u64::from(at) << 32;
                words[2..4].copy_from_slice(&slice.to_words());
            }
            RecvDescriptor::Notes { notes, count } => {
                words[0] = u64::from(NOTES) | u64::from(count) << 8;
                for (pair, note) in words[1..].chunks_exact_mut(2).zip(notes) {
                    pair[0] = u64::from(note.at) | u64::from(note.code) << 32;
                    pair[1] = note.value;
                }
            }
            RecvDescriptor::Resource { resource, error } => {
                words[0] = u64::from(RESOURCE) | error.map_or(0, |error| error as u64) << 8;
                words[1] = u64::from(resource.0);
            }
            RecvDescriptor::ResyncRequest {
                context,
                tcpsn,
                inner,
            } => {
                words[0] = u64::from(RESYNC_REQUEST);
                words[1] = context_word(Some(context)) | u64::from(tcpsn.0) << 32;
                words[2] = encode_inner(inner);
            }
            RecvDescriptor::Completion {
                send_index,
                context,
                tcpsn,
                error,
            } => {
                words[0] = u64::from(COMPLETION) | (error as u64) << 8;
                words[1] = context_word(context) | u64::from(tcpsn.0) << 32;
                words[2] = send_index;
            }
            RecvDescriptor::Established(established) => {
                words[0] = u64::from(ESTABLISHED);
                established.encode(&mut words);
            }
            RecvDescriptor::AccelRoom(room) => {
                words[0] = u64::from(ACCEL_ROOM);
                room.encode(&mut words);
            }
            RecvDescriptor::SpliceEnded(ended) => {
                words[0] = u64::from(SPLICE_ENDED);
                ended.encode(&mut words);
            }
            RecvDescriptor::SpliceState(state) => {
                words[0] = u64::from(SPLICE_STATE);
                state.encode(&mut words);
            }
            RecvDescriptor::Toe(event) => {
                words[0] = u64::from(TOE);
                event.encode(&mut words);
            }
            RecvDescriptor::Reset { epoch } => {
                words[0] = u64::from(RESET);
                words[1] = u64::from(epoch);
            }
        }
        words
    }

    /// The connection of a [`ToeEvent::Delivered`], by the first words.
    fn delivered_to(words: &[u64; 2]) -> Option<ToeId> {
        let is_toe = words[0] as u8 == TOE;
        is_toe.then(|| ToeEvent::delivered_to(words)).flatten()
    }

    /// `None` for words that no device of ours writes.
    fn from_words(words: &[u64; RECV_WORDS]) -> Option<RecvDescriptor> {
        let context = Some(words[1] as u32).filter(|id| *id != ContextId::NONE);
        let context = context.map(ContextId);
        let high = (words[1] >> 32) as u32;
        Some(match words[0] as u8 {
            PACKET => RecvDescriptor::Packet(Packet {
                buffer: Slice::from_words([words[2], words[3]]),
                header_len: (words[0] >> 16) as u16,
                payload_len: high,
                segments: (words[0] >> 32) as u16,
                context,
                processed: Processed(((words[0] >> 8) as u8) >> PROCESSED_BITS),
                placed: (words[0] >> 48) as u16,
                checksum_ok: words[0] >> 8 & 1 != 0,
                notes: (words[4] >> 32) as u8,
                hash: words[4] as u32,
            }),
            PLACED => RecvDescriptor::Placed {
                at: high,
                slice: Slice::from_words([words[2], words[3]]),
                tag: words[1] as u16,
            },
            NOTES => {
                let mut notes = [Note::default(); NOTES_PER_DESCRIPTOR];
                for (note, pair) in notes.iter_mut().zip(words[1..].chunks_exact(2)) {
                    *note = Note {
                        at: pair[0] as u32,
                        code: (pair[0] >> 32) as u32,
                        value: pair[1],
                    };
                }
                let count = (words[0] >> 8) as u8;
                if usize::from(count) > NOTES_PER_DESCRIPTOR {
                    return None;
                }
                RecvDescriptor::Notes { notes, count }
            }
            RESOURCE => RecvDescriptor::Resource {
                resource: ResourceId(words[1] as u16),
                error: match (words[0] >> 8) as u8 {
                    0 => None,
                    error => Some(ErrorCode::from_byte(error)?),
                },
            },
            RESYNC_REQUEST => RecvDescriptor::ResyncRequest {
                context: context?,
                tcpsn: SeqNum(high),
                inner: decode_inner(words[2]).ok()?,
            },
            COMPLETION => RecvDescriptor::Completion {
                send_index: words[2],
                context,
                tcpsn: SeqNum(high),
                error: ErrorCode::from_byte((words[0] >> 8) as u8)?,
            },
            ESTABLISHED => RecvDescriptor::Established(Established::decode(words)),
            ACCEL_ROOM => RecvDescriptor::AccelRoom(AccelRoom::decode(words)),
            SPLICE_ENDED => RecvDescriptor::SpliceEnded(SpliceEnded::decode(words)?),
            SPLICE_STATE => RecvDescriptor::SpliceState(SpliceState::decode(words)),
            TOE => RecvDescriptor::Toe(ToeEvent::decode(words)?),
            RESET => RecvDescriptor::Reset {
                epoch: words[1] as u32,
            },
            _ => return None,
        })
    }
}

fn context_word(context: Option<ContextId>) -> u64 {
    u64::from(context.map_or(ContextId::NONE, |context| context.0))
}

/// The device's side of a receive ring.
#[derive(Debug)]
pub(crate) struct RecvProducer {
    ring: Producer<RECV_WORDS>,
    wakeup_due: bool,
}

impl RecvProducer {
    /// `None` unless the ring is empty.
    pub(super) fn resume(block: &Arc<Block>, at: usize, entries: u32) -> Option<Self> {
        let ring = Producer::resume(Ring::new(Arc::clone(block), at, entries))?;
        let wakeup_due = false;
        Some(RecvProducer { ring, wakeup_due })
    }

    /// Free slots; asks the host only when fewer than `wanted` are known.
    pub(crate) fn free(&mut self, wanted: u32) -> u32 {
        self.ring.free(wanted)
    }

    /// Writes a descriptor. False when the ring is full.
    #[must_use]
    pub(crate) fn push(&mut self, descriptor: RecvDescriptor) -> bool {
        if self.ring.free(1) == 0 {
            return false;
        }
        self.ring.write(&descriptor.to_words());
        true
    }

    /// Shows all written descriptors to the host.
    pub(crate) fn publish(&mut self) {
        if self.ring.publish() && self.ring.take_wakeup() {
            self.wakeup_due = true;
        }
    }

    /// Whether the host slept when something was published, since this was asked last.
    pub(crate) fn take_wakeup(&mut self) -> bool {
        std::mem::take(&mut self.wakeup_due)
    }
}

/// The host's side of a receive ring.
#[derive(Debug)]
pub struct RecvConsumer {
    ring: Consumer<RECV_WORDS>,
}

impl RecvConsumer {
    pub(super) fn new(block: &Arc<Block>, at: usize, entries: u32) -> Self {
        RecvConsumer {
            ring: Consumer::new(Ring::new(Arc::clone(block), at, entries)),
        }
    }

    /// Takes the next descriptor; its slot goes back to the device at [`publish`](Self::publish).
    pub fn pop(&mut self) -> Option<RecvDescriptor> {
        while self.ring.available() > 0 {
            let mut words = [0; RECV_WORDS];
            self.ring.read(0, &mut words);
            self.ring.advance(1);
            if let Some(descriptor) = RecvDescriptor::from_words(&words) {
                return Some(descriptor);
            }
        }
        None
    }

    /// The connection on the device that a descriptor behind the next one speaks of, if it is known to be there and is
    /// [`ToeEvent::Delivered`]: its packet lies between the two. For whoever wants to have that connection's memory at hand.
    #[inline]
    pub fn delivered_ahead(&self) -> Option<ToeId> {
        const AHEAD: u32 = 2;
        if self.ring.known() <= AHEAD {
            return None;
        }
        let mut words = [0; 2];
        self.ring.read(AHEAD, &mut words);
        RecvDescriptor::delivered_to(&words)
    }

    /// Index of the next slot to be taken.
    pub fn taken(&self) -> u64 {
        self.ring.next()
    }

    /// Index of the next slot that the device will show: once [`taken`](Self::taken) has reached the value that this has
    /// now, all that is on the ring now has been taken.
    pub fn posted(&mut self) -> u64 {
        self.ring.next() + u64::from(self.ring.available_now())
    }

    /// Gives all slots taken back to the device.
    pub fn publish(&mut self) {
        self.ring.publish();
    }

    /// The device is gone, and all that it has shown was taken.
    pub(super) fn clear(&mut self) {
        self.ring.clear();
    }

    pub(super) fn prepare_sleep(&mut self) -> bool {
        self.ring.prepare_sleep()
    }

    pub(super) fn cancel_sleep(&mut self) {
        self.ring.cancel_sleep();
    }
}

/// The host's side of a fill ring: empty buffers for the device.
#[derive(Debug)]
pub struct FillProducer {
    ring: Producer<FILL_WORDS>,
}

impl FillProducer {
    pub(super) fn new(block: &Arc<Block>, at: usize, entries: u32) -> Self {
        FillProducer {
            ring: Producer::new(Ring::new(Arc::clone(block), at, entries)),
        }
    }

    /// Slots of the ring.
    pub fn capacity(&self) -> u32 {
        self.ring.capacity()
    }

    /// Free slots; asks the device only when fewer than `wanted` are known.
    pub fn free(&mut self, wanted: u32) -> u32 {
        self.ring.free(wanted)
    }

    /// Gives a buffer to the device. False when the ring is full.
    #[must_use]
    pub fn push(&mut self, buffer: Slice) -> bool {
        if self.ring.free(1) == 0 {
            return false;
        }
        self.ring.write(&buffer.to_words());
        true
    }

    /// Shows all buffers to the device.
    pub fn publish(&mut self) {
        self.ring.publish();
    }

    /// The device is gone: all buffers are the host's again.
    pub(super) fn clear(&mut self) {
        self.ring.clear();
    }
}

/// The device's side of a fill ring.
#[derive(Debug)]
pub(crate) struct FillConsumer {
    ring: Consumer<FILL_WORDS>,
}

impl FillConsumer {
    /// `None` unless the ring is empty.
    pub(super) fn resume(block: &Arc<Block>, at: usize, entries: u32) -> Option<Self> {
        let ring = Consumer::resume(Ring::new(Arc::clone(block), at, entries))?;
        Some(FillConsumer { ring })
    }

    /// Takes a buffer, unchecked: its region and bounds are whatever the host wrote.
    pub(crate) fn pop(&mut self) -> Option<Slice> {
        if self.ring.available() == 0 {
            return None;
        }
        let mut words = [0; FILL_WORDS];
        self.ring.read(0, &mut words);
        self.ring.advance(1);
        Some(Slice::from_words(words))
    }

    /// Gives the slots taken back to the host.
    pub(crate) fn publish(&mut self) {
        self.ring.publish();
    }
}
