//! The table of fenced connections: what must be known of each after a restart.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use attachment::Shares;
use l5p::tls::{Algorithm, Version};
use wire::{FlowKey, SeqNum};

use super::PAGE;
use super::State;
use super::mapping::Mapping;

/// Bytes of an entry.
pub(super) const ENTRY_BYTES: usize = 256;
const WORDS: usize = ENTRY_BYTES / 8;
/// Keys of one connection under which data may be unacknowledged at a time.
pub(crate) const MAX_EPOCHS: usize = 4;

const LIVE: u64 = 1 << 63;
const RECEIVES: u64 = 1 << 32;
const IS_IPV4: u64 = 1 << 33;
const PLAIN_BEFORE: u64 = 1 << 34;
const RESET: u64 = 1 << 35;

const HEAD: usize = 0;
const SRC: usize = 1;
const DST: usize = 3;
const PORTS: usize = 5;
const COOKIE: usize = 6;
/// Which of the two boundaries holds.
const WHICH: usize = 7;
const BOUNDARIES: usize = 8;
const EPOCHS: usize = 12;
const EPOCH_WORDS: usize = 3;
const TENANT: usize = EPOCHS + EPOCH_WORDS * MAX_EPOCHS;
const BASES: usize = TENANT + 1;
const _: () = assert!(BASES < WORDS);

/// The table.
#[derive(Debug)]
pub(crate) struct Table {
    mapping: Arc<Mapping>,
    free: Vec<u32>,
    /// Entries that tenants have.
    shares: Shares,
}

/// A boundary of records: everything before it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordBoundary {
    pub tcpsn: SeqNum,
    pub index: u64,
}

/// From where on what holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EpochEntry {
    pub start: SeqNum,
    /// Version and algorithm of the NIC's records; `None` when the bytes go as they are.
    pub records: Option<(Version, Algorithm)>,
    pub first_index: u64,
    /// Tells its keys from others.
    pub fingerprint: u64,
}

/// A connection for the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct New {
    pub flow: FlowKey,
    pub cookie: u64,
    pub tenant: u32,
    /// The sequence numbers that its socket counts from.
    pub bases: u64,
    /// The peer has everything before this.
    pub una: SeqNum,
    /// It is to be reset.
    pub is_reset: bool,
}

/// A connection found in the table.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub index: u32,
    pub generation: u32,
    pub flow: FlowKey,
    pub cookie: u64,
    /// The user id that its keys came from.
    pub tenant: u32,
    /// The sequence numbers that its socket counts from.
    pub bases: u64,
    /// It is to be reset.
    pub is_reset: bool,
    /// The receiving direction had keys.
    pub receives: bool,
    /// The peer may lack bytes from before the first keys, which go as they are.
    pub plain_before: bool,
    pub boundary: RecordBoundary,
    pub epochs: Vec<EpochEntry>,
}

impl Table {
    /// The table of `state`, and the connections in it.
    pub(crate) fn new(state: &State) -> (Table, Vec<Entry>) {
        let mut table = Table {
            mapping: Arc::clone(&state.mapping),
            free: Vec::new(),
            shares: Shares::new(state.layout.flows as u64),
        };
        let indices = 0..state.layout.flows as u32;
        let found: Vec<Entry> = indices
            .clone()
            .filter_map(|index| table.entry(index))
            .collect();
        for entry in &found {
            table.shares.force(entry.tenant, 1);
        }
        let mut used = found.iter().map(|entry| entry.index).peekable();
        let free = indices.filter(|index| used.next_if_eq(index).is_none());
        table.free = free.collect();
        table.free.reverse();
        (table, found)
    }

