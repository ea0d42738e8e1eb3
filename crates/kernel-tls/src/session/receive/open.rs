//! Opening a record, whatever the NIC has done of it.

use std::ops::Range;

use attachment::results::{Span, What};
use l5p::tls::{ContentType, Location, Opened, Output, Piece, Reader, TlsError};
use wire::SeqNum;

use super::super::{LockedReceiving, Session};
use super::decryption::{self, Decryption};
use super::target::Target;
use super::{either, offload};
use crate::abi::RECORD_TYPE_DATA;
use crate::counters::{Counter, counters};
use crate::shared::Receiving;

impl Session {
    /// Opens the record at `start`, `rest` being what of it was not kept before. True when its content went to the target; else it is what is unread.
    pub(super) fn open(
        &self,
        receiving: &mut LockedReceiving<'_>,
        start: SeqNum,
        rest: &mut [u8],
        target: &mut Target<'_, '_>,
        peeks: bool,
    ) -> Result<bool, TlsError> {
        let results = self.results(receiving);
        let Ok((reader, state)) = receiving.parts() else {
            return Ok(false);
        };
        let kept = std::mem::take(&mut state.partial);
        let (first, len) = (&mut state.record[..kept], kept + rest.len());
        let offloaded = results.map_or(Decryption::None, |results| {
            let device = &mut state.device;
            offload::note_record(results, device, reader, start);
            let offloaded = decryption::of(results, device, start, len);
            device.flows = matches!(offloaded, Decryption::Full(_));
            offloaded
        });
        let direct = match target.record_type {
            None | Some(RECORD_TYPE_DATA) if !peeks => target.contiguous(),
            _ => &mut [],
        };
        let output = match direct.is_empty() {
            true => Output::InPlace,
            false => Output::To(direct),
        };
        let (epoch, done_by_nic) = (state.keys.epoch, counter_of(&offloaded));
        let (parts, mut joined) = ([first, &mut *rest], Vec::new());
        let opened = open_record(reader, epoch, offloaded, parts, output, &mut joined)?;
        state.count_opened(opened.len(), done_by_nic);
        let is_data = opened.content_type == ContentType::APPLICATION_DATA;
        let content = match opened.content {
            Location::Output(len) if is_data => {
                target.advance(len);
                return Ok(true);
            }
            // Alerts and handshake messages end the caller's run of data: they wait.
            Location::Output(bytes) => state.keep_content(&target.contiguous()[..bytes]),
            Location::Record(range) if !joined.is_empty() => state.keep_content(&joined[range]),
            Location::Record(range) if kept == 0 => state.keep_content(&rest[range]),
            Location::Record(range) => {
                state.record[kept..len].copy_from_slice(rest);
                range
            }
        };
        if content.is_empty() && is_data {
            target.record_type = target.record_type.or(Some(RECORD_TYPE_DATA));
            return Ok(true);
        }
        state.unread_type = opened.content_type.0;
        (state.unread_from, state.unread_to) = (content.start, content.end);
        (state.has_unread, state.unread_whole) = (true, true);
        Ok(false)
    }
}

impl Receiving {
    /// Counts a record that the reader has opened, so that there was a number for it.
    #[inline]
    pub(super) fn count_opened(&mut self, bytes: usize, done_by_nic: Option<Counter>) {
        self.keys.sequence += 1;
        counters().add(Counter::RxRecords, 1);
        counters().add(Counter::RxBytes, bytes as u64);
        if let Some(counter) = done_by_nic {
            counters().add(counter, 1);
        }
    }

    /// Keeps a record's content until it is read. Gives where in `record` it is.
    fn keep_content(&mut self, content: &[u8]) -> Range<usize> {
        self.record[..content.len()].copy_from_slice(content);
        0..content.len()
    }
}

/// What a record counts as of which the NIC has done this.
fn counter_of(offloaded: &Decryption) -> Option<Counter> {
    match offloaded {
        Decryption::None => None,
        Decryption::Partial(spans) if has_either(spans) => Some(Counter::RxDeviceEitherRecords),
        Decryption::Partial(_) => Some(Counter::RxDevicePartialRecords),
        Decryption::Full(_) => Some(Counter::RxDeviceRecords),
    }
}

fn has_either(spans: &[Span]) -> bool {
    spans
        .iter()
        .any(|span| matches!(span.what, What::Either(_)))
}

/// Opens a record that has come in two parts, of which the first may be empty, and of which the NIC has decrypted what `offloaded` says. The content is in
/// `joined` if that is filled.
pub(super) fn open_record(
    reader: &mut Reader,
    epoch: u32,
    offloaded: Decryption,
    parts: [&mut [u8]; 2],
    output: Output<'_>,
    joined: &mut Vec<u8>,
) -> Result<Opened, TlsError> {
    let [first, rest] = parts;
    match offloaded {
        Decryption::Partial(spans) if has_either(&spans) => {
            let record = &mut [&*first, &*rest].concat();
            either::open_either(reader, epoch, record, &spans, joined)
        }
        Decryption::Partial(spans) => {
            let tags: Vec<_> = spans
                .iter()
                .map(|span| match span.what {
                    What::Ciphertext => None,
                    What::Decrypted(tag) | What::Either(tag) => {
                        Some(decryption::reader_tag(reader, epoch, tag))
                    }
                })
                .collect();
            let mut pieces = decryption::cut([first, rest], &spans, &tags);
            reader.open(&mut pieces, output)
        }
        Decryption::None | Decryption::Full(_) => {
            let decrypted = match offloaded {
                Decryption::Full(tag) => Some(decryption::reader_tag(reader, epoch, tag)),
                _ => None,
            };
            let kept = first.len();
            let mut pieces = [first, rest].map(|bytes| Piece {
                data: bytes.into(),
                decrypted,
            });
            let pieces = match kept {
                0 => &mut pieces[1..],
                _ => &mut pieces[..],
            };
            reader.open(pieces, output)
        }
    }
}
