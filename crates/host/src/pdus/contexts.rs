//! The NIC's contexts for a stream of PDUs.

use l5p::{HostEvent, Layers, MsgState};
use nic::ring::{ContextId, Direction, InnerPlace};
use tcp::SendQueue;
use wire::{FlowKey, SeqNum};

use super::PduStream;
use crate::SocketId;
use crate::counters::Counters;
use crate::device::Device;
use crate::driver::{Driver, Payload, Place};
use crate::layer5::{Fallback, Session};

impl PduStream {
    /// Asks the NIC to make data digests from the PDU at `start` on, which is the next to be sent, where nothing is around the PDUs.
    pub fn begin_transmit(
        &mut self,
        id: SocketId,
        flow: FlowKey,
        start: SeqNum,
        layers: Layers,
        device: &mut Device,
    ) {
        self.sending.contexts.context =
            device
                .driver
                .l5o_create(id, Direction::Transmit, flow, start, layers, None);
        if self.sending.contexts.context.is_none() {
            self.count(HostEvent::ContextsRefused, &mut device.counters);
        }
    }

    /// Asks the NIC to place data and to check digests from PDU number `index` on, which TCP brings at `position`, where nothing is
    /// around the PDUs.
    pub fn begin_receive(
        &mut self,
        id: SocketId,
        flow: FlowKey,
        position: SeqNum,
        index: u64,
        layers: Layers,
        device: &mut Device,
    ) {
        self.expect_resyncs(position, index);
        let flow = flow.reversed();
        self.receiving.context =
            device
                .driver
                .l5o_create(id, Direction::Receive, flow, position, layers, None);
        if self.receiving.context.is_none() {
            self.count(HostEvent::ContextsRefused, &mut device.counters);
        }
    }

    /// Hands on what has been found out to the context that receives now.
    #[inline]
    pub fn answer_resyncs(&mut self, context: ContextId, driver: &mut Driver) {
        self.forget_questions_but_of(context);
        while self.receiving.questions > 0
            && let Some(answer) = self.receiving.resync.poll_answer()
        {
            self.receiving.questions -= 1;
            let inner = answer.inner.map(|offset| InnerPlace { layer: 1, offset });
            let place = Place {
                tcpsn: answer.tcpsn,
                inner,
            };
            driver.l5o_resync_rx_resp(context, place, answer.index);
        }
    }

    /// A former context gets no answers any more. Inside of another protocol the present one may know nothing of PDUs, and an answer about
    /// them would be an error to it.
    #[inline]
    fn forget_questions_but_of(&mut self, context: ContextId) {
        if self.receiving.questions > 0 && self.receiving.asking != Some(context) {
            self.receiving.questions = 0;
            self.receiving.resync.forget_requests();
        }
    }

    /// TCP needs nothing before `point` for the records that the PDUs are in: gives up to where payload is no longer needed for the PDU
    /// either that is not wholly acknowledged.
    #[inline]
    pub fn acknowledged_inside(&mut self, point: SeqNum) -> SeqNum {
        if self.sending.spans.is_empty() {
            return point;
        }
        let position = self.sending.spans.position_from(point);
        let needed = self.sending.writer.release_point(position);
        let point = match needed == position {
            true => point,
            false => self
                .sending
                .spans
                .holding(needed)
                .map_or(point, |span| span.message.min(point)),
        };
        self.sending.writer.acknowledged(position);
        self.sending.spans.forget_before(needed);
        point
    }
}

impl Session for PduStream {
    fn l5o_get_tx_msgstate(&self, position: SeqNum) -> Option<MsgState> {
        self.sending.writer.message_state(position)
    }

    #[inline]
    fn acknowledged(&mut self, una: SeqNum, driver: &mut Driver) -> SeqNum {
        if self.sending.writer.is_empty() && !self.sending.contexts.has_former() {
            return una;
        }
        let point = self.sending.writer.release_point(una);
        self.sending.writer.acknowledged(una);
        self.sending.contexts.acknowledged(una, driver);
        point
    }

    fn contexts(&self) -> [Option<ContextId>; 2] {
        [self.sending.contexts.context, self.receiving.context]
    }

    fn transmit_contexts(&self, each: &mut dyn FnMut(ContextId)) {
        self.sending.contexts.for_each(each);
    }

    fn l5o_resync_rx_req(
        &mut self,
        context: ContextId,
        place: Place,
        driver: &mut Driver,
        counters: &mut Counters,
    ) {
        self.count(HostEvent::RxRequests, counters);
        self.forget_questions_but_of(context);
        self.receiving.asking = Some(context);
        self.receiving.questions += 1;
        let inner = place.inner.map(|inner| inner.offset);
        self.receiving.resync.request(place.tcpsn, inner);
        self.answer_resyncs(context, driver);
    }

    fn context_failed(
        &mut self,
        context: ContextId,
        end: SeqNum,
        driver: &mut Driver,
        _: &mut Counters,
    ) {
        if self.sending.contexts.context == Some(context) {
            self.sending.contexts.leave(end);
        } else if self.receiving.context == Some(context) {
            self.receiving.context = None;
            self.receiving.questions = 0;
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
        self.sending.contexts.dismantle(driver);
        if let Some(context) = self.receiving.context.take() {
            driver.l5o_destroy(context);
        }
        self.receiving.tags.dismantle(driver);
    }
}
