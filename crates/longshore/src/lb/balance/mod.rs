//! Which server serves the next request.

mod consistent_hash;
mod least_connections;
mod round_robin;
#[cfg(test)]
mod tests;

pub use consistent_hash::hash_of;

use super::config::Balance;

/// A server that may be chosen.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Its index in the pool.
    pub index: usize,
    /// Its share.
    pub weight: u32,
    /// Requests and connections that it serves.
    pub active: u32,
    /// What consistent hashing knows it by.
    pub identity: u64,
}

/// The state of a pool's choice.
#[derive(Clone, Debug)]
pub struct Chooser {
    balance: Balance,
    turns: round_robin::Turns,
}

impl Chooser {
    /// For a pool of that many servers.
    pub fn new(balance: Balance, servers: usize) -> Self {
        Chooser {
            balance,
            turns: round_robin::Turns::new(servers),
        }
    }

    /// Chooses one of the candidates; `None` if there are none. `key` is what consistent hashing goes by.
    pub fn choose(
        &mut self,
        candidates: impl Iterator<Item = Candidate> + Clone,
        key: u64,
    ) -> Option<usize> {
        match self.balance {
            Balance::RoundRobin => self.turns.next(candidates),
            Balance::LeastConnections => {
                let least = least_connections::least(candidates.clone())?;
                // Among equals, in turn by weight: else the first server of an idle pool gets every request.
                let equals = candidates
                    .filter(move |candidate| !least_connections::is_less(&least, candidate));
                self.turns.next(equals)
            }
            Balance::ConsistentHash => consistent_hash::highest(candidates, key),
        }
    }
}
