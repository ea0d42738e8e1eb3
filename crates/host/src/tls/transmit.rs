//! Making records out of what the application writes.

use l5p::tls::{Alert, ContentType, HEADER_LEN, Layout};
use nic::ring::{ContextId, RegionId, Slice};
use shared::SharedSlice;

use super::session::Session;
use crate::driver::Payload;
use crate::layer5::{Outgoing, Refused};
use crate::memory::SizeClass;

/// Slices of the application's memory in one record at most, so that one descriptor can name a whole record.
const RECORD_SLICES: usize = 24;
const NO_SLICES: [Slice; RECORD_SLICES] = [Slice {
    region: RegionId(0),
    offset: 0,
    len: 0,
}; RECORD_SLICES];
/// Records framed together.
const BATCH: u32 = 8;

impl Session {
    /// Writes application data, as much as `space` and memory allow; answers how many bytes of it.
    pub fn write(
        &mut self,
        data: &[u8],
        space: u32,
        out: &mut Outgoing<'_>,
    ) -> Result<usize, Refused> {
        self.update_worn_key(out);
        let end = out.send.end() + space;
        let mut written = 0;
        while written < data.len() && out.send.end().before(end) {
            let rest = &data[written..];
            let done = match self.tx.context {
                Some(context) => self.frame(context, rest, out.send.end().distance_to(end), out),
                None => {
                    let content = &rest[..rest.len().min(self.writer.max_plaintext())];
                    self.write_record(ContentType::APPLICATION_DATA, content, out)
                        .map(|()| content.len())
                }
            };
            match done {
                Ok(bytes) => written += bytes,
                Err(refused) if written == 0 => return Err(refused),
                Err(_) => break,
            }
        }
        Ok(written)
    }

