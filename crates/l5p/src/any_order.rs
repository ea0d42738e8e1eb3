//! Transforming the bytes of a message in any order.

use crate::{Integrity, Layer5};

/// A part of a message's integrity check. Parts of disjoint ranges are added by exclusive or, in any order.
pub type Part = u128;

/// A [`Layer5`] whose messages can also be transformed in any order.
///
/// CTR keystreams are seekable, and GHASH and CRC-32C are linear: what a range of bytes contributes to the check can
/// be computed when it comes and added in any order. So a packet that comes late into a message whose header
/// is known can still be transformed, with state that does not depend on how many came before it.
///
/// The calls do not disturb the message in progress between [`Layer5::start`] and [`Layer5::finish`],
/// except for [`set_aside`](Self::set_aside), which takes it out of there.
pub trait AnyOrder: Layer5 {
    /// What transforming any range of one message takes, beside the connection's keys: a nonce, for example.
    type Message: Copy;

    /// Takes the message in progress, of `len` bytes, out of its order: gives what its other ranges will take, and
    /// the part that its first `offset` bytes, all of which have been transformed, contribute.
    ///
    /// `None`, and the message goes on as if nothing had been asked, when this engine can't do it, or too few bytes
    /// of the message are known.
    fn set_aside(&mut self, offset: u32, len: u32) -> Option<(Self::Message, Part)>;

    /// Transforms the bytes of a message of `len` bytes from `offset` on, counted from the message's first byte; gives what
    /// they contribute. `input` and `output` have the same length. They begin behind the first `offset` bytes that were
    /// given to [`set_aside`](Self::set_aside).
    fn transform_aside(
        &mut self,
        message: &Self::Message,
        len: u32,
        offset: u32,
        input: &[u8],
        output: &mut [u8],
    ) -> Part;

    /// Checks a message, given the sum of the parts of all its bytes.
    fn verify_aside(&mut self, message: &Self::Message, len: u32, sum: Part) -> Integrity;
}
