//! One client: what it sends, as it comes, and what it is sent.

#[cfg(test)]
pub(super) mod tests;

use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::os::unix::net::UnixStream;

use super::export::Export;
use super::memory::held_by;
use super::negotiation::{Negotiation, Outcome};
use crate::disk::Block;
use wire::nbd::{Errno, REQUEST_LEN, Reply as Answer, ReplyHead, Request};

/// Bytes that are read ahead of their use: several requests at once. The data of writes is read to where it belongs as soon as
/// it is known.
const READ_AHEAD: usize = 16 << 10;
/// Answers that wait to be sent, at most: no more is read before some of them are.
const MOST_ANSWERS: usize = 512;
/// Slices that one system call writes.
const MOST_SLICES: usize = 64;

/// A client.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) stream: UnixStream,
    phase: Phase,
    /// Bytes that came and were not used.
    input: Vec<u8>,
    /// The request whose data is being read.
    receiving: Option<Receiving>,
    /// The request whose data is being read for nothing.
    refused: Option<Refused>,
    /// A request for which there was no memory.
    pub(super) waiting: Option<Request>,
    output: VecDeque<Reply>,
    /// Bytes of the first reply that were sent.
    sent: usize,
    /// Requests under way.
    pub(super) in_flight: usize,
    /// Bytes of memory that its requests and answers have.
    pub(super) held: u64,
    /// It has said goodbye, or its direction has ended: nothing more is read.
    pub(super) is_leaving: bool,
    /// What epoll was last told to look for: reading, writing.
    pub(super) interest: (bool, bool),
    pub(super) structured: bool,
}

#[derive(Debug)]
enum Phase {
    Negotiation(Negotiation),
    Transmission,
}

/// A write whose data comes.
#[derive(Debug)]
struct Receiving {
    request: Request,
    blocks: Vec<(Block, u32)>,
    /// Bytes that are there.
    filled: u32,
}

/// A write that can't be carried out.
#[derive(Debug)]
struct Refused {
    request: Request,
    error: Errno,
    /// Bytes of data that are still to come.
    left: usize,
}

/// Something to send.
#[derive(Debug)]
struct Reply {
    head: Head,
    /// With each block the bytes that are used.
    blocks: Vec<(Block, u32)>,
}

#[derive(Debug)]
enum Head {
    Reply(ReplyHead),
    Handshake(Vec<u8>),
}

/// What a client has brought.
#[derive(Debug)]
pub(super) enum Brought {
    /// A request without data, or a write before its data: [`Client::receive_into`] is to be told where that goes.
    Request(Request),
    /// A write, with its data.
    Write(Request, Vec<(Block, u32)>),
    /// A write that was refused, and whose data is gone.
    Refused(Request, Errno),
    /// Nothing more for now.
    Nothing,
    /// The end of what it sends.
    End,
}

impl Client {
    pub(super) fn new(stream: UnixStream) -> Client {
        let mut client = Client {
            stream,
            phase: Phase::Negotiation(Negotiation::default()),
            input: Vec::new(),
            receiving: None,
            refused: None,
            waiting: None,
            output: VecDeque::new(),
            sent: 0,
            in_flight: 0,
            held: 0,
            is_leaving: false,
            interest: (true, false),
            structured: false,
        };
        client.push(Head::Handshake(Negotiation::greeting()), Vec::new());
        client
    }

    /// What has come.
    ///
    /// # Errors
    /// When the client is to be let go: it broke the protocol, or the system says so.
    pub(super) fn poll(&mut self, export: &Export) -> io::Result<Brought> {
        loop {
            if self.is_behind() {
                return Ok(Brought::Nothing);
            }
            if let Some(brought) = self.take_data()? {
                return Ok(brought);
            }
            if let Some(refused) = &mut self.refused {
                let here = refused.left.min(self.input.len());
                self.input.drain(..here);
                refused.left -= here;
                if refused.left == 0 {
                    let (request, error) = (refused.request, refused.error);
                    self.refused = None;
                    return Ok(Brought::Refused(request, error));
                }
            }
            if let Phase::Negotiation(_) = &self.phase {
                self.negotiate(export)?;
            }
            if let (Phase::Transmission, Some(bytes)) = (&self.phase, self.input.first_chunk()) {
                let bytes: &[u8; REQUEST_LEN] = bytes;
                let request = Request::parse(bytes).ok_or(io::ErrorKind::InvalidData)?;
                self.input.drain(..REQUEST_LEN);
                return Ok(Brought::Request(request));
            }
            match self.read_ahead()? {
                None => return Ok(Brought::Nothing),
                Some(0) => return Ok(Brought::End),
                Some(_) => {}
            }
        }
    }

    /// The data of a write is to be read and forgotten.
    pub(super) fn refuse(&mut self, request: Request, error: Errno) {
        self.refused = Some(Refused {
            request,
            error,
            left: request.payload_len() as usize,
        });
    }

    /// Where the data of a write goes.
    pub(super) fn receive_into(&mut self, request: Request, blocks: Vec<(Block, u32)>) {
        self.receiving = Some(Receiving {
            request,
            blocks,
            filled: 0,
        });
    }

