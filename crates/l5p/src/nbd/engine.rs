//! The NIC's part of NBD: where replies begin and end, and where the data of reads belong.

use std::ops::Range;

use shared::{Input, Output};
use wire::nbd::{ChunkType, Reply, SIMPLE_REPLY_LEN, beginning_matches};

use super::{Cookie, Parameters};
use crate::{AnyOrder, Digest, Direction, Integrity, Judgement, Layer5, Part, Placement};

/// The longest text that comes with an error: 4,096 bytes, and an offset.
pub(super) const MAX_ERROR: u32 = 4096 + 8;

/// Follows the replies that a client receives, and tells where their data belong. NBD has no digests: all bytes stay as they came, and
/// nothing is checked. Requests, in the other direction, need nothing of a NIC.
///
/// Costs: 40 cycles to judge a header.
#[derive(Clone, Debug)]
pub struct Engine {
    parameters: Parameters,
    direction: Direction,
    placement: Option<Placement>,
}

impl Engine {
    /// An engine for replies to requests with such cookies.
    #[must_use]
    pub fn new(parameters: &Parameters, direction: Direction) -> Engine {
        Engine {
            parameters: *parameters,
            direction,
            placement: None,
        }
    }

    /// Length and data of the reply with this header. `None` when it is not one that may come.
    #[inline]
    fn judge_all(&self, header: &[u8]) -> Option<(u32, Option<Placement>)> {
        let header_len = Reply::header_len(header).ok()?;
        let shown = header.get(..header_len.min(Self::HEADER_LEN))?;
        // A hole ends behind what is needed of it.
        let mut whole = [0; Reply::MAX_HEADER_LEN];
        whole[..shown.len()].copy_from_slice(shown);
        let (cookie, behind, at) = match Reply::parse(&whole[..header_len]).ok()? {
            Reply::Simple { error, cookie } => {
                let cookie = Cookie::from_bits(cookie);
                let has_data = error == 0 && !self.parameters.structured;
                (cookie, if has_data { cookie.low } else { 0 }, Some(0))
            }
            Reply::Chunk(_) if !self.parameters.structured => return None,
            Reply::Chunk(chunk) => {
                let cookie = Cookie::from_bits(chunk.cookie);
                match chunk.content {
                    ChunkType::None | ChunkType::Hole { .. } => (cookie, 0, None),
                    ChunkType::Data { offset, len } => {
                        (cookie, len, Some((offset as u32).wrapping_sub(cookie.low)))
                    }
                    ChunkType::Error { len, .. } if len <= MAX_ERROR => {
                        return self.fits(cookie).then_some((header_len as u32 + len, None));
                    }
                    ChunkType::Error { .. } => return None,
                }
            }
        };
        if !self.fits(cookie) || behind > self.parameters.max_data {
            return None;
        }
        let (from, to) = (header_len as u32, header_len as u32 + behind);
        let placement = at.filter(|_| behind > 0 && self.direction == Direction::Receive);
        let placement = placement.map(|at| Placement {
            from,
            to,
            tag: cookie.tag,
            at,
        });
        Some((to, placement))
    }

    fn fits(&self, cookie: Cookie) -> bool {
        cookie.tag < self.parameters.tags
    }
}

impl Layer5 for Engine {
    type Header = [u8; 28];

    const MIN_HEADER_LEN: usize = SIMPLE_REPLY_LEN;

    #[inline]
    fn header_len(&self, beginning: &[u8]) -> usize {
        Reply::header_len(beginning).map_or(Self::HEADER_LEN, |len| len.min(Self::HEADER_LEN))
    }

    fn judge(&self, bytes: &[u8]) -> Judgement {
        if !beginning_matches(bytes) {
            return Judgement::NotAHeader;
        }
        if bytes.len() < SIMPLE_REPLY_LEN {
            return Judgement::TooShort;
        }
        match Reply::header_len(bytes) {
            Err(_) => Judgement::NotAHeader,
            Ok(len) if bytes.len() < len.min(Self::HEADER_LEN) => Judgement::TooShort,
            Ok(_) => match self.judge_all(bytes) {
                Some((len, _)) => Judgement::Message { len },
                None => Judgement::NotAHeader,
            },
        }
    }

    #[inline]
    fn start(&mut self, _index: u64, header: &[u8]) -> Option<u32> {
        let (len, placement) = self.judge_all(header)?;
        self.placement = placement;
        Some(len)
    }

    #[inline]
    fn transform(&mut self, _offset: u32, input: Input<'_>, output: Output<'_>) {
        output.copy_from(input);
    }

    #[inline]
    fn absorb(&mut self, _offset: u32, _input: Input<'_>) {}

    fn has_checks(&self) -> bool {
        false
    }

    #[inline]
    fn placement(&self) -> Option<Placement> {
        self.placement
    }

    #[inline]
    fn finish(&mut self) -> Integrity {
        Integrity::Good
    }

    fn icv(&self, len: u32) -> Range<u32> {
        len..len
    }

    fn digest(&mut self, _offset: u32) -> Digest {
        Digest::default()
    }
}

impl AnyOrder for Engine {
    type Message = ();

    const MAX_GAP: u32 = u32::MAX;

    fn skip(&mut self, _offset: u32, _len: u32) {}

    fn message(&mut self, _offset: u32, _len: u32) -> Option<()> {
        (self.direction == Direction::Receive).then_some(())
    }

    fn transform_aside(
        &mut self,
        _message: &(),
        _len: u32,
        _offset: u32,
        input: &[u8],
        output: Output<'_>,
    ) -> Part {
        output.copy_from(input);
        0
    }

    fn absorb_aside(&mut self, _message: &(), _len: u32, _offset: u32, _input: &[u8]) -> Part {
        0
    }

    fn residue(&self) -> Part {
        0
    }
}
