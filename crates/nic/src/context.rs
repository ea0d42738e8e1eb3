//! The flow contexts of both directions, in one slab, with the model of the memory that they take.

use crate::cache::{ContextCache, Traffic};
use crate::counters::Counters;
use crate::function::FunctionId;
use l5p::{AnyOrder, nvme, tls};

use crate::receive::{Contents, Order, Placer, PlacingContext, ReceiveContext, Shared};
use crate::ring::{ContextId, ErrorCode};
use crate::transmit::TransmitContext;

/// A context.
#[derive(Debug)]
pub(crate) enum Context {
    Transmit(TransmitContext),
    Receive(ReceiveContext),
    Placing(Box<PlacingContext>),
}

/// A place in the slab; for packets that come, with the name that the host gave. The name shares a word with the tag.
#[derive(Debug)]
enum Slot {
    Free,
    Transmit(TransmitContext),
    Receive(ContextId, ReceiveContext),
    Placing(ContextId, Box<PlacingContext>),
}

impl Slot {
    fn new(id: ContextId, context: Context) -> Slot {
        match context {
            Context::Transmit(context) => Slot::Transmit(context),
            Context::Receive(context) => Slot::Receive(id, context),
            Context::Placing(context) => Slot::Placing(id, context),
        }
    }

    fn into_context(self) -> Option<Context> {
        match self {
            Slot::Free => None,
            Slot::Transmit(context) => Some(Context::Transmit(context)),
            Slot::Receive(_, context) => Some(Context::Receive(context)),
            Slot::Placing(_, context) => Some(Context::Placing(context)),
        }
    }
}

/// All contexts of the NIC.
#[derive(Debug)]
pub(crate) struct Contexts {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Slot by function and context id.
    functions: Vec<Vec<Option<u32>>>,
    cache: ContextCache,
    /// By function, so that none takes the memory for late bytes from another.
    shared: Vec<FunctionShared>,
}

/// What the receive contexts of a function have in common.
#[derive(Debug)]
struct FunctionShared {
    /// Contexts of TLS.
    records: Shared<LateRecord>,
    /// Contexts of TLS around another protocol.
    layered_records: Shared<LateRecord, Contents>,
    /// Contexts of NVMe/TCP.
    pdus: Shared<nvme::LatePdu, Placer>,
}

impl FunctionShared {
    fn new(quota: u32) -> FunctionShared {
        let contexts = quota.min(OPEN_CONTEXTS);
        FunctionShared {
            records: Shared::new(Order::Any, contexts),
            layered_records: Shared::new(Order::Any, contexts),
            pdus: Shared::new(Order::Any, contexts),
        }
    }
}

/// What is kept of a record for its late bytes.
pub(crate) type LateRecord = <tls::Engine as AnyOrder>::Message;

/// Contexts of a function that may have open messages of a protocol at a time: about 2 MiB.
const OPEN_CONTEXTS: u32 = 4096;

/// The receive context that a packet has found.
pub(crate) enum Found<'a> {
    Tls(FlowContext<'a>),
    Placing(PlacingFlow<'a>),
}

/// A context of TLS.
pub(crate) struct FlowContext<'a> {
    pub(crate) id: ContextId,
    pub(crate) context: &'a mut ReceiveContext,
    pub(crate) shared: &'a mut Shared<LateRecord>,
}

/// A context that places.
pub(crate) struct PlacingFlow<'a> {
    pub(crate) id: ContextId,
    pub(crate) context: &'a mut PlacingContext,
    pub(crate) pdus: &'a mut Shared<nvme::LatePdu, Placer>,
    pub(crate) records: &'a mut Shared<LateRecord, Contents>,
}

impl Contexts {
    /// Memory of a context beside its cipher's state.
    #[cfg(test)]
    pub(crate) const SLOT_BYTES: usize = size_of::<Slot>();

    pub(crate) fn new(cache: ContextCache) -> Contexts {
        Contexts {
            slots: Vec::new(),
            free: Vec::new(),
            functions: Vec::new(),
            cache,
            shared: Vec::new(),
        }
    }

    /// Makes room for a function's contexts: the next one's, or one's that comes in the place of another, which has none any more.
    pub(crate) fn add_function(&mut self, function: FunctionId, quota: u32) {
        let at = usize::from(function.0);
        let (names, shared) = (vec![None; quota as usize], FunctionShared::new(quota));
        match self.functions.get_mut(at) {
            Some(old) => (*old, self.shared[at]) = (names, shared),
            None => {
                self.functions.push(names);
                self.shared.push(shared);
            }
        }
    }

