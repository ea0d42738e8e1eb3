//! What happens to the paths of spliced connections, which only the host hears of: ICMP, and neighbours that move or go away.

use std::time::{Duration, Instant};

use wire::icmp::Quoted;

use super::table::Phase;
use crate::stack::Stack;

/// How often each splice's next hops are looked at, and how many splices at once.
const INTERVAL: Duration = Duration::from_secs(1);
const AT_ONCE: u32 = 256;

impl Stack {
    /// A link on the path of a spliced connection takes only smaller packets: the splice is taken back. False when the flow
    /// belongs to none.
    pub(crate) fn spliced_path_shrank(&mut self, quoted: &Quoted, mss: u16) -> bool {
        let socket = self
            .core
            .demux
            .find(&quoted.flow)
            .and_then(|index| self.sockets.id_at(index))
            .and_then(|id| self.sockets.get(id));
        let Some(part) = socket.and_then(|socket| socket.splice) else {
            return false;
        };
        // What is in flight only the NIC knows; but older than the splice it can't be (RFC 5927 §4.1).
        let is_old = socket.is_some_and(|socket| quoted.seq.before(socket.tcp.snd_nxt()));
        if !part.is_given_away || is_old {
            return part.is_given_away;
        }
        if let Some(spliced) = self.splices.get_mut(part.splice) {
            spliced.path_mss[part.side] = Some(mss);
            self.call_back(part.splice);
        }
        true
    }

    /// Looks whether the next hops of some splices are still where they were. A splice whose neighbour has moved is taken
    /// back: the host finds it again, or finds that it is gone.
    pub(super) fn watch_paths(&mut self, now: Instant) -> bool {
        let Some(at) = self.splices.watch_at else {
            self.splices.watch_at = Some(now + INTERVAL);
            return false;
        };
        if at > now {
            return false;
        }
        let (some, next) = self.splices.some_from(self.splices.watched, AT_ONCE);
        let is_round_over = (next - self.splices.watched) < AT_ONCE;
        self.splices.watched = if is_round_over { 0 } else { next };
        self.splices.watch_at = Some(if is_round_over { now + INTERVAL } else { now });
        for handle in some {
            let Some(spliced) = self.splices.get(handle) else {
                continue;
            };
            if !matches!(spliced.phase, Phase::Relaying) {
                continue;
            }
            let has_moved = (0..2).any(|side| {
                let socket = self.sockets.get(spliced.sockets[side]);
                let next_hop = socket.map(|socket| socket.next_hop);
                let known = next_hop.and_then(|next_hop| self.core.neighbours.peek(next_hop));
                known.is_some_and(|mac| mac != spliced.hops[side])
            });
            if has_moved {
                self.call_back(handle);
            }
        }
        true
    }
}
