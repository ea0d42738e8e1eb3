//! A wire with several queues, one for each of the workers that share it.
//!
//! Each worker's port receives from its own queue, and what other workers pass on to it ([`exchange`](crate::exchange)); it sends
//! through its own queue.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use wire::packet::{Steer, Steering};

use crate::exchange::{Exchange, ExchangeConfig};
use crate::meta::Capabilities;
use crate::{Fill, Port, Share, Source, Take};

/// Bytes of the rings from a worker to all others: up to three cores, a whole batch of super-frames fits that is one other worker's and
/// comes by the wrong queue. Pages cost nothing until a frame has been there.
const ALL_BYTES: usize = 8 << 20;
/// Bytes of one of them at least: 16 super-frames.
const RING_BYTES: usize = 1 << 20;

/// One worker's port.
#[derive(Debug)]
pub struct Member<P, S = Steering> {
    pub(crate) queue: P,
    pub(crate) exchange: Exchange<S>,
    /// Readable when the queue is, or a frame was passed on; nothing if the queue has to be polled.
    either: Option<OwnedFd>,
}

/// Makes the queues of a wire the ports of as many workers, over which flows are spread.
///
/// # Errors
/// The process can have no more descriptors.
///
/// # Panics
/// If there are more or fewer queues than workers.
pub fn fan<P: Port>(steering: Steering, queues: Vec<P>) -> io::Result<Vec<Member<P>>> {
    let largest = queues.iter().map(|it| it.capabilities().max_frame).max();
    members(steering, queues, largest.unwrap_or(0))
}

/// As [`fan`], with anything that decides which worker a frame belongs to, and the most bytes of one.
pub(crate) fn members<P: Port, S: Steer>(
    steering: S,
    queues: Vec<P>,
    max_frame: usize,
) -> io::Result<Vec<Member<P, S>>> {
    assert_eq!(queues.len(), steering.workers(), "a queue for each worker");
    let config = ExchangeConfig {
        max_frame,
        capacity: RING_BYTES.max(ALL_BYTES / steering.workers().saturating_sub(1).max(1)),
        eventfd: true,
    };
    let exchanges = Exchange::between(steering, config)?;
    let members = queues.into_iter().zip(exchanges).map(|(queue, exchange)| {
        Ok(Member {
            either: either(&queue, &exchange)?,
            queue,
            exchange,
        })
    });
    members.collect()
}

/// What becomes readable when one of both is.
fn either<S: Steer>(queue: &impl Port, exchange: &Exchange<S>) -> io::Result<Option<OwnedFd>> {
    let (Some(queue), Some(exchange)) = (queue.fd(), exchange.fd()) else {
        return Ok(None);
    };
    let either = epoll::create(CreateFlags::CLOEXEC)?;
    for fd in [queue, exchange] {
        epoll::add(&either, fd, EventData::new_u64(0), EventFlags::IN)?;
    }
    Ok(Some(either))
}

impl<P: Port, S: Steer> Port for Member<P, S> {
    fn capabilities(&self) -> Capabilities {
        self.queue.capabilities()
    }

    fn transmit(&mut self, now: Instant, fill: &mut Fill<'_>) -> io::Result<usize> {
        self.queue.transmit(now, fill)
    }

    fn transmit_parts(&mut self, now: Instant, source: &mut dyn Source) -> io::Result<usize> {
        self.queue.transmit_parts(now, source)
    }

    fn receive(&mut self, now: Instant, take: &mut Take<'_>) -> io::Result<usize> {
        let Member {
            queue, exchange, ..
        } = self;
        // A flow that has come by another queue before: what is left of that comes first.
        let passed = exchange.receive(take);
        let mut received = 0;
        // As many as were passed on, if there are: others can't keep this worker from its queue.
        let ended = loop {
            let count = queue.receive(now, &mut |frame, meta| exchange.sort(frame, meta, take));
            received += *count.as_ref().unwrap_or(&0);
            match count {
                Ok(1..) if received < passed => {}
                ended => break ended,
            }
        };
        exchange.publish();
        ended.map(|_| passed + received)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.queue.poll_timeout()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.either.as_ref().map(AsFd::as_fd)
    }

    fn prepare_sleep(&mut self) -> bool {
        self.exchange.prepare_sleep() && self.queue.prepare_sleep()
    }

    fn cancel_sleep(&mut self) {
        self.exchange.cancel_sleep();
        self.queue.cancel_sleep();
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        self.queue.counters(visit);
        self.exchange.counters(visit);
    }

    fn queue(&self) -> Option<BorrowedFd<'_>> {
        self.queue.queue()
    }

    fn share(&mut self, share: Share) -> io::Result<()> {
        self.queue.share(share)?;
        self.either = either(&self.queue, &self.exchange)?;
        Ok(())
    }
}
