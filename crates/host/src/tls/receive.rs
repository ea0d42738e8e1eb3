//! Opening records, of which the NIC may have decrypted all, a part or nothing.

use std::ops::Range;

use l5p::tls::{
    Alert, ContentType, Event, HEADER_LEN, Location, Offloaded, Opened, Output, Piece, TlsError,
    Violation,
};

use super::session::Session;
use wire::SeqNum;

use crate::CloseReason;
use crate::layer5::{ContentFront, Outgoing};
use crate::memory::Buffer;
use crate::stream::Stream;

/// A record that was opened in place: where its content lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    /// Bytes before the content.
    skip: u32,
    /// Bytes of content.
    content: u32,
    /// Bytes after the content.
    tail: u32,
    /// As [`Front::is_agreed`].
    is_agreed: bool,
}

/// Content at the front of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Front {
    /// Where its record begins, the first time that this is told.
    pub record: Option<SeqNum>,
    /// Bytes of content.
    pub content: u32,
    /// A context that numbers records as we do has decrypted all of the record, and has found its content where it is: what the NIC says of it
    /// holds.
    pub is_agreed: bool,
}

impl From<Front> for ContentFront {
    fn from(front: Front) -> Self {
        Self {
            len: front.content,
            is_agreed: front.is_agreed,
        }
    }
}

