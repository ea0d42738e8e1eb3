//! The flow contexts of both directions, in one slab, with the model of the memory that they take.

use crate::cache::{ContextCache, Traffic};
use crate::counters::Counters;
use crate::function::FunctionId;
use l5p::AnyOrder;
use l5p::tls::Engine;

use crate::receive::{OpenPool, ReceiveContext};
use crate::ring::{ContextId, ErrorCode};
use crate::transmit::TransmitContext;

/// A context.
#[derive(Debug)]
pub(crate) enum Context {
    Transmit(TransmitContext),
    Receive(ReceiveContext),
}

#[derive(Debug)]
struct Slot {
    id: ContextId,
    context: Context,
}

/// All contexts of the NIC.
#[derive(Debug)]
pub(crate) struct Contexts {
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    /// Slot by function and context id.
    functions: Vec<Vec<Option<u32>>>,
    cache: ContextCache,
    open: OpenPool<LateRecord>,
}

/// What is kept of a message for its late bytes.
type LateRecord = <Engine as AnyOrder>::Message;

/// Contexts that may have open messages at a time: about 2 MiB.
const OPEN_CONTEXTS: u32 = 4096;

/// A receive context that a packet has found.
pub(crate) struct FlowContext<'a> {
    pub(crate) id: ContextId,
    pub(crate) context: &'a mut ReceiveContext,
    pub(crate) open: &'a mut OpenPool<LateRecord>,
}

impl Contexts {
    pub(crate) fn new(cache: ContextCache) -> Contexts {
        Contexts {
            slots: Vec::new(),
            free: Vec::new(),
            functions: Vec::new(),
            cache,
            open: OpenPool::new(OPEN_CONTEXTS),
        }
    }

    /// Makes room for the names of the next function's contexts.
    pub(crate) fn add_function(&mut self, quota: u32) {
        self.functions.push(vec![None; quota as usize]);
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
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        *name = Some(slot);
        self.slots[slot as usize] = Some(Slot { id, context });
        let traffic = self.cache.install(slot);
        counters.pcie_context_writeback += u64::from(traffic.written_back);
        Ok(slot)
    }

    /// Removes a context.
    pub(crate) fn remove(&mut self, function: FunctionId, id: ContextId) -> Option<Context> {
        let name = self.functions[usize::from(function.0)].get_mut(id.0 as usize)?;
        let slot = name.take()?;
        self.free.push(slot);
        self.cache.remove(slot);
        self.slots[slot as usize].take().map(|slot| slot.context)
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
        match &mut self.slots[slot as usize].as_mut()?.context {
            Context::Transmit(context) => Some(context),
            Context::Receive(_) => None,
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

    /// The receive context in a slot, to be changed, and its id.
    pub(crate) fn receive(
        &mut self,
        slot: u32,
        counters: &mut Counters,
    ) -> Option<FlowContext<'_>> {
        self.touch(slot, counters);
        let slot = self.slots.get_mut(slot as usize)?.as_mut()?;
        match &mut slot.context {
            Context::Receive(context) => Some(FlowContext {
                id: slot.id,
                context,
                open: &mut self.open,
            }),
            Context::Transmit(_) => None,
        }
    }

    /// Memory for the messages that receive contexts keep open.
    pub(crate) fn open_pool(&mut self) -> &mut OpenPool<LateRecord> {
        &mut self.open
    }

    /// The slot of the receive context of this id.
    pub(crate) fn receive_slot(&self, function: FunctionId, id: ContextId) -> Option<u32> {
        let names = self.functions.get(usize::from(function.0))?;
        let slot = (*names.get(id.0 as usize)?)?;
        match self.slots[slot as usize].as_ref()?.context {
            Context::Receive(_) => Some(slot),
            Context::Transmit(_) => None,
        }
    }
}
