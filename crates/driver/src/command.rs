//! Descriptors that are not packets.

use l5p::{ProtocolId, ResourceId};
use nic::ring::accel::{Splice, SpliceId};
use nic::ring::{ContextId, CreateContext, InnerPlace, ResyncResponse, SendDescriptor, Slice};
use wire::SeqNum;

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
    /// `l5o_create` (Autonomous NIC offloads, Listing 1). In a box: its keys are moved nowhere, and wiped where they are.
    Create(Box<CreateContext>),
    /// `l5o_destroy`.
    Destroy(ContextId),
    /// `l5o_resync_rx_resp`: a message begins where the NIC asked for one, or none does.
    Resync(ResyncResponse),
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
    /// Tell where they stand.
    QuerySplice(SpliceId),
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
            Command::Create(create) => SendDescriptor::CreateContext(create),
            Command::Destroy(context) => SendDescriptor::DestroyContext { context: *context },
            Command::Resync(response) => SendDescriptor::ResyncResponse(*response),
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
            Command::QuerySplice(splice) => SendDescriptor::QuerySplice { splice: *splice },
            Command::Reinject { frame, gso_size } => SendDescriptor::Reinject {
                frame: *frame,
                gso_size: *gso_size,
            },
        }
    }
}
