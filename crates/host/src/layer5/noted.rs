//! What reads the content of a stream that the NIC's engines say something of, in notes.

use std::time::Instant;

use l5p::{Layers, MsgState, Note};
use nic::ring::{ContextId, Direction};
use tcp::{Accepted, SendQueue};
use wire::SeqNum;

use super::{Fallback, Session};
use crate::counters::Counters;
use crate::driver::{Driver, Payload, Place};
use crate::http::Response;
use crate::pattern::Scan;
use crate::socket::{Socket, Stream};
use crate::stack::Core;
use crate::tls::{Taken, Tls, parts};
use crate::{CloseReason, SocketId};

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

impl Socket {
    /// Asks the NIC to do the part of these layers for what comes next: inside TLS by the context that decrypts, else by one of the `reader`'s.
    /// Gives the context that is to do it.
    pub fn begin_content(
        &mut self,
        now: Instant,
        id: SocketId,
        layers: Layers,
        core: &mut Core,
        reader: &mut impl ContentReader,
    ) -> Option<ContextId> {
        let (flow, next) = (self.flow.reversed(), self.tcp.rcv_nxt());
        match parts(now, self, core) {
            (Some(session), stream, mut out) => {
                let next = session.next_record(stream);
                session.receive_inside(layers, next, &mut out);
                session.context_inside()
            }
            (None, _, _) => {
                let driver = &mut core.driver;
                let context = driver.l5o_create(id, Direction::Receive, flow, next, layers, None);
                *reader.context_mut() = context;
                context
            }
        }
    }

    /// Gives content to `take` as it lies at the stream's front: how much lies together there, and whether what the NIC has said of it holds.
    /// It answers how much it has taken. Gives the bytes of the stream that are used up, and what must end the connection.
    pub fn read_content_with(
        &mut self,
        now: Instant,
        core: &mut Core,
        mut take: impl FnMut(&mut Stream, (u32, bool)) -> u32,
    ) -> (u32, Option<CloseReason>) {
        let (mut consumed, mut failed) = (0, None);
        match &self.tls {
            Tls::None => {
                let most = (self.stream.len(), true);
                consumed = take(&mut self.stream, most);
            }
            Tls::Open(_) => {
                if let (Some(session), stream, mut out) = parts(now, self, core) {
                    failed =
                        session.read_with(stream, &mut consumed, &mut out, |stream, front, _| {
                            Taken {
                                len: take(stream, (front.content, front.is_agreed)),
                                inside_message: false,
                            }
                        });
                }
            }
            Tls::Handshake(_) => {}
        }
        (consumed, failed)
    }
}

/// A reader of content that takes notes.
#[derive(Debug)]
pub(crate) enum Noted {
    /// It is searched for patterns.
    Scan(Box<Scan>),
    /// It is an HTTP response.
    Response(Box<Response>),
}

impl Noted {
    /// TCP has taken this of a packet's payload of `len` bytes, of which the NIC has said this.
    pub fn arrived(&mut self, taken: Accepted, len: u32, notes: &[Note]) {
        match self {
            Noted::Scan(scan) => scan.arrived(taken, len, notes),
            Noted::Response(response) => response.arrived(taken, len, notes),
        }
    }

    pub fn session_mut(&mut self) -> &mut dyn Session {
        match self {
            Noted::Scan(scan) => &mut **scan,
            Noted::Response(response) => &mut **response,
        }
    }

    pub fn scan_mut(&mut self) -> Option<&mut Scan> {
        match self {
            Noted::Scan(scan) => Some(scan),
            Noted::Response(_) => None,
        }
    }

    pub fn response(&self) -> Option<&Response> {
        match self {
            Noted::Response(response) => Some(response),
            Noted::Scan(_) => None,
        }
    }
}
