//! A protocol whose headers have many lengths, and whose data is padded to words before the digest, as iSCSI's.

use proptest::collection::vec;
use proptest::prelude::*;
use wire::SeqNum;

use crate::ProtocolId;
use crate::crc32c::Crc32c;
use crate::pdus::{DataDigest, Event, Layout, MAX_FRONT, Next, PduProtocol, Reader};

/// Whether there are digests.
#[derive(Clone, Copy, Debug)]
struct Padded {
    digests: bool,
}

/// The header: bytes of extension, bytes of data, and the extension.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Header {
    extension: u8,
    data_len: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("wrong header")]
struct Wrong;

impl PduProtocol for Padded {
    type Pdu = Header;
    type Prelude = u8;
    type Error = Wrong;

    const ID: ProtocolId = ProtocolId(0);
    const NAME: &'static str = "padded";
    const PRELUDE_LEN: usize = 1;

    fn begin(&self, prelude: &[u8]) -> Result<u8, Wrong> {
        (prelude[0] < 100).then_some(prelude[0]).ok_or(Wrong)
    }

    fn header_len(&self, extension: &u8) -> usize {
        2 + usize::from(*extension) + if self.digests { 4 } else { 0 }
    }

    fn parse(&self, extension: &u8, header: &[u8]) -> Result<(Header, Layout), Wrong> {
        let (fields, digest) = header.split_at(2 + usize::from(*extension));
        if self.digests && digest != Crc32c::of(fields).to_le_bytes() {
            return Err(Wrong);
        }
        let header = Header {
            extension: *extension,
            data_len: fields[1],
        };
        Ok((header, self.layout_of(&header)))
    }

    fn layout_of(&self, pdu: &Header) -> Layout {
        let header_len = self.header_len(&pdu.extension) as u32;
        let data_len = u32::from(pdu.data_len);
        Layout {
            header_len,
            data_start: header_len,
            data_len,
            padding: data_len.next_multiple_of(4) - data_len,
            data_digest: self.digests && data_len > 0,
        }
    }

    fn emit(&self, pdu: &Header, front: &mut [u8; MAX_FRONT]) -> Layout {
        let end = 2 + usize::from(pdu.extension);
        (front[0], front[1]) = (pdu.extension, pdu.data_len);
        if self.digests {
            let digest = Crc32c::of(&front[..end]).to_le_bytes();
            front[end..end + 4].copy_from_slice(&digest);
        }
        self.layout_of(pdu)
    }

    fn no_room(_: &Header) -> Wrong {
        Wrong
    }
}

/// The bytes of PDUs, each with its data.
fn on_wire(framing: Padded, pdus: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut stream = Vec::new();
    for (extension, data) in pdus {
        let mut front = [0; MAX_FRONT];
        let pdu = Header {
            extension: *extension,
            data_len: data.len() as u8,
        };
        let layout = framing.emit(&pdu, &mut front);
        stream.extend_from_slice(&front[..layout.data_start as usize]);
        let mut padded = data.clone();
        padded.resize(data.len() + layout.padding as usize, 0x5a);
        stream.extend_from_slice(&padded);
        if layout.data_digest {
            stream.extend_from_slice(&Crc32c::of(&*padded).to_le_bytes());
        }
    }
    stream
}

/// Reads a stream in pieces of one length, of which every second was placed. Gives the data of each PDU that had some, and what is
/// known of it.
fn read(framing: Padded, stream: &[u8], piece: usize) -> Vec<(Vec<u8>, DataDigest)> {
    let mut reader = Reader::new(framing, SeqNum(7));
    let (mut data, mut ended) = (Vec::new(), Vec::new());
    for (n, mut bytes) in stream.chunks(piece).enumerate() {
        while !bytes.is_empty() {
            let (taken, event) = match reader.next() {
                Next::Frame => reader.take(bytes, false).expect("headers are right"),
                Next::Data(range) => {
                    let len = range.len().min(bytes.len());
                    let to: &mut [u8] = &mut data[range.start as usize..][..len];
                    let event = if n % 2 == 0 {
                        reader.copy(&bytes[..len], to, false)
                    } else {
                        to.copy_from_slice(&bytes[..len]);
                        reader.pass(len as u32, false)
                    };
                    (len, event)
                }
                Next::Waiting => unreachable!("no PDU ends a phase"),
            };
            bytes = &bytes[taken..];
            match event {
                Some(Event::Header(pdu)) => data = vec![0; usize::from(pdu.data_len)],
                Some(Event::End(DataDigest::Unverified(from))) => {
                    let digest = reader.verify(&data[from as usize..]);
                    ended.push((std::mem::take(&mut data), digest));
                }
                Some(Event::End(digest)) => ended.push((std::mem::take(&mut data), digest)),
                None => {}
            }
        }
    }
    assert!(reader.is_at_boundary());
    assert_eq!(reader.position().0, SeqNum(7) + stream.len() as u32);
    ended
}

proptest! {
    #[test]
    fn padding_is_no_data_and_the_digest_covers_it(
        digests in any::<bool>(),
        pdus in vec((0..100u8, vec(any::<u8>(), 0..40)), 1..8),
        piece in 1..80usize,
    ) {
        let framing = Padded { digests };
        let expected: Vec<_> = pdus
            .iter()
            .filter(|(_, data)| !data.is_empty())
            .map(|(_, data)| (data.clone(), if digests { DataDigest::Good } else { DataDigest::None }))
            .collect();
        prop_assert_eq!(read(framing, &on_wire(framing, &pdus), piece), expected);
    }

    #[test]
    fn a_changed_byte_of_data_or_padding_is_found(
        data in vec(any::<u8>(), 1..40),
        at in any::<prop::sample::Index>(),
        change in 1..=255u8,
        piece in 1..80usize,
    ) {
        let framing = Padded { digests: true };
        let mut stream = on_wire(framing, &[(3, data.clone())]);
        let padded = data.len().next_multiple_of(4);
        stream[9 + at.index(padded)] ^= change;
        let read = read(framing, &stream, piece);
        prop_assert_eq!(read.len(), 1);
        prop_assert_eq!(read[0].1, DataDigest::Bad);
    }
}
