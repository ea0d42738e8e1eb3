//! The files that are served, and what is said over HTTP to get them.

use std::sync::Arc;

use nic::ring::{Region, RegionId, Slice};
use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

/// Files at most.
const FILES: usize = 1024;
/// Bytes of all files at most, unless one is larger.
const BYTES: usize = 16 << 20;
/// More than any request has.
pub const MAX_REQUEST: usize = 512;

/// Files of equal size.
pub struct Pages {
    files: u32,
    file_bytes: u32,
    /// All files, one after the other.
    bytes: Vec<u8>,
    region: Arc<Region>,
    /// What comes before each file.
    head: Vec<u8>,
}

/// What a server makes of what it has received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// A request for that file.
    File(u32),
    /// There is more to come.
    Part,
    /// No request that a client of ours makes.
    Wrong,
}

impl Pages {
    /// Files of so many random bytes.
    pub fn new(seed: u64, file_bytes: u32) -> Self {
        let files = (BYTES / file_bytes as usize).clamp(1, FILES);
        let mut bytes = vec![0; files * file_bytes as usize];
        Pcg64Mcg::seed_from_u64(seed).fill_bytes(&mut bytes);
        let region = Region::anonymous(bytes.len());
        assert!(
            region.write(0, &bytes),
            "the region is as long as the bytes"
        );
        let head = format!(
            "HTTP/1.1 200 OK\r\nServer: longshore\r\nContent-Type: application/octet-stream\r\n\
             Content-Length: {file_bytes}\r\nConnection: keep-alive\r\n\r\n"
        );
        Self {
            files: files as u32,
            file_bytes,
            bytes,
            region: Arc::new(region),
            head: head.into_bytes(),
        }
    }

    /// All files, as memory that can be registered.
    pub fn region(&self) -> Arc<Region> {
        Arc::clone(&self.region)
    }

    /// Files that there are.
    pub fn files(&self) -> u32 {
        self.files
    }

    /// Bytes of a response, with its head.
    pub fn response_len(&self) -> usize {
        self.head.len() + self.file_bytes as usize
    }

    /// What comes before each file.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// A file from an offset on, where it is registered.
    pub fn slice(&self, region: RegionId, file: u32, offset: u32) -> Slice {
        Slice {
            region,
            offset: u64::from(file) * u64::from(self.file_bytes) + u64::from(offset),
            len: self.file_bytes - offset,
        }
    }

    /// Writes the request for a file over what is there.
    pub fn write_request(&self, file: u32, out: &mut Vec<u8>) {
        use std::io::Write as _;
        out.clear();
        write!(
            out,
            "GET /files/{file:04} HTTP/1.1\r\nHost: 10.0.0.2\r\nUser-Agent: longshore-bench\r\nAccept: */*\r\n\r\n"
        )
        .expect("memory takes all that is written");
    }

    /// Reads a request, which is all that its client sends before the response.
    pub fn parse(&self, received: &[u8]) -> Parsed {
        let mut fields = [httparse::EMPTY_HEADER; 8];
        let mut request = httparse::Request::new(&mut fields);
        match request.parse(received) {
            Ok(httparse::Status::Complete(len)) if len == received.len() => {}
            Ok(httparse::Status::Partial) if received.len() < MAX_REQUEST => return Parsed::Part,
            _ => return Parsed::Wrong,
        }
        let name = request.path.and_then(|path| path.strip_prefix("/files/"));
        match name.and_then(|name| name.parse().ok()) {
            Some(file) if file < self.files => Parsed::File(file),
            _ => Parsed::Wrong,
        }
    }

    /// Whether a piece of the response with that file is right.
    pub fn check_response(&self, file: u32, place: usize, piece: &[u8]) -> bool {
        let head = self.head.len().saturating_sub(place).min(piece.len());
        let (of_head, of_file) = piece.split_at(head);
        let start = file as usize * self.file_bytes as usize;
        let content = &self.bytes[start..start + self.file_bytes as usize];
        let at = (place + head).saturating_sub(self.head.len());
        self.head.get(place..place + head).unwrap_or_default() == of_head
            && content.get(at..at + of_file.len()) == Some(of_file)
    }
}
