//! Making records out of what the application writes.

use l5p::tls::{Alert, ContentType, MAX_PLAINTEXT};
use nic::ring::{ContextId, Slice};

use super::session::{Outgoing, Session};
use crate::driver::Payload;
use crate::memory::Buffer;

/// Slices of the application's memory in one record at most, so that one descriptor can name a whole record.
const RECORD_SLICES: usize = 24;

/// Why nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The arena has no memory left.
    NoMemory,
    /// The memory that was to be sent is gone.
    SourceGone(Slice),
}

impl Session {
    /// Writes application data, as much as `space` and memory allow; answers how many bytes of it.
    pub fn write(
        &mut self,
        data: &[u8],
        space: u32,
        out: &mut Outgoing<'_>,
    ) -> Result<usize, Refused> {
        let mut written = 0;
        let mut space = i64::from(space);
        for content in data.chunks(self.writer.max_plaintext()) {
            if space <= 0 {
                break;
            }
            let before = out.send.end();
            match self.write_record(ContentType::APPLICATION_DATA, content, out) {
                Ok(()) => {}
                Err(refused) if written == 0 => return Err(refused),
                Err(_) => break,
            }
            space -= i64::from(before.distance_to(out.send.end()));
            written += content.len();
        }
        Ok(written)
    }

    /// Writes one record: framed for the NIC, or sealed.
    #[inline]
    pub fn write_record(
        &mut self,
        kind: ContentType,
        content: &[u8],
        out: &mut Outgoing<'_>,
    ) -> Result<(), Refused> {
        let len = self.writer.record_len(content.len()) as u32;
        let mut buffer = out.driver.take_tail(len).ok_or(Refused::NoMemory)?;
        match self.transmit {
            Some(context) => {
                let layout = self.writer.record_layout(kind, content.len());
                let (header, rest) = buffer.split_at_mut(layout.header().len());
                let (body, trailer) = rest.split_at_mut(content.len());
                header.copy_from_slice(layout.header());
                body.copy_from_slice(content);
                trailer.copy_from_slice(layout.trailer());
                let start = out.send.push(Payload::buffer(buffer, Some(context), false));
                self.writer.commit(start, content.len());
                out.counters.tls_tx_records_device += 1;
            }
            None => {
                self.writer.seal_into(kind, &[content], &mut buffer);
                out.send.push(Payload::plain(buffer));
                out.counters.tls_tx_records_sw += 1;
            }
        }
        out.tcp.queue(out.now, len);
        self.stats.sent += 1;
        Ok(())
    }

    /// Writes registered memory as application data, in place where the NIC encrypts. Answers how many bytes.
    pub fn write_slices(
        &mut self,
        slices: &[Slice],
        space: u32,
        out: &mut Outgoing<'_>,
    ) -> Result<usize, Refused> {
        let mut written = 0;
        let mut space = i64::from(space);
        let mut at = Cursor { slices, offset: 0 };
        while space > 0 {
            let mut record = [Slice {
                region: nic::ring::RegionId(0),
                offset: 0,
                len: 0,
            }; RECORD_SLICES];
            let (count, len) = at.take(
                &mut record,
                self.writer.max_plaintext().min(MAX_PLAINTEXT) as u32,
            );
            if len == 0 {
                break;
            }
            let before = out.send.end();
            let done = match self.transmit {
                Some(context) => self.frame_slices(context, &record[..count], len, out),
                None => self.seal_slices(&record[..count], len, out),
            };
            match done {
                Ok(()) => {}
                Err(refused @ Refused::SourceGone(_)) => return Err(refused),
                Err(refused) if written == 0 => return Err(refused),
                Err(_) => break,
            }
            self.stats.sent += 1;
            space -= i64::from(before.distance_to(out.send.end()));
            written += len as usize;
        }
        Ok(written)
    }

    fn frame_slices(
        &mut self,
        context: ContextId,
        slices: &[Slice],
        len: u32,
        out: &mut Outgoing<'_>,
    ) -> Result<(), Refused> {
        let layout = self
            .writer
            .record_layout(ContentType::APPLICATION_DATA, len as usize);
        let (header_len, trailer_len) = (layout.header().len(), layout.trailer().len());
        let around = out.driver.take_tail((header_len + trailer_len) as u32);
        let mut header = around.ok_or(Refused::NoMemory)?;
        let mut trailer: Buffer = header.split_off(header_len as u32);
        header.copy_from_slice(layout.header());
        trailer.copy_from_slice(layout.trailer());
        let start = out.send.push(Payload::buffer(header, Some(context), true));
        for &slice in slices {
            out.driver.regions.take(slice);
            out.send.push(Payload::region(slice, Some(context)));
        }
        out.send.push(Payload::buffer(trailer, Some(context), true));
        self.writer.commit(start, len as usize);
        out.tcp.queue(out.now, start.distance_to(out.send.end()));
        out.counters.tls_tx_records_device += 1;
        Ok(())
    }

    fn seal_slices(
        &mut self,
        slices: &[Slice],
        len: u32,
        out: &mut Outgoing<'_>,
    ) -> Result<(), Refused> {
        let record_len = self.writer.record_len(len as usize) as u32;
        let mut buffer = out.driver.take_tail(record_len).ok_or(Refused::NoMemory)?;
        let mut content: [&[u8]; RECORD_SLICES] = [&[]; RECORD_SLICES];
        for (bytes, slice) in content.iter_mut().zip(slices) {
            *bytes = out
                .driver
                .regions
                .bytes(*slice)
                .ok_or(Refused::SourceGone(*slice))?;
        }
        self.writer.seal_into(
            ContentType::APPLICATION_DATA,
            &content[..slices.len()],
            &mut buffer,
        );
        // A page that was lost while it was read has given zeroes, which are not to be sent.
        if let Some(gone) = slices
            .iter()
            .find(|slice| out.driver.regions.is_faulted(slice.region))
        {
            return Err(Refused::SourceGone(*gone));
        }
        out.send.push(Payload::plain(buffer));
        out.tcp.queue(out.now, record_len);
        out.counters.tls_tx_records_sw += 1;
        Ok(())
    }

    /// Tells the peer. If memory has run out it is not told: the end of the connection must do.
    pub fn send_alert(&mut self, alert: Alert, out: &mut Outgoing<'_>) {
        let _ = self.write_record(ContentType::ALERT, &alert.to_bytes(), out);
    }
}

/// Where the next record's content begins.
struct Cursor<'a> {
    slices: &'a [Slice],
    offset: u32,
}

impl Cursor<'_> {
    /// Takes slices for one record of at most `most` bytes; answers how many slices and bytes.
    fn take(&mut self, record: &mut [Slice; RECORD_SLICES], most: u32) -> (usize, u32) {
        let (mut count, mut len) = (0, 0);
        while count < RECORD_SLICES
            && len < most
            && let Some((slice, rest)) = self.slices.split_first()
        {
            let bytes = (slice.len - self.offset).min(most - len);
            if bytes > 0 {
                record[count] = Slice {
                    offset: slice.offset + u64::from(self.offset),
                    len: bytes,
                    ..*slice
                };
                count += 1;
                len += bytes;
            }
            self.offset += bytes;
            if self.offset == slice.len {
                self.slices = rest;
                self.offset = 0;
            }
        }
        (count, len)
    }
}
