//! The host's part: reads a response, and does what the NIC has not done.

use std::io;

use wire::SeqNum;

use super::HOST_WINDOW;
use super::coding::{Coding, Decoder};
use super::content_error::ContentError;
use super::response::{Download, Progress, ResponseHead};
use crate::{Note, ResultRing};
use runs::{Run, Runs};

mod runs;
#[cfg(test)]
mod tests;

/// Most bytes of compressed content that are kept for software. A response with more is software's, from its beginning on.
pub const MAX_KEPT: usize = 16 << 20;
/// Bytes that software makes at a time.
const PIECE: usize = 64 << 10;
/// Bytes of compressed content that software decodes anew in one step.
const STEP: usize = 64 << 10;

/// Takes decoded content.
pub trait Sink {
    /// The next bytes.
    ///
    /// # Errors
    /// When they can't be written.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// The next bytes are the next `len` of those that the NIC has put into the buffers.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    fn write_placed(&mut self, len: u64) -> io::Result<()>;
}

/// Takes a response in order, and gives its content decoded: what software makes of the stream, whatever the NIC has done.
///
/// Bytes are named by the sequence number under which TCP brings them. Those inside of another protocol have gaps between them.
#[derive(Debug)]
pub struct Content {
    download: Download,
    head: Option<ResponseHead>,
    /// Bytes of the response so far.
    bytes: u64,
    /// Bytes of content so far, before decoding and after.
    taken: u64,
    made: u64,
    /// `None` when nothing is to be decoded.
    limit: Option<u64>,
    /// Bytes that software is to make and that were given already, as the NIC has made them.
    given: u64,
    decodes: Decodes,
    made_by: MadeBy,
    /// What the NIC says of bytes that have not been taken.
    runs: Runs,
    piece: Vec<u8>,
}

/// Who decodes.
#[derive(Debug)]
enum Decodes {
    /// Nothing is to be decoded, or it is not known yet.
    None,
    Software(Box<BySoftware>),
    /// The NIC, from the beginning on.
    Nic(Box<ByNic>),
}

/// A response that software decodes.
#[derive(Debug)]
struct BySoftware {
    decoder: Decoder,
    /// Content that the NIC was to decode, which comes first: from byte `at` on.
    kept: Vec<u8>,
    at: usize,
}

/// A response that the NIC has decoded so far.
#[derive(Debug)]
struct ByNic {
    ring: ResultRing,
    /// Its content, before decoding.
    kept: Vec<u8>,
    /// The run whose bytes are being taken.
    run: Option<Run>,
    is_whole: bool,
}

/// Bytes of content, by who has made them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MadeBy {
    /// By the NIC.
    pub nic: u64,
    /// By software.
    pub software: u64,
    /// Software has taken over from the NIC.
    pub fallbacks: u64,
}

impl Content {
    /// At the first byte of a response, whose content may have `limit` bytes when it is decoded; without it, content is given as it comes. With
    /// `ring`, the NIC decodes it too, into these buffers.
    pub fn new(limit: Option<u64>, ring: Option<ResultRing>) -> Content {
        let by_nic = |ring| {
            Box::new(ByNic {
                ring,
                kept: Vec::new(),
                run: None,
                is_whole: false,
            })
        };
        Content {
            download: Download::new(),
            head: None,
            bytes: 0,
            taken: 0,
            made: 0,
            limit,
            given: 0,
            decodes: ring
                .filter(|_| limit.is_some())
                .map_or(Decodes::None, |ring| Decodes::Nic(by_nic(ring))),
            made_by: MadeBy::default(),
            runs: Runs::default(),
            piece: Vec::new(),
        }
    }

    /// The response's head, once it is there.
    pub fn head(&self) -> Option<&ResponseHead> {
        self.head.as_ref()
    }

    /// Whether the response is whole.
    pub fn is_done(&self) -> bool {
        self.download.is_done() && !self.is_behind()
    }

    /// Whether software has to [catch up](Self::catch_up) before anything else.
    pub fn is_behind(&self) -> bool {
        matches!(&self.decodes, Decodes::Software(software) if !software.kept.is_empty())
    }

    /// Bytes of content so far, before decoding.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Bytes of content so far, decoded.
    pub fn made(&self) -> u64 {
        self.made
    }

    /// Whether the NIC decodes, as far as is known.
    pub fn is_by_nic(&self) -> bool {
        matches!(self.decodes, Decodes::Nic(_))
    }

