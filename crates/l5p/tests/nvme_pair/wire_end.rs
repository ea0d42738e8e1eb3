//! PDUs as bytes, and back.

use l5p::crc32c::Crc32c;
use l5p::pdus::{DataDigest, Event, Next, Reader};
use wire::nvme::{FatalError, Framing, Pdu};

/// A PDU as it is on the wire.
pub fn to_bytes(pdu: &Pdu, data: &[u8], framing: &Framing) -> Vec<u8> {
    let layout = framing.layout(pdu.pdu_type(), pdu.data_len());
    assert_eq!(layout.data_len as usize, data.len());
    let mut bytes = vec![0; layout.pdu_len() as usize];
    let header_len = pdu.emit(framing, &mut bytes);
    let digest = Crc32c::of(&bytes[..header_len]).to_le_bytes();
    let place = layout.header_digest();
    bytes[place.start as usize..place.end as usize].copy_from_slice(&digest[..place.len()]);
    let place = layout.data();
    bytes[place.start as usize..place.end as usize].copy_from_slice(data);
    let digest = Crc32c::of(data).to_le_bytes();
    let place = layout.data_digest();
    bytes[place.start as usize..place.end as usize].copy_from_slice(&digest[..place.len()]);
    bytes
}

/// What came out of a PDU's bytes.
pub struct Received {
    pub pdu: Pdu,
    pub data: Vec<u8>,
    pub intact: bool,
}

/// Reads one PDU.
pub fn read(reader: &mut Reader<Framing>, mut bytes: &[u8]) -> Result<Received, FatalError> {
    let mut header = None;
    let mut data = Vec::new();
    loop {
        let (taken, event) = match reader.next() {
            Next::Frame => reader.take(bytes, false)?,
            Next::Data(range) => {
                let len = bytes.len().min(range.len());
                data.resize(range.start as usize + len, 0);
                let to = &mut data[range.start as usize..];
                (len, reader.copy(&bytes[..len], to, false))
            }
            Next::Waiting => panic!("both sides have agreed by now"),
        };
        bytes = &bytes[taken..];
        let intact = match event {
            None => {
                assert!(!bytes.is_empty(), "a PDU ends in its middle");
                continue;
            }
            Some(Event::Header(pdu)) => {
                header = Some(pdu);
                if pdu.data_len() > 0 {
                    continue;
                }
                true
            }
            Some(Event::End(DataDigest::None | DataDigest::Good)) => true,
            Some(Event::End(DataDigest::Bad)) => false,
            Some(Event::End(DataDigest::Unverified(_))) => panic!("all was digested"),
        };
        assert!(bytes.is_empty(), "more than one PDU");
        let pdu = header.expect("the header comes first");
        return Ok(Received { pdu, data, intact });
    }
}
