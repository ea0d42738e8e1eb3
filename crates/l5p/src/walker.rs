//! A position in a stream of messages.

use shared::{Input, Output};
use thiserror::Error;

use crate::{AnyOrder, Integrity, Layer5};

#[cfg(test)]
mod tests;

/// Carries a position through a stream of messages of one protocol: the message's number, its
/// length once known, the offset in it, and a header, of the [protocol's](Layer5::Header) length, that is split over packets.
///
/// The stream is given in order, in pieces of any size. What was given is processed at once; a
/// walker buffers nothing but a partial header, whose bytes it has passed on already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walker<H> {
    index: u64,
    /// Length of the current message; 0 while its header is incomplete.
    len: u32,
    /// Bytes of the current message that have been processed.
    offset: u32,
    header: H,
}

/// What [`Walker::advance`] passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walked {
    /// Messages whose last byte was among the bytes given.
    pub messages_finished: u32,
    /// `Bad` when any of them failed its check.
    pub integrity: Integrity,
}

/// The stream has no header where one must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no message header at byte {at} of the input: the stream is not in step with its messages")]
pub struct NotAHeader {
    /// Where the presumed header begins, counted from the first byte of the input; negative when
    /// its first bytes came with earlier input.
    pub at: i64,
}

impl<H: AsRef<[u8]> + AsMut<[u8]> + Copy + Default> Walker<H> {
    /// A walker at the first byte of message number `index`.
    pub fn new(index: u64) -> Walker<H> {
        Walker {
            index,
            len: 0,
            offset: 0,
            header: H::default(),
        }
    }

    /// Processes `input`, the next bytes of the stream, into `output` of the same length.
    ///
    /// # Errors
    /// When a header turns out to be invalid, all bytes before the piece in which it is refused have
    /// been processed and `output` is unspecified from there on. The walker is then of no more
    /// use: make a new one at a known message boundary.
    ///
    /// # Panics
    /// When `input` and `output` differ in length.
    pub fn advance<'i, 'o, L: Layer5<Header = H>>(
        &mut self,
        layer5: &mut L,
        input: impl Into<Input<'i>>,
        output: impl Into<Output<'o>>,
    ) -> Result<Walked, NotAHeader> {
        let (input, output) = (input.into(), output.into());
        assert_eq!(input.len(), output.len());
        if input.len() < self.rest_of_message() {
            // As most packets of long messages are.
            layer5.transform(self.offset, input, output);
            self.offset += input.len() as u32;
            return Ok(Walked::nothing());
        }
        self.walk(layer5, input, Some(output))
    }

