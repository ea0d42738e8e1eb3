//! The NIC's contexts for a stream of PDUs without TLS.

use l5p::nvme::Parameters;
use l5p::pdus::Resync;
use l5p::{Layers, MsgState};
use nic::ring::{ContextId, Direction, InnerPlace};
use tcp::SendQueue;
use wire::nvme::{Framing, Role};
use wire::{FlowKey, SeqNum};

use super::{Negotiated, PduStream};
use crate::SocketId;
use crate::counters::Counters;
use crate::driver::{Driver, Payload};
use crate::layer5::{Fallback, Place, Session};
use crate::socket::Stream;
use crate::stack::Core;
use crate::tls::{self, Outgoing};

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
        let layers = Layers::of(&parameters(&self.outgoing, agreed));
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
        let layers = Layers::of(&parameters);
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

    /// Hands on what has been found out.
    #[inline]
    pub fn answer_resyncs(&mut self, context: ContextId, driver: &mut Driver) {
        while self.questions > 0
            && let Some(answer) = self.resync.poll_answer()
        {
            self.questions -= 1;
            let inner = answer.inner.map(|offset| InnerPlace { layer: 1, offset });
            let place = Place {
                tcpsn: answer.tcpsn,
                inner,
            };
            driver.l5o_resync_rx_resp(context, place, answer.index);
        }
    }

    /// As [`begin_transmit`](Self::begin_transmit), for PDUs in the records of `session`, from the next record on.
    pub fn begin_transmit_in(
        &mut self,
        session: &mut tls::Session,
        agreed: &Negotiated,
        out: &mut Outgoing<'_>,
    ) {
        if agreed.digests.data && agreed.offload.transmit_digest {
            let parameters = parameters(&self.outgoing, agreed);
            session.transmit_inside(Layers::of(&parameters), out);
        }
    }

    /// As [`begin_receive`](Self::begin_receive), for PDUs in the records of `session`.
    pub fn begin_receive_in(
        &mut self,
        session: &mut tls::Session,
        stream: &Stream,
        agreed: &Negotiated,
        out: &mut Outgoing<'_>,
    ) {
        if let Some(parameters) = self.receive_parameters(agreed) {
            let (position, index) = self.reader.position();
            self.resync = Resync::new(position, index);
            let next = session.next_record(stream);
            session.receive_inside(Layers::of(&parameters), next, out);
        }
    }

    /// TCP needs nothing before `point` for the records that the PDUs are in: gives up to where payload is no longer needed for the PDU
    /// either that is not wholly acknowledged.
    #[inline]
    pub fn acknowledged_inside(&mut self, point: SeqNum) -> SeqNum {
        if self.spans.is_empty() {
            return point;
        }
        let position = self.spans.position_from(point);
        let needed = self.writer.release_point(position);
        let point = match needed == position {
            true => point,
            false => self
                .spans
                .holding(needed)
                .map_or(point, |span| span.message.min(point)),
        };
        self.writer.acknowledged(position);
        self.spans.forget_before(needed);
        point
    }
}

impl Session for PduStream {
    fn l5o_get_tx_msgstate(&self, position: SeqNum) -> Option<MsgState> {
        self.writer.message_state(position)
    }

    #[inline]
    fn acknowledged(&mut self, una: SeqNum, driver: &mut Driver) -> SeqNum {
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

    fn contexts(&self) -> [Option<ContextId>; 2] {
        [self.transmit, self.receive]
    }

    fn transmit_contexts(&self, each: &mut dyn FnMut(ContextId)) {
        let former = self.former.iter().map(|(context, _)| *context);
        former.chain(self.transmit).for_each(each);
    }

    fn l5o_resync_rx_req(
        &mut self,
        context: ContextId,
        place: Place,
        driver: &mut Driver,
        counters: &mut Counters,
    ) {
        counters.nvme_rx_device_resync += 1;
        self.questions += 1;
        let inner = place.inner.map(|inner| inner.offset);
        self.resync.request(place.tcpsn, inner);
        self.answer_resyncs(context, driver);
    }

    fn context_failed(
        &mut self,
        context: ContextId,
        end: SeqNum,
        driver: &mut Driver,
        _: &mut Counters,
    ) {
        if self.transmit == Some(context) {
            self.transmit = None;
            self.former.push_back((context, end));
        } else if self.receive == Some(context) {
            self.receive = None;
            self.questions = 0;
            driver.l5o_destroy(context);
        }
    }

    fn transform_in_software(
        &mut self,
        context: ContextId,
        tcpsn: SeqNum,
        send: &mut SendQueue<Payload>,
        driver: &mut Driver,
        counters: &mut Counters,
    ) -> Fallback {
        self.digest_in_software(context, tcpsn, send, driver, counters)
    }

    fn dismantle(&mut self, driver: &mut Driver, _: &mut Counters) {
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
