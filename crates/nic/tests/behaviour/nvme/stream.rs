//! What is sent: I/Os as PDUs, and records around them.

use std::ops::Range;

use l5p::Layers;
use l5p::nvme::Parameters;
use l5p::tls::{ContentType, CryptoInfo};
use testkit::pdus::{self, Kind, PduStream};
use testkit::records::Records;
use wire::SeqNum;
use wire::nvme::{C2HData, H2CData, Pdu};

/// An I/O whose data come in data PDUs.
#[derive(Debug, Clone)]
pub struct Io {
    /// Bytes of data.
    pub len: u32,
    /// Bytes of each PDU but the last.
    pub pdu: u32,
    /// Pieces that the receiver's buffer is scattered over; 0 if it maps no buffer.
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
    /// PDUs, in what the records contain.
    pub pdus: Vec<Range<u32>>,
    /// Their data digests.
    pub digests: Vec<Range<u32>>,
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

fn range(range: &Range<usize>) -> Range<u32> {
    range.start as u32..range.end as u32
}

/// PDUs without anything around them.
struct Plain {
    pdus: PduStream,
    extents: Vec<Extent>,
}

impl Plain {
    /// The PDUs of a batch, its I/Os taking turns as `order` says.
    fn push_batch(&mut self, batch: &Batch, first: usize, order: &mut impl Iterator<Item = u8>) {
        let sender = self.pdus.parameters.sender;
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
            let (io, at) = (first + n, done[n]);
            let len = batch[n].pdu.min(batch[n].len - at);
            done[n] += len;
            let last = done[n] == batch[n].len;
            let mut pdu = pdus::pdu(sender, pdus::data(n as u16, at, len));
            if let Pdu::C2HData(C2HData { last: flag, .. })
            | Pdu::H2CData(H2CData { last: flag, .. }) = &mut pdu
            {
                *flag = last;
            }
            let placed = self.pdus.push_pdu(&pdu, |n| byte(io, at + n as u32));
            let Range {
                start: from,
                end: to,
            } = range(&placed.data);
            self.extents.push(Extent { from, to, io, at });
            if last || choice % 5 == 4 {
                let other = pdus::pdu(sender, Kind::Capsule(choice as u32 * 9));
                self.pdus.push_pdu(&other, |at| byte(usize::MAX, at as u32));
            }
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
            pdus: PduStream::new(&parameters, &[]),
            extents: Vec::new(),
        };
        let mut ends = Vec::new();
        let (mut ios, mut order) = (Vec::new(), order.iter().copied().cycle());
        for batch in batches {
            plain.push_batch(batch, ios.len(), &mut order);
            ios.extend_from_slice(batch);
            ends.push((ios.len(), plain.pdus.len() as u32));
        }
        let mut stream = Stream {
            parameters,
            crypto: None,
            start,
            framed: Vec::new(),
            wire: Vec::new(),
            opened: Vec::new(),
            messages: Vec::new(),
            pdus: plain.pdus.pdus.iter().map(|pdu| range(&pdu.all)).collect(),
            digests: plain
                .pdus
                .pdus
                .iter()
                .map(|pdu| range(&pdu.digest))
                .collect(),
            contents: Vec::new(),
            ios,
            extents: plain.extents,
            batches: ends,
        };
        let PduStream { framed, wire, .. } = plain.pdus;
        match tls {
            None => {
                stream.messages = stream.pdus.clone();
                stream.contents = vec![(0..wire.len() as u32, 0)];
                stream.opened = wire.clone();
                (stream.framed, stream.wire) = (framed, wire);
            }
            Some((crypto, sizes)) => {
                stream.encrypt(crypto, sizes, &framed, &wire);
            }
        }
        stream
    }

    /// Cuts the PDUs into records. No record has PDUs of two batches.
    fn encrypt(&mut self, crypto: CryptoInfo, sizes: &[usize], framed: &[u8], sent: &[u8]) {
        let mut records = Records::new(&crypto);
        self.crypto = Some(crypto);
        let mut sizes = sizes.iter().cycle();
        let mut at = 0;
        for (_, batch_end) in &mut self.batches {
            let plain_end = *batch_end as usize;
            while at < plain_end {
                let size = *sizes.next().expect("at least one size");
                let content = at..plain_end.min(at + size);
                at = content.end;
                let (given, sent) = (&framed[content.clone()], &sent[content.clone()]);
                records.push_as(ContentType::APPLICATION_DATA, given, sent);
                let place = records.contents.last().expect("a record").start;
                self.contents.push((range(&content), place as u32));
            }
            *batch_end = records.len() as u32;
        }
        let bounds = records.starts.windows(2);
        self.messages = bounds.map(|at| at[0] as u32..at[1] as u32).collect();
        (self.framed, self.wire, self.opened) = (records.framed, records.wire, records.opened);
        self.extents = self.in_stream(&self.extents);
    }

    /// What the contexts of both ends run.
    pub fn layers(&self) -> Layers {
        match &self.crypto {
            None => Layers::of(&self.parameters),
            Some(crypto) => Layers::of(crypto).carrying(&self.parameters),
        }
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
        self.pdus.partition_point(|pdu| pdu.end <= offset)
    }

    /// Whether the range of the content has a byte of a data digest.
    pub fn has_digest(&self, range: Range<u32>) -> bool {
        self.digests
            .iter()
            .any(|digest| digest.start.max(range.start) < digest.end.min(range.end))
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
