//! The receiving side of a connection: finds the parts of PDUs in a stream of which the NIC may have placed and checked
//! some.

use std::ops::Range;

use shared::{Input, Output};
use wire::SeqNum;

use super::protocol::DIGEST_LEN;
use super::{Layout, MAX_FRONT, MAX_PADDING, PduProtocol};
use crate::crc32c::Crc32c;

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
pub enum Event<H> {
    /// A header has come, and nothing is wrong with it. If the PDU has data, that follows.
    Header(H),
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
pub struct Reader<P> {
    framing: P,
    part: Part,
    /// Of the latest PDU whose header has come.
    layout: Layout,
    /// After that PDU nothing is read before the two sides have agreed on what follows.
    ends_phase: bool,
    /// The header as far as it has come, with its digest.
    header: [u8; MAX_FRONT],
    held: u16,
    /// Bytes of the header before.
    before: u16,
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

/// What comes behind the data: padding and digest.
const BEHIND_ROOM: usize = (MAX_PADDING + DIGEST_LEN) as usize;

#[derive(Clone, Copy, Debug)]
enum Part {
    Header,
    /// So many bytes of padding are left before the data.
    Padding(u32),
    /// The next byte of the data.
    Data(u32),
    /// So many bytes of what is behind the data have come.
    Behind(u32),
    Waiting,
}

/// How far the data of the latest PDU is checked.
#[derive(Clone, Copy, Debug)]
struct Digested {
    /// The NIC has checked all that came so far.
    vouched: bool,
    /// Over the first `upto` bytes of the data.
    crc: Crc32c,
    upto: u32,
    /// Padding and digest, as far as they have come.
    behind: [u8; BEHIND_ROOM],
}

impl<P: PduProtocol> Reader<P> {
    /// A reader of the PDUs that come under `framing`, the first one at `start`. Positions are counted in bytes of the
    /// stream that carries them: TCP's sequence numbers, or bytes of plaintext under TLS.
    pub fn new(framing: P, start: SeqNum) -> Reader<P> {
        Reader {
            framing,
            part: Part::Header,
            layout: Layout::header_only(0),
            ends_phase: false,
            header: [0; MAX_FRONT],
            held: 0,
            before: 0,
            position: start,
            index: 0,
            latest: Located {
                start,
                len: 0,
                index: 0,
            },
            data_digest: Digested::new(),
        }
    }

    /// What both sides have agreed on: the rules from the next PDU on.
    ///
    /// # Panics
    /// When the reader is inside of a PDU.
    pub fn negotiated(&mut self, framing: P) {
        assert!(self.is_at_boundary(), "it is agreed on between PDUs");
        self.framing = framing;
        self.part = Part::Header;
    }

