//! What a socket needs of each of its layer-5 protocols.

use std::time::Instant;

use l5p::MsgState;
use nic::ring::{ContextId, Slice};
use tcp::{Connection, SendQueue};
use wire::SeqNum;

use crate::CloseReason;
use crate::counters::Counters;
use crate::device::Device;
use crate::driver::{Driver, Payload, Place};

/// What became of a message that the NIC can't transform.
#[derive(Debug)]
pub(crate) enum Fallback {
    /// The send queue now holds what the NIC would have sent.
    Done,
    /// The NIC may still read the message: try again later.
    Later,
    /// Memory has run out.
    NoMemory,
    /// It can't be sent at all.
    Impossible(CloseReason),
}

/// Why nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The arena has no memory left.
    NoMemory,
    /// TCP sends nothing more.
    SendClosed,
    /// The memory that was to be sent is gone.
    SourceGone(Slice),
}

/// The sending side of a connection, as a session uses it.
pub(crate) struct Outgoing<'a> {
    pub now: Instant,
    pub tcp: &'a mut Connection,
    pub send: &'a mut SendQueue<Payload>,
    pub driver: &'a mut Driver,
    pub counters: &'a mut Counters,
}

impl<'a> Outgoing<'a> {
    pub fn new(
        now: Instant,
        tcp: &'a mut Connection,
        send: &'a mut SendQueue<Payload>,
        device: &'a mut Device,
    ) -> Self {
        Self {
            now,
            tcp,
            send,
            driver: &mut device.driver,
            counters: &mut device.counters,
        }
    }
}

/// One layer-5 protocol of a socket: its messages under way in both directions, and the NIC's contexts for them.
///
/// Positions are those of the stream that its messages are in: TCP's sequence numbers, or bytes of content of the layer around it.
pub(crate) trait Session {
    /// The message that contains the byte at `position`, if it is kept still (`l5o_get_tx_msgstate`, Autonomous NIC offloads, Listing 2).
    fn l5o_get_tx_msgstate(&self, position: SeqNum) -> Option<MsgState>;

    /// The peer has acknowledged everything before `una`: gives up to where payload is no longer needed, and lets contexts go whose messages
    /// are all acknowledged.
    fn acknowledged(&mut self, una: SeqNum, driver: &mut Driver) -> SeqNum;

    /// The contexts that it has now: transmit and receive.
    fn contexts(&self) -> [Option<ContextId>; 2];

    /// Calls `each` with every transmit context that what is not acknowledged was framed for.
    fn transmit_contexts(&self, each: &mut dyn FnMut(ContextId));

    /// `l5o_resync_rx_req` (Listing 2) of the context that receives: does a message begin there? The answer follows by `l5o_resync_rx_resp` once the stream has come so far.
    fn l5o_resync_rx_req(
        &mut self,
        context: ContextId,
        place: Place,
        driver: &mut Driver,
        counters: &mut Counters,
    );

    /// The NIC has refused a context or something that it was to do. What is queued up to `end` was meant for it.
    fn context_failed(
        &mut self,
        context: ContextId,
        end: SeqNum,
        driver: &mut Driver,
        counters: &mut Counters,
    );

    /// Does in software what the NIC was to do of the message around `tcpsn`, which the NIC must have read for the last time.
    fn transform_in_software(
        &mut self,
        context: ContextId,
        tcpsn: SeqNum,
        send: &mut SendQueue<Payload>,
        driver: &mut Driver,
        counters: &mut Counters,
    ) -> Fallback;

    /// Gives everything up that the NIC has of it.
    fn dismantle(&mut self, driver: &mut Driver, counters: &mut Counters);
}
