//! Wires: what carries Ethernet frames between a NIC and the rest of the world.
//!
//! A [`Port`] is a [link in memory](memory::link), a [TAP device](tap::Tap), or any network interface by a
//! [packet socket](packet::Packet) or by [AF_XDP](xdp::Xdp); [`Impair`](impair::Impair) and [`Capture`](capture::Capture) wrap any of them and are
//! ports themselves.
//!
//! The contract: [`Port::transmit`] and [`Port::receive`] move a batch of frames and never block; the frames are
//! written and read in place, where the port can. A loop that finds nothing to do asks
//! [`Port::prepare_sleep`], sleeps on [`Port::fd`] until [`Port::poll_timeout`] at most, and calls
//! [`Port::cancel_sleep`] when it is awake again. `now` is a parameter: the wrappers work in virtual time too.

#![warn(missing_docs)]

pub mod bridge;
pub mod capture;
mod counters;
pub mod exchange;
pub mod fan;
pub mod impair;
mod interface;
pub mod memory;
mod meta;
mod offload;
pub mod packet;
mod parts;
mod share;
pub mod tap;
mod vnet;
pub mod xdp;

pub use counters::explanations;
pub use interface::{LinkState, link_state};
pub use meta::{Capabilities, Meta};
pub use parts::{Parts, Source};
pub use share::{Foreign, Passing, Ports, Share};

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Instant;

/// Writes the next frame into the buffer and says how long it is; `None` when no frame is left.
pub type Fill<'a> = dyn FnMut(&mut [u8]) -> Option<(usize, Meta)> + 'a;

/// Takes a received frame. The bytes are valid during the call only.
pub type Take<'a> = dyn FnMut(&[u8], Meta) + 'a;

/// A wire, seen from one of its ends.
pub trait Port {
    /// What it can carry. It does not change while the port is in use.
    fn capabilities(&self) -> Capabilities;

    /// Sends frames: calls `fill` with a buffer of [`Capabilities::max_frame`] bytes for each, until it gives
    /// `None` or the port has no room. Gives the number of frames.
    ///
    /// A frame that `fill` has given is the port's: a wire may lose it, as wires do.
    ///
    /// # Errors
    /// The device is gone or broken. That it is down is no error: the frames are lost.
    ///
    /// # Panics
    /// If `fill` gives a length beyond its buffer.
    fn transmit(&mut self, now: Instant, fill: &mut Fill<'_>) -> io::Result<usize>;

    /// As [`transmit`](Self::transmit), with frames that need not lie in one piece. A port of a network interface hands them over as they
    /// lie; others put them together in their buffers.
    ///
    /// # Errors
    /// As there.
    fn transmit_parts(&mut self, now: Instant, source: &mut dyn Source) -> io::Result<usize> {
        self.transmit(now, &mut |frame| {
            let parts = source.next(frame)?;
            Some((parts.gather(frame), parts.meta))
        })
    }

    /// Receives frames: calls `take` for each that is there, up to a batch's worth. Gives their number; 0 says
    /// that there are no more.
    ///
    /// # Errors
    /// The device is gone or broken.
    fn receive(&mut self, now: Instant, take: &mut Take<'_>) -> io::Result<usize>;

    /// When to call both again although nothing has come: the port holds frames until then.
    fn poll_timeout(&self) -> Option<Instant>;

    /// What becomes readable when there are frames to receive, or room to send after there was none.
    /// `None` if there is no such thing; then the port has to be polled.
    fn fd(&self) -> Option<BorrowedFd<'_>>;

    /// Says that the caller is about to sleep on [`fd`](Self::fd). `false`: something has come
    /// meanwhile; don't.
    fn prepare_sleep(&mut self) -> bool {
        true
    }

    /// Says that the caller is awake again.
    fn cancel_sleep(&mut self) {}

    /// Gives each counter by its name.
    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        let _ = visit;
    }

    /// The open queue of the device, for another process to share it with this one; `None` if there is no such thing.
    fn queue(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Says which frames to receive from now on, of a queue that another process has too. [`fd`](Self::fd) may be another one afterwards.
    ///
    /// # Errors
    /// `Unsupported` of a port without a [`queue`](Self::queue); what the system gives.
    fn share(&mut self, share: Share) -> io::Result<()> {
        let _ = share;
        Err(share::unshared())
    }
}

impl<P: Port + ?Sized> Port for Box<P> {
    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    fn transmit(&mut self, now: Instant, fill: &mut Fill<'_>) -> io::Result<usize> {
        (**self).transmit(now, fill)
    }

    fn transmit_parts(&mut self, now: Instant, source: &mut dyn Source) -> io::Result<usize> {
        (**self).transmit_parts(now, source)
    }

    fn receive(&mut self, now: Instant, take: &mut Take<'_>) -> io::Result<usize> {
        (**self).receive(now, take)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        (**self).poll_timeout()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        (**self).fd()
    }

    fn prepare_sleep(&mut self) -> bool {
        (**self).prepare_sleep()
    }

    fn cancel_sleep(&mut self) {
        (**self).cancel_sleep();
    }

    fn counters(&self, visit: &mut dyn FnMut(&'static str, u64)) {
        (**self).counters(visit);
    }

    fn queue(&self) -> Option<BorrowedFd<'_>> {
        (**self).queue()
    }

    fn share(&mut self, share: Share) -> io::Result<()> {
        (**self).share(share)
    }
}
