//! The receiving side of a connection: finds the parts of PDUs in a stream of which the NIC may have placed and checked
//! some.

use std::ops::Range;

use shared::{Input, Output};
use wire::SeqNum;
use wire::nvme::{
    COMMON_HEADER_LEN, DIGEST_LEN, FatalError, Framing, Layout, MAX_HEADER_LEN, Pdu, Phase,
};

use super::digest::Crc32c;

#[cfg(test)]
mod tests;

/// What comes next in the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Bytes of a header, of padding or of a digest: [`Reader::take`] is to have them.
    Frame,
    /// These bytes of a PDU's data, counted from its first: [`Reader::copy`] or [`Reader::pass`] is to be told of them, all
    /// or some first part.
    Data(Range<u32>),
    /// Nothing until [`Reader::negotiated`]: what both sides have agreed on decides how the next header is read.
    Waiting,
}

/// What the bytes taken have brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A header has come, and nothing is wrong with it. If the PDU has data, that follows.
    Header(Pdu),
    /// A PDU with data has come to its end.
    End(DataDigest),
}

/// What is known of the digest of a PDU's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataDigest {
    /// It has none.
    None,
    /// It is right.
    Good,
    /// It is wrong.
    Bad,
    /// The data from this byte on is still to be digested where it now is, by [`Reader::verify`].
    Unverified(u32),
}

/// Finds the PDUs of one direction of a connection.
///
/// [`next`](Self::next) says what comes next; the caller hands over that. It costs some 120 cycles per PDU, and for data
/// the copy alone if the NIC has checked its digest.
#[derive(Debug)]
pub struct Reader {
    framing: Framing,
    part: Part,
    /// The header as far as it has come, with its digest.
    header: [u8; HEADER_ROOM],
    held: u8,
    /// Bytes of the header before.
    before: u8,
    /// Position of the next byte.
    position: SeqNum,
    /// PDUs begun, in all.
    index: u64,
    latest: Located,
    data_digest: Digested,
}

/// Where a PDU is in its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    /// Position of its first byte.
    pub start: SeqNum,
    /// Its length in bytes.
    pub len: u32,
    /// PDUs before it.
    pub index: u64,
}

const HEADER_ROOM: usize = MAX_HEADER_LEN + DIGEST_LEN as usize;

#[derive(Clone, Copy, Debug)]
enum Part {
    Header,
    /// So many bytes of padding are left.
    Padding(Layout, u32),
    /// The next byte of the data.
    Data(Layout, u32),
    /// The data's digest, and how many bytes of it have come.
    Digest([u8; DIGEST_LEN as usize], u8),
    Waiting,
}

/// How far the data of the latest PDU is checked.
#[derive(Clone, Copy, Debug)]
struct Digested {
    /// The data has a digest.
    is_used: bool,
    /// The NIC has checked all that came so far.
    vouched: bool,
    /// Over the first `upto` bytes of `len`.
    crc: Crc32c,
    upto: u32,
    len: u32,
    /// What the digest must be, once it has come.
    received: u32,
}

impl Reader {
    /// A reader of the PDUs that come under `framing`, the first one at `start`. Positions are counted in bytes of the
    /// stream that carries them: TCP's sequence numbers, or bytes of plaintext under TLS.
    pub fn new(framing: Framing, start: SeqNum) -> Reader {
        Reader {
            framing,
            part: Part::Header,
            header: [0; HEADER_ROOM],
            held: 0,
            before: 0,
            position: start,
            index: 0,
            latest: Located {
                start,
                len: 0,
                index: 0,
            },
            data_digest: Digested {
                is_used: false,
                vouched: true,
                crc: Crc32c::new(),
                upto: 0,
                len: 0,
                received: 0,
            },
        }
    }

    /// What both sides have agreed on: the rules from the next PDU on.
    ///
    /// # Panics
    /// When the reader is inside of a PDU.
    pub fn negotiated(&mut self, framing: Framing) {
        assert!(self.is_at_boundary(), "it is agreed on between PDUs");
        self.framing = framing;
        self.part = Part::Header;
    }

    /// The rules of the PDU in progress.
    pub fn framing(&self) -> &Framing {
        &self.framing
    }

    /// Whether the next byte begins a PDU.
    pub fn is_at_boundary(&self) -> bool {
        matches!(self.part, Part::Header | Part::Waiting) && self.held == 0
    }

