//! The wires of NICs in one process each of which has addresses of its own: what one NIC sends to another one's address, or to all, passes
//! by the [`exchange`](crate::exchange), and so does what comes from the wire for another one.
//!
//! ```text
//!  NIC 0 ──▶ bridge 0 ──▶ wire 0       by the destination: another NIC's ring, the wire, or all of them
//!              │    ▲
//!         ring ▼    │ ring             half full: the frame is lost, as on a wire
//!              │    │
//!  NIC 1 ──▶ bridge 1 ──▶ wire 1
//! ```
//!
//! A frame that a NIC hands over here is one for a wire: what must not be on a wire in clear is not in a ring either.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use wire::packet::Addresses;

use crate::exchange::Exchange;
use crate::fan::{Member, members};
use crate::meta::{Capabilities, MAX_SUPER_FRAME};
use crate::parts::{Parts, Whole};
use crate::{Fill, Port, Source, Take};

/// One NIC's wire.
#[derive(Debug)]
pub struct Bridged<P>(Member<P, Addresses>);

/// One wire for each NIC: NIC `i` has the addresses of worker `i`. A wire should have a descriptor to wait on, for its NIC is woken by that.
///
/// # Errors
/// The process can have no more descriptors.
///
/// # Panics
/// If there are more or fewer wires than NICs.
pub fn bridge<P: Port>(addresses: Addresses, wires: Vec<P>) -> io::Result<Vec<Bridged<P>>> {
    // Any wire may deliver super-frames: the system merges packets.
    let members = members(addresses, wires, MAX_SUPER_FRAME)?;
    Ok(members.into_iter().map(Bridged).collect())
}

/// Gives the wire what is for the wire.
struct Sorted<'a> {
    source: &'a mut dyn Source,
    exchange: &'a mut Exchange<Addresses>,
    /// The last frame was for another NIC alone, so that there may be more although `next` gave none.
    was_passed: bool,
}

impl Source for Sorted<'_> {
    fn next(&mut self, buffer: &mut [u8]) -> Option<Parts<'_>> {
        let mut parts = self.source.next(buffer);
        self.was_passed = match &parts {
            Some(parts) => !self.exchange.sort_sent(buffer, parts),
            None => false,
        };
        // In their place, for they are large to move, and nearly all are for the wire.
        if self.was_passed {
            parts = None;
        }
        parts
    }
}

impl<P: Port> Port for Bridged<P> {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn transmit(&mut self, now: Instant, fill: &mut Fill<'_>) -> io::Result<usize> {
        self.transmit_parts(now, &mut Whole(fill))
    }

    fn transmit_parts(&mut self, now: Instant, source: &mut dyn Source) -> io::Result<usize> {
        let Member {
            queue, exchange, ..
        } = &mut self.0;
        let (mut sent, mut passed) = (0, 0);
        let ended = loop {
            let mut sorted = Sorted {
                source,
                exchange,
                was_passed: false,
            };
            let result = queue.transmit_parts(now, &mut sorted);
            let was_passed = sorted.was_passed;
            passed += usize::from(was_passed);
            match result {
                Ok(count) => sent += count,
                Err(error) => break Err(error),
            }
            // What the rings hold is bounded, and the wire wants its turn to receive.
            if !was_passed || sent + passed >= BATCH {
                break Ok(());
            }
        };
        exchange.publish();
        ended.map(|()| sent + passed)
    }

    fn receive(&mut self, now: Instant, take: &mut Take<'_>) -> io::Result<usize> {
        self.0.receive(now, take)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.0.poll_timeout()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.0.fd()
    }

    fn prepare_sleep(&mut self) -> bool {
        self.0.prepare_sleep()
    }

    fn cancel_sleep(&mut self) {
        self.0.cancel_sleep();
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        self.0.counters(visit);
    }
}

/// After so many frames a call to `transmit` passes no more; the wire takes at most as many beside the last one as it takes in a call.
const BATCH: usize = 64;

#[cfg(test)]
mod tests;