    /// Adds a connection; gives the place and the generation of its entry. `None` when there is no room, or the tenant has its share.
    pub(crate) fn add(&mut self, new: &New) -> Option<(u32, u32)> {
        let New {
            flow, tenant, una, ..
        } = *new;
        // One that is to be reset helps no tenant.
        if !new.is_reset && !self.shares.admits(tenant, 1) {
            return None;
        }
        let index = self.free.pop()?;
        self.shares.force(tenant, 1);
        let words = self.words(index);
        let generation = (words[HEAD].load(Ordering::Relaxed) as u32).wrapping_add(1);
        for word in &words[SRC..] {
            word.store(0, Ordering::Relaxed);
        }
        for (at, address) in [(SRC, flow.src.0), (DST, flow.dst.0)] {
            let bits = match address {
                IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
                IpAddr::V6(address) => address.to_bits(),
            };
            words[at].store((bits >> 64) as u64, Ordering::Relaxed);
            words[at + 1].store(bits as u64, Ordering::Relaxed);
        }
        let ports = u64::from(flow.src.1) << 16 | u64::from(flow.dst.1);
        words[PORTS].store(ports, Ordering::Relaxed);
        words[COOKIE].store(new.cookie, Ordering::Relaxed);
        words[BASES].store(new.bases, Ordering::Relaxed);
        words[BOUNDARIES].store(u64::from(una.0), Ordering::Relaxed);
        words[TENANT].store(u64::from(tenant), Ordering::Relaxed);
        let family = if flow.src.0.is_ipv4() { IS_IPV4 } else { 0 };
        let reset = if new.is_reset { RESET } else { 0 };
        let head = LIVE | family | reset | u64::from(generation);
        words[HEAD].store(head, Ordering::Release);
        Some((index, generation))
    }

    /// Takes a connection out.
    pub(crate) fn remove(&mut self, index: u32) {
        let tenant = self.words(index)[TENANT].load(Ordering::Relaxed) as u32;
        self.shares.give(tenant, 1);
        let head = &self.words(index)[HEAD];
        head.store(
            u64::from(head.load(Ordering::Relaxed) as u32),
            Ordering::Release,
        );
        self.free.push(index);
    }

    /// The connection is to be reset, also after a restart.
    pub(crate) fn set_reset(&self, index: u32) {
        self.words(index)[HEAD].fetch_or(RESET, Ordering::Release);
    }

    /// The receiving direction has keys.
    pub(crate) fn set_receives(&self, index: u32) {
        self.words(index)[HEAD].fetch_or(RECEIVES, Ordering::Release);
    }

    /// The receiving direction has come to its end.
    pub(crate) fn clear_receives(&self, index: u32) {
        self.words(index)[HEAD].fetch_and(!RECEIVES, Ordering::Release);
    }

    /// Whether the peer may lack bytes from before the first keys.
    pub(crate) fn set_plain_before(&self, index: u32, may_lack: bool) {
        let head = &self.words(index)[HEAD];
        match may_lack {
            true => head.fetch_or(PLAIN_BEFORE, Ordering::Release),
            false => head.fetch_and(!PLAIN_BEFORE, Ordering::Release),
        };
    }

    /// Everything before this boundary is acknowledged.
    pub(crate) fn set_boundary(&self, index: u32, boundary: RecordBoundary) {
        let words = self.words(index);
        let other = words[WHICH].load(Ordering::Relaxed) & 1 ^ 1;
        let at = BOUNDARIES + 2 * other as usize;
        words[at].store(u64::from(boundary.tcpsn.0), Ordering::Relaxed);
        words[at + 1].store(boundary.index, Ordering::Relaxed);
        words[WHICH].store(other, Ordering::Release);
    }

    /// What holds from where on: at most [`MAX_EPOCHS`].
    pub(crate) fn set_epochs(&self, index: u32, epochs: impl Iterator<Item = EpochEntry>) {
        let words = self.words(index);
        // Those that are there stay in their places, so that one is never missing.
        let mut kept = [None; MAX_EPOCHS];
        let mut added = [None; MAX_EPOCHS];
        for (place, epoch) in added.iter_mut().zip(epochs) {
            let there = (0..MAX_EPOCHS).find(|at| decode_epoch(words, *at) == Some(epoch));
            match there {
                Some(at) => kept[at] = Some(epoch),
                None => *place = Some(epoch),
            }
        }
        for epoch in added.into_iter().flatten() {
            // An empty one if there is, so that what takes another's place is there before that goes.
            let is_empty = |at: &usize| decode_epoch(words, *at).is_none();
            let mut vacant = (0..MAX_EPOCHS).filter(|at| kept[*at].is_none());
            let Some(at) = vacant.clone().find(is_empty).or_else(|| vacant.next()) else {
                break;
            };
            kept[at] = Some(epoch);
            let at = EPOCHS + EPOCH_WORDS * at;
            words[at].store(0, Ordering::Release);
            words[at + 1].store(epoch.first_index, Ordering::Relaxed);
            words[at + 2].store(epoch.fingerprint, Ordering::Relaxed);
            words[at].store(encode_epoch(&epoch), Ordering::Release);
        }
        for (at, epoch) in kept.iter().enumerate() {
            if epoch.is_none() {
                words[EPOCHS + EPOCH_WORDS * at].store(0, Ordering::Release);
            }
        }
    }