    /// Position of the next byte, and how many PDUs have begun before it.
    pub fn position(&self) -> (SeqNum, u64) {
        (self.position, self.index)
    }

    /// What comes next.
    #[inline]
    pub fn next(&self) -> Next {
        match self.part {
            Part::Data(layout, at) => Next::Data(at..layout.data_len),
            Part::Waiting => Next::Waiting,
            _ => Next::Frame,
        }
    }

    /// Takes bytes of the stream up to the next data, or to what is worth an event; answers how many it took. `checked`
    /// says that the NIC has checked the digests of these bytes.
    ///
    /// # Errors
    /// What of the header ends the connection. [`latest_header`](Self::latest_header) has its bytes. The reader must not be used further.
    ///
    /// # Panics
    /// When something else comes [next](Self::next).
    #[inline]
    pub fn take(
        &mut self,
        bytes: &[u8],
        checked: bool,
    ) -> Result<(usize, Option<Event>), FatalError> {
        let (taken, event) = match self.part {
            Part::Header => self.take_header(bytes)?,
            Part::Padding(layout, left) => {
                let taken = (left as usize).min(bytes.len());
                self.part = match left - taken as u32 {
                    0 => Part::Data(layout, 0),
                    left => Part::Padding(layout, left),
                };
                (taken, None)
            }
            Part::Digest(digest, held) => self.take_digest(digest, held, bytes, checked),
            Part::Data(..) | Part::Waiting => panic!("no bytes of a frame come next"),
        };
        self.position += taken as u32;
        Ok((taken, event))
    }

    fn take_header(&mut self, bytes: &[u8]) -> Result<(usize, Option<Event>), FatalError> {
        let mut taken = 0;
        if usize::from(self.held) < COMMON_HEADER_LEN {
            taken += self.hold(bytes, COMMON_HEADER_LEN);
        }
        // The common header is judged as a whole, and the other fields once their digest has come: so an error is the same one however
        // the bytes come.
        let Some(common) = self.header[..usize::from(self.held)].get(..COMMON_HEADER_LEN) else {
            return Ok((taken, None));
        };
        let Some(layout) = self.framing.check(common)? else {
            return Ok((taken, None));
        };
        let digest = layout.header_digest();
        let end = digest.end as usize;
        taken += self.hold(&bytes[taken..], end);
        if usize::from(self.held) < end {
            return Ok((taken, None));
        }
        let (header, digest) = self.header[..end].split_at(digest.start as usize);
        if let Ok(digest) = <[u8; 4]>::try_from(digest) {
            let digest = u32::from_le_bytes(digest);
            if digest != Crc32c::of(header) {
                return Err(FatalError::header_digest(digest));
            }
        }
        let pdu = Pdu::parse_checked(header, &layout)?;
        self.latest = Located {
            start: self.position + taken as u32 - end as u32,
            len: layout.pdu_len(),
            index: self.index,
        };
        self.index += 1;
        (self.held, self.before) = (0, end as u8);
        self.data_digest = Digested::of(&layout);
        let padding = u32::from(layout.pdo) - end as u32;
        self.part = match (self.framing.phase, layout.data_len, padding) {
            (Phase::Initializing, 0, _) => Part::Waiting,
            (Phase::Established, 0, _) => Part::Header,
            (_, _, 0) => Part::Data(layout, 0),
            (_, _, padding) => Part::Padding(layout, padding),
        };
        Ok((taken, Some(Event::Header(pdu))))
    }

    /// Adds to the header, up to `end`; answers how many bytes.
    #[inline]
    fn hold(&mut self, bytes: &[u8], end: usize) -> usize {
        let held = usize::from(self.held);
        let taken = bytes.len().min(end.saturating_sub(held));
        self.header[held..held + taken].copy_from_slice(&bytes[..taken]);
        self.held += taken as u8;
        taken
    }

    fn take_digest(
        &mut self,
        mut digest: [u8; 4],
        held: u8,
        bytes: &[u8],
        checked: bool,
    ) -> (usize, Option<Event>) {
        let room = &mut digest[usize::from(held)..];
        let taken = room.len().min(bytes.len());
        room[..taken].copy_from_slice(&bytes[..taken]);
        if taken > 0 {
            self.data_digest.vouched &= checked;
        }
        let held = held + taken as u8;
        if u32::from(held) < DIGEST_LEN {
            self.part = Part::Digest(digest, held);
            return (taken, None);
        }
        self.part = self.after_pdu();
        self.data_digest.received = u32::from_le_bytes(digest);
        (taken, Some(Event::End(self.data_digest.verdict())))
    }

