//! Making records out of what the application writes.

use l5p::tls::{Alert, ContentType};
use nic::ring::ContextId;
use wire::SeqNum;

use super::session::Session;
use crate::driver::Payload;
use crate::layer5::{Outgoing, Refused};
use crate::memory::Purpose;

impl Session {
    /// Writes application data, as much as `space` and memory allow; answers how many bytes of it.
    pub fn write(
        &mut self,
        data: &[u8],
        space: u32,
        out: &mut Outgoing<'_>,
    ) -> Result<usize, Refused> {
        self.prepare_keys(out)?;
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

    /// Frames records of one length for the NIC, as many as one block holds: one piece of the send queue carries them all.
    fn frame(
        &mut self,
        context: ContextId,
        data: &[u8],
        space: u32,
        out: &mut Outgoing<'_>,
    ) -> Result<usize, Refused> {
        let kind = ContentType::APPLICATION_DATA;
        let content_len = data.len().min(self.writer.max_plaintext());
        let record_len = self.writer.record_len(content_len) as u32;
        let room = match out.driver.tail_room() {
            room if room >= record_len => room,
            _ => out.driver.piece_len(),
        };
        let records = (room / record_len).min(space.div_ceil(record_len));
        let records = records.min((data.len() / content_len) as u32);
        let len = records * record_len;
        let mut buffer = out.driver.take_tail(len).ok_or(Refused::NoMemory)?;
        // First what is around the contents, then the copies, which take the cache from it.
        let layouts = self.writer.record_layouts(kind, content_len);
        for (record, layout) in buffer.chunks_exact_mut(record_len as usize).zip(layouts) {
            let (header, trailer) = (layout.header(), layout.trailer());
            record[..header.len()].copy_from_slice(header);
            record[header.len() + content_len..].copy_from_slice(trailer);
        }
        self.commit(out.send.end(), content_len, records, out);
        let body = self.writer.record_header_len();
        let contents = data.chunks_exact(content_len);
        for (record, content) in buffer.chunks_exact_mut(record_len as usize).zip(contents) {
            wire::bulk::copy(content, &mut record[body..body + content_len]);
        }
        out.send.push(Payload::buffer(buffer, Some(context), false));
        out.tcp.queue(out.now, len);
        Ok(records as usize * content_len)
    }

    /// Notes that records for the NIC begin at `start`.
    pub(super) fn commit(
        &mut self,
        start: SeqNum,
        content_len: usize,
        records: u32,
        out: &mut Outgoing<'_>,
    ) {
        self.writer.commit_run(start, content_len, records);
        self.stats.sent += u64::from(records);
        out.counters.tls_tx_records_device += u64::from(records);
    }

    /// Writes one record: framed for the NIC, or sealed.
    ///
    /// # Errors
    /// There is no memory, or nothing more may be sent.
    #[inline]
    pub fn write_record(
        &mut self,
        kind: ContentType,
        content: &[u8],
        out: &mut Outgoing<'_>,
    ) -> Result<(), Refused> {
        let len = self.writer.record_len(content.len()) as u32;
        // The end of what is sent does not depend on how much data others leave unacknowledged.
        let buffer = match kind {
            ContentType::APPLICATION_DATA => out.driver.take_tail(len),
            _ => out.driver.take_tail_for(Purpose::Control, len),
        };
        let mut buffer = buffer.ok_or(Refused::NoMemory)?;
        // TCP must know of all that is in the send queue, so that its end is where the FIN is.
        if out.tcp.queue(out.now, len) != len {
            return Err(Refused::SendClosed);
        }
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
        self.stats.sent += 1;
        Ok(())
    }

    /// Tells the peer. If memory has run out, or the end of what is sent is queued already, it is not told: the end of the connection must do.
    pub fn send_alert(&mut self, alert: Alert, out: &mut Outgoing<'_>) {
        let _ = self.write_record(ContentType::ALERT, &alert.to_bytes(), out);
    }
}
