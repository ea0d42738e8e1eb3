//! Between workers that share a wire: each takes the frames that are its own, and passes others on.
//!
//! ```text
//!  queue 0 of the wire ──▶ exchange 0 ──▶ worker 0        own frames: no copy, nothing shared
//!                            │    ▲
//!                       ring ▼    │ ring                  one writer and one reader each; full: the frame is lost
//!                            │    │
//!  queue 1 of the wire ──▶ exchange 1 ──▶ worker 1
//! ```
//!
//! Whose a frame is says [`Steering`], not the queue by which it came. Where the wire chooses queues as the workers send, as a TAP does,
//! few frames are passed on.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use wire::packet::{Destination, Steering};

use crate::Take;
use crate::counters::counters;
use crate::memory::ring::{Consumer, Producer, ring};
use crate::memory::wake::Wake;
use crate::meta::Meta;

counters! {
    struct Counters {
        /// Frames that came by this worker's queue and were passed on to another worker.
        rx_passed_on,
        /// Frames that came by another worker's queue.
        rx_passed,
        /// Frames for another worker dropped because its ring was full.
        rx_pass_dropped,
    }
}

pub(crate) const EXPLANATIONS: &[(&str, &str)] = Counters::EXPLANATIONS;

/// How workers pass frames on to each other.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeConfig {
    /// The most bytes of a frame.
    pub max_frame: usize,
    /// Bytes of the ring from each worker to each other one; rounded up to a power of two that holds four of the largest frames.
    pub capacity: usize,
    /// Make eventfds, so that a worker can sleep.
    pub eventfd: bool,
}

/// One worker's side.
#[derive(Debug)]
pub struct Exchange {
    steering: Steering,
    worker: usize,
    /// To each other worker.
    outgoing: Vec<Outgoing>,
    /// From each other worker.
    incoming: Vec<Consumer>,
    wake: Arc<Wake>,
    counters: Counters,
}

#[derive(Debug)]
struct Outgoing {
    to: usize,
    ring: Producer,
    /// Some frames are in the ring that the other worker may not know of.
    is_filled: bool,
    wake: Arc<Wake>,
}

impl Exchange {
    /// One for each worker, in their order.
    ///
    /// # Errors
    /// Eventfds are asked for and the process can have no more.
    pub fn between(steering: Steering, config: ExchangeConfig) -> io::Result<Vec<Exchange>> {
        let made = (0..steering.workers()).map(|worker| {
            Ok(Exchange {
                steering,
                worker,
                outgoing: Vec::new(),
                incoming: Vec::new(),
                wake: Arc::new(Wake::new(config.eventfd)?),
                counters: Counters::default(),
            })
        });
        let mut made = made.collect::<io::Result<Vec<Exchange>>>()?;
        for from in 0..made.len() {
            for to in (0..made.len()).filter(|to| *to != from) {
                let (producer, consumer) = ring(config.capacity, config.max_frame);
                made[to].incoming.push(consumer);
                let wake = Arc::clone(&made[to].wake);
                made[from].outgoing.push(Outgoing {
                    to,
                    ring: producer,
                    is_filled: false,
                    wake,
                });
            }
        }
        Ok(made)
    }

    /// Takes a frame that has come from the wire: gives it to `take` if it is this worker's, else to whose it is, once
    /// [`publish`](Self::publish) is called.
    #[inline]
    pub fn sort(&mut self, frame: &[u8], meta: Meta, take: &mut Take<'_>) {
        match self.steering.destination(frame) {
            Destination::Worker(worker) if worker == self.worker => take(frame, meta),
            Destination::Any => take(frame, meta),
            Destination::Worker(worker) => self.pass_on(worker, frame, meta),
            Destination::All => {
                for at in 0..self.outgoing.len() {
                    self.pass_on(self.outgoing[at].to, frame, meta);
                }
                take(frame, meta);
            }
        }
    }

    fn pass_on(&mut self, worker: usize, frame: &[u8], meta: Meta) {
        // Its own place is left out.
        let place = worker - usize::from(worker > self.worker);
        let outgoing = &mut self.outgoing[place];
        let Some(room) = outgoing.ring.reserve() else {
            self.counters.rx_pass_dropped += 1;
            return;
        };
        let Some(room) = room.get_mut(..frame.len()) else {
            self.counters.rx_pass_dropped += 1;
            return;
        };
        room.copy_from_slice(frame);
        outgoing.is_filled = true;
        if outgoing.ring.commit(frame.len(), meta) {
            // Much for one batch: the other worker makes room while the rest is copied.
            outgoing.publish();
        }
        self.counters.rx_passed_on += 1;
    }

    /// Lets the other workers see what was passed on to them: one store for each that was given anything. Of large batches they see the
    /// beginning before.
    pub fn publish(&mut self) {
        self.outgoing.iter_mut().for_each(Outgoing::publish);
    }

    /// Gives `take` what the others have passed on, up to a batch from each. Gives their number.
    pub fn receive(&mut self, take: &mut Take<'_>) -> usize {
        let mut received = 0;
        for ring in &mut self.incoming {
            let mut taken = 0;
            while taken < BATCH
                && let Some((frame, meta)) = ring.front()
            {
                take(frame, meta);
                ring.pop();
                taken += 1;
            }
            if taken > 0 {
                // The other side does not wait for room.
                ring.release();
                received += taken;
            }
        }
        self.counters.rx_passed += received as u64;
        received
    }

    /// What becomes readable when a frame is passed on to a worker that sleeps.
    #[must_use]
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.wake.fd()
    }

    /// Says that the worker is about to sleep on [`fd`](Self::fd). `false`: something has come meanwhile; don't.
    pub fn prepare_sleep(&mut self) -> bool {
        let mut is_idle = true;
        for ring in &mut self.incoming {
            is_idle &= ring.prepare_sleep();
        }
        is_idle
    }

    /// Says that it is awake again.
    pub fn cancel_sleep(&mut self) {
        self.incoming.iter_mut().for_each(Consumer::cancel_sleep);
        self.wake.clear();
    }

    /// Gives each counter by its name.
    pub fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        self.counters.visit(visit);
    }
}

impl Outgoing {
    fn publish(&mut self) {
        if std::mem::take(&mut self.is_filled) && self.ring.publish() {
            self.wake.wake();
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.outgoing.iter_mut().for_each(|it| it.ring.close());
        self.incoming.iter_mut().for_each(Consumer::close);
    }
}

/// Frames from each other worker in one call to `receive`.
const BATCH: usize = 64;
