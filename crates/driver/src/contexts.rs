//! The NIC's contexts (Autonomous NIC offloads §4.2), and the ids they go by.

use std::collections::VecDeque;

use nic::ring::ContextId;

/// The function's contexts, with what the driver keeps of each: its shadow.
///
/// An id that was destroyed rests until the NIC has done the destruction and everything that it had received before was taken off the receive rings,
/// so that no packet is taken for one of the id's next owner.
#[derive(Debug)]
pub struct Contexts<C> {
    slots: Vec<Option<Slot<C>>>,
    quota: u32,
    free: Vec<u32>,
    resting: VecDeque<(u32, u64)>,
}

#[derive(Debug)]
struct Slot<C> {
    shadow: C,
    /// The command to destroy it is posted. What it has transformed before may still come.
    is_destroyed: bool,
}

impl<C> Contexts<C> {
    /// No contexts yet, of so many that there may be.
    pub fn new(quota: u32) -> Contexts<C> {
        Contexts {
            slots: Vec::new(),
            quota,
            free: Vec::new(),
            resting: VecDeque::new(),
        }
    }

    /// Takes an id. `None` when the quota is used up.
    pub fn allocate(&mut self, shadow: C) -> Option<ContextId> {
        let index = match self.free.pop() {
            Some(index) => index,
            None if (self.slots.len() as u64) < u64::from(self.quota) => {
                self.slots.push(None);
                self.slots.len() as u32 - 1
            }
            None => return None,
        };
        let is_destroyed = false;
        self.slots[index as usize] = Some(Slot {
            shadow,
            is_destroyed,
        });
        Some(ContextId(index))
    }

    /// The context of this id that is not destroyed.
    #[inline]
    pub fn get(&self, id: ContextId) -> Option<&C> {
        let slot = self.slots.get(id.0 as usize)?.as_ref();
        slot.filter(|slot| !slot.is_destroyed)
            .map(|slot| &slot.shadow)
    }

    /// The same, to be changed.
    #[inline]
    pub fn get_mut(&mut self, id: ContextId) -> Option<&mut C> {
        let slot = self.slots.get_mut(id.0 as usize)?.as_mut();
        slot.filter(|slot| !slot.is_destroyed)
            .map(|slot| &mut slot.shadow)
    }

    /// The context that a received packet names, which may have been destroyed since.
    #[inline]
    pub fn get_received(&self, id: ContextId) -> Option<&C> {
        let slot = self.slots.get(id.0 as usize)?.as_ref()?;
        Some(&slot.shadow)
    }

    /// All contexts, destroyed ones too of which packets may still come.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut C> {
        self.slots.iter_mut().flatten().map(|slot| &mut slot.shadow)
    }

    /// Gives an id up; its destruction is complete when the send ring has reached `posted`.
    pub fn release(&mut self, id: ContextId, posted: u64) {
        let slot = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut);
        if let Some(slot) = slot.filter(|slot| !slot.is_destroyed) {
            slot.is_destroyed = true;
            self.resting.push_back((id.0, posted));
        }
    }

    /// To be called when the receive rings were found empty, with the send ring's completions as of before that.
    pub fn wake(&mut self, completed: u64) {
        while let Some(&(index, posted)) = self.resting.front()
            && posted <= completed
        {
            self.slots[index as usize] = None;
            self.free.push(index);
            self.resting.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_rests_until_nothing_can_name_its_owner() {
        let mut contexts = Contexts::new(2);
        let first = contexts.allocate('a').expect("there is one");
        let second = contexts.allocate('b').expect("there are two");
        assert!(contexts.allocate('c').is_none(), "the quota is used up");
        contexts.release(first, 10);
        assert_eq!(contexts.get(first), None);
        assert_eq!(contexts.get_received(first), Some(&'a'));
        contexts.wake(9);
        assert!(contexts.allocate('c').is_none(), "the NIC is not there yet");
        contexts.wake(10);
        assert_eq!(contexts.get_received(first), None);
        assert_eq!(contexts.allocate('c'), Some(first));
        assert_eq!(contexts.get(second), Some(&'b'));
    }
}