    /// The connection at a place, if one is there.
    pub(crate) fn entry(&self, index: u32) -> Option<Entry> {
        let words = self.words(index);
        let word = |at: usize| words[at].load(Ordering::Acquire);
        let head = word(HEAD);
        if head & LIVE == 0 {
            return None;
        }
        let address = |at: usize| {
            let bits = u128::from(word(at)) << 64 | u128::from(word(at + 1));
            let address = Ipv6Addr::from_bits(bits);
            match address.to_ipv4_mapped().filter(|_| head & IS_IPV4 != 0) {
                Some(v4) => IpAddr::V4(v4),
                None => IpAddr::V6(address),
            }
        };
        let (ports, boundary) = (word(PORTS), BOUNDARIES + 2 * (word(WHICH) & 1) as usize);
        let boundary = RecordBoundary {
            tcpsn: SeqNum(word(boundary) as u32),
            index: word(boundary + 1),
        };
        let mut epochs: Vec<EpochEntry> = (0..MAX_EPOCHS)
            .filter_map(|at| decode_epoch(words, at))
            .collect();
        // All starts lie within 2^31 of the newest data.
        epochs.sort_by(|a, b| a.start.diff(b.start).cmp(&0));
        Some(Entry {
            index,
            generation: head as u32,
            flow: FlowKey {
                src: (address(SRC), (ports >> 16) as u16),
                dst: (address(DST), ports as u16),
            },
            cookie: word(COOKIE),
            tenant: word(TENANT) as u32,
            bases: word(BASES),
            is_reset: head & RESET != 0,
            receives: head & RECEIVES != 0,
            plain_before: head & PLAIN_BEFORE != 0,
            boundary,
            epochs,
        })
    }

    fn words(&self, index: u32) -> &[AtomicU64] {
        self.mapping
            .words(PAGE + index as usize * ENTRY_BYTES, WORDS)
    }
}

fn encode_epoch(epoch: &EpochEntry) -> u64 {
    let records = match epoch.records {
        None => 0,
        Some((version, algorithm)) => {
            let version = match version {
                Version::Tls12 => 1,
                Version::Tls13 => 2,
            };
            let algorithm = match algorithm {
                Algorithm::Aes128Gcm => 1,
                Algorithm::Aes256Gcm => 2,
                Algorithm::ChaCha20Poly1305 => 3,
            };
            version << 4 | algorithm
        }
    };
    LIVE | records << 32 | u64::from(epoch.start.0)
}

fn decode_epoch(words: &[AtomicU64], at: usize) -> Option<EpochEntry> {
    let at = EPOCHS + EPOCH_WORDS * at;
    let word = words[at].load(Ordering::Acquire);
    if word & LIVE == 0 {
        return None;
    }
    let records = match (word >> 36 & 0xf, word >> 32 & 0xf) {
        (0, 0) => None,
        (version, algorithm) => Some((
            if version == 1 {
                Version::Tls12
            } else {
                Version::Tls13
            },
            match algorithm {
                1 => Algorithm::Aes128Gcm,
                2 => Algorithm::Aes256Gcm,
                _ => Algorithm::ChaCha20Poly1305,
            },
        )),
    };
    Some(EpochEntry {
        start: SeqNum(word as u32),
        records,
        first_index: words[at + 1].load(Ordering::Acquire),
        fingerprint: words[at + 2].load(Ordering::Acquire),
    })
}
