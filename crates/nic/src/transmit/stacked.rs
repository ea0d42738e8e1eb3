//! NVMe/TCP inside TLS (Autonomous NIC offloads §5.3): the digests are made first, then the records are encrypted.
//!
//! Of a record's content the inner engine changes nothing but digests, so that of these alone, 4 bytes, there is an intermediate form.
//! Both engines must see the same bytes, which in the host's memory may change from one to the other: they are read once, piece by
//! piece, and the two take them from the stack.
//!
//! All records are taken to carry data and no padding. In TLS 1.3 a record's header tells neither, so the host sends
//! others without this context.

use l5p::{Layer5, NotAHeader, nvme, tls};
use shared::Input;

use super::layers::Layer;

/// Bytes that the one engine takes before the other does: in cache for the second.
const CHUNK: usize = 9216;
/// Longest integrity value of the inner protocol.
const MAX_INNER_ICV: usize = 8;

/// Two engines of one stream.
#[derive(Debug)]
pub(super) struct Stacked {
    pub(super) outer: Layer<tls::Engine>,
    /// Its stream is the content of the outer one's records.
    pub(super) inner: Layer<nvme::Engine>,
}

impl Stacked {
    pub(super) fn new(outer: Layer<tls::Engine>, inner: Layer<nvme::Engine>) -> Stacked {
        Stacked { outer, inner }
    }

    pub(super) fn advance(
        &mut self,
        mut input: Input<'_>,
        mut output: &mut [u8],
    ) -> Result<(), NotAHeader> {
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

    /// Whether the next byte is content of a record, and for how many bytes that is so; never 0.
    fn content_ahead(&self) -> (bool, usize) {
        let position = self.outer.position();
        let Some(len) = position.len else {
            return (false, position.left as usize);
        };
        let content = self.outer.engine.content(len);
        let (is_content, end) = if position.offset < content.start {
            (false, content.start)
        } else if position.offset < content.end {
            (true, content.end)
        } else {
            (false, len)
        };
        (is_content, (end - position.offset) as usize)
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
                    self.inner.absorb(bytes.into())?;
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
        let Some(len) = position.len else {
            return (false, position.left as usize);
        };
        let icv = self.inner.engine.icv(len);
        let (is_icv, end) = if position.offset < icv.start {
            (false, icv.start)
        } else if position.offset < icv.end {
            (true, icv.end)
        } else {
            (false, len)
        };
        let most = if is_icv { MAX_INNER_ICV } else { CHUNK };
        (is_icv, ((end - position.offset) as usize).min(most))
    }
}
