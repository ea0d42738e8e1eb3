//! The bypass protocol, inwards: what the NIC tells of the connections that it runs.

use std::time::Instant;

use nic::ring::ContextId;
use nic::ring::ErrorCode;
use nic::ring::toe::{ToeEvent, ToeId};
use tcp::TimeWaitEntry;
use wire::SeqNum;

use super::offloaded::{OffloadedConnection, Phase, Recover};
use crate::driver::{Delivered, FrameInfo};
use crate::memory::Buffer;
use crate::meter::Component;
use crate::socket::Socket;
use crate::stack::{Core, Stack};
use crate::{CloseReason, SocketId, SpliceRefused};

impl Stack {
    /// Takes what the NIC tells.
    pub(crate) fn take_toe_event(&mut self, now: Instant, event: ToeEvent) {
        match event {
            ToeEvent::Ready { toe } => self.take_ready(toe),
            ToeEvent::Refused { toe, .. } => self.take_handoff_refusal(now, toe),
            ToeEvent::Accepted { toe } => self.take_accepted(toe),
            ToeEvent::Acked {
                toe,
                snd_una,
                flight,
            } => self.enter(toe, |socket| socket.told_acked(snd_una, flight)),
            ToeEvent::PeerFin { toe, rcv_nxt } => {
                self.enter(toe, |socket| socket.tcp.told_fin(rcv_nxt));
            }
            ToeEvent::Recover {
                toe,
                context,
                tcpsn,
                sent,
            } => {
                self.core.counters.handoff_recoveries += 1;
                self.enter(toe, |socket| {
                    if let Some(offloaded) = socket.owner.handoff_mut() {
                        offloaded.recover = Some(Recover {
                            context,
                            tcpsn,
                            sent,
                        });
                    }
                    true
                });
            }
            ToeEvent::Closed {
                toe,
                reason,
                time_wait,
            } => self.take_closed(now, toe, reason, time_wait),
            ToeEvent::Restored { toe, reason } => self.take_restored(now, toe, reason),
            ToeEvent::Room { soft_limit, .. } => {
                self.core.handoff.selector.told_soft_limit(soft_limit);
            }
            ToeEvent::CommandFailed {
                context,
                tcpsn: _,
                error,
                ..
            } => self.take_command_failure(now, context, error),
            // The driver has put it together with its packet.
            ToeEvent::Delivered { .. } => self.core.counters.driver_errors += 1,
        }
    }

    /// Has the processor fetch the socket that the NIC will speak of soon.
    #[inline]
    pub(crate) fn expect_delivery(&self) {
        if self.core.handoff.table.taken() > 0
            && let Some(toe) = self.core.driver.delivered_ahead()
            && let Some(id) = self.core.handoff.table.find(toe)
        {
            self.sockets.expect(id);
        }
    }

    /// Takes payload that TCP on the NIC has taken.
    pub(crate) fn take_delivered(
        &mut self,
        now: Instant,
        frame: Buffer,
        info: FrameInfo,
        taken: Delivered,
    ) {
        let core = &mut self.core;
        let found = core.handoff.table.find(taken.toe);
        let Some(id) = found else {
            core.counters.handoff_stale += 1;
            return;
        };
        let Some(socket) = self.sockets.get_mut(id) else {
            core.counters.handoff_stale += 1;
            return;
        };
        core.meter.switch(Component::Tcp);
        core.counters.handoff_delivered += 1;
        if !info.is_placed {
            core.counters.driver_rx_bytes += u64::from(info.payload_len);
        }
        let data = Some(taken.data).filter(|data| data.len > 0);
        let (snd_una, flight) = taken.acked;
        let agrees = socket.tcp.is_parked()
            && socket.tcp.told_received(taken.rcv_nxt)
            && socket.told_acked(snd_una, flight);
        if agrees {
            core.keep_payload(id, socket, frame, data, &info);
        }
        if socket.discards_input {
            let unread = socket.tcp.unread();
            socket.tcp.consumed(now, unread);
        }
        core.mark_ready(id, socket);
        core.meter.switch(Component::Driver);
        if !agrees {
            self.disagree(id);
        } else if let Some(part) = socket.owner.splice() {
            // Something has come that the NIC can't forward.
            self.refuse_splice(now, part.splice, SpliceRefused::Unread(id));
        }
    }

    /// Enters something into a socket whose connection the NIC runs. What can't be is a fault of the device's.
    fn enter(&mut self, toe: ToeId, f: impl FnOnce(&mut Socket) -> bool) {
        let Some(id) = self.core.handoff.table.find(toe) else {
            self.core.counters.handoff_stale += 1;
            return;
        };
        let Some(socket) = self.sockets.get_mut(id) else {
            return;
        };
        let agrees = socket.tcp.is_parked() && f(socket);
        self.core.mark_ready(id, socket);
        if !agrees {
            self.disagree(id);
        }
    }

    /// The NIC says what can't be: nobody knows what the stream is.
    pub(super) fn disagree(&mut self, id: SocketId) {
        self.core.counters.driver_errors += 1;
        let reason = "it contradicts itself about a connection that it runs".into();
        self.reset(id, CloseReason::Device(reason));
    }

    fn take_accepted(&mut self, toe: ToeId) {
        self.core.counters.handoff_accepted += 1;
        let mut is_new = false;
        self.enter(toe, |socket| {
            let offloaded = socket
                .owner
                .handoff_mut()
                .filter(|offloaded| offloaded.toe == toe);
            if let Some(offloaded) = offloaded {
                is_new = !std::mem::replace(&mut offloaded.accepted, true);
                if offloaded.phase == Phase::Offered {
                    offloaded.phase = Phase::Owned;
                }
            }
            is_new
        });
        self.core.counters.handoff_curr += u64::from(is_new);
    }

