//! What each protocol in the list needs to be tested here: parameters, messages as a host frames them, and where their data belong.
//!
//! A protocol that joins the list joins these tests by a [`Sample`] of its own.

use std::ops::Range;

use l5p::crc32c::Crc32c;
use l5p::http;
use l5p::iscsi::{self, TaskTag};
use l5p::nbd::{self, Cookie};
use l5p::nvme::{self, Role};
use l5p::pattern::{self, Patterns, TABLES, WINDOW};
use l5p::pdus::{MAX_FRONT, PduProtocol};
use l5p::tls::{Algorithm, ContentType, CryptoInfo, Version, Writer};
use l5p::{Direction, Layers, Protocol, ProtocolId, Resource, ResourceId, ResultRing};
use wire::iscsi::{DataIn, Residual, ResponseNumbers, ScsiResponse};
use wire::nbd::{Chunk, ChunkType, Reply};
use wire::nvme::{C2HData, CapsuleResp, MAX_HEADER_LEN, Pdu};

/// Data of a message that belong into a mapped buffer: bytes `range` of the message are bytes `at..` of the buffer of `tag`.
#[derive(Clone, Debug)]
pub struct Data {
    pub range: Range<usize>,
    pub tag: u16,
    pub at: usize,
}

/// One protocol.
pub trait Sample {
    /// Its parameters, alike for both directions.
    fn layers(&self) -> Layers;

    /// Its parameters, and inside it these.
    fn around(&self, inside: &Layers) -> Layers;

    /// A message with this payload, as a host frames it for a NIC: with a dummy in place of what the NIC makes.
    fn message(&mut self, payload: &[u8]) -> Vec<u8>;

    /// Where the payload lies in a message.
    fn payload(&self, message: &[u8]) -> Range<usize>;

    /// A message that carries nothing of a protocol inside, if there are such.
    fn other(&mut self) -> Option<Vec<u8>> {
        None
    }

    /// What its contexts share, as the host loads it.
    fn resource(&self) -> Option<(ResourceId, &'static [u8])> {
        None
    }

    /// Length of every message, where all have the same and one may begin anywhere: then [`message`](Self::message) gives any part of the
    /// stream.
    fn window(&self) -> Option<usize> {
        None
    }

    /// Where data of the message made last belong.
    fn data(&self) -> Option<Data> {
        None
    }

    /// Bytes of the buffer that is mapped to each tag; empty if nothing is placed.
    fn buffers(&self) -> Vec<usize> {
        Vec::new()
    }
}

/// The sample of a protocol.
///
/// # Panics
/// When the list has a protocol that has no sample.
pub fn sample(id: ProtocolId) -> Box<dyn Sample> {
    let name = id.info().expect("a protocol in the list").name;
    match name {
        "tls" => Box::new(Tls::new()),
        "nvme-tcp" => Box::new(Nvme::default()),
        "nbd" => Box::new(Nbd::default()),
        "iscsi" => Box::new(Iscsi::default()),
        "pattern" => Box::new(Pattern),
        "http" => Box::new(Http),
        #[cfg(feature = "toy")]
        "toy" => Box::new(Toy::default()),
        _ => panic!("{name} is in the list of protocols and has no sample here: add one"),
    }
}

/// An engine of a protocol in the list, as a NIC makes one.
pub fn engine<P: Protocol>(id: ProtocolId, parameters: &P::Parameters, direction: Direction) -> P {
    let resource = sample(id).resource();
    let resource: Option<Resource> =
        resource.map(|(_, bytes)| P::make_resource(bytes, TABLES).expect("a resource"));
    P::create(parameters, direction, resource.as_ref()).expect("good parameters")
}

/// A search for patterns.
struct Pattern;

impl Pattern {
    const SET: ResourceId = ResourceId(3);
    const TEXT: &str = "ZZZ\nabc\n/a+[b-d]/";

    fn parameters() -> pattern::Parameters {
        let patterns = Patterns::parse(Self::TEXT, TABLES).expect("patterns");
        pattern::Parameters {
            set: Self::SET,
            fingerprint: patterns.fingerprint(),
        }
    }
}

