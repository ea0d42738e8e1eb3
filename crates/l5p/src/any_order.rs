//! Transforming the bytes of a message in any order.

use shared::Output;

use crate::Layer5;

const ZEROS: [u8; 2048] = [0; 2048];

/// The part that some bytes of a message have in its integrity check. Parts of disjoint ranges are added by exclusive
/// or, in any order.
pub type Part = u128;

/// A receiving [`Layer5`] whose messages can also be transformed in any order.
///
/// CTR keystreams are seekable, and GHASH and CRC-32C are linear. So when bytes of a message are missing, the stream of
/// [`transform`](Layer5::transform) calls goes on with zeros in their place, and [`finish`](Layer5::finish) leaves a
/// [residue](Self::residue) that is not zero. What comes late is
/// [transformed aside](Self::transform_aside), and gives its part. The check holds if the residue and the parts of everything
/// that was missing add up to zero. That takes no state but the sum and the ranges that are missing.
pub trait AnyOrder: Layer5 {
    /// What it takes to transform a late range of one message, beside the connection's keys: a nonce, for example.
    type Message: Copy;

    /// Most bytes in a row that [`skip`](Self::skip) can be asked to pass without its cost mattering.
    const MAX_GAP: u32 = 64 << 10;

    /// The next `len` bytes of the message in progress, from `offset` on, are missing: goes on as if they were zeros. By
    /// default it transforms so many zeros.
    fn skip(&mut self, offset: u32, len: u32) {
        let mut done = 0;
        while done < len {
            let zeros = &ZEROS[..((len - done) as usize).min(ZEROS.len())];
            self.absorb(offset + done, zeros.into());
            done += zeros.len() as u32;
        }
    }

    /// The message in progress, of which `offset` bytes have been transformed and which has `len` bytes. `None` when this
    /// engine can't transform late bytes, or not enough of the message is known to.
    fn message(&mut self, offset: u32, len: u32) -> Option<Self::Message>;

    /// Transforms late bytes of a message of `len` bytes, from `offset` on, counted from the message's first byte. `input` and
    /// `output` have the same length, and begin behind the `offset` that was given to [`message`](Self::message). Does not
    /// disturb the message in progress.
    fn transform_aside(
        &mut self,
        message: &Self::Message,
        len: u32,
        offset: u32,
        input: &[u8],
        output: Output<'_>,
    ) -> Part;

    /// As [`transform_aside`](Self::transform_aside), for bytes whose transformed form is not wanted.
    fn absorb_aside(
        &mut self,
        message: &Self::Message,
        len: u32,
        offset: u32,
        input: &[u8],
    ) -> Part {
        let mut discarded = [0; ZEROS.len()];
        let mut at = offset;
        let mut sum = 0;
        for part in input.chunks(ZEROS.len()) {
            let output = Output::from(&mut discarded[..part.len()]);
            sum ^= self.transform_aside(message, len, at, part, output);
            at += part.len() as u32;
        }
        sum
    }

    /// By how much the check of the message that [`finish`](Layer5::finish) ended last has failed: 0 if it held.
    fn residue(&self) -> Part;
}
