//! PDUs inside of TLS records, whose digests the NIC makes too (Autonomous NIC offloads §5.3).

use l5p::MsgState;
use nic::ring::InnerRecover;
use wire::SeqNum;

use super::PduStream;
use crate::driver::MessageSource;
use crate::tls::Session;

/// The records of a connection, and the PDUs in them.
pub(crate) struct Stacked<'a> {
    pub session: &'a Session,
    pub pdus: &'a PduStream,
}

impl Stacked<'_> {
    /// Where in its stream the content of a record begins, and the PDU that holds that byte.
    fn place(&self, record: &MsgState) -> Option<(SeqNum, MsgState)> {
        let position = self.pdus.spans.of_record(record.start)?.position;
        let pdu = self.pdus.writer.message_state(position)?;
        Some((position, pdu))
    }
}

impl MessageSource for Stacked<'_> {
    fn l5o_get_tx_msgstate(&self, tcpsn: SeqNum) -> Option<MsgState> {
        self.session.l5o_get_tx_msgstate(tcpsn)
    }

    fn inner(&self, record: &MsgState) -> Option<InnerRecover> {
        let (position, pdu) = self.place(record)?;
        Some(InnerRecover {
            index: pdu.index,
            len: pdu.len,
            offset: pdu.start.distance_to(position),
        })
    }

    fn inner_prefix(&self, record: &MsgState, f: &mut dyn FnMut(SeqNum, u32)) -> bool {
        let Some((position, pdu)) = self.place(record) else {
            return false;
        };
        let before = pdu.start.distance_to(position);
        self.pdus.spans.runs(pdu.start, before, f) == before
    }
}

impl PduStream {
    /// TCP needs nothing before `point`: gives up to where payload is no longer needed for the PDU that is not wholly
    /// acknowledged.
    #[inline]
    pub fn acknowledged_records(&mut self, point: SeqNum) -> SeqNum {
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
                .map_or(point, |span| span.record.min(point)),
        };
        self.writer.acknowledged(position);
        self.spans.forget_before(needed);
        point
    }
}
