//! The bypass protocol, inwards: what the NIC tells of the connections that it runs.

use std::time::Instant;

use nic::ring::ContextId;
use nic::ring::ErrorCode;
use nic::ring::toe::{ToeEvent, ToeId};
use probes::HandoffOutcome;
use tcp::TimeWaitEntry;
use wire::SeqNum;

use super::ConnectionOffload;
use crate::driver::{Delivered, FrameInfo};
use crate::memory::Buffer;
use crate::meter::Component;
use crate::socket::{Membership, OffloadedConnection, Phase, Recover, Socket};
use crate::{CloseReason, SocketId, SpliceRefused, probing};

impl ConnectionOffload {
    /// Takes what the NIC tells.
    pub fn take_toe_event(&mut self, now: Instant, event: ToeEvent) {
        match event {
            ToeEvent::Ready { toe } => self.take_ready(toe),
            ToeEvent::Refused { toe, .. } => self.take_handoff_refusal(now, toe),
            ToeEvent::Accepted { toe } => self.take_accepted(toe),
            ToeEvent::Acked {
                toe,
                snd_una,
                flight,
            } => self.enter(toe, |socket| socket.acked_by_nic(snd_una, flight)),
            ToeEvent::PeerFin { toe, rcv_nxt } => {
                self.enter(toe, |socket| socket.tcp.handle_fin(rcv_nxt));
            }
            ToeEvent::Recover {
                toe,
                context,
                tcpsn,
                sent,
            } => {
                self.transport.device.counters.handoff_recoveries += 1;
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
                self.handoff.selector.set_soft_limit(soft_limit);
            }
            ToeEvent::CommandFailed {
                context,
                tcpsn: _,
                error,
                ..
            } => self.take_command_failure(now, context, error),
            // The driver has put it together with its packet.
            ToeEvent::Delivered { .. } => self.transport.device.counters.driver_errors += 1,
        }
    }

    /// Has the processor fetch the socket that the NIC will speak of soon.
    #[inline]
    pub fn expect_delivery(&self) {
        if self.handoff.table.taken() > 0
            && let Some(toe) = self.transport.device.driver.delivered_ahead()
            && let Some(id) = self.handoff.table.find(toe)
        {
            self.transport.sockets.expect(id);
        }
    }

    /// Takes payload that TCP on the NIC has taken.
    pub fn take_delivered(
        &mut self,
        now: Instant,
        frame: Buffer,
        info: FrameInfo,
        taken: Delivered,
    ) {
        let found = self.handoff.table.find(taken.toe);
        let Some(id) = found else {
            self.transport.device.counters.handoff_stale += 1;
            return;
        };
        let Some(socket) = self.transport.sockets.get_mut(id) else {
            self.transport.device.counters.handoff_stale += 1;
            return;
        };
        self.transport.device.meter.switch(Component::Tcp);
        self.transport.device.counters.handoff_delivered += 1;
        if !info.is_placed {
            self.transport.device.counters.driver_rx_bytes += u64::from(info.payload_len);
        }
        let data = Some(taken.data).filter(|data| data.len > 0);
        let (snd_una, flight) = taken.acked;
        let agrees = socket.tcp.is_parked()
            && socket.tcp.handle_received(taken.rcv_nxt)
            && socket.acked_by_nic(snd_una, flight);
        if agrees {
            socket.keep_payload(id, frame, data, &info, &mut self.transport.device);
        }
        socket.consume_discarded(now);
        self.transport.schedule.mark_ready(id, socket);
        self.transport.device.meter.switch(Component::Driver);
        if !agrees {
            self.disagree(id);
        } else if let Some(part) = socket.owner.splice() {
            // Something has come that the NIC can't forward.
            self.refuse_splice(now, part.splice, SpliceRefused::Unread(id));
        }
    }

    /// Enters something into a socket whose connection the NIC runs. What can't be is a fault of the device's.
    fn enter(&mut self, toe: ToeId, f: impl FnOnce(&mut Socket) -> bool) {
        let Some(id) = self.handoff.table.find(toe) else {
            self.transport.device.counters.handoff_stale += 1;
            return;
        };
        let Some(socket) = self.transport.sockets.get_mut(id) else {
            return;
        };
        let agrees = socket.tcp.is_parked() && f(socket);
        self.transport.schedule.mark_ready(id, socket);
        if !agrees {
            self.disagree(id);
        }
    }

    /// The NIC says what can't be: the state of the stream is unknown.
    pub(super) fn disagree(&mut self, id: SocketId) {
        self.transport.device.counters.driver_errors += 1;
        let reason = "it contradicts itself about a connection that it runs".into();
        self.transport.reset(id, CloseReason::Device(reason));
    }

    fn take_accepted(&mut self, toe: ToeId) {
        self.transport.device.counters.handoff_accepted += 1;
        let mut is_new = false;
        self.enter(toe, |socket| {
            let offloaded = socket
                .owner
                .handoff_mut()
                .filter(|offloaded| offloaded.toe == toe);
            if let Some(offloaded) = offloaded {
                is_new = offloaded.accept();
            }
            if is_new {
                probing::handoff(&socket.flow, HandoffOutcome::Accepted);
            }
            is_new
        });
        self.transport.device.counters.handoff_curr += u64::from(is_new);
    }

