//! A client that sends what frames it likes.

use std::collections::BTreeMap;
use std::time::Duration;

use host::{SocketError, SocketId};

use crate::http2::{FrameCutter, FrameHead, Part};
use crate::serve::tests::Rig;

pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// HPACK: GET, https, the authority `h` and the path `/short`.
pub(super) const GET_SHORT: &[u8] = b"\x82\x87\x01\x01h\x04\x06/short";
/// The same with the path `/`.
pub(super) const GET_ROOT: &[u8] = b"\x82\x87\x01\x01h\x84";
/// The same with the path `/file`.
pub(super) const GET_FILE: &[u8] = b"\x82\x87\x01\x01h\x04\x05/file";
pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const PRIORITY: u8 = 2;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;
/// Flags of HEADERS.
pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

/// A frame.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A request of a stream.
pub(super) fn get(stream: u32, fields: &[u8]) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, stream, fields)
}

/// What the server has sent.
#[derive(Debug)]
pub(super) struct Came {
    pub(super) head: FrameHead,
    /// The payload, but for content.
    pub(super) payload: Vec<u8>,
}

impl Came {
    /// The error of RST_STREAM or GOAWAY.
    pub(super) fn error(&self) -> u32 {
        let at = match self.head.kind {
            GOAWAY => 4,
            _ => 0,
        };
        u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap())
    }
}

/// A client with one connection.
pub(super) struct Raw {
    pub(super) id: SocketId,
    cutter: FrameCutter,
    pub(super) came: Vec<Came>,
    /// The content of each stream.
    pub(super) content: BTreeMap<u32, Vec<u8>>,
    /// The server has ended the connection; by a reset or not.
    pub(super) ended: Option<bool>,
}

impl Raw {
    /// One that has sent this.
    pub(super) fn open(rig: &mut Rig, bytes: &[u8]) -> Raw {
        let mut raw = Raw {
            id: super::secured(rig),
            cutter: FrameCutter::default(),
            came: Vec::new(),
            content: BTreeMap::new(),
            ended: None,
        };
        raw.send(rig, bytes);
        raw
    }

    /// Sends this, and takes what comes within some milliseconds.
    pub(super) fn send(&mut self, rig: &mut Rig, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() && self.ended.is_none() {
            let now = rig.world.now();
            match rig.world.stack(1).write(now, self.id, rest) {
                Ok(written) => rest = &rest[written..],
                Err(SocketError::WouldBlock) => self.run(rig, Duration::from_millis(1)),
                Err(_) => break,
            }
        }
        for _ in 0..5 {
            self.run(rig, Duration::from_millis(1));
        }
    }

    pub(super) fn run(&mut self, rig: &mut Rig, time: Duration) {
        rig.run_for(time);
        loop {
            match rig.read(self.id, 1 << 16) {
                Ok(bytes) if bytes.is_empty() => return self.ended = Some(false),
                Ok(bytes) => self.take(&bytes),
                Err(SocketError::WouldBlock) => return,
                Err(_) => return self.ended = self.ended.or(Some(true)),
            }
        }
    }

    /// Takes so many of the bytes that have come.
    pub(super) fn take_up_to(&mut self, rig: &mut Rig, most: usize) {
        if let Ok(bytes) = rig.read(self.id, most) {
            self.take(&bytes);
        }
    }

    /// The first frame of a kind that has come.
    pub(super) fn first(&self, kind: u8) -> Option<&Came> {
        self.came.iter().find(|came| came.head.kind == kind)
    }

    fn take(&mut self, mut bytes: &[u8]) {
        let mut inside = self.came.pop();
        loop {
            let before = bytes;
            let Some(part) = self.cutter.next(&mut bytes) else {
                break;
            };
            match part {
                Part::Head(head) => {
                    self.came.extend(inside.take());
                    let payload = Vec::new();
                    inside = Some(Came { head, payload });
                }
                Part::Bytes(bytes) => {
                    let is_payload = |came: &Came| came.payload.len() < came.head.len as usize;
                    if let Some(came) = &mut inside
                        && came.head.kind != DATA
                        && is_payload(came)
                    {
                        came.payload.extend(bytes);
                    }
                }
                Part::Data(len) => {
                    let stream = inside.as_ref().map_or(0, |came| came.head.stream);
                    let content = self.content.entry(stream).or_default();
                    content.extend(&before[..len]);
                }
            }
        }
        self.came.extend(inside);
    }
}
