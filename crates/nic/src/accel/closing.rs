//! Connections that their applications have closed.

use std::time::Instant;

use wire::FlowKey;

use super::{AccelConfig, Around, Everywhere, Handled, Made, Segment};
use crate::function::FunctionId;
use crate::ring::accel::{AccelRoom, Teardown};
use crate::ring::{ErrorCode, Gather};

/// All closing connections.
#[derive(Debug)]
pub(super) struct Closing {}

impl Closing {
    pub(super) fn new(_config: &AccelConfig) -> Closing {
        Closing {}
    }

    /// Whether the connection at `at` is this function's, and has this flow; the flow is from the peer to us.
    pub(super) fn owns(&self, _at: u32, _function: FunctionId, _flow: &FlowKey) -> bool {
        false
    }

    /// Takes a segment of the connection at `at`. [`Handled::Pass`] when it is nothing of the connection's, which is
    /// over then, as with a SYN that ends TIME-WAIT.
    pub(super) fn handle_segment(
        &mut self,
        _around: &mut Around<'_>,
        _at: u32,
        _segment: &Segment<'_>,
    ) -> Handled {
        Handled::Pass(None)
    }

    /// Takes a connection over from its host.
    ///
    /// # Errors
    /// When it does not: the host owns it still.
    pub(super) fn take_over(
        &mut self,
        _around: &mut Around<'_>,
        _teardown: &Teardown,
        _gather: &Gather,
    ) -> Result<(), ErrorCode> {
        Err(ErrorCode::Unsupported)
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

    /// The room that a function has, which has so much for splices.
    pub(super) fn room(&self, _function: FunctionId, splices: u32) -> AccelRoom {
        AccelRoom {
            splices,
            ..AccelRoom::default()
        }
    }
}
