//! Streams of TLS records.

use std::ops::Range;

use l5p::tls::{ContentType, CryptoInfo, ICV_LEN, Writer};

/// A stream of records: as a sending host frames it for its NIC, as it is on the wire, and as packets show it that a NIC decrypted.
#[derive(Debug)]
pub struct Records {
    /// The keys, with the sequence number of the first record.
    pub crypto: CryptoInfo,
    writer: Writer,
    /// With a dummy for each integrity value.
    pub framed: Vec<u8>,
    /// What software would send.
    pub wire: Vec<u8>,
    /// The plaintext, with the integrity values as they came.
    pub opened: Vec<u8>,
    /// Where the records begin, and the end.
    pub starts: Vec<usize>,
    /// Where their contents are.
    pub contents: Vec<Range<usize>>,
}

impl Records {
    /// No records yet.
    pub fn new(crypto: &CryptoInfo) -> Records {
        Records {
            crypto: crypto.clone(),
            writer: Writer::new(crypto.clone()),
            framed: Vec::new(),
            wire: Vec::new(),
            opened: Vec::new(),
            starts: vec![0],
            contents: Vec::new(),
        }
    }

    /// A record of application data for each of these contents.
    pub fn of<C: AsRef<[u8]>>(
        crypto: &CryptoInfo,
        contents: impl IntoIterator<Item = C>,
    ) -> Records {
        let mut records = Records::new(crypto);
        for content in contents {
            records.push(content.as_ref());
        }
        records
    }

    /// Pads what comes to multiples of so many bytes.
    pub fn set_padding(&mut self, block: u8) {
        self.writer.set_padding(block);
    }

    /// Adds a record of application data.
    pub fn push(&mut self, content: &[u8]) {
        self.push_as(ContentType::APPLICATION_DATA, content, content);
    }

    /// Adds a record whose content a protocol inside changes: the host gives its NIC `given`, and `content` is encrypted.
    pub fn push_as(&mut self, kind: ContentType, given: &[u8], content: &[u8]) {
        let layout = self.writer.record_layout(kind, content.len());
        let (header, trailer) = (layout.header(), layout.trailer());
        self.framed.extend([header, given, trailer].concat());
        let start = self.wire.len();
        let record_len = self.writer.record_len(content.len());
        self.wire.resize(start + record_len, 0);
        let record = &mut self.wire[start..];
        self.writer.seal_into(kind, &[content], record);
        let (headed, icv) = (header.len(), record_len - ICV_LEN);
        self.opened.extend_from_slice(&record[..headed]);
        self.opened.extend_from_slice(content);
        self.opened
            .extend_from_slice(&trailer[..icv - headed - content.len()]);
        self.opened.extend_from_slice(&record[icv..]);
        self.starts.push(self.wire.len());
        let content_at = start + headed;
        self.contents.push(content_at..content_at + content.len());
    }

    /// Bytes of the stream.
    pub fn len(&self) -> usize {
        self.wire.len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.wire.is_empty()
    }

    /// The number on the connection of the record that begins there, if one does.
    pub fn index_at(&self, at: usize) -> Option<u64> {
        let record = self.starts[..self.contents.len()].binary_search(&at).ok()?;
        Some(self.crypto.sequence + record as u64)
    }
}
