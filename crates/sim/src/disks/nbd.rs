//! An NBD server: structured replies, one chunk each.

use std::time::Instant;

use host::pdus::{Agreed, DataDigest, Destination, Framings, PduSink};
use host::{SocketId, Stack};
use l5p::nbd::{Framing, NbdError, Pdu, Sender};
use nic::ring::Slice;
use wire::nbd::{
    Chunk, ChunkType, Errno, Kind, MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, Reply, Request, flag,
    handshake, info, option, reply_type,
};

use super::{BLOCK_LEN, Content, Disk, Outbox, Serve};

/// The most bytes of one request.
const MAX_REQUEST: u32 = 1 << 20;

/// A connection.
pub struct Nbd {
    socket: SocketId,
    disk: Disk,
    handshake: Option<Handshake>,
    outbox: Outbox<Framing>,
    sink: Sink,
}

/// What is said before the first request.
struct Handshake {
    has_flags: bool,
    input: Vec<u8>,
    output: Vec<u8>,
}

/// Takes requests.
struct Sink {
    disk: Disk,
    taken: Vec<Request>,
    coming: Option<Request>,
    slices: Vec<Slice>,
}

impl PduSink<Framing> for Sink {
    fn header(&mut self, pdu: &Pdu) -> Result<Destination<'_>, NbdError> {
        let Pdu::Request(request) = pdu else {
            return Err(NbdError::NotARequest);
        };
        if request.payload_len() == 0 {
            self.taken.push(*request);
            return Ok(Destination::Nothing);
        }
        self.coming = Some(*request);
        match self.disk.slice(request.offset, request.len) {
            Some(slice) => {
                self.slices.clear();
                self.slices.push(slice);
                Ok(Destination::Slices(&self.slices))
            }
            None => Ok(Destination::Discard),
        }
    }

    fn end(&mut self, _: DataDigest, _: &[u8]) -> Result<(), NbdError> {
        self.taken.extend(self.coming.take());
        Ok(())
    }
}

impl Serve for Nbd {
    fn new(_: &mut Stack, socket: SocketId, _: Instant, disk: Disk) -> Nbd {
        let mut output = MAGIC.to_be_bytes().to_vec();
        output.extend(OPTION_MAGIC.to_be_bytes());
        output.extend((handshake::FIXED_NEWSTYLE | handshake::NO_ZEROES).to_be_bytes());
        Nbd {
            socket,
            handshake: Some(Handshake {
                has_flags: false,
                input: Vec::new(),
                output,
            }),
            outbox: Outbox::new(),
            sink: Sink {
                disk: disk.clone(),
                taken: Vec::new(),
                coming: None,
                slices: Vec::new(),
            },
            disk,
        }
    }

    fn poll(&mut self, stack: &mut Stack, now: Instant) -> bool {
        if let Some(handshake) = &mut self.handshake {
            let (moved, is_over) = handshake.go_on(stack, self.socket, now, self.disk.size());
            if is_over {
                self.handshake = None;
                start(stack, self.socket, now);
            }
            return moved;
        }
        let received = stack.receive_pdus(now, self.socket, &mut self.sink);
        for request in std::mem::take(&mut self.sink.taken) {
            self.answer(&request);
        }
        let sent = self.outbox.send(stack, self.socket, now);
        matches!(received, Ok(1..)) || sent
    }
}

fn start(stack: &mut Stack, socket: SocketId, now: Instant) {
    let framing = |sender| Framing {
        sender,
        structured: true,
        max_data: MAX_REQUEST,
    };
    let framings = Framings {
        incoming: framing(Sender::Client),
        outgoing: framing(Sender::Server),
    };
    let agreed = Agreed {
        framings,
        transmit: None,
        receive: None,
        checks_digests: false,
        tags: 0,
    };
    let started = stack
        .set_nodelay(socket, true)
        .and_then(|()| stack.start_pdus(now, socket, framings))
        .and_then(|()| stack.pdus_negotiated(now, socket, agreed));
    started.expect("the connection carries nothing yet");
}

impl Nbd {
    fn answer(&mut self, request: &Request) {
        let cookie = request.cookie;
        let slice = self.disk.slice(request.offset, request.len);
        let (reply, content) = match (request.kind, slice) {
            (Kind::Disconnect, _) => return,
            (Kind::Read, Some(slice)) => {
                let chunk = Chunk {
                    done: true,
                    cookie,
                    content: ChunkType::Data {
                        offset: request.offset,
                        len: request.len,
                    },
                };
                (Reply::Chunk(chunk), Content::Disk(slice))
            }
            (Kind::Write | Kind::Flush, Some(_)) => (Reply::simple(cookie, Ok(())), Content::None),
            _ => (Reply::simple(cookie, Err(Errno::Invalid)), Content::None),
        };
        self.outbox.push(Pdu::Reply(reply), content);
    }
}

impl Handshake {
    /// Whether anything was done, and whether requests follow.
    fn go_on(
        &mut self,
        stack: &mut Stack,
        socket: SocketId,
        now: Instant,
        size: u64,
    ) -> (bool, bool) {
        let mut buffer = [0; 1024];
        let mut moved = false;
        if let Ok(len @ 1..) = stack.read(now, socket, &mut buffer) {
            self.input.extend(&buffer[..len]);
            moved = true;
        }
        let mut is_over = false;
        while let Some((used, goes)) = self.take(size) {
            self.input.drain(..used);
            is_over |= goes;
        }
        while !self.output.is_empty()
            && let Ok(len) = stack.write(now, socket, &self.output)
        {
            self.output.drain(..len);
            moved = true;
        }
        (moved, is_over && self.output.is_empty())
    }

    /// Takes what the client says; gives how many bytes, and whether requests follow.
    fn take(&mut self, size: u64) -> Option<(usize, bool)> {
        if !self.has_flags {
            self.input.first_chunk::<4>()?;
            self.has_flags = true;
            return Some((4, false));
        }
        let header = self.input.first_chunk::<16>()?;
        let word = |at: usize| {
            u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let (kind, len) = (word(8), word(12) as usize);
        self.input.get(16..16 + len)?;
        match kind {
            option::STRUCTURED_REPLY => self.say(kind, reply_type::ACK, &[]),
            option::GO => {
                let mut data = info::EXPORT.to_be_bytes().to_vec();
                data.extend(size.to_be_bytes());
                data.extend((flag::HAS_FLAGS | flag::SEND_FLUSH).to_be_bytes());
                self.say(kind, reply_type::INFO, &data);
                let mut data = info::BLOCK_SIZE.to_be_bytes().to_vec();
                for len in [BLOCK_LEN, BLOCK_LEN, MAX_REQUEST] {
                    data.extend(len.to_be_bytes());
                }
                self.say(kind, reply_type::INFO, &data);
                self.say(kind, reply_type::ACK, &[]);
            }
            _ => self.say(kind, reply_type::ERROR_UNSUPPORTED, &[]),
        }
        Some((16 + len, kind == option::GO))
    }

    fn say(&mut self, option: u32, kind: u32, data: &[u8]) {
        self.output.extend(OPTION_REPLY_MAGIC.to_be_bytes());
        self.output.extend(option.to_be_bytes());
        self.output.extend(kind.to_be_bytes());
        self.output.extend((data.len() as u32).to_be_bytes());
        self.output.extend(data);
    }
}
