//! The send ring: packets and commands to the device, in one order (Autonomous NIC offloads §4.1).
//!
//! A slot is 192 bytes: 64 of descriptor, and 128 in which the host writes the packet's headers, or
//! what a command carries. Slices that do not fit follow in continuation slots.
//!
//! [`layout`] has the fields.

mod producer;

use l5p::{ProtocolId, ResourceId};

use super::accel::{InstallListener, ListenRuleId, Splice, SpliceId, Teardown};
use super::context::{CreateContext, RecoverContext, ResyncResponse};
use super::filter::MulticastFilter;
use super::layout::{self, ContextId};
use super::region::Slice;
use super::toe::ToeCommand;

pub use producer::SendProducer;
pub(super) use producer::byte_count;

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
    pub const CHECKSUM: SendFlags = SendFlags(layout::Send::CHECKSUM);
    /// The payload's memory may change under the device (a mapped file). It writes each message's
    /// integrity value back into the host's dummy field when it first sends it, and refuses to send bytes a second time
    /// unless a [`SendDescriptor::RecoverContext`] has verified them.
    pub const MUTABLE_SOURCE: SendFlags = SendFlags(layout::Send::MUTABLE_SOURCE);

    /// Both.
    pub const fn union(self, other: SendFlags) -> SendFlags {
        SendFlags(self.0 | other.0)
    }

    /// Whether all of `other` is set.
    pub const fn contains(self, other: SendFlags) -> bool {
        self.0 & other.0 == other.0
    }
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
    /// `l5o_create` (Autonomous NIC offloads, Listing 1).
    CreateContext(&'a CreateContext),
    /// `l5o_destroy`.
    DestroyContext {
        /// The context.
        context: ContextId,
    },
    /// Brings a transmit context to where the next `Send` of it begins (Autonomous NIC offloads §4.2); on the
    /// [command ring](super::HostQueue::commands) to where a connection that the device runs is to send next.
    RecoverContext {
        /// Where to.
        recover: RecoverContext,
        /// The message from its [`start`](RecoverContext::start) up to [`resume`](RecoverContext::resume), or further as
        /// [`verify`](RecoverContext::verify) says. With [`inner`](RecoverContext::inner), the first
        /// [`offset`](super::InnerRecover::offset) bytes of the PDU come before it.
        prefix: &'a [Slice],
    },
    /// `l5o_add_rr_state` (Autonomous NIC offloads, Listing 1): data of messages that name `tag` go into this buffer. An error
    /// completion when the tag is mapped already, is not below the context's number of commands, or the memory is not
    /// registered for writing.
    ///
    /// Each byte of the buffer is written at most once; what comes for it again stays in the packet.
    AddRrState {
        /// A receive context that places.
        context: ContextId,
        /// The protocol's name for the request: a CID towards an NVMe/TCP host, a TTAG towards a controller.
        tag: u16,
        /// The buffer, in order; 1 to [`MAX_RR_SLICES`](super::MAX_RR_SLICES) slices, less than 4 GiB in all.
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
    /// Makes something that contexts of a protocol are to share ([`l5p::Resource`]) of bytes that the device reads at once. What became of
    /// it is reported by [`RecvDescriptor::Resource`](super::RecvDescriptor::Resource), on the first queue's ring; a refusal without
    /// that has the resource's number as its `tcpsn`.
    LoadResource {
        /// The host's number for it, which is not in use.
        resource: ResourceId,
        /// The protocol.
        protocol: ProtocolId,
        /// At most [`MAX_RESOURCE`](l5p::MAX_RESOURCE) bytes.
        bytes: Slice,
    },
    /// Gives a resource up. Contexts that have it keep it, and its bytes count until they have ended.
    UnloadResource {
        /// Its number, which is free then.
        resource: ResourceId,
    },
    /// Sets how received packets are hashed and spread ([`RssSettings`](super::RssSettings)): what has come before is on the
    /// receive rings that it was spread to.
    SetRss {
        /// [`RSS_BYTES`](super::RSS_BYTES) of memory, which the device reads once.
        settings: Slice,
    },
    /// Has the device write how received packets are hashed and spread.
    QueryRss {
        /// [`RSS_BYTES`](super::RSS_BYTES) of writable memory.
        into: Slice,
    },
    /// Sets which multicast frames the function receives. It holds for frames that come later.
    SetFilter(&'a MulticastFilter),
    /// `l5o_resync_rx_resp`: the answer to a `ResyncRequest`.
    ResyncResponse(ResyncResponse),
    /// From now on the device answers SYNs to this listener with cookies, and hands up the connections of which one comes
    /// back ([`RecvDescriptor::Established`](super::RecvDescriptor::Established)). A refusal's `tcpsn` is the rule's number.
    InstallListener(&'a InstallListener),
    /// From now on it does not; cookies that are still about are not recognised.
    RemoveListener {
        /// The rule.
        rule: ListenRuleId,
    },
    /// Connections that were handed up wait no longer: accepted, ended, or nothing new.
    ListenerCredit {
        /// The rule that they came by.
        rule: ListenRuleId,
        /// How many.
        credits: u32,
    },
    /// Hands a connection that its application has closed over to the device, with all that is still to be sent; FIN
    /// follows it. Its memory has been copied once this descriptor is [completed](SendProducer::completed). The flow is the
    /// device's then, unless an error completion says otherwise, which is on the receive ring by then. A refusal's
    /// `tcpsn` is the [ticket](Teardown::ticket).
    Teardown {
        /// The connection.
        teardown: &'a Teardown,
        /// What is neither acknowledged nor else gone, from [`snd_una`](Teardown::snd_una) on:
        /// [`payload_limit`](Teardown::payload_limit) bytes at most.
        payload: &'a [Slice],
    },
    /// Joins two connections whose buffers are drained: what comes on one goes out on the other. A refusal's `tcpsn` is the
    /// splice's number.
    Splice(&'a Splice),
    /// Takes a splice back: no new data is forwarded, and once all that was is acknowledged on both sides,
    /// [`SpliceEnded`](super::RecvDescriptor::SpliceEnded) and both legs' [state](super::RecvDescriptor::SpliceState) come up.
    Unsplice {
        /// The splice.
        splice: SpliceId,
    },
    /// Asks where a splice stands, which goes on: both legs' [state](super::RecvDescriptor::SpliceState) comes up. There is no answer when the
    /// receive ring has no room for it (`TableFull`).
    QuerySplice {
        /// The splice.
        splice: SpliceId,
    },
    /// A received frame that reached the host after it had given the frame's flow away. The device takes it as if it came
    /// from the wire just now.
    Reinject {
        /// The frame, from its Ethernet header on.
        frame: Slice,
        /// Payload bytes of each packet on the wire, when it stands for several; else 0.
        gso_size: u16,
    },
    /// A command for a connection that the device runs, or is to run. It belongs on the
    /// [command ring](super::HostQueue::commands).
    Toe(ToeCommand<'a>),
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
