//! The way to the NIC: what is unacknowledged is waited for, then both connections are given away.

use std::collections::VecDeque;
use std::time::Instant;

use nic::ring::accel::{Leg, Splice, TimestampState};
use tcp::{State, Tcb};
use wire::FlowKey;
use wire::ethernet::MacAddr;
use wire::packet::{self, Class, Parsed};
use wire::tcp::Flags;

use super::ConnectionOffload;
use super::table::{Kept, Phase, Splices};
use crate::device::Device;
use crate::driver::{FrameInfo, HOP_LIMIT, Supply};
use crate::events::EventKinds;
use crate::memory::Buffer;
use crate::{Event, SocketId, SpliceHandle, SpliceRefused};

impl ConnectionOffload {
    /// Takes a frame of a socket that is part of a splice.
    pub fn take_spliced(
        &mut self,
        now: Instant,
        id: SocketId,
        frame: Buffer,
        parsed: &Parsed,
        info: FrameInfo,
    ) {
        let Some(socket) = self.transport.sockets.get_mut(id) else {
            return;
        };
        let Some(part) = socket.owner.splice() else {
            return;
        };
        let Some(spliced) = self.splices.get_mut(part.splice) else {
            return;
        };
        let may_keep = self.transport.device.supply == Supply::Plenty && !info.is_placed;
        let kept = Kept {
            side: part.side,
            frame,
            segments: info.segments,
        };
        if socket.owner.is_given_away() {
            // Once it is settled that the NIC has them, what comes up is what it does not forward any more.
            if spliced.is_called_back && matches!(spliced.phase, Phase::Relaying) {
                if may_keep {
                    self.transport.device.supply.keep();
                    spliced.keep(kept);
                }
            } else {
                let gso_size = packet_size(socket.tcp.mss(), parsed, info.segments);
                self.transport.device.counters.accel_reinjected += 1;
                self.transport.device.driver.reinject(kept.frame, gso_size);
            }
            return;
        }
        let header = &parsed.tcp;
        let fin = u32::from(header.flags.contains(Flags::FIN));
        let is_new = (header.seq + parsed.payload_len + fin).after(socket.tcp.rcv_nxt());
        if !is_new || header.flags.intersects(Flags::RST | Flags::SYN) {
            let len = parsed.payload_len;
            socket.tcp.handle_segment(now, header, len, info.segments);
        } else {
            // Its acknowledgment is for the host, its payload for the NIC.
            let mut empty = *header;
            empty.flags.remove(Flags::FIN);
            socket.tcp.handle_segment(now, &empty, 0, info.segments);
            if may_keep {
                self.transport.device.supply.keep();
                spliced.keep(kept);
            }
        }
        self.transport.schedule.mark_ready(id, socket);
    }

    /// A socket of a draining splice was served: perhaps nothing is due any more.
    pub fn advance_splice(&mut self, now: Instant, id: SocketId) {
        let socket = self.transport.sockets.get(id);
        let part = socket.and_then(|socket| socket.owner.splice());
        let is_the_hosts = socket.is_some_and(|socket| !socket.owner.is_given_away());
        let Some(part) = part.filter(|_| is_the_hosts) else {
            return;
        };
        let Some(spliced) = self.splices.get(part.splice) else {
            return;
        };
        let mut hops = [MacAddr([0; 6]); 2];
        let sockets = spliced.sockets;
        for (id, hop) in sockets.into_iter().zip(&mut hops) {
            let Some(socket) = self.transport.sockets.get_mut(id) else {
                return;
            };
            if socket.tcp.state() != State::Established || socket.ended.is_some() {
                self.refuse_splice(now, part.splice, SpliceRefused::Changed(id));
                return;
            }
            let is_posted = !self.transport.schedule.has_unsent(id);
            if socket.owner.handoff().is_some() {
                return;
            }
            if !(socket.tcp.is_drained() && socket.send.is_empty() && is_posted) {
                return;
            }
            let (link, device) = (&mut self.transport.link, &mut self.transport.device);
            if !socket.find_next_hop(now, id, link, device) {
                return;
            }
            let known = socket
                .route
                .hop
                .and_then(|hop| link.neighbours.mac_now(hop));
            let Some(mac) = known else { return };
            *hop = mac;
        }
        self.post_splice(now, part.splice, hops);
    }