    /// Who has made the content since this was asked last.
    pub fn take_made_by(&mut self) -> MadeBy {
        std::mem::take(&mut self.made_by)
    }

    /// The engine's notes on a packet whose payload, of `len` bytes, begins at `at`, and which TCP has taken as a whole. To be called before
    /// the packet's bytes are [taken](Self::take), for packets in any order. Notes that can't be true do not count.
    pub fn note(&mut self, at: SeqNum, len: u32, notes: &[Note]) {
        if matches!(self.decodes, Decodes::Nic(_)) {
            self.runs.note(at, len, notes);
        }
    }

    /// Takes the next bytes, the first of which is at `at`. They and those behind them, `known` bytes in all, are certain to follow one another
    /// in the stream. Gives how many of them were taken: all, or those up to the end of the response's head, once, or of the response, or to where
    /// software has to [catch up](Self::catch_up).
    ///
    /// # Errors
    /// When the response is not what it has to be; it is of no more use then.
    pub fn take(
        &mut self,
        at: SeqNum,
        bytes: &[u8],
        known: u32,
        sink: &mut dyn Sink,
    ) -> Result<usize, ContentError> {
        let (mut at, mut rest, mut known) = (at, bytes, known);
        let had_head = self.head.is_some();
        while !rest.is_empty()
            && !self.download.is_done()
            && self.head.is_some() == had_head
            && !self.is_behind()
        {
            let now = match self.enter_run(at, known) {
                Some(run) => rest.len().min(at.distance_to(run.to) as usize),
                None => {
                    self.leave_nic()?;
                    rest.len()
                }
            };
            if self.is_behind() {
                break;
            }
            let used = self.read(&rest[..now], sink)?;
            at += used as u32;
            known = known.saturating_sub(used as u32);
            rest = &rest[used..];
            self.end_run(at, sink)?;
        }
        self.finish()?;
        Ok(bytes.len() - rest.len())
    }

    /// Decodes some more of what the NIC has left to software.
    ///
    /// # Errors
    /// As for [`take`](Self::take).
    pub fn catch_up(&mut self, sink: &mut dyn Sink) -> Result<(), ContentError> {
        let Decodes::Software(software) = &mut self.decodes else {
            return Ok(());
        };
        let kept = std::mem::take(&mut software.kept);
        let from = software.at;
        let end = kept.len().min(from + STEP);
        software.at = end;
        self.decode(&kept[from..end], sink)?;
        if end < kept.len()
            && let Decodes::Software(software) = &mut self.decodes
        {
            software.kept = kept;
        }
        self.finish()
    }

    /// The stream has ended in order.
    ///
    /// # Errors
    /// When the response is not whole.
    pub fn handle_end(&mut self) -> Result<(), ContentError> {
        self.download.handle_end()?;
        self.finish()
    }

    /// The run that holds the bytes at `at`, if the NIC has decoded all before it.
    fn enter_run(&mut self, at: SeqNum, known: u32) -> Option<Run> {
        let Decodes::Nic(nic) = &mut self.decodes else {
            return None;
        };
        if nic.run.is_none() {
            let run = self.runs.pop_front()?;
            let is_next = run.from == at && run.before == self.bytes;
            let is_known = at.distance_to(run.to) <= known;
            let fits = run.made >= self.made && run.made - self.made <= nic.ring.bytes();
            let has_room = nic.kept.len() + at.distance_to(run.to) as usize <= MAX_KEPT;
            if !(is_next && is_known && fits && has_room) {
                return None;
            }
            nic.run = Some(run);
        }
        nic.run.filter(|run| at.before(run.to))
    }

    /// The bytes before `at` have been taken: gives what the NIC has made of them, if it is through with them.
    fn end_run(&mut self, at: SeqNum, sink: &mut dyn Sink) -> Result<(), ContentError> {
        let Decodes::Nic(nic) = &mut self.decodes else {
            return Ok(());
        };
        let Some(run) = nic.run.take_if(|run| run.to == at) else {
            return Ok(());
        };
        nic.is_whole = run.is_whole;
        let new = run.made - self.made;
        self.grow(new)?;
        self.made_by.nic += new;
        sink.write_placed(new).map_err(ContentError::Unwritable)
    }

