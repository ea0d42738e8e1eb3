//! The layer-5 protocols of a socket, as the rest of the stack sees them: whatever they are, each is a [`Session`], and one may be inside the
//! other.
//!
//! Protocols by name are in folders of their own (`tls`, `nvme`). What TCP, the driver, handoff, teardown and resets must know of a socket's
//! protocols they ask here.

mod bytes;
mod nested;
mod noted;
mod session;

use l5p::MsgState;
use nic::ring::{ContextId, InnerRecover};
use wire::SeqNum;

use crate::CloseReason;
use crate::counters::Counters;
use crate::driver::{Driver, MessageSource, Place, PlacedPart};
use crate::meter::Component;
use crate::socket::Socket;
use crate::stack::Core;
use crate::tls::Tls;

pub(crate) use bytes::Read;
pub(crate) use nested::Spans;
pub(crate) use noted::{ContentReader, Noted};
pub(crate) use session::{Fallback, Outgoing, Refused, Session};

use nested::Nested;

/// The messages of a socket's protocols, for transmit recovery.
pub(crate) enum Messages<'a> {
    /// One protocol.
    Single(&'a dyn Session),
    /// One inside another.
    Nested(Nested<'a>),
}

impl MessageSource for Messages<'_> {
    fn l5o_get_tx_msgstate(&self, tcpsn: SeqNum) -> Option<MsgState> {
        match self {
            Messages::Single(session) => session.l5o_get_tx_msgstate(tcpsn),
            Messages::Nested(nested) => nested.outer.l5o_get_tx_msgstate(tcpsn),
        }
    }

    fn inner(&self, message: &MsgState) -> Option<InnerRecover> {
        match self {
            Messages::Single(_) => None,
            Messages::Nested(nested) => nested.inner(message),
        }
    }

    fn inner_prefix(&self, message: &MsgState, f: &mut dyn FnMut(SeqNum, u32)) -> bool {
        match self {
            Messages::Single(_) => true,
            Messages::Nested(nested) => nested.inner_prefix(message, f),
        }
    }
}

impl Socket {
    /// Whether what is written and read is what TCP carries: no protocol is between.
    pub fn is_plain(&self) -> bool {
        matches!(self.tls, Tls::None) && self.pdus.is_none() && self.noted.is_none()
    }

    /// Whether bytes on the wire are not those that are written and read.
    pub fn is_secured(&self) -> bool {
        !matches!(self.tls, Tls::None)
    }

    /// Whether a protocol is still being agreed on, before which nothing can be read or written.
    pub fn is_handshaking(&self) -> bool {
        matches!(self.tls, Tls::Handshake(_))
    }

    /// Whether data of what is received may lie in buffers that the application has mapped.
    pub fn places(&self) -> bool {
        self.pdus.is_some()
    }

    /// Notes what the NIC has placed of a packet, of whose payload TCP has taken `len` bytes from `from` on.
    pub fn note_placed(&mut self, context: ContextId, parts: &[PlacedPart], taken: (u32, u32)) {
        if let Some(pdus) = &mut self.pdus {
            pdus.note_placed(context, parts, taken);
        }
    }