    /// Frames records for the NIC, as many as one block holds: one piece of the send queue carries them all.
    fn frame(
        &mut self,
        context: ContextId,
        data: &[u8],
        space: u32,
        out: &mut Outgoing<'_>,
    ) -> Result<usize, Refused> {
        let most = self.writer.max_plaintext();
        let full = self.writer.record_len(most) as u32;
        let first = match data.len() {
            len if len >= most => full,
            len => self.writer.record_len(len) as u32,
        };
        let room = match out.driver.tail_room() {
            room if room >= first => room,
            _ => SizeClass::Large.bytes(),
        };
        let (mut len, mut taken) = (0, 0);
        for content in data.chunks(most) {
            let record = if content.len() == most {
                full
            } else {
                self.writer.record_len(content.len()) as u32
            };
            if len > 0 && (len + record > room || len >= space) {
                break;
            }
            len += record;
            taken += content.len();
        }
        let mut buffer = out.driver.take_tail(len).ok_or(Refused::NoMemory)?;
        let (start, mut at) = (out.send.end(), 0);
        // First all the bookkeeping, then the copies, which take the cache from it.
        let mut layout: Option<(usize, Layout)> = None;
        for content in data[..taken].chunks(most) {
            // Records of one length look the same, but for explicit nonces.
            let layout = match &layout {
                Some((len, layout))
                    if *len == content.len() && layout.header().len() == HEADER_LEN =>
                {
                    layout
                }
                _ => {
                    let kind = ContentType::APPLICATION_DATA;
                    let fresh = self.writer.record_layout(kind, content.len());
                    &layout.insert((content.len(), fresh)).1
                }
            };
            let (header, trailer) = (layout.header(), layout.trailer());
            let body = at + header.len();
            buffer[at..body].copy_from_slice(header);
            buffer[body + content.len()..][..trailer.len()].copy_from_slice(trailer);
            at += self.writer.commit(start + at as u32, content.len()).len as usize;
            self.stats.sent += 1;
            out.counters.tls_tx_records_device += 1;
        }
        let mut records = &mut buffer[..];
        for content in data[..taken].chunks(most) {
            let len = self.writer.record_len(content.len());
            let (record, rest) = records.split_at_mut(len);
            let body = self.writer.record_header_len();
            wire::bulk::copy(content, &mut record[body..body + content.len()]);
            records = rest;
        }
        out.send.push(Payload::buffer(buffer, Some(context), false));
        out.tcp.queue(out.now, len);
        Ok(taken)
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
        // A context that takes content for PDUs gets nothing else.
        match self.tx.context.filter(|_| self.inside_transmit.is_none()) {
            Some(context) => {
                let layout = self.writer.record_layout(kind, content.len());
                let (header, rest) = buffer.split_at_mut(layout.header().len());
                let (body, trailer) = rest.split_at_mut(content.len());
                header.copy_from_slice(layout.header());
                wire::bulk::copy(content, body);
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
        self.update_worn_key(out);
        let end = out.send.end() + space;
        let mut written = 0;
        let mut at = Cursor { slices, offset: 0 };
        while out.send.end().before(end) {
            let done = match self.tx.context {
                Some(context) => {
                    let space = out.send.end().distance_to(end);
                    self.frame_slices(context, &mut at, space, out)
                }
                None => {
                    let mut record = NO_SLICES;
                    let (count, len) = at.take(&mut record, self.writer.max_plaintext() as u32);
                    if len == 0 {
                        break;
                    }
                    self.seal_slices(&record[..count], len, out)
                }
            };
            match done {
                Ok(0) => break,
                Ok(bytes) => written += bytes as usize,
                Err(refused @ Refused::SourceGone(_)) => return Err(refused),
                Err(refused) if written == 0 => return Err(refused),
                Err(_) => break,
            }
        }
        Ok(written)
    }

    /// Frames up to [`BATCH`] records around the application's memory. What is between two contents, a trailer and the
    /// next header, is one piece.
    fn frame_slices(
        &mut self,
        context: ContextId,
        at: &mut Cursor<'_>,
        space: u32,
        out: &mut Outgoing<'_>,
    ) -> Result<u32, Refused> {
        let most = self.writer.max_plaintext() as u32;
        let (mut ahead, mut records, mut framed, mut around_len) = (*at, 0, 0, 0);
        while records < BATCH && framed < space {
            let mut record = NO_SLICES;
            let (_, len) = ahead.take(&mut record, most);
            if len == 0 {
                break;
            }
            let record_len = self.writer.record_len(len as usize) as u32;
            framed += record_len;
            around_len += record_len - len;
            records += 1;
        }
        if records == 0 {
            return Ok(0);
        }
        let mut around = out.driver.take_tail(around_len).ok_or(Refused::NoMemory)?;
        let first = out.send.end();
        let (mut start, mut taken, mut filled) = (first, 0, 0);
        for _ in 0..records {
            let mut record = NO_SLICES;
            let (count, len) = at.take(&mut record, most);
            let layout = self
                .writer
                .record_layout(ContentType::APPLICATION_DATA, len as usize);
            let (header, trailer) = (layout.header(), layout.trailer());
            around[filled..filled + header.len()].copy_from_slice(header);
            let rest = around.split_off((filled + header.len()) as u32);
            let before = std::mem::replace(&mut around, rest);
            out.send.push(Payload::buffer(before, Some(context), true));
            for &slice in &record[..count] {
                out.driver.regions.take(slice);
                out.send.push(Payload::region(slice, Some(context)));
            }
            filled = trailer.len();
            around[..filled].copy_from_slice(trailer);
            start += self.writer.commit(start, len as usize).len;
            taken += len;
        }
        out.send.push(Payload::buffer(around, Some(context), true));
        out.tcp.queue(out.now, first.distance_to(out.send.end()));
        out.counters.tls_tx_records_device += u64::from(records);
        self.stats.sent += u64::from(records);
        Ok(taken)
    }

    fn seal_slices(
        &mut self,
        slices: &[Slice],
        len: u32,
        out: &mut Outgoing<'_>,
    ) -> Result<u32, Refused> {
        let record_len = self.writer.record_len(len as usize) as u32;
        let mut buffer = out.driver.take_tail(record_len).ok_or(Refused::NoMemory)?;
        let mut content = [SharedSlice::NOTHING; RECORD_SLICES];
        for (bytes, slice) in content.iter_mut().zip(slices) {
            *bytes = out
                .driver
                .regions
                .view(*slice)
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
        self.stats.sent += 1;
        Ok(len)
    }

    /// Tells the peer. If memory has run out it is not told: the end of the connection must do.
    pub fn send_alert(&mut self, alert: Alert, out: &mut Outgoing<'_>) {
        let _ = self.write_record(ContentType::ALERT, &alert.to_bytes(), out);
    }
}

/// Where the next record's content begins.
#[derive(Clone, Copy)]
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
