//! When all that the NIC had done at some time has been looked at.

use nic::ring::HostQueue;

/// A place in the order of what is posted.
#[derive(Clone, Copy, Debug)]
pub enum Ticket {
    /// Behind so many commands, the last of which waits for room in the ring.
    Waiting(u64),
    /// Where the send ring is at this position.
    Posted(u64),
}

/// How far the NIC's work is settled: it is done, and all that it had put on the receive rings by then was taken off.
#[derive(Debug, Default)]
pub(crate) struct Settling {
    /// Up to this position of the send ring it is.
    pub settled: u64,
    /// Up to here a caller waits for it.
    pub wanted: u64,
    /// Up to here a caller wants to know it, and has time.
    pub cared: u64,
    /// The send ring's completions at the time that is awaited, and what then was on each receive ring.
    completed: u64,
    awaited: Vec<u64>,
}

impl Settling {
    /// Whether it is to be found out how far it is.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.settled < self.wanted.max(self.cared)
    }

    /// Finds out how far the NIC's work is settled, after packets were taken in. False as long as that is no further.
    pub fn settle(&mut self, queues: &mut [HostQueue]) -> bool {
        let mut awaited = self.awaited.iter().zip(queues.iter());
        if !awaited.all(|(posted, queue)| *posted <= queue.recv.taken()) {
            return false;
        }
        if self.awaited.len() == queues.len() {
            self.settled = self.completed;
        }
        // First what is done, then what that has put on the rings.
        self.completed = queues[0].send.completed();
        self.awaited.clear();
        self.awaited
            .extend(queues.iter_mut().map(|queue| queue.recv.posted()));
        true
    }
}