    /// Gives both connections away, and behind them what was kept.
    fn post_splice(&mut self, now: Instant, handle: SpliceHandle, hops: [MacAddr; 2]) {
        let Some(spliced) = self.splices.get_mut(handle) else {
            return;
        };
        let mut legs = [None; 2];
        for side in 0..2 {
            let Some(socket) = self.transport.sockets.get_mut(spliced.sockets[side]) else {
                return;
            };
            let Some(tcb) = socket.tcp.tcb(now) else {
                return;
            };
            legs[side] = Some(leg(&socket.flow, hops[side], &tcb));
        }
        let [Some(a), Some(b)] = legs else { return };
        let idle = spliced.idle.map_or(0, |idle| idle.as_millis().max(1));
        spliced.hops = hops;
        let Device {
            driver, counters, ..
        } = &mut self.transport.device;
        driver.splice(Splice {
            splice: Splices::number(handle),
            a,
            b,
            idle_ms: u32::try_from(idle).unwrap_or(u32::MAX),
        });
        let ticket = driver.ticket();
        spliced.phase = Phase::Posted(ticket);
        for kept in spliced.kept.drain(..) {
            let Class::Tcp(parsed) = packet::classify(&kept.frame) else {
                continue;
            };
            let mss = legs[kept.side].map_or(0, |leg| leg.our_mss);
            let gso_size = packet_size(mss, &parsed, kept.segments);
            counters.accel_reinjected += 1;
            driver.reinject(kept.frame, gso_size);
        }
        for id in spliced.sockets {
            if let Some(socket) = self.transport.sockets.get_mut(id) {
                // Its timers mean nothing any more: what is in the heap is stale.
                socket.armed = None;
                socket.owner.give_to_splice();
            }
        }
        self.splices.posted.push(handle);
        self.transport.device.flush();
    }

    /// The splice does not come about: the host goes on with both connections as if nothing had happened.
    pub fn refuse_splice(&mut self, now: Instant, handle: SpliceHandle, reason: SpliceRefused) {
        let Some(spliced) = self.splices.remove(handle) else {
            return;
        };
        self.transport.device.counters.accel_splices_refused += 1;
        self.tell_of_splice(Event::SpliceRefused(handle, reason));
        for id in spliced.sockets {
            if let Some(socket) = self.transport.sockets.get_mut(id) {
                socket.owner.end_splice();
                socket.awaited.add(EventKinds::READABLE);
                self.transport.schedule.mark_ready(id, socket);
            }
        }
        self.deliver_kept(now, spliced.sockets, spliced.kept);
        self.leave_as_asked(now, spliced.sockets, spliced.leaving);
    }

    /// Gives what was kept to the sockets, which are the host's.
    pub(super) fn deliver_kept(
        &mut self,
        now: Instant,
        sockets: [SocketId; 2],
        kept: VecDeque<Kept>,
    ) {
        for kept in kept {
            if let Class::Tcp(parsed) = packet::classify(&kept.frame) {
                let info = FrameInfo::plain(kept.segments, parsed.payload_len);
                self.deliver(now, sockets[kept.side], kept.frame, &parsed, info);
            }
        }
    }

    /// Gives up the splices that have drained for too long.
    pub(super) fn stop_draining(&mut self, now: Instant) -> bool {
        let mut progress = false;
        while let Some((until, handle)) = self.splices.draining.front().copied() {
            let Some(spliced) = self.splices.get(handle) else {
                self.splices.draining.pop_front();
                continue;
            };
            if !matches!(spliced.phase, Phase::Draining) {
                self.splices.draining.pop_front();
                continue;
            }
            if until > now {
                break;
            }
            let sockets = spliced.sockets;
            self.splices.draining.pop_front();
            let late = sockets.into_iter().find(|id| {
                let socket = self.transport.sockets.get(*id);
                socket.is_some_and(|socket| !socket.tcp.is_drained())
            });
            let reason = match late {
                Some(id) => SpliceRefused::NotDrained(id),
                None => SpliceRefused::NextHop(sockets[0]),
            };
            self.refuse_splice(now, handle, reason);
            progress = true;
        }
        progress
    }
}

/// Payload bytes of each packet on the wire that a frame stands for; 0 if it stands for itself.
fn packet_size(mss: u16, parsed: &Parsed, segments: u16) -> u16 {
    if segments > 1 && parsed.payload_len > u32::from(mss) {
        mss
    } else {
        0
    }
}

fn leg(flow: &FlowKey, hop: MacAddr, tcb: &Tcb) -> Leg {
    let (peer_shift, our_shift) = tcb.shifts.unwrap_or_default();
    let options = tcb.option_bytes();
    Leg {
        flow: *flow,
        hop,
        hop_limit: HOP_LIMIT,
        snd_nxt: tcb.snd_nxt,
        rcv_nxt: tcb.rcv_nxt,
        peer_window: tcb.snd_wnd,
        our_window: tcb.rcv_window(),
        peer_shift,
        our_shift,
        mss: tcb.mss - options,
        our_mss: tcb.adv_mss - options,
        sack: tcb.sack,
        ecn: tcb.ecn.is_some(),
        ecn_echo: tcb.ecn.is_some_and(|ecn| ecn.echo),
        timestamps: tcb.timestamps.map(|timestamps| TimestampState {
            recent: timestamps.recent,
            value: timestamps.val,
        }),
    }
}
