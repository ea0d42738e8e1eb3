//! What is sent: I/Os as PDUs, and records around them.

use std::ops::Range;

use l5p::nvme::Parameters;
use l5p::tls::{ContentType, CryptoInfo, Writer};
use wire::SeqNum;
use wire::nvme::{C2HData, CapsuleCmd, CapsuleResp, H2CData, Pdu, Role};

/// An I/O whose data come in data PDUs.
#[derive(Debug, Clone)]
pub struct Io {
    /// Bytes of data.
    pub len: u32,
    /// Bytes of each PDU but the last.
    pub pdu: u32,
    /// Pieces that the receiver's buffer is scattered over; 0 if it maps none.
    pub pieces: u32,
}

/// I/Os that are in flight together: their PDUs come in any order. An I/O's tag is its place among them.
pub type Batch = Vec<Io>;

/// A range of the stream, and the byte of an I/O that it begins with.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    pub from: u32,
    pub to: u32,
    /// Number of the I/O in all batches.
    pub io: usize,
    pub at: u32,
}

/// A stream with all that is to be known of it. Offsets are counted from its first byte.
pub struct Stream {
    pub parameters: Parameters,
    pub crypto: Option<CryptoInfo>,
    pub start: SeqNum,
    /// As the sending host's memory has it, with dummies where its NIC puts something.
    pub framed: Vec<u8>,
    /// As it is on the wire.
    pub wire: Vec<u8>,
    /// As a NIC shows it that decrypts.
    pub opened: Vec<u8>,
    /// Messages of the outermost protocol.
    pub messages: Vec<Range<u32>>,
    /// PDUs and their data digests, in what the records contain.
    pub pdus: Vec<(Range<u32>, Range<u32>)>,
    /// The content of each message in what all contain, and where it begins in the stream. Without TLS, everything.
    pub contents: Vec<(Range<u32>, u32)>,
    pub ios: Vec<Io>,
    pub extents: Vec<Extent>,
    /// Of each batch, the end of its I/Os' numbers and of its bytes.
    pub batches: Vec<(usize, u32)>,
}

/// Byte `at` of an I/O's data.
pub fn byte(io: usize, at: u32) -> u8 {
    (at * 7 + (at >> 8) * 3 + (io % 100) as u32 * 31 + 1) as u8
}

/// CRC-32C, bit by bit: the definition.
fn crc32c(bytes: &[u8]) -> [u8; 4] {
    let crc = bytes.iter().fold(!0u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            crc >> 1 ^ (0x82f6_3b78 & (crc & 1).wrapping_neg())
        })
    });
    (!crc).to_le_bytes()
}

fn range(range: Range<u32>) -> Range<usize> {
    range.start as usize..range.end as usize
}

/// PDUs without anything around them.
struct Plain {
    parameters: Parameters,
    framed: Vec<u8>,
    sent: Vec<u8>,
    pdus: Vec<(Range<u32>, Range<u32>)>,
    extents: Vec<Extent>,
}

impl Plain {
    fn push(&mut self, pdu: &Pdu, io: Option<(usize, u32)>) {
        let framing = self.parameters.framing();
        let layout = framing.layout(pdu.pdu_type(), pdu.data_len());
        let mut bytes = vec![0; layout.pdu_len() as usize];
        pdu.emit(&framing, &mut bytes);
        if layout.header_digest {
            let digest = crc32c(&bytes[..layout.header_len()]);
            bytes[range(layout.header_digest())].copy_from_slice(&digest);
        }
        let start = self.framed.len() as u32;
        let (number, at) = io.unwrap_or((usize::MAX, 0));
        for (n, place) in (at..).zip(&mut bytes[range(layout.data())]) {
            *place = byte(number, n);
        }
        self.framed.extend_from_slice(&bytes);
        if layout.data_digest {
            let digest = crc32c(&bytes[range(layout.data())]);
            bytes[range(layout.data_digest())].copy_from_slice(&digest);
        }
        self.sent.extend_from_slice(&bytes);
        let place = |part: Range<u32>| start + part.start..start + part.end;
        self.pdus
            .push((place(0..layout.pdu_len()), place(layout.data_digest())));
        if let Some((io, at)) = io {
            let data = place(layout.data());
            self.extents.push(Extent {
                from: data.start,
                to: data.end,
                io,
                at,
            });
        }
    }