    fn take_ready(&mut self, toe: ToeId) {
        let id = self.core.handoff.table.find(toe);
        if let Some((id, socket)) = id.and_then(|id| Some((id, self.sockets.get_mut(id)?)))
            && let Some(offloaded) = socket
                .owner
                .handoff_mut()
                .filter(|offloaded| offloaded.toe == toe)
        {
            offloaded.phase = Phase::Ready;
            self.core.mark_ready(id, socket);
        } else {
            // Nobody waits for it any more.
            self.core.cancel(toe, Phase::Ready);
        }
    }

    /// The NIC does not run a connection: the host has it as it was, with what was done to it meanwhile.
    fn take_handoff_refusal(&mut self, now: Instant, toe: ToeId) {
        self.core.counters.handoff_refused += 1;
        let found = self.core.handoff.table.find(toe);
        self.core.handoff.table.release(toe);
        let Some(id) = found else { return };
        let Some(socket) = self.sockets.get_mut(id) else {
            return;
        };
        if let Some(offloaded) = socket
            .owner
            .end_handoff_if(|offloaded| offloaded.toe == toe)
        {
            self.core.has_again(now, id, socket, &offloaded);
        }
    }

    /// A connection has ended on the NIC.
    fn take_closed(
        &mut self,
        now: Instant,
        toe: ToeId,
        reason: tcp::CloseReason,
        time_wait: Option<TimeWaitEntry>,
    ) {
        let Some(id) = self.core.handoff.table.find(toe) else {
            self.core.counters.handoff_stale += 1;
            return;
        };
        self.core.handoff.table.release(toe);
        self.core.counters.handoff_closed += 1;
        let Some(socket) = self.sockets.get_mut(id) else {
            return;
        };
        let Some(offloaded) = socket.owner.end_handoff() else {
            return;
        };
        let core = &mut self.core;
        core.counters.handoff_curr -= u64::from(offloaded.accepted);
        if let Some(slice) = offloaded.image {
            core.driver.reclaim_image(slice);
        }
        core.left_nic(socket);
        socket.tcp.unpark();
        socket.tcp.conclude();
        if let Some(entry) = time_wait {
            core.time_wait.insert(now, socket.flow, entry);
        }
        if !std::mem::replace(&mut socket.is_unhooked, true) {
            core.demux.remove(&socket.flow);
        }
        core.mark_ready(id, socket);
        let splice = socket.owner.splice();
        let reason = match reason {
            tcp::CloseReason::Graceful => CloseReason::Graceful,
            tcp::CloseReason::Reset => CloseReason::Reset,
            tcp::CloseReason::Refused => CloseReason::Refused,
            tcp::CloseReason::TimedOut => CloseReason::TimedOut,
            tcp::CloseReason::Aborted => CloseReason::Aborted,
        };
        self.end(id, reason);
        if let Some(part) = splice {
            self.refuse_splice(now, part.splice, SpliceRefused::Changed(id));
        }
    }

    /// The NIC did not do what a command asked for. If it was about a context, software does its work.
    fn take_command_failure(&mut self, now: Instant, context: Option<ContextId>, error: ErrorCode) {
        self.core.counters.driver_errors += 1;
        let shadow = context.and_then(|context| self.core.driver.contexts().get(context));
        let Some(id) = shadow.map(|shadow| shadow.socket) else {
            return;
        };
        let socket = self.sockets.get_mut(id);
        if let Some(offloaded) = socket.and_then(|socket| socket.owner.handoff_mut()) {
            offloaded.failed = context.map(|context| (context, error));
            self.recall(now, id);
        }
    }
}

impl Socket {
    /// The peer has acknowledged everything before `snd_una`. False if that was never posted.
    #[inline]
    fn told_acked(&mut self, snd_una: SeqNum, flight: u32) -> bool {
        let posted = self.owner.handoff().is_some_and(|offloaded| {
            snd_una.at_or_before(self.known_to_nic(offloaded) + u32::from(offloaded.told.fin))
        });
        posted && self.tcp.told_acked(snd_una, flight)
    }
}

impl Core {
    /// A packet of a connection that the host has offered, and that the NIC has not taken yet, has come to the host. So the NIC
    /// holds the flow no longer: the offer came too late, and will be refused. Answers whether it is so; then the host has the
    /// connection from here on.
    pub(crate) fn take_let_go(&mut self, now: Instant, id: SocketId, socket: &mut Socket) -> bool {
        let offered = |offloaded: &OffloadedConnection| offloaded.is_away() && !offloaded.accepted;
        let Some(offloaded) = socket.owner.end_handoff_if(offered) else {
            return false;
        };
        self.has_again(now, id, socket, &offloaded);
        true
    }

    /// The host has a connection that the NIC was to run: as it was, with what was done to it meanwhile.
    fn has_again(
        &mut self,
        now: Instant,
        id: SocketId,
        socket: &mut Socket,
        offloaded: &OffloadedConnection,
    ) {
        if let Some(slice) = offloaded.image {
            self.driver.reclaim_image(slice);
        }
        socket.tcp.unpark();
        if let Some(mss) = offloaded.path_mss {
            socket.tcp.handle_path_mss(now, mss);
        }
        self.stays(now, socket);
        self.mark_ready(id, socket);
    }
}
