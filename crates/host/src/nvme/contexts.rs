//! The NIC's contexts for a stream of PDUs without TLS.

use l5p::MsgState;
use l5p::nvme::Parameters;
use l5p::pdus::Resync;
use nic::ring::{ContextId, Direction};
use wire::nvme::{Framing, Role};
use wire::{FlowKey, SeqNum};

use super::{Negotiated, PduStream};
use crate::SocketId;
use crate::driver::{Driver, Layers, MessageSource};
use crate::socket::Stream;
use crate::stack::Core;
use crate::tls::{Outgoing, Session};

impl PduStream {
    /// Asks the NIC to make data digests from the PDU at `start` on, which is the next to be sent.
    pub fn begin_transmit(
        &mut self,
        id: SocketId,
        flow: FlowKey,
        start: SeqNum,
        agreed: &Negotiated,
        core: &mut Core,
    ) {
        if !agreed.digests.data || !agreed.offload.transmit_digest {
            return;
        }
        let layers = Layers::Nvme(parameters(&self.outgoing, agreed));
        self.transmit = core
            .driver
            .l5o_create(id, Direction::Transmit, flow, start, layers, None);
        if self.transmit.is_none() {
            core.counters.nvme_context_refused += 1;
        }
    }

    /// Asks the NIC to place data and to check digests from the next PDU on, which TCP brings at the reader's position.
    pub fn begin_receive(
        &mut self,
        id: SocketId,
        flow: FlowKey,
        agreed: &Negotiated,
        core: &mut Core,
    ) {
        let Some(parameters) = self.receive_parameters(agreed) else {
            return;
        };
        let (position, index) = self.reader.position();
        self.resync = Resync::new(position, index);
        let layers = Layers::Nvme(parameters);
        let flow = flow.reversed();
        self.receive = core
            .driver
            .l5o_create(id, Direction::Receive, flow, position, layers, None);
        if self.receive.is_none() {
            core.counters.nvme_context_refused += 1;
        }
    }

    /// What a receive context is told, if it has anything to do.
    fn receive_parameters(&self, agreed: &Negotiated) -> Option<Parameters> {
        let digests = agreed.offload.receive_digest && agreed.digests.data;
        if !agreed.offload.placement && !digests {
            return None;
        }
        let mut parameters = parameters(self.reader.framing(), agreed);
        if !agreed.offload.placement {
            parameters.commands = 0;
        }
        Some(parameters)
    }

    /// `l5o_resync_rx_req` (Autonomous NIC offloads, Listing 2): does a PDU begin there? The answer follows by `l5o_resync_rx_resp` once the
    /// stream has come so far.
    pub fn l5o_resync_rx_req(
        &mut self,
        context: ContextId,
        (tcpsn, inner): (SeqNum, Option<u32>),
        driver: &mut Driver,
    ) {
        self.questions += 1;
        self.resync.request(tcpsn, inner);
        self.answer_resyncs(context, driver);
    }

    /// Hands on what has been found out.
    #[inline]
    pub fn answer_resyncs(&mut self, context: ContextId, driver: &mut Driver) {
        while self.questions > 0
            && let Some(answer) = self.resync.poll_answer()
        {
            self.questions -= 1;
            driver.l5o_resync_rx_resp(context, answer.tcpsn, answer.inner, answer.index);
        }
    }

    /// As [`begin_transmit`](Self::begin_transmit), for PDUs in the records of `session`, from the next record on.
    pub fn begin_transmit_in(
        &mut self,
        session: &mut Session,
        agreed: &Negotiated,
        out: &mut Outgoing<'_>,
    ) {
        if agreed.digests.data && agreed.offload.transmit_digest {
            session.transmit_pdus(parameters(&self.outgoing, agreed), out);
        }
    }

    /// As [`begin_receive`](Self::begin_receive), for PDUs in the records of `session`.
    pub fn begin_receive_in(
        &mut self,
        session: &mut Session,
        stream: &Stream,
        agreed: &Negotiated,
        out: &mut Outgoing<'_>,
    ) {
        if let Some(parameters) = self.receive_parameters(agreed) {
            let (position, index) = self.reader.position();
            self.resync = Resync::new(position, index);
            session.receive_pdus(parameters, session.next_record(stream), out);
        }
    }

    /// TCP has acknowledged everything before `una`: gives up to where payload is no longer needed, and lets contexts go
    /// whose PDUs are all acknowledged.
    #[inline]
    pub fn acknowledged(&mut self, una: SeqNum, driver: &mut Driver) -> SeqNum {
        if self.writer.is_empty() && self.former.is_empty() {
            return una;
        }
        let point = self.writer.release_point(una);
        self.writer.acknowledged(una);
        while let Some(&(context, end)) = self.former.front()
            && end.at_or_before(una)
        {
            driver.l5o_destroy(context);
            self.former.pop_front();
        }
        point
    }

    /// The contexts that it has now, of both directions.
    pub fn contexts(&self) -> impl Iterator<Item = ContextId> + use<> {
        self.transmit.into_iter().chain(self.receive)
    }

    /// The contexts that what is not acknowledged was framed for.
    pub fn transmit_contexts(&self) -> impl Iterator<Item = ContextId> + '_ {
        let former = self.former.iter().map(|(context, _)| *context);
        former.chain(self.transmit)
    }

    /// The NIC has refused a context or something that it was to do. What is queued up to `end` was meant for it.
    pub fn context_failed(&mut self, context: ContextId, end: SeqNum, driver: &mut Driver) {
        if self.transmit == Some(context) {
            self.transmit = None;
            self.former.push_back((context, end));
        } else if self.receive == Some(context) {
            self.receive = None;
            self.questions = 0;
            driver.l5o_destroy(context);
        }
    }

    /// Gives everything up that the NIC has of the stream.
    pub fn dismantle(&mut self, driver: &mut Driver) {
        let former = self.former.drain(..).map(|(context, _)| context);
        for context in former
            .chain(self.transmit.take())
            .chain(self.receive.take())
        {
            driver.l5o_destroy(context);
        }
        self.tags.dismantle(driver);
    }
}

impl MessageSource for PduStream {
    fn l5o_get_tx_msgstate(&self, tcpsn: SeqNum) -> Option<MsgState> {
        self.writer.message_state(tcpsn)
    }
}

/// What a context is told of one direction.
pub(super) fn parameters(framing: &Framing, agreed: &Negotiated) -> Parameters {
    Parameters {
        sender: framing.sender,
        header_digest: framing.header_digest,
        data_digest: framing.data_digest,
        alignment: match framing.sender {
            Role::Host => agreed.cpda,
            Role::Controller => agreed.hpda,
        },
        max_pdu: framing.max_pdu,
        commands: agreed.commands,
    }
}
