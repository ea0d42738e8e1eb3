//! A thread of a shard: it serves, does what it is told, and says how it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Instant;

use anyhow::Result;
use host::runtime::Doorbell;

use super::Shard;
use crate::attach::Attached;

/// What the first core's thread wants done with a shard.
pub(super) type Errand<S> = Box<dyn FnOnce(&mut S, &mut Attached) + Send>;

/// Errands that a thread does in a turn.
const AT_ONCE: usize = 64;
/// The first core's thread is woken when there are so many sockets, to look after the heap.
const MANY: u32 = 64;

/// What a thread tells the first one. Written when that changes: no packet touches it.
#[derive(Debug, Default)]
pub(super) struct ThreadStatus {
    pub(super) has_ended: AtomicBool,
    pub(super) is_done: AtomicBool,
    pub(super) sockets: AtomicU32,
    /// Errands that it has done.
    pub(super) done: AtomicU64,
}

/// Says that its thread has ended, also by a panic.
pub(super) struct Leaves(pub(super) Doorbell, pub(super) Arc<ThreadStatus>);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.1.has_ended.store(true, Ordering::Release);
        self.0.ring();
    }
}

pub(super) struct Worker<S> {
    pub(super) shard: S,
    pub(super) inbox: Receiver<Errand<S>>,
    pub(super) told: Arc<ThreadStatus>,
    /// The first core's.
    pub(super) first: Doorbell,
}

impl<S: Shard> Worker<S> {
    pub(super) fn run(&mut self, mut attached: Attached) -> Result<()> {
        loop {
            let now = Instant::now();
            let mut progress = attached.runtime.poll(now)?;
            progress |= self.shard.poll(now, &mut attached)?;
            let (done, nothing) = self.do_errands(&mut attached);
            let is_news = self.tell(attached.runtime.stack().socket_count());
            self.told.done.fetch_add(done, Ordering::Release);
            if is_news {
                self.first.ring();
            }
            match nothing {
                Some(TryRecvError::Disconnected) => {
                    attached.runtime.shutdown(Instant::now())?;
                    return Ok(());
                }
                Some(TryRecvError::Empty) if !progress => {
                    let deadline = self.shard.poll_timeout();
                    attached.runtime.wait(now, deadline, &[])?;
                }
                Some(TryRecvError::Empty) | None => {}
            }
        }
    }

    /// Does what it was given, but no more than it may in a turn. How much that was, and why there was nothing at all, if so.
    fn do_errands(&mut self, attached: &mut Attached) -> (u64, Option<TryRecvError>) {
        for nth in 0..AT_ONCE {
            match self.inbox.try_recv() {
                Ok(errand) => errand(&mut self.shard, attached),
                Err(why) => return (nth as u64, (nth == 0).then_some(why)),
            }
        }
        (AT_ONCE as u64, None)
    }

    /// Tells the first thread how it is. Whether that is to be woken for it.
    fn tell(&self, sockets: u32) -> bool {
        let told = &*self.told;
        let before = told.sockets.load(Ordering::Relaxed);
        if before != sockets {
            told.sockets.store(sockets, Ordering::Relaxed);
        }
        let is_done = self.shard.is_done();
        let was_done = told.is_done.load(Ordering::Relaxed);
        if was_done != is_done {
            told.is_done.store(is_done, Ordering::Release);
        }
        (before < MANY && sockets >= MANY) || (is_done && !was_done)
    }
}
