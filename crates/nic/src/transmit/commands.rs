//! The commands of a send ring.

use std::time::Instant;

use l5p::{Event, ProtocolId, ResourceId};
use shared::SharedSliceMut;
use wire::SeqNum;

use crate::accel;
use crate::buffers;
use crate::context::transmit::TransmitContext;
use crate::context::transmit::recover::Prefix;
use crate::context::transmit::scratch::SCRATCH_BYTES;
use crate::context::{Context, Contexts};
use crate::delivery;
use crate::function::Function;
use crate::offloads::Offloads;
use crate::receive;
use crate::ring::{
    AccelCommand, Command, ContextId, CreateContext, Direction, ErrorCode, MAX_RR_SLICES,
    RSS_BYTES, RecoverContext, RrState, RssSettings, Slice, Verify,
};
use crate::switch::FunctionId;

/// Bytes that a command counts, for fairness: about what a context install costs.
pub(super) const COMMAND_COST: u64 = 2048;

/// Carries a command out, with the slices in the queue's gather list. Gives the bytes that it counts.
pub(super) fn carry_out(
    offloads: &mut Offloads,
    function: &mut Function,
    queue: usize,
    command: &Command,
    now: Instant,
) -> Result<u64, ErrorCode> {
    match command {
        Command::Create(command) => create(offloads, function, command),
        Command::Destroy(id) => destroy(offloads, function, *id),
        Command::Recover(command) if command.toe.is_none() => {
            recover(offloads, function, queue, command)
        }
        Command::Resync(response) => match function.faults.holds(now, response) {
            true => Ok(()),
            false => receive::resync_response(offloads, function, response),
        },
        Command::AddRr(state) => add_rr_state(offloads, function, queue, *state),
        Command::DelRr(state) => receive::del_rr_state(offloads, function, *state),
        Command::Load(resource, protocol) => {
            let read = load(offloads, function, queue, *resource, *protocol)?;
            return Ok(COMMAND_COST + read);
        }
        Command::Unload(resource) => function.resources.unload(*resource),
        Command::SetRss => set_rss(function, queue),
        Command::QueryRss => query_rss(function, queue),
        Command::SetFilter(filter) => {
            function.filter = *filter;
            Ok(())
        }
        Command::Accel(command) => accelerate(offloads, function, queue, command, now),
        // These belong on the command ring, and a packet is no command.
        Command::Recover(_) | Command::Toe(_) | Command::Send(_) => Err(ErrorCode::Unsupported),
    }?;
    Ok(COMMAND_COST + read_by(function, queue, command))
}

/// What a completion says that a command was about.
pub(super) fn subject(command: &Command) -> (Option<ContextId>, SeqNum) {
    match command {
        Command::Create(command) => (Some(command.context), command.tcpsn),
        Command::Destroy(id) => (Some(*id), SeqNum(0)),
        Command::Recover(command) => (Some(command.context), command.start),
        Command::Resync(response) => (Some(response.context), response.tcpsn),
        Command::AddRr(state) | Command::DelRr(state) => {
            (Some(state.context), SeqNum(state.tag.into()))
        }
        Command::Load(resource, _) | Command::Unload(resource) => (None, SeqNum(resource.0.into())),
        Command::Accel(command) => (None, SeqNum(command.name())),
        Command::SetRss
        | Command::QueryRss
        | Command::SetFilter(_)
        | Command::Toe(_)
        | Command::Send(_) => (None, SeqNum(0)),
    }
}

/// Bytes that a recovery has read, or will have the keystream made of for nothing.
fn read_by(function: &Function, queue: usize, command: &Command) -> u64 {
    match command {
        Command::Recover(command) if command.verify == Verify::Seek => {
            let before = command.start.distance_to(command.resume) as usize;
            before.min(SCRATCH_BYTES) as u64
        }
        Command::Recover(_) => function.queues[queue].transmit.gather.len(),
        _ => 0,
    }
}

fn add_rr_state(
    offloads: &mut Offloads,
    function: &mut Function,
    queue: usize,
    state: RrState,
) -> Result<(), ErrorCode> {
    let mut slices = [Slice::NOTHING; MAX_RR_SLICES];
    let gathered = function.queues[queue].transmit.gather.slices();
    let slices = &mut slices[..gathered.len().min(MAX_RR_SLICES)];
    slices.copy_from_slice(&gathered[..slices.len()]);
    receive::add_rr_state(offloads, function, state, slices)
}

/// Begins to make a resource of the bytes that the command at hand names, which are copied here. Gives how many.
fn load(
    offloads: &mut Offloads,
    function: &mut Function,
    queue: usize,
    resource: ResourceId,
    protocol: ProtocolId,
) -> Result<u64, ErrorCode> {
    let named = function.queues[queue].transmit.gather.slices().first();
    let named = *named.ok_or(ErrorCode::BadLength)?;
    let located = function.regions.locate(named);
    let read = || {
        let (region, offset) = located.ok_or(ErrorCode::BadMemory)?;
        let mut bytes = vec![0; named.len as usize];
        match region.read(offset, &mut bytes) {
            true => Ok(bytes),
            false => Err(ErrorCode::BadMemory),
        }
    };
    let resources = &mut function.resources;
    resources.load(&mut offloads.maker, resource, protocol, read)?;
    Ok(u64::from(named.len))
}