    /// As [`advance`](Self::advance), for bytes whose transformed form is not wanted: a packet that
    /// is passed on as it came, or a message's prefix during recovery.
    ///
    /// # Errors
    /// As for [`advance`](Self::advance).
    pub fn absorb<'i, L: Layer5<Header = H>>(
        &mut self,
        layer5: &mut L,
        input: impl Into<Input<'i>>,
    ) -> Result<Walked, NotAHeader> {
        let input = input.into();
        if input.len() < self.rest_of_message() {
            layer5.absorb(self.offset, input);
            self.offset += input.len() as u32;
            return Ok(Walked::nothing());
        }
        self.walk(layer5, input, None)
    }

    /// Bytes of the current message that are still to come; 0 before its header is there.
    #[inline]
    fn rest_of_message(&self) -> usize {
        self.len.saturating_sub(self.offset) as usize
    }

    fn walk<L: Layer5<Header = H>>(
        &mut self,
        layer5: &mut L,
        input: Input<'_>,
        output: Option<Output<'_>>,
    ) -> Result<Walked, NotAHeader> {
        let mut walked = Walked::nothing();
        let (mut rest, mut output) = (input, output);
        while !rest.is_empty() {
            if self.len == 0 {
                let have = self.offset as usize;
                let taken = self.take_header(layer5, rest, input.len() - rest.len())?;
                rest = rest.split_at(taken).1;
                if let Some(made) = split_off(&mut output, taken) {
                    made.copy_from(&self.header.as_ref()[have..have + taken]);
                }
                if self.len == 0 {
                    continue;
                }
            }
            let todo = rest.len().min((self.len - self.offset) as usize);
            if todo > 0 {
                let (now, later) = rest.split_at(todo);
                match split_off(&mut output, todo) {
                    Some(made) => layer5.transform(self.offset, now, made),
                    None => layer5.absorb(self.offset, now),
                }
                self.offset += todo as u32;
                rest = later;
            }
            if self.offset == self.len {
                self.finish_message(layer5, &mut walked);
            }
        }
        Ok(walked)
    }

    /// The next `missing` bytes are not to come, or late: goes on behind them, as if they had been zeros
    /// ([`AnyOrder::skip`]).
    ///
    /// # Panics
    /// When these are more than the rest of the current message, or its length is not known yet.
    pub fn pass_missing<L: AnyOrder<Header = H>>(
        &mut self,
        layer5: &mut L,
        missing: u32,
    ) -> Walked {
        assert!(
            missing <= self.len - self.offset,
            "the bytes of one message"
        );
        let mut walked = Walked::nothing();
        layer5.skip(self.offset, missing);
        self.offset += missing;
        if self.offset == self.len {
            self.finish_message(layer5, &mut walked);
        }
        walked
    }

    /// Number of the message that the next byte belongs to.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// The next message that begins has the number behind its own.
    pub fn skip_number(&mut self) {
        self.index = self.index.saturating_add(1);
    }

    /// Offset of the next byte in its message; 0 at a message boundary.
    pub fn offset(&self) -> u32 {
        self.offset
    }

    /// Length of the message that the next byte belongs to, once its header is complete.
    pub fn message_len(&self) -> Option<u32> {
        (self.len != 0).then_some(self.len)
    }

    /// Bytes from here to the next message's first byte: 0 at a boundary, `None` in the middle of
    /// a header.
    pub fn to_next_header(&self) -> Option<u32> {
        match (self.len, self.offset) {
            (0, 0) => Some(0),
            (0, _) => None,
            (len, offset) => Some(len - offset),
        }
    }

    /// Bytes from here to the end of the current message, or of what is known of its header while that is incomplete.
    pub fn to_boundary<L: Layer5<Header = H>>(&self, layer5: &L) -> u32 {
        match self.len {
            0 => self.header_len(layer5) as u32 - self.offset,
            len => len - self.offset,
        }
    }

    /// Whether the next byte is the first of a message.
    pub fn at_boundary(&self) -> bool {
        self.offset == 0
    }

    /// Bytes of the header that has begun, as far as that is known.
    #[inline]
    fn header_len<L: Layer5<Header = H>>(&self, layer5: &L) -> usize {
        let (least, most) = (L::MIN_HEADER_LEN, L::HEADER_LEN);
        if least == most || (self.offset as usize) < least {
            return least;
        }
        let header_len = layer5.header_len(&self.header.as_ref()[..least]);
        header_len.clamp(least, most)
    }

    /// Takes header bytes from `input`, which begins `done` bytes into the caller's input, and
    /// begins the message when that completes the header. Returns how many it took.
    fn take_header<L: Layer5<Header = H>>(
        &mut self,
        layer5: &mut L,
        input: Input<'_>,
        done: usize,
    ) -> Result<usize, NotAHeader> {
        let have = self.offset as usize;
        let taken = input.len().min(self.header_len(layer5) - have);
        let header = &mut self.header.as_mut()[have..have + taken];
        input.split_at(taken).0.copy_to(header);
        self.offset += taken as u32;
        let header = &self.header.as_ref()[..have + taken];
        let is_possible = match header.len() == self.header_len(layer5) {
            true => {
                let begun = layer5.start(self.index, header);
                self.len = begun
                    .filter(|len| *len as usize >= header.len())
                    .unwrap_or(0);
                self.len > 0
            }
            false => layer5.may_begin(header),
        };
        if !is_possible {
            return Err(NotAHeader {
                at: done as i64 - have as i64,
            });
        }
        Ok(taken)
    }

    fn finish_message<L: Layer5>(&mut self, layer5: &mut L, walked: &mut Walked) {
        if layer5.finish() == Integrity::Bad {
            walked.integrity = Integrity::Bad;
        }
        walked.messages_finished += 1;
        self.next_message();
    }

    fn next_message(&mut self) {
        // Never around: a number that is used up stays so, and the protocol refuses it.
        self.index = self.index.saturating_add(1);
        self.len = 0;
        self.offset = 0;
    }
}

/// Takes the first `len` bytes off an output.
#[inline]
fn split_off<'o>(output: &mut Option<Output<'o>>, len: usize) -> Option<Output<'o>> {
    let (front, back) = output.take()?.split_at(len);
    *output = Some(back);
    Some(front)
}

impl Walked {
    fn nothing() -> Walked {
        Walked {
            messages_finished: 0,
            integrity: Integrity::Good,
        }
    }
}
