//! The receive ring and the fill rings, from both sides.

use std::sync::Arc;

use super::block::Block;
use super::layout::{FILL_WORDS, RECV_WORDS};
use super::receive::RecvDescriptor;
use super::region::Slice;
use super::spsc::{Consumer, Producer, Ring};
use super::toe::ToeId;

/// The device's side of a receive ring.
#[derive(Debug)]
pub(crate) struct RecvProducer {
    ring: Producer<RECV_WORDS>,
    wakeup_due: bool,
}

impl RecvProducer {
    /// `None` unless the ring is empty.
    pub(super) fn resume(block: &Arc<Block>, at: usize, entries: u32) -> Option<Self> {
        let ring = Producer::resume(Ring::new(Arc::clone(block), at, entries))?;
        let wakeup_due = false;
        Some(RecvProducer { ring, wakeup_due })
    }

    /// Free slots; asks the host only when fewer than `wanted` are known.
    pub(crate) fn free(&mut self, wanted: u32) -> u32 {
        self.ring.free(wanted)
    }

    /// Writes a descriptor. False when the ring is full.
    #[must_use]
    pub(crate) fn push(&mut self, descriptor: RecvDescriptor) -> bool {
        if self.ring.free(1) == 0 {
            return false;
        }
        self.ring.write(&descriptor.to_words());
        true
    }

    /// Shows all written descriptors to the host.
    pub(crate) fn publish(&mut self) {
        if self.ring.publish() && self.ring.take_wakeup() {
            self.wakeup_due = true;
        }
    }

    /// Wakes the host if it sleeps, for something else than what is published here.
    pub(crate) fn wake(&mut self) {
        if self.ring.take_wakeup() {
            self.wakeup_due = true;
        }
    }

    /// Whether the host slept when something was published, since this was asked last.
    pub(crate) fn take_wakeup(&mut self) -> bool {
        std::mem::take(&mut self.wakeup_due)
    }
}

/// The host's side of a receive ring.
#[derive(Debug)]
pub struct RecvConsumer {
    ring: Consumer<RECV_WORDS>,
}

impl RecvConsumer {
    pub(super) fn new(block: &Arc<Block>, at: usize, entries: u32) -> Self {
        RecvConsumer {
            ring: Consumer::new(Ring::new(Arc::clone(block), at, entries)),
        }
    }

    /// Takes the next descriptor; its slot goes back to the device at [`publish`](Self::publish).
    pub fn pop(&mut self) -> Option<RecvDescriptor> {
        while self.ring.available() > 0 {
            let mut words = [0; RECV_WORDS];
            self.ring.read(0, &mut words);
            self.ring.advance(1);
            if let Some(descriptor) = RecvDescriptor::from_words(&words) {
                return Some(descriptor);
            }
        }
        None
    }

    /// The connection on the device that a descriptor behind the next one speaks of, if it is known to be there and is
    /// [`ToeEvent::Delivered`](super::toe::ToeEvent::Delivered): its packet lies between the two. A host prefetches that connection's memory by it.
    #[inline]
    pub fn delivered_ahead(&self) -> Option<ToeId> {
        const AHEAD: u32 = 2;
        if self.ring.known() <= AHEAD {
            return None;
        }
        let mut words = [0; 2];
        self.ring.read(AHEAD, &mut words);
        RecvDescriptor::delivered_to(&words)
    }

    /// Index of the next slot to be taken.
    pub fn taken(&self) -> u64 {
        self.ring.next()
    }

    /// Index of the next slot that the device will show: once [`taken`](Self::taken) has reached the value that this has
    /// now, all that is on the ring now has been taken.
    pub fn posted(&mut self) -> u64 {
        self.ring.next() + u64::from(self.ring.available_now())
    }

    /// Gives all slots taken back to the device.
    pub fn publish(&mut self) {
        self.ring.publish();
    }

    /// The device is gone, and all that it has shown was taken.
    pub(super) fn clear(&mut self) {
        self.ring.clear();
    }

    pub(super) fn prepare_sleep(&mut self) -> bool {
        self.ring.prepare_sleep()
    }

    pub(super) fn cancel_sleep(&mut self) {
        self.ring.cancel_sleep();
    }
}

/// The host's side of a fill ring: empty buffers for the device.
#[derive(Debug)]
pub struct FillProducer {
    ring: Producer<FILL_WORDS>,
}

impl FillProducer {
    pub(super) fn new(block: &Arc<Block>, at: usize, entries: u32) -> Self {
        FillProducer {
            ring: Producer::new(Ring::new(Arc::clone(block), at, entries)),
        }
    }

    /// Slots of the ring.
    pub fn capacity(&self) -> u32 {
        self.ring.capacity()
    }

    /// Free slots; asks the device only when fewer than `wanted` are known.
    pub fn free(&mut self, wanted: u32) -> u32 {
        self.ring.free(wanted)
    }

    /// Gives a buffer to the device. False when the ring is full.
    #[must_use]
    pub fn push(&mut self, buffer: Slice) -> bool {
        if self.ring.free(1) == 0 {
            return false;
        }
        self.ring.write(&buffer.to_words());
        true
    }

    /// Shows all buffers to the device.
    pub fn publish(&mut self) {
        self.ring.publish();
    }

    /// The device is gone: all buffers are the host's again.
    pub(super) fn clear(&mut self) {
        self.ring.clear();
    }
}

/// The device's side of a fill ring.
#[derive(Debug)]
pub(crate) struct FillConsumer {
    ring: Consumer<FILL_WORDS>,
}

impl FillConsumer {
    /// `None` unless the ring is empty.
    pub(super) fn resume(block: &Arc<Block>, at: usize, entries: u32) -> Option<Self> {
        let ring = Consumer::resume(Ring::new(Arc::clone(block), at, entries))?;
        Some(FillConsumer { ring })
    }

    /// Takes a buffer, unchecked: its region and bounds are whatever the host wrote.
    pub(crate) fn pop(&mut self) -> Option<Slice> {
        if self.ring.available() == 0 {
            return None;
        }
        let mut words = [0; FILL_WORDS];
        self.ring.read(0, &mut words);
        self.ring.advance(1);
        Some(Slice::from_words(words))
    }

    /// Gives the slots taken back to the host.
    pub(crate) fn publish(&mut self) {
        self.ring.publish();
    }
}
