//! How much of the retained memory a connection may hold: a record always, and more as long as others find as much.
//!
//! ```text
//!   all = free + held + what the NIC still reads
//!   free ≥ reserved = of each connection, what it lacks of a record
//!   a tenant's part:     what its connections hold or have reserved ≤ 3 · (free − reserved)
//!   a connection's part: what it holds ≤ what its tenant may still take
//! ```
//!
//! So one connection alone gets three fifths, one tenant alone three quarters, and of k tenants that take all they can, each gets 3 / (3k + 1)
//! (dynamic thresholds; Choudhury and Hahne, 1998, α = 3 among tenants and 1 among the connections of one). Connections do not wait for one another:
//! whatever others hold, one whose peer has acknowledged all can begin a record, and end it.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use super::MAX_RECORD;
use crate::state::UNIT;

/// Bytes that every connection may hold: those of the longest record, in whole units.
pub(crate) const RESERVE: u64 = (MAX_RECORD as u64).next_multiple_of(UNIT as u64);
/// A tenant may have so many times as much as is left for all.
const ALPHA: u64 = 3;

/// The tenants that have connections.
#[derive(Debug, Default)]
pub(crate) struct Tenants {
    /// Bytes that connections have reserved and do not hold, of all tenants.
    reserved: Arc<AtomicU64>,
    tenants: HashMap<u32, Weak<Tenant>>,
}

#[derive(Debug)]
struct Tenant {
    all_reserved: Arc<AtomicU64>,
    /// Bytes that its connections hold or have reserved.
    committed: AtomicU64,
}

/// What one connection has of the memory: its streams, of which one at a time begins records. Dropped, it holds nothing.
#[derive(Debug)]
pub(crate) struct Share {
    tenant: Arc<Tenant>,
    held: AtomicU64,
}

impl Tenants {
    /// A share for a new connection of this tenant's; `free`: bytes that are free. `None` when there is not enough for what one must always have.
    pub(crate) fn admit(&mut self, tenant: u32, free: u64) -> Option<Arc<Share>> {
        let tenant = self.tenant(tenant);
        let fits = RESERVE <= tenant.most_more(free);
        fits.then(|| Share::new(tenant))
    }

    /// A share for a connection that there was before a restart.
    pub(crate) fn readmit(&mut self, tenant: u32) -> Arc<Share> {
        Share::new(self.tenant(tenant))
    }

    /// Whether all of `bytes` that are to be taken out of those that are free are reserved by no connection.
    pub(crate) fn can_spare(&self, bytes: u64, free: u64) -> bool {
        self.reserved.load(Relaxed) + bytes <= free
    }

    fn tenant(&mut self, tenant: u32) -> Arc<Tenant> {
        if let Some(known) = self.tenants.get(&tenant).and_then(Weak::upgrade) {
            return known;
        }
        self.tenants.retain(|_, known| known.strong_count() > 0);
        let new = Arc::new(Tenant {
            all_reserved: Arc::clone(&self.reserved),
            committed: AtomicU64::new(0),
        });
        self.tenants.insert(tenant, Arc::downgrade(&new));
        new
    }
}

impl Tenant {
    /// What it may have beyond what it has.
    fn headroom(&self, free: u64) -> u64 {
        let unreserved = free.saturating_sub(self.all_reserved.load(Relaxed));
        (ALPHA * unreserved).saturating_sub(self.committed.load(Relaxed))
    }

    /// Most bytes that it may take at once: what it takes is left to the others no more.
    fn most_more(&self, free: u64) -> u64 {
        let unreserved = free.saturating_sub(self.all_reserved.load(Relaxed));
        (self.headroom(free) / (ALPHA + 1)).min(unreserved)
    }
}

impl Share {
    fn new(tenant: Arc<Tenant>) -> Arc<Share> {
        tenant.committed.fetch_add(RESERVE, Relaxed);
        tenant.all_reserved.fetch_add(RESERVE, Relaxed);
        let held = AtomicU64::new(0);
        Arc::new(Share { tenant, held })
    }

    fn held(&self) -> u64 {
        self.held.load(Relaxed)
    }

    /// Bytes that it may take now; `free`: bytes that are free.
    pub(crate) fn room(&self, free: u64) -> u64 {
        let reserved = RESERVE.saturating_sub(self.held());
        let holds_then = self.held() + reserved;
        let connection = self.tenant.headroom(free).saturating_sub(holds_then);
        reserved + connection.min(self.tenant.most_more(free))
    }

    /// Bytes have been taken.
    pub(crate) fn take(&self, bytes: u64) {
        self.hold(self.held() + bytes);
    }

    /// Bytes that were taken are free again, or will be once the NIC has read them.
    pub(crate) fn give(&self, bytes: u64) {
        self.hold(self.held() - bytes);
    }

    fn hold(&self, held: u64) {
        let (before, after) = (self.held().max(RESERVE), held.max(RESERVE));
        add(&self.tenant.committed, before, after);
        let (before, after) = (before - self.held(), after - held);
        add(&self.tenant.all_reserved, before, after);
        self.held.store(held, Relaxed);
    }
}

/// A part of a sum is `after` and no longer `before`.
fn add(sum: &AtomicU64, before: u64, after: u64) {
    if before != after {
        sum.fetch_add(after.wrapping_sub(before), Relaxed);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let committed = self.held().max(RESERVE);
        self.tenant.committed.fetch_sub(committed, Relaxed);
        let reserved = committed - self.held();
        self.tenant.all_reserved.fetch_sub(reserved, Relaxed);
    }
}
