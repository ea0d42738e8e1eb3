//! The NIC's contexts for a stream of PDUs without TLS.

use l5p::MsgState;
use l5p::nvme::Parameters;
use nic::ring::{ContextId, Direction};
use wire::nvme::{Framing, Role};
use wire::{FlowKey, SeqNum};

use super::{Negotiated, PduStream};
use crate::SocketId;
use crate::driver::{Driver, Layers, MessageSource};
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

    /// The NIC has refused a context or something that it was to do. What is queued up to `end` was meant for it.
    pub fn context_failed(&mut self, context: ContextId, end: SeqNum) {
        if self.transmit == Some(context) {
            self.transmit = None;
            self.former.push_back((context, end));
        }
    }

    /// Gives everything up that the NIC has of the stream.
    pub fn dismantle(&mut self, driver: &mut Driver) {
        let former = self.former.drain(..).map(|(context, _)| context);
        for context in former.chain(self.transmit.take()) {
            driver.l5o_destroy(context);
        }
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
