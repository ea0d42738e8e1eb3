//! Descriptors that are not packets.

use l5p::{Layers, ProtocolId, ResourceId};
use nic::ring::accel::{Splice, SpliceId};
use nic::ring::{ContextId, Direction, InnerPlace, SendDescriptor, Slice};
use wire::{FlowKey, SeqNum};

/// Where the NIC asks for a message: a place in the outermost stream, and with `inner` a byte of the content of the message there.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The place in the outermost stream.
    pub tcpsn: SeqNum,
    /// The byte of the content.
    pub inner: Option<InnerPlace>,
}

/// A command, which waits when the ring is full.
#[derive(Debug)]
pub enum Command {
    /// `l5o_create` (Autonomous NIC offloads, Listing 1).
    Create {
        /// Its id.
        context: ContextId,
        /// Which way its packets go.
        direction: Direction,
        /// Their flow.
        flow: FlowKey,
        /// Where its first message begins.
        tcpsn: SeqNum,
        /// Its protocols.
        layers: Layers,
    },
    /// `l5o_destroy`.
    Destroy(ContextId),
    /// `l5o_resync_rx_resp`: a message of this index begins there, or none does.
    Resync {
        /// The context that asked.
        context: ContextId,
        /// Where it asked for a message.
        place: Place,
        /// The message's index.
        index: Option<u64>,
    },
    /// `l5o_add_rr_state`, of memory in one piece.
    AddRr(ContextId, u16, Slice),
    /// `l5o_del_rr_state`.
    DelRr(ContextId, u16),
    /// Make what contexts of a protocol share of these bytes.
    Load {
        /// Its id.
        resource: ResourceId,
        /// The protocol.
        protocol: ProtocolId,
        /// What it is made of.
        bytes: Slice,
    },
    /// Give up what contexts shared.
    Unload(ResourceId),
    /// Join two connections.
    Splice(Box<Splice>),
    /// Give both back.
    Unsplice(SpliceId),
    /// Take a frame that came up after its flow had been given away.
    Reinject {
        /// The frame.
        frame: Slice,
        /// Payload bytes of each packet that it was on the wire, if it was several.
        gso_size: u16,
    },
}

impl Command {
    /// What is posted for it.
    pub(crate) fn descriptor(&self) -> SendDescriptor<'_> {
        match self {
            Command::Create {
                context,
                direction,
                flow,
                tcpsn,
                layers,
            } => SendDescriptor::CreateContext {
                context: *context,
                direction: *direction,
                flow: *flow,
                tcpsn: *tcpsn,
                layers,
            },
            Command::Destroy(context) => SendDescriptor::DestroyContext { context: *context },
            Command::Resync {
                context,
                place,
                index,
            } => SendDescriptor::ResyncResponse {
                context: *context,
                tcpsn: place.tcpsn,
                inner: place.inner,
                confirmed: index.is_some(),
                index: index.unwrap_or(0),
            },
            Command::AddRr(context, tag, slice) => SendDescriptor::AddRrState {
                context: *context,
                tag: *tag,
                slices: std::slice::from_ref(slice),
            },
            Command::DelRr(context, tag) => SendDescriptor::DelRrState {
                context: *context,
                tag: *tag,
            },
            Command::Load {
                resource,
                protocol,
                bytes,
            } => SendDescriptor::LoadResource {
                resource: *resource,
                protocol: *protocol,
                bytes: *bytes,
            },
            Command::Unload(resource) => SendDescriptor::UnloadResource {
                resource: *resource,
            },
            Command::Splice(splice) => SendDescriptor::Splice(splice),
            Command::Unsplice(splice) => SendDescriptor::Unsplice { splice: *splice },
            Command::Reinject { frame, gso_size } => SendDescriptor::Reinject {
                frame: *frame,
                gso_size: *gso_size,
            },
        }
    }
}
