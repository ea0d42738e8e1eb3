//! The send ring: packets and commands to the device, in one order (seed 000 §4.1).
//!
//! A slot is 192 bytes: 64 of descriptor, and 128 in which the host writes the packet's headers, or
//! what a command carries. Slices that do not fit follow in continuation slots.
//!
//! ```text
//! word  Send                         RecoverContext           CreateContext          ResyncResponse   AddRrState
//! 0     opcode|flags|header|slices   the same in all: see `Head`
//! 1     context | payload bytes      context | message bytes  context | tcpsn        context | tcpsn  context | tag
//! 2     slices (3 × 2 words)         message index            source address         message index    slices (11 × 2 words)
//! 3                                  message tcpsn | resume   …                      inner offset
//! 4                                  slices (9 × 2 words)     destination address
//! 6                                                           ports
//! 7                                                           TLS (64 bytes)
//! 8–23  packet headers
//! 15                                                          NVMe/TCP
//! 22                                 inner index
//! 23                                 inner len | offset
//! ```

use std::sync::Arc;

use l5p::nvme;
use l5p::tls::{CryptoInfo, Direction};
use wire::{FlowKey, SeqNum};

use super::block::Block;
use super::gather::{
    CONTINUATION_SLICES, MAX_CONTINUATIONS, MAX_RR_SLICES, RECOVER_SLICES, RR_SLICES, SEND_SLICES,
};
use super::layout::{ContextId, Head, Opcode, SLOT_WORDS, encode_flow, encode_nvme, encode_tls};
use super::region::Slice;
use super::spsc::{Producer, Ring};

/// Most bytes of packet headers in a `Send`.
pub const MAX_HEADER_LEN: usize = 128;
/// Most payload bytes of one `Send`.
pub const MAX_SEND_PAYLOAD: u32 = 1 << 18;

/// How a [`SendDescriptor::Send`] is to be treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SendFlags(pub(super) u8);

impl SendFlags {
    /// Nothing special.
    pub const NONE: SendFlags = SendFlags(0);
    /// The device fills in the TCP checksum (and for IPv4 the header's).
    pub const CHECKSUM: SendFlags = SendFlags(1);
    /// The payload's memory may change under the device (a mapped file). It writes each message's
    /// integrity value back into the host's dummy field when it first sends it, and refuses to send bytes a second time
    /// unless a [`SendDescriptor::RecoverContext`] has verified them.
    pub const MUTABLE_SOURCE: SendFlags = SendFlags(2);

    /// Both.
    pub const fn union(self, other: SendFlags) -> SendFlags {
        SendFlags(self.0 | other.0)
    }

