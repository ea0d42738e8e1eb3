//! What engines have to say of packets: it goes up behind the packet.

use l5p::{MAX_NOTES, Note};

use crate::ring::{NOTES_PER_DESCRIPTOR, RecvDescriptor};

/// Descriptors that the notes on one packet may take.
pub(crate) const MAX_NOTE_DESCRIPTORS: u32 = MAX_NOTES.div_ceil(NOTES_PER_DESCRIPTOR) as u32;

/// Whether two notes can be left out ([`Layer5::may_join`](l5p::Layer5::may_join)).
pub(crate) type MayJoin = fn(&Note, &Note) -> bool;

/// The notes on one packet, by their place in its payload.
#[derive(Clone, Debug)]
pub(crate) struct NoteList {
    notes: [Note; MAX_NOTES],
    count: u8,
    /// There were more: no note counts.
    overflowed: bool,
    may_join: MayJoin,
}

impl NoteList {
    /// For the notes of one protocol.
    pub(crate) fn new(may_join: MayJoin) -> NoteList {
        NoteList {
            notes: [Note::default(); MAX_NOTES],
            count: 0,
            overflowed: false,
            may_join,
        }
    }

    pub(crate) fn as_slice(&self) -> &[Note] {
        &self.notes[..usize::from(self.count)]
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        self.count = 0;
        self.overflowed = false;
    }

    /// Adds a note of an engine's.
    pub(crate) fn push(&mut self, note: Note) {
        match self.notes.get_mut(usize::from(self.count)) {
            _ if self.overflowed => {}
            Some(place) => {
                *place = note;
                self.count += 1;
            }
            None => {
                self.count = 0;
                self.overflowed = true;
            }
        }
    }

    /// Whether there is room for these behind the others.
    pub(crate) fn takes(&self, notes: &[Note]) -> bool {
        self.as_slice().len() + notes.len() <= MAX_NOTES
    }

    /// Adds the notes on a packet whose payload begins `behind` bytes into that of this list's.
    pub(crate) fn append(&mut self, notes: &[Note], may_join: MayJoin, behind: u32) {
        let mut notes = notes.iter().map(|note| Note {
            at: note.at + behind,
            ..*note
        });
        let Some(first) = notes.next() else { return };
        let last = self.as_slice().last();
        match last.is_some_and(|last| may_join(last, &first)) {
            true => self.count -= 1,
            false => self.push(first),
        }
        notes.for_each(|note| self.push(note));
    }

    pub(crate) fn may_join(&self) -> MayJoin {
        self.may_join
    }

    /// Descriptors that it takes.
    pub(crate) fn descriptors(&self) -> u32 {
        usize::from(self.count).div_ceil(NOTES_PER_DESCRIPTOR) as u32
    }
}

impl Default for NoteList {
    fn default() -> NoteList {
        NoteList::new(|_, _| false)
    }
}

/// The descriptor of the first of these notes, of as many as it has room for.
pub(crate) fn descriptor(notes: &[Note]) -> RecvDescriptor {
    let count = notes.len().min(NOTES_PER_DESCRIPTOR);
    let mut some = [Note::default(); NOTES_PER_DESCRIPTOR];
    some[..count].copy_from_slice(&notes[..count]);
    RecvDescriptor::Notes {
        notes: some,
        count: count as u8,
    }
}
