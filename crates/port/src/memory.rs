//! A link between two ends in one process, on one thread or on two.
//!
//! Each direction is a ring that one end writes and the other reads, without locks; frames are written
//! and read in place. An end that sleeps is woken through an eventfd, which costs nothing while it is awake.

pub(crate) mod ring;
pub(crate) mod wake;

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

use crate::counters::counters;
use crate::meta::{Capabilities, LINK_HEADER_LEN, MAX_SUPER_FRAME};
use crate::{Fill, Port, Take};
use ring::{Consumer, Producer};
use wake::Wake;

/// How a link is made.
#[derive(Clone, Copy, Debug)]
pub struct LinkConfig {
    /// The most bytes of an IP packet; at most 65,535.
    pub mtu: u16,
    /// Carry super-frames up to 64 KiB beside packets of the MTU's size.
    pub super_frames: bool,
    /// Carry frames whose checksum is not finished.
    pub checksum: bool,
    /// Bytes of each direction's ring; rounded up to a power of two that holds four of the largest frames.
    pub capacity: usize,
    /// Make eventfds, so that an end can sleep.
    pub eventfd: bool,
}

impl LinkConfig {
    /// A link for packets of up to `mtu` bytes that carries super-frames and unfinished checksums, has no eventfds
    /// and thus makes no system call.
    #[must_use]
    pub fn for_mtu(mtu: u16) -> LinkConfig {
        LinkConfig {
            mtu,
            super_frames: true,
            checksum: true,
            capacity: 1 << 20,
            eventfd: false,
        }
    }
}

/// Makes a link and gives its two ends.
///
/// # Panics
/// If eventfds are asked for and the process can have no more; [`try_link`] gives an error instead.
#[must_use]
pub fn link(config: LinkConfig) -> (End, End) {
    try_link(config).expect("no eventfd to be had: raise the limit of open files (ulimit -n)")
}

/// Makes a link and gives its two ends.
///
/// # Errors
/// Eventfds are asked for and the process can have no more.
pub fn try_link(config: LinkConfig) -> io::Result<(End, End)> {
    let max_frame = config.max_frame();
    let (left_producer, right_consumer) = ring::ring(config.capacity, max_frame);
    let (right_producer, left_consumer) = ring::ring(config.capacity, max_frame);
    let left_wake = Arc::new(Wake::new(config.eventfd)?);
    let right_wake = Arc::new(Wake::new(config.eventfd)?);
    let capabilities = config.capabilities();
    let left = End {
        capabilities,
        outgoing: left_producer,
        incoming: left_consumer,
        wake: Arc::clone(&left_wake),
        peer_wake: Arc::clone(&right_wake),
        counters: Counters::default(),
    };
    let right = End {
        capabilities,
        outgoing: right_producer,
        incoming: right_consumer,
        wake: right_wake,
        peer_wake: left_wake,
        counters: Counters::default(),
    };
    Ok((left, right))
}

/// One end of a link.
///
/// When the other one has been dropped, sent frames are lost, as on an unplugged cable.
#[derive(Debug)]
pub struct End {
    capabilities: Capabilities,
    outgoing: Producer,
    incoming: Consumer,
    wake: Arc<Wake>,
    peer_wake: Arc<Wake>,
    counters: Counters,
}

counters! {
    struct Counters {
        /// Frames sent.
        tx_packets,
        /// Bytes of the frames sent.
        tx_bytes,
        /// Times that the link had no room to send.
        tx_full,
        /// Frames received.
        rx_packets,
        /// Bytes of the frames received.
        rx_bytes,
        /// Times that the other end had to be woken.
        wakeups,
    }
}

pub(crate) const EXPLANATIONS: &[(&str, &str)] = Counters::EXPLANATIONS;

impl End {
    /// Whether the other end still exists.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.outgoing.is_connected()
    }
}

impl Port for End {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn transmit(&mut self, _now: Instant, fill: &mut Fill<'_>) -> io::Result<usize> {
        let mut sent = 0;
        loop {
            let Some(slot) = self.outgoing.reserve() else {
                self.counters.tx_full += 1;
                break;
            };
            let Some((len, meta)) = fill(slot) else { break };
            self.outgoing.commit(len, meta);
            self.counters.tx_bytes += len as u64;
            sent += 1;
        }
        self.counters.tx_packets += sent as u64;
        if self.outgoing.publish() {
            self.counters.wakeups += 1;
            self.peer_wake.wake();
        }
        Ok(sent)
    }

    fn receive(&mut self, _now: Instant, take: &mut Take<'_>) -> io::Result<usize> {
        let mut received = 0;
        while received < BATCH {
            let Some((frame, meta)) = self.incoming.front() else {
                break;
            };
            take(frame, meta);
            self.counters.rx_bytes += frame.len() as u64;
            self.incoming.pop();
            received += 1;
        }
        self.counters.rx_packets += received as u64;
        if self.incoming.release() {
            self.counters.wakeups += 1;
            self.peer_wake.wake();
        }
        Ok(received)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.wake.fd()
    }

    fn prepare_sleep(&mut self) -> bool {
        let may_sleep = self.incoming.prepare_sleep() && self.outgoing.prepare_sleep();
        if !may_sleep {
            self.cancel_sleep();
        }
        may_sleep
    }

    fn cancel_sleep(&mut self) {
        self.incoming.cancel_sleep();
        self.outgoing.cancel_sleep();
        self.wake.clear();
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        self.counters.visit(visit);
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.outgoing.close();
        self.incoming.close();
        self.peer_wake.wake();
    }
}

impl LinkConfig {
    fn max_frame(&self) -> usize {
        if self.super_frames {
            MAX_SUPER_FRAME
        } else {
            usize::from(self.mtu) + LINK_HEADER_LEN
        }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            mtu: self.mtu,
            max_frame: self.max_frame(),
            tso: self.super_frames,
            checksum: self.checksum,
        }
    }
}

/// Frames of one call to `receive`.
const BATCH: usize = 64;
