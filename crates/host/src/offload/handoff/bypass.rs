//! The bypass protocol, outwards: what the application has done to a socket is passed on to the NIC (Connection handoff policies §2).

use std::time::Instant;

use nic::ring::toe::{MAX_TOE_SLICES, ToeCommand, ToeOption};
use tcp::State;

use super::ConnectionOffload;
use crate::SocketId;
use crate::device::Device;
use crate::driver::Stopped;
use crate::link::Link;
use crate::meter::Component;
use crate::socket::{OffloadedConnection, Phase, Socket};

impl ConnectionOffload {
    /// Serves a socket whose connection the NIC runs. Answers whether anything was posted.
    pub(in crate::offload) fn serve_offloaded(&mut self, now: Instant, id: SocketId) -> bool {
        self.transport.drain_events(now, id);
        self.transport.drive_protocols(now, id);
        let posted = self.pass_on(now, id);
        let transport = &mut self.transport;
        let Some(socket) = transport.sockets.get_mut(id) else {
            return true;
        };
        let limits = transport.device.queue_limits;
        transport.schedule.tell_readiness(id, socket, limits);
        if socket.stop_lingering(now) {
            transport.schedule.mark_ready(id, socket);
        }
        posted
    }

    fn pass_on(&mut self, now: Instant, id: SocketId) -> bool {
        let transport = &mut self.transport;
        let Some(socket) = transport.sockets.get_mut(id) else {
            return false;
        };
        let Some(mut offloaded) = socket.owner.handoff().copied() else {
            return false;
        };
        let mut bypass = Bypass {
            offloaded: &mut offloaded,
            link: &mut transport.link,
            device: &mut transport.device,
        };
        let before = bypass.device.meter.switch(Component::Driver);
        let commands = bypass.device.counters.handoff_commands;
        let passed = bypass.pass_on(now, socket);
        bypass.device.meter.switch(before);
        let posted = bypass.device.counters.handoff_commands != commands;
        if let Some(handoff) = socket.owner.handoff_mut() {
            *handoff = offloaded;
        }
        match passed {
            Ok(()) => {}
            Err(Stopped::RingFull) => transport.schedule.stall(id, socket),
            Err(Stopped::NoContext(_) | Stopped::NoMessage(_)) => {
                // Software sees to it, on the host.
                self.recall(now, id);
            }
            Err(Stopped::SourceGone(seq)) => {
                let reason = transport.source_gone(id, seq);
                transport.reset(id, reason);
            }
        }
        posted
    }
}

/// What passes on what the application has done to one socket.
pub(super) struct Bypass<'a> {
    pub offloaded: &'a mut OffloadedConnection,
    pub link: &'a mut Link,
    pub device: &'a mut Device,
}

impl Bypass<'_> {
    /// Passes everything on that the NIC has not been told, as far as there is room.
    #[inline]
    fn pass_on(&mut self, now: Instant, socket: &mut Socket) -> Result<(), Stopped> {
        let toe = self.offloaded.toe;
        if self.offloaded.phase() == Phase::Restoring {
            if !self.offloaded.requested.restore {
                self.command(ToeCommand::Restore { toe })?;
                self.offloaded.requested.restore = true;
            }
            return Ok(());
        }
        if socket.tcp.state() == State::Closed {
            if !self.offloaded.requested.aborted {
                self.command(ToeCommand::Abort { toe })?;
                self.offloaded.requested.aborted = true;
            }
            return Ok(());
        }
        if self.offloaded.recover.is_some() {
            self.answer_recovery(socket)?;
        }
        self.pass_on_options(socket)?;
        if self.offloaded.posted.before(socket.send.end()) {
            self.pass_on_data(now, socket)?;
        }
        if socket.tcp.is_fin_queued()
            && !self.offloaded.requested.fin
            && self.offloaded.posted == socket.tcp.write_seq()
        {
            self.command(ToeCommand::Close { toe })?;
            self.offloaded.requested.fin = true;
        }
        let detaches = socket.tcp.is_detached() && !self.offloaded.requested.detached;
        let read = self.offloaded.read.distance_to(socket.tcp.read_seq());
        if read > 0 && (read >= self.offloaded.update || detaches) {
            self.command(ToeCommand::Consumed { toe, bytes: read })?;
            self.offloaded.read = socket.tcp.read_seq();
        }
        if detaches {
            self.command(ToeCommand::Detach { toe })?;
            self.offloaded.requested.detached = true;
        }
        Ok(())
    }

    /// Posts what was queued, as far as the NIC keeps as many pieces.
    #[inline]
    fn pass_on_data(&mut self, now: Instant, socket: &mut Socket) -> Result<(), Stopped> {
        if let Some(hop) = socket.route.hop
            && self.link.neighbours.mac(hop, now).is_none()
        {
            // It is time to ask whether the next hop is still there.
            let next_hop = &mut socket.route.next_hop;
            *next_hop = self
                .link
                .interface
                .next_hop_of(socket.flow.dst.0, *next_hop);
            self.link.neighbours.resolve(now, *next_hop);
        }
        if self.offloaded.posted == socket.send.end() {
            return Ok(());
        }
        let snd_una = socket.tcp.snd_una();
        let limit = socket.send.start_behind(snd_una, MAX_TOE_SLICES);
        while self.offloaded.posted.before(limit) {
            let most = self.offloaded.posted.distance_to(limit);
            let seq = self.offloaded.posted;
            let Device {
                driver, counters, ..
            } = &mut *self.device;
            let toe = self.offloaded.toe;
            let posted = driver.post_toe_send(toe, seq, most, &socket.send, counters)?;
            if posted == 0 {
                break;
            }
            self.offloaded.posted += posted;
        }
        Ok(())
    }

    #[inline]
    fn pass_on_options(&mut self, socket: &Socket) -> Result<(), Stopped> {
        let toe = self.offloaded.toe;
        let (nodelay, cork) = (!socket.tcp.has_nagle(), socket.tcp.is_corked());
        if nodelay != self.offloaded.requested.nodelay {
            let option = ToeOption::NoDelay(nodelay);
            self.command(ToeCommand::Option { toe, option })?;
            self.offloaded.requested.nodelay = nodelay;
        }
        if cork != self.offloaded.requested.cork {
            let option = ToeOption::Cork(cork);
            self.command(ToeCommand::Option { toe, option })?;
            self.offloaded.requested.cork = cork;
        }
        Ok(())
    }

    #[inline]
    fn command(&mut self, command: ToeCommand<'_>) -> Result<(), Stopped> {
        if self.device.post_toe(command) {
            Ok(())
        } else {
            Err(Stopped::RingFull)
        }
    }
}
