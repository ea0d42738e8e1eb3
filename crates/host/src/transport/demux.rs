//! Which socket a flow belongs to.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::net::IpAddr;

use wire::FlowKey;

use crate::keyed::Keyed;

/// A flow in as few words as its family needs, hashed in one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    V4([u64; 2]),
    V6([u64; 5]),
}

impl Hash for Key {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::V4(words) => words.iter().for_each(|&word| state.write_u64(word)),
            Self::V6(words) => words.iter().for_each(|&word| state.write_u64(word)),
        }
    }
}

impl Key {
    fn of(flow: &FlowKey) -> Self {
        let ports = u64::from(flow.src.1) << 16 | u64::from(flow.dst.1);
        match (flow.src.0, flow.dst.0) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Self::V4([
                u64::from(u32::from(src)) << 32 | u64::from(u32::from(dst)),
                ports,
            ]),
            (src, dst) => {
                let (src, dst) = (bits(src), bits(dst));
                Self::V6([
                    (src >> 64) as u64,
                    src as u64,
                    (dst >> 64) as u64,
                    dst as u64,
                    ports,
                ])
            }
        }
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_ipv6_mapped()),
        IpAddr::V6(v6) => u128::from(v6),
    }
}

/// Flows of the stack's sockets, local end first, to their places in the table. The flow looked up last is
/// remembered: packets come in runs.
#[derive(Debug)]
pub(crate) struct Demux {
    flows: HashMap<Key, u32, Keyed>,
    last: Option<(Key, u32)>,
}

impl Demux {
    pub fn new(secret: &[u8; 16]) -> Self {
        Self {
            flows: HashMap::with_hasher(Keyed::new(secret, 0x6465_6d78)),
            last: None,
        }
    }

    #[inline]
    pub fn find(&mut self, flow: &FlowKey) -> Option<u32> {
        let key = Key::of(flow);
        if let Some((last, index)) = self.last
            && last == key
        {
            return Some(index);
        }
        let index = *self.flows.get(&key)?;
        self.last = Some((key, index));
        Some(index)
    }

    pub fn contains(&self, flow: &FlowKey) -> bool {
        self.flows.contains_key(&Key::of(flow))
    }

    pub fn insert(&mut self, flow: &FlowKey, index: u32) {
        self.flows.insert(Key::of(flow), index);
        self.last = None;
    }

    pub fn remove(&mut self, flow: &FlowKey) {
        self.flows.remove(&Key::of(flow));
        self.last = None;
    }
}
