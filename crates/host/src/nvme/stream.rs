//! The PDUs of one socket.

use std::collections::VecDeque;

use l5p::pdus::{Reader, Resync, Writer};
use nic::ring::{ContextId, Slice};
use wire::SeqNum;
use wire::nvme::{FatalError, Framing, Phase, Role};

use super::buffers::Tags;
use super::strays::Strays;
use super::{Destination, Negotiated, NvmeOffload};
use crate::layer5::Spans;

/// Both directions of a connection that carries PDUs.
#[derive(Debug)]
pub(crate) struct PduStream {
    /// Which side this is.
    pub(super) role: Role,
    pub(super) reader: Reader<Framing>,
    /// The rules for what is sent.
    pub(super) outgoing: Framing,
    /// PDUs that were sent through a context of the NIC's and are not acknowledged wholly.
    pub(super) writer: Writer,
    /// Under TLS, the records of those PDUs.
    pub spans: Spans,
    /// Up to where software has made digests that the NIC was to make, so that records may be encrypted by software too.
    pub(super) digested: SeqNum,
    /// The context that makes digests from now on.
    pub(super) transmit: Option<ContextId>,
    /// Contexts of earlier PDUs, each with the position after its last one.
    pub(super) former: VecDeque<(ContextId, SeqNum)>,
    pub(super) target: Target,
    /// The context that places data and checks digests.
    pub receive: Option<ContextId>,
    /// What that is asked for.
    pub(super) offload: NvmeOffload,
    /// Buffers are mapped to tags below this.
    pub(super) commands: u16,
    pub(super) tags: Tags,
    /// What the NIC has written for nothing.
    pub(super) strays: Strays,
    pub(super) resync: Resync,
    /// Questions of the NIC's that are not answered.
    pub(super) questions: u32,
    /// What the TermReq says whose data is coming.
    pub(super) terminated: Option<FatalError>,
}

impl PduStream {
    /// A stream whose first PDU to be received begins at `start`.
    pub fn new(role: Role, start: SeqNum) -> Self {
        Self {
            role,
            reader: Reader::new(Framing::initializing(role.peer()), start),
            outgoing: Framing::initializing(role),
            writer: Writer::new(0),
            spans: Spans::default(),
            digested: SeqNum(0),
            transmit: None,
            former: VecDeque::new(),
            target: Target::default(),
            receive: None,
            offload: NvmeOffload::NONE,
            commands: 0,
            tags: Tags::default(),
            strays: Strays::default(),
            resync: Resync::new(start, 0),
            questions: 0,
            terminated: None,
        }
    }

    /// Whether the next byte received begins a PDU.
    pub fn is_at_boundary(&self) -> bool {
        self.reader.is_at_boundary()
    }

    /// Goes over to what was agreed on.
    pub fn negotiated(&mut self, agreed: &Negotiated) {
        let framing = |sender| Framing {
            sender,
            phase: Phase::Established,
            header_digest: agreed.digests.header,
            data_digest: agreed.digests.data,
            alignment: match sender {
                Role::Host => agreed.cpda,
                Role::Controller => agreed.hpda,
            },
            max_pdu: agreed.max_pdu,
        };
        self.offload = agreed.offload;
        self.commands = agreed.commands;
        self.reader.negotiated(framing(self.role.peer()));
        // How much of a PDU the peer accepts is for whoever makes PDUs to heed.
        self.outgoing = Framing {
            max_pdu: u32::MAX,
            ..framing(self.role)
        };
    }
}

/// Where the data of the PDU in progress goes. It is asked for its bytes in order.
#[derive(Debug, Default)]
pub(super) struct Target {
    kind: Kind,
    slices: Vec<Slice>,
    /// The slice that the next byte belongs into, and where in it.
    next: (usize, u32),
    pub inline: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    #[default]
    Discard,
    Slices,
    Inline,
}

impl Target {
    /// Begins with a PDU's data. False when there is less room than data.
    pub fn begin(&mut self, destination: Destination<'_>, data_len: u32) -> bool {
        self.slices.clear();
        self.inline.clear();
        self.next = (0, 0);
        self.kind = match destination {
            Destination::Nothing | Destination::Discard => Kind::Discard,
            Destination::Inline => Kind::Inline,
            Destination::Slices(slices) => {
                self.slices.extend_from_slice(slices);
                let room: u64 = slices.iter().map(|slice| u64::from(slice.len)).sum();
                if room < u64::from(data_len) {
                    return false;
                }
                Kind::Slices
            }
        };
        true
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Where the next bytes belong that lie together, at most `most`.
    #[inline]
    pub fn room(&mut self, most: u32) -> Option<Slice> {
        let (mut index, mut offset) = self.next;
        while offset == self.slices.get(index)?.len {
            (index, offset) = (index + 1, 0);
        }
        self.next = (index, offset);
        let slice = self.slices[index];
        Some(Slice {
            offset: slice.offset + u64::from(offset),
            len: (slice.len - offset).min(most),
            ..slice
        })
    }

    /// So many bytes of the [room](Self::room) are filled.
    #[inline]
    pub fn fill(&mut self, len: u32) {
        self.next.1 += len;
    }

    /// The slices of what was received, from byte `from` on.
    pub fn slices_from(&self, from: u32, data_len: u32) -> impl Iterator<Item = Slice> + '_ {
        let mut skip = from;
        let mut left = data_len - from;
        self.slices.iter().filter_map(move |slice| {
            let skipped = skip.min(slice.len);
            skip -= skipped;
            let len = (slice.len - skipped).min(left);
            left -= len;
            (len > 0).then_some(Slice {
                offset: slice.offset + u64::from(skipped),
                len,
                ..*slice
            })
        })
    }
}
