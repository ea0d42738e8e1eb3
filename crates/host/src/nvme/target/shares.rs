//! Who has how much of the memory of commands, and who is next.

use std::collections::VecDeque;

use l5p::nvme::target::{CommandRef, FilledBy, Host};

use super::pool::{Freed, Pool, Run};

/// What each host has, and waits for.
///
/// A host may have as much as is free beside it, as ports of a switch share its buffer (Choudhury and Hahne 1998): one host
/// half of the memory, each of two a third. So some is always free for another one, however much those before hold and
/// whether or not they ever give it back. A run counts until TCP and the NIC need it no more.
#[derive(Debug, Default)]
pub(super) struct Shares {
    shares: Vec<Share>,
    /// Whose turn it is.
    next: usize,
}

#[derive(Debug)]
struct Share {
    host: Host,
    /// Bytes of runs.
    bytes: u64,
    /// Commands that wait, the oldest first.
    waiting: VecDeque<Waiting>,
}

/// A command that waits for memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) command: CommandRef,
    pub(super) len: u32,
    pub(super) filled_by: FilledBy,
}

/// A command that has its memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Granted {
    pub(super) waiting: Waiting,
    pub(super) run: Run,
}

impl Shares {
    /// A command of `host` waits. Gives the host's share.
    pub(super) fn wait(&mut self, host: Host, waiting: Waiting) -> u32 {
        let mut all = self.shares.iter();
        let known = all.position(|share| share.host == host);
        let index = known.or_else(|| self.shares.iter().position(Share::is_unused));
        let index = index.unwrap_or_else(|| {
            self.shares.push(Share::of(host));
            self.shares.len() - 1
        });
        let share = &mut self.shares[index];
        share.host = host;
        share.waiting.push_back(waiting);
        index as u32
    }

    /// The command waits no more.
    pub(super) fn forget(&mut self, share: u32, command: CommandRef) {
        if let Some(share) = self.shares.get_mut(share as usize) {
            share.waiting.retain(|waiting| waiting.command != command);
        }
    }

    /// Gives memory to the command that has waited longest of a host that may have more, one host after the other.
    pub(super) fn grant(&mut self, pool: &mut Pool) -> Option<Granted> {
        let hosts = self.shares.len();
        for index in (self.next..hosts).chain(0..self.next.min(hosts)) {
            let share = &mut self.shares[index];
            let Some(&waiting) = share.waiting.front() else {
                continue;
            };
            let cost = Pool::cost(waiting.len);
            let is_within = share.bytes == 0 || share.bytes + cost <= pool.free();
            if let Some(run) = is_within
                .then(|| pool.take(waiting.len, index as u32))
                .flatten()
            {
                share.waiting.pop_front();
                share.bytes += cost;
                self.next = index + 1;
                return Some(Granted { waiting, run });
            }
        }
        None
    }

    /// A run is free.
    pub(super) fn give_back(&mut self, freed: Freed) {
        self.shares[freed.share as usize].bytes -= freed.bytes;
    }

    /// Whether commands wait.
    pub(super) fn is_waited_for(&self) -> bool {
        self.shares.iter().any(|share| !share.waiting.is_empty())
    }
}

impl Share {
    fn of(host: Host) -> Share {
        Share {
            host,
            bytes: 0,
            waiting: VecDeque::new(),
        }
    }

    fn is_unused(&self) -> bool {
        self.bytes == 0 && self.waiting.is_empty()
    }
}