/// Spreads received packets as the bytes say that the command at hand names.
fn set_rss(function: &mut Function, queue: usize) -> Result<(), ErrorCode> {
    let named = function.queues[queue].transmit.gather.slices().first();
    let named = *named.ok_or(ErrorCode::BadLength)?;
    let located = function.regions.locate(named);
    let (region, offset) = located.ok_or(ErrorCode::BadMemory)?;
    let mut bytes = [0; RSS_BYTES];
    if !region.read(offset, &mut bytes) {
        return Err(ErrorCode::BadMemory);
    }
    let settings = RssSettings::decode(&bytes, function.config.queues)?;
    // A flow's packets that have come are on the ring of its queue before those that go to another.
    delivery::end_sessions(function);
    function.rss.set(settings);
    Ok(())
}

/// Writes how they are spread.
fn query_rss(function: &mut Function, queue: usize) -> Result<(), ErrorCode> {
    let named = function.queues[queue].transmit.gather.slices().first();
    let named = *named.ok_or(ErrorCode::BadLength)?;
    buffers::check_writable(&function.regions, named)?;
    let bytes = function.rss.settings().encode();
    let put = |memory: SharedSliceMut<'_>| memory.copy_from(&bytes);
    let written = buffers::write(&function.regions, named, 0, RSS_BYTES as u32, put);
    written.ok_or(ErrorCode::BadMemory)
}

fn create(
    offloads: &mut Offloads,
    function: &mut Function,
    command: &CreateContext,
) -> Result<(), ErrorCode> {
    if function.faults.refuses() {
        function.counters.contexts_fault_refused += 1;
        return Err(ErrorCode::OverQuota);
    }
    match command.direction {
        Direction::Transmit => {
            let flow_hash = offloads.hasher.hash(&command.flow);
            let context = TransmitContext::new(command, flow_hash, &function.resources)?;
            offloads.contexts.insert(
                function.id,
                command.context,
                Context::Transmit(context),
                &mut function.counters,
            )?;
            for id in command.layers.ids() {
                function.counters.l5.count(*id, Event::TxContexts, 1);
            }
        }
        Direction::Receive => receive::create_context(offloads, function, command)?,
    }
    Ok(())
}

/// Carries out a command to the acceleration.
fn accelerate(
    offloads: &mut Offloads,
    function: &mut Function,
    queue: usize,
    command: &AccelCommand,
    now: Instant,
) -> Result<(), ErrorCode> {
    if let AccelCommand::Reinject { gso_size } = command {
        let frame = function.queues[queue].transmit.gather.slices()[0];
        return receive::reinject(offloads, function, now, frame, *gso_size);
    }
    // The command needs the whole function, and its slices.
    let transmit = &mut function.queues[queue].transmit;
    std::mem::swap(&mut transmit.gather, &mut offloads.gather);
    let is_owned = |flow| offloads.owner_of_ours(function.id, flow).is_some();
    let owned = match command {
        AccelCommand::Splice(splice) => is_owned(&splice.a.flow) || is_owned(&splice.b.flow),
        AccelCommand::Teardown(teardown) => is_owned(&teardown.flow),
        _ => false,
    };
    let device = accel::Device {
        now,
        nic: &offloads.config,
        hasher: &offloads.hasher,
    };
    let accel = &mut offloads.accel;
    accel.command(&device, function, command, owned, &offloads.gather)
}

/// Destroys a context.
pub(crate) fn destroy(
    offloads: &mut Offloads,
    function: &mut Function,
    id: ContextId,
) -> Result<(), ErrorCode> {
    match offloads.contexts.remove(function.id, id) {
        None => return Err(ErrorCode::NoContext),
        Some((_, Context::Transmit(context))) => {
            context.count(&mut function.counters, Event::TxContextsEnded, 1);
        }
        Some((slot, Context::Receive(context))) => {
            receive::destroyed(offloads, function, slot, &context);
        }
    }
    Ok(())
}

fn recover(
    offloads: &mut Offloads,
    function: &mut Function,
    queue: usize,
    command: &RecoverContext,
) -> Result<(), ErrorCode> {
    let recovery = offloads.next_recovery();
    let transmit = &mut function.queues[queue].transmit;
    if command.verify == Verify::Seek {
        let is_there = offloads.contexts.has_transmit(function.id, command.context);
        transmit.seek = is_there.then_some(*command);
        return match is_there {
            true => Ok(()),
            false => Err(ErrorCode::NoContext),
        };
    }
    let prefix = Prefix {
        gather: &transmit.gather,
        regions: &function.regions,
        scratch: &mut transmit.scratch,
        counters: &mut function.counters,
        recovery,
    };
    recover_context(&mut offloads.contexts, function.id, command, prefix)
}

/// Brings a transmit context to where the command says.
pub(super) fn recover_context(
    contexts: &mut Contexts,
    function: FunctionId,
    command: &RecoverContext,
    prefix: Prefix<'_>,
) -> Result<(), ErrorCode> {
    let Prefix {
        gather,
        regions,
        scratch,
        counters,
        recovery,
    } = prefix;
    let context = contexts
        .transmit(function, command.context, counters)
        .ok_or(ErrorCode::NoContext)?;
    context.count(counters, Event::TxRecoveries, 1);
    let result = context.recover(
        command,
        Prefix {
            gather,
            regions,
            scratch,
            counters: &mut *counters,
            recovery,
        },
    );
    if result == Err(ErrorCode::SourceChanged) {
        context.count_outermost(counters, Event::TxSourceChanged, 1);
    }
    result
}