    /// Whether all of `other` is set.
    pub const fn contains(self, other: SendFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// How a [`SendDescriptor::RecoverContext`] proves that the source is what was sent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verify {
    /// Not at all: the source is memory that only this host writes, and it has not.
    #[default]
    None,
    /// The prefix is the whole message, whose integrity value the device has written to its end when it first sent it.
    WholeMessage,
    /// The prefix is as much of the message as was ever sent; the device has kept its digest.
    Frontier,
}

/// The layer-5 protocols of a context.
#[derive(Debug, Clone, Copy)]
pub enum L5Parameters<'a> {
    /// TLS records; the next one's index is [`CryptoInfo::sequence`].
    Tls(&'a CryptoInfo),
    /// NVMe/TCP PDUs, the next one with index 0.
    Nvme(&'a nvme::Parameters),
    /// NVMe/TCP PDUs as the content of TLS records: the next record begins with a PDU (seed 000 §5.3).
    NvmeInTls(&'a CryptoInfo, &'a nvme::Parameters),
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

/// What a host posts on its send ring.
#[derive(Debug, Clone)]
pub enum SendDescriptor<'a> {
    /// A packet, or one large TCP segment to be cut.
    Send {
        /// Ethernet, IP and TCP headers, as of the first packet. At most [`MAX_HEADER_LEN`] bytes. For other
        /// packets any first part of the frame.
        header: &'a [u8],
        /// Payload bytes per packet on the wire; 0 for no segmentation.
        mss: u16,
        /// The transmit context that transforms the payload.
        context: Option<ContextId>,
        /// How to treat it.
        flags: SendFlags,
        /// The payload, in order; at most [`MAX_SEND_PAYLOAD`] bytes.
        payload: &'a [Slice],
    },
    /// `l5o_create` (seed 000, Listing 1).
    CreateContext {
        /// An id below the function's quota that is not in use.
        context: ContextId,
        /// Which way the packets go.
        direction: Direction,
        /// Source and destination as packets of this direction carry them.
        flow: FlowKey,
        /// Sequence number of the first byte of the next message.
        tcpsn: SeqNum,
        /// The protocols, and what their engines need to know.
        l5: L5Parameters<'a>,
    },
    /// `l5o_destroy`.
    DestroyContext {
        /// The context.
        context: ContextId,
    },
    /// Brings a transmit context to where the next `Send` of it begins (seed 000 §4.2).
    RecoverContext {
        /// The context.
        context: ContextId,
        /// First byte of the message that contains `resume`.
        start: SeqNum,
        /// The message's index.
        index: u64,
        /// The message's length, header and trailer included.
        len: u32,
        /// Where the next `Send` begins: `start <= resume < start + len`.
        resume: SeqNum,
        /// The message from `start` up to `resume`, or further as `verify` says. With `inner`, the first
        /// [`offset`](InnerRecover::offset) bytes of the PDU come before it.
        prefix: &'a [Slice],
        /// What to prove before anything is sent again.
        verify: Verify,
        /// For a stack of two protocols, the inner one's place.
        inner: Option<InnerRecover>,
    },
    /// `l5o_add_rr_state` (seed 000, Listing 1): data of messages that name `tag` go into this buffer. An error
    /// completion when the tag is mapped already, is not below the context's number of commands, or the memory is not
    /// registered for writing.
    ///
    /// Each byte of the buffer is written at most once; what comes for it again stays in the packet.
    AddRrState {
        /// A receive context that places.
        context: ContextId,
        /// The protocol's name for the request: a CID towards an NVMe/TCP host, a TTAG towards a controller.
        tag: u16,
        /// The buffer, in order; 1 to [`MAX_RR_SLICES`] slices, less than 4 GiB in all.
        slices: &'a [Slice],
    },
    /// `l5o_del_rr_state`: unmaps a tag, which is then free for another buffer. Once the device has
    /// [completed](SendProducer::completed) this descriptor, it writes no byte into the buffer any more, and all that it
    /// has written is named by [`Placed`](super::RecvDescriptor::Placed) descriptors that are on the receive rings.
    DelRrState {
        /// The context.
        context: ContextId,
        /// The tag.
        tag: u16,
    },
    /// `l5o_resync_rx_resp`: the answer to a `ResyncRequest`.
    ResyncResponse {
        /// The context.
        context: ContextId,
        /// The position asked about.
        tcpsn: SeqNum,
        /// As it was asked: `Some` when the question was about the inner protocol of a stack.
        inner: Option<u32>,
        /// Whether a message begins there.
        confirmed: bool,
        /// That message's index, when confirmed.
        index: u64,
    },
}

/// Why a descriptor was not posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// Wait until the device has completed some.
    #[error(
        "the send ring has {free} free slots, the descriptor takes {needed}: try again when the device has completed some"
    )]
    Full {
        /// Slots that it takes.
        needed: u32,
        /// Slots that are free.
        free: u32,
    },
    /// Send it in parts.
    #[error("a descriptor takes at most {max} slices, not {slices}: send it in parts")]
    TooManySlices {
        /// Slices given.
        slices: usize,
        /// Most for this descriptor.
        max: usize,
    },
    /// The headers belong into the payload.
    #[error("{len} bytes of packet headers, a slot has room for {MAX_HEADER_LEN}")]
    HeaderTooLong {
        /// Bytes given.
        len: usize,
    },
}

/// The host's side of a send ring.
#[derive(Debug)]
pub struct SendProducer {
    ring: Producer<SLOT_WORDS>,
}

impl SendProducer {
    pub(super) fn new(block: &Arc<Block>, at: usize, entries: u32) -> Self {
        SendProducer {
            ring: Producer::new(Ring::new(Arc::clone(block), at, entries)),
        }
    }

    /// Slots of the ring.
    pub fn capacity(&self) -> u32 {
        self.ring.capacity()
    }

    /// Free slots, as far as this side knows; it asks the device when it knows of fewer than `wanted`.
    pub fn free(&mut self, wanted: u32) -> u32 {
        self.ring.free(wanted)
    }

    /// Slots taken by a `Send` of so many slices.
    pub const fn slots_for_send(slices: usize) -> u32 {
        slots(slices, SEND_SLICES)
    }

