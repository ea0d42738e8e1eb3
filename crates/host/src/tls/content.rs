//! Records around content that lies in several places.

mod cursor;

use l5p::tls::{ContentType, Layout, MAX_HEADER, MAX_TRAILER};
use nic::ring::{ContextId, Slice};
use shared::Input;

use super::session::Session;
use crate::driver::{FrameLayout, Framed, Payload};
use crate::layer5::{Outgoing, Refused, Spans};
use crate::memory::SizeClass;
use crate::messages::Messages;
use cursor::{Cursor, PIECES, Piece, Record, Run};

/// A part of what is written.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content<'a> {
    /// Bytes that are copied.
    Bytes(&'a [u8]),
    /// Registered memory, sent in place where the NIC encrypts.
    Slices(&'a [Slice]),
}

/// Records framed together at most: what is around them is given back together.
const MAX_RUN: u32 = 256;
/// Bytes of a message's head at most that goes before the content of a record of a run.
const MAX_HEAD: usize = 128;
const _: () =
    assert!(MAX_RUN as usize * (MAX_HEADER + MAX_TRAILER) <= SizeClass::Large.bytes() as usize);

impl Session {
    /// Writes application data, all of it or none, in as few records as it takes, and notes in `spans` where it is if the NIC is to make
    /// digests in it. Answers how many bytes it is.
    pub fn write_content(
        &mut self,
        parts: &[Content<'_>],
        spans: &mut Spans,
        out: &mut Outgoing<'_>,
    ) -> Result<usize, Refused> {
        self.prepare_keys(out)?;
        let len: u64 = parts.iter().map(Content::len).sum();
        let most = self.writer.max_plaintext() as u32;
        let records = len / u64::from(most) + 1;
        let around = records * (self.writer.record_len(0) as u64);
        let copied = match self.tx.context {
            Some(_) => parts.iter().map(Content::copied_len).sum(),
            None => len,
        };
        if !out.driver.has_memory_for(around + copied) {
            return Err(Refused::NoMemory);
        }
        let mut cursor = Cursor::new(parts);
        let is_slices = |part: &Content<'_>| matches!(part, Content::Slices(_)) && part.len() > 0;
        let has_slices = parts.iter().any(is_slices);
        while let Some(record) = cursor.take(most) {
            match self.tx.context {
                Some(context) => {
                    let start = out.send.end();
                    // What the NIC digests is as changeable as what it reads for that.
                    let mutable =
                        record.is_mutable() || (has_slices && self.inside_transmit.is_some());
                    self.frame_record(context, &record, mutable, out)?;
                    if self.inside_transmit.is_some() {
                        let header_len = self.writer.record_header_len() as u32;
                        spans.push(start, start + header_len, record.len);
                    }
                }
                None => self.seal_record(&record, out)?,
            }
        }
        Ok(len as usize)
    }

    /// Writes registered memory as application data, in place where the NIC encrypts. Answers how many bytes.
    pub fn write_slices(
        &mut self,
        slices: &[Slice],
        space: u32,
        out: &mut Outgoing<'_>,
    ) -> Result<usize, Refused> {
        self.prepare_keys(out)?;
        let end = out.send.end() + space;
        let most = self.writer.max_plaintext() as u32;
        let full = self.writer.record_len(most as usize) as u32;
        let parts = [Content::Slices(slices)];
        let mut cursor = Cursor::new(&parts);
        let mut written = 0;
        while out.send.end().before(end) {
            let records = out.send.end().distance_to(end).div_ceil(full).min(MAX_RUN);
            let run = self.tx.context.and_then(|context| {
                let contents = cursor.take_run(most, records)?;
                Some((context, contents))
            });
            let done = match run {
                Some((context, contents)) => self.frame_run(context, contents, out),
                None => {
                    let Some(record) = cursor.take(most) else {
                        break;
                    };
                    let done = match self.tx.context {
                        Some(context) => self.frame_record(context, &record, true, out),
                        None => self.seal_record(&record, out),
                    };
                    done.map(|()| record.len)
                }
            };
            match done {
                Ok(bytes) => written += bytes as usize,
                Err(refused @ Refused::SourceGone(_)) => return Err(refused),
                Err(refused) if written == 0 => return Err(refused),
                Err(_) => break,
            }
        }
        Ok(written)
    }

    /// Writes messages, each as one record where it fits one, as many as there is room for. Answers how many bytes.
    pub fn write_messages(
        &mut self,
        messages: &Messages<'_>,
        space: u32,
        out: &mut Outgoing<'_>,
    ) -> Result<usize, Refused> {
        self.prepare_keys(out)?;
        let len = messages.message_len();
        let is_record = len <= self.writer.max_plaintext() && messages.head_len() <= MAX_HEAD;
        if let Some(context) = self.tx.context.filter(|_| is_record) {
            let around = messages.head_len() + MAX_HEADER + MAX_TRAILER;
            let most = SizeClass::Large.bytes() / around as u32;
            let record = self.writer.record_len(len) as u32;
            let records = space.div_ceil(record).min(most).min(messages.count());
            return Ok(self.frame_run(context, messages.first(records).into(), out)? as usize);
        }
        let end = out.send.end() + space;
        let mut written = 0;
        for (head, slice) in messages.iter() {
            if !out.send.end().before(end) {
                break;
            }
            let parts = [Content::Bytes(head), Content::Slices(&[slice])];
            match self.write_content(&parts, &mut Spans::default(), out) {
                Ok(bytes) => written += bytes,
                Err(refused @ Refused::SourceGone(_)) => return Err(refused),
                Err(refused) if written == 0 => return Err(refused),
                Err(_) => break,
            }
        }
        Ok(written)
    }

    /// Frames records of one length for the NIC, around contents that lie together: one piece of the send queue carries them all.
    /// Answers how many bytes of content they have, with the heads in it.
    fn frame_run(
        &mut self,
        context: ContextId,
        contents: Run<'_>,
        out: &mut Outgoing<'_>,
    ) -> Result<u32, Refused> {
        let head = contents.heads.len() / contents.records as usize;
        let content = contents.slice.len / contents.records;
        let plaintext = head + content as usize;
        let kind = ContentType::APPLICATION_DATA;
        let first = self.writer.record_layout(kind, plaintext);
        let layout = FrameLayout {
            header: (first.header().len() + head) as u8,
            trailer: first.trailer().len() as u8,
            content: content as u16,
        };
        let around = contents.records * layout.around();
        let mut around = out.driver.take_tail(around).ok_or(Refused::NoMemory)?;
        let layouts = self.writer.record_layouts(kind, plaintext);
        let each = around.chunks_exact_mut(layout.around() as usize);
        let mut heads = contents.heads;
        for (around, layout) in each.zip(layouts) {
            let (header, rest) = around.split_at_mut(layout.header().len());
            let (before, trailer) = rest.split_at_mut(head);
            header.copy_from_slice(layout.header());
            before.copy_from_slice(heads.split_off(..head).unwrap_or_default());
            trailer.copy_from_slice(layout.trailer());
        }
        out.driver.regions.take(contents.slice);
        let framed = Framed::new(contents.slice, around, layout);
        let len = framed.len();
        let start = out.send.push(Payload::framed(framed, context));
        self.commit(start, plaintext, contents.records, out);
        out.tcp.queue(out.now, len);
        Ok(contents.slice.len + contents.heads.len() as u32)
    }

    /// Frames a record for the NIC, which must prove that it sends nothing else again if it depends on memory that others may
    /// change.
    fn frame_record(
        &mut self,
        context: ContextId,
        record: &Record<'_>,
        mutable: bool,
        out: &mut Outgoing<'_>,
    ) -> Result<(), Refused> {
        let kind = ContentType::APPLICATION_DATA;
        let layout: Layout = self.writer.record_layout(kind, record.len as usize);
        let (header, trailer) = (layout.header(), layout.trailer());
        let len = header.len() as u32 + record.copied + trailer.len() as u32;
        let mut buffer = out.driver.take_tail(len).ok_or(Refused::NoMemory)?;
        let start = out.send.end();
        let mut filled = header.len();
        buffer[..filled].copy_from_slice(header);
        for piece in record.pieces() {
            match *piece {
                Piece::Bytes(bytes) => {
                    wire::bulk::copy(bytes, &mut buffer[filled..filled + bytes.len()]);
                    filled += bytes.len();
                }
                Piece::Slice(slice) => {
                    if filled > 0 {
                        let rest = buffer.split_off(filled as u32);
                        let before = std::mem::replace(&mut buffer, rest);
                        out.send
                            .push(Payload::buffer(before, Some(context), mutable));
                        filled = 0;
                    }
                    out.driver.regions.take(slice);
                    out.send.push(Payload::region(slice, Some(context)));
                }
            }
        }
        buffer[filled..].copy_from_slice(trailer);
        out.send
            .push(Payload::buffer(buffer, Some(context), mutable));
        self.commit(start, record.len as usize, 1, out);
        out.tcp.queue(out.now, start.distance_to(out.send.end()));
        Ok(())
    }

    fn seal_record(&mut self, record: &Record<'_>, out: &mut Outgoing<'_>) -> Result<(), Refused> {
        let len = self.writer.record_len(record.len as usize) as u32;
        let mut buffer = out.driver.take_tail(len).ok_or(Refused::NoMemory)?;
        let mut content = [Input::Own(&[]); PIECES];
        for (bytes, piece) in content.iter_mut().zip(record.pieces()) {
            *bytes = piece.bytes(&out.driver.regions)?;
        }
        self.writer.seal_into(
            ContentType::APPLICATION_DATA,
            &content[..record.count],
            &mut buffer,
        );
        // A page that was lost while it was read has given zeroes, which are not to be sent.
        for piece in record.pieces() {
            if let Piece::Slice(slice) = *piece
                && out.driver.regions.is_faulted(slice.region)
            {
                return Err(Refused::SourceGone(slice));
            }
        }
        // It has been copied: who watches the region hears that it is free, as of what is sent in place.
        for piece in record.pieces() {
            if let Piece::Slice(slice) = *piece {
                out.driver.regions.take(slice);
                out.driver.regions.give_back(slice);
            }
        }
        out.send.push(Payload::plain(buffer));
        out.tcp.queue(out.now, len);
        out.counters.tls_tx_records_sw += 1;
        self.stats.sent += 1;
        Ok(())
    }
}

impl Content<'_> {
    fn len(&self) -> u64 {
        match self {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::Slices(slices) => slices.iter().map(|slice| u64::from(slice.len)).sum(),
        }
    }

    fn copied_len(&self) -> u64 {
        match self {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::Slices(_) => 0,
        }
    }
}
