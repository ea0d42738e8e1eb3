//! Next hops of connections that the NIC runs: only the host hears of them.

use std::time::{Duration, Instant};

use super::ConnectionOffload;
use crate::SocketId;

/// How often each connection's next hop is looked at, and how many at once.
const INTERVAL: Duration = Duration::from_secs(1);
const AT_ONCE: usize = 256;

impl ConnectionOffload {
    /// Takes connections back whose next hop has another address now. Answers whether it looked.
    pub(super) fn watch_offloaded_paths(&mut self, now: Instant) -> bool {
        let handoff = &mut self.handoff;
        match handoff.watch_at {
            Some(at) if at <= now => {}
            _ => return false,
        }
        if handoff.table.taken() == 0 {
            handoff.watch_at = None;
            return false;
        }
        let mut some = [None; AT_ONCE];
        let from = handoff.table.sockets_from(handoff.watched);
        for (slot, entry) in some.iter_mut().zip(from) {
            *slot = Some(entry);
        }
        handoff.watched = match some[AT_ONCE - 1] {
            Some((index, _)) => index + 1,
            None => 0,
        };
        let is_round_over = handoff.watched == 0;
        handoff.watch_at = Some(if is_round_over { now + INTERVAL } else { now });
        for (_, id) in some.into_iter().flatten() {
            if self.has_moved(id) {
                self.recall(now, id);
            }
        }
        true
    }

    fn has_moved(&self, id: SocketId) -> bool {
        let Some(socket) = self.transport.sockets.get(id) else {
            return false;
        };
        let offloaded = socket
            .owner
            .handoff()
            .filter(|offloaded| offloaded.is_away());
        let link = &self.transport.link;
        let known = link.mac_towards(socket.flow.dst.0, socket.route.next_hop);
        offloaded.is_some_and(|offloaded| known.is_some_and(|mac| mac != offloaded.hop))
    }
}
