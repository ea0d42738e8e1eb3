//! The memory of commands: who may still touch it.

use l5p::nvme::initiator::CommandId;
use nic::ring::Slice;

use crate::SocketId;
use crate::pdus::{Unmapped, Unmapping};
use crate::stack::Stack;

/// The memory of one command.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) slices: Vec<Slice>,
    /// Bytes of the command's data.
    pub(super) len: u32,
    pub(super) is_read: bool,
    /// Where the NIC may place data, and under which tag.
    mapped: Option<(SocketId, u16)>,
    unmapping: Option<Unmapping>,
    /// The NIC wrote what it should not have.
    tainted: bool,
    /// It is not to be mapped: once it was, and ended tainted.
    pub(super) is_copied: bool,
    /// Places in a stream behind which this memory is still to be acknowledged, and PDUs that wait for room in it.
    pub(super) unacknowledged: u32,
}

/// The memory of all commands.
#[derive(Debug, Default)]
pub(super) struct Memories {
    /// By [`CommandId::index`].
    table: Vec<Memory>,
    /// Commands that are through and wait for their memory.
    settling: Vec<CommandId>,
}

impl Memories {
    pub(super) fn insert(&mut self, id: CommandId, slices: &[Slice], len: u32, is_read: bool) {
        if self.table.len() <= id.index() {
            self.table.resize_with(id.index() + 1, Memory::default);
        }
        let memory = &mut self.table[id.index()];
        memory.slices.clear();
        memory
            .slices
            .extend(slices.iter().filter(|slice| slice.len > 0));
        memory.len = len;
        memory.is_read = is_read;
        memory.tainted = false;
        memory.is_copied = false;
        memory.unacknowledged = 0;
    }

    pub(super) fn get(&self, id: CommandId) -> &Memory {
        &self.table[id.index()]
    }

    pub(super) fn get_mut(&mut self, id: CommandId) -> &mut Memory {
        &mut self.table[id.index()]
    }

    /// Shows the memory of a read to the NIC, under its command identifier.
    pub(super) fn map(&mut self, id: CommandId, stack: &mut Stack, socket: SocketId, cid: u16) {
        let memory = &mut self.table[id.index()];
        if stack.map_buffer(socket, cid, &memory.slices) {
            memory.mapped = Some((socket, cid));
        }
    }

    /// The command is through: takes its memory back from the NIC.
    pub(super) fn end(&mut self, id: CommandId, stack: &mut Stack) {
        let memory = &mut self.table[id.index()];
        if let Some((socket, cid)) = memory.mapped.take() {
            memory.unmapping = stack.unmap_buffer(socket, cid);
        }
        self.settling.push(id);
    }

    pub(super) fn is_settling(&self) -> bool {
        !self.settling.is_empty()
    }

    /// Gives the commands whose memory nobody touches any more, and whether it holds what was sent.
    pub(super) fn settled(&mut self, stack: &mut Stack, mut settled: impl FnMut(CommandId, bool)) {
        let table = &mut self.table;
        self.settling.retain(|id| {
            let memory = &mut table[id.index()];
            let done = memory.is_settled(stack);
            if done {
                // If the read is repeated, software copies what comes: nobody can contrive anything then.
                let tainted = std::mem::take(&mut memory.tainted);
                memory.is_copied |= tainted;
                settled(*id, !tainted);
            }
            !done
        });
    }
}

impl Memory {
    fn is_settled(&mut self, stack: &mut Stack) -> bool {
        if let Some(unmapping) = &self.unmapping {
            match stack.poll_unmap(unmapping) {
                Unmapped::Pending => return false,
                Unmapped::Clean => {}
                Unmapped::Tainted => self.tainted = true,
            }
            self.unmapping = None;
        }
        self.unacknowledged == 0
    }

    /// The memory of `len` bytes of the data from `offset` on.
    pub(super) fn part(&self, offset: u32, len: u32, out: &mut Vec<Slice>) {
        out.clear();
        let (mut skip, mut left) = (offset, len);
        for slice in &self.slices {
            if skip >= slice.len {
                skip -= slice.len;
                continue;
            }
            let len = (slice.len - skip).min(left);
            if len == 0 {
                break;
            }
            out.push(Slice {
                offset: slice.offset + u64::from(skip),
                len,
                ..*slice
            });
            left -= len;
            skip = 0;
        }
    }
}

#[cfg(test)]
impl Memories {
    pub(super) fn taint(&mut self, id: CommandId) {
        self.get_mut(id).tainted = true;
    }
}
