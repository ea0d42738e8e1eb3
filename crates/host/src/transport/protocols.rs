//! What a session does without its application: the handshake, and answers that the NIC waits for.

use std::time::Instant;

use super::Transport;
use crate::events::EventKinds;
use crate::layer5::Outgoing;
use crate::meter::Component;
use crate::socket::{ReceiveSide, Socket};
use crate::tls::{Keys, Progress, Session, Tls};
use crate::{CloseReason, SocketId};

impl Transport {
    /// Lets a socket's protocols get on with what needs no application: the handshake, and answers that the NIC waits for.
    #[inline]
    pub fn drive_protocols(&mut self, now: Instant, id: SocketId) {
        let socket = self.sockets.get(id);
        if socket.is_some_and(Socket::is_secured) {
            self.drive_tls(now, id);
        }
    }

    fn drive_tls(&mut self, now: Instant, id: SocketId) {
        let Some(socket) = self.sockets.get_mut(id) else {
            return;
        };
        match &mut socket.tls {
            Tls::None => {}
            Tls::Handshake(_) => self.drive_handshake(now, id),
            Tls::Open(session)
                if session.has_questions() && socket.receive != ReceiveSide::Discarding =>
            {
                let (session, stream, mut out) = socket.parts(now, &mut self.device);
                let Some(session) = session else { return };
                let mut consumed = 0;
                let failed = session.open_ahead(stream, &mut consumed, &mut out);
                socket.tcp.consumed(now, consumed);
                if let Some(reason) = failed {
                    self.fail(now, id, reason);
                }
            }
            Tls::Open(_) => {}
        }
    }

    fn drive_handshake(&mut self, now: Instant, id: SocketId) {
        let Some(socket) = self.sockets.get_mut(id) else {
            return;
        };
        let before = self.device.meter.switch(Component::L5);
        let mut consumed = 0;
        let Tls::Handshake(handshaking) = &mut socket.tls else {
            return;
        };
        let mut out = Outgoing::new(now, &mut socket.tcp, &mut socket.send, &mut self.device);
        let progress = handshaking.drive(&mut socket.stream, &mut consumed, &mut out);
        socket.tcp.consumed(now, consumed);
        match progress {
            Progress::Waiting
                if socket.receive == ReceiveSide::PeerClosed && socket.ended.is_none() =>
            {
                let reason = handshaking.closed_by_peer();
                self.fail(now, id, reason);
            }
            Progress::Waiting => {}
            Progress::NoMemory => self.schedule.starve(id, socket),
            Progress::Failed(reason) => self.fail(now, id, reason),
            Progress::Done => {
                if let Err(reason) = self.open_session(now, id) {
                    self.fail(now, id, reason);
                }
            }
        }
        self.device.meter.switch(before);
    }

    /// Takes the keys over from a finished handshake.
    fn open_session(&mut self, now: Instant, id: SocketId) -> Result<(), CloseReason> {
        let Some(socket) = self.sockets.get_mut(id) else {
            return Ok(());
        };
        let Tls::Handshake(handshaking) = std::mem::replace(&mut socket.tls, Tls::None) else {
            return Ok(());
        };
        let offload = handshaking.offload;
        let mut out = Outgoing::new(now, &mut socket.tcp, &mut socket.send, &mut self.device);
        let established = handshaking.finish(&mut out)?;
        let keys = Keys {
            transmit: established.transmit,
            receive: established.receive,
            post_handshake: Some(established.post_handshake),
        };
        let start = socket.stream.start();
        let mut session = Session::new(id, socket.flow, keys, offload, start, &mut out);
        session.limit_records(self.config.record_bytes);
        session.psk_identity = established.psk_identity.map(Vec::into_boxed_slice);
        socket.tls = Tls::Open(Box::new(session));
        socket.alpn = established.alpn;
        self.schedule.tell(id, socket, EventKinds::SECURED);
        Ok(())
    }
}