impl Sample for Pattern {
    fn layers(&self) -> Layers {
        Layers::of(&Self::parameters())
    }

    fn around(&self, _: &Layers) -> Layers {
        unreachable!("it carries nothing")
    }

    fn message(&mut self, payload: &[u8]) -> Vec<u8> {
        payload.to_vec()
    }

    fn payload(&self, message: &[u8]) -> Range<usize> {
        0..message.len()
    }

    fn resource(&self) -> Option<(ResourceId, &'static [u8])> {
        Some((Self::SET, Self::TEXT.as_bytes()))
    }

    fn window(&self) -> Option<usize> {
        Some(WINDOW as usize)
    }
}

/// A stream that is no response: its engine gives up, and the stream passes. What it makes of responses the tests of `sim` hold.
struct Http;

impl Sample for Http {
    fn layers(&self) -> Layers {
        let (buffer_len, buffers) = (4096, 3);
        Layers::of(&http::Parameters {
            ring: ResultRing {
                buffer_len,
                buffers,
            },
        })
    }

    fn around(&self, _: &Layers) -> Layers {
        unreachable!("it carries nothing")
    }

    fn message(&mut self, payload: &[u8]) -> Vec<u8> {
        payload.to_vec()
    }

    fn payload(&self, message: &[u8]) -> Range<usize> {
        0..message.len()
    }

    fn window(&self) -> Option<usize> {
        Some(http::WINDOW as usize)
    }
}

/// TLS 1.3.
struct Tls {
    crypto: CryptoInfo,
    writer: Writer,
}

impl Tls {
    fn new() -> Tls {
        let crypto = CryptoInfo {
            version: Version::Tls13,
            algorithm: Algorithm::Aes128Gcm,
            key: [7; 32],
            iv: [9; 12],
            sequence: 300,
        };
        Tls {
            writer: Writer::new(crypto.clone()),
            crypto,
        }
    }
}

impl Sample for Tls {
    fn layers(&self) -> Layers {
        Layers::of(&self.crypto)
    }

    fn around(&self, inside: &Layers) -> Layers {
        inside.inside(&self.crypto)
    }

    fn message(&mut self, payload: &[u8]) -> Vec<u8> {
        let kind = ContentType::APPLICATION_DATA;
        let layout = self.writer.record_layout(kind, payload.len());
        [layout.header(), payload, layout.trailer()].concat()
    }

    fn payload(&self, message: &[u8]) -> Range<usize> {
        5..message.len() - 17
    }

    /// A ticket.
    fn other(&mut self) -> Option<Vec<u8>> {
        let layout = self.writer.record_layout(ContentType::HANDSHAKE, 200);
        Some([layout.header(), &[4; 200], layout.trailer()].concat())
    }
}

/// What a controller sends a host: data for commands, with digests, and completions between them.
#[derive(Default)]
struct Nvme {
    sent: usize,
    /// Bytes of each command's buffer that were filled.
    filled: [usize; TAGS],
    data: Option<Data>,
}

const TAGS: usize = 8;
const BUFFER: usize = 1 << 20;
/// Behind header and header digest.
const DATA_AT: usize = 28;

impl Nvme {
    fn parameters() -> nvme::Parameters {
        nvme::Parameters {
            sender: Role::Controller,
            header_digest: true,
            data_digest: true,
            alignment: 0,
            max_pdu: 1 << 17,
            commands: TAGS as u16,
        }
    }
}

impl Sample for Nvme {
    fn layers(&self) -> Layers {
        Layers::of(&Self::parameters())
    }

    fn around(&self, _: &Layers) -> Layers {
        panic!("NVMe/TCP carries no other protocol")
    }

