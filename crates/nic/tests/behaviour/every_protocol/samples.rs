//! What each protocol in the list needs to be tested here: parameters, messages as a host frames them, and where their data belong.
//!
//! A protocol that joins the list joins these tests by a [`Sample`] of its own.

use std::marker::PhantomData;
use std::ops::Range;

use l5p::http;
use l5p::iscsi::{self, TaskTag};
use l5p::nbd::{self, Cookie};
use l5p::nvme::{self, Role};
use l5p::pattern::{self, Patterns, TABLES, WINDOW};
use l5p::pdus::{MAX_FRONT, PduProtocol};
use l5p::tls::{ContentType, CryptoInfo, Writer};
use l5p::{Direction, Layers, Protocol, ProtocolId, Resource, ResourceId, ResultRing};
use testkit::fixtures;
use testkit::pdus::PduStream;
use wire::iscsi::{DataIn, Residual, ResponseNumbers, ScsiResponse};
use wire::nbd::{Chunk, ChunkType, Reply};
use wire::nvme::{C2HData, CapsuleResp, Pdu};

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

    /// Its parameters, and inside it these, if it carries others.
    fn around(&self, _inside: &Layers) -> Layers {
        unreachable!("it carries nothing")
    }

    /// A message with this payload, as a host frames it for a NIC: with a dummy in place of what the NIC makes.
    fn message(&mut self, payload: &[u8]) -> Vec<u8>;

    /// Where the payload lies in a message, if it carries others.
    fn payload(&self, _message: &[u8]) -> Range<usize> {
        unreachable!("it carries nothing")
    }

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
        "nvme-tcp" => placing::<Nvme>(),
        "nbd" => placing::<Nbd>(),
        "iscsi" => placing::<Iscsi>(),
        "pattern" => Box::new(Pattern),
        "http" => Box::new(Http),
        #[cfg(feature = "toy")]
        "toy" => placing::<Toy>(),
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

    fn message(&mut self, payload: &[u8]) -> Vec<u8> {
        payload.to_vec()
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

    fn message(&mut self, payload: &[u8]) -> Vec<u8> {
        payload.to_vec()
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
            sequence: 300,
            ..fixtures::aes_128_gcm()
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

const TAGS: usize = 8;
const BUFFER: usize = 1 << 20;

/// A protocol whose data are placed in mapped buffers.
trait Placed {
    fn layers() -> Layers;

    /// A message with data that belong at a place of a tag's buffer, and where in it they are; without data, what comes between such
    /// messages.
    fn frame(tag: u16, at: usize, data: &[u8]) -> (Vec<u8>, Range<usize>);
}

/// Messages with data for one tag after the other, as long as their buffers have room.
struct Placing<P> {
    sent: usize,
    /// Bytes of each buffer that were filled.
    filled: [usize; TAGS],
    data: Option<Data>,
    protocol: PhantomData<P>,
}

fn placing<P: Placed + 'static>() -> Box<dyn Sample> {
    Box::new(Placing::<P> {
        sent: 0,
        filled: [0; TAGS],
        data: None,
        protocol: PhantomData,
    })
}

impl<P: Placed> Sample for Placing<P> {
    fn layers(&self) -> Layers {
        P::layers()
    }

    fn message(&mut self, payload: &[u8]) -> Vec<u8> {
        self.sent += 1;
        let tag = self.sent % TAGS;
        let at = self.filled[tag];
        let data = match at + payload.len() <= BUFFER {
            true => payload,
            false => &[],
        };
        self.filled[tag] += data.len();
        let (message, range) = P::frame(tag as u16, at, data);
        let tag = tag as u16;
        self.data = (!data.is_empty()).then_some(Data { range, tag, at });
        message
    }

    fn data(&self) -> Option<Data> {
        self.data.clone()
    }

    fn buffers(&self) -> Vec<usize> {
        vec![BUFFER; TAGS]
    }
}

/// What a controller sends a host: data for commands, with digests, and completions between them.
struct Nvme;

impl Nvme {
    fn parameters() -> nvme::Parameters {
        nvme::Parameters {
            max_pdu: 1 << 17,
            commands: TAGS as u16,
            ..fixtures::nvme(Role::Controller, true, true)
        }
    }
}

impl Placed for Nvme {
    fn layers() -> Layers {
        Layers::of(&Self::parameters())
    }

    fn frame(tag: u16, at: usize, data: &[u8]) -> (Vec<u8>, Range<usize>) {
        let pdu = match data {
            [] => Pdu::CapsuleResp(CapsuleResp { cqe: [9; 16] }),
            _ => Pdu::C2HData(C2HData {
                cccid: tag,
                data_offset: at as u32,
                data_len: data.len() as u32,
                last: false,
                success: false,
            }),
        };
        let mut stream = PduStream::new(&Self::parameters(), &[]);
        let ranges = stream.push_pdu(&pdu, |n| data[n]);
        (stream.framed, ranges.data)
    }
}

/// Replies to reads in chunks, and to other requests between them.
struct Nbd;

/// Where in the export each read begins: 4 GiB end within it.
const EXPORT_AT: u64 = (3 << 32) - 5000;

impl Placed for Nbd {
    fn layers() -> Layers {
        Layers::of(&nbd::Parameters {
            structured: true,
            tags: TAGS as u16,
            max_data: 1 << 17,
        })
    }

    fn frame(tag: u16, at: usize, data: &[u8]) -> (Vec<u8>, Range<usize>) {
        let cookie = Cookie {
            tag,
            generation: 7,
            low: EXPORT_AT as u32,
        };
        let cookie = cookie.to_bits();
        let content = ChunkType::Data {
            offset: EXPORT_AT + at as u64,
            len: data.len() as u32,
        };
        let reply = match data {
            [] => Reply::simple(cookie, Ok(())),
            _ => Reply::Chunk(Chunk {
                done: false,
                cookie,
                content,
            }),
        };
        behind(reply.head().bytes(), data)
    }
}

/// A message that has data behind its header.
fn behind(header: &[u8], data: &[u8]) -> (Vec<u8>, Range<usize>) {
    let message = [header, data].concat();
    let range = header.len()..message.len();
    (message, range)
}

/// What a target sends: data of reads, with digests and padding, and statuses between them.
struct Iscsi;

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

impl Placed for Iscsi {
    fn layers() -> Layers {
        Layers::of(&Self::parameters())
    }

    fn frame(tag: u16, at: usize, data: &[u8]) -> (Vec<u8>, Range<usize>) {
        let task_tag = TaskTag { tag, generation: 7 };
        let (task_tag, numbers) = (task_tag.to_bits(), ResponseNumbers::default());
        let pdu = match data {
            [] => wire::iscsi::Pdu::ScsiResponse(ScsiResponse {
                response: 0,
                status: 0,
                task_tag,
                numbers,
                data_count: 0,
                residual: Residual::None,
                data_len: 0,
            }),
            _ => wire::iscsi::Pdu::DataIn(DataIn {
                is_final: false,
                status: None,
                task_tag,
                numbers,
                data_sn: 0,
                offset: at as u32,
                residual: Residual::None,
                data_len: data.len() as u32,
            }),
        };
        let mut front = [0; MAX_FRONT];
        let layout = Self::parameters().framing().emit(&pdu, &mut front);
        let (mut message, range) = behind(&front[..layout.data_start as usize], data);
        message.resize(layout.len() as usize, 0);
        (message, range)
    }
}

/// Parts of blobs.
#[cfg(feature = "toy")]
struct Toy;

#[cfg(feature = "toy")]
impl Placed for Toy {
    fn layers() -> Layers {
        Layers::of(&l5p::toy::Parameters {
            tags: TAGS as u16,
            max_len: 1 << 17,
        })
    }

    fn frame(tag: u16, at: usize, data: &[u8]) -> (Vec<u8>, Range<usize>) {
        let blob = l5p::toy::Blob {
            tag,
            offset: at as u32,
            len: data.len() as u32,
        };
        let mut front = [0; MAX_FRONT];
        let layout = l5p::toy::Framing { max_len: 1 << 17 }.emit(&blob, &mut front);
        let (mut message, range) = behind(&front[..layout.data().start as usize], data);
        message.resize(layout.len() as usize, 0);
        (message, range)
    }
}