    /// The next `len` bytes of data are where they belong already.
    ///
    /// # Panics
    /// When no data comes [next](Self::next), or less.
    #[inline]
    pub fn pass(&mut self, len: u32, checked: bool) -> Option<Event> {
        self.data_digest.vouched &= checked;
        self.advance(len)
    }

    /// The next bytes of data are in `from` and belong into `to`: copies them, and digests them in passing if the NIC
    /// has not checked them.
    ///
    /// # Panics
    /// When the two differ in length, no data comes [next](Self::next), or less.
    #[inline]
    pub fn copy<'f, 't>(
        &mut self,
        from: impl Into<Input<'f>>,
        to: impl Into<Output<'t>>,
        checked: bool,
    ) -> Option<Event> {
        let from = from.into();
        if !checked && self.data_digest.is_at(self.part) {
            self.data_digest.crc.copy(from, to);
            self.data_digest.upto += from.len() as u32;
        } else {
            to.into().copy_from(from);
        }
        self.data_digest.vouched &= checked;
        self.advance(from.len() as u32)
    }

    /// The next bytes of data are in `from` and nobody wants them: digests them only.
    ///
    /// # Panics
    /// When no data comes [next](Self::next), or less.
    pub fn discard<'f>(&mut self, from: impl Into<Input<'f>>) -> Option<Event> {
        let from = from.into();
        if self.data_digest.is_at(self.part) {
            self.data_digest.crc.update(from);
            self.data_digest.upto += from.len() as u32;
        }
        self.data_digest.vouched = false;
        self.advance(from.len() as u32)
    }

    /// Digests the next data of a PDU that has ended [unverified](DataDigest::Unverified), from the byte on that this names.
    /// Once all of it was given, the answer is no longer that.
    pub fn verify<'d>(&mut self, data: impl Into<Input<'d>>) -> DataDigest {
        let data = data.into();
        self.data_digest.crc.update(data);
        self.data_digest.upto += data.len() as u32;
        self.data_digest.verdict()
    }

    /// Where the latest PDU is whose header has come.
    #[inline]
    pub fn latest(&self) -> Located {
        self.latest
    }

    /// Whether it is by the NIC's word that the latest PDU's digest is right. `None` when it has none.
    #[inline]
    pub fn digest_was_vouched(&self) -> Option<bool> {
        self.data_digest.is_used.then_some(self.data_digest.vouched)
    }

    /// Bytes of data of the latest PDU.
    pub fn data_len(&self) -> u32 {
        self.data_digest.len
    }

    /// The bytes of the latest header, as far as they have come: what a TermReq is to carry if it was refused, here or by
    /// whoever got the event.
    pub fn latest_header(&self) -> &[u8] {
        let len = if self.held > 0 {
            self.held
        } else {
            self.before
        };
        &self.header[..usize::from(len)]
    }

    #[inline]
    fn advance(&mut self, len: u32) -> Option<Event> {
        let Part::Data(layout, at) = self.part else {
            panic!("no data comes next");
        };
        let at = at + len;
        assert!(at <= layout.data_len, "more data than the PDU has");
        self.position += len;
        if at < layout.data_len {
            self.part = Part::Data(layout, at);
            None
        } else if layout.data_digest {
            self.part = Part::Digest([0; 4], 0);
            None
        } else {
            self.part = self.after_pdu();
            Some(Event::End(DataDigest::None))
        }
    }

    fn after_pdu(&self) -> Part {
        match self.framing.phase {
            Phase::Initializing => Part::Waiting,
            Phase::Established => Part::Header,
        }
    }
}

impl Digested {
    fn of(layout: &Layout) -> Digested {
        Digested {
            is_used: layout.data_digest,
            vouched: true,
            crc: Crc32c::new(),
            upto: 0,
            len: layout.data_len,
            received: 0,
        }
    }

    /// Whether the data that comes next is what the digest goes on with.
    #[inline]
    fn is_at(&self, part: Part) -> bool {
        matches!(part, Part::Data(_, at) if self.is_used && self.upto == at)
    }

    fn verdict(&self) -> DataDigest {
        if self.vouched {
            DataDigest::Good
        } else if self.upto < self.len {
            DataDigest::Unverified(self.upto)
        } else if self.crc.finish() == self.received {
            DataDigest::Good
        } else {
            DataDigest::Bad
        }
    }
}
