//! The way to the NIC: it is told to hold the flow's packets, then it is offered the connection.

use std::time::Instant;

use nic::ring::toe::{MAX_HELD, MAX_TOE_SLICES, TcbImage, ToeCommand, ToeId, ToeOffer};
use tcp::{State, Tcb};

use super::{ConnectionOffload, HandoffState};
use crate::SocketId;
use crate::device::Device;
use crate::driver::HOP_LIMIT;
use crate::handoff::HandoffRefused;
use crate::link::Link;
use crate::socket::{
    OffloadedConnection, Phase, PostedRequests, ReceiveSide, SendSide, Socket, User,
};

impl ConnectionOffload {
    /// Begins to hand a connection off.
    ///
    /// # Errors
    /// Why the host does not even ask.
    pub fn hand_off(&mut self, id: SocketId) -> Result<(), HandoffRefused> {
        if self.transport.device.driver.toe_quota() == 0 {
            return Err(HandoffRefused::Unsupported);
        }
        if self.transport.sockets.is_quasi(id) {
            return Err(HandoffRefused::Setup);
        }
        let socket = self
            .transport
            .sockets
            .get_mut(id)
            .ok_or(HandoffRefused::NotFound)?;
        if socket.owner.handoff().is_some() {
            return Err(HandoffRefused::HandedOff);
        }
        socket.may_hand_off()?;
        let table = &mut self.handoff.table;
        let toe = table.take(id).ok_or(HandoffRefused::Full)?;
        let flow = socket.flow;
        let begin = ToeCommand::Begin { toe, flow };
        let device = &mut self.transport.device;
        if !device.post_toe(begin) {
            table.release(toe);
            return Err(HandoffRefused::Full);
        }
        device.counters.handoff_begun += 1;
        socket.owner.begin_handoff(toe);
        Ok(())
    }

    /// The NIC holds the flow's packets: the connection is offered, unless something has come between.
    pub fn offer(&mut self, now: Instant, id: SocketId) {
        let Some(socket) = self.transport.sockets.get_mut(id) else {
            return;
        };
        if self.transport.schedule.has_unsent(id) {
            // The rest of a segment goes first.
            return;
        }
        let (link, device) = (&mut self.transport.link, &mut self.transport.device);
        match post_offer(now, id, socket, link, device) {
            Ok(true) => {
                self.handoff.watch_at.get_or_insert(now);
            }
            Ok(false) => self.transport.schedule.stall(id, socket),
            Err(_) => {
                self.transport.device.counters.handoff_withheld += 1;
                self.cancel_handoff(now, id);
            }
        }
    }

    /// Gives up a handoff that the NIC does not have yet.
    pub fn cancel_handoff(&mut self, now: Instant, id: SocketId) {
        let Some(socket) = self.transport.sockets.get_mut(id) else {
            return;
        };
        let Some(offloaded) = socket
            .owner
            .end_handoff_if(|offloaded| !offloaded.is_away())
        else {
            return;
        };
        let device = &mut self.transport.device;
        self.handoff
            .cancel(offloaded.toe, offloaded.phase(), device);
        self.handoff.stays(now, socket);
        self.transport.schedule.mark_ready(id, socket);
    }
}

/// Offers the connection. False when there is no room in the rings.
fn post_offer(
    now: Instant,
    id: SocketId,
    socket: &mut Socket,
    link: &mut Link,
    device: &mut Device,
) -> Result<bool, HandoffRefused> {
    let Some(mut offloaded) = socket.owner.handoff().copied() else {
        return Ok(true);
    };
    socket.may_hand_off()?;
    if !socket.find_next_hop(now, id, link, device) {
        return Err(HandoffRefused::NextHop);
    }
    let hop = socket.route.hop;
    let known = hop.and_then(|hop| link.neighbours.mac_now(hop));
    offloaded.hop = known.ok_or(HandoffRefused::NextHop)?;
    let (snd_una, snd_nxt) = (socket.tcp.snd_una(), socket.tcp.snd_nxt());
    let limit = socket.send.start_behind(snd_una, MAX_TOE_SLICES);
    if limit.before(snd_nxt) {
        return Err(HandoffRefused::InFlight);
    }
    let image = socket.image(now).ok_or(HandoffRefused::Closing)?;
    if image.tcb.held.len() > MAX_HELD {
        return Err(HandoffRefused::OutOfOrder);
    }
    let slice = device.driver.lend_image(&image);
    let slice = slice.ok_or(HandoffRefused::NoMemory)?;
    let offer = ToeOffer {
        toe: offloaded.toe,
        flow: socket.flow,
        hop: offloaded.hop,
        hop_limit: HOP_LIMIT,
        tcb: slice,
    };
    if !device.post_toe(ToeCommand::Offer(&offer)) {
        device.driver.reclaim_image(slice);
        return Ok(false);
    }
    offloaded.image = Some(slice);
    park(socket, offloaded, &image);
    Ok(true)
}

/// A connection that was offered is run by the host no more.
fn park(socket: &mut Socket, mut offloaded: OffloadedConnection, image: &TcbImage) {
    if socket.receive == ReceiveSide::Unanchored {
        socket.stream.restart(socket.tcp.rcv_nxt());
        socket.receive = ReceiveSide::Open;
    }
    offloaded.offered();
    offloaded.posted = socket.tcp.snd_una();
    offloaded.read = socket.tcp.read_seq();
    offloaded.update = (2 * u32::from(image.tcb.mss)).min(image.tcb.rcv_buffer / 4);
    offloaded.requested = PostedRequests {
        nodelay: !socket.tcp.has_nagle(),
        cork: image.cork,
        ..PostedRequests::default()
    };
    socket.tcp.park();
    if let Some(handoff) = socket.owner.handoff_mut() {
        *handoff = offloaded;
    }
}

impl HandoffState {
    /// A connection that the NIC was asked to hold is not offered.
    pub fn cancel(&mut self, toe: ToeId, phase: Phase, device: &mut Device) {
        if phase == Phase::Ready {
            self.table.release(toe);
            self.cancels.push_back(toe);
            self.post_cancels(device);
        }
        // Else the NIC has yet to answer: then it is told, since the place has another owner then.
    }

    /// Tells the NIC what it need not hold any more.
    pub(super) fn post_cancels(&mut self, device: &mut Device) -> bool {
        let mut any = false;
        while let Some(&toe) = self.cancels.front() {
            let cancel = ToeCommand::Cancel { toe };
            if !device.post_toe(cancel) {
                break;
            }
            self.cancels.pop_front();
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
        let closes = self.sending != SendSide::Open
            || self.receive == ReceiveSide::Discarding
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