    /// The PDUs of a batch, its I/Os taking turns as `order` says.
    fn push_batch(&mut self, batch: &Batch, first: usize, order: &mut impl Iterator<Item = u8>) {
        let mut done = vec![0; batch.len()];
        loop {
            let open: Vec<usize> = (0..batch.len())
                .filter(|n| done[*n] < batch[*n].len)
                .collect();
            if open.is_empty() {
                return;
            }
            let choice = usize::from(order.next().unwrap_or(0));
            let n = open[choice % open.len()];
            let (io, at) = (&batch[n], done[n]);
            let len = io.pdu.min(io.len - at);
            done[n] += len;
            let last = done[n] == io.len;
            self.push(
                &self.data_pdu(n as u16, at, len, last),
                Some((first + n, at)),
            );
            if last || choice % 5 == 4 {
                self.push(&self.other_pdu(n as u16, choice as u32 * 9), None);
            }
        }
    }

    fn data_pdu(&self, tag: u16, data_offset: u32, data_len: u32, last: bool) -> Pdu {
        match self.parameters.sender {
            Role::Host => Pdu::H2CData(H2CData {
                cccid: 500 + tag,
                ttag: tag,
                data_offset,
                data_len,
                last,
            }),
            Role::Controller => Pdu::C2HData(C2HData {
                cccid: tag,
                data_offset,
                data_len,
                last,
                success: false,
            }),
        }
    }

    fn other_pdu(&self, tag: u16, data_len: u32) -> Pdu {
        match self.parameters.sender {
            Role::Host => Pdu::CapsuleCmd(CapsuleCmd {
                sqe: [tag as u8; 64],
                data_len,
            }),
            Role::Controller => Pdu::CapsuleResp(CapsuleResp {
                cqe: [tag as u8; 16],
            }),
        }
    }
}

impl Stream {
    /// The stream of these I/Os; with TLS around it, in records of these sizes.
    pub fn new(
        parameters: Parameters,
        tls: Option<(CryptoInfo, &[usize])>,
        start: SeqNum,
        batches: &[Batch],
        order: &[u8],
    ) -> Stream {
        let mut plain = Plain {
            parameters,
            framed: Vec::new(),
            sent: Vec::new(),
            pdus: Vec::new(),
            extents: Vec::new(),
        };
        let mut ends = Vec::new();
        let (mut ios, mut order) = (Vec::new(), order.iter().copied().cycle());
        for batch in batches {
            plain.push_batch(batch, ios.len(), &mut order);
            ios.extend_from_slice(batch);
            ends.push((ios.len(), plain.framed.len() as u32));
        }
        let mut stream = Stream {
            parameters,
            crypto: None,
            start,
            framed: Vec::new(),
            wire: Vec::new(),
            opened: Vec::new(),
            messages: Vec::new(),
            pdus: plain.pdus,
            contents: Vec::new(),
            ios,
            extents: plain.extents,
            batches: ends,
        };
        match tls {
            None => {
                stream.messages = stream.pdus.iter().map(|(pdu, _)| pdu.clone()).collect();
                stream.contents = vec![(0..plain.sent.len() as u32, 0)];
                stream.opened = plain.sent.clone();
                (stream.framed, stream.wire) = (plain.framed, plain.sent);
            }
            Some((crypto, sizes)) => {
                stream.encrypt(crypto, sizes, &plain.framed, &plain.sent);
            }
        }
        stream
    }

