//! Both connections are the host's again.

use std::time::{Duration, Instant};

use nic::ring::accel;
use nic::ring::accel::{LegState, SpliceEnded};
use tcp::{SendQueue, State, Tcb, TcbEcn, TcbTimestamps};
use wire::SeqNum;

use super::ConnectionOffload;
use super::table::Leaving;
use crate::events::EventKinds;
use crate::socket::{Socket, User};
use crate::{CloseReason, SocketId, SpliceEnd, SpliceHandle};

/// The largest window that there is (RFC 7323 §2.3).
const MAX_WINDOW: u32 = 1 << 30;

impl ConnectionOffload {
    /// Goes on with both connections where the NIC has stopped.
    pub(super) fn take_back(
        &mut self,
        now: Instant,
        handle: SpliceHandle,
        ended: &SpliceEnded,
        states: [LegState; 2],
    ) {
        let Some(spliced) = self.splices.remove(handle) else {
            return;
        };
        self.transport.device.counters.accel_curr_splices -= 1;
        self.transport.device.counters.accel_splices_taken_back += 1;
        // What the NIC has forwarded and was not acknowledged was never here: it can't be sent again.
        let is_lost = states.iter().any(|state| state.snd_una != state.snd_nxt);
        let time_wait = self.transport.config.tcp.time_wait;
        for (side, state) in states.iter().enumerate() {
            let (id, mss) = (spliced.sockets[side], spliced.path_mss[side]);
            let Some(socket) = self.transport.sockets.get_mut(id) else {
                continue;
            };
            let counted = [ended.bytes[side], ended.bytes[1 - side]];
            if !go_on(socket, now, state, counted, time_wait) {
                // It has ended meanwhile: its address was lost.
                socket.owner.end_splice();
                continue;
            }
            if let Some(mss) = mss {
                socket.tcp.handle_path_mss(now, mss);
            }
            // The window is the host's again, and may be another one.
            socket.tcp.consumed(now, 0);
            self.transport.schedule.mark_ready(id, socket);
        }
        let reason = match ended.reason {
            _ if is_lost => SpliceEnd::TimedOut,
            accel::SpliceEnd::Idle => SpliceEnd::Idle,
            _ => SpliceEnd::TakenBack,
        };
        self.report(handle, spliced.sockets, ended, reason);
        if is_lost {
            for id in spliced.sockets {
                self.transport.reset(id, CloseReason::TimedOut);
            }
        }
        self.deliver_kept(now, spliced.sockets, spliced.kept);
        self.leave_as_asked(now, spliced.sockets, spliced.leaving);
    }

    /// Closes what the application has closed meanwhile.
    pub(super) fn leave_as_asked(
        &mut self,
        now: Instant,
        sockets: [SocketId; 2],
        leaving: [Option<Leaving>; 2],
    ) {
        for (id, leaving) in sockets.into_iter().zip(leaving) {
            let (Some(leaving), Some(socket)) = (leaving, self.transport.sockets.get_mut(id))
            else {
                continue;
            };
            socket.user = User::Application;
            let left = match leaving {
                Leaving::Close => self.close(now, id),
                Leaving::Abort => self.abort(now, id),
            };
            debug_assert!(left.is_ok(), "{left:?}");
        }
    }
}

/// Goes on with a connection where the NIC has stopped, which has `counted` what it forwarded from and to the peer. False if it is over.
fn go_on(
    socket: &mut Socket,
    now: Instant,
    state: &LegState,
    counted: [u64; 2],
    time_wait: Duration,
) -> bool {
    let Some(left) = socket.tcp.tcb(now) else {
        return false;
    };
    let payload_end = state.rcv_nxt - u32::from(state.fin_received);
    let received = advanced(left.rcv_nxt, payload_end, counted[0]);
    let payload_end = state.snd_nxt - u32::from(state.fin_sent);
    let sent = advanced(left.snd_nxt, payload_end, counted[1]);
    let in_flight = u64::from(state.snd_una.distance_to(state.snd_nxt));
    let acked = sent.saturating_sub(in_flight);
    socket.tcp.count_forwarded(received, sent, acked);
    let tcb = brought_back(left, state, time_wait);
    socket.tcp.put_back(now, &tcb);
    socket.send = SendQueue::new(tcb.write_seq);
    let next = tcb.rcv_nxt - u32::from(tcb.fin_taken);
    socket.stream.restart(next);
    if state.fin_sent {
        socket.sending.close();
    }
    socket.owner.end_splice();
    socket.awaited.add(EventKinds::READABLE);
    socket.awaited.add(EventKinds::WRITABLE);
    true
}

/// Bytes that a stream has advanced, of which sequence numbers say the lower 32 bits. The NIC has `counted` what it forwarded,
/// retransmissions too.
fn advanced(from: SeqNum, to: SeqNum, counted: u64) -> u64 {
    let low = u64::from(from.distance_to(to));
    low + (counted.saturating_sub(low) >> 32 << 32)
}

/// The control block of a connection that was `left` to the NIC, as that has brought it back.
fn brought_back(left: Tcb, state: &LegState, time_wait: Duration) -> Tcb {
    let fin = u32::from(state.fin_sent);
    let stands = match (state.fin_sent, state.fin_received) {
        (false, false) => State::Established,
        (true, false) => State::FinWait2,
        (false, true) => State::CloseWait,
        (true, true) => State::TimeWait,
    };
    Tcb {
        state: stands,
        snd_una: state.snd_una,
        snd_nxt: state.snd_nxt,
        write_seq: state.snd_nxt - fin,
        fin_queued: state.fin_sent,
        snd_wnd: state.peer_window,
        snd_wnd_max: left.snd_wnd_max.max(state.peer_window),
        rcv_nxt: state.rcv_nxt,
        unread: 0,
        rcv_edge: state.rcv_nxt + state.our_window.min(MAX_WINDOW),
        fin_taken: state.fin_received,
        fin_at: None,
        held: Vec::new(),
        owes_ack: false,
        timestamps: state.timestamps.map(|brought| TcbTimestamps {
            recent: brought.recent,
            recent_age: Duration::ZERO,
            val: brought.value,
        }),
        ecn: left.ecn.map(|ecn| TcbEcn {
            echo: state.ecn_echo,
            ..ecn
        }),
        linger: (stands == State::TimeWait).then_some(time_wait),
        ..left
    }
}
