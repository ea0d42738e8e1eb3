mod padded;

use proptest::collection::vec;
use proptest::prelude::*;
use wire::SeqNum;
use wire::nvme::{C2HData, CapsuleResp, Digests, FatalError, Framing, ICResp, Pdu, Phase, Role};

use super::{DataDigest, Event, Next, Reader};
use crate::crc32c::Crc32c;

fn framing(digests: Digests, alignment: u8) -> Framing {
    Framing {
        sender: Role::Controller,
        phase: Phase::Established,
        header_digest: digests.header,
        data_digest: digests.data,
        alignment,
        max_pdu: 1 << 20,
    }
}

fn data_pdu(data: &[u8]) -> Pdu {
    Pdu::C2HData(C2HData {
        cccid: 3,
        data_offset: 512,
        data_len: data.len() as u32,
        last: true,
        success: false,
    })
}

fn response() -> Pdu {
    Pdu::CapsuleResp(CapsuleResp { cqe: [7; 16] })
}

/// A PDU's bytes.
fn bytes_of(pdu: &Pdu, data: &[u8], framing: &Framing) -> Vec<u8> {
    let layout = framing.layout(pdu.pdu_type(), pdu.data_len());
    let mut bytes = vec![0; layout.pdu_len() as usize];
    let header = pdu.emit(framing, &mut bytes);
    if layout.header_digest {
        let digest = Crc32c::of(&bytes[..header]).to_le_bytes();
        bytes[header..header + 4].copy_from_slice(&digest);
    }
    let range = layout.data();
    bytes[range.start as usize..range.end as usize].copy_from_slice(data);
    if layout.data_digest {
        let at = range.end as usize;
        bytes[at..].copy_from_slice(&Crc32c::of(data).to_le_bytes());
    }
    bytes
}

/// What a stream held.
#[derive(Debug, Default, PartialEq)]
struct Held {
    headers: Vec<Pdu>,
    ends: Vec<DataDigest>,
    data: Vec<Vec<u8>>,
}

/// How a piece of the stream comes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Marks {
    Copied,
    Checked,
    Placed,
    PlacedAndChecked,
}

/// Reads a stream in pieces.
fn read(reader: &mut Reader<Framing>, pieces: &[(&[u8], Marks)]) -> Result<Held, FatalError> {
    let mut held = Held::default();
    for (piece, marks) in pieces {
        let checked = matches!(marks, Marks::Checked | Marks::PlacedAndChecked);
        let mut rest = *piece;
        while !rest.is_empty() {
            let (taken, event) = match reader.next() {
                Next::Frame => reader.take(rest, checked)?,
                Next::Data(range) => {
                    let len = range.len().min(rest.len());
                    let data = held.data.last_mut().expect("a header came before");
                    let to = &mut data[range.start as usize..][..len];
                    let event = if matches!(marks, Marks::Placed | Marks::PlacedAndChecked) {
                        to.copy_from_slice(&rest[..len]);
                        reader.pass(len as u32, checked)
                    } else {
                        reader.copy(&rest[..len], to, checked)
                    };
                    (len, event)
                }
                Next::Waiting => return Ok(held),
            };
            rest = &rest[taken..];
            match event {
                Some(Event::Header(pdu)) => {
                    if pdu.data_len() > 0 {
                        held.data.push(vec![0; pdu.data_len() as usize]);
                    }
                    held.headers.push(pdu);
                }
                Some(Event::End(DataDigest::Unverified(from))) => {
                    let data = held.data.last().expect("a header came before");
                    let digest = reader.verify(&data[from as usize..]);
                    held.ends.push(digest);
                }
                Some(Event::End(digest)) => held.ends.push(digest),
                None => {}
            }
        }
    }
    Ok(held)
}

fn marks() -> impl Strategy<Value = Marks> {
    prop::sample::select(vec![
        Marks::Copied,
        Marks::Checked,
        Marks::Placed,
        Marks::PlacedAndChecked,
    ])
}

fn digests() -> impl Strategy<Value = Digests> {
    any::<(bool, bool)>().prop_map(|(header, data)| Digests { header, data })
}

