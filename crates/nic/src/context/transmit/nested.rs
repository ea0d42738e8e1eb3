//! One protocol inside another (Autonomous NIC offloads §5.3): the check values of the inner one are made first, then the outer one encrypts.
//!
//! Of the outer one's content an inner engine that replaces nothing changes check values only, so that of these alone there is an
//! intermediate form. All engines must see the same bytes, which in the host's memory may change from one to the next: they are read
//! once, piece by piece, and the others take them from the stack.
//!
//! All messages of the outer one are taken to carry its content. In TLS 1.3 a record's header does not tell, so the host sends
//! other records without this context.

use std::ops::Range;

use l5p::{Digest, NotAHeader, Protocol, ProtocolId};
use shared::Input;

use super::layers::{Layer, Position, TransmitLayers};
use crate::ring::{ErrorCode, InnerRecover, RecoverContext};

/// Bytes that one engine takes before the other does: in cache for the second.
const CHUNK: usize = 9216;
/// Longest integrity value of an inner protocol.
const MAX_INNER_ICV: usize = 16;

/// Engines of one stream.
#[derive(Debug)]
pub(crate) struct Nested<P: Protocol> {
    ids: Vec<ProtocolId>,
    outer: Layer<P>,
    /// Its stream is the content of the outer one's messages.
    inner: Box<dyn TransmitLayers>,
}

impl<P: Protocol> Nested<P> {
    /// # Errors
    /// When the outer protocol carries no other, or the inner one replaces what it reads.
    pub(crate) fn new(
        outer: Layer<P>,
        inner: Box<dyn TransmitLayers>,
    ) -> Result<Nested<P>, ErrorCode> {
        if outer.engine.content(0).is_none() || inner.replaces() {
            return Err(ErrorCode::Unsupported);
        }
        let ids = [outer.ids(), inner.ids()].concat();
        Ok(Nested { ids, outer, inner })
    }

    /// Whether the next byte is content of an outer message, and for how many bytes that is so; never 0.
    fn content_ahead(&self) -> (bool, usize) {
        let position = self.outer.position();
        let content = position.len.and_then(|len| self.outer.engine.content(len));
        range_ahead(&position, content)
    }

    fn advance_content(
        &mut self,
        mut input: Input<'_>,
        mut output: &mut [u8],
    ) -> Result<(), NotAHeader> {
        while !input.is_empty() {
            let (icv, most) = self.icv_ahead();
            let todo = input.len().min(most);
            let (now, later) = input.split_at(todo);
            let (made, rest) = output.split_at_mut(todo);
            if icv {
                let mut value = [0; MAX_INNER_ICV];
                self.inner.advance(now, &mut value[..todo])?;
                self.outer.advance((&value[..todo]).into(), made)?;
            } else {
                now.read::<CHUNK, _>(|bytes| {
                    // The outer one writes over what the inner one may leave there.
                    self.inner.absorb(bytes.into(), made)?;
                    self.outer.advance(bytes.into(), made)
                })?;
            }
            (input, output) = (later, rest);
        }
        Ok(())
    }

    /// Whether the next byte of content is of an integrity value, and for how many bytes that is so; never 0.
    fn icv_ahead(&self) -> (bool, usize) {
        let position = self.inner.position();
        let icv = position.len.map(|len| self.inner.icv(len));
        let (is_icv, left) = range_ahead(&position, icv);
        let most = if is_icv { MAX_INNER_ICV } else { CHUNK };
        (is_icv, left.min(most))
    }
}

/// Whether a position is inside a range of its message, and for how many bytes that stays so; never 0.
fn range_ahead(position: &Position, range: Option<Range<u32>>) -> (bool, usize) {
    let (Some(len), Some(range)) = (position.len, range) else {
        return (false, position.left as usize);
    };
    let (is_inside, end) = if position.offset < range.start {
        (false, range.start)
    } else if position.offset < range.end {
        (true, range.end)
    } else {
        (false, len)
    };
    (is_inside, (end - position.offset) as usize)
}

impl<P: Protocol> TransmitLayers for Nested<P> {
    fn ids(&self) -> &[ProtocolId] {
        &self.ids
    }

    fn replaces(&self) -> bool {
        P::REPLACES
    }

    fn advance(&mut self, mut input: Input<'_>, mut output: &mut [u8]) -> Result<(), NotAHeader> {
        while !input.is_empty() {
            let (content, most) = self.content_ahead();
            let todo = input.len().min(most);
            let (now, later) = input.split_at(todo);
            let (made, rest) = output.split_at_mut(todo);
            match content {
                true => self.advance_content(now, made)?,
                false => self.outer.advance(now, made)?,
            }
            (input, output) = (later, rest);
        }
        Ok(())
    }

    fn absorb(&mut self, input: Input<'_>, scratch: &mut [u8]) -> Result<(), NotAHeader> {
        self.advance(input, scratch)
    }

    fn position(&self) -> Position {
        self.outer.position()
    }

    fn icv(&self, len: u32) -> Range<u32> {
        self.outer.icv(len)
    }

    fn digest(&mut self) -> Digest {
        self.outer.digest()
    }

    /// A layer inside the inner one can't be brought anywhere: a descriptor names one place.
    fn restart(&mut self, index: u64, inner: Option<InnerRecover>) -> Result<(), ErrorCode> {
        let inner = inner.ok_or(ErrorCode::BadParameters)?;
        self.outer.restart(index, None)?;
        self.inner.restart(inner.index, None)
    }

    fn inner(&mut self) -> Option<&mut dyn TransmitLayers> {
        Some(&mut *self.inner)
    }

    fn is_seekable(&self) -> bool {
        false
    }

    fn transform_at(&mut self, _: &RecoverContext, _: u32, _: Input<'_>, _: &mut [u8]) -> bool {
        false
    }
}
