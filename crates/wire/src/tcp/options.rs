//! The options of a TCP header (RFC 9293 §3.2, RFC 7323, RFC 2018).

use core::fmt;

use crate::bytes::{put_u16, put_u32, u16_at, u32_at};
use crate::checksum::Sum;
use crate::error::ParseError;
use crate::seq::SeqNum;

/// The most bytes of options in one header.
pub const MAX_OPTIONS_LEN: usize = 40;
/// The greatest window scale; a greater one on the wire is taken for this (RFC 7323 §2.3).
pub const MAX_WINDOW_SCALE: u8 = 14;

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// The options that we know. Others are passed over, as are known ones with a wrong length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Options {
    /// Maximum segment size that the sender can receive; in a SYN only.
    pub mss: Option<u16>,
    /// The shift of the sender's window fields, 0..=14; in a SYN only.
    pub window_scale: Option<u8>,
    /// The sender takes SACK options; in a SYN only.
    pub sack_permitted: bool,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    /// What the sender has received beyond the acknowledgment number.
    pub sack: SackBlocks,
}

/// The timestamps option (RFC 7323 §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Timestamps {
    /// TSval: the sender's clock.
    pub val: u32,
    /// TSecr: the clock value that it echoes; 0 if ACK is not set.
    pub echo: u32,
}

/// Up to four SACK blocks, the most recent one first (RFC 2018 §4). A block is the half-open range
/// `(left, right)`; a first block at or below the acknowledgment number is a DSACK (RFC 2883).
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct SackBlocks {
    /// Those from `len` on are zero, so that equality can be derived.
    blocks: [(SeqNum, SeqNum); SackBlocks::MAX],
    len: u8,
}

impl Options {
    /// Parses the option bytes of one header.
    ///
    /// # Errors
    /// When an option is cut short, or its length is impossible.
    #[inline(always)]
    pub fn parse(bytes: &[u8]) -> Result<Options, ParseError> {
        match Options::parse_timestamps(bytes) {
            Some(options) => Ok(options),
            None => Options::parse_any(bytes),
        }
    }

    /// What nearly all segments of a connection carry, and nothing else (RFC 7323, appendix A).
    #[inline(always)]
    pub(super) fn parse_timestamps(bytes: &[u8]) -> Option<Options> {
        if bytes.len() != 12 || bytes[..4] != [NOP, NOP, TIMESTAMPS, 10] {
            return None;
        }
        let timestamps = Timestamps {
            val: u32_at(bytes, 4),
            echo: u32_at(bytes, 8),
        };
        Some(Options {
            timestamps: Some(timestamps),
            ..Options::default()
        })
    }

    #[inline(never)]
    fn parse_any(mut bytes: &[u8]) -> Result<Options, ParseError> {
        let mut options = Options::default();
        while let [kind, rest @ ..] = bytes {
            match *kind {
                END => break,
                NOP => bytes = rest,
                kind => {
                    let length = rest.first().copied().unwrap_or(0);
                    if length < 2 || usize::from(length) > bytes.len() {
                        return Err(ParseError::BadOption { kind, length });
                    }
                    let (option, rest) = bytes.split_at(usize::from(length));
                    options.take(kind, &option[2..]);
                    bytes = rest;
                }
            }
        }
        Ok(options)
    }

    fn take(&mut self, kind: u8, value: &[u8]) {
        match (kind, value.len()) {
            (MSS, 2) => self.mss = Some(u16_at(value, 0)),
            (WINDOW_SCALE, 1) => self.window_scale = Some(value[0].min(MAX_WINDOW_SCALE)),
            (SACK_PERMITTED, 0) => self.sack_permitted = true,
            (TIMESTAMPS, 8) => {
                let (val, echo) = (u32_at(value, 0), u32_at(value, 4));
                self.timestamps = Some(Timestamps { val, echo });
            }
            (SACK, len) if len.is_multiple_of(8) => {
                self.sack = SackBlocks::default();
                for block in value.chunks_exact(8) {
                    self.sack
                        .push(SeqNum(u32_at(block, 0)), SeqNum(u32_at(block, 4)));
                }
            }
            _ => {}
        }
    }