proptest! {
    #[test]
    fn a_stream_is_read_the_same_whatever_its_pieces_and_what_the_nic_did(
        digests in digests(),
        alignment in 0..4u8,
        payloads in vec(vec(any::<u8>(), 0..200), 1..6),
        cuts in vec((1..90usize, marks()), 1..30),
    ) {
        let framing = framing(digests, alignment);
        let mut stream = Vec::new();
        let mut expected = Held::default();
        for payload in &payloads {
            let pdu = if payload.is_empty() { response() } else { data_pdu(payload) };
            stream.extend(bytes_of(&pdu, payload, &framing));
            expected.headers.push(pdu);
            if !payload.is_empty() {
                expected.data.push(payload.clone());
                expected.ends.push(if digests.data { DataDigest::Good } else { DataDigest::None });
            }
        }
        let mut pieces = Vec::new();
        let mut rest = &stream[..];
        for (len, marks) in cuts.iter().cycle() {
            let (piece, more) = rest.split_at((*len).min(rest.len()));
            pieces.push((piece, *marks));
            rest = more;
            if rest.is_empty() {
                break;
            }
        }
        let start = SeqNum(0xffff_ffe0);
        let mut reader = Reader::new(framing, start);
        prop_assert_eq!(read(&mut reader, &pieces), Ok(expected));
        prop_assert!(reader.is_at_boundary());
        let end = (start + stream.len() as u32, payloads.len() as u64);
        prop_assert_eq!(reader.position(), end);
    }

    #[test]
    fn a_changed_byte_of_data_is_found_unless_the_nic_vouches_for_all(
        data in vec(any::<u8>(), 1..200),
        at in any::<prop::sample::Index>(),
        change in 1..=255u8,
        cuts in vec((1..90usize, marks()), 1..10),
    ) {
        let framing = framing(Digests::BOTH, 0);
        let mut stream = bytes_of(&data_pdu(&data), &data, &framing);
        let from = 28 + at.index(data.len());
        stream[from] ^= change;
        let mut pieces = Vec::new();
        let mut rest = &stream[28..];
        let mut vouched = true;
        for (len, marks) in cuts.iter().cycle() {
            let (piece, more) = rest.split_at((*len).min(rest.len()));
            pieces.push((piece, *marks));
            vouched &= matches!(marks, Marks::Checked | Marks::PlacedAndChecked);
            rest = more;
            if rest.is_empty() {
                break;
            }
        }
        pieces.insert(0, (&stream[..28], Marks::Copied));
        let held = read(&mut Reader::new(framing, SeqNum(0)), &pieces).expect("headers are right");
        let verdict = if vouched { DataDigest::Good } else { DataDigest::Bad };
        prop_assert_eq!(held.ends, vec![verdict]);
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        digests in digests(),
        bytes in vec(any::<u8>(), 0..300),
        sender in prop::sample::select(vec![Role::Host, Role::Controller]),
    ) {
        let framing = Framing { sender, ..framing(digests, 0) };
        let mut reader = Reader::new(framing, SeqNum(0));
        let _ = read(&mut reader, &[(&bytes, Marks::Copied)]);
        prop_assert!(reader.latest_header().len() <= 132);
    }
}

#[test]
fn what_nobody_wants_is_digested_all_the_same() {
    let framing = framing(Digests::BOTH, 0);
    for change in [0, 1] {
        let mut stream = bytes_of(&data_pdu(b"unwanted"), b"unwanted", &framing);
        stream[30] ^= change;
        let mut reader = Reader::new(framing, SeqNum(0));
        let (taken, _) = reader.take(&stream, true).expect("a header");
        assert_eq!(reader.next(), Next::Data(0..8));
        assert_eq!(reader.discard(&stream[taken..taken + 3]), None);
        assert_eq!(reader.discard(&stream[taken + 3..taken + 8]), None);
        let (_, event) = reader.take(&stream[taken + 8..], true).expect("a digest");
        let digest = [DataDigest::Good, DataDigest::Bad][usize::from(change)];
        assert_eq!(event, Some(Event::End(digest)));
    }
}

#[test]
fn a_wrong_header_digest_ends_the_connection_and_names_the_digest() {
    let framing = framing(Digests::BOTH, 0);
    let mut stream = bytes_of(&response(), &[], &framing);
    stream[10] ^= 1;
    let digest = u32::from_le_bytes(stream[24..28].try_into().expect("four bytes"));
    let mut reader = Reader::new(framing, SeqNum(0));
    assert_eq!(
        reader.take(&stream, true),
        Err(FatalError::header_digest(digest))
    );
    assert_eq!(reader.latest_header(), stream);
}

#[test]
fn a_header_is_refused_before_it_is_complete() {
    let mut reader = Reader::new(framing(Digests::NONE, 0), SeqNum(0));
    // CapsuleCmd is nothing that a controller sends.
    let common = [4, 0, 72, 0, 72, 0, 0, 0];
    assert_eq!(reader.take(&common[..7], false), Ok((7, None)));
    let refused = reader.take(&common[7..], false);
    assert_eq!(refused, Err(FatalError::field(0)));
    assert_eq!(reader.latest_header(), common);
}

#[test]
fn nothing_is_read_between_the_opening_pdu_and_what_it_leads_to() {
    let opening = Framing::initializing(Role::Controller);
    let established = framing(Digests::BOTH, 0);
    let resp = Pdu::ICResp(ICResp {
        pfv: 0,
        cpda: 0,
        digests: Digests::BOTH,
        max_h2c_data: 8192,
    });
    let mut stream = bytes_of(&resp, &[], &opening);
    let opening_len = stream.len();
    stream.extend(bytes_of(&response(), &[], &established));
    let mut reader = Reader::new(opening, SeqNum(0));
    let (taken, event) = reader.take(&stream, false).expect("right");
    assert_eq!((taken, event), (opening_len, Some(Event::Header(resp))));
    assert_eq!(reader.next(), Next::Waiting);
    reader.negotiated(established);
    let (_, event) = reader.take(&stream[taken..], false).expect("right");
    assert_eq!(event, Some(Event::Header(response())));
}
