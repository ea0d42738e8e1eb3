//! What the NIC tells of splices.

use std::time::Instant;

use nic::ring::ErrorCode;
use nic::ring::accel::{self, LegState, SpliceEnded, SpliceId, SpliceState};

use super::ConnectionOffload;
use super::table::{Phase, Splices};
use crate::socket::{Membership, User};
use crate::{
    CloseReason, Event, LegProgress, SocketId, SpliceEnd, SpliceHandle, SpliceRefused, SpliceReport,
};

impl ConnectionOffload {
    /// Does what is due for splices; answers whether there was anything.
    #[inline]
    pub fn poll_splices(&mut self, now: Instant) -> bool {
        if self.splices.len() == 0 {
            self.splices.draining.clear();
            self.splices.watch_at = None;
            return false;
        }
        self.settle_splices(now)
    }

    fn settle_splices(&mut self, now: Instant) -> bool {
        let mut progress = self.stop_draining(now);
        let mut at = 0;
        while let Some(handle) = self.splices.posted.get(at).copied() {
            let ticket = match self
                .splices
                .get_mut(handle)
                .map(|spliced| &mut spliced.phase)
            {
                Some(Phase::Posted(ticket)) => ticket,
                _ => {
                    self.splices.posted.swap_remove(at);
                    continue;
                }
            };
            if self.transport.device.driver.is_settled(ticket) {
                // The NIC has come past it, and has not refused.
                self.accepted(handle);
                progress = true;
            } else {
                at += 1;
            }
        }
        self.watch_paths(now) | progress
    }

    fn accepted(&mut self, handle: SpliceHandle) {
        let Some(spliced) = self.splices.get_mut(handle) else {
            return;
        };
        if matches!(spliced.phase, Phase::Posted(_)) {
            spliced.phase = Phase::Relaying;
            self.splices.posted.retain(|posted| *posted != handle);
            self.transport.device.counters.accel_splices += 1;
            self.transport.device.counters.accel_curr_splices += 1;
            self.tell_of_splice(Event::Spliced(handle));
        }
    }

    /// The NIC has refused a descriptor that names a splice.
    pub fn take_splice_refusal(&mut self, now: Instant, number: u32, error: ErrorCode) {
        let Some(handle) = self.splices.find(SpliceId(number)) else {
            return;
        };
        let is_posted = self
            .splices
            .get(handle)
            .is_some_and(|spliced| matches!(spliced.phase, Phase::Posted(_)));
        // It may also be that there was nothing left to take back: then the end is on its way.
        if is_posted && error != ErrorCode::NoSplice {
            let reason = self.reason(handle, error);
            self.refuse_splice(now, handle, reason);
        }
    }

    fn reason(&self, handle: SpliceHandle, error: ErrorCode) -> SpliceRefused {
        let mss = |side: usize| {
            let id = self
                .splices
                .get(handle)
                .map(|spliced| spliced.sockets[side]);
            let socket = id.and_then(|id| self.transport.sockets.get(id));
            socket.map_or(0, |socket| socket.tcp.mss())
        };
        match error {
            ErrorCode::TableFull | ErrorCode::NoPacketMemory | ErrorCode::SpliceExists => {
                SpliceRefused::TableFull
            }
            ErrorCode::FlowExists => SpliceRefused::FlowExists,
            ErrorCode::SpliceMss => SpliceRefused::Mss(mss(0), mss(1)),
            ErrorCode::SpliceOptions => SpliceRefused::Timestamps,
            ErrorCode::SpliceFamilies => SpliceRefused::Family,
            _ => SpliceRefused::Unsupported,
        }
    }

    /// The NIC relays no more.
    pub fn take_splice_ended(&mut self, ended: SpliceEnded) {
        let Some(handle) = self.splices.find(ended.splice) else {
            self.transport.device.counters.driver_errors += 1;
            return;
        };
        self.accepted(handle);
        let Some(spliced) = self.splices.get_mut(handle) else {
            return;
        };
        if !matches!(spliced.phase, Phase::Relaying) || spliced.ended.is_some() {
            self.transport.device.counters.driver_errors += 1;
            return;
        }
        match ended.reason {
            // Where the connections stand follows.
            accel::SpliceEnd::Idle | accel::SpliceEnd::TakenBack => spliced.ended = Some(ended),
            accel::SpliceEnd::Finished => {
                let end = SpliceEnd::Finished;
                self.conclude(handle, &ended, end, CloseReason::Graceful);
            }
            accel::SpliceEnd::Reset { by } => {
                let by = spliced.sockets[by.index()];
                let end = SpliceEnd::Reset { by };
                self.conclude(handle, &ended, end, CloseReason::Reset);
            }
        }
    }

