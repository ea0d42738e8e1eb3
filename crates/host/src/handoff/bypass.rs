//! The bypass protocol, outwards: what the application has done to a socket is passed on to the NIC (Connection handoff policies §2).

use std::time::Instant;

use nic::ring::toe::{MAX_TOE_SLICES, ToeCommand, ToeOption};
use tcp::State;

use super::offloaded::{OffloadedConnection, Phase};
use crate::driver::Stopped;
use crate::meter::Component;
use crate::socket::{Socket, User};
use crate::stack::{Core, Stack};
use crate::{CloseReason, SocketId};

impl Stack {
    /// Serves a socket whose connection the NIC runs. Answers whether anything was posted.
    pub(crate) fn serve_offloaded(&mut self, now: Instant, id: SocketId) -> bool {
        self.drain_events(now, id);
        self.drive_protocols(now, id);
        let posted = self.pass_on(now, id);
        let Some(socket) = self.sockets.get_mut(id) else {
            return true;
        };
        self.core.tell_readiness(id, socket);
        if socket.lingers && socket.user == User::Released && socket.tcp.state() == State::FinWait2
        {
            socket.lingers = false;
            socket.tcp.detach(now);
            self.core.mark_ready(id, socket);
        }
        posted
    }

    fn pass_on(&mut self, now: Instant, id: SocketId) -> bool {
        let core = &mut self.core;
        let Some(socket) = self.sockets.get_mut(id) else {
            return false;
        };
        let Some(mut offloaded) = socket.owner.handoff().copied() else {
            return false;
        };
        let before = core.meter.switch(Component::Driver);
        let commands = core.counters.handoff_commands;
        let passed = core.pass_on(now, socket, &mut offloaded);
        if let Some(handoff) = socket.owner.handoff_mut() {
            *handoff = offloaded;
        }
        core.meter.switch(before);
        let posted = core.counters.handoff_commands != commands;
        match passed {
            Ok(()) => {}
            Err(Stopped::RingFull) => core.stall(id, socket),
            Err(Stopped::NoContext(_) | Stopped::NoMessage(_)) => {
                // Software sees to it, on the host.
                self.recall(now, id);
            }
            Err(Stopped::SourceGone(seq)) => {
                let reason = self.source_reason(id, seq, |name, offset| CloseReason::SourceGone {
                    name,
                    offset,
                });
                self.reset(id, reason);
            }
        }
        posted
    }
}

impl Core {
    /// Passes everything on that the NIC has not been told, as far as there is room.
    #[inline]
    fn pass_on(
        &mut self,
        now: Instant,
        socket: &mut Socket,
        offloaded: &mut OffloadedConnection,
    ) -> Result<(), Stopped> {
        let toe = offloaded.toe;
        if offloaded.phase == Phase::Restoring {
            if !offloaded.told.restore {
                self.command(ToeCommand::Restore { toe })?;
                offloaded.told.restore = true;
            }
            return Ok(());
        }
        if socket.tcp.state() == State::Closed {
            if !offloaded.told.aborted {
                self.command(ToeCommand::Abort { toe })?;
                offloaded.told.aborted = true;
            }
            return Ok(());
        }
        if offloaded.recover.is_some() {
            self.answer_recovery(socket, offloaded)?;
        }
        self.pass_on_options(socket, offloaded)?;
        if offloaded.posted.before(socket.send.end()) {
            self.pass_on_data(now, socket, offloaded)?;
        }
        if socket.tcp.is_fin_queued()
            && !offloaded.told.fin
            && offloaded.posted == socket.tcp.write_seq()
        {
            self.command(ToeCommand::Close { toe })?;
            offloaded.told.fin = true;
        }
        let detaches = socket.tcp.is_detached() && !offloaded.told.detached;
        let read = offloaded.read.distance_to(socket.tcp.read_seq());
        if read > 0 && (read >= offloaded.update || detaches) {
            self.command(ToeCommand::Consumed { toe, bytes: read })?;
            offloaded.read = socket.tcp.read_seq();
        }
        if detaches {
            self.command(ToeCommand::Detach { toe })?;
            offloaded.told.detached = true;
        }
        Ok(())
    }

    /// Posts what was queued, as far as the NIC keeps as many pieces.
    #[inline]
    fn pass_on_data(
        &mut self,
        now: Instant,
        socket: &mut Socket,
        offloaded: &mut OffloadedConnection,
    ) -> Result<(), Stopped> {
        let limit = socket
            .send
            .start_behind(socket.tcp.snd_una(), MAX_TOE_SLICES);
        if let Some(hop) = socket.hop
            && self.neighbours.mac(hop, now).is_none()
        {
            // It is time to ask whether the next hop is still there.
            self.neighbours.resolve(now, socket.next_hop);
        }
        while offloaded.posted.before(limit) {
            let most = offloaded.posted.distance_to(limit);
            let from = (offloaded.posted, most);
            let posted =
                self.driver
                    .post_toe_send(offloaded.toe, from, &socket.send, &mut self.counters)?;
            if posted == 0 {
                break;
            }
            offloaded.posted += posted;
        }
        Ok(())
    }

    #[inline]
    fn pass_on_options(
        &mut self,
        socket: &Socket,
        offloaded: &mut OffloadedConnection,
    ) -> Result<(), Stopped> {
        let toe = offloaded.toe;
        let (nodelay, cork) = (!socket.tcp.has_nagle(), socket.tcp.is_corked());
        if nodelay != offloaded.told.nodelay {
            let option = ToeOption::NoDelay(nodelay);
            self.command(ToeCommand::Option { toe, option })?;
            offloaded.told.nodelay = nodelay;
        }
        if cork != offloaded.told.cork {
            let option = ToeOption::Cork(cork);
            self.command(ToeCommand::Option { toe, option })?;
            offloaded.told.cork = cork;
        }
        Ok(())
    }

    #[inline]
    fn command(&mut self, command: ToeCommand<'_>) -> Result<(), Stopped> {
        if self.driver.post_toe(command, &mut self.counters) {
            Ok(())
        } else {
            Err(Stopped::RingFull)
        }
    }
}
