//! The commands in flight of one queue, by their identifiers.

use std::collections::VecDeque;

use wire::nvme::command::SubmissionEntry;

use super::requests::CommandId;
use crate::pdus::Coverage;

/// Which way the data of a command goes, and how many bytes of it there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transfer {
    /// No data.
    None,
    /// From the controller, in C2HData PDUs.
    ToHost(u32),
    /// To the controller, in the command's capsule or in H2CData PDUs.
    ToController(u32),
}

/// A command in flight.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) entry: SubmissionEntry,
    pub(super) transfer: Transfer,
    /// The submitter's own number for it.
    pub(super) token: CommandId,
    /// The queue's tick at which it was submitted.
    pub(super) tick: u32,
    /// Its capsule has been handed out.
    pub(super) sent: bool,
    /// LAST_PDU has come: no more data may.
    pub(super) last: bool,
    /// A data digest was wrong.
    pub(super) damaged: bool,
    /// R2Ts of which the data has not been handed out whole.
    pub(super) r2ts: u32,
}

struct Slot {
    /// Counts the commands that had this identifier.
    generation: u32,
    command: Option<Command>,
    /// Bytes that came, or that R2Ts asked for.
    covered: Coverage,
}

/// The commands in flight. An identifier that became free is used again as late as possible.
pub(super) struct Commands {
    slots: Box<[Slot]>,
    free: VecDeque<u16>,
}

impl Commands {
    /// Room for `depth` commands, at most 65,535, with the identifiers from zero on.
    pub(super) fn new(depth: u16) -> Commands {
        let slot = |_| Slot {
            generation: 0,
            command: None,
            covered: Coverage::default(),
        };
        Commands {
            slots: (0..depth).map(slot).collect(),
            free: (0..depth).collect(),
        }
    }

    pub(super) fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    pub(super) fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Gives a command an identifier, which goes into its entry, and the identifier's generation. `None`: all are taken.
    pub(super) fn insert(&mut self, mut command: Command) -> Option<(u16, u32)> {
        let cid = self.free.pop_front()?;
        let slot = &mut self.slots[usize::from(cid)];
        command.entry.cid = cid;
        slot.generation = slot.generation.wrapping_add(1);
        slot.command = Some(command);
        slot.covered.clear();
        Some((cid, slot.generation))
    }

    /// The command and what of its data is covered, if the identifier is taken.
    pub(super) fn get_mut(&mut self, cid: u16) -> Option<(&mut Command, &mut Coverage)> {
        let slot = self.slots.get_mut(usize::from(cid))?;
        Some((slot.command.as_mut()?, &mut slot.covered))
    }

    /// The generation of an identifier that is taken.
    pub(super) fn generation(&self, cid: u16) -> Option<u32> {
        let slot = self.slots.get(usize::from(cid))?;
        slot.command.as_ref().map(|_| slot.generation)
    }

    /// Takes the command out; its identifier is free again.
    pub(super) fn remove(&mut self, cid: u16) -> Option<Command> {
        let command = self.slots.get_mut(usize::from(cid))?.command.take()?;
        self.free.push_back(cid);
        Some(command)
    }

    /// All commands, in the order of their identifiers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u16, &Command)> {
        let commands = self.slots.iter().zip(0u16..);
        commands.filter_map(|(slot, cid)| slot.command.as_ref().map(|command| (cid, command)))
    }
}
