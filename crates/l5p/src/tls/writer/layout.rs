//! What is around a record's content on the wire.

use wire::tls::{ContentType, RecordHeader, VERSION_TLS12};

use super::Writer;
use crate::tls::framing::Framing;
use crate::tls::{HEADER_LEN, ICV_LEN, Version};

/// Room for a record's header and explicit nonce.
pub const MAX_HEADER: usize = 16;

/// Room for a record's inner content type, padding and integrity check value.
pub const MAX_TRAILER: usize = 32;

/// What surrounds a record's content on the wire.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Header and explicit nonce, then inner content type, padding and the dummy of the integrity check value.
    bytes: [u8; MAX_HEADER + MAX_TRAILER],
    header_len: u8,
    trailer_len: u8,
}

impl Layout {
    /// The bytes before the content: the header and, for AES-GCM in TLS 1.2, the explicit nonce.
    #[inline]
    pub fn header(&self) -> &[u8] {
        &self.bytes[..usize::from(self.header_len)]
    }

    /// The bytes after the content: in TLS 1.3 the inner content type and padding, then the dummy integrity check value.
    #[inline]
    pub fn trailer(&self) -> &[u8] {
        &self.around()[usize::from(self.header_len)..]
    }

    /// [Header](Self::header) and [trailer](Self::trailer), one behind the other.
    #[inline]
    pub fn around(&self) -> &[u8] {
        &self.bytes[..usize::from(self.header_len) + usize::from(self.trailer_len)]
    }
}

impl Writer {
    /// Length on the wire of a record with `plaintext_len` bytes of content.
    pub fn record_len(&self, plaintext_len: usize) -> usize {
        self.framing.body() + plaintext_len + self.trailer_len(plaintext_len)
    }

    /// Length of what comes before a record's content.
    pub fn record_header_len(&self) -> usize {
        self.framing.body()
    }

    /// The bytes around the content of the next record.
    ///
    /// # Panics
    /// When `plaintext_len` exceeds [`max_plaintext`](Self::max_plaintext).
    pub fn record_layout(&self, content_type: ContentType, plaintext_len: usize) -> Layout {
        assert!(plaintext_len <= self.max_plaintext);
        let header_len = self.framing.body();
        let trailer_len = self.trailer_len(plaintext_len);
        let mut layout = Layout {
            bytes: [0; MAX_HEADER + MAX_TRAILER],
            header_len: header_len as u8,
            trailer_len: trailer_len as u8,
        };
        let outer_type = match self.framing.version {
            Version::Tls12 => content_type,
            Version::Tls13 => {
                layout.bytes[header_len] = content_type.0;
                ContentType::APPLICATION_DATA
            }
        };
        RecordHeader {
            content_type: outer_type,
            version: VERSION_TLS12,
            length: (header_len - HEADER_LEN + plaintext_len + trailer_len) as u16,
        }
        .emit(&mut layout.bytes);
        self.number(&mut layout, self.sequence);
        layout
    }

    /// The bytes around the contents of the next records, of which each has as many bytes of content.
    ///
    /// # Panics
    /// When `plaintext_len` exceeds [`max_plaintext`](Self::max_plaintext).
    pub fn record_layouts(
        &self,
        content_type: ContentType,
        plaintext_len: usize,
    ) -> impl Iterator<Item = Layout> {
        let first = self.record_layout(content_type, plaintext_len);
        (self.sequence..).map(move |sequence| {
            let mut layout = first;
            self.number(&mut layout, sequence);
            layout
        })
    }

    /// Puts the explicit nonce of record `sequence` into a layout, if there is one.
    #[inline]
    fn number(&self, layout: &mut Layout, sequence: u64) {
        let nonce = &mut layout.bytes[HEADER_LEN..usize::from(layout.header_len)];
        if !nonce.is_empty() {
            let explicit = match self.first_nonce {
                Some(first) => first.wrapping_add(sequence).to_be_bytes(),
                None => Framing::explicit_nonce(&self.current().info.iv, sequence),
            };
            nonce.copy_from_slice(&explicit);
        }
    }

    fn trailer_len(&self, plaintext_len: usize) -> usize {
        match self.framing.version {
            Version::Tls12 => ICV_LEN,
            Version::Tls13 => {
                let inner = plaintext_len + 1;
                if self.padding_block == 1 {
                    return 1 + ICV_LEN;
                }
                let padded = inner
                    .next_multiple_of(usize::from(self.padding_block))
                    .min((self.max_plaintext + 1).max(inner));
                padded - plaintext_len + ICV_LEN
            }
        }
    }
}
