//! What becomes of frames, where a test says so.

use std::time::Duration;

/// What becomes of a frame on its way from one host to another, before the wire's impairments see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It goes on.
    Pass,
    /// It is lost.
    Drop,
    /// It goes on so much later; others overtake it.
    Late(Duration),
    /// It goes on now, and once more so much later.
    Twice(Duration),
    /// Only so many of its bytes go on.
    Cut(usize),
}

/// Decides what becomes of each frame: of the node that sends it, to the node that it is for. It may change the bytes, as somebody
/// on the path could.
pub type Fates = Box<dyn FnMut(usize, usize, &mut [u8]) -> Fate>;

pub(super) fn decide(fates: &mut Option<Fates>, from: usize, to: usize, frame: &mut [u8]) -> Fate {
    fates
        .as_mut()
        .map_or(Fate::Pass, |fates| fates(from, to, frame))
}

impl Fate {
    /// How much of a frame of `len` bytes goes on now, if anything does.
    pub(super) fn passes(self, len: usize) -> Option<usize> {
        match self {
            Self::Pass | Self::Twice(_) => Some(len),
            Self::Cut(to) => Some(to.min(len)),
            Self::Drop | Self::Late(_) => None,
        }
    }

    /// How much later it goes on, or goes on again.
    pub(super) fn later(self) -> Option<Duration> {
        match self {
            Self::Late(more) | Self::Twice(more) => Some(more),
            Self::Pass | Self::Drop | Self::Cut(_) => None,
        }
    }
}
