//! The way to the NIC: it is told to hold the flow's packets, then it is offered the connection.

use std::time::Instant;

use nic::ring::toe::{MAX_HELD, MAX_TOE_SLICES, TcbImage, ToeCommand, ToeId, ToeOffer};
use tcp::{State, Tcb};

use super::offloaded::{Phase, PostedRequests};
use super::refused::HandoffRefused;
use crate::SocketId;
use crate::driver::HOP_LIMIT;
use crate::socket::{Socket, User};
use crate::stack::{Core, Stack};

impl Stack {
    /// Hands a connection off to the NIC, which runs its TCP from then on; for the application nothing changes. Policies do
    /// that by themselves ([`Handoff`](crate::Handoff)). The NIC may refuse it, and may give it back at any time:
    /// [`SocketInfo::holder`](crate::SocketInfo) says who has it.
    ///
    /// # Errors
    /// Why the host does not even ask.
    pub fn hand_off(&mut self, _now: Instant, id: SocketId) -> Result<(), HandoffRefused> {
        let core = &mut self.core;
        if core.driver.toe_quota() == 0 {
            return Err(HandoffRefused::Unsupported);
        }
        if self.sockets.is_quasi(id) {
            return Err(HandoffRefused::Setup);
        }
        let socket = self.sockets.get_mut(id).ok_or(HandoffRefused::NotFound)?;
        if socket.owner.handoff().is_some() {
            return Err(HandoffRefused::HandedOff);
        }
        socket.may_hand_off()?;
        let handoff = &mut core.handoff;
        let toe = handoff.table.take(id).ok_or(HandoffRefused::Full)?;
        let flow = socket.flow;
        let begin = ToeCommand::Begin { toe, flow };
        if !core.driver.post_toe(begin, &mut core.counters) {
            core.handoff.table.release(toe);
            return Err(HandoffRefused::Full);
        }
        core.counters.handoff_begun += 1;
        socket.owner.begin_handoff(toe);
        Ok(())
    }

    /// The NIC holds the flow's packets: the connection is offered, unless something has come between.
    pub(crate) fn offer(&mut self, now: Instant, id: SocketId) {
        let core = &mut self.core;
        let Some(socket) = self.sockets.get_mut(id) else {
            return;
        };
        if core.unsent.is_some_and(|(owner, _)| owner == id) {
            // The rest of a segment goes first.
            return;
        }
        match core.post_offer(now, id, socket) {
            Ok(true) => {}
            Ok(false) => core.stall(id, socket),
            Err(_) => {
                core.counters.handoff_withheld += 1;
                self.cancel_handoff(now, id);
            }
        }
    }

    /// Gives up a handoff that the NIC does not have yet.
    pub(crate) fn cancel_handoff(&mut self, now: Instant, id: SocketId) {
        let Some(socket) = self.sockets.get_mut(id) else {
            return;
        };
        let Some(offloaded) = socket
            .owner
            .end_handoff_if(|offloaded| !offloaded.is_away())
        else {
            return;
        };
        let core = &mut self.core;
        core.cancel(offloaded.toe, offloaded.phase);
        core.stays(now, socket);
        core.mark_ready(id, socket);
    }
}

impl Core {
    /// Offers the connection. False when there is no room in the rings.
    fn post_offer(
        &mut self,
        now: Instant,
        id: SocketId,
        socket: &mut Socket,
    ) -> Result<bool, HandoffRefused> {
        let Some(mut offloaded) = socket.owner.handoff().copied() else {
            return Ok(true);
        };
        socket.may_hand_off()?;
        if !self.find_next_hop(now, id, socket) {
            return Err(HandoffRefused::NextHop);
        }
        let known = socket.hop.and_then(|hop| self.neighbours.mac_now(hop));
        offloaded.hop = known.ok_or(HandoffRefused::NextHop)?;
        let (snd_una, snd_nxt) = (socket.tcp.snd_una(), socket.tcp.snd_nxt());
        if socket
            .send
            .start_behind(snd_una, MAX_TOE_SLICES)
            .before(snd_nxt)
        {
            return Err(HandoffRefused::InFlight);
        }
        let image = socket.image(now).ok_or(HandoffRefused::Closing)?;
        if image.tcb.held.len() > MAX_HELD {
            return Err(HandoffRefused::OutOfOrder);
        }
        let slice = self.driver.lend_image(&image);
        let slice = slice.ok_or(HandoffRefused::NoMemory)?;
        let offer = ToeOffer {
            toe: offloaded.toe,
            flow: socket.flow,
            hop: offloaded.hop,
            hop_limit: HOP_LIMIT,
            tcb: slice,
        };
        let command = ToeCommand::Offer(&offer);
        if !self.driver.post_toe(command, &mut self.counters) {
            self.driver.reclaim_image(slice);
            return Ok(false);
        }
        if !socket.is_anchored {
            socket.stream.restart(socket.tcp.rcv_nxt());
            socket.is_anchored = true;
        }
        offloaded.phase = Phase::Offered;
        offloaded.image = Some(slice);
        offloaded.posted = snd_una;
        offloaded.read = socket.tcp.read_seq();
        offloaded.update = (2 * u32::from(image.tcb.mss)).min(image.tcb.rcv_buffer / 4);
        offloaded.told = PostedRequests {
            nodelay: !socket.tcp.has_nagle(),
            cork: image.cork,
            ..PostedRequests::default()
        };
        socket.tcp.park();
        if let Some(handoff) = socket.owner.handoff_mut() {
            *handoff = offloaded;
        }
        self.handoff.watch_at.get_or_insert(now);
        Ok(true)
    }

    /// A connection that the NIC was asked to hold is not offered.
    pub(crate) fn cancel(&mut self, toe: ToeId, phase: Phase) {
        if phase == Phase::Ready {
            self.handoff.table.release(toe);
            self.handoff.cancels.push_back(toe);
            self.post_cancels();
        }
        // Else the NIC has yet to answer: then it is told, since nobody is found who asked.
    }

    /// Tells the NIC what it need not hold any more.
    pub(super) fn post_cancels(&mut self) -> bool {
        let mut any = false;
        while let Some(&toe) = self.handoff.cancels.front() {
            let cancel = ToeCommand::Cancel { toe };
            if !self.driver.post_toe(cancel, &mut self.counters) {
                break;
            }
            self.handoff.cancels.pop_front();
            any = true;
        }
        any
    }
}

impl Socket {
    /// Whether the connection is one that the NIC could run, but for whether it does already.
    fn may_hand_off(&self) -> Result<(), HandoffRefused> {
        if self.user == User::Released {
            return Err(HandoffRefused::NotFound);
        }
        if self.owner.splice().is_some() {
            return Err(HandoffRefused::Spliced);
        }
        match self.tcp.state() {
            State::Established | State::CloseWait => {}
            state if state.is_synchronized() || state == State::Closed => {
                return Err(HandoffRefused::Closing);
            }
            _ => return Err(HandoffRefused::Setup),
        }
        let closes = self.write_closed
            || self.discards_input
            || self.ended.is_some()
            || self.tcp.is_fin_queued();
        if closes || self.owner.teardown().is_some() {
            return Err(HandoffRefused::Closing);
        }
        Ok(())
    }

    /// The control block for the NIC. What was never sent is not in it: that is posted as there is room.
    fn image(&self, now: Instant) -> Option<TcbImage> {
        let tcb = self.tcp.tcb(now)?;
        Some(TcbImage {
            tcb: Tcb {
                write_seq: tcb.snd_nxt,
                ..tcb
            },
            config: self.tcp.config(),
            cork: self.tcp.is_corked(),
        })
    }
}
