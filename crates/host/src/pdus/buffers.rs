//! Buffers that the NIC may write received data into.

use std::cell::Cell;

use l5p::HostEvent;
use nic::ring::{ContextId, MAX_RR_SLICES, Slice};

use super::PduStream;
use crate::SocketId;
use crate::driver::{Driver, PlacedPart, Ticket};
use crate::socket::Socket;
use crate::stack::Stack;

/// A buffer that is being unmapped; it is asked about with [`Stack::poll_unmap`].
#[derive(Debug)]
#[must_use = "the NIC may write into the buffer until it is unmapped"]
pub struct Unmapping {
    socket: SocketId,
    tag: u16,
    until: Cell<Ticket>,
}

/// How far the unmapping of a buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmapped {
    /// The NIC may still write into the buffer: ask again after the next [`Stack::poll`].
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
    /// Notes what the NIC has written for a packet of this connection, of whose payload TCP has taken `len` bytes from `from` on.
    pub fn note_placed(
        &mut self,
        context: ContextId,
        parts: &[PlacedPart],
        (from, len): (u32, u32),
    ) {
        let to = from + len;
        for PlacedPart { at, slice, tag } in parts {
            let end = at + slice.len;
            let (start, stop) = (from.clamp(*at, end), to.clamp(*at, end));
            let taken = stop.saturating_sub(start);
            self.receiving.tags.placed(context, *tag, taken);
            if taken == slice.len {
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

/// The context that places data for a socket.
fn placing_context(socket: &Socket) -> Option<ContextId> {
    let pdus = socket.pdus.as_ref()?;
    match socket.tls.session() {
        Some(session) => session.context_inside(),
        None => pdus.receiving.context,
    }
}

impl Stack {
    /// Says where the data of PDUs goes that name `tag` (`l5o_add_rr_state`), before the command or R2T is sent that leads to them:
    /// data offset 0 is the first byte of `slices`, also where an R2T asks for a later part only.
    ///
    /// False when the NIC does not place for this connection, or has no room, or the tag is still being unmapped: software
    /// copies instead, and nothing is to be unmapped.
    pub fn map_buffer(&mut self, id: SocketId, tag: u16, slices: &[Slice]) -> bool {
        let core = &mut self.core;
        let Some(socket) = self.sockets.get_mut(id) else {
            return false;
        };
        let receive = placing_context(socket);
        let Some(pdus) = &mut socket.pdus else {
            return false;
        };
        let Some(context) = receive else {
            return false;
        };
        let regions = &core.driver.regions;
        let fits = tag < pdus.receiving.tag_limit
            && (1..=MAX_RR_SLICES).contains(&slices.len())
            && slices.iter().all(|slice| regions.check(*slice).is_ok());
        let Some(entry) = pdus.receiving.tags.free(tag).filter(|_| fits) else {
            return false;
        };
        if !core
            .driver
            .l5o_add_rr_state(context, tag, slices, &mut core.counters)
        {
            return false;
        }
        entry.context = Some(context);
        entry.slices.clear();
        entry.slices.extend_from_slice(slices);
        (entry.placed, entry.taken, entry.is_leaving) = (0, 0, false);
        pdus.count(HostEvent::BuffersMapped, &mut core.counters);
        true
    }

    /// Takes the buffer of a tag away from the NIC (`l5o_del_rr_state`). `None` when it was not mapped; else the memory is to be left
    /// alone, and the command's completion not to be reported, until [`poll_unmap`](Self::poll_unmap) says so. It must be
    /// done before the socket is [closed](Self::close).
    pub fn unmap_buffer(&mut self, id: SocketId, tag: u16) -> Option<Unmapping> {
        let core = &mut self.core;
        let socket = self.sockets.get_mut(id)?;
        let receive = placing_context(socket);
        let pdus = socket.pdus.as_mut()?;
        let entry = pdus
            .receiving
            .tags
            .of(tag)
            .filter(|entry| !entry.is_leaving)?;
        let context = entry.context?;
        entry.is_leaving = true;
        let until = if receive == Some(context) {
            core.driver
                .l5o_del_rr_state(context, tag, &mut core.counters)
        } else {
            // The context is being destroyed, which unmaps all.
            core.driver.ticket()
        };
        Some(Unmapping {
            socket: id,
            tag,
            until: Cell::new(until),
        })
    }

    /// Whether the NIC is done with a buffer. Once the answer is not [`Unmapped::Pending`], the question must not be asked
    /// again.
    pub fn poll_unmap(&mut self, unmapping: &Unmapping) -> Unmapped {
        let core = &mut self.core;
        let mut until = unmapping.until.get();
        let is_settled = core.driver.is_settled(&mut until);
        unmapping.until.set(until);
        if !is_settled {
            return Unmapped::Pending;
        }
        let pdus = self
            .sockets
            .get_mut(unmapping.socket)
            .and_then(|socket| socket.pdus.as_mut());
        // What the stream would still have brought is not known when the socket is gone.
        let Some(pdus) = pdus else {
            return Unmapped::Tainted;
        };
        let Some(entry) = pdus.receiving.tags.of(unmapping.tag) else {
            return Unmapped::Tainted;
        };
        entry.context = None;
        let has_strays = pdus.receiving.strays.take(&entry.slices);
        for slice in entry.slices.drain(..) {
            core.driver.regions.unhold(slice);
        }
        if entry.placed == entry.taken && !has_strays {
            Unmapped::Clean
        } else {
            pdus.count(HostEvent::BuffersTainted, &mut core.counters);
            Unmapped::Tainted
        }
    }
}