/// What was done with content.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    /// Bytes that were consumed.
    pub len: u32,
    /// What follows goes on with a message of the protocol inside.
    pub inside_message: bool,
}

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
    /// Whether a whole record is there, opened or not, or something to say about the next.
    pub fn is_readable(&self, stream: &Stream) -> bool {
        if self.has_content() || self.peer_closed || self.failed.is_some() {
            return true;
        }
        let mut header = [0; HEADER_LEN];
        if stream.peek(self.opened_len, &mut header) < HEADER_LEN {
            // If they are there all the same, they are where no header belongs.
            return (stream.len() - self.opened_len) as usize >= HEADER_LEN;
        }
        match self.reader.next_len(&header) {
            Ok(Some(len)) => stream.len() - self.opened_len >= len as u32,
            Ok(None) => false,
            Err(_) => true,
        }
    }

    /// Whether there is content that was opened and not read.
    pub fn has_content(&self) -> bool {
        self.opened.iter().any(|open| open.content > 0)
    }

    /// Copies content out. Answers how many bytes, and what must end the connection. Consumed bytes of the stream are
    /// added to `consumed`.
    pub fn read(
        &mut self,
        stream: &mut Stream,
        buffer: &mut [u8],
        consumed: &mut u32,
        out: &mut Outgoing<'_>,
    ) -> (usize, Option<CloseReason>) {
        let mut done = 0;
        while done < buffer.len() {
            if let Some(open) = self.opened.front_mut() {
                stream.skip(open.skip);
                let wanted = (open.content as usize).min(buffer.len() - done);
                stream.read(&mut buffer[done..done + wanted]);
                done += wanted;
                self.settle(wanted as u32, stream, consumed);
                continue;
            }
            if let Some(len) = self.read_decrypted(stream, &mut buffer[done..], consumed, out) {
                done += len;
                continue;
            }
            match self.open_next(stream, Some(&mut buffer[done..]), consumed, out) {
                Outcome::Opened => {}
                Outcome::Direct(len) => done += len,
                Outcome::Nothing => break,
                Outcome::Failed(reason) => return (done, Some(reason)),
            }
        }
        (done, None)
    }

    /// The next content as it lies in memory.
    pub fn read_chunk(
        &mut self,
        stream: &mut Stream,
        consumed: &mut u32,
        out: &mut Outgoing<'_>,
    ) -> Result<Option<Buffer>, CloseReason> {
        loop {
            if let Some(open) = self.opened.front_mut() {
                stream.skip(open.skip);
                let chunk = (open.content > 0)
                    .then(|| stream.take_front(open.content))
                    .flatten();
                self.settle(
                    chunk.as_ref().map_or(0, |chunk| chunk.len() as u32),
                    stream,
                    consumed,
                );
                if chunk.is_some() {
                    return Ok(chunk);
                }
                continue;
            }
            match self.open_next(stream, None, consumed, out) {
                Outcome::Opened | Outcome::Direct(_) => {}
                Outcome::Nothing => return Ok(None),
                Outcome::Failed(reason) => return Err(reason),
            }
        }
    }

    /// Gives content to `take` as it lies at the stream's front, until all is taken that has come or `take` takes less than there is.
    /// Answers what must end the connection.
    pub fn read_with(
        &mut self,
        stream: &mut Stream,
        consumed: &mut u32,
        out: &mut Outgoing<'_>,
        mut take: impl FnMut(&mut Stream, Front, &mut Outgoing<'_>) -> Taken,
    ) -> Option<CloseReason> {
        loop {
            if self.awaits_message && !self.inside_message && self.opened.is_empty() {
                self.leave_receive(out.driver, out.counters);
                self.begin_receive(stream.start(), out.driver, out.counters);
            }
            if let Some(open) = self.opened.front() {
                let front = Front {
                    record: (open.skip > 0).then_some(stream.start()),
                    content: open.content,
                    is_agreed: open.is_agreed,
                };
                stream.skip(open.skip);
                let taken = take(stream, front, out);
                self.inside_message = taken.inside_message;
                self.settle(taken.len, stream, consumed);
                if taken.len < front.content {
                    return None;
                }
                continue;
            }
            if self.open_decrypted(stream, out) {
                continue;
            }
            match self.open_next(stream, None, consumed, out) {
                Outcome::Opened | Outcome::Direct(_) => {}
                Outcome::Nothing => return None,
                Outcome::Failed(reason) => return Some(reason),
            }
        }
    }

    /// The short way for the most common record, in place: as [`read_decrypted`](Self::read_decrypted). False if it is not
    /// such a record.
    #[inline]
    fn open_decrypted(&mut self, stream: &Stream, out: &mut Outgoing<'_>) -> bool {
        let Some((len, content)) = self.take_decrypted(stream, out, |_| true) else {
            return false;
        };
        self.opened.push_back(Open {
            skip: content.start as u32,
            content: content.len() as u32,
            tail: (len - content.end) as u32,
            is_agreed: true,
        });
        self.opened_len += len as u32;
        true
    }

    /// Opens every whole record that is there, since the NIC waits to hear where records begin.
    pub fn open_ahead(
        &mut self,
        stream: &mut Stream,
        consumed: &mut u32,
        out: &mut Outgoing<'_>,
    ) -> Option<CloseReason> {
        loop {
            match self.open_next(stream, None, consumed, out) {
                Outcome::Opened | Outcome::Direct(_) => {}
                Outcome::Nothing => break,
                // Told when what came before it has been read.
                Outcome::Failed(_) if self.has_content() => break,
                Outcome::Failed(reason) => return Some(reason),
            }
        }
        // Records that had nothing for the application need not wait for it.
        while let Some(open) = self.opened.front()
            && open.content == 0
        {
            stream.skip(open.skip);
            self.settle(0, stream, consumed);
        }
        None
    }

    /// The short way for the most common record: a context that numbers records as we do has decrypted all of it, it
    /// carries application data, and that fits. Answers how much it was; `None` if it is not such a record.
    ///
    /// The content is copied before its type, which comes after it, is looked at: the bytes are fetched from memory once
    /// and in order.
    #[inline]
    fn read_decrypted(
        &mut self,
        stream: &mut Stream,
        buffer: &mut [u8],
        consumed: &mut u32,
        out: &mut Outgoing<'_>,
    ) -> Option<usize> {
        let (len, content) = self.take_decrypted(stream, out, |content| {
            let Some(buffer) = buffer.get_mut(..content.len()) else {
                return false;
            };
            stream.peek(content.start as u32, buffer) == content.len()
        })?;
        stream.skip(len as u32);
        *consumed += len as u32;
        Some(content.len())
    }

    /// Takes the next record if a context that numbers records as we do has decrypted all of it and it carries application
    /// data, and `take` takes that. Answers its length, and where its content is.
    #[inline]
    fn take_decrypted(
        &mut self,
        stream: &Stream,
        out: &mut Outgoing<'_>,
        take: impl FnOnce(&Range<usize>) -> bool,
    ) -> Option<(usize, Range<usize>)> {
        let context = self.reader.agreed()?;
        if self.peer_closed || self.failed.is_some() || !self.replaced_keys.is_empty() {
            return None;
        }
        let mut header = [0; HEADER_LEN];
        if stream.peek(0, &mut header) < HEADER_LEN {
            return None;
        }
        let len = match self.last_header {
            (last, len) if last == header => len,
            _ => self.reader.next_len(&header).ok()??,
        };
        self.last_header = (header, len);
        if !stream.is_decrypted(len as u32, context) {
            return None;
        }
        let content = self.reader.content_range(len)?;
        if !take(&content) {
            return None;
        }
        let mut kind = [0];
        if stream.peek(self.reader.type_offset(len) as u32, &mut kind) == 0 {
            return None;
        }
        if let Some(post_handshake) = &mut self.post_handshake {
            let index = self.reader.record_index();
            post_handshake
                .handle_record(index, ContentType::APPLICATION_DATA, [])
                .ok()?;
        }
        if self.questions > 0 {
            // Else no question comes: the NIC loses its way only where it leaves bytes as they came.
            self.reader.note_record(stream.start());
        }
        self.reader.open_decrypted(len, kind[0])?;
        self.stats.full += 1;
        out.counters.tls_rx_records_full += 1;
        if self.questions > 0 {
            self.answer_resyncs(out.driver);
        }
        Some((len, content))
    }

    /// Accounts for `taken` bytes of the first open record's content, which were consumed with what was before them; the
    /// record goes when nothing is left of it.
    #[inline]
    fn settle(&mut self, taken: u32, stream: &mut Stream, consumed: &mut u32) {
        let Some(open) = self.opened.front_mut() else {
            return;
        };
        let mut bytes = open.skip + taken;
        open.skip = 0;
        open.content -= taken;
        if open.content == 0 {
            stream.skip(open.tail);
            bytes += open.tail;
            self.opened.pop_front();
        }
        self.opened_len -= bytes;
        *consumed += bytes;
    }

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
        if self.peer_closed {
            // RFC 8446 §6.1: what comes after close_notify is ignored.
            let rest = stream.len() - self.opened_len;
            if self.opened.is_empty() {
                stream.skip(rest);
                *consumed += rest;
            }
            return Outcome::Nothing;
        }
        if !self.replaced_keys.is_empty() {
            self.forget_replaced_keys(stream, out);
        }
        let offset = self.opened_len;
        let mut header = [0; HEADER_LEN];
        if ((stream.len() - offset) as usize) < HEADER_LEN {
            return Outcome::Nothing;
        }
        if stream.peek(offset, &mut header) < HEADER_LEN {
            if !stream.bring_back(offset, HEADER_LEN as u32, None, out.driver) {
                return Outcome::Failed(memory_is_gone());
            }
            stream.peek(offset, &mut header);
        }
        let len = match self.reader.next_len(&header) {
            Ok(Some(len)) => len as u32,
            Ok(None) => return Outcome::Nothing,
            Err(error) => return self.fail(error, out),
        };
        if stream.len() - offset < len {
            return Outcome::Nothing;
        }
        self.reader.note_record(stream.start() + offset);
        let mut output = output.filter(|_| offset == 0);
        let reader = &mut self.reader;
        let target = output.as_deref_mut().map_or(Output::InPlace, Output::To);
        let epoch = Some(reader.epoch());
        if self.inside_receive.is_some() && !stream.bring_back(offset, len, epoch, out.driver) {
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
        if !matches!(outcome, Outcome::Failed(_)) {
            match opened.content {
                Location::Output(_) => {
                    stream.skip(len);
                    *consumed += len;
                }
                Location::Record(range) => {
                    let open = if opened.content_type == ContentType::APPLICATION_DATA {
                        Open {
                            skip: range.start as u32,
                            content: range.len() as u32,
                            tail: len - range.end as u32,
                            is_agreed: false,
                        }
                    } else {
                        Open {
                            skip: len,
                            content: 0,
                            tail: 0,
                            is_agreed: false,
                        }
                    };
                    self.opened.push_back(open);
                    self.opened_len += len;
                }
            }
        }
        // The next record's position is known only now.
        let outcome = match outcome {
            Outcome::Failed(reason) => Outcome::Failed(reason),
            outcome => self.follow_up(stream, out).map_or(outcome, Outcome::Failed),
        };
        self.answer_resyncs(out.driver);
        outcome
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
                Some(post_handshake) => {
                    post_handshake.handle_record(opened.record, opened.content_type, [])
                }
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
                    stream.peek(offset + range.start as u32, content);
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
                    0 => self.peer_closed = true,
                    code => self.peer_alert = Some(code),
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
        if let Some(code) = self.peer_alert.take() {
            return Some(CloseReason::PeerAlert(code));
        }
        while let Some(event) = self
            .post_handshake
            .as_mut()
            .and_then(|post_handshake| post_handshake.poll_event())
        {
            match event {
                Event::ReceiveKeys(keys) => {
                    self.rekey_receive(keys, stream.start() + self.opened_len, out)
                }
                Event::KeyUpdateRequested => {
                    if let Err(reason) = self.rekey_transmit(false, out) {
                        return Some(reason);
                    }
                }
                Event::Ticket => {}
                Event::RefuseRenegotiation => self.send_alert(Alert::NoRenegotiation, out),
                Event::CloseNotify => self.peer_closed = true,
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
        out.counters.tls_decrypt_error += 1;
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
