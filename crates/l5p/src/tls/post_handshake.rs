//! Handshake messages and alerts that arrive after the handshake.

use std::collections::VecDeque;

use wire::tls::ContentType;

use super::{Alert, CryptoInfo, KeySchedule, KeyScheduleError, TlsError, Version, Violation};

#[cfg(test)]
mod tests;

const HELLO_REQUEST: u8 = 0;
const CLIENT_HELLO: u8 = 1;
const NEW_SESSION_TICKET: u8 = 4;
const KEY_UPDATE: u8 = 24;

const MESSAGE_HEADER: usize = 4;

/// Longest message that may come, as rustls has it.
const MAX_MESSAGE: usize = 0xffff;
/// Key updates that a peer may send one after the other. Each costs new keys, and new contexts of the NIC's, so that a
/// peer that did nothing else would keep this host busy; BoringSSL has the same limit.
const MAX_KEY_UPDATES: u8 = 32;
/// Requests to renegotiate that a peer may send. Each is answered by an alert, so that a peer that did nothing else, and acknowledged nothing,
/// would fill this host's memory with them; rustls takes one.
const MAX_RENEGOTIATIONS: u8 = 8;

/// What the owner of reader and writer must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer changed its keys after the record just handled: give these to
    /// [`Reader::rekey`](super::Reader::rekey) before the next one is opened.
    ReceiveKeys(CryptoInfo),
    /// The peer wants us to change ours: send what [`PostHandshake::key_update`] gives, before any
    /// more application data (RFC 8446 §4.6.3).
    KeyUpdateRequested,
    /// A session ticket was stored for the next connection.
    Ticket,
    /// The peer asked to renegotiate, which we refuse by [`Alert::NoRenegotiation`].
    RefuseRenegotiation,
    /// The peer will send no more.
    CloseNotify,
    /// The peer ended the connection with this alert.
    PeerAlert(Alert),
}

/// A key update of our own.
#[derive(Debug)]
pub struct KeyUpdate {
    /// The content of a handshake record, the last one under the old keys.
    pub message: [u8; 5],
    /// What to give to [`Writer::rekey`](super::Writer::rekey) after that record.
    pub keys: CryptoInfo,
}

/// Puts handshake messages together across records, and keeps what makes new keys.
pub struct PostHandshake {
    version: Version,
    keys: Box<dyn KeySchedule>,
    /// The beginning of a message that goes on in the next record.
    partial: Vec<u8>,
    /// Key updates since the last application data.
    updates: u8,
    /// Requests to renegotiate.
    renegotiations: u8,
    events: VecDeque<Event>,
}

impl PostHandshake {
    /// Begins after a handshake that agreed on `version` and left these keys.
    pub fn new(version: Version, keys: Box<dyn KeySchedule>) -> PostHandshake {
        PostHandshake {
            version,
            keys,
            partial: Vec::new(),
            updates: 0,
            renegotiations: 0,
            events: VecDeque::new(),
        }
    }

    /// Handles the content of record number `record`, given in pieces; application data as [`handle_data`](Self::handle_data).
    ///
    /// # Errors
    /// When it breaks the protocol.
    pub fn handle_record<'a>(
        &mut self,
        record: u64,
        content_type: ContentType,
        content: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<(), TlsError> {
        let handled = match content_type {
            ContentType::APPLICATION_DATA => {
                let len = content.into_iter().map(<[u8]>::len).sum();
                return self.handle_data(record, len);
            }
            // RFC 8446 §5.1: no other records between the parts of a message.
            _ if content_type != ContentType::HANDSHAKE && !self.partial.is_empty() => {
                Err(Violation::Interleaved)
            }
            ContentType::ALERT => self.handle_alert(content),
            ContentType::HANDSHAKE => self.handle_handshake(content),
            other => Err(Violation::ContentType(other.0)),
        };
        handled.map_err(|violation| TlsError { record, violation })
    }

    /// Notes that record number `record` has `len` bytes of application data.
    ///
    /// # Errors
    /// When it comes in the middle of a handshake message (RFC 8446 §5.1).
    #[inline]
    pub fn handle_data(&mut self, record: u64, len: usize) -> Result<(), TlsError> {
        if !self.partial.is_empty() {
            let violation = Violation::Interleaved;
            return Err(TlsError { record, violation });
        }
        // An empty record may come (RFC 8446 §5.1), but makes no use of the keys.
        if len > 0 {
            self.updates = 0;
        }
        Ok(())
    }

    /// The next thing to do.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Makes our next keys. With `request`, the peer shall change its own too.
    ///
    /// # Errors
    /// In TLS 1.2, which has no key updates, and when the key schedule fails.
    pub fn key_update(&mut self, request: bool) -> Result<KeyUpdate, KeyScheduleError> {
        if self.version == Version::Tls12 {
            return Err(KeyScheduleError::NoKeyUpdates);
        }
        Ok(KeyUpdate {
            message: [KEY_UPDATE, 0, 0, 1, u8::from(request)],
            keys: self.keys.update_transmit()?,
        })
    }

