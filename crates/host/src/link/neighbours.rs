//! Who has which MAC address on the link: one cache for ARP (RFC 826) and neighbour discovery (RFC 4861 §7).
//!
//! ```text
//!             solicit                answer               30 s
//!   (none) ----------> Incomplete ----------> Reachable ----------> Stale
//!                          | 3 unanswered         ^                   | used
//!                          v                      | answer, or        v
//!                       (none)                    | TCP progress    Delay -- 5 s --> Probe -- 3 unanswered --> (none)
//!                                                 +-------------------+----------------+
//! ```
//!
//! The cache is bounded. Only what this host asks for, or who asks for this host, gets an entry; when it is full, one
//! that is not in use makes room, and if all are, the newcomer does not get in.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use wire::ethernet::MacAddr;

use crate::SocketId;
use crate::keyed::Keyed;

/// RFC 4861 §10.
const REACHABLE_TIME: Duration = Duration::from_secs(30);
const DELAY_FIRST_PROBE: Duration = Duration::from_secs(5);
const RETRANSMIT: Duration = Duration::from_secs(1);
const SOLICITATIONS: u8 = 3;

/// A neighbour that a socket has looked up: valid as long as its generation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hop {
    index: u32,
    generation: u32,
}

/// What is known of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resolution {
    /// Send there.
    Known(Hop, MacAddr),
    /// A question is out.
    Pending,
    /// The table has no room.
    Full,
}

/// A question to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Solicit {
    /// Whose MAC address is asked for.
    pub target: IpAddr,
    /// Where it was last; `None` asks everybody.
    pub unicast: Option<MacAddr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    Incomplete,
    Reachable,
    Stale,
    Delay,
    Probe,
}

#[derive(Debug)]
struct Entry {
    address: IpAddr,
    mac: MacAddr,
    state: State,
    /// When the state ends: reachability, delay, or the wait for an answer.
    deadline: Instant,
    asked: u8,
    generation: u32,
    used: Instant,
}

/// The cache.
#[derive(Debug)]
pub(crate) struct Neighbours {
    entries: Vec<Entry>,
    by_address: HashMap<IpAddr, u32, Keyed>,
    limit: usize,
    /// Entries with a deadline that `poll` must run: Incomplete, Delay, Probe.
    active: Vec<u32>,
    waiting: Vec<(IpAddr, SocketId)>,
    /// When those may try again whose address found no room.
    retry_at: Option<Instant>,
}

impl Neighbours {
    pub fn new(limit: usize, secret: &[u8; 16]) -> Self {
        Self {
            entries: Vec::new(),
            by_address: HashMap::with_hasher(Keyed::new(secret, 0x6e62_6f72)),
            limit: limit.max(1),
            active: Vec::new(),
            waiting: Vec::new(),
            retry_at: None,
        }
    }

    /// The MAC address behind a hop, if nothing needs to be asked. The fast path of every packet.
    #[inline]
    pub fn mac(&self, hop: Hop, now: Instant) -> Option<MacAddr> {
        let entry = self.entries.get(hop.index as usize)?;
        let known = match entry.state {
            State::Reachable => entry.deadline > now,
            State::Delay | State::Probe => true,
            _ => false,
        };
        (known && entry.generation == hop.generation).then_some(entry.mac)
    }

    /// The MAC address behind a hop that was looked up just now.
    #[inline]
    pub fn mac_now(&self, hop: Hop) -> Option<MacAddr> {
        let entry = self.entries.get(hop.index as usize)?;
        (entry.generation == hop.generation && entry.state != State::Incomplete)
            .then_some(entry.mac)
    }

    /// Looks an address up, to send to it now.
    pub fn resolve(&mut self, now: Instant, address: IpAddr) -> Resolution {
        let Some(&index) = self.by_address.get(&address) else {
            let index = match self.has_room_to_ask() {
                true => self.insert(now, address),
                false => None,
            };
            let Some(index) = index else {
                self.retry_at.get_or_insert(now + RETRANSMIT);
                return Resolution::Full;
            };
            self.start(index, State::Incomplete, now);
            return Resolution::Pending;
        };
        let entry = &mut self.entries[index as usize];
        entry.used = now;
        if entry.state == State::Incomplete {
            return Resolution::Pending;
        }
        let expired = entry.state == State::Reachable && entry.deadline <= now;
        if expired || entry.state == State::Stale {
            self.start(index, State::Delay, now + DELAY_FIRST_PROBE);
        }
        let entry = &self.entries[index as usize];
        Resolution::Known(
            Hop {
                index,
                generation: entry.generation,
            },
            entry.mac,
        )
    }

