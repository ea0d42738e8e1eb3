//! A server that answers in any way that the protocol allows.

use std::net::SocketAddr;

use handshake::{Certificate, Options as TlsOptions, server_config};
use host::{ListenOptions, ListenerId, Offload, SocketId, TlsRole};
use wire::nbd::{
    Chunk, ChunkType, Errno, Kind, MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, REQUEST_LEN, Reply,
    Request, flag, handshake as flags, info, option, reply_type,
};

use crate::disk::{self, BLOCK, DISK, disk_bytes};
use crate::pair::{PORT, Pair, SERVER, v4};

/// A server with one disk, which answers as `style` says.
pub struct Server {
    pub listener: ListenerId,
    pub socket: Option<SocketId>,
    pub style: Style,
    pub disk: Vec<u8>,
    pub phase: Phase,
    pub input: Vec<u8>,
    pub output: Vec<u8>,
    /// Requests, answered in another order than they came.
    pub held: Vec<(Request, Vec<u8>)>,
    /// It takes nothing in.
    pub is_stalled: bool,
    /// It has said that it does not have an export.
    pub has_refused: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct Style {
    pub structured: bool,
    pub tls: bool,
    /// Bytes of a chunk.
    pub chunk: u32,
    /// Every so many requests are answered, the last one first.
    pub batch: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Phase {
    Flags,
    Options,
    Requests,
}

impl Server {
    pub fn new(pair: &mut Pair, style: Style) -> Server {
        let address = SocketAddr::new(v4(SERVER), PORT);
        let listener = pair
            .stack(SERVER)
            .listen(address, ListenOptions::default())
            .unwrap();
        Server {
            listener,
            socket: None,
            style,
            // With zeroes in it, which some servers send as holes.
            disk: disk_bytes(),
            phase: Phase::Flags,
            input: Vec::new(),
            output: Vec::new(),
            held: Vec::new(),
            is_stalled: false,
            has_refused: false,
        }
    }

    fn advance(&mut self, pair: &mut Pair) -> bool {
        let now = pair.now();
        let stack = pair.stack(SERVER);
        let Some(socket) = self.socket else {
            self.socket = stack.accept(self.listener);
            if self.socket.is_none() {
                return false;
            }
            self.output.extend(MAGIC.to_be_bytes());
            self.output.extend(OPTION_MAGIC.to_be_bytes());
            let greeting = flags::FIXED_NEWSTYLE | flags::NO_ZEROES;
            self.output.extend(greeting.to_be_bytes());
            return true;
        };
        let mut progress = false;
        let mut buffer = [0; 8000];
        while !self.is_stalled
            && let Ok(len @ 1..) = stack.read(now, socket, &mut buffer)
        {
            self.input.extend(&buffer[..len]);
            progress = true;
        }
        let mut secures = false;
        while let Some((used, secured)) = self.take() {
            self.input.drain(..used);
            secures |= secured;
        }
        if !self.held.is_empty() && (self.held.len() >= self.style.batch || !progress) {
            for (request, data) in std::mem::take(&mut self.held).into_iter().rev() {
                self.answer(&request, &data);
            }
        }
        while !self.output.is_empty() {
            match stack.write(now, socket, &self.output) {
                Ok(len) => {
                    self.output.drain(..len);
                    progress = true;
                }
                Err(_) => break,
            }
        }
        if secures {
            assert!(self.output.is_empty());
            let certificate = Certificate::self_signed(["server.test".to_owned()]).unwrap();
            let config = server_config(certificate, &TlsOptions::default()).unwrap();
            let role = TlsRole::Server { config };
            stack.start_tls(now, socket, role, Offload::Both).unwrap();
        }
        progress
    }

    /// Takes what the client says; gives how many bytes, and whether TLS begins behind them.
    fn take(&mut self) -> Option<(usize, bool)> {
        match self.phase {
            Phase::Flags => {
                self.input.first_chunk::<4>()?;
                self.phase = Phase::Options;
                Some((4, false))
            }
            Phase::Options => {
                let header = self.input.first_chunk::<16>()?;
                let word = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().unwrap());
                let (kind, len) = (word(8), word(12) as usize);
                let name = self.input.get(16..16 + len)?.to_vec();
                let structured = self.style.structured;
                match kind {
                    option::STARTTLS if self.style.tls => self.say(kind, reply_type::ACK, &[]),
                    option::STRUCTURED_REPLY if structured => self.say(kind, reply_type::ACK, &[]),
                    option::GO if name[4..].starts_with(b"disk") => {
                        let mut data = info::EXPORT.to_be_bytes().to_vec();
                        data.extend((DISK as u64).to_be_bytes());
                        data.extend((flag::HAS_FLAGS | flag::SEND_FLUSH).to_be_bytes());
                        self.say(kind, reply_type::INFO, &data);
                        let mut data = info::BLOCK_SIZE.to_be_bytes().to_vec();
                        data.extend([BLOCK, 4096, 1 << 19].map(u32::to_be_bytes).concat());
                        self.say(kind, reply_type::INFO, &data);
                        self.say(kind, reply_type::ACK, &[]);
                        self.phase = Phase::Requests;
                    }
                    option::GO => {
                        self.say(kind, reply_type::ERROR_UNKNOWN, b"no such disk");
                        self.has_refused = true;
                    }
                    _ => self.say(kind, reply_type::ERROR_UNSUPPORTED, &[]),
                }
                Some((16 + len, kind == option::STARTTLS && self.style.tls))
            }
            Phase::Requests => {
                let request = Request::parse(self.input.first_chunk()?).expect("a request");
                let end = REQUEST_LEN + request.payload_len() as usize;
                let data = self.input.get(REQUEST_LEN..end)?.to_vec();
                self.held.push((request, data));
                Some((end, false))
            }
        }
    }

    fn say(&mut self, option: u32, kind: u32, data: &[u8]) {
        self.output.extend(OPTION_REPLY_MAGIC.to_be_bytes());
        self.output.extend(option.to_be_bytes());
        self.output.extend(kind.to_be_bytes());
        self.output.extend((data.len() as u32).to_be_bytes());
        self.output.extend(data);
    }

    fn answer(&mut self, request: &Request, data: &[u8]) {
        let at = request.offset as usize;
        let range = at..at + request.len as usize;
        // The last block is bad.
        let result = match range.end == DISK {
            true => Err(Errno::Io),
            false => Ok(()),
        };
        match request.kind {
            Kind::Disconnect => return,
            Kind::Write if result.is_ok() => self.disk[range.clone()].copy_from_slice(data),
            _ => {}
        }
        if request.kind != Kind::Read || !self.style.structured {
            self.put(&Reply::simple(request.cookie, result));
            if request.kind == Kind::Read && result.is_ok() {
                self.output.extend(&self.disk[range]);
            }
            return;
        }
        let chunk = |done, content| {
            Reply::Chunk(Chunk {
                done,
                cookie: request.cookie,
                content,
            })
        };
        if result.is_err() {
            let content = ChunkType::Error {
                error: Errno::Io as u32,
                message_len: 9,
                len: 9,
            };
            self.put(&chunk(true, content));
            self.output.extend(b"bad block");
            return;
        }
        let mut places: Vec<usize> = range.clone().step_by(self.style.chunk as usize).collect();
        places.reverse();
        for from in places {
            let to = (from + self.style.chunk as usize).min(range.end);
            let (offset, len) = (from as u64, (to - from) as u32);
            let bytes = self.disk[from..to].to_vec();
            if bytes.iter().all(|byte| *byte == 0) {
                self.put(&chunk(false, ChunkType::Hole { offset, len }));
            } else {
                self.put(&chunk(from == range.start, ChunkType::Data { offset, len }));
                if from == range.start {
                    self.output.extend(bytes);
                    return;
                }
                self.output.extend(bytes);
            }
        }
        self.put(&chunk(true, ChunkType::None));
    }

    pub fn put(&mut self, reply: &Reply) {
        self.output.extend(reply.head().bytes());
    }
}

impl disk::Server for Server {
    fn poll(&mut self, pair: &mut Pair) -> bool {
        self.advance(pair)
    }

    fn disk(&self) -> &[u8] {
        &self.disk
    }
}
