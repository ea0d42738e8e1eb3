//! The PDUs of one socket.

use std::any::Any;
use std::fmt::Debug;

use l5p::pdus::{Layout, PduProtocol, Reader, Resync, Writer};
use l5p::{HostEvent, ProtocolId};
use nic::ring::ContextId;
use wire::SeqNum;

use super::Framings;
use super::buffers::Tags;
use super::strays::Strays;
use super::target::Target;
use crate::SocketError;
use crate::counters::Counters;
use crate::layer5::{Spans, TransmitContexts};

/// Both directions of a connection that carries PDUs.
#[derive(Debug)]
pub(crate) struct PduStream {
    pub(super) protocol: ProtocolId,
    /// A [`Framed`] of that protocol.
    framed: Box<dyn AnyFramed>,
    pub sending: Sending,
    pub(super) receiving: Receiving,
}

/// What depends on the protocol.
#[derive(Debug)]
pub(crate) struct Framed<P: PduProtocol> {
    pub reader: Reader<P>,
    /// The rules for what is sent.
    pub outgoing: P,
    /// What the peer says by the PDU whose data is coming, with which it ends the connection.
    pub terminated: Option<P::Error>,
}

/// [`Framed`] of any protocol.
pub(super) trait AnyFramed: Any + Debug + Send {
    /// Where the parts of a PDU are that was sent, by its first bytes, which hold its header. `None` when they do not.
    fn layout_of_sent(&self, front: &[u8]) -> Option<Layout>;
}

impl<P: PduProtocol> AnyFramed for Framed<P> {
    fn layout_of_sent(&self, front: &[u8]) -> Option<Layout> {
        let prelude = self.outgoing.begin(front.get(..P::PRELUDE_LEN)?).ok()?;
        let header = front.get(..self.outgoing.header_len(&prelude))?;
        let (_, layout) = self.outgoing.parse(&prelude, header).ok()?;
        Some(layout)
    }
}

/// What is sent and not yet acknowledged.
#[derive(Debug)]
pub(crate) struct Sending {
    /// PDUs that were sent through a context of the NIC's and are not acknowledged wholly.
    pub writer: Writer,
    /// Inside another protocol, the messages of that one which these PDUs are in.
    pub spans: Spans,
    /// The number of the first PDU whose digest is still up to the NIC: software has made those before, so that records may be encrypted by
    /// software too.
    pub digested: u64,
    /// The contexts that make digests.
    pub contexts: TransmitContexts,
}

/// What is known of the stream that comes in.
#[derive(Debug)]
pub(crate) struct Receiving {
    pub(super) target: Target,
    /// The context that places data and checks digests.
    pub context: Option<ContextId>,
    /// That one's word on data digests is taken.
    pub checks_digests: bool,
    /// Buffers are mapped to tags below this.
    pub tag_limit: u16,
    pub tags: Tags,
    /// What the NIC has written for nothing.
    pub strays: Strays,
    pub resync: Resync,
    /// Questions of the NIC's that are not answered.
    pub questions: u32,
    /// The context that has asked them.
    pub asking: Option<ContextId>,
}

/// What calls are told that name another protocol than the socket carries.
const OTHER_PROTOCOL: SocketError =
    SocketError::Unsupported("the socket carries PDUs of another protocol");

impl PduStream {
    /// A stream whose first PDU to be received begins at `start`.
    pub fn new<P: PduProtocol>(framings: Framings<P>, start: SeqNum) -> Self {
        Self {
            protocol: P::ID,
            framed: Box::new(Framed {
                reader: Reader::new(framings.incoming, start),
                outgoing: framings.outgoing,
                terminated: None,
            }),
            sending: Sending {
                writer: Writer::new(0),
                spans: Spans::default(),
                digested: 0,
                contexts: TransmitContexts::default(),
            },
            receiving: Receiving {
                target: Target::default(),
                context: None,
                checks_digests: false,
                tag_limit: 0,
                tags: Tags::default(),
                strays: Strays::default(),
                resync: Resync::new(start, 0),
                questions: 0,
                asking: None,
            },
        }
    }

    /// Counts an event of its protocol.
    #[inline]
    pub fn count(&self, event: HostEvent, counters: &mut Counters) {
        counters.protocols.add(self.protocol, event, 1);
    }

    /// Where the PDUs to be sent lie in the messages of the protocol around them.
    pub fn spans(&self) -> &Spans {
        &self.sending.spans
    }

    /// Where the parts of a PDU are that was sent, by its first bytes.
    pub(super) fn layout_of_sent(&self, front: &[u8]) -> Option<Layout> {
        self.framed.layout_of_sent(front)
    }

    /// The rules for what is sent.
    ///
    /// # Errors
    /// When the stream is of another protocol.
    pub fn outgoing<P: PduProtocol>(&self) -> Result<&P, SocketError> {
        let framed: &dyn Any = &*self.framed;
        let framed: &Framed<P> = framed.downcast_ref().ok_or(OTHER_PROTOCOL)?;
        Ok(&framed.outgoing)
    }

    /// What depends on the protocol, and what is received.
    ///
    /// # Errors
    /// When the stream is of another protocol.
    pub fn receiving_parts<P: PduProtocol>(
        &mut self,
    ) -> Result<(&mut Framed<P>, &mut Receiving), SocketError> {
        let framed: &mut dyn Any = &mut *self.framed;
        let framed = framed.downcast_mut().ok_or(OTHER_PROTOCOL)?;
        Ok((framed, &mut self.receiving))
    }

    /// Other rules hold from the next PDU of each direction on. Gives the position and the number of the next one to be received.
    ///
    /// # Errors
    /// When the stream is of another protocol, or a PDU is half received.
    pub fn negotiated<P: PduProtocol>(
        &mut self,
        framings: Framings<P>,
        checks_digests: bool,
        tags: u16,
    ) -> Result<(SeqNum, u64), SocketError> {
        let (framed, receiving) = self.receiving_parts::<P>()?;
        if !framed.reader.is_at_boundary() {
            return Err(SocketError::Unsupported(
                "a PDU is half received: what was agreed on must be told between two PDUs",
            ));
        }
        framed.reader.negotiated(framings.incoming);
        framed.outgoing = framings.outgoing;
        receiving.checks_digests = checks_digests;
        receiving.tag_limit = tags;
        Ok(framed.reader.position())
    }

    /// From PDU number `index` on, which begins at `position`, the NIC may ask where PDUs begin.
    pub fn expect_resyncs(&mut self, position: SeqNum, index: u64) {
        self.receiving.resync = Resync::new(position, index);
        self.receiving.questions = 0;
    }
}