    /// The MAC address that an answer to a stranger's packet may use without asking.
    pub fn peek(&self, address: IpAddr) -> Option<MacAddr> {
        let entry = &self.entries[*self.by_address.get(&address)? as usize];
        (entry.state != State::Incomplete).then_some(entry.mac)
    }

    /// TCP got further through this hop: it is reachable (RFC 4861 §7.3.1).
    #[inline]
    pub fn confirm(&mut self, hop: Hop, now: Instant) {
        if let Some(entry) = self.entries.get_mut(hop.index as usize)
            && entry.generation == hop.generation
            && matches!(
                entry.state,
                State::Reachable | State::Delay | State::Probe | State::Stale
            )
        {
            entry.state = State::Reachable;
            entry.deadline = now + REACHABLE_TIME;
            entry.used = now;
        }
    }

    /// What was sent to `mac` has reached `address`, or what is behind it: it has answered (RFC 4861 §7.3.1). With `learn` an
    /// address that nothing is known of is remembered.
    pub fn reached(
        &mut self,
        now: Instant,
        address: IpAddr,
        mac: MacAddr,
        learn: bool,
    ) -> Option<Hop> {
        let index = match self.by_address.get(&address) {
            Some(&index) => index,
            None if learn => {
                let index = self.insert(now, address)?;
                let entry = &mut self.entries[index as usize];
                entry.mac = mac;
                entry.state = State::Stale;
                index
            }
            None => return None,
        };
        let entry = &self.entries[index as usize];
        if entry.state == State::Incomplete || entry.mac != mac {
            return None;
        }
        let hop = Hop {
            index,
            generation: entry.generation,
        };
        self.confirm(hop, now);
        Some(hop)
    }

    /// Wakes the socket, which must not be waiting already, when the address is known or given up, or when it may be
    /// asked for at last.
    pub fn wait(&mut self, address: IpAddr, id: SocketId) {
        self.waiting.push((address, id));
    }

    /// Takes the sockets that wait for an address.
    pub fn take_waiting(&mut self, address: IpAddr, mut wake: impl FnMut(SocketId)) {
        self.waiting.retain(|&(waited_for, id)| {
            let matches = waited_for == address;
            if matches {
                wake(id);
            }
            !matches
        });
    }

    /// Takes all sockets that wait.
    pub fn take_all_waiting(&mut self) -> Vec<(IpAddr, SocketId)> {
        std::mem::take(&mut self.waiting)
    }

    /// Takes the sockets whose address found no room, when they may try again.
    pub fn take_turned_away(&mut self, now: Instant, mut wake: impl FnMut(SocketId)) {
        if self.retry_at.is_none_or(|at| at > now) {
            return;
        }
        self.retry_at = None;
        let known = &self.by_address;
        self.waiting.retain(|(address, id)| {
            let asked_for = known.contains_key(address);
            if !asked_for {
                wake(*id);
            }
            asked_for
        });
    }

    /// A neighbour answered, or advertised itself. Changes an entry that exists only (RFC 4861 §7.2.5). Answers
    /// whether the address has become known by this.
    pub fn answered(
        &mut self,
        now: Instant,
        address: IpAddr,
        mac: Option<MacAddr>,
        solicited: bool,
        overrides: bool,
    ) -> bool {
        let Some(&index) = self.by_address.get(&address) else {
            return false;
        };
        let entry = &mut self.entries[index as usize];
        let was_incomplete = entry.state == State::Incomplete;
        let changed = mac.is_some_and(|mac| mac != entry.mac);
        if was_incomplete && mac.is_none() {
            return false;
        }
        if !was_incomplete && changed && !overrides {
            if entry.state == State::Reachable {
                entry.state = State::Stale;
            }
            return false;
        }
        if let Some(mac) = mac {
            entry.mac = mac;
        }
        if solicited {
            entry.state = State::Reachable;
            entry.deadline = now + REACHABLE_TIME;
        } else if was_incomplete || changed {
            entry.state = State::Stale;
        }
        was_incomplete
    }

