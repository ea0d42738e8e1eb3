//! Compressed content and responses for tests.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;

/// Compresses by gzip.
pub fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// Compresses by zstd.
pub fn zstd(content: &[u8]) -> Vec<u8> {
    ::zstd::encode_all(content, 3).unwrap()
}

/// The name of one of the codings, and content compressed so.
pub fn compressed(is_zstd: bool, content: &[u8]) -> (&'static str, Vec<u8>) {
    match is_zstd {
        true => ("zstd", zstd(content)),
        false => ("gzip", gzip(content)),
    }
}

/// Content of `len` bytes that can be compressed to about a third.
pub fn content(len: usize, seed: u64) -> Vec<u8> {
    let mut random = seed | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        match random % 4 {
            0 => bytes.extend_from_slice(b"a word "),
            1 => bytes.extend(random.to_le_bytes().map(|byte| b'a' + byte % 16)),
            _ => bytes.extend_from_slice(b"another one, "),
        }
    }
    bytes.truncate(len);
    bytes
}

/// How a response says where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// By its length.
    Sized,
    /// In chunks of so many bytes.
    Chunked(usize),
    /// By the end of the connection.
    ToEnd,
}

/// Any of them.
pub fn framing() -> impl Strategy<Value = Framing> {
    prop_oneof![
        Just(Framing::Sized),
        Just(Framing::ToEnd),
        (1usize..50_000).prop_map(Framing::Chunked),
    ]
}

/// A response with this content.
pub fn response(coding: &str, framing: Framing, content: &[u8]) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\n").into_bytes();
    match framing {
        Framing::Sized => {
            head.extend(format!("Content-Length: {}\r\n\r\n", content.len()).bytes());
            head.extend(content);
        }
        Framing::Chunked(len) => {
            head.extend(b"Transfer-Encoding: chunked\r\n\r\n");
            for chunk in content.chunks(len) {
                head.extend(format!("{:x};a=b\r\n", chunk.len()).bytes());
                head.extend(chunk);
                head.extend(b"\r\n");
            }
            head.extend(b"0\r\nTrailer: yes\r\n\r\n");
        }
        Framing::ToEnd => {
            head.extend(b"\r\n");
            head.extend(content);
        }
    }
    head
}
