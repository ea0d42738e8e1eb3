//! What contexts of a function share ([`l5p::Resource`]), made of bytes that its host has named.
//!
//! Making it may take a while: tables of patterns, for example. A thread of its own does that, one after the other for all functions, so
//! that no packet waits for it, and tells the host when it is done.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;

use l5p::{
    Direction, Event, Layers, Parameters, Protocol, ProtocolId, Resource, ResourceId, Visitor,
    visit,
};

use crate::ring::ErrorCode;

/// Resources of a function at a time.
const MAX_RESOURCES: usize = 8;
/// No more are made while so many that were given up are still in use.
const MAX_RETIRED: usize = 64;

/// Those of one function.
#[derive(Debug)]
pub(crate) struct Resources {
    slots: [Slot; MAX_RESOURCES],
    /// Given up, and still in memory.
    retired: Vec<Retired>,
    /// Bytes that they may still take.
    left: usize,
    /// Bytes that engines may still take for themselves.
    memory: Arc<AtomicUsize>,
}

/// Memory that an engine may take for itself, until this is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    memory: Arc<AtomicUsize>,
    bytes: usize,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.memory.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
struct Slot {
    state: State,
    protocol: Option<ProtocolId>,
    /// Of [`Resources::left`].
    taken: usize,
    /// What is still to be reported.
    unreported: Option<Result<(), ErrorCode>>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Free,
    /// Waits until another one is made: of how much memory is left then.
    Waiting(Vec<u8>),
    Making(Arc<OnceLock<Option<Resource>>>),
    Made(Resource),
}

/// A resource that was given up.
#[derive(Debug)]
struct Retired {
    user: User,
    /// Of [`Resources::left`], until nothing has it any more.
    taken: usize,
}

/// Who has it.
#[derive(Debug)]
enum User {
    Contexts(Resource),
    Maker(Weak<OnceLock<Option<Resource>>>),
}

impl Retired {
    fn is_in_use(&self) -> bool {
        match &self.user {
            User::Contexts(resource) => resource.is_shared(),
            User::Maker(made) => made.strong_count() > 0,
        }
    }
}

impl Resources {
    /// Resources of at most so many bytes together, and as many again for engines.
    pub(crate) fn new(bytes: usize) -> Resources {
        Resources {
            slots: Default::default(),
            retired: Vec::new(),
            left: bytes,
            memory: Arc::new(AtomicUsize::new(bytes)),
        }
    }

    /// Gives all of them up, and those that are being made.
    pub(crate) fn clear(&mut self) {
        for slot in std::mem::take(&mut self.slots) {
            self.retire(slot);
        }
    }

    /// Takes memory for an engine, if it needs any.
    ///
    /// # Errors
    /// When there is not so much left.
    pub(crate) fn charge(&self, bytes: usize) -> Result<Option<Charge>, ErrorCode> {
        if bytes == 0 {
            return Ok(None);
        }
        let (order, memory) = (Ordering::Relaxed, &self.memory);
        let taken = memory.fetch_update(order, order, |left| left.checked_sub(bytes));
        taken.map_err(|_| ErrorCode::OverQuota)?;
        Ok(Some(Charge {
            memory: Arc::clone(memory),
            bytes,
        }))
    }

    /// One that is there, if it is of this protocol.
    fn get(&self, id: ResourceId, protocol: ProtocolId) -> Option<&Resource> {
        let slot = self.slots.get(usize::from(id.0))?;
        match &slot.state {
            State::Made(resource) if slot.protocol == Some(protocol) => Some(resource),
            _ => None,
        }
    }

    /// The engine of the layer at `depth`, with its parameters.
    ///
    /// # Errors
    /// When these mean nothing, or name a resource that is not there or not the right one.
    pub(crate) fn engine<P: Protocol>(
        &self,
        layers: &Layers,
        depth: usize,
        direction: Direction,
    ) -> Result<(P::Parameters, P), ErrorCode> {
        let parameters = P::Parameters::decode(layers.parameters(depth));
        let parameters = parameters.ok_or(ErrorCode::BadParameters)?;
        let resource = match parameters.resource() {
            None => None,
            Some(id) => {
                let resource = self.get(id, layers.ids()[depth]);
                Some(resource.ok_or(ErrorCode::NoResource)?)
            }
        };
        let engine = P::create(&parameters, direction, resource);
        Ok((parameters, engine.ok_or(ErrorCode::BadParameters)?))
    }

    /// Begins to make one. Whether it was made, or why not, is reported later.
    ///
    /// # Errors
    /// When the number is too large or in use, or too many that were given up are still in use.
    pub(crate) fn load(
        &mut self,
        maker: &mut Maker,
        id: ResourceId,
        protocol: ProtocolId,
        read: impl FnOnce() -> Result<Vec<u8>, ErrorCode>,
    ) -> Result<(), ErrorCode> {
        self.reclaim();
        let slot = self.slots.get_mut(usize::from(id.0));
        let has_room = self.retired.len() < MAX_RETIRED;
        let slot = slot.filter(|_| has_room).ok_or(ErrorCode::OverQuota)?;
        if !matches!(slot.state, State::Free) || slot.unreported.is_some() {
            return Err(ErrorCode::ResourceExists);
        }
        slot.protocol = Some(protocol);
        match read() {
            Ok(bytes) => slot.state = State::Waiting(bytes),
            Err(error) => slot.unreported = Some(Err(error)),
        }
        self.make_next(maker);
        Ok(())
    }