    /// The NIC was reset: where its splices stand is unknown.
    pub fn lose_splices(&mut self) {
        let (handles, _) = self.splices.some_from(0, u32::MAX);
        for handle in handles {
            let given = self.splices.get(handle);
            if given.is_none_or(|spliced| matches!(spliced.phase, Phase::Draining)) {
                continue;
            }
            self.accepted(handle);
            self.transport.device.counters.handoff_lost += 2;
            let ended = SpliceEnded {
                splice: Splices::number(handle),
                reason: accel::SpliceEnd::TakenBack,
                bytes: [0; 2],
                packets: [0; 2],
            };
            self.conclude(handle, &ended, SpliceEnd::NicReset, CloseReason::NicReset);
        }
    }

    /// Where one connection of a splice stands: both are the host's again, if the end was told before; else it is the answer to a query.
    pub fn take_splice_state(&mut self, now: Instant, state: SpliceState) {
        let handle = self.splices.find(state.splice);
        let Some((handle, spliced)) =
            handle.and_then(|handle| Some((handle, self.splices.get_mut(handle)?)))
        else {
            self.transport.device.counters.driver_errors += 1;
            return;
        };
        spliced.states[state.side.index()] = Some(state.state);
        let [Some(a), Some(b)] = spliced.states else {
            return;
        };
        match spliced.ended {
            Some(ended) => self.take_back(now, handle, &ended, [a, b]),
            None => self.tell_of_progress(handle, [a, b]),
        }
    }

    fn tell_of_progress(&mut self, handle: SpliceHandle, states: [LegState; 2]) {
        let Some(spliced) = self.splices.get_mut(handle) else {
            return;
        };
        spliced.states = [None; 2];
        let sockets = spliced.sockets;
        let legs = std::array::from_fn(|side| {
            let (state, socket) = (&states[side], self.transport.sockets.get(sockets[side]));
            let mss = socket.map_or(0, |socket| socket.tcp.mss());
            let fin = state.fin_sent && state.snd_una != state.snd_nxt;
            let sent = state.snd_una.distance_to(state.snd_nxt);
            let unacknowledged = u64::from(sent.saturating_sub(fin.into()));
            LegProgress {
                acknowledged: state.forwarded.saturating_sub(unacknowledged),
                unacknowledged,
                is_blocked: state.probed && state.peer_window < u32::from(mss),
            }
        });
        self.tell_of_splice(Event::SpliceProgress(handle, legs));
    }

    /// Both connections are over.
    fn conclude(
        &mut self,
        handle: SpliceHandle,
        ended: &SpliceEnded,
        reason: SpliceEnd,
        closed: CloseReason,
    ) {
        let Some(spliced) = self.splices.remove(handle) else {
            return;
        };
        self.transport.device.counters.accel_curr_splices -= 1;
        for id in spliced.sockets {
            let Some(socket) = self.transport.sockets.get_mut(id) else {
                continue;
            };
            socket.owner.end_splice();
            socket.tcp.conclude();
            socket.end(closed.clone());
            socket.sending.close();
            socket.membership.leave(Membership::FLOW);
            self.transport.demux.remove(&socket.flow);
            if closed == CloseReason::Reset {
                self.transport.device.counters.tcp_estab_resets += 1;
            }
            if socket.user == User::Released {
                self.transport.remove(id);
            }
        }
        self.report(handle, spliced.sockets, ended, reason);
    }

    pub(super) fn report(
        &mut self,
        handle: SpliceHandle,
        sockets: [SocketId; 2],
        ended: &SpliceEnded,
        reason: SpliceEnd,
    ) {
        let report = SpliceReport {
            sockets,
            reason,
            bytes: ended.bytes,
            packets: ended.packets,
        };
        self.tell_of_splice(Event::SpliceEnded(handle, report));
    }
}
