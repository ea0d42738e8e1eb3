//! The flow contexts of both directions, in one slab, with the model of the memory that they take.

use crate::cache::{ContextCache, Traffic};
use crate::counters::Counters;
use crate::resources::Resources;
use crate::ring::{ContextId, CreateContext, ErrorCode};
use crate::switch::FunctionId;
use l5p::{Layers, ProtocolId};

pub(crate) mod receive;
pub(crate) mod transmit;

use receive::{ReceiveTable, table};
use transmit::TransmitContext;

/// A context.
#[derive(Debug)]
pub(crate) enum Context {
    Transmit(TransmitContext),
    Receive(ReceiveContext),
}

/// What is kept of a receive context beside its place in a table of its protocols.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReceiveContext {
    /// The name that the host gave.
    pub(crate) id: ContextId,
    /// The lower half of the flow's hash, by which it is taken out of the flow table again.
    pub(crate) hash: u32,
    /// Tags that count against the function's quota.
    pub(crate) tags: u16,
    /// The outermost protocol.
    protocol: ProtocolId,
    /// The function's table of contexts that run the same protocols.
    table: u16,
    /// Its place there.
    at: u32,
}

/// All contexts of the NIC.
#[derive(Debug)]
pub(crate) struct Contexts {
    slots: Vec<Option<Context>>,
    free: Vec<u32>,
    functions: Vec<FunctionContexts>,
    cache: ContextCache,
}

/// The contexts of a function, so that a function does not take another's memory for late bytes.
#[derive(Debug)]
struct FunctionContexts {
    /// Slot by context id.
    slots: Vec<Option<u32>>,
    /// Receive contexts, by their protocols.
    tables: Vec<Table>,
}

/// A table, and which of its places are free.
#[derive(Debug)]
struct Table {
    contexts: Box<dyn ReceiveTable>,
    places: u32,
    free: Vec<u32>,
}

/// The receive context that a packet has found.
pub(crate) struct Flow<'a> {
    pub(crate) id: ContextId,
    /// Its place in the table.
    pub(crate) at: u32,
    pub(crate) table: &'a mut dyn ReceiveTable,
    /// The outermost protocol.
    pub(crate) protocol: ProtocolId,
    /// A layer may have a question, as far as is known.
    pub(crate) searches: bool,
}

impl FunctionContexts {
    fn new(quota: u32) -> FunctionContexts {
        FunctionContexts {
            slots: vec![None; quota as usize],
            tables: Vec::new(),
        }
    }

    /// The table for these protocols.
    fn table(&mut self, layers: &Layers) -> Result<usize, ErrorCode> {
        let runs = |table: &Table| table.contexts.ids() == layers.ids();
        if let Some(at) = self.tables.iter().position(runs) {
            return Ok(at);
        }
        self.tables.push(Table {
            contexts: table(layers, self.slots.len() as u32)?,
            places: 0,
            free: Vec::new(),
        });
        Ok(self.tables.len() - 1)
    }
}

/// "A context ≤ 1 KiB of real memory, cipher state included": the heap part, at most 864 bytes, is tested with the engine.
const _: () = assert!(size_of::<Option<Context>>() <= 160);

impl Contexts {
    pub(crate) fn new(cache: ContextCache) -> Contexts {
        Contexts {
            slots: Vec::new(),
            free: Vec::new(),
            functions: Vec::new(),
            cache,
        }
    }

    /// Makes room for the contexts of the next function, or of one that takes the place of a function without contexts.
    pub(crate) fn add_function(&mut self, function: FunctionId, quota: u32) {
        let at = usize::from(function.0);
        match self.functions.get_mut(at) {
            Some(old) => *old = FunctionContexts::new(quota),
            None => self.functions.push(FunctionContexts::new(quota)),
        }
    }

    /// Whether a function may make a context of this id.
    ///
    /// # Errors
    /// When the id is in use, or not below the quota.
    pub(crate) fn check_free(&self, function: FunctionId, id: ContextId) -> Result<(), ErrorCode> {
        match self.functions[usize::from(function.0)]
            .slots
            .get(id.0 as usize)
        {
            Some(None) => Ok(()),
            Some(Some(_)) => Err(ErrorCode::ContextExists),
            None => Err(ErrorCode::OverQuota),
        }
    }

    /// Makes a receive context, which is still to be [inserted](Self::insert).
    ///
    /// # Errors
    /// When its protocols can't be run, or not so inside each other.
    pub(crate) fn create_receive(
        &mut self,
        function: FunctionId,
        command: &CreateContext,
        flow_hash: u64,
        resources: &Resources,
    ) -> Result<ReceiveContext, ErrorCode> {
        let (tcpsn, layers) = (command.tcpsn, &command.layers);
        let contexts = &mut self.functions[usize::from(function.0)];
        let number = contexts.table(layers)?;
        let table = &mut contexts.tables[number];
        let at = table.free.pop().unwrap_or(table.places);
        if let Err(error) = table.contexts.create(at, tcpsn, layers, 0, resources) {
            if at < table.places {
                table.free.push(at);
            }
            return Err(error);
        }
        table.places = table.places.max(at + 1);
        let tags = table
            .contexts
            .buffers(at)
            .map_or(0, |buffers| buffers.tags());
        Ok(ReceiveContext {
            id: command.context,
            hash: flow_hash as u32,
            tags,
            protocol: layers.ids()[0],
            table: number as u16,
            at,
        })
    }

