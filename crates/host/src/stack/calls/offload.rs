//! Connections that the NIC joins, runs and finishes.

use std::time::Instant;

use crate::handoff::HandoffRefused;
use crate::stack::Stack;
use crate::{SocketError, SocketId, SpliceHandle, SpliceOptions, SpliceRefused};

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
    /// [`SocketError::Spliced`], but for [`close`](Stack::close) and [`abort`](Stack::abort),
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
        self.offload.splice(now, a, b, options)
    }

    /// Asks the NIC how far it has relayed; [`Event::SpliceProgress`](crate::Event::SpliceProgress) tells. No answer comes when the splice ends before,
    /// when the NIC does not have it yet, or when there is no room on the receive ring: who wants to know asks again in time.
    ///
    /// # Errors
    /// [`SocketError::NotFound`] when it has ended already.
    pub fn query_splice(&mut self, splice: SpliceHandle) -> Result<(), SocketError> {
        self.offload.query_splice(splice)
    }

    /// Takes a splice back: [`Event::SpliceEnded`](crate::Event::SpliceEnded) follows when all that the NIC has forwarded is
    /// acknowledged, or when the splice ends by itself before that. One that the NIC does not have yet is given up at
    /// once, and [`Event::SpliceRefused`](crate::Event::SpliceRefused) says so.
    ///
    /// # Errors
    /// [`SocketError::NotFound`] when it has ended already.
    pub fn unsplice(&mut self, now: Instant, splice: SpliceHandle) -> Result<(), SocketError> {
        self.offload.unsplice(now, splice)
    }

    /// Hands a connection off to the NIC, which runs its TCP from then on; for the application nothing changes. Policies do
    /// that by themselves ([`Handoff`](crate::Handoff)). The NIC may refuse it, and may give it back at any time:
    /// [`SocketInfo::holder`](crate::SocketInfo) says who has it.
    ///
    /// # Errors
    /// Why the host does not even ask.
    pub fn hand_off(&mut self, _now: Instant, id: SocketId) -> Result<(), HandoffRefused> {
        self.offload.hand_off(id)
    }

    /// Asks the NIC for a connection that was [handed off](Self::hand_off); nothing happens if the host has it. Reads and writes go on
    /// meanwhile. Answers whether it is on its way back.
    ///
    /// # Errors
    /// [`SocketError::NotFound`] when there is no such socket.
    pub fn restore(&mut self, now: Instant, id: SocketId) -> Result<bool, SocketError> {
        self.offload.restore(now, id)
    }

    /// Whether the NIC has still to be asked to finish a connection, or to say that it will not.
    pub fn has_pending_teardowns(&self) -> bool {
        self.offload.has_pending_teardowns()
    }
}
