//! Connections that have gone: nothing of theirs comes any more until a SYN begins another one.
//!
//! Should something come all the same, it is plaintext of a connection that was taken for gone, and is dropped. What a socket sent before it went may
//! still be in the interface's queue: a few frames. So it is enough to know those that have gone last. A restart needs to know of none: what is
//! queued at an interface goes with the process that had it.

use std::collections::{HashMap, VecDeque};

use wire::FlowKey;

/// So many are remembered: the latest.
const MOST: usize = 1 << 16;

/// The connections that have gone last.
#[derive(Debug, Default)]
pub(super) struct Gone {
    /// Each with the number of its end.
    keys: HashMap<FlowKey, u64>,
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

    /// A connection has gone.
    pub(super) fn insert(&mut self, key: FlowKey) {
        self.ends += 1;
        self.keys.insert(key, self.ends);
        self.order.push_back((self.ends, key));
        while self.keys.len() > MOST || self.order.len() > 2 * MOST {
            let Some((end, key)) = self.order.pop_front() else {
                break;
            };
            if self.keys.get(&key) == Some(&end) {
                self.keys.remove(&key);
            }
        }
    }

    /// Another one has begun.
    pub(super) fn forget(&mut self, key: &FlowKey) {
        self.keys.remove(key);
    }

    /// Whether this one has gone, and no other has begun.
    pub(super) fn contains(&self, key: &FlowKey) -> bool {
        self.keys.contains_key(key)
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
        let mut gone = Gone::default();
        gone.insert(key(0));
        gone.forget(&key(0));
        assert!(!gone.contains(&key(0)));
        for port in 1..MOST as u32 {
            gone.insert(key(port));
        }
        gone.insert(key(0));
        gone.insert(key(MOST as u32));
        assert!(gone.contains(&key(0)), "it went just now");
        assert!(!gone.contains(&key(1)), "as many went after it");
        for _ in 0..4 * MOST {
            gone.insert(key(0));
            gone.forget(&key(0));
        }
        assert!(gone.order.len() <= 2 * MOST);
    }
}
