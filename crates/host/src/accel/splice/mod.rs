//! Two connections whose relaying the NIC takes over (seed 002, "Connection splicing").

mod api;

use std::time::Instant;

pub use api::{SpliceEnd, SpliceHandle, SpliceOptions, SpliceRefused, SpliceReport};

use crate::stack::Stack;
use crate::{SocketError, SocketId};

impl Stack {
    /// Gives two established connections to the NIC, which from then on relays between them: what the peer of `a` sends goes to
    /// the peer of `b` and the other way round, acknowledgments, windows, FINs and resets too. The host sees no packet of
    /// theirs any more.
    ///
    /// Everything that has come must have been read, and everything that is to be sent must have been written; what the peers
    /// have not acknowledged yet is waited for, for a second at most, while what comes newly is kept for the NIC.
    /// [`Event::Spliced`](crate::Event::Spliced) or [`Event::SpliceRefused`](crate::Event::SpliceRefused) follows; after the
    /// second one both sockets are as before, and the caller relays on. Until then, and until
    /// [`Event::SpliceEnded`](crate::Event::SpliceEnded), calls on the sockets answer
    /// [`SocketError::Spliced`](crate::SocketError::Spliced), but for [`close`](Stack::close) and [`abort`](Stack::abort),
    /// which take the splice back first.
    ///
    /// # Errors
    /// Why the two can't be spliced, as far as the host knows: they are untouched then, and the caller relays on.
    pub fn splice(
        &mut self,
        now: Instant,
        a: SocketId,
        b: SocketId,
        options: SpliceOptions,
    ) -> Result<SpliceHandle, SpliceRefused> {
        let _ = (now, options);
        for id in [a, b] {
            self.owned(id).map_err(|_| SpliceRefused::NotFound(id))?;
        }
        if !self.core.config.accel.splice {
            return Err(SpliceRefused::Off);
        }
        Err(SpliceRefused::Unsupported)
    }

    /// Takes a splice back: [`Event::SpliceEnded`](crate::Event::SpliceEnded) follows when all that the NIC has forwarded is
    /// acknowledged, or when the splice ends by itself before that.
    ///
    /// # Errors
    /// [`SocketError::NotFound`](crate::SocketError::NotFound) when it has ended already.
    pub fn unsplice(&mut self, now: Instant, splice: SpliceHandle) -> Result<(), SocketError> {
        let _ = (now, splice);
        Err(SocketError::NotFound)
    }
}
