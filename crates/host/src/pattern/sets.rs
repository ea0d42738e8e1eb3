//! Sets of patterns, and which of them the NIC has.

use std::sync::Arc;

use l5p::pattern::{Parameters, Patterns};
use l5p::{Listed, ResourceId};

use crate::device::Device;
use crate::memory::Purpose;

/// A set of patterns that a stack knows.
#[derive(Clone, Debug)]
pub struct PatternSet {
    pub(crate) patterns: Arc<Patterns>,
    pub(crate) resource: ResourceId,
}

impl PatternSet {
    /// The patterns.
    #[must_use]
    pub fn patterns(&self) -> &Arc<Patterns> {
        &self.patterns
    }
}

/// The sets of a stack, by their numbers on the NIC.
#[derive(Debug, Default)]
pub(crate) struct PatternSets(Vec<Option<Entry>>);

#[derive(Debug)]
struct Entry {
    set: PatternSet,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The NIC has not answered.
    Asked,
    /// The NIC has it.
    Loaded,
    /// The NIC does not take it.
    Refused,
}

impl PatternSets {
    pub fn add(&mut self, patterns: Arc<Patterns>) -> PatternSet {
        let free = self.0.iter().position(Option::is_none);
        let at = free.unwrap_or(self.0.len());
        if at == self.0.len() {
            self.0.push(None);
        }
        let set = PatternSet {
            patterns,
            resource: ResourceId(at as u16),
        };
        self.0[at] = Some(Entry {
            set: set.clone(),
            state: State::Asked,
        });
        set
    }

    /// Answers whether the NIC has it, or was asked to take it.
    pub fn remove(&mut self, set: &PatternSet) -> bool {
        let place = self.0.get_mut(usize::from(set.resource.0));
        let entry = place.and_then(|place| place.take_if(|entry| entry.is(set)));
        entry.is_some_and(|entry| entry.state != State::Refused)
    }

    pub fn is_loaded(&self, set: &PatternSet) -> Option<bool> {
        let entry = self.0.get(usize::from(set.resource.0))?.as_ref();
        match entry.filter(|entry| entry.is(set)).map(|entry| entry.state) {
            Some(State::Asked) => None,
            state => Some(state == Some(State::Loaded)),
        }
    }

    /// The NIC has it, or will not have it.
    pub fn answered(&mut self, resource: ResourceId, is_loaded: bool) {
        if let Some(Some(entry)) = self.0.get_mut(usize::from(resource.0)) {
            entry.state = match is_loaded {
                true => State::Loaded,
                false => State::Refused,
            };
        }
    }

    /// Asks the NIC to take a set.
    pub fn load(&mut self, set: &PatternSet, device: &mut Device) {
        let text = set.patterns.source().as_bytes();
        let buffer = match u32::try_from(text.len()) {
            Ok(len) if len <= l5p::MAX_RESOURCE => {
                device.driver.arena().allocate(Purpose::Control, len)
            }
            _ => None,
        };
        match buffer {
            Some(mut buffer) => {
                buffer.truncate(text.len() as u32);
                buffer.copy_from_slice(text);
                device.driver.load(set.resource, Parameters::ID, buffer);
            }
            None => self.answered(set.resource, false),
        }
    }

    /// The NIC has none of the sets any more: asks it again.
    pub fn reload(&mut self, device: &mut Device) {
        let entries = self.0.iter_mut().flatten();
        let forgotten: Vec<PatternSet> = entries
            .map(|entry| {
                entry.state = State::Asked;
                entry.set.clone()
            })
            .collect();
        for set in forgotten {
            self.load(&set, device);
        }
    }
}

impl Entry {
    fn is(&self, set: &PatternSet) -> bool {
        Arc::ptr_eq(&self.set.patterns, &set.patterns)
    }
}