    /// Slots taken by an `AddRrState` of so many slices.
    pub const fn slots_for_rr(slices: usize) -> u32 {
        slots(slices, RR_SLICES)
    }

    /// Slots taken by a `RecoverContext` of so many slices.
    pub const fn slots_for_recover(slices: usize) -> u32 {
        slots(slices, RECOVER_SLICES)
    }

    /// Index of the next slot to be posted: once [`completed`](Self::completed) has reached the value that this has
    /// after a descriptor was posted, the device has finished reading that descriptor's memory.
    pub fn posted(&self) -> u64 {
        self.ring.next()
    }

    /// Slots that the device has finished with.
    pub fn completed(&mut self) -> u64 {
        self.ring.completed()
    }

    /// Writes a descriptor; the device sees it after [`publish`](Self::publish). Gives the
    /// index of its first slot, which an error completion will name.
    ///
    /// # Errors
    /// When the ring has no room for all of it, or it can't be expressed. Nothing was written then.
    pub fn post(&mut self, descriptor: &SendDescriptor<'_>) -> Result<u64, PostError> {
        let mut words = [0; SLOT_WORDS];
        match *descriptor {
            SendDescriptor::Send {
                header,
                mss,
                context,
                flags,
                payload,
            } => self.post_send(header, mss, context, flags, payload),
            SendDescriptor::RecoverContext {
                context,
                start,
                index,
                len,
                resume,
                prefix,
                verify,
                inner,
            } => {
                self.check(prefix.len(), RECOVER_SLICES)?;
                words[1] = pair(context.0, len);
                words[2] = index;
                words[3] = pair(start.0, resume.0);
                let mut flags = match verify {
                    Verify::None => 0,
                    Verify::WholeMessage => 1,
                    Verify::Frontier => 2,
                };
                if let Some(inner) = inner {
                    flags |= HAS_INNER;
                    words[22] = inner.index;
                    words[23] = pair(inner.len, inner.offset);
                }
                Ok(self.write(
                    Opcode::RecoverContext,
                    flags,
                    words,
                    4,
                    RECOVER_SLICES,
                    prefix,
                ))
            }
            SendDescriptor::CreateContext {
                context,
                direction,
                flow,
                tcpsn,
                l5,
            } => {
                self.check(0, 0)?;
                words[1] = pair(context.0, tcpsn.0);
                let v6 = encode_flow(&flow, &mut words);
                let (tls, nvme) = match l5 {
                    L5Parameters::Tls(tls) => (Some(tls), None),
                    L5Parameters::Nvme(nvme) => (None, Some(nvme)),
                    L5Parameters::NvmeInTls(tls, nvme) => (Some(tls), Some(nvme)),
                };
                if let Some(tls) = tls {
                    encode_tls(tls, &mut words);
                }
                if let Some(nvme) = nvme {
                    encode_nvme(nvme, &mut words);
                }
                let flags = u8::from(direction == Direction::Receive)
                    | u8::from(v6) << 1
                    | u8::from(tls.is_some()) << 2
                    | u8::from(nvme.is_some()) << 3;
                Ok(self.write(Opcode::CreateContext, flags, words, 0, 0, &[]))
            }
            SendDescriptor::ResyncResponse {
                context,
                tcpsn,
                inner,
                confirmed,
                index,
            } => {
                self.check(0, 0)?;
                words[1] = pair(context.0, tcpsn.0);
                words[2] = index;
                words[3] = u64::from(inner.unwrap_or(0));
                Ok(self.write(
                    Opcode::ResyncResponse,
                    u8::from(confirmed) | u8::from(inner.is_some()) << 1,
                    words,
                    0,
                    0,
                    &[],
                ))
            }
            SendDescriptor::AddRrState {
                context,
                tag,
                slices,
            } => {
                if slices.len() > MAX_RR_SLICES {
                    return Err(PostError::TooManySlices {
                        slices: slices.len(),
                        max: MAX_RR_SLICES,
                    });
                }
                self.check(slices.len(), RR_SLICES)?;
                words[1] = pair(context.0, tag.into());
                Ok(self.write(Opcode::AddRrState, 0, words, 2, RR_SLICES, slices))
            }
            SendDescriptor::DelRrState { context, tag } => {
                self.check(0, 0)?;
                words[1] = pair(context.0, tag.into());
                Ok(self.write(Opcode::DelRrState, 0, words, 0, 0, &[]))
            }
            SendDescriptor::DestroyContext { context } => {
                self.check(0, 0)?;
                words[1] = u64::from(context.0);
                Ok(self.write(Opcode::DestroyContext, 0, words, 0, 0, &[]))
            }
        }
    }

