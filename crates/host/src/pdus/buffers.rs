//! Buffers that the NIC may write received data into.

use std::cell::Cell;
use std::ops::Range;

use l5p::HostEvent;
use nic::ring::{ContextId, MAX_RR_SLICES, Slice};

use super::PduStream;
use crate::SocketId;
use crate::device::Device;
use crate::driver::{Driver, PlacedPart, Ticket};

/// A buffer that is being unmapped; it is asked about with [`Stack::poll_unmap`](crate::Stack::poll_unmap).
#[derive(Debug)]
#[must_use = "the NIC may write into the buffer until it is unmapped"]
pub struct Unmapping {
    socket: SocketId,
    tag: u16,
    until: Cell<Ticket>,
}

impl Unmapping {
    /// The socket that the buffer was mapped for.
    pub(crate) fn socket(&self) -> SocketId {
        self.socket
    }

    /// Whether the NIC has come so far.
    pub(crate) fn is_settled(&self, driver: &mut Driver) -> bool {
        let mut until = self.until.get();
        let is_settled = driver.is_settled(&mut until);
        self.until.set(until);
        is_settled
    }
}

/// How far the unmapping of a buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmapped {
    /// The NIC may still write into the buffer: ask again after the next [`Stack::poll`](crate::Stack::poll).
    Pending,
    /// The NIC writes no more, and has written nothing but what the stream brought.
    Clean,
    /// The NIC writes no more. It may have written what TCP or TLS did not accept afterwards, as someone on the path may
    /// contrive: the buffer must not be used.
    Tainted,
}

/// What is mapped, by tag.
#[derive(Debug, Default)]
pub(crate) struct Tags(Vec<Tag>);

#[derive(Debug, Default)]
struct Tag {
    /// The context that it is mapped for.
    context: Option<ContextId>,
    slices: Vec<Slice>,
    /// Bytes that the NIC has written into the buffer and TCP has taken, modulo 2^32.
    placed: u32,
    /// Of these, bytes that the stream has brought to the same place since.
    taken: u32,
    is_leaving: bool,
}

impl Tags {
    /// The NIC has written into a buffer.
    fn placed(&mut self, context: ContextId, tag: u16, len: u32) {
        if let Some(tag) = self.of(tag)
            && tag.context == Some(context)
        {
            tag.placed = tag.placed.wrapping_add(len);
        }
    }

    /// The stream has brought bytes to where the NIC had written them.
    #[inline]
    pub fn taken(&mut self, tag: u16, len: u32) {
        if let Some(tag) = self.of(tag) {
            tag.taken = tag.taken.wrapping_add(len);
        }
    }

    #[inline]
    fn of(&mut self, tag: u16) -> Option<&mut Tag> {
        self.0.get_mut(usize::from(tag))
    }

    /// The tag if nothing is mapped to it.
    fn free(&mut self, tag: u16) -> Option<&mut Tag> {
        let index = usize::from(tag);
        if self.0.len() <= index {
            self.0.resize_with(index + 1, Tag::default);
        }
        self.0.get_mut(index).filter(|tag| tag.context.is_none())
    }

    /// Lets go of all memory; the NIC writes to it no longer than to contexts that are to be destroyed by now.
    pub fn dismantle(&mut self, driver: &mut Driver) {
        for tag in &mut self.0 {
            if tag.context.take().is_some() {
                driver.unhold_later(&tag.slices);
            }
        }
    }
}

impl PduStream {
    /// Maps a buffer to a tag, for `context`, which places data for this stream. False when it can't be.
    pub fn map(
        &mut self,
        context: ContextId,
        tag: u16,
        slices: &[Slice],
        device: &mut Device,
    ) -> bool {
        let Device {
            driver, counters, ..
        } = device;
        let fits = tag < self.receiving.tag_limit
            && (1..=MAX_RR_SLICES).contains(&slices.len())
            && slices
                .iter()
                .all(|slice| driver.regions.check(*slice).is_ok());
        let Some(entry) = self.receiving.tags.free(tag).filter(|_| fits) else {
            return false;
        };
        if !driver.l5o_add_rr_state(context, tag, slices, counters) {
            return false;
        }
        entry.context = Some(context);
        entry.slices.clear();
        entry.slices.extend_from_slice(slices);
        (entry.placed, entry.taken, entry.is_leaving) = (0, 0, false);
        self.count(HostEvent::BuffersMapped, counters);
        true
    }

    /// Takes the buffer of a tag away from the NIC. `placing` is the context that places data for this stream now. `None` when the tag is
    /// not mapped.
    pub fn unmap(
        &mut self,
        socket: SocketId,
        tag: u16,
        placing: Option<ContextId>,
        device: &mut Device,
    ) -> Option<Unmapping> {
        let entry = self.receiving.tags.of(tag);
        let entry = entry.filter(|entry| !entry.is_leaving)?;
        let context = entry.context?;
        entry.is_leaving = true;
        let Device {
            driver, counters, ..
        } = device;
        let until = match placing == Some(context) {
            true => driver.l5o_del_rr_state(context, tag, counters),
            // The context is being destroyed, which unmaps all.
            false => driver.ticket(),
        };
        Some(Unmapping {
            socket,
            tag,
            until: Cell::new(until),
        })
    }

    /// The NIC is done with a buffer: says whether it may be used.
    pub fn unmapped(&mut self, unmapping: &Unmapping, device: &mut Device) -> Unmapped {
        let Some(entry) = self.receiving.tags.of(unmapping.tag) else {
            return Unmapped::Tainted;
        };
        entry.context = None;
        let has_strays = self.receiving.strays.take(&entry.slices);
        for slice in entry.slices.drain(..) {
            device.driver.regions.unhold(slice);
        }
        if entry.placed == entry.taken && !has_strays {
            return Unmapped::Clean;
        }
        self.count(HostEvent::BuffersTainted, &mut device.counters);
        Unmapped::Tainted
    }

    /// Notes what the NIC has written for a packet of this connection, of whose payload TCP has `taken` these bytes.
    pub fn note_placed(&mut self, context: ContextId, parts: &[PlacedPart], taken: Range<u32>) {
        for PlacedPart { at, slice, tag } in parts {
            let end = at + slice.len;
            let start = taken.start.clamp(*at, end);
            let stop = taken.end.clamp(*at, end);
            let len = stop.saturating_sub(start);
            self.receiving.tags.placed(context, *tag, len);
            if len == slice.len {
                continue;
            }
            let stop = stop.max(start);
            for (before, after) in [(*at, start), (stop, end)] {
                if before < after {
                    self.receiving.strays.add(Slice {
                        offset: slice.offset + u64::from(before - at),
                        len: after - before,
                        ..*slice
                    });
                }
            }
        }
    }
}