    fn take_ready(&mut self, toe: ToeId) {
        let id = self.handoff.table.find(toe);
        if let Some((id, socket)) =
            id.and_then(|id| Some((id, self.transport.sockets.get_mut(id)?)))
            && let Some(offloaded) = socket
                .owner
                .handoff_mut()
                .filter(|offloaded| offloaded.toe == toe)
        {
            offloaded.ready();
            self.transport.schedule.mark_ready(id, socket);
        } else {
            // It is waited for no longer.
            let device = &mut self.transport.device;
            self.handoff.cancel(toe, Phase::Ready, device);
        }
    }

    /// The NIC does not run a connection: the host has it as it was, with what was done to it meanwhile.
    fn take_handoff_refusal(&mut self, now: Instant, toe: ToeId) {
        self.transport.device.counters.handoff_refused += 1;
        let found = self.handoff.table.find(toe);
        self.handoff.table.release(toe);
        let Some(id) = found else { return };
        let Some(socket) = self.transport.sockets.get_mut(id) else {
            return;
        };
        probing::handoff(&socket.flow, HandoffOutcome::Refused);
        if let Some(offloaded) = socket
            .owner
            .end_handoff_if(|offloaded| offloaded.toe == toe)
        {
            self.has_again(now, id, &offloaded);
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
        let Some(id) = self.handoff.table.find(toe) else {
            self.transport.device.counters.handoff_stale += 1;
            return;
        };
        self.handoff.table.release(toe);
        self.transport.device.counters.handoff_closed += 1;
        let Some(socket) = self.transport.sockets.get_mut(id) else {
            return;
        };
        let Some(offloaded) = socket.owner.end_handoff() else {
            return;
        };
        probing::handoff(&socket.flow, HandoffOutcome::Closed);
        self.transport.device.counters.handoff_curr -= u64::from(offloaded.is_accepted());
        if let Some(slice) = offloaded.image {
            self.transport.device.driver.reclaim_image(slice);
        }
        self.handoff.left(&mut socket.record);
        socket.tcp.unpark();
        socket.tcp.conclude();
        if let Some(entry) = time_wait {
            self.transport.time_wait.insert(now, socket.flow, entry);
        }
        if socket.membership.leave(Membership::FLOW) {
            self.transport.demux.remove(&socket.flow);
        }
        self.transport.schedule.mark_ready(id, socket);
        let splice = socket.owner.splice();
        self.transport.end(id, reason.into());
        if let Some(part) = splice {
            self.refuse_splice(now, part.splice, SpliceRefused::Changed(id));
        }
    }

    /// The NIC did not do what a command asked for. If it was about a context, software does its work.
    fn take_command_failure(&mut self, now: Instant, context: Option<ContextId>, error: ErrorCode) {
        self.transport.device.counters.driver_errors += 1;
        let shadow =
            context.and_then(|context| self.transport.device.driver.contexts().get(context));
        let Some(id) = shadow.map(|shadow| shadow.socket) else {
            return;
        };
        let socket = self.transport.sockets.get_mut(id);
        if let Some(offloaded) = socket.and_then(|socket| socket.owner.handoff_mut()) {
            offloaded.failed = context.map(|context| (context, error));
            self.recall(now, id);
        }
    }
}

impl Socket {
    /// The peer has acknowledged everything before `snd_una`. False if that was never posted.
    #[inline]
    fn acked_by_nic(&mut self, snd_una: SeqNum, flight: u32) -> bool {
        let posted = self.owner.handoff().is_some_and(|offloaded| {
            snd_una.at_or_before(self.known_to_nic(offloaded) + u32::from(offloaded.requested.fin))
        });
        posted && self.tcp.handle_acked(snd_una, flight)
    }
}

impl ConnectionOffload {
    /// A packet of a connection that the host has offered, and that the NIC has not taken yet, has come to the host. So the NIC
    /// holds the flow no longer: the offer came too late, and will be refused. Answers whether it is so; then the host has the
    /// connection from here on.
    pub fn take_let_go(&mut self, now: Instant, id: SocketId) -> bool {
        let offered =
            |offloaded: &OffloadedConnection| offloaded.is_away() && !offloaded.is_accepted();
        let socket = self.transport.sockets.get_mut(id);
        let Some(offloaded) = socket.and_then(|socket| socket.owner.end_handoff_if(offered)) else {
            return false;
        };
        self.has_again(now, id, &offloaded);
        true
    }

    /// The host has a connection that the NIC was to run: as it was, with what was done to it meanwhile.
    fn has_again(&mut self, now: Instant, id: SocketId, offloaded: &OffloadedConnection) {
        let transport = &mut self.transport;
        if let Some(slice) = offloaded.image {
            transport.device.driver.reclaim_image(slice);
        }
        let Some(socket) = transport.sockets.get_mut(id) else {
            return;
        };
        socket.tcp.unpark();
        if let Some(mss) = offloaded.path_mss {
            socket.tcp.handle_path_mss(now, mss);
        }
        self.handoff.stays(now, socket);
        transport.schedule.mark_ready(id, socket);
    }
}
