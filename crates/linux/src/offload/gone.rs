//! Connections that have gone: what comes of them is content in clear of a socket that is no more, and is dropped.
//!
//! What a socket sent before it went may still be in the interface's queue: a few frames. So it is enough to know those that have gone last. A restart needs
//! to know of no socket: what is queued at an interface goes with the process that had it.
//!
//! Segments say nothing of whose they are: anybody whose packets Linux forwards can send a SYN. So payload is let through when Linux has another socket at these
//! addresses, whose handshake came through here, and whose numbers these are. After a while nothing of the old one can be in any queue, and the addresses may be
//! those that a container's connection has got by translation.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use wire::FlowKey;

use crate::sockets::{SocketAt, SocketPhase, Sockets};

/// So many are remembered: the latest.
const MOST: usize = 1 << 16;
/// No frame waits for longer in the queues of an interface.
const LONGEST_QUEUED: Duration = Duration::from_secs(60);

/// A connection's end.
#[derive(Clone, Copy, Debug)]
struct Ended {
    /// Its number among all ends.
    number: u64,
    at: Instant,
    /// That of its socket, unless the socket begins another connection itself.
    cookie: Option<u64>,
}

/// The connections that have gone last.
#[derive(Debug, Default)]
pub(super) struct Gone {
    keys: HashMap<FlowKey, Ended>,
    /// Oldest first; those that began again, or have gone again since, are passed over.
    order: VecDeque<(u64, FlowKey)>,
    ends: u64,
}

impl Gone {
    /// Nothing has gone.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// A connection has gone. Its socket has this cookie; `None` if it begins another connection itself.
    pub(super) fn insert(&mut self, at: Instant, key: FlowKey, cookie: Option<u64>) {
        self.ends += 1;
        let number = self.ends;
        let ended = Ended { number, at, cookie };
        self.keys.insert(key, ended);
        self.order.push_back((self.ends, key));
        while self.keys.len() > MOST || self.order.len() > 2 * MOST {
            let Some((end, key)) = self.order.pop_front() else {
                break;
            };
            if self.keys.get(&key).is_some_and(|gone| gone.number == end) {
                self.keys.remove(&key);
            }
        }
    }

    /// Another one has begun.
    pub(super) fn forget(&mut self, key: &FlowKey) {
        self.keys.remove(key);
    }

    /// Whether this one has gone lately, and no other has begun.
    pub(super) fn has(&mut self, now: Instant, key: &FlowKey) -> bool {
        let Some(gone) = self.keys.get(key) else {
            return false;
        };
        let is_recent = now.saturating_duration_since(gone.at) < LONGEST_QUEUED;
        if !is_recent {
            self.forget(key);
        }
        is_recent
    }

    /// Whether Linux has another socket in its place, which is connected; then this one is forgotten.
    pub(super) fn is_another(&mut self, key: &FlowKey, sockets: &mut dyn Sockets) -> bool {
        let cookie = self.keys.get(key).and_then(|gone| gone.cookie);
        let is_another = |socket: SocketAt| {
            socket.phase == SocketPhase::Synchronized && Some(socket.cookie) != cookie
        };
        let found = matches!(sockets.look_up(key), Ok(Some(socket)) if is_another(socket));
        if found {
            self.forget(key);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn key(port: u32) -> FlowKey {
        let address = |low: u32| Ipv4Addr::from_bits(0x0a00_0000 + low).into();
        FlowKey {
            src: (address(port >> 16), port as u16),
            dst: (address(1 << 20), 443),
        }
    }

    #[test]
    fn the_latest_are_remembered_also_one_that_went_before() {
        let (mut gone, now) = (Gone::default(), Instant::now());
        gone.insert(now, key(0), Some(0));
        gone.forget(&key(0));
        assert!(!gone.keys.contains_key(&key(0)));
        for port in 1..MOST as u32 {
            gone.insert(now, key(port), None);
        }
        gone.insert(now, key(0), Some(0));
        gone.insert(now, key(MOST as u32), None);
        assert!(gone.keys.contains_key(&key(0)), "it went just now");
        assert!(!gone.keys.contains_key(&key(1)), "as many went after it");
        for _ in 0..4 * MOST {
            gone.insert(now, key(0), Some(0));
            gone.forget(&key(0));
        }
        assert!(gone.order.len() <= 2 * MOST);
    }
}
