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
//! A frame's bytes decide which worker it belongs to, not the queue by which it came: its flow where workers share their addresses ([`Steering`]),
//! its destination where each has its own ([`Addresses`](wire::packet::Addresses)). Where the wire chooses queues as the workers send, as
//! a TAP does, few frames are passed on.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use wire::packet::{Destination, Steer, Steering};

use crate::Take;
use crate::counters::counters;
use crate::memory::ring::{Consumer, Producer, ring};
use crate::memory::wake::Wake;
use crate::meta::Meta;
use crate::parts::Parts;

counters! {
    struct Counters {
        /// Frames that came by this worker's queue and were passed on to another worker.
        rx_passed_on,
        /// Frames that another worker passed on to this one.
        rx_passed,
        /// Frames for another worker dropped because its ring was full.
        rx_pass_dropped,
        /// Frames sent to another worker's hosts.
        tx_passed,
        /// Frames for another worker's hosts dropped because its ring was half full.
        tx_pass_dropped,
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
pub struct Exchange<S = Steering> {
    steering: S,
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
    ring: Producer,
    /// Some frames are in the ring that the other worker may not know of.
    is_filled: bool,
    wake: Arc<Wake>,
}

impl<S: Steer> Exchange<S> {
    /// One for each worker, in their order.
    ///
    /// # Errors
    /// Eventfds are asked for and the process can have no more.
    pub fn between(steering: S, config: ExchangeConfig) -> io::Result<Vec<Exchange<S>>> {
        let made = (0..steering.workers()).map(|worker| {
            Ok(Exchange {
                steering: steering.clone(),
                worker,
                outgoing: Vec::new(),
                incoming: Vec::new(),
                wake: Arc::new(Wake::new(config.eventfd)?),
                counters: Counters::default(),
            })
        });
        let mut made = made.collect::<io::Result<Vec<Exchange<S>>>>()?;
        for from in 0..made.len() {
            for to in (0..made.len()).filter(|to| *to != from) {
                let (producer, consumer) = ring(config.capacity, config.max_frame);
                made[to].incoming.push(consumer);
                let wake = Arc::clone(&made[to].wake);
                made[from].outgoing.push(Outgoing {
                    ring: producer,
                    is_filled: false,
                    wake,
                });
            }
        }
        Ok(made)
    }

    /// Takes a frame that has come from the wire: gives it to `take` if it is this worker's, else to the worker that it belongs
    /// to, once [`publish`](Self::publish) is called.
    #[inline]
    pub fn sort(&mut self, frame: &[u8], meta: Meta, take: &mut Take<'_>) {
        match self.steering.destination(frame) {
            Destination::Worker(worker) if worker == self.worker => take(frame, meta),
            Destination::Any => take(frame, meta),
            Destination::Worker(worker) => self.pass_on(place(self.worker, worker), frame, meta),
            Destination::All => {
                for at in 0..self.outgoing.len() {
                    self.pass_on(at, frame, meta);
                }
                take(frame, meta);
            }
        }
    }

    /// Takes a frame that this worker sends, whose head is the first bytes of `buffer`: passes it on if it is for another worker, as
    /// [`sort`](Self::sort) does. True if the frame also, or only, goes to the wire.
    ///
    /// Of a ring it takes half at most: what hosts send to each other does not displace what comes from the wire.
    #[inline]
    pub(crate) fn sort_sent(&mut self, buffer: &[u8], parts: &Parts<'_>) -> bool {
        match self.steering.destination(&buffer[..parts.head]) {
            Destination::Worker(worker) if worker != self.worker => {
                self.pass_sent(place(self.worker, worker), buffer, parts);
                false
            }
            Destination::Worker(_) | Destination::Any => true,
            Destination::All => {
                for at in 0..self.outgoing.len() {
                    self.pass_sent(at, buffer, parts);
                }
                true
            }
        }
    }

    fn pass_on(&mut self, at: usize, frame: &[u8], meta: Meta) {
        let is_passed =
            self.outgoing[at].put(frame.len(), meta, |room| room.copy_from_slice(frame));
        match is_passed {
            true => self.counters.rx_passed_on += 1,
            false => self.counters.rx_pass_dropped += 1,
        }
    }

    fn pass_sent(&mut self, at: usize, buffer: &[u8], parts: &Parts<'_>) {
        let outgoing = &mut self.outgoing[at];
        let is_passed = !outgoing.ring.is_half_full()
            && outgoing.put(parts.len(), parts.meta, |room| {
                room[..parts.head].copy_from_slice(&buffer[..parts.head]);
                parts.gather(room);
            });
        match is_passed {
            true => self.counters.tx_passed += 1,
            false => self.counters.tx_pass_dropped += 1,
        }
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

/// Where the ring from one worker to another is: the first one's own place is left out.
fn place(from: usize, to: usize) -> usize {
    to - usize::from(to > from)
}

impl Outgoing {
    /// Puts a frame of so many bytes into the ring. `false`: there is no room for it.
    fn put(&mut self, len: usize, meta: Meta, write: impl FnOnce(&mut [u8])) -> bool {
        let room = self.ring.reserve();
        let Some(room) = room.and_then(|room| room.get_mut(..len)) else {
            return false;
        };
        write(room);
        self.is_filled = true;
        if self.ring.commit(len, meta) {
            // Much for one batch: the other worker makes room while the rest is copied.
            self.publish();
        }
        true
    }

    fn publish(&mut self) {
        if std::mem::take(&mut self.is_filled) && self.ring.publish() {
            self.wake.wake();
        }
    }
}

impl<S> Drop for Exchange<S> {
    fn drop(&mut self) {
        self.outgoing.iter_mut().for_each(|it| it.ring.close());
        self.incoming.iter_mut().for_each(Consumer::close);
    }
}

/// Frames from each other worker in one call to `receive`.
const BATCH: usize = 64;