    /// Begins to make one that waits, unless another one is being made, be it for nothing: a host that gives up what it has just asked for can't have
    /// any number of them made.
    pub(crate) fn make_next(&mut self, maker: &mut Maker) {
        self.reclaim();
        let is_making = |slot: &Slot| matches!(slot.state, State::Making(_));
        let is_made_for_nothing = |retired: &Retired| matches!(retired.user, User::Maker(_));
        if self.slots.iter().any(is_making) || self.retired.iter().any(is_made_for_nothing) {
            return;
        }
        for slot in &mut self.slots {
            let (State::Waiting(bytes), Some(protocol)) = (&mut slot.state, slot.protocol) else {
                continue;
            };
            match maker.make(protocol, std::mem::take(bytes), self.left) {
                Ok(made) => {
                    slot.state = State::Making(made);
                    slot.taken = std::mem::take(&mut self.left);
                    return;
                }
                Err(error) => {
                    slot.state = State::Free;
                    slot.unreported = Some(Err(error));
                }
            }
        }
    }

    /// Takes one away. Contexts that have it keep it, and its bytes count until they have ended.
    ///
    /// # Errors
    /// When the function has no resource of this number.
    pub(crate) fn unload(&mut self, id: ResourceId) -> Result<(), ErrorCode> {
        let slot = self.slots.get_mut(usize::from(id.0));
        let slot = slot.ok_or(ErrorCode::NoResource)?;
        if matches!(slot.state, State::Free) {
            return Err(ErrorCode::NoResource);
        }
        let slot = std::mem::take(slot);
        self.retire(slot);
        Ok(())
    }

    /// Keeps the bytes of a resource that is given up until nothing has it any more.
    fn retire(&mut self, slot: Slot) {
        let taken = slot.taken;
        let user = match slot.state {
            State::Made(resource) => User::Contexts(resource),
            State::Making(made) => User::Maker(Arc::downgrade(&made)),
            State::Free | State::Waiting(_) => return,
        };
        self.retired.push(Retired { user, taken });
        self.reclaim();
    }

    /// Lets go of those that were given up and that nothing has any more.
    pub(crate) fn reclaim(&mut self) {
        let left = &mut self.left;
        self.retired.retain(|retired| {
            let is_in_use = retired.is_in_use();
            *left += if is_in_use { 0 } else { retired.taken };
            is_in_use
        });
    }

    /// Takes what has been made.
    pub(crate) fn settle(&mut self, mut count: impl FnMut(ProtocolId, Event)) {
        for slot in &mut self.slots {
            let State::Making(made) = &slot.state else {
                continue;
            };
            let Some(made) = made.get() else { continue };
            let (state, event) = match made {
                Some(resource) => (State::Made(resource.clone()), Event::ResourcesLoaded),
                None => (State::Free, Event::ResourcesRefused),
            };
            let taken = made.as_ref().map_or(0, Resource::bytes).min(slot.taken);
            self.left += slot.taken - taken;
            slot.taken = taken;
            slot.unreported = Some(match made {
                Some(_) => Ok(()),
                None => Err(ErrorCode::BadParameters),
            });
            slot.state = state;
            if let Some(protocol) = slot.protocol {
                count(protocol, event);
            }
        }
    }

    /// A resource whose result is still to be reported.
    pub(crate) fn unreported(&self) -> Option<(ResourceId, Result<(), ErrorCode>)> {
        let mut slots = (0..).zip(&self.slots);
        slots.find_map(|(at, slot)| Some((ResourceId(at), slot.unreported?)))
    }

    /// The result was reported.
    pub(crate) fn reported(&mut self, id: ResourceId) {
        self.slots[usize::from(id.0)].unreported = None;
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.slots.iter().all(|slot| {
            let is_settled = matches!(slot.state, State::Free | State::Made(_));
            slot.unreported.is_none() && is_settled
        })
    }
}

/// The thread that makes them.
#[derive(Debug, Default)]
pub(crate) struct Maker(Option<Sender<Job>>);

/// Something to be made.
#[derive(Debug)]
struct Job {
    protocol: ProtocolId,
    bytes: Vec<u8>,
    limit: usize,
    made: Arc<OnceLock<Option<Resource>>>,
}

impl Maker {
    /// Makes something of the first protocol's, in at most `limit` bytes.
    fn make(
        &mut self,
        protocol: ProtocolId,
        bytes: Vec<u8>,
        limit: usize,
    ) -> Result<Arc<OnceLock<Option<Resource>>>, ErrorCode> {
        protocol.info().ok_or(ErrorCode::BadParameters)?;
        if self.0.is_none() {
            self.0 = start();
        }
        let made = Arc::new(OnceLock::new());
        let job = Job {
            protocol,
            bytes,
            limit,
            made: Arc::clone(&made),
        };
        let sent = self.0.as_ref().map(|jobs| jobs.send(job));
        match sent {
            Some(Ok(())) => Ok(made),
            _ => {
                self.0 = None;
                Err(ErrorCode::TableFull)
            }
        }
    }
}

/// Starts the thread, which ends with the last sender of jobs. `None` when the system gives no thread.
fn start() -> Option<Sender<Job>> {
    let (jobs, waiting) = channel::<Job>();
    let thread = thread::Builder::new().name("resources".into());
    let run = move || {
        for job in waiting {
            // The function may have given it up meanwhile.
            if Arc::strong_count(&job.made) > 1 {
                let make = Make {
                    bytes: &job.bytes,
                    limit: job.limit,
                };
                let made = visit(job.protocol, make).flatten();
                let _ = job.made.set(made);
            }
        }
    };
    thread.spawn(run).ok().map(|_| jobs)
}

struct Make<'a> {
    bytes: &'a [u8],
    limit: usize,
}

impl Visitor for Make<'_> {
    type Output = Option<Resource>;

    fn visit<P: Protocol>(self, _: ProtocolId) -> Option<Resource> {
        P::make_resource(self.bytes, self.limit)
    }
}

#[cfg(test)]
mod tests;