    fn message(&mut self, payload: &[u8]) -> Vec<u8> {
        self.sent += 1;
        let tag = self.sent % TAGS;
        let at = self.filled[tag];
        let has_data = !payload.is_empty() && at + payload.len() <= BUFFER;
        self.data = has_data.then(|| Data {
            range: DATA_AT..DATA_AT + payload.len(),
            tag: tag as u16,
            at,
        });
        let pdu = match has_data {
            true => Pdu::C2HData(C2HData {
                cccid: tag as u16,
                data_offset: at as u32,
                data_len: payload.len() as u32,
                last: false,
                success: false,
            }),
            false => Pdu::CapsuleResp(CapsuleResp { cqe: [9; 16] }),
        };
        let mut header = [0; MAX_HEADER_LEN];
        let framing = Self::parameters().framing();
        let len = pdu.emit(&framing, &mut header);
        let mut message = header[..len].to_vec();
        message.extend(Crc32c::of(&message[..]).to_le_bytes());
        if has_data {
            self.filled[tag] += payload.len();
            message.extend(payload);
            message.extend([0; 4]);
        }
        message
    }

    fn payload(&self, message: &[u8]) -> Range<usize> {
        match message.len() {
            DATA_AT => DATA_AT..DATA_AT,
            len => DATA_AT..len - 4,
        }
    }

    fn data(&self) -> Option<Data> {
        self.data.clone()
    }

    fn buffers(&self) -> Vec<usize> {
        vec![BUFFER; TAGS]
    }
}

/// Replies to reads in chunks, and to other requests between them.
#[derive(Default)]
struct Nbd {
    sent: usize,
    /// Bytes of each read's buffer that were filled.
    filled: [usize; TAGS],
    data: Option<Data>,
}

/// Behind a chunk's header and its place in the export.
const CHUNK_DATA_AT: usize = 28;
/// Where in the export each read begins: 4 GiB end within it.
const EXPORT_AT: u64 = (3 << 32) - 5000;

impl Sample for Nbd {
    fn layers(&self) -> Layers {
        Layers::of(&nbd::Parameters {
            structured: true,
            tags: TAGS as u16,
            max_data: 1 << 17,
        })
    }

    fn around(&self, _: &Layers) -> Layers {
        panic!("NBD carries no other protocol")
    }

    fn message(&mut self, payload: &[u8]) -> Vec<u8> {
        self.sent += 1;
        let tag = self.sent % TAGS;
        let at = self.filled[tag];
        let has_data = !payload.is_empty() && at + payload.len() <= BUFFER;
        self.data = has_data.then(|| Data {
            range: CHUNK_DATA_AT..CHUNK_DATA_AT + payload.len(),
            tag: tag as u16,
            at,
        });
        let cookie = Cookie {
            tag: tag as u16,
            generation: 7,
            low: EXPORT_AT as u32,
        };
        let cookie = cookie.to_bits();
        let reply = match has_data {
            true => Reply::Chunk(Chunk {
                done: false,
                cookie,
                content: ChunkType::Data {
                    offset: EXPORT_AT + at as u64,
                    len: payload.len() as u32,
                },
            }),
            false => Reply::simple(cookie, Ok(())),
        };
        let mut message = reply.head().bytes().to_vec();
        if has_data {
            self.filled[tag] += payload.len();
            message.extend(payload);
        }
        message
    }

    fn payload(&self, message: &[u8]) -> Range<usize> {
        CHUNK_DATA_AT.min(message.len())..message.len()
    }

    fn data(&self) -> Option<Data> {
        self.data.clone()
    }

    fn buffers(&self) -> Vec<usize> {
        vec![BUFFER; TAGS]
    }
}

/// What a target sends: data of reads, with digests and padding, and statuses between them.
#[derive(Default)]
struct Iscsi {
    sent: usize,
    /// Bytes of each read's buffer that were filled.
    filled: [usize; TAGS],
    data: Option<Data>,
}

/// Behind a header and its digest.
const SEGMENT_AT: usize = 52;

impl Iscsi {
    fn parameters() -> iscsi::Parameters {
        iscsi::Parameters {
            sender: iscsi::Role::Target,
            header_digest: true,
            data_digest: true,
            tags: TAGS as u16,
            max_data: 1 << 17,
        }
    }
}

