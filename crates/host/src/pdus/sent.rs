//! How long what was sent in place is still needed.

use wire::SeqNum;

/// A place in what a socket sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendMark(pub(crate) SeqNum);