    /// The messages of its protocols. `None` when there are none to speak of.
    pub fn messages(&self) -> Option<Messages<'_>> {
        match (&self.tls, &self.pdus) {
            (Tls::None, Some(pdus)) => Some(Messages::Single(&**pdus)),
            (Tls::Open(session), None) => Some(Messages::Single(&**session)),
            (Tls::Open(session), Some(pdus)) => Some(Messages::Nested(Nested {
                outer: &**session,
                inner: &**pdus,
                spans: pdus.spans(),
            })),
            _ => None,
        }
    }

    /// Its protocols, outermost first.
    fn sessions_mut(&mut self) -> impl Iterator<Item = &mut dyn Session> {
        let outer = self
            .tls
            .session_mut()
            .map(|session| session as &mut dyn Session);
        let inner = self
            .pdus
            .as_deref_mut()
            .map(|pdus| pdus as &mut dyn Session);
        let noted = self.noted.as_mut().map(Noted::session_mut);
        outer.into_iter().chain(inner).chain(noted)
    }

    /// The peer has acknowledged everything before `una`: gives up to where payload is no longer needed.
    pub fn release_point(&mut self, una: SeqNum, driver: &mut Driver) -> SeqNum {
        match (&mut self.tls, &mut self.pdus) {
            (Tls::Open(session), pdus) => {
                let point = session.acknowledged(una, driver);
                match pdus {
                    Some(pdus) => pdus.acknowledged_inside(point),
                    None => point,
                }
            }
            (_, Some(pdus)) => pdus.acknowledged(una, driver),
            (_, None) => una,
        }
    }

    /// Gives a question of the NIC's to the protocol that it is about. That of a context that is about to go is answered with no.
    pub fn l5o_resync_rx_req(
        &mut self,
        context: ContextId,
        place: Place,
        (driver, counters): (&mut Driver, &mut Counters),
    ) {
        let layer = place.inner.map_or(0, |inner| usize::from(inner.layer));
        let receives = |session: &mut dyn Session| session.contexts()[1] == Some(context);
        let is_current = self.sessions_mut().any(receives);
        match self.sessions_mut().nth(layer).filter(|_| is_current) {
            Some(session) => session.l5o_resync_rx_req(context, place, driver, counters),
            None => driver.l5o_resync_rx_resp(context, place, None),
        }
    }

    /// The NIC has refused a context, or something that it was to do.
    pub fn context_failed(
        &mut self,
        context: ContextId,
        (driver, counters): (&mut Driver, &mut Counters),
    ) {
        let end = self.send.end();
        for session in self.sessions_mut() {
            session.context_failed(context, end, driver, counters);
        }
    }

    /// Software does from here on what the NIC's contexts have done.
    pub fn leave_contexts(&mut self, driver: &mut Driver, counters: &mut Counters) {
        let end = self.send.end();
        for session in self.sessions_mut() {
            for context in session.contexts().into_iter().flatten() {
                session.context_failed(context, end, driver, counters);
            }
        }
    }

    /// Calls `each` with every context that what is not acknowledged was framed for.
    pub fn transmit_contexts(&self, each: &mut dyn FnMut(ContextId)) {
        if let Some(session) = self.tls.session() {
            session.transmit_contexts(each);
        }
        if let Some(pdus) = &self.pdus {
            pdus.transmit_contexts(each);
        }
    }

    /// Gives everything up that the NIC has of its protocols.
    pub fn dismantle(&mut self, driver: &mut Driver, counters: &mut Counters) {
        for session in self.sessions_mut() {
            session.dismantle(driver, counters);
        }
    }
}

impl Core {
    /// Does in software what the NIC was to do of the message around `tcpsn`.
    pub(crate) fn transform_in_software(&mut self, socket: &mut Socket, tcpsn: SeqNum) -> Fallback {
        let before = self.meter.switch(Component::L5);
        let done = self.transform_message(socket, tcpsn);
        self.meter.switch(before);
        done.unwrap_or_else(Fallback::Impossible)
    }

    fn transform_message(
        &mut self,
        socket: &mut Socket,
        tcpsn: SeqNum,
    ) -> Result<Fallback, CloseReason> {
        let mut context = None;
        socket
            .send
            .slices(tcpsn, 1, |payload, _, _| context = payload.context);
        let gone = || CloseReason::Device("the protocol of a segment is gone".into());
        let context = context.ok_or_else(gone)?;
        if let (Some(session), Some(pdus)) = (socket.tls.session_mut(), &mut socket.pdus) {
            let mut out = Outgoing {
                now: self.last_poll,
                tcp: &mut socket.tcp,
                send: &mut socket.send,
                driver: &mut self.driver,
                counters: &mut self.counters,
            };
            pdus.leave_nested(session, context, &mut out)?;
        }
        let (tls, pdus) = (socket.tls.session_mut(), socket.pdus.as_deref_mut());
        let outermost: &mut dyn Session = match (tls, pdus) {
            (Some(session), _) => session,
            (None, Some(pdus)) => pdus,
            (None, None) => return Err(gone()),
        };
        let (send, driver, counters) = (&mut socket.send, &mut self.driver, &mut self.counters);
        Ok(outermost.transform_in_software(context, tcpsn, send, driver, counters))
    }
}
