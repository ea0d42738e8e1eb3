//! Spliced connections.

use std::time::Instant;

use wire::FlowKey;

use super::{AccelConfig, Around, Everywhere, Handled, Made, Segment};
use crate::function::{Function, FunctionId};
use crate::ring::ErrorCode;
use crate::ring::accel::{Side, Splice, SpliceId};

/// All splices.
#[derive(Debug)]
pub(super) struct Splices {}

impl Splices {
    pub(super) fn new(_config: &AccelConfig) -> Splices {
        Splices {}
    }

    /// Whether the splice at `at` is this function's, and the peer of this side sends this flow.
    pub(super) fn owns(
        &self,
        _at: u32,
        _side: Side,
        _function: FunctionId,
        _flow: &FlowKey,
    ) -> bool {
        false
    }

    /// Takes a segment of the peer of one side of the splice at `at`. [`Handled::Pass`] when it is the host's.
    pub(super) fn handle_segment(
        &mut self,
        _around: &mut Around<'_>,
        (_at, _side): (u32, Side),
        _segment: &Segment<'_>,
    ) -> Handled {
        Handled::Pass(None)
    }

    /// Joins two connections of a host's.
    ///
    /// # Errors
    /// When it does not: the host owns them still.
    pub(super) fn install(
        &mut self,
        _around: &mut Around<'_>,
        _splice: &Splice,
    ) -> Result<(), ErrorCode> {
        Err(ErrorCode::Unsupported)
    }

    /// Begins to give them back.
    ///
    /// # Errors
    /// When there is no such splice.
    pub(super) fn take_back(
        &mut self,
        _around: &mut Around<'_>,
        _splice: SpliceId,
    ) -> Result<(), ErrorCode> {
        Err(ErrorCode::NoSplice)
    }

    /// Does what is due.
    pub(super) fn handle_time(&mut self, _everywhere: &mut Everywhere<'_>) {}

    /// When something is due.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// Whether [`poll_transmit`](Self::poll_transmit) has something.
    pub(super) fn has_frames(&self) -> bool {
        false
    }

    /// Writes the next frame into `out`.
    pub(super) fn poll_transmit(
        &mut self,
        _everywhere: &mut Everywhere<'_>,
        _out: &mut [u8],
    ) -> Option<Made> {
        None
    }

    /// Tells a host of splices that have ended, as far as its receive ring has room.
    pub(super) fn tell(&mut self, _function: &mut Function) {}

    /// Splices that a function may still make.
    pub(super) fn room(&self, _function: FunctionId) -> u32 {
        0
    }
}