impl Sample for Iscsi {
    fn layers(&self) -> Layers {
        Layers::of(&Self::parameters())
    }

    fn around(&self, _: &Layers) -> Layers {
        panic!("iSCSI carries no other protocol")
    }

    fn message(&mut self, payload: &[u8]) -> Vec<u8> {
        self.sent += 1;
        let tag = self.sent % TAGS;
        let at = self.filled[tag];
        let has_data = !payload.is_empty() && at + payload.len() <= BUFFER;
        self.data = has_data.then(|| Data {
            range: SEGMENT_AT..SEGMENT_AT + payload.len(),
            tag: tag as u16,
            at,
        });
        let task_tag = TaskTag {
            tag: tag as u16,
            generation: 7,
        };
        let (task_tag, numbers) = (task_tag.to_bits(), ResponseNumbers::default());
        let pdu = match has_data {
            true => wire::iscsi::Pdu::DataIn(DataIn {
                is_final: false,
                status: None,
                task_tag,
                numbers,
                data_sn: 0,
                offset: at as u32,
                residual: Residual::None,
                data_len: payload.len() as u32,
            }),
            false => wire::iscsi::Pdu::ScsiResponse(ScsiResponse {
                response: 0,
                status: 0,
                task_tag,
                numbers,
                data_count: 0,
                residual: Residual::None,
                data_len: 0,
            }),
        };
        let mut front = [0; MAX_FRONT];
        let layout = Self::parameters().framing().emit(&pdu, &mut front);
        let mut message = front[..layout.data_start as usize].to_vec();
        if has_data {
            self.filled[tag] += payload.len();
            message.extend(payload);
        }
        message.resize(layout.len() as usize, 0);
        message
    }

    fn payload(&self, message: &[u8]) -> Range<usize> {
        match &self.data {
            Some(data) if message.len() > SEGMENT_AT => data.range.clone(),
            _ => message.len()..message.len(),
        }
    }

    fn data(&self) -> Option<Data> {
        self.data.clone()
    }

    fn buffers(&self) -> Vec<usize> {
        vec![BUFFER; TAGS]
    }
}

/// Parts of blobs.
#[cfg(feature = "toy")]
#[derive(Default)]
struct Toy {
    sent: usize,
    /// Bytes of each blob that were sent.
    filled: [usize; TAGS],
    data: Option<Data>,
}

#[cfg(feature = "toy")]
impl Sample for Toy {
    fn layers(&self) -> Layers {
        Layers::of(&l5p::toy::Parameters {
            tags: TAGS as u16,
            max_len: 1 << 17,
        })
    }

    fn around(&self, _: &Layers) -> Layers {
        panic!("the toy carries no other protocol")
    }

    fn message(&mut self, payload: &[u8]) -> Vec<u8> {
        self.sent += 1;
        let tag = self.sent % TAGS;
        let at = self.filled[tag];
        let payload = &payload[..payload.len().min(BUFFER - at)];
        self.filled[tag] += payload.len();
        let blob = l5p::toy::Blob {
            tag: tag as u16,
            offset: at as u32,
            len: payload.len() as u32,
        };
        let mut front = [0; MAX_FRONT];
        let layout = l5p::toy::Framing { max_len: 1 << 17 }.emit(&blob, &mut front);
        let range = layout.data();
        let range = range.start as usize..range.end as usize;
        let mut message = front[..range.start].to_vec();
        message.extend(payload);
        message.resize(layout.len() as usize, 0);
        self.data = (!payload.is_empty()).then_some(Data {
            range,
            tag: tag as u16,
            at,
        });
        message
    }

    fn payload(&self, message: &[u8]) -> Range<usize> {
        let end = message.len();
        self.data
            .as_ref()
            .map_or(end..end, |data| data.range.clone())
    }

    fn data(&self) -> Option<Data> {
        self.data.clone()
    }

    fn buffers(&self) -> Vec<usize> {
        vec![BUFFER; TAGS]
    }
}