    fn post_send(
        &mut self,
        header: &[u8],
        mss: u16,
        context: Option<ContextId>,
        flags: SendFlags,
        payload: &[Slice],
    ) -> Result<u64, PostError> {
        self.check(payload.len(), SEND_SLICES)?;
        if header.len() > MAX_HEADER_LEN {
            return Err(PostError::HeaderTooLong { len: header.len() });
        }
        let mut words = [0; SLOT_WORDS];
        let bytes: u64 = payload.iter().map(|slice| u64::from(slice.len)).sum();
        words[1] = pair(
            context.map_or(ContextId::NONE, |context| context.0),
            bytes.min(u64::from(u32::MAX)) as u32,
        );
        let (inline, rest) = payload.split_at(payload.len().min(SEND_SLICES));
        put_slices(&mut words[2..8], inline);
        for (word, bytes) in words[8..].iter_mut().zip(header.chunks(8)) {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_le_bytes(padded);
        }
        let head = Head {
            opcode: Opcode::Send as u8,
            flags: flags.0,
            header_len: header.len() as u8,
            slices: inline.len() as u8,
            continuations: rest.len().div_ceil(CONTINUATION_SLICES) as u8,
            mss,
        };
        words[0] = head.to_word();
        let index = self.ring.next();
        self.ring.write(&words[..8 + header.len().div_ceil(8)]);
        self.write_continuations(rest);
        Ok(index)
    }

    /// Shows everything that was posted to the device.
    pub fn publish(&mut self) -> bool {
        self.ring.publish()
    }

    /// Posts one slot as it is, whatever it means: what a broken or hostile host might do. For tests
    /// of a device.
    ///
    /// # Errors
    /// When the ring is full.
    pub fn post_raw(&mut self, words: &[u64; SLOT_WORDS]) -> Result<u64, PostError> {
        let free = self.ring.free(1);
        if free == 0 {
            return Err(PostError::Full { needed: 1, free });
        }
        let index = self.ring.next();
        self.ring.write(words);
        Ok(index)
    }

    pub(super) fn take_wakeup(&self) -> bool {
        self.ring.take_wakeup()
    }

    fn check(&mut self, slices: usize, inline: usize) -> Result<(), PostError> {
        let max = inline + MAX_CONTINUATIONS * CONTINUATION_SLICES;
        if slices > max {
            return Err(PostError::TooManySlices { slices, max });
        }
        let needed = slots(slices, inline);
        let free = self.ring.free(needed);
        if free < needed {
            return Err(PostError::Full { needed, free });
        }
        Ok(())
    }

    fn write(
        &mut self,
        opcode: Opcode,
        flags: u8,
        mut words: [u64; SLOT_WORDS],
        at: usize,
        inline: usize,
        slices: &[Slice],
    ) -> u64 {
        let (inline, rest) = slices.split_at(slices.len().min(inline));
        put_slices(&mut words[at..], inline);
        let head = Head {
            opcode: opcode as u8,
            flags,
            header_len: 0,
            slices: inline.len() as u8,
            continuations: rest.len().div_ceil(CONTINUATION_SLICES) as u8,
            mss: 0,
        };
        words[0] = head.to_word();
        let index = self.ring.next();
        self.ring.write(&words);
        self.write_continuations(rest);
        index
    }

    fn write_continuations(&mut self, slices: &[Slice]) {
        for part in slices.chunks(CONTINUATION_SLICES) {
            let mut words = [0; SLOT_WORDS];
            let head = Head {
                opcode: Opcode::Continuation as u8,
                flags: 0,
                header_len: 0,
                slices: part.len() as u8,
                continuations: 0,
                mss: 0,
            };
            words[0] = head.to_word();
            put_slices(&mut words[2..], part);
            self.ring.write(&words);
        }
    }
}

/// Flag of a `RecoverContext` that places the inner protocol too.
pub(super) const HAS_INNER: u8 = 4;

const fn slots(slices: usize, inline: usize) -> u32 {
    1 + slices.saturating_sub(inline).div_ceil(CONTINUATION_SLICES) as u32
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn put_slices(words: &mut [u64], slices: &[Slice]) {
    for (words, slice) in words.chunks_exact_mut(Slice::WORDS).zip(slices) {
        words.copy_from_slice(&slice.to_words());
    }
}
