//! One queue of an interface: a socket with its frames and rings.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use super::ring::Ring;
use super::socket;
use super::umem::{FRAME, FRAMES, Umem};

/// Entries of each ring.
const ENTRIES: u32 = FRAMES / 2;

/// A socket that has one queue.
#[derive(Debug)]
pub(super) struct Queue {
    received: Ring<libc::xdp_desc>,
    fill: Ring<u64>,
    sent: Ring<libc::xdp_desc>,
    completed: Ring<u64>,
    /// Frames to send with.
    free: Vec<u64>,
    umem: Umem,
    socket: OwnedFd,
}

impl Queue {
    pub(super) fn open(interface: u32, number: u32) -> io::Result<Queue> {
        let umem = Umem::new()?;
        let socket = socket::open()?;
        socket::register(&socket, umem.address(), Umem::BYTES as u64, FRAME as u32)?;
        for ring in [
            libc::XDP_UMEM_FILL_RING,
            libc::XDP_UMEM_COMPLETION_RING,
            libc::XDP_RX_RING,
            libc::XDP_TX_RING,
        ] {
            socket::set_ring(&socket, ring, ENTRIES)?;
        }
        let places = socket::ring_offsets(&socket)?;
        let mut queue = Queue {
            received: Ring::map(&socket, libc::XDP_PGOFF_RX_RING as u64, places.rx, ENTRIES)?,
            sent: Ring::map(&socket, libc::XDP_PGOFF_TX_RING as u64, places.tx, ENTRIES)?,
            fill: Ring::map(&socket, libc::XDP_UMEM_PGOFF_FILL_RING, places.fr, ENTRIES)?,
            completed: Ring::map(
                &socket,
                libc::XDP_UMEM_PGOFF_COMPLETION_RING,
                places.cr,
                ENTRIES,
            )?,
            free: (ENTRIES..FRAMES).map(address_of).collect(),
            umem,
            socket,
        };
        for frame in 0..ENTRIES {
            queue.fill.push(address_of(frame));
        }
        queue.fill.publish();
        socket::bind(&queue.socket, interface, number)?;
        Ok(queue)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Packets that the kernel had no room for.
    pub(super) fn dropped(&self) -> u64 {
        socket::statistics(&self.socket).map_or(0, |statistics| {
            statistics.rx_dropped + statistics.rx_ring_full + statistics.rx_fill_ring_empty_descs
        })
    }

    /// Whether there is a frame to write to.
    pub(super) fn has_room(&mut self) -> bool {
        if self.free.is_empty() {
            self.reclaim();
        }
        !self.free.is_empty() && self.sent.free() > 0
    }

    /// Lets `fill` write a frame to send, of `room` bytes at most. `None` when it gave none, or there is no frame to write to.
    pub(super) fn push(
        &mut self,
        room: usize,
        fill: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Option<usize> {
        if !self.has_room() {
            return None;
        }
        let addr = *self.free.last()?;
        let len = fill(self.umem.bytes(addr, room)?)?;
        self.free.pop();
        let descriptor = libc::xdp_desc {
            addr,
            len: len as u32,
            options: 0,
        };
        let pushed = self.sent.push(descriptor);
        debug_assert!(pushed, "there is room");
        Some(len)
    }

    /// Has the kernel send what was pushed.
    pub(super) fn kick(&mut self) -> io::Result<Taken> {
        self.sent.publish();
        // In copy mode a call takes a batch of the kernel's.
        for _ in 0..KICKS {
            if !self.sent.is_pending() {
                break;
            }
            if !self.sent.needs_wakeup() {
                return Ok(Taken::All);
            }
            match socket::wake_sender(&self.socket) {
                Ok(()) | Err(Errno::AGAIN) => {}
                // The interface is busy.
                Err(Errno::BUSY | Errno::NOBUFS) => break,
                Err(Errno::NETDOWN) => return Ok(Taken::Down),
                Err(error) => return Err(error.into()),
            }
        }
        self.reclaim();
        Ok(match self.sent.is_pending() {
            true => Taken::Part,
            false => Taken::All,
        })
    }

    /// Gives `take` up to `most` received frames.
    pub(super) fn pop(&mut self, most: usize, mut take: impl FnMut(&[u8])) -> usize {
        let mut count = 0;
        while count < most
            && let Some(descriptor) = self.received.pop()
        {
            if let Some(frame) = self.umem.bytes(descriptor.addr, descriptor.len as usize) {
                take(frame);
            }
            let frame = descriptor.addr - descriptor.addr % FRAME as u64;
            let pushed = self.fill.push(frame);
            debug_assert!(pushed, "the ring has a place for each of its frames");
            count += 1;
        }
        count
    }

    /// Gives the kernel the frames back that were popped.
    pub(super) fn refill(&mut self) -> io::Result<()> {
        self.received.release();
        self.fill.publish();
        if self.fill.needs_wakeup() {
            match socket::wake_receiver(&self.socket) {
                Ok(()) | Err(Errno::AGAIN | Errno::BUSY | Errno::NETDOWN) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Takes the frames back that have been sent.
    fn reclaim(&mut self) {
        while let Some(frame) = self.completed.pop() {
            self.free.push(frame);
        }
        self.completed.release();
    }
}

/// What the kernel took of what was pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    All,
    /// Not all of it now.
    Part,
    /// Nothing: the interface is down.
    Down,
}

fn address_of(frame: u32) -> u64 {
    u64::from(frame) * FRAME as u64
}

/// Calls to the kernel for one batch.
const KICKS: u32 = 8;
