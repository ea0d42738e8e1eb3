//! Opening a record, of which the NIC may have decrypted all, a part or nothing, and acting on what it says.

use std::ops::Range;

use l5p::tls::{
    Alert, ContentType, Event, HEADER_LEN, Location, Offloaded, Opened, Output, Piece, TlsError,
    Violation,
};

use super::session::Session;
use crate::CloseReason;
use crate::layer5::Outgoing;
use crate::stream::Stream;

/// What opening a record gave.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// A record was opened in place, or had nothing for the application.
    Opened,
    /// So many bytes were put out directly.
    Direct(usize),
    /// No whole record is there.
    Nothing,
    /// The connection must end.
    Failed(CloseReason),
}

/// Bytes of content that the session keeps on the stack at a time, for its own messages.
const MESSAGE: usize = 512;

impl Session {
    /// Opens the next record: to `output` if it fits there and nothing is open before it, else in place. A failure is
    /// the answer from then on.
    pub fn open_next(
        &mut self,
        stream: &mut Stream,
        output: Option<&mut [u8]>,
        consumed: &mut u32,
        out: &mut Outgoing<'_>,
    ) -> Outcome {
        if let Some(reason) = &self.failed {
            return Outcome::Failed(reason.clone());
        }
        let outcome = self.open_record(stream, output, consumed, out);
        if let Outcome::Failed(reason) = &outcome {
            self.failed = Some(reason.clone());
        }
        outcome
    }

