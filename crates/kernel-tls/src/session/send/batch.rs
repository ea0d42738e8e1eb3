//! Records in a row as the NIC is to be given them: header, content, room for the integrity check value. Which byte of them is of what.

use std::ops::Range;

use l5p::tls::{ContentType, HEADER_LEN, ICV_LEN};
use wire::tls::{RecordHeader, VERSION_TLS12};

use crate::session::{DeviceEpoch, Permit};

/// Most records of a batch.
pub(super) const MOST_RECORDS: usize = 32;
/// Most bytes of a record's trailer and the next one's header together.
pub(super) const MAX_FRAMING: usize = HEADER_LEN + EXPLICIT_NONCE + 1 + ICV_LEN;
/// Bytes of the nonce that TLS 1.2 has in each record of AES-GCM (RFC 5288 §3).
const EXPLICIT_NONCE: usize = 8;

/// Records that begin with the direction's next one. All but the last have as much content as a record takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch<'e> {
    record_type: u8,
    is_tls13: bool,
    /// The explicit nonce of record 0, if there are any.
    first_nonce: Option<u64>,
    /// Number of the first record.
    first: u64,
    /// Bytes of content, and most of a record.
    content: usize,
    most: usize,
    /// For as long as it is there.
    permit: Permit<'e>,
}

impl<'e> Batch<'e> {
    /// A batch with so much content, as far as [`MOST_RECORDS`] take it, and as there are numbers for records. `None` for a direction without keys, or without
    /// another number.
    pub(super) fn new(
        epoch: &DeviceEpoch<'e>,
        record_type: u8,
        content: usize,
    ) -> Option<Batch<'e>> {
        let keys = &epoch.keys;
        let most = MOST_RECORDS.min(usize::try_from(keys.numbers_left()).unwrap_or(usize::MAX));
        (keys.are_set && most > 0).then(|| Batch {
            record_type,
            is_tls13: keys.is_tls13,
            first_nonce: keys.has_nonces.then_some(keys.first_nonce),
            first: keys.sequence,
            content: content.min(most * epoch.max_content()),
            most: epoch.max_content(),
            permit: epoch.permit(),
        })
    }

    /// The same behind one more record.
    pub(super) fn behind_another(self) -> Batch<'e> {
        let first = self.first.wrapping_add(1);
        Batch { first, ..self }
    }

    /// To give the records to the socket.
    pub(super) fn permit(&self) -> Permit<'e> {
        self.permit
    }

    /// Number of records.
    pub(super) fn records(&self) -> usize {
        self.content.div_ceil(self.most)
    }

    /// Bytes of content in the first `records`.
    pub(super) fn content_of(&self, records: usize) -> usize {
        self.content.min(records * self.most)
    }

    /// Bytes of the first `records`.
    pub(super) fn len_of(&self, records: usize) -> usize {
        self.content_of(records) + records * self.overhead()
    }

    /// How many records have a byte among the first `bytes`.
    pub(super) fn begun(&self, bytes: usize) -> usize {
        bytes
            .div_ceil(self.most + self.overhead())
            .min(self.records())
    }

    /// Bytes of the content of a record, within the batch's.
    pub(super) fn content_range(&self, record: usize) -> Range<usize> {
        record * self.most..self.content_of(record + 1)
    }

    pub(super) fn header_len(&self) -> usize {
        HEADER_LEN + self.first_nonce.map_or(0, |_| EXPLICIT_NONCE)
    }

    pub(super) fn trailer_len(&self) -> usize {
        ICV_LEN + usize::from(self.is_tls13)
    }

    fn overhead(&self) -> usize {
        self.header_len() + self.trailer_len()
    }

    /// Bytes of all headers and trailers.
    pub(super) fn framing_len(&self) -> usize {
        self.records() * self.overhead()
    }

    /// Where, among the headers and trailers, those lie that come before a record's content; for [`records`](Self::records) the last trailer.
    pub(super) fn framing_range(&self, record: usize) -> Range<usize> {
        let end = |record: usize| record * self.overhead() + self.header_len();
        match record {
            0 => 0..end(0),
            _ if record == self.records() => end(record - 1)..self.framing_len(),
            _ => end(record - 1)..end(record),
        }
    }

    /// Writes headers and trailers one behind the other, the integrity check values as zeros.
    pub(super) fn write_framing(&self, to: &mut [u8]) {
        let overhead = self.overhead();
        for (record, framing_range) in to
            .chunks_exact_mut(overhead)
            .enumerate()
            .take(self.records())
        {
            let content = self.content_range(record).len();
            let (header, trailer) = framing_range.split_at_mut(self.header_len());
            self.write_header(self.first.wrapping_add(record as u64), content, header);
            self.write_trailer(trailer);
        }
    }

    fn write_header(&self, number: u64, content: usize, to: &mut [u8]) {
        let content_type = match self.is_tls13 {
            true => ContentType::APPLICATION_DATA,
            false => ContentType(self.record_type),
        };
        let header = RecordHeader {
            content_type,
            version: VERSION_TLS12,
            length: (self.overhead() - HEADER_LEN + content) as u16,
        };
        header.emit(to);
        if let Some(first) = self.first_nonce {
            let nonce = first.wrapping_add(number).to_be_bytes();
            to[HEADER_LEN..].copy_from_slice(&nonce);
        }
    }

    fn write_trailer(&self, to: &mut [u8]) {
        to.fill(0);
        if self.is_tls13 {
            to[0] = self.record_type;
        }
    }

    /// In TLS 1.3 a record that has less content than its header says can be ended: its type, then padding (RFC 8446 §5.4).
    pub(super) fn can_pad(&self) -> bool {
        self.is_tls13
    }
}

#[cfg(test)]
mod tests;
