//! How many connections a user may have.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Connections at a time, and how many of them are for those who may ask for counters.
const MOST: usize = 1024;
const RESERVE: usize = 16;
/// Of one user who is not trusted.
pub const MOST_OF_ONE: usize = (MOST - RESERVE) / 2;

/// The connections that there are.
#[derive(Debug, Default)]
pub struct Admission {
    by_uid: Arc<Mutex<HashMap<u32, usize>>>,
}

/// One of them, until it is dropped.
#[derive(Debug)]
pub struct Place {
    by_uid: Arc<Mutex<HashMap<u32, usize>>>,
    uid: u32,
}

impl Admission {
    /// A place for a connection of this user's: unless that leaves fewer to others than the user has. The reserve is for those who are trusted.
    pub fn admit(&self, uid: u32, is_trusted: bool) -> Option<Place> {
        let mut by_uid = lock(&self.by_uid);
        let taken: usize = by_uid.values().sum();
        let own = by_uid.get(&uid).copied().unwrap_or(0);
        let may = match is_trusted {
            true => taken < MOST,
            false => own < (MOST - RESERVE).saturating_sub(taken),
        };
        if !may {
            return None;
        }
        by_uid.insert(uid, own + 1);
        Some(Place {
            by_uid: Arc::clone(&self.by_uid),
            uid,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut by_uid = lock(&self.by_uid);
        if let Some(own) = by_uid.get_mut(&self.uid) {
            *own -= 1;
            if *own == 0 {
                by_uid.remove(&self.uid);
            }
        }
    }
}

fn lock(by_uid: &Mutex<HashMap<u32, usize>>) -> MutexGuard<'_, HashMap<u32, usize>> {
    by_uid.lock().unwrap_or_else(PoisonError::into_inner)
}
