//! What reads the content of a stream that the NIC's engines say something of, in notes.

use l5p::MsgState;
use nic::ring::ContextId;
use tcp::SendQueue;
use wire::SeqNum;

use super::{Fallback, Session};
use crate::CloseReason;
use crate::counters::Counters;
use crate::driver::{Driver, Payload, Place};

/// Content that lies together at a stream's front.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContentFront {
    /// Bytes of it.
    pub len: u32,
    /// What the NIC says of them holds.
    pub is_agreed: bool,
}

/// What a reader of content has of the NIC. It sends nothing.
pub(crate) trait ContentReader {
    /// The context, where the content is not inside of another protocol.
    fn context(&self) -> Option<ContextId>;

    fn context_mut(&mut self) -> &mut Option<ContextId>;

    /// The answer to the NIC, which asks whether it may go on at a place.
    fn resync(&mut self, place: Place) -> Option<u64>;

    /// Gives up what the NIC has of it beside the context, which has been told to go.
    fn release(&mut self, _: &mut Driver) {}

    /// Gives up the context.
    fn leave(&mut self, driver: &mut Driver) {
        if let Some(context) = self.context_mut().take() {
            driver.l5o_destroy(context);
        }
    }
}

impl<R: ContentReader> Session for R {
    fn l5o_get_tx_msgstate(&self, _: SeqNum) -> Option<MsgState> {
        None
    }

    fn acknowledged(&mut self, una: SeqNum, _: &mut Driver) -> SeqNum {
        una
    }

    fn contexts(&self) -> [Option<ContextId>; 2] {
        [None, self.context()]
    }

    fn transmit_contexts(&self, _: &mut dyn FnMut(ContextId)) {}

    fn l5o_resync_rx_req(
        &mut self,
        context: ContextId,
        place: Place,
        driver: &mut Driver,
        _: &mut Counters,
    ) {
        let index = self.resync(place);
        driver.l5o_resync_rx_resp(context, place, index);
    }

    fn context_failed(
        &mut self,
        context: ContextId,
        _: SeqNum,
        driver: &mut Driver,
        _: &mut Counters,
    ) {
        if self.context() == Some(context) {
            self.leave(driver);
        }
    }

    fn transform_in_software(
        &mut self,
        _: ContextId,
        _: SeqNum,
        _: &mut SendQueue<Payload>,
        _: &mut Driver,
        _: &mut Counters,
    ) -> Fallback {
        Fallback::Impossible(CloseReason::Device(
            "a reader of content sends nothing".into(),
        ))
    }

    /// A protocol around it must have been dismantled before: its context may know what is released here.
    fn dismantle(&mut self, driver: &mut Driver, _: &mut Counters) {
        self.leave(driver);
        self.release(driver);
    }
}