    /// Counts decoded content.
    fn grow(&mut self, made: u64) -> Result<(), ContentError> {
        self.made += made;
        match self.limit.filter(|limit| self.made > *limit) {
            Some(limit) => Err(ContentError::TooLarge {
                taken: self.taken,
                limit,
            }),
            None => Ok(()),
        }
    }

    /// Reads bytes, of which the NIC has decoded all or nothing; gives how many were read, up to the end of the head or of the response.
    fn read(&mut self, bytes: &[u8], sink: &mut dyn Sink) -> Result<usize, ContentError> {
        let had_head = self.head.is_some();
        let mut rest = bytes;
        while !rest.is_empty() && !self.download.is_done() && self.head.is_some() == had_head {
            let (used, progress) = self.download.advance(rest)?;
            let (now, later) = rest.split_at(used);
            match progress {
                Progress::Head(head) => self.begin(head)?,
                Progress::Content => {
                    self.taken += now.len() as u64;
                    match &mut self.decodes {
                        Decodes::Nic(nic) => nic.kept.extend_from_slice(now),
                        _ => self.decode(now, sink)?,
                    }
                }
                Progress::Framing | Progress::Done => {}
            }
            rest = later;
        }
        let used = bytes.len() - rest.len();
        self.bytes += used as u64;
        Ok(used)
    }

    fn begin(&mut self, head: ResponseHead) -> Result<(), ContentError> {
        if self.limit.is_none() {
            self.decodes = Decodes::None;
        } else if let Some(coding) = head.coding() {
            if !matches!(self.decodes, Decodes::Nic(_)) {
                self.decodes = Decodes::Software(by_software(coding, Vec::new())?);
            }
        } else {
            if head.is_success() && !head.is_identity() {
                let named = head.content_encoding.unwrap_or_default();
                return Err(ContentError::Coding(named));
            }
            // No NIC decodes that.
            self.decodes = Decodes::None;
        }
        self.head = Some(head);
        Ok(())
    }

    /// What the NIC does from here on does not count.
    fn leave_nic(&mut self) -> Result<(), ContentError> {
        let Decodes::Nic(nic) = &mut self.decodes else {
            return Ok(());
        };
        let kept = std::mem::take(&mut nic.kept);
        self.decodes = Decodes::None;
        self.runs = Runs::default();
        let Some(coding) = self.head.as_ref().and_then(ResponseHead::coding) else {
            return Ok(());
        };
        self.decodes = Decodes::Software(by_software(coding, kept)?);
        self.made_by.fallbacks += 1;
        self.given = std::mem::take(&mut self.made);
        Ok(())
    }

    /// Decodes content in software, or takes it as it is if it is not coded.
    fn decode(&mut self, mut content: &[u8], sink: &mut dyn Sink) -> Result<(), ContentError> {
        if !matches!(self.decodes, Decodes::Software(_)) {
            self.grow(content.len() as u64)?;
            return sink.write(content).map_err(ContentError::Unwritable);
        }
        self.piece.resize(PIECE, 0);
        while let Decodes::Software(software) = &mut self.decodes {
            let (used, made) = software.decoder.decode(content, &mut self.piece)?;
            content = &content[used..];
            self.made_by.software += made as u64;
            self.grow(made as u64)?;
            let given = self.given.min(made as u64) as usize;
            self.given -= given as u64;
            if given < made {
                let new = sink.write(&self.piece[given..made]);
                new.map_err(ContentError::Unwritable)?;
            }
            if content.is_empty() && made < PIECE {
                break;
            }
        }
        Ok(())
    }

    /// Once the response is whole, what was compressed must be too.
    fn finish(&mut self) -> Result<(), ContentError> {
        if !self.download.is_done() {
            return Ok(());
        }
        if let Decodes::Nic(nic) = &self.decodes
            && (nic.run.is_some() || !nic.is_whole)
        {
            self.leave_nic()?;
        }
        match &self.decodes {
            Decodes::Software(software)
                if software.kept.is_empty() && !software.decoder.is_whole() =>
            {
                Err(ContentError::CutShort)
            }
            _ => Ok(()),
        }
    }
}

fn by_software(coding: Coding, kept: Vec<u8>) -> Result<Box<BySoftware>, ContentError> {
    let decoder = Decoder::new(coding, HOST_WINDOW).ok_or(ContentError::NoMemory)?;
    let at = 0;
    Ok(Box::new(BySoftware { decoder, kept, at }))
}
