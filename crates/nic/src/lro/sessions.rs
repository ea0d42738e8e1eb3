//! The sessions of one queue.

use l5p::Note;
use wire::FlowKey;

use super::Session;
use crate::context::receive::notes::NoteList;
use crate::context::receive::placing::{MAX_PLACED, PacketMetadata, Placed, PlacedList};

/// Flows that can be merged at a time, per queue.
pub(crate) const SESSIONS: usize = 8;

/// The sessions of one queue.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    sessions: [Option<Session>; SESSIONS],
    /// By session, what of it was placed. Empty until something is.
    placed: Vec<PlacedList>,
    /// By session, the notes on it. Empty until there are some.
    notes: Vec<NoteList>,
    /// Descriptors that those for the host will give.
    descriptors: u32,
    /// Parts of all lists.
    parts: u32,
    open: u8,
    /// Sessions of connections that the device runs.
    own: u8,
    /// Where the next session goes when all places are taken.
    next: u8,
}

impl Sessions {
    /// Descriptors that the open sessions will give to the host at once.
    pub(crate) fn descriptors(&self) -> u32 {
        self.descriptors
    }

    /// Any session's place whose connection the device runs.
    pub(crate) fn any_own(&self) -> Option<usize> {
        if self.own == 0 {
            return None;
        }
        let is_own = |session: &Session| session.connection.is_some();
        self.sessions
            .iter()
            .position(|session| session.as_ref().is_some_and(is_own))
    }

    /// Whether any open session has something placed.
    pub(crate) fn have_placed(&self) -> bool {
        self.parts > 0
    }

    /// What was placed of a session; to be read until another one takes its place.
    pub(crate) fn placed(&self, at: usize) -> &[Placed] {
        self.placed.get(at).map_or(&[], PlacedList::as_slice)
    }

    /// The notes on a session; to be read until another one takes its place.
    pub(crate) fn notes(&self, at: usize) -> &[Note] {
        self.notes.get(at).map_or(&[], NoteList::as_slice)
    }

    /// Whether a session has room for what a segment brings behind its own.
    pub(crate) fn takes(&self, at: usize, metadata: &PacketMetadata<'_>) -> bool {
        self.placed(at).len() + metadata.placed.len() <= MAX_PLACED
            && self
                .notes
                .get(at)
                .is_none_or(|notes| notes.takes(metadata.notes))
    }

    /// Adds what a segment brings whose payload begins `behind` bytes into the session's. Gives how many more parts were placed.
    pub(crate) fn add_metadata(
        &mut self,
        at: usize,
        metadata: &PacketMetadata<'_>,
        behind: u32,
    ) -> u32 {
        if !metadata.notes.is_empty() {
            if self.notes.is_empty() {
                self.notes.resize_with(SESSIONS, NoteList::default);
            }
            let list = &mut self.notes[at];
            let before = list.descriptors();
            list.append(metadata.notes, metadata.may_join, behind);
            self.descriptors += list.descriptors();
            self.descriptors -= before;
        }
        self.add_placed(at, metadata.placed, behind)
    }

    fn add_placed(&mut self, at: usize, parts: &[Placed], behind: u32) -> u32 {
        if parts.is_empty() {
            return 0;
        }
        if self.placed.is_empty() {
            self.placed.resize_with(SESSIONS, PlacedList::default);
        }
        let list = &mut self.placed[at];
        let before = list.len();
        for part in parts {
            list.push(Placed {
                at: part.at + behind,
                ..*part
            });
        }
        let more = (list.len() - before) as u32;
        self.parts += more;
        if self.sessions[at]
            .as_ref()
            .is_some_and(|session| session.connection.is_none())
        {
            self.descriptors += more;
        }
        more
    }

    /// The session of a flow.
    pub(crate) fn find(&self, hash: u64, flow: &FlowKey) -> Option<usize> {
        if self.open == 0 {
            return None;
        }
        self.sessions.iter().position(|session| {
            session
                .as_ref()
                .is_some_and(|session| session.hash == hash && session.flow == *flow)
        })
    }

    pub(crate) fn get(&self, at: usize) -> Option<&Session> {
        self.sessions[at].as_ref()
    }

    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut Session> {
        self.sessions[at].as_mut()
    }

    /// Takes a session out.
    pub(crate) fn take(&mut self, at: usize) -> Option<Session> {
        let session = self.sessions[at].take()?;
        let parts = self.placed(at).len() as u32;
        self.open -= 1;
        self.parts -= parts;
        match session.connection {
            None => {
                let notes = self.notes.get(at).map_or(0, NoteList::descriptors);
                self.descriptors -= 1 + parts + notes;
            }
            Some(_) => self.own -= 1,
        }
        Some(session)
    }

    /// Where the next session goes: a free place, or that of the session that has to end for it.
    pub(crate) fn next_place(&mut self) -> usize {
        match self.sessions.iter().position(Option::is_none) {
            Some(free) => free,
            None => {
                let at = usize::from(self.next);
                self.next = (self.next + 1) % SESSIONS as u8;
                at
            }
        }
    }

    /// Puts a session into a free place.
    pub(crate) fn put(&mut self, at: usize, session: Session) {
        match session.connection {
            None => self.descriptors += 1,
            Some(_) => self.own += 1,
        }
        self.sessions[at] = Some(session);
        self.open += 1;
        if let Some(placed) = self.placed.get_mut(at) {
            placed.clear();
        }
        if let Some(notes) = self.notes.get_mut(at) {
            notes.clear();
        }
    }

    /// Any session's place.
    pub(crate) fn any(&self) -> Option<usize> {
        if self.open == 0 {
            return None;
        }
        self.sessions.iter().position(Option::is_some)
    }
}