    /// The protocols of a receive context, outermost first.
    pub(crate) fn protocols(
        &self,
        function: FunctionId,
        context: &ReceiveContext,
    ) -> Vec<ProtocolId> {
        let tables = &self.functions[usize::from(function.0)].tables;
        tables[usize::from(context.table)].contexts.ids().to_vec()
    }

    /// Ends a receive context that is not, or not any more, in its slot. Gives how many buffers were mapped.
    pub(crate) fn destroy_receive(
        &mut self,
        function: FunctionId,
        context: &ReceiveContext,
    ) -> usize {
        let tables = &mut self.functions[usize::from(function.0)].tables;
        let table = &mut tables[usize::from(context.table)];
        let mapped = table
            .contexts
            .buffers(context.at)
            .map_or(0, |buffers| buffers.mapped());
        table.contexts.destroy(context.at);
        table.free.push(context.at);
        mapped
    }

    /// Adds a context; gives its slot.
    pub(crate) fn insert(
        &mut self,
        function: FunctionId,
        id: ContextId,
        context: Context,
        counters: &mut Counters,
    ) -> Result<u32, ErrorCode> {
        self.check_free(function, id)?;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.functions[usize::from(function.0)].slots[id.0 as usize] = Some(slot);
        self.slots[slot as usize] = Some(context);
        let traffic = self.cache.install(slot);
        counters.pcie_context_writeback += u64::from(traffic.written_back);
        Ok(slot)
    }

    /// Has all receive contexts of a function take each message for the one behind it.
    pub(crate) fn corrupt(&mut self, function: FunctionId) {
        for id in self.ids_of(function) {
            let Some(slot) = self.slot(function, id) else {
                continue;
            };
            if let Some(Context::Receive(context)) = self.slots[slot as usize] {
                let tables = &mut self.functions[usize::from(function.0)].tables;
                tables[usize::from(context.table)]
                    .contexts
                    .corrupt(context.at);
            }
        }
    }

    /// The ids of a function's contexts.
    pub(crate) fn ids_of(&self, function: FunctionId) -> Vec<ContextId> {
        let function = self.functions.get(usize::from(function.0));
        let slots = (0..).zip(function.into_iter().flat_map(|function| &function.slots));
        slots
            .filter(|(_, slot)| slot.is_some())
            .map(|(id, _)| ContextId(id))
            .collect()
    }

    /// Removes a context; gives the slot that it had.
    pub(crate) fn remove(&mut self, function: FunctionId, id: ContextId) -> Option<(u32, Context)> {
        let slots = &mut self.functions[usize::from(function.0)].slots;
        let slot = slots.get_mut(id.0 as usize)?.take()?;
        self.free.push(slot);
        self.cache.remove(slot);
        Some((slot, self.slots[slot as usize].take()?))
    }

    /// The transmit context of this id, to be changed.
    pub(crate) fn transmit(
        &mut self,
        function: FunctionId,
        id: ContextId,
        counters: &mut Counters,
    ) -> Option<&mut TransmitContext> {
        let slot = self.slot(function, id)?;
        self.touch(slot, counters);
        match &mut self.slots[slot as usize] {
            Some(Context::Transmit(context)) => Some(context),
            _ => None,
        }
    }

    /// Whether there is a transmit context of this id.
    pub(crate) fn has_transmit(&self, function: FunctionId, id: ContextId) -> bool {
        let slot = self.slot(function, id);
        slot.is_some_and(|slot| matches!(self.slots[slot as usize], Some(Context::Transmit(_))))
    }

    fn slot(&self, function: FunctionId, id: ContextId) -> Option<u32> {
        *self
            .functions
            .get(usize::from(function.0))?
            .slots
            .get(id.0 as usize)?
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

    /// The receive context in a slot of this function's, to be changed.
    pub(crate) fn receive(
        &mut self,
        function: FunctionId,
        slot: u32,
        counters: &mut Counters,
    ) -> Option<Flow<'_>> {
        self.touch(slot, counters);
        let Some(Context::Receive(context)) = self.slots.get(slot as usize)? else {
            return None;
        };
        let tables = &mut self.functions.get_mut(usize::from(function.0))?.tables;
        Some(Flow {
            id: context.id,
            at: context.at,
            table: &mut *tables[usize::from(context.table)].contexts,
            protocol: context.protocol,
            searches: true,
        })
    }

    /// The receive context of this id, to be changed.
    pub(crate) fn receive_by_id(
        &mut self,
        function: FunctionId,
        id: ContextId,
        counters: &mut Counters,
    ) -> Option<Flow<'_>> {
        let slot = self.receive_slot(function, id)?;
        self.receive(function, slot, counters)
    }

    /// The slot of the receive context of this id.
    pub(crate) fn receive_slot(&self, function: FunctionId, id: ContextId) -> Option<u32> {
        let slot = self.slot(function, id)?;
        let is_receive = matches!(self.slots[slot as usize], Some(Context::Receive(_)));
        is_receive.then_some(slot)
    }
}