    /// Adds a reply.
    pub(super) fn reply(&mut self, answer: &Answer, blocks: Vec<(Block, u32)>) {
        self.push(Head::Reply(answer.head()), blocks);
    }

    /// Whether it has to take answers before more is read: a client that sends and never reads would have them pile up. In the handshake
    /// one answer that was not taken is enough.
    pub(super) fn is_behind(&self) -> bool {
        let most = match self.phase {
            Phase::Negotiation(_) => 1,
            Phase::Transmission => MOST_ANSWERS,
        };
        self.output.len() >= most
    }

    /// Whether something is to be sent.
    pub(super) fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Sends what can be sent.
    ///
    /// # Errors
    /// When the client is gone.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while !self.output.is_empty() {
            let mut slices = [IoSlice::new(&[]); MOST_SLICES];
            let count = gather(&self.output, self.sent, &mut slices);
            match self.stream.write_vectored(&slices[..count]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(len) => self.advance(len),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes data of a write, if one is being received. `None`: there is something else to do.
    fn take_data(&mut self) -> io::Result<Option<Brought>> {
        let Some(receiving) = &mut self.receiving else {
            return Ok(None);
        };
        while !self.input.is_empty() && receiving.filled < receiving.request.len {
            let held = receiving.fill(&mut &self.input[..])?;
            self.input.drain(..held);
        }
        while receiving.filled < receiving.request.len {
            match receiving.fill(&mut &self.stream) {
                Ok(0) => return Ok(Some(Brought::End)),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Some(Brought::Nothing));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let done = self.receiving.take();
        Ok(done.map(|receiving| Brought::Write(receiving.request, receiving.blocks)))
    }

    fn negotiate(&mut self, export: &Export) -> io::Result<()> {
        let Phase::Negotiation(negotiation) = &mut self.phase else {
            return Ok(());
        };
        let mut out = Vec::new();
        let (used, outcome) = negotiation.advance(&self.input, export, &mut out);
        self.input.drain(..used);
        if !out.is_empty() {
            self.push(Head::Handshake(out), Vec::new());
        }
        match outcome {
            None => Ok(()),
            Some(Outcome::Transmission { structured }) => {
                self.structured = structured;
                self.phase = Phase::Transmission;
                Ok(())
            }
            Some(Outcome::Aborted) => {
                self.is_leaving = true;
                Ok(())
            }
            Some(Outcome::Broken) => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Reads some bytes. `None`: there are none yet; 0: there will be none.
    fn read_ahead(&mut self) -> io::Result<Option<usize>> {
        let held = self.input.len();
        self.input.resize(held.max(1) + READ_AHEAD, 0);
        let read = loop {
            match (&self.stream).read(&mut self.input[held..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.input.truncate(held + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(len) => Ok(Some(len)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn push(&mut self, head: Head, blocks: Vec<(Block, u32)>) {
        self.output.push_back(Reply { head, blocks });
    }

    /// So many bytes more were sent.
    fn advance(&mut self, len: usize) {
        self.sent += len;
        while let Some(first) = self.output.front()
            && self.sent >= first.len()
        {
            self.sent -= first.len();
            self.held -= held_by(&first.blocks);
            self.output.pop_front();
        }
    }
}

impl Receiving {
    /// Reads once into the memory that is not filled.
    fn fill(&mut self, from: &mut impl Read) -> io::Result<usize> {
        let mut skip = self.filled;
        for (block, len) in &mut self.blocks {
            if skip >= *len {
                skip -= *len;
                continue;
            }
            // SAFETY: no command names the block before all of the data is there.
            let bytes = unsafe { block.bytes_mut() };
            let read = from.read(&mut bytes[skip as usize..*len as usize])?;
            self.filled += read as u32;
            return Ok(read);
        }
        Ok(0)
    }
}

impl Reply {
    fn len(&self) -> usize {
        let data: usize = self.blocks.iter().map(|(_, len)| *len as usize).sum();
        self.head().len() + data
    }

    fn head(&self) -> &[u8] {
        match &self.head {
            Head::Reply(head) => head.bytes(),
            Head::Handshake(bytes) => bytes,
        }
    }
}

/// What is to be sent next, without the first `sent` bytes of it. Gives how many slices.
fn gather<'a>(output: &'a VecDeque<Reply>, sent: usize, slices: &mut [IoSlice<'a>]) -> usize {
    let mut skip = sent;
    let mut count = 0;
    let parts = output.iter().flat_map(|reply| {
        let blocks = reply.blocks.iter().map(|(block, len)| {
            // SAFETY: a reply is made when the commands that wrote to its blocks are complete, and keeps them from others.
            let bytes = unsafe { block.bytes() };
            &bytes[..*len as usize]
        });
        std::iter::once(reply.head()).chain(blocks)
    });
    for part in parts {
        if count == slices.len() {
            break;
        }
        let skipped = skip.min(part.len());
        skip -= skipped;
        if skipped < part.len() {
            slices[count] = IoSlice::new(&part[skipped..]);
            count += 1;
        }
    }
    count
}
