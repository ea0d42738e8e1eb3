//! The memory of commands: who may still touch it.

use attachment::pdus::Generation;
use l5p::nvme::initiator::CommandId;

use crate::counters::Counters;
use crate::memory::Slice;
use crate::nic::{Nic, SlotName};

/// The memory of one command.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) slice: Slice,
    pub(crate) is_read: bool,
    /// It is not to be mapped: once it was, and ended tainted.
    pub(crate) is_copied: bool,
    /// What is in the memory may not be what was sent.
    is_tainted: bool,
    mapped: Option<Mapped>,
    /// PDUs with data of it that are not in the socket yet.
    pub(crate) unsent: u32,
}

/// Memory that the NIC was shown.
#[derive(Clone, Copy, Debug)]
struct Mapped {
    slot: SlotName,
    tag: u16,
    generation: Generation,
    /// Bytes that the NIC has placed and the stream has brought to the same place.
    taken: u32,
}

impl Command {
    const UNUSED: Command = Command {
        slice: Slice::NOTHING,
        is_read: false,
        is_copied: false,
        is_tainted: false,
        mapped: None,
        unsent: 0,
    };

    /// The NIC has been shown the memory.
    pub(crate) fn map(&mut self, slot: SlotName, tag: u16, generation: Generation) {
        self.mapped = Some(Mapped {
            slot,
            tag,
            generation,
            taken: 0,
        });
    }

    /// Whether this is the mapping that its memory was shown to the NIC by.
    pub(crate) fn is_mapped_by(&self, slot: SlotName, generation: Generation) -> bool {
        let mapped = self.mapped;
        mapped.is_some_and(|mapped| mapped.slot == slot && mapped.generation == generation)
    }

    /// The stream has brought bytes to where the NIC had written them.
    pub(crate) fn take(&mut self, len: u32) {
        if let Some(mapped) = &mut self.mapped {
            mapped.taken += len;
        }
    }

    /// What is in the memory may not be what was sent.
    pub(crate) fn taint(&mut self) {
        self.is_tainted = true;
    }

    /// The command is through. Says what of the NIC's must end before its memory is its owner's again.
    fn end(&mut self) -> Option<(SlotName, u16)> {
        // What is placed wholly the NIC can't write to again: nothing is placed twice.
        let mapped = self.mapped?;
        if mapped.taken == self.slice.len && !self.is_tainted {
            self.mapped = None;
            return None;
        }
        Some((mapped.slot, mapped.tag))
    }

    fn is_settled(&mut self, nic: Option<&mut Nic>) -> bool {
        if let Some(mapped) = self.mapped {
            match nic.map(|nic| nic.written(mapped.slot, mapped.tag, mapped.generation)) {
                Some(Written::Pending) => return false,
                Some(Written::Bytes(placed)) => self.is_tainted |= placed != mapped.taken,
                Some(Written::Unknown) | None => self.is_tainted = true,
            }
            self.mapped = None;
        }
        self.unsent == 0
    }
}

/// What the NIC has written for a mapping that was taken away from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// It may still write.
    Pending,
    /// It has written so many bytes, and writes no more.
    Bytes(u32),
    /// It writes no more, and can't tell what it has written.
    Unknown,
}

/// The memory of all commands.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    /// By [`CommandId::index`].
    table: Vec<Command>,
    /// Commands that are through and wait for their memory.
    settling: Vec<CommandId>,
}

impl Commands {
    pub(crate) fn insert(&mut self, id: CommandId, slice: Slice, is_read: bool) {
        if self.table.len() <= id.index() {
            self.table.resize_with(id.index() + 1, || Command::UNUSED);
        }
        self.table[id.index()] = Command {
            slice,
            is_read,
            ..Command::UNUSED
        };
    }

    pub(crate) fn get(&self, id: CommandId) -> &Command {
        &self.table[id.index()]
    }

    pub(crate) fn get_mut(&mut self, id: CommandId) -> &mut Command {
        &mut self.table[id.index()]
    }

    /// The command is through on the wire. Says which mapping is to be taken away from the NIC.
    pub(crate) fn end(&mut self, id: CommandId) -> Option<(SlotName, u16)> {
        self.settling.push(id);
        self.table[id.index()].end()
    }

    pub(crate) fn is_settling(&self) -> bool {
        !self.settling.is_empty()
    }

    /// Gives the commands whose memory is not touched any more, and whether it holds what was sent.
    pub(crate) fn settled(
        &mut self,
        mut nic: Option<&mut Nic>,
        counters: &mut Counters,
        mut settled: impl FnMut(CommandId, bool),
    ) {
        let table = &mut self.table;
        self.settling.retain(|id| {
            let command = &mut table[id.index()];
            let done = command.is_settled(nic.as_deref_mut());
            if done {
                // If the read is repeated, software copies what comes: then an attacker gains nothing.
                let is_tainted = std::mem::take(&mut command.is_tainted);
                command.is_copied |= is_tainted;
                counters.buffers_tainted += u64::from(is_tainted);
                settled(*id, !is_tainted);
            }
            !done
        });
    }
}
