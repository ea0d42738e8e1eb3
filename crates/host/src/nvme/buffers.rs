//! Buffers that the NIC may write received data into.

use nic::ring::{ContextId, Slice};

use crate::SocketId;
use crate::stack::Stack;

/// A buffer that is being unmapped; it is asked about with [`Stack::poll_unmap`].
#[derive(Debug)]
#[must_use = "the NIC may write into the buffer until it is unmapped"]
pub struct Unmapping {
    context: ContextId,
    tag: u16,
}

/// How far the unmapping of a buffer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmapped {
    /// The NIC may still write into the buffer: ask again after the next [`Stack::poll`].
    Pending,
    /// The NIC writes no more, and has written nothing but what the stream brought.
    Clean,
    /// The NIC writes no more. It has written what TCP or TLS did not accept afterwards, as someone on the path may
    /// contrive: the buffer must not be used.
    Tainted,
}

impl Stack {
    /// Says where the data of PDUs goes that name `tag` (`l5o_add_rr_state`), before the command or R2T is sent that leads to them.
    /// False when the NIC does not place for this connection, or has no room: software copies instead, and nothing is to be
    /// unmapped.
    pub fn map_buffer(&mut self, id: SocketId, tag: u16, slices: &[Slice]) -> bool {
        let _ = (id, tag, slices);
        false
    }

    /// Takes the buffer of a tag away from the NIC (`l5o_del_rr_state`). `None` when it was not mapped; else the memory is to be left
    /// alone, and the command's completion not to be reported, until [`poll_unmap`](Self::poll_unmap) says so.
    pub fn unmap_buffer(&mut self, id: SocketId, tag: u16) -> Option<Unmapping> {
        let _ = (id, tag);
        None
    }

    /// Whether the NIC is done with a buffer. Once the answer is not [`Unmapped::Pending`], the question must not be asked
    /// again.
    pub fn poll_unmap(&mut self, unmapping: &Unmapping) -> Unmapped {
        let _ = (unmapping.context, unmapping.tag);
        Unmapped::Clean
    }
}
