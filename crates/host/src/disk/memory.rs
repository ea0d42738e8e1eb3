//! The memory of commands: who may still touch it.

use nic::ring::Slice;

use crate::SocketId;
use crate::pdus::{Unmapped, Unmapping};
use crate::stack::Stack;

/// What a command is known by.
pub(crate) trait CommandKey: Copy {
    /// Its place in a table, which it has alone until its memory is settled.
    fn index(self) -> usize;
}

/// The memory of one command.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub slices: Vec<Slice>,
    /// Bytes of the command's data.
    pub len: u32,
    pub is_read: bool,
    /// Where the NIC may place data, and under which tag.
    mapped: Option<(SocketId, u16)>,
    unmapping: Option<Unmapping>,
    /// The NIC wrote what it should not have.
    tainted: bool,
    /// It is not to be mapped: once it was, and ended tainted.
    pub is_copied: bool,
    /// Places in a stream behind which this memory is still to be acknowledged, and PDUs that wait for room in it.
    pub unacknowledged: u32,
}

/// The memory of all commands.
#[derive(Debug)]
pub(crate) struct Memories<K> {
    /// By [`CommandKey::index`].
    table: Vec<Memory>,
    /// Commands that are through and wait for their memory.
    settling: Vec<K>,
}

impl<K> Default for Memories<K> {
    fn default() -> Self {
        Self {
            table: Vec::new(),
            settling: Vec::new(),
        }
    }
}

impl<K: CommandKey> Memories<K> {
    pub fn insert(&mut self, id: K, slices: &[Slice], len: u32, is_read: bool) {
        if self.table.len() <= id.index() {
            self.table.resize_with(id.index() + 1, Memory::default);
        }
        let memory = &mut self.table[id.index()];
        debug_assert_eq!(memory.unacknowledged, 0, "TCP still has the memory");
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

    pub fn get(&self, id: K) -> &Memory {
        &self.table[id.index()]
    }

    pub fn get_mut(&mut self, id: K) -> &mut Memory {
        &mut self.table[id.index()]
    }

    /// Shows the memory of a read to the NIC, under a tag.
    pub fn map(&mut self, id: K, stack: &mut Stack, socket: SocketId, tag: u16) {
        let memory = &mut self.table[id.index()];
        if stack.map_buffer(socket, tag, &memory.slices) {
            memory.mapped = Some((socket, tag));
        }
    }

    /// The command is through: takes its memory back from the NIC.
    pub fn end(&mut self, id: K, stack: &mut Stack) {
        let memory = &mut self.table[id.index()];
        if let Some((socket, tag)) = memory.mapped.take() {
            memory.unmapping = stack.unmap_buffer(socket, tag);
        }
        self.settling.push(id);
    }

    pub fn is_settling(&self) -> bool {
        !self.settling.is_empty()
    }

    /// Gives the commands whose memory is in use no longer, and whether it holds what was sent.
    pub fn settled(&mut self, stack: &mut Stack, mut settled: impl FnMut(K, bool)) {
        let table = &mut self.table;
        self.settling.retain(|id| {
            let memory = &mut table[id.index()];
            let done = memory.is_settled(stack);
            if done {
                // If the read is repeated, software copies what comes, which no peer can contrive.
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
    pub fn part(&self, offset: u32, len: u32, out: &mut Vec<Slice>) {
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
impl<K: CommandKey> Memories<K> {
    pub fn taint(&mut self, id: K) {
        self.get_mut(id).tainted = true;
    }
}
