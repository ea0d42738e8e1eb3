//! The table of sessions.

use super::keys::SessionKey;
use super::session::Session;

/// Every session, by key.
#[derive(Debug, Default)]
pub struct Sessions {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// How many there are.
    pub open: usize,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    session: Option<Box<Session>>,
}

impl Sessions {
    /// A key for a session that is yet to be made.
    pub fn reserve(&mut self) -> SessionKey {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                session: None,
            });
            self.slots.len() as u32 - 1
        });
        SessionKey {
            index,
            generation: self.slots[index as usize].generation,
        }
    }

    /// The session of a reserved key.
    pub fn fill(&mut self, key: SessionKey, session: Box<Session>) {
        self.slots[key.index as usize].session = Some(session);
        self.open += 1;
    }

    /// The session of a key, if it has not ended.
    pub fn get_mut(&mut self, key: SessionKey) -> Option<&mut Session> {
        let slot = self.slots.get_mut(key.index as usize)?;
        slot.session
            .as_deref_mut()
            .filter(|_| slot.generation == key.generation)
    }

    /// A session has ended.
    pub fn remove(&mut self, key: SessionKey) {
        let slot = &mut self.slots[key.index as usize];
        if slot.generation == key.generation && slot.session.take().is_some() {
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(key.index);
            self.open -= 1;
        }
    }

    /// The keys of all, in the order of the table.
    pub fn keys(&self) -> Vec<SessionKey> {
        let slots = self.slots.iter().enumerate();
        slots
            .filter(|(_, slot)| slot.session.is_some())
            .map(|(index, slot)| SessionKey {
                index: index as u32,
                generation: slot.generation,
            })
            .collect()
    }
}
