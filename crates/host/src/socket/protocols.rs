//! A socket's layer-5 protocols: TLS, PDUs and what reads its content, as TCP, the driver and the offload of connections see them.

use std::ops::Range;
use std::time::Instant;

use nic::ring::ContextId;
use wire::SeqNum;

use super::{Noted, Socket};
use crate::device::Device;
use crate::driver::{Driver, Place, PlacedPart};
use crate::layer5::{Fallback, Messages, Nested, Outgoing, Refused, Session};
use crate::meter::Component;
use crate::pdus::{Frame, PduData};
use crate::stream::Stream;
use crate::tls::{self, Tls};
use crate::{CloseReason, SocketError};

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

    /// The context that places data for it.
    pub fn placing_context(&self) -> Option<ContextId> {
        let pdus = self.pdus.as_ref()?;
        match self.tls.session() {
            Some(session) => session.context_inside(),
            None => pdus.contexts()[1],
        }
    }

    /// Notes what the NIC has placed of a packet, of whose payload TCP has `taken` these bytes.
    pub fn note_placed(&mut self, context: ContextId, parts: &[PlacedPart], taken: Range<u32>) {
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
    pub fn l5o_resync_rx_req(&mut self, context: ContextId, place: Place, device: &mut Device) {
        let layer = place.inner.map_or(0, |inner| usize::from(inner.layer));
        let receives = |session: &mut dyn Session| session.contexts()[1] == Some(context);
        let is_current = self.sessions_mut().any(receives);
        match self.sessions_mut().nth(layer).filter(|_| is_current) {
            Some(session) => {
                let Device {
                    driver, counters, ..
                } = device;
                session.l5o_resync_rx_req(context, place, driver, counters);
            }
            None => device.driver.l5o_resync_rx_resp(context, place, None),
        }
    }

    /// The NIC has refused a context, or something that it was to do.
    pub fn context_failed(&mut self, context: ContextId, device: &mut Device) {
        let end = self.send.end();
        for session in self.sessions_mut() {
            session.context_failed(context, end, &mut device.driver, &mut device.counters);
        }
    }

    /// Software does from here on what the NIC's contexts have done.
    pub fn leave_contexts(&mut self, device: &mut Device) {
        let end = self.send.end();
        for session in self.sessions_mut() {
            for context in session.contexts().into_iter().flatten() {
                session.context_failed(context, end, &mut device.driver, &mut device.counters);
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
    pub fn dismantle(&mut self, device: &mut Device) {
        for session in self.sessions_mut() {
            session.dismantle(&mut device.driver, &mut device.counters);
        }
    }

    /// Queues a PDU whole, or not at all; answers how many bytes it is.
    pub fn write_pdu(
        &mut self,
        now: Instant,
        frame: &Frame,
        data: PduData<'_>,
        device: &mut Device,
    ) -> Result<usize, Refused> {
        if self.is_handshaking() {
            return Ok(0);
        }
        let Some(pdus) = &mut self.pdus else {
            return Ok(0);
        };
        let mut out = Outgoing::new(now, &mut self.tcp, &mut self.send, device);
        pdus.write(self.tls.session_mut(), frame, data, &mut out)
    }

    /// Its sending side, for a session.
    pub fn outgoing<'a>(&'a mut self, now: Instant, device: &'a mut Device) -> Outgoing<'a> {
        Outgoing::new(now, &mut self.tcp, &mut self.send, device)
    }

    /// Its TLS session, its stream and its sending side, to be used together.
    pub fn parts<'a>(
        &'a mut self,
        now: Instant,
        device: &'a mut Device,
    ) -> (Option<&'a mut tls::Session>, &'a mut Stream, Outgoing<'a>) {
        let out = Outgoing::new(now, &mut self.tcp, &mut self.send, device);
        (self.tls.session_mut(), &mut self.stream, out)
    }

    /// Does in software what the NIC was to do of the message around `tcpsn`.
    pub fn transform_in_software(
        &mut self,
        now: Instant,
        tcpsn: SeqNum,
        device: &mut Device,
    ) -> Fallback {
        let before = device.meter.switch(Component::L5);
        let done = self.transform_message(now, tcpsn, device);
        device.meter.switch(before);
        done.unwrap_or_else(Fallback::Impossible)
    }

    fn transform_message(
        &mut self,
        now: Instant,
        tcpsn: SeqNum,
        device: &mut Device,
    ) -> Result<Fallback, CloseReason> {
        let mut context = None;
        self.send
            .slices(tcpsn, 1, |payload, _, _| context = payload.context);
        let gone = || CloseReason::Device("the protocol of a segment is gone".into());
        let context = context.ok_or_else(gone)?;
        if let (Some(session), Some(pdus)) = (self.tls.session_mut(), &mut self.pdus) {
            let mut out = Outgoing::new(now, &mut self.tcp, &mut self.send, device);
            pdus.leave_nested(session, context, &mut out)?;
        }
        let (tls, pdus) = (self.tls.session_mut(), self.pdus.as_deref_mut());
        let outermost: &mut dyn Session = match (tls, pdus) {
            (Some(session), _) => session,
            (None, Some(pdus)) => pdus,
            (None, None) => return Err(gone()),
        };
        let Device {
            driver, counters, ..
        } = device;
        Ok(outermost.transform_in_software(context, tcpsn, &mut self.send, driver, counters))
    }

    /// # Errors
    /// When no TLS can be put on it.
    pub fn may_secure(&self) -> Result<(), SocketError> {
        self.check_ended()?;
        if !matches!(self.tls, Tls::None) {
            return Err(SocketError::AlreadySecured);
        }
        if !self.tcp.state().is_synchronized() {
            return Err(SocketError::NotConnected);
        }
        self.check_open()
    }
}