    /// Cuts the PDUs into records. No record has PDUs of two batches.
    fn encrypt(&mut self, crypto: CryptoInfo, sizes: &[usize], framed: &[u8], sent: &[u8]) {
        let (mut framer, mut sealer) = (Writer::new(crypto.clone()), Writer::new(crypto.clone()));
        self.crypto = Some(crypto);
        let mut sizes = sizes.iter().cycle();
        let mut at = 0;
        for (_, batch_end) in &mut self.batches {
            let plain_end = *batch_end as usize;
            while at < plain_end {
                let size = *sizes.next().expect("at least one size");
                let content = at..plain_end.min(at + size);
                at = content.end;
                let len = content.len();
                let start = self.wire.len();
                let layout = framer.record_layout(ContentType::APPLICATION_DATA, len);
                let given = &framed[content.clone()];
                let record = [layout.header(), given, layout.trailer()].concat();
                self.framed.extend_from_slice(&record);
                framer.commit(self.start + start as u32, len);
                self.wire.resize(start + record.len(), 0);
                let plain = &sent[content.clone()];
                sealer.seal_into(
                    ContentType::APPLICATION_DATA,
                    &[plain],
                    &mut self.wire[start..],
                );
                let header = layout.header().len();
                self.opened
                    .extend_from_slice(&self.wire[start..start + header]);
                self.opened.extend_from_slice(plain);
                let icv = record.len() - 16;
                self.opened.extend_from_slice(&record[header + len..icv]);
                self.opened.extend_from_slice(&self.wire[start + icv..]);
                self.messages
                    .push(start as u32..(start + record.len()) as u32);
                let content = content.start as u32..content.end as u32;
                self.contents.push((content, (start + header) as u32));
            }
            *batch_end = self.wire.len() as u32;
        }
        self.extents = self.in_stream(&self.extents);
    }

    /// Extents of the content as extents of the stream.
    fn in_stream(&self, extents: &[Extent]) -> Vec<Extent> {
        let mut found = Vec::new();
        for extent in extents {
            for (content, at) in &self.contents {
                let (from, to) = (extent.from.max(content.start), extent.to.min(content.end));
                if from < to {
                    found.push(Extent {
                        from: at + from - content.start,
                        to: at + to - content.start,
                        io: extent.io,
                        at: extent.at + from - extent.from,
                    });
                }
            }
        }
        found
    }

    pub fn len(&self) -> u32 {
        self.wire.len() as u32
    }

    /// Number of the outermost message with the byte at `offset`.
    pub fn message_at(&self, offset: u32) -> usize {
        self.messages
            .partition_point(|message| message.end <= offset)
    }

    /// Number of the PDU with the byte at `offset` of the content, or of the one that is to come there.
    pub fn pdu_at(&self, offset: u32) -> usize {
        self.pdus.partition_point(|(pdu, _)| pdu.end <= offset)
    }

    /// Whether the range of the content has a byte of a data digest.
    pub fn has_digest(&self, range: Range<u32>) -> bool {
        self.pdus
            .iter()
            .any(|(_, digest)| digest.start.max(range.start) < digest.end.min(range.end))
    }

    /// Where a range of the content is in the stream.
    pub fn places(&self, range: Range<u32>) -> impl Iterator<Item = Range<u32>> {
        self.contents.iter().filter_map(move |(content, at)| {
            let (from, to) = (range.start.max(content.start), range.end.min(content.end));
            (from < to).then(|| at + from - content.start..at + to - content.start)
        })
    }

    /// Parts of a range of the stream that are data of I/Os.
    pub fn data(&self, range: Range<u32>) -> impl Iterator<Item = Extent> {
        let first = self
            .extents
            .partition_point(|extent| extent.to <= range.start);
        self.extents[first..]
            .iter()
            .take_while(move |extent| extent.from < range.end)
            .map(move |extent| {
                let from = extent.from.max(range.start);
                Extent {
                    from,
                    to: extent.to.min(range.end),
                    io: extent.io,
                    at: extent.at + from - extent.from,
                }
            })
    }

    /// Of an I/O, its tag.
    pub fn tag(&self, io: usize) -> u16 {
        let batch = self.batches.partition_point(|(end, _)| *end <= io);
        let first = batch
            .checked_sub(1)
            .map_or(0, |before| self.batches[before].0);
        (io - first) as u16
    }
}
