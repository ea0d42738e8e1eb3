//! What happens to the paths of spliced connections, which only the host hears of: ICMP, and neighbours that move or go away.

use std::time::{Duration, Instant};

use wire::SeqNum;
use wire::icmp::Quoted;

use super::ConnectionOffload;
use super::table::Phase;
use crate::link::TooBig;
use crate::socket::SplicePart;

/// How often each splice's next hops are looked at, and how many splices at once.
const INTERVAL: Duration = Duration::from_secs(1);
const AT_ONCE: u32 = 256;

impl ConnectionOffload {
    /// A link on the path of a spliced connection takes only smaller packets: the splice is taken back, and the other peer,
    /// whose packets they are, is told to send what is on its way once more in smaller ones. False when the flow belongs
    /// to no splice.
    pub fn handle_spliced_too_big(
        &mut self,
        now: Instant,
        quoted: &Quoted,
        mtu: u32,
        mss: u16,
    ) -> bool {
        let socket = self
            .transport
            .demux
            .find(&quoted.flow)
            .and_then(|index| self.transport.sockets.id_at(index))
            .and_then(|id| self.transport.sockets.get(id));
        let Some(part) = socket.and_then(|socket| socket.owner.splice()) else {
            return false;
        };
        // What is in flight only the NIC knows, which passes up no report of anything else (RFC 5927 §4.1): the socket's own numbers are as old as the
        // splice, which may have forwarded more than 2 GiB since. Packets that fit are none that a link would have dropped.
        let in_use = socket.and_then(|socket| socket.tcp.tcb(now));
        let fits = in_use.is_some_and(|tcb| tcb.mss <= mss);
        let is_given_away = socket.is_some_and(|socket| socket.owner.is_given_away());
        // Until it is settled that the NIC has the connection, that may have passed the report up unchecked, and of the host's nothing is in flight. If it was
        // true, what is sent again brings another one.
        let spliced = self.splices.get(part.splice);
        let is_checked = spliced.is_some_and(|spliced| matches!(spliced.phase, Phase::Relaying));
        if !is_given_away || fits || !is_checked {
            return is_given_away;
        }
        if let Some(spliced) = self.splices.get_mut(part.splice) {
            spliced.path_mss[part.side] = Some(mss);
            self.call_back(part.splice);
            if let Some(too_big) = self.too_big_for_other(part, quoted.seq, mtu) {
                let transport = &mut self.transport;
                transport.link.send_too_big(&too_big, &mut transport.device);
            }
        }
        true
    }

    /// What the peer of the other connection is told of its packet.
    fn too_big_for_other(&self, part: SplicePart, seq: SeqNum, mtu: u32) -> Option<TooBig> {
        let spliced = self.splices.get(part.splice)?;
        let other = 1 - part.side;
        let socket = |side: usize| self.transport.sockets.get(spliced.sockets[side]);
        let (to, from) = (socket(part.side)?, socket(other)?);
        Some(TooBig {
            flow: from.flow,
            mac: spliced.hops[other],
            // Where the one stream was when the NIC got both, the other one was too.
            seq: from.tcp.rcv_nxt() + to.tcp.snd_nxt().distance_to(seq),
            payload: u32::from(from.tcp.mss()),
            mtu,
        })
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
                let socket = self.transport.sockets.get(spliced.sockets[side]);
                let known = socket.and_then(|socket| {
                    let link = &self.transport.link;
                    link.mac_towards(socket.flow.dst.0, socket.route.next_hop)
                });
                known.is_some_and(|mac| mac != spliced.hops[side])
            });
            if has_moved {
                self.call_back(handle);
            }
        }
        true
    }
}