    /// A neighbour asked for this host, and said who it is (RFC 826; RFC 4861 §7.2.3): worth remembering. Answers
    /// whether the address has become known by this.
    pub fn asked(&mut self, now: Instant, address: IpAddr, mac: MacAddr) -> bool {
        if self.by_address.contains_key(&address) {
            return self.answered(now, address, Some(mac), false, true);
        }
        if let Some(index) = self.insert(now, address) {
            let entry = &mut self.entries[index as usize];
            entry.mac = mac;
            entry.state = State::Stale;
        }
        false
    }

    /// Runs what is due: gives the questions to send and the addresses that did not answer.
    pub fn poll(
        &mut self,
        now: Instant,
        mut ask: impl FnMut(Solicit),
        mut failed: impl FnMut(IpAddr),
    ) {
        let mut at = 0;
        while let Some(&index) = self.active.get(at) {
            let entry = &mut self.entries[index as usize];
            match entry.state {
                State::Incomplete | State::Delay | State::Probe if entry.deadline > now => at += 1,
                State::Delay => {
                    entry.state = State::Probe;
                    entry.asked = 0;
                }
                State::Incomplete | State::Probe if entry.asked < SOLICITATIONS => {
                    let unicast = (entry.state == State::Probe).then_some(entry.mac);
                    entry.asked += 1;
                    entry.deadline = now + RETRANSMIT;
                    ask(Solicit {
                        target: entry.address,
                        unicast,
                    });
                    at += 1;
                }
                State::Incomplete | State::Probe => {
                    failed(entry.address);
                    self.remove(index);
                    self.active.swap_remove(at);
                }
                State::Free | State::Reachable | State::Stale => {
                    self.active.swap_remove(at);
                }
            }
        }
    }

    /// Begins again with all questions that have no answer yet: they could not be asked until now.
    pub fn ask_again(&mut self, now: Instant) {
        for &index in &self.active {
            let entry = &mut self.entries[index as usize];
            if entry.state == State::Incomplete {
                entry.asked = 0;
                entry.deadline = now;
            }
        }
    }

    /// When `poll` has something to do.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.active
            .iter()
            .map(|&index| self.entries[index as usize].deadline)
            .chain(self.retry_at)
            .min()
    }

    fn start(&mut self, index: u32, state: State, deadline: Instant) {
        let entry = &mut self.entries[index as usize];
        entry.state = state;
        entry.asked = 0;
        entry.deadline = deadline;
        if !self.active.contains(&index) {
            self.active.push(index);
        }
    }

    /// Anyone can name addresses that no host has: questions about them take half of the table at most (RFC 6583 §7.1).
    fn has_room_to_ask(&self) -> bool {
        let is_asked = |&&index: &&u32| self.entries[index as usize].state == State::Incomplete;
        let asked = self.active.iter().filter(is_asked).count();
        asked < self.limit.div_ceil(2)
    }

    fn insert(&mut self, now: Instant, address: IpAddr) -> Option<u32> {
        let index = if self.entries.len() < self.limit {
            self.entries.push(Entry {
                address,
                mac: MacAddr::ZERO,
                state: State::Free,
                deadline: now,
                asked: 0,
                generation: 0,
                used: now,
            });
            self.entries.len() as u32 - 1
        } else {
            let idle = |entry: &Entry| match entry.state {
                State::Free | State::Stale => true,
                State::Reachable => entry.deadline <= now,
                _ => false,
            };
            let (index, _) = self
                .entries
                .iter()
                .enumerate()
                .filter(|(_, entry)| idle(entry))
                .min_by_key(|(_, entry)| (entry.state != State::Free, entry.used))?;
            if self.entries[index].state != State::Free {
                self.remove(index as u32);
            }
            index as u32
        };
        let entry = &mut self.entries[index as usize];
        entry.address = address;
        entry.used = now;
        self.by_address.insert(address, index);
        Some(index)
    }

    /// What is known of an address does not hold any more.
    pub fn forget(&mut self, address: IpAddr) {
        if let Some(&index) = self.by_address.get(&address)
            && self.entries[index as usize].state != State::Incomplete
        {
            self.remove(index);
        }
    }

    fn remove(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        self.by_address.remove(&entry.address);
        entry.state = State::Free;
        entry.generation = entry.generation.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests;