    /// The rules of the PDU in progress.
    pub fn framing(&self) -> &P {
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
            Part::Data(at) => Next::Data(at..self.layout.data_len),
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
    #[allow(clippy::type_complexity)]
    pub fn take(
        &mut self,
        bytes: &[u8],
        checked: bool,
    ) -> Result<(usize, Option<Event<P::Pdu>>), P::Error> {
        let (taken, event) = match self.part {
            Part::Header => {
                let (taken, header) = self.take_header(bytes)?;
                (taken, header.map(Event::Header))
            }
            Part::Padding(left) => {
                let taken = (left as usize).min(bytes.len());
                self.part = match left - taken as u32 {
                    0 => Part::Data(0),
                    left => Part::Padding(left),
                };
                (taken, None)
            }
            Part::Behind(held) => self.take_behind(held, bytes, checked),
            Part::Data(..) | Part::Waiting => panic!("no bytes of a frame come next"),
        };
        self.position += taken as u32;
        Ok((taken, event))
    }

    fn take_header(&mut self, bytes: &[u8]) -> Result<(usize, Option<P::Pdu>), P::Error> {
        let mut taken = self.hold(bytes, P::PRELUDE_LEN);
        // The prelude is judged as a whole, and the other fields once their digest has come: so an error is the same one however
        // the bytes come.
        let Some(prelude) = self.header[..usize::from(self.held)].get(..P::PRELUDE_LEN) else {
            return Ok((taken, None));
        };
        let prelude = self.framing.begin(prelude)?;
        let end = self.framing.header_len(&prelude);
        taken += self.hold(&bytes[taken..], end);
        if usize::from(self.held) < end {
            return Ok((taken, None));
        }
        let (pdu, layout) = self.framing.parse(&prelude, &self.header[..end])?;
        self.latest = Located {
            start: self.position + taken as u32 - end as u32,
            len: layout.len(),
            index: self.index,
        };
        self.index += 1;
        (self.held, self.before) = (0, end as u16);
        self.data_digest = Digested::new();
        self.ends_phase = self.framing.ends_phase(&pdu);
        self.layout = layout;
        self.part = match (layout.data_len, layout.data_start - layout.header_len) {
            (0, _) => self.after_pdu(),
            (_, 0) => Part::Data(0),
            (_, padding) => Part::Padding(padding),
        };
        Ok((taken, Some(pdu)))
    }

    /// Adds to the header, up to `end`; answers how many bytes.
    #[inline]
    fn hold(&mut self, bytes: &[u8], end: usize) -> usize {
        let held = usize::from(self.held);
        let taken = bytes.len().min(end.saturating_sub(held));
        self.header[held..held + taken].copy_from_slice(&bytes[..taken]);
        self.held += taken as u16;
        taken
    }

    fn take_behind(
        &mut self,
        held: u32,
        bytes: &[u8],
        checked: bool,
    ) -> (usize, Option<Event<P::Pdu>>) {
        let end = self.layout.behind_len();
        let room = &mut self.data_digest.behind[held as usize..end as usize];
        let taken = room.len().min(bytes.len());
        room[..taken].copy_from_slice(&bytes[..taken]);
        if taken > 0 {
            self.data_digest.vouched &= checked;
        }
        let held = held + taken as u32;
        if held < end {
            self.part = Part::Behind(held);
            return (taken, None);
        }
        self.part = self.after_pdu();
        (taken, Some(Event::End(self.verdict())))
    }

    /// The next `len` bytes of data are where they belong already.
    ///
    /// # Panics
    /// When no data comes [next](Self::next), or less.
    #[inline]
    pub fn pass(&mut self, len: u32, checked: bool) -> Option<Event<P::Pdu>> {
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
    ) -> Option<Event<P::Pdu>> {
        let from = from.into();
        if !checked && self.digests_next() {
            self.data_digest.crc.copy(from, to);
            self.data_digest.upto += from.len() as u32;
        } else {
            to.into().copy_from(from);
        }
        self.data_digest.vouched &= checked;
        self.advance(from.len() as u32)
    }

    /// The next bytes of data are in `from` and are not wanted: digests them only.
    ///
    /// # Panics
    /// When no data comes [next](Self::next), or less.
    pub fn discard<'f>(&mut self, from: impl Into<Input<'f>>) -> Option<Event<P::Pdu>> {
        let from = from.into();
        if self.digests_next() {
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
        self.verdict()
    }

    /// Where the latest PDU is whose header has come.
    #[inline]
    pub fn latest(&self) -> Located {
        self.latest
    }

    /// Whether it is by the NIC's word that the latest PDU's digest is right. `None` when it has none.
    #[inline]
    pub fn digest_was_vouched(&self) -> Option<bool> {
        self.layout.data_digest.then_some(self.data_digest.vouched)
    }

    /// Bytes of data of the latest PDU.
    pub fn data_len(&self) -> u32 {
        self.layout.data_len
    }

    /// The bytes of the latest header, as far as they have come: what the peer is to be shown of it if it was
    /// refused, here or by the receiver of the event.
    pub fn latest_header(&self) -> &[u8] {
        let len = if self.held > 0 {
            self.held
        } else {
            self.before
        };
        &self.header[..usize::from(len)]
    }

    #[inline]
    fn advance(&mut self, len: u32) -> Option<Event<P::Pdu>> {
        let Part::Data(at) = self.part else {
            panic!("no data comes next");
        };
        let at = at + len;
        assert!(at <= self.layout.data_len, "more data than the PDU has");
        self.position += len;
        if at < self.layout.data_len {
            self.part = Part::Data(at);
            None
        } else if self.layout.behind_len() > 0 {
            self.part = Part::Behind(0);
            None
        } else {
            self.part = self.after_pdu();
            Some(Event::End(DataDigest::None))
        }
    }

    fn after_pdu(&self) -> Part {
        match self.ends_phase {
            true => Part::Waiting,
            false => Part::Header,
        }
    }

    /// Whether the data that comes next is what the digest goes on with.
    #[inline]
    fn digests_next(&self) -> bool {
        let upto = self.data_digest.upto;
        self.layout.data_digest && matches!(self.part, Part::Data(at) if upto == at)
    }

    /// What is known of the data, all of which has come with what is behind it.
    fn verdict(&self) -> DataDigest {
        let Digested {
            vouched,
            upto,
            behind,
            ..
        } = self.data_digest;
        if !self.layout.data_digest {
            return DataDigest::None;
        }
        if vouched {
            return DataDigest::Good;
        }
        if upto < self.layout.data_len {
            return DataDigest::Unverified(upto);
        }
        let behind = &behind[..self.layout.behind_len() as usize];
        let (padding, received) = behind.split_at(self.layout.padding as usize);
        let mut crc = self.data_digest.crc;
        crc.update(padding);
        match crc.finish().to_le_bytes() == received {
            true => DataDigest::Good,
            false => DataDigest::Bad,
        }
    }
}

impl Digested {
    fn new() -> Digested {
        Digested {
            vouched: true,
            crc: Crc32c::new(),
            upto: 0,
            behind: [0; BEHIND_ROOM],
        }
    }
}