    /// Adds a context; gives its slot.
    pub(crate) fn insert(
        &mut self,
        function: FunctionId,
        id: ContextId,
        context: Context,
        counters: &mut Counters,
    ) -> Result<u32, ErrorCode> {
        let name = self.functions[usize::from(function.0)]
            .get_mut(id.0 as usize)
            .ok_or(ErrorCode::OverQuota)?;
        if name.is_some() {
            return Err(ErrorCode::ContextExists);
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::Free);
            self.slots.len() as u32 - 1
        });
        *name = Some(slot);
        self.slots[slot as usize] = Slot::new(id, context);
        let traffic = self.cache.install(slot);
        counters.pcie_context_writeback += u64::from(traffic.written_back);
        Ok(slot)
    }

    /// The ids of a function's contexts.
    pub(crate) fn ids_of(&self, function: FunctionId) -> Vec<ContextId> {
        let names = self.functions.get(usize::from(function.0));
        let names = (0..).zip(names.into_iter().flatten());
        names
            .filter(|(_, slot)| slot.is_some())
            .map(|(id, _)| ContextId(id))
            .collect()
    }

    /// Removes a context; gives the slot that it had.
    pub(crate) fn remove(&mut self, function: FunctionId, id: ContextId) -> Option<(u32, Context)> {
        let name = self.functions[usize::from(function.0)].get_mut(id.0 as usize)?;
        let slot = name.take()?;
        self.free.push(slot);
        self.cache.remove(slot);
        let taken = std::mem::replace(&mut self.slots[slot as usize], Slot::Free);
        Some((slot, taken.into_context()?))
    }

    /// The transmit context of this id, to be changed.
    pub(crate) fn transmit(
        &mut self,
        function: FunctionId,
        id: ContextId,
        counters: &mut Counters,
    ) -> Option<&mut TransmitContext> {
        let slot = (*self.functions[usize::from(function.0)].get(id.0 as usize)?)?;
        self.touch(slot, counters);
        match &mut self.slots[slot as usize] {
            Slot::Transmit(context) => Some(context),
            _ => None,
        }
    }

    /// Brings a context into NIC memory.
    fn touch(&mut self, slot: u32, counters: &mut Counters) {
        let Traffic {
            fetched,
            written_back,
        } = self.cache.access(slot);
        match fetched {
            0 => counters.context_hits += 1,
            _ => counters.context_misses += 1,
        }
        counters.pcie_context_fetch += u64::from(fetched);
        counters.pcie_context_writeback += u64::from(written_back);
    }

    /// The receive context in a slot of this function's, to be changed, and its id.
    pub(crate) fn receive(
        &mut self,
        function: FunctionId,
        slot: u32,
        counters: &mut Counters,
    ) -> Option<Found<'_>> {
        self.touch(slot, counters);
        let shared = self.shared.get_mut(usize::from(function.0))?;
        match self.slots.get_mut(slot as usize)? {
            Slot::Receive(id, context) => Some(Found::Tls(FlowContext {
                id: *id,
                context,
                shared: &mut shared.records,
            })),
            Slot::Placing(id, context) => Some(Found::Placing(PlacingFlow {
                id: *id,
                context,
                pdus: &mut shared.pdus,
                records: &mut shared.layered_records,
            })),
            _ => None,
        }
    }

    /// The context of this id, if it places.
    pub(crate) fn placing(
        &mut self,
        function: FunctionId,
        id: ContextId,
        counters: &mut Counters,
    ) -> Option<&mut PlacingContext> {
        let slot = self.receive_slot(function, id)?;
        self.touch(slot, counters);
        match &mut self.slots[slot as usize] {
            Slot::Placing(_, context) => Some(context),
            _ => None,
        }
    }

    /// What a function's contexts of TLS have in common.
    pub(crate) fn records(&mut self, function: FunctionId) -> &mut Shared<LateRecord> {
        &mut self.shared[usize::from(function.0)].records
    }

    /// What a function's contexts of TLS around another protocol have in common.
    pub(crate) fn layered_records(
        &mut self,
        function: FunctionId,
    ) -> &mut Shared<LateRecord, Contents> {
        &mut self.shared[usize::from(function.0)].layered_records
    }

    /// What a function's contexts of NVMe/TCP have in common.
    pub(crate) fn pdus(&mut self, function: FunctionId) -> &mut Shared<nvme::LatePdu, Placer> {
        &mut self.shared[usize::from(function.0)].pdus
    }

    /// The slot of the receive context of this id.
    pub(crate) fn receive_slot(&self, function: FunctionId, id: ContextId) -> Option<u32> {
        let names = self.functions.get(usize::from(function.0))?;
        let slot = (*names.get(id.0 as usize)?)?;
        match self.slots[slot as usize] {
            Slot::Receive(..) | Slot::Placing(..) => Some(slot),
            _ => None,
        }
    }
}
