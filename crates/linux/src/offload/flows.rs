//! The fenced connections of a function, and what each is found by.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::Instant;

use attachment::{FileIdentity, SlotRef};
use wire::FlowKey;

use super::flow::Flow;

/// Connections by their indices, which are used again.
#[derive(Debug, Default)]
pub(super) struct FencedFlows {
    entries: Vec<Option<Box<Flow>>>,
    vacant: Vec<u32>,
    by_key: HashMap<FlowKey, u32>,
    by_slot: HashMap<(FileIdentity, u32), u32>,
    /// Those from before a restart that no slot is known of yet, by their sockets' cookies.
    unnamed: HashMap<u64, u32>,
    /// How many connections there are between two addresses.
    addresses: HashMap<(IpAddr, IpAddr), u32>,
    /// When to look at which connection.
    checks: BTreeSet<(Instant, u32)>,
}

impl FencedFlows {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Flow> {
        self.entries.iter().flatten().map(|flow| &**flow)
    }

    /// The connection from Linux to a peer.
    #[inline]
    pub fn index_of(&self, key: &FlowKey) -> Option<u32> {
        self.by_key.get(key).copied()
    }

    /// The connection of a slot.
    pub fn index_of_slot(&self, slot: &SlotRef) -> Option<u32> {
        self.by_slot.get(&slot.place()).copied()
    }

    /// The connection of a socket that no slot is known of yet.
    pub fn index_of_unnamed(&self, cookie: u64) -> Option<u32> {
        self.unnamed.get(&cookie).copied()
    }

    /// Whether there is a connection between these addresses.
    pub fn connects(&self, src: IpAddr, dst: IpAddr) -> bool {
        self.addresses.contains_key(&(src, dst))
    }

    /// # Panics
    /// No connection has this index.
    #[inline]
    pub fn get(&mut self, index: u32) -> &mut Flow {
        self.find(index)
            .expect("an index is of a connection that there is")
    }

    /// The connection with this index, if there is one.
    #[inline]
    pub fn find(&mut self, index: u32) -> Option<&mut Flow> {
        self.entries[index as usize].as_deref_mut()
    }

    pub fn insert(&mut self, flow: Flow) -> u32 {
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() as u32 - 1
        });
        *self.addresses.entry(addresses(&flow)).or_insert(0) += 1;
        self.by_key.insert(flow.key, index);
        match &flow.slot {
            Some(slot) => self.by_slot.insert(slot.place(), index),
            None => self.unnamed.insert(flow.cookie, index),
        };
        self.checks.insert((flow.check_at, index));
        self.entries[index as usize] = Some(Box::new(flow));
        index
    }

    pub fn remove(&mut self, index: u32) -> Option<Box<Flow>> {
        let flow = self.entries[index as usize].take()?;
        self.vacant.push(index);
        self.checks.remove(&(flow.check_at, index));
        self.by_key.remove(&flow.key);
        match &flow.slot {
            Some(slot) => drop(self.by_slot.remove(&slot.place())),
            None => self.forget_unnamed(flow.cookie),
        }
        let addresses = addresses(&flow);
        if let Some(count) = self.addresses.get_mut(&addresses) {
            *count -= 1;
            if *count == 0 {
                self.addresses.remove(&addresses);
            }
        }
        Some(flow)
    }

    /// The connection has this slot from now on. Gives the one that it had.
    pub fn set_slot(&mut self, index: u32, slot: &SlotRef) -> Option<SlotRef> {
        let flow = self.get(index);
        let (former, cookie) = (flow.slot.replace(slot.clone()), flow.cookie);
        match &former {
            Some(former) => drop(self.by_slot.remove(&former.place())),
            None => self.forget_unnamed(cookie),
        }
        self.by_slot.insert(slot.place(), index);
        former
    }

    fn forget_unnamed(&mut self, cookie: u64) {
        self.unnamed.remove(&cookie);
        if self.unnamed.is_empty() {
            self.unnamed = HashMap::new();
        }
    }

    /// Has it looked at a connection at this time, instead of when it was to be.
    pub fn check_at(&mut self, index: u32, at: Instant) {
        let before = std::mem::replace(&mut self.get(index).check_at, at);
        self.checks.remove(&(before, index));
        self.checks.insert((at, index));
    }

    /// The connection that is to be looked at first, and when.
    pub fn first_check(&self) -> Option<(Instant, u32)> {
        self.checks.first().copied()
    }
}

fn addresses(flow: &Flow) -> (IpAddr, IpAddr) {
    (flow.key.src.0, flow.key.dst.0)
}