    fn handle_alert<'a>(
        &mut self,
        content: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<(), Violation> {
        let mut alert = [0; 2];
        let mut len = 0;
        for byte in content.into_iter().flatten() {
            *alert.get_mut(len).ok_or(Violation::Malformed("alert"))? = *byte;
            len += 1;
        }
        let [level, description] = alert;
        let warning = match (len, level) {
            (2, 1) => true,
            (2, 2) => false,
            _ => return Err(Violation::Malformed("alert")),
        };
        match Alert::from(description) {
            Alert::CloseNotify => self.events.push_back(Event::CloseNotify),
            Alert::UserCanceled => {}
            // RFC 8446 §6: all others end the connection whatever level they give.
            alert if self.version == Version::Tls13 || !warning => {
                self.events.push_back(Event::PeerAlert(alert));
            }
            _ => {}
        }
        Ok(())
    }

    fn handle_handshake<'a>(
        &mut self,
        content: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<(), Violation> {
        let mut messages = std::mem::take(&mut self.partial);
        for piece in content {
            messages.extend_from_slice(piece);
        }
        let mut rest = &messages[..];
        while let Some(&[kind, a, b, c]) = rest.first_chunk() {
            let len = u32::from_be_bytes([0, a, b, c]) as usize;
            self.check_message(kind, len)?;
            let Some(body) = rest.get(MESSAGE_HEADER..MESSAGE_HEADER + len) else {
                break;
            };
            rest = &rest[MESSAGE_HEADER + len..];
            self.handle_message(kind, body, rest.is_empty())?;
        }
        let handled = messages.len() - rest.len();
        messages.drain(..handled);
        self.partial = messages;
        Ok(())
    }

    /// Refuses by the header what may not come, before its body is waited for.
    fn check_message(&self, kind: u8, len: usize) -> Result<(), Violation> {
        let client = self.keys.is_client();
        let max = match (self.version, kind) {
            (Version::Tls13, KEY_UPDATE) => 1,
            (Version::Tls13, NEW_SESSION_TICKET) if client => MAX_MESSAGE,
            (Version::Tls12, HELLO_REQUEST) if client => 0,
            (Version::Tls12, CLIENT_HELLO) if !client => MAX_MESSAGE,
            _ => return Err(Violation::HandshakeMessage(kind)),
        };
        if len > max {
            Err(Violation::MessageTooLong(len))
        } else {
            Ok(())
        }
    }

    /// `last` says that the record ends with it.
    fn handle_message(&mut self, kind: u8, body: &[u8], last: bool) -> Result<(), Violation> {
        match kind {
            KEY_UPDATE => {
                let requested = match body {
                    [0] => false,
                    [1] => true,
                    [_] => return Err(Violation::KeyUpdateValue),
                    _ => return Err(Violation::Malformed("key update")),
                };
                if !last {
                    return Err(Violation::KeyUpdateNotLast);
                }
                self.handle_key_update(requested)
            }
            NEW_SESSION_TICKET => {
                let stored = self.keys.store_ticket(body).map_err(refused)?;
                if stored {
                    self.events.push_back(Event::Ticket);
                }
                Ok(())
            }
            // RFC 5246 §7.4.1.1: to be ignored, or refused by a warning.
            _ => {
                self.renegotiations = self.renegotiations.saturating_add(1);
                if self.renegotiations > MAX_RENEGOTIATIONS {
                    return Err(Violation::TooManyRenegotiations(self.renegotiations));
                }
                self.push_once(Event::RefuseRenegotiation);
                Ok(())
            }
        }
    }

    fn handle_key_update(&mut self, requested: bool) -> Result<(), Violation> {
        self.updates += 1;
        if self.updates > MAX_KEY_UPDATES {
            return Err(Violation::TooManyKeyUpdates(self.updates));
        }
        let keys = self.keys.update_receive().map_err(refused)?;
        self.events.push_back(Event::ReceiveKeys(keys));
        if requested {
            // RFC 8446 §4.6.3: one answer serves several requests.
            self.push_once(Event::KeyUpdateRequested);
        }
        Ok(())
    }

    fn push_once(&mut self, event: Event) {
        if !self.events.contains(&event) {
            self.events.push_back(event);
        }
    }
}

fn refused(error: KeyScheduleError) -> Violation {
    Violation::Refused(error.to_string())
}

impl std::fmt::Debug for PostHandshake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostHandshake")
            .field("version", &self.version)
            .field("partial", &self.partial.len())
            .field("events", &self.events)
            .finish_non_exhaustive()
    }
}
