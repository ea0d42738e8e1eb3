//! When the device is done with memory: it has come to what it was told last, and all that it had told until then has been looked at.

use std::collections::VecDeque;

use nic::ring::HostQueue;

/// What waits for the device, in order.
#[derive(Debug)]
pub(super) struct Settling<T> {
    /// With the number of the command behind which it is due.
    waiting: VecDeque<(u64, T)>,
    /// With the send ring's position at which that command is done.
    posted: VecDeque<(u64, T)>,
    /// The send ring's completions at some time, and what then was on the receive ring.
    awaited: Option<(u64, u64)>,
}

impl<T> Default for Settling<T> {
    fn default() -> Settling<T> {
        Settling {
            waiting: VecDeque::new(),
            posted: VecDeque::new(),
            awaited: None,
        }
    }
}

impl<T> Settling<T> {
    /// Something is due behind the command of this number.
    pub(super) fn push(&mut self, command: u64, due: T) {
        self.waiting.push_back((command, due));
    }

    /// Whether anything waits.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.posted.is_empty()
    }

    /// All commands before this number are on the send ring.
    pub(super) fn note_posted(&mut self, commands: u64, queue: &HostQueue) {
        let position = queue.send.posted();
        while let Some((command, _)) = self.waiting.front()
            && *command <= commands
            && let Some((_, due)) = self.waiting.pop_front()
        {
            self.posted.push_back((position, due));
        }
    }

    /// Gives what the device is done with. To be called after packets were taken off the receive ring.
    pub(super) fn settle(&mut self, queue: &mut HostQueue, mut done: impl FnMut(T)) {
        if let Some((completed, told)) = self.awaited
            && queue.recv.taken() >= told
        {
            self.awaited = None;
            while let Some((position, _)) = self.posted.front()
                && *position <= completed
                && let Some((_, due)) = self.posted.pop_front()
            {
                done(due);
            }
        }
        if self.awaited.is_none()
            && let Some((position, _)) = self.posted.front()
        {
            // First what is done, then what that has put on the ring.
            let completed = queue.send.completed();
            if *position <= completed {
                self.awaited = Some((completed, queue.recv.posted()));
            }
        }
    }
}