    fn open_record(
        &mut self,
        stream: &mut Stream,
        output: Option<&mut [u8]>,
        consumed: &mut u32,
        out: &mut Outgoing<'_>,
    ) -> Outcome {
        if self.peer.has_closed {
            // RFC 8446 §6.1: what comes after close_notify is ignored.
            let rest = stream.len() - self.opened.len();
            if self.opened.is_empty() {
                stream.skip(rest);
                *consumed += rest;
            }
            return Outcome::Nothing;
        }
        if !self.replaced_keys.is_empty() {
            self.forget_replaced_keys(stream, out);
        }
        let offset = self.opened.len();
        let len = match self.whole_record(stream, offset, out) {
            Ok(len) => len,
            Err(outcome) => return outcome,
        };
        self.reader.note_record(stream.start() + offset);
        let mut output = output.filter(|_| offset == 0);
        let reader = &mut self.reader;
        let target = output.as_deref_mut().map_or(Output::InPlace, Output::To);
        let epoch = Some(reader.epoch());
        if !stream.bring_back(offset, len, epoch, out.driver) {
            return Outcome::Failed(memory_is_gone());
        }
        let open = |pieces: &mut [Piece<'_>]| reader.open(pieces, target);
        let opened = match stream.with_pieces(offset, len, &out.driver.regions, open) {
            Some(Ok(opened)) => opened,
            Some(Err(error)) => return self.fail(error, out),
            None => return Outcome::Failed(memory_is_gone()),
        };
        self.count(&opened, out);
        let outcome = self.take_content(&opened, offset, stream, output, out);
        let outcome = match outcome {
            Outcome::Failed(reason) => Outcome::Failed(reason),
            outcome => {
                match opened.content {
                    Location::Output(_) => {
                        stream.skip(len);
                        *consumed += len;
                    }
                    Location::Record(range) => self.keep_open(opened.content_type, range, len),
                }
                // The next record's position is known only now.
                self.follow_up(stream, out).map_or(outcome, Outcome::Failed)
            }
        };
        self.answer_resyncs(out.driver);
        outcome
    }

    /// A record of `len` bytes stays where it is until its content is read: nothing of it, unless that is application data.
    fn keep_open(&mut self, content_type: ContentType, content: Range<usize>, len: u32) {
        let content = match content_type {
            ContentType::APPLICATION_DATA => content,
            _ => len as usize..len as usize,
        };
        self.opened.push(len as usize, content, false);
    }

    /// Bytes of the record at `offset`, which is there as a whole.
    fn whole_record(
        &mut self,
        stream: &mut Stream,
        offset: u32,
        out: &mut Outgoing<'_>,
    ) -> Result<u32, Outcome> {
        let left = stream.len() - offset;
        let mut header = [0; HEADER_LEN];
        if (left as usize) < HEADER_LEN {
            return Err(Outcome::Nothing);
        }
        if stream.peek(offset, &mut header) < HEADER_LEN {
            if !stream.bring_back(offset, HEADER_LEN as u32, None, out.driver) {
                return Err(Outcome::Failed(memory_is_gone()));
            }
            stream.peek(offset, &mut header);
        }
        match self.reader.next_len(&header) {
            Ok(Some(len)) if left >= len as u32 => Ok(len as u32),
            Ok(_) => Err(Outcome::Nothing),
            Err(error) => Err(self.fail(error, out)),
        }
    }

    /// Acts on a record's content; application data needs none but a check of its place.
    fn take_content(
        &mut self,
        opened: &Opened,
        offset: u32,
        stream: &Stream,
        output: Option<&mut [u8]>,
        out: &mut Outgoing<'_>,
    ) -> Outcome {
        let is_data = opened.content_type == ContentType::APPLICATION_DATA;
        let handled = if is_data {
            match &mut self.post_handshake {
                Some(post_handshake) => post_handshake.handle_data(opened.record, opened.len()),
                None => Ok(()),
            }
        } else {
            match &opened.content {
                Location::Output(len) => {
                    let content = output.as_deref().map_or(&[][..], |output| &output[..*len]);
                    self.handle_message(opened, content)
                }
                Location::Record(range) => {
                    let mut inline = [0; MESSAGE];
                    let mut long = Vec::new();
                    let content: &mut [u8] = if range.len() <= MESSAGE {
                        &mut inline[..range.len()]
                    } else {
                        long.resize(range.len(), 0);
                        &mut long
                    };
                    // The NIC may have placed some of it: of a long record it learns only at the end that it is not data.
                    let (at, regions) = (offset + range.start as u32, &out.driver.regions);
                    if !stream.peek_placed(at, content, regions) {
                        return Outcome::Failed(memory_is_gone());
                    }
                    self.handle_message(opened, content)
                }
            }
        };
        match (handled, &opened.content) {
            (Err(error), _) => self.fail(error, out),
            (Ok(()), Location::Output(len)) if is_data => Outcome::Direct(*len),
            (Ok(()), _) => Outcome::Opened,
        }
    }

    fn handle_message(&mut self, opened: &Opened, content: &[u8]) -> Result<(), TlsError> {
        if let Some(post_handshake) = &mut self.post_handshake {
            return post_handshake.handle_record(opened.record, opened.content_type, [content]);
        }
        // Keys from elsewhere: new ones can't be made here.
        let violation = match (opened.content_type, content) {
            (ContentType::ALERT, [1 | 2, code]) => {
                match *code {
                    0 => self.peer.has_closed = true,
                    code => self.peer.alert = Some(code),
                }
                return Ok(());
            }
            (ContentType::HANDSHAKE, [kind, ..]) => Violation::HandshakeMessage(*kind),
            (ContentType::ALERT, _) => Violation::Malformed("alert"),
            (kind, _) => Violation::ContentType(kind.0),
        };
        Err(TlsError {
            record: opened.record,
            violation,
        })
    }

    /// Does what the messages of the record opened last ask for.
    fn follow_up(&mut self, stream: &Stream, out: &mut Outgoing<'_>) -> Option<CloseReason> {
        if let Some(code) = self.peer.alert.take() {
            return Some(CloseReason::PeerAlert(code));
        }
        while let Some(event) = self
            .post_handshake
            .as_mut()
            .and_then(|post_handshake| post_handshake.poll_event())
        {
            match event {
                Event::ReceiveKeys(keys) => {
                    self.rekey_receive(keys, stream.start() + self.opened.len(), out)
                }
                Event::KeyUpdateRequested => {
                    self.peer.awaits_update = true;
                    // At once where the peer has taken everything; else, or without memory for it, before the next data, once for all requests.
                    // What fails for good is the answer to the next read.
                    if out.send.is_empty() {
                        let _ = self.prepare_keys(out);
                    }
                }
                Event::Ticket => {}
                Event::RefuseRenegotiation => self.send_alert(Alert::NoRenegotiation, out),
                Event::CloseNotify => self.peer.has_closed = true,
                Event::PeerAlert(alert) => return Some(CloseReason::PeerAlert(alert.into())),
            }
        }
        None
    }

    fn count(&mut self, opened: &Opened, out: &mut Outgoing<'_>) {
        let (own, all) = match opened.offloaded {
            Offloaded::Full => (&mut self.stats.full, &mut out.counters.tls_rx_records_full),
            Offloaded::Partial => (
                &mut self.stats.partial,
                &mut out.counters.tls_rx_records_partial,
            ),
            Offloaded::None => (&mut self.stats.none, &mut out.counters.tls_rx_records_none),
        };
        *own += 1;
        *all += 1;
    }

    /// Tells the peer what is wrong with its record.
    fn fail(&mut self, error: TlsError, out: &mut Outgoing<'_>) -> Outcome {
        match &error.violation {
            Violation::BadTag => out.counters.tls_decrypt_error += 1,
            Violation::KeyUpdateNotLast
            | Violation::KeyUpdateValue
            | Violation::TooManyKeyUpdates(_)
            | Violation::Malformed("key update") => out.counters.tls_rx_rekey_error += 1,
            _ => {}
        }
        let alert = error.alert();
        self.send_alert(alert, out);
        Outcome::Failed(CloseReason::Tls {
            alert,
            record: error.record,
            what: error.violation.to_string(),
        })
    }
}

fn memory_is_gone() -> CloseReason {
    CloseReason::Device("memory that received data was placed in is not registered any more".into())
}
