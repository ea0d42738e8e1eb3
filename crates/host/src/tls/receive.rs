//! Reading content out of records.

use std::ops::Range;

use l5p::tls::{ContentType, ContextTag, HEADER_LEN};
use wire::SeqNum;

use super::open::Outcome;
use super::session::Session;

use crate::CloseReason;
use crate::layer5::{ContentFront, Outgoing};
use crate::memory::Buffer;
use crate::stream::Stream;

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

impl Session {
    /// Whether a whole record is there, opened or not, or something to say about the next.
    pub fn is_readable(&self, stream: &Stream) -> bool {
        if self.has_content() || self.peer.has_closed || self.failed.is_some() {
            return true;
        }
        let mut header = [0; HEADER_LEN];
        if stream.peek(self.opened.len(), &mut header) < HEADER_LEN {
            // If they are there all the same, they are where no header belongs.
            return (stream.len() - self.opened.len()) as usize >= HEADER_LEN;
        }
        match self.reader.next_len(&header) {
            Ok(Some(len)) => stream.len() - self.opened.len() >= len as u32,
            Ok(None) => false,
            Err(_) => true,
        }
    }

    /// Whether there is content that was opened and not read.
    pub fn has_content(&self) -> bool {
        self.opened.has_content()
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
            if let Some(open) = self.opened.front() {
                stream.skip(open.skip);
                let wanted = (open.content as usize).min(buffer.len() - done);
                stream.read(&mut buffer[done..done + wanted]);
                done += wanted;
                *consumed += self.opened.settle(wanted as u32, stream);
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
            while let Some(taken) = self.take_opened(stream, consumed) {
                if taken.is_some() {
                    return Ok(taken);
                }
            }
            if self.open_decrypted(stream, out) {
                continue;
            }
            match self.open_next(stream, None, consumed, out) {
                Outcome::Opened | Outcome::Direct(_) => {}
                Outcome::Nothing => return Ok(None),
                Outcome::Failed(reason) => return Err(reason),
            }
        }
    }

    /// Takes content of the record that was opened first, as far as it lies together; that may be nothing. `None` when no record is open.
    pub(super) fn take_opened(
        &mut self,
        stream: &mut Stream,
        consumed: &mut u32,
    ) -> Option<Option<Buffer>> {
        let open = self.opened.front()?;
        let content = open.content;
        stream.skip(open.skip);
        let chunk = match content {
            0 => None,
            content => stream.take_front(content),
        };
        let taken = chunk.as_ref().map_or(0, |chunk| chunk.len() as u32);
        *consumed += self.opened.settle(taken, stream);
        Some(chunk)
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
            let may_begin = self.rx.awaits_message && self.asked.receive();
            if may_begin && !self.rx.inside_message && self.opened.is_empty() {
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
                self.rx.inside_message = taken.inside_message;
                *consumed += self.opened.settle(taken.len, stream);
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
        self.opened.push(len, content, true);
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
            *consumed += self.opened.settle(0, stream);
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
        let context = self.agreed_context()?;
        let mut header = [0; HEADER_LEN];
        if stream.peek(0, &mut header) < HEADER_LEN {
            return None;
        }
        let len = self.record_len(&header)?;
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
        self.pass_decrypted(stream.start(), len, kind[0])?;
        self.stats.full += 1;
        out.counters.tls_rx_records_full += 1;
        if self.rx.questions > 0 {
            self.answer_resyncs(out.driver);
        }
        Some((len, content))
    }

    /// The context that is known to number the next record as we do, unless that must be looked at closely all the same.
    #[inline]
    pub(super) fn agreed_context(&self) -> Option<ContextTag> {
        let is_usual =
            !self.peer.has_closed && self.failed.is_none() && self.replaced_keys.is_empty();
        self.reader.agreed().filter(|_| is_usual)
    }

    /// Passes the record of `len` bytes at `start`, which that context has decrypted, if its type is application data.
    #[inline]
    pub(super) fn pass_decrypted(&mut self, start: SeqNum, len: usize, kind: u8) -> Option<()> {
        if kind != ContentType::APPLICATION_DATA.0 {
            return None;
        }
        if let Some(post_handshake) = &mut self.post_handshake {
            let (index, content) = (self.reader.record_index(), self.reader.content_range(len)?);
            post_handshake.handle_data(index, content.len()).ok()?;
        }
        if self.rx.questions > 0 {
            // Else no question comes: the NIC loses its way only where it leaves bytes as they came.
            self.reader.note_record(start);
        }
        self.reader.open_decrypted(len, kind).map(drop)
    }

    /// Length of the record that begins with `header`, if it may come here.
    #[inline]
    pub(super) fn record_len(&mut self, header: &[u8; HEADER_LEN]) -> Option<usize> {
        match &self.last_header {
            (last, len) if last == header => Some(*len),
            _ => {
                let len = self.reader.next_len(header).ok()??;
                self.last_header = (*header, len);
                Some(len)
            }
        }
    }
}
