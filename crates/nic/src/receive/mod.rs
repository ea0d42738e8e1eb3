//! The receive side.

use std::time::Instant;

use crate::device::Offloads;
use crate::frame::FrameMeta;
use crate::function::Function;
use crate::ring::{CreateContext, ErrorCode, ResyncResponse};

/// What the receive side keeps per queue.
#[derive(Debug, Default)]
pub(crate) struct QueueState {}

/// Takes a frame for `function`: from the wire, or from another function.
pub(crate) fn handle_frame(
    _offloads: &mut Offloads,
    _function: &mut Function,
    _now: Instant,
    _frame: &[u8],
    _meta: FrameMeta,
) {
}

/// Ends a batch of frames: closes LRO sessions that are due and publishes rings.
pub(crate) fn flush(_offloads: &mut Offloads, function: &mut Function, _now: Instant) {
    for queue in &mut function.queues {
        queue.rings.small.publish();
        queue.rings.large.publish();
        queue.rings.recv.publish();
    }
}

/// When [`flush`] is due without further frames.
pub(crate) fn poll_timeout(_function: &Function) -> Option<Instant> {
    None
}

/// Makes a receive context.
pub(crate) fn create_context(
    _offloads: &mut Offloads,
    _function: &mut Function,
    _command: &CreateContext,
) -> Result<(), ErrorCode> {
    Err(ErrorCode::Unsupported)
}

/// Takes the host's answer to a resync request.
pub(crate) fn resync_response(
    _offloads: &mut Offloads,
    _function: &mut Function,
    _response: &ResyncResponse,
) -> Result<(), ErrorCode> {
    Err(ErrorCode::NoContext)
}

/// Ends a context of either direction.
pub(crate) fn destroyed(
    _offloads: &mut Offloads,
    _function: &mut Function,
    _context: crate::context::Context,
) {
}