    /// Bytes of the options when emitted, padding included: a multiple of 4.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        let without_sack = self.len_without_sack();
        match self.emitted_sack_blocks(without_sack) {
            0 => without_sack,
            blocks => without_sack + 4 + 8 * blocks,
        }
    }

    /// Whether no option would be emitted.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the options at the front of `buffer`, laid out and padded as Linux does; gives their length.
    ///
    /// SACK blocks that no longer fit in 40 bytes are left out: with timestamps there is room for three.
    #[inline]
    pub fn emit(&self, buffer: &mut [u8]) -> usize {
        let mut at = 0;
        if let Some(mss) = self.mss {
            buffer[..2].copy_from_slice(&[MSS, 4]);
            put_u16(buffer, 2, mss);
            at += 4;
        }
        if let Some(timestamps) = self.timestamps {
            let lead = if self.sack_permitted {
                [SACK_PERMITTED, 2]
            } else {
                [NOP, NOP]
            };
            buffer[at..at + 2].copy_from_slice(&lead);
            buffer[at + 2..at + 4].copy_from_slice(&[TIMESTAMPS, 10]);
            put_u32(buffer, at + 4, timestamps.val);
            put_u32(buffer, at + 8, timestamps.echo);
            at += 12;
        } else if self.sack_permitted {
            buffer[at..at + 4].copy_from_slice(&[NOP, NOP, SACK_PERMITTED, 2]);
            at += 4;
        }
        if let Some(scale) = self.window_scale {
            buffer[at..at + 4].copy_from_slice(&[NOP, WINDOW_SCALE, 3, scale]);
            at += 4;
        }
        let blocks = self.emitted_sack_blocks(at);
        if blocks > 0 {
            buffer[at..at + 4].copy_from_slice(&[NOP, NOP, SACK, 2 + 8 * blocks as u8]);
            at += 4;
            for &(left, right) in &self.sack.as_slice()[..blocks] {
                put_u32(buffer, at, left.0);
                put_u32(buffer, at + 4, right.0);
                at += 8;
            }
        }
        at
    }

    /// The sum of the options as they are [emitted](Self::emit): each begins at a multiple of four bytes.
    #[inline]
    #[must_use]
    pub(super) fn sum(&self) -> Sum {
        let of = |a, b, c, d| Sum::of_u32(u32::from_be_bytes([a, b, c, d]));
        let mut sum = Sum::ZERO;
        if let Some(mss) = self.mss {
            let [high, low] = mss.to_be_bytes();
            sum += of(MSS, 4, high, low);
        }
        if let Some(timestamps) = self.timestamps {
            sum += match self.sack_permitted {
                true => of(SACK_PERMITTED, 2, TIMESTAMPS, 10),
                false => of(NOP, NOP, TIMESTAMPS, 10),
            };
            sum += Sum::of_u32(timestamps.val) + Sum::of_u32(timestamps.echo);
        } else if self.sack_permitted {
            sum += of(NOP, NOP, SACK_PERMITTED, 2);
        }
        if let Some(scale) = self.window_scale {
            sum += of(NOP, WINDOW_SCALE, 3, scale);
        }
        if self.sack.is_empty() {
            return sum;
        }
        let blocks = self.emitted_sack_blocks(self.len_without_sack());
        if blocks > 0 {
            sum += of(NOP, NOP, SACK, 2 + 8 * blocks as u8);
        }
        for &(left, right) in &self.sack.as_slice()[..blocks] {
            sum += Sum::of_u32(left.0) + Sum::of_u32(right.0);
        }
        sum
    }

    #[inline]
    fn len_without_sack(&self) -> usize {
        let timestamps_or_permitted = match (self.timestamps, self.sack_permitted) {
            (Some(_), _) => 12,
            (None, true) => 4,
            (None, false) => 0,
        };
        4 * usize::from(self.mss.is_some())
            + timestamps_or_permitted
            + 4 * usize::from(self.window_scale.is_some())
    }

    #[inline]
    fn emitted_sack_blocks(&self, without_sack: usize) -> usize {
        self.sack
            .len()
            .min((MAX_OPTIONS_LEN - without_sack - 4) / 8)
    }
}

impl SackBlocks {
    /// The most blocks of one header.
    pub const MAX: usize = 4;

    /// No blocks.
    pub const EMPTY: SackBlocks = SackBlocks {
        blocks: [(SeqNum(0), SeqNum(0)); SackBlocks::MAX],
        len: 0,
    };

    /// Adds the block `left..right` at the end; `false` if there are four already.
    #[inline]
    pub fn push(&mut self, left: SeqNum, right: SeqNum) -> bool {
        let free = self.blocks.get_mut(usize::from(self.len));
        let pushed = free.map(|block| *block = (left, right)).is_some();
        self.len += u8::from(pushed);
        pushed
    }

    /// The number of blocks.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Whether there are none.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The blocks, in the order of the header.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[(SeqNum, SeqNum)] {
        &self.blocks[..self.len()]
    }

    /// The blocks, in the order of the header.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (SeqNum, SeqNum)> + '_ {
        self.as_slice().iter().copied()
    }
}

impl FromIterator<(SeqNum, SeqNum)> for SackBlocks {
    /// The first four blocks of `blocks`.
    fn from_iter<I: IntoIterator<Item = (SeqNum, SeqNum)>>(blocks: I) -> SackBlocks {
        let mut sack = SackBlocks::EMPTY;
        for (left, right) in blocks.into_iter().take(SackBlocks::MAX) {
            sack.push(left, right);
        }
        sack
    }
}

impl fmt::Debug for SackBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()
    }
}
