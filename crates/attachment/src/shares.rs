//! A limited resource that tenants share: a tenant may hold at most as much as is left.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Units of a resource, and who holds them. One tenant gets at most half of them, and each of k tenants that ask for all they can get at most
/// a (k + 1)th; so much is left for the next one (dynamic thresholds; Choudhury and Hahne, 1998, α = 1).
///
/// A tenant is a user id. That of root has no privilege.
#[derive(Clone, Debug)]
pub struct Shares {
    left: u64,
    held: HashMap<u32, u64>,
}

impl Shares {
    /// So many units, all of them left.
    pub fn new(total: u64) -> Shares {
        Shares {
            left: total,
            held: HashMap::new(),
        }
    }

    /// Units that are left.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Units that a tenant holds.
    pub fn held(&self, tenant: u32) -> u64 {
        self.held.get(&tenant).copied().unwrap_or(0)
    }

    /// Whether a tenant may hold so many more: it could take them one by one, each while it holds less than is left.
    pub fn admits(&self, tenant: u32, amount: u64) -> bool {
        let held = u128::from(self.held(tenant)) + 2 * u128::from(amount);
        amount == 0 || held <= u128::from(self.left) + 1
    }

    /// Takes them for a tenant. False, and nothing taken, when it may not.
    #[must_use]
    pub fn take(&mut self, tenant: u32, amount: u64) -> bool {
        let admitted = self.admits(tenant, amount);
        if admitted {
            self.force(tenant, amount);
        }
        admitted
    }

    /// Takes them for a tenant that had them before, from a NIC that is no more: even beyond its share. What is left is never less than nothing.
    pub fn force(&mut self, tenant: u32, amount: u64) {
        let amount = amount.min(self.left);
        if amount > 0 {
            self.left -= amount;
            *self.held.entry(tenant).or_insert(0) += amount;
        }
    }

    /// Gives units of a tenant back; more than it holds are no more than those.
    pub fn give(&mut self, tenant: u32, amount: u64) {
        let Some(held) = self.held.get_mut(&tenant) else {
            return;
        };
        let amount = amount.min(*held);
        *held -= amount;
        self.left += amount;
        if *held == 0 {
            self.held.remove(&tenant);
        }
    }
}

/// [`Shares`] of what is given back when it is dropped.
#[derive(Clone, Debug)]
pub(crate) struct Leases(Arc<Mutex<Shares>>);

/// Units that a tenant holds until this is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    from: Leases,
    tenant: u32,
    amount: u64,
}

impl Leases {
    /// So many units, all of them left.
    pub(crate) fn new(total: u64) -> Leases {
        Leases(Arc::new(Mutex::new(Shares::new(total))))
    }

    /// Takes units for a tenant; `None` when it may not.
    pub(crate) fn take(&self, tenant: u32, amount: u64) -> Option<Lease> {
        self.shares().take(tenant, amount).then(|| Lease {
            from: self.clone(),
            tenant,
            amount,
        })
    }

    fn shares(&self) -> MutexGuard<'_, Shares> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.from.shares().give(self.tenant, self.amount);
    }
}
