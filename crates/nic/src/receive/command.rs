//! What a host commands of the receive side: contexts, mapped buffers, answers to resync requests.

use std::time::Instant;

use l5p::{Event, ProtocolId};
use probes::{Resumption, ResyncAnswer};

use crate::buffers::check_writable;
use crate::context::receive::recovery::Answer;
use crate::context::receive::rr_table::RrTable;
use crate::context::{Context, Flow, ReceiveContext};
use crate::delivery::Host;
use crate::function::Function;
use crate::offloads::Offloads;
use crate::probing::ContextName;
use crate::ring::{ContextId, CreateContext, ErrorCode, ResyncResponse, RrState, Slice};

/// Makes a receive context (`l5o_create`).
pub(crate) fn create_context(
    offloads: &mut Offloads,
    function: &mut Function,
    command: &CreateContext,
) -> Result<(), ErrorCode> {
    let created = insert(offloads, function, command);
    let event = match created {
        Ok(()) => Event::RxContexts,
        Err(_) => Event::RxContextsRefused,
    };
    for id in command.layers.ids() {
        function.counters.l5.count(*id, event, 1);
    }
    created
}

fn insert(
    offloads: &mut Offloads,
    function: &mut Function,
    command: &CreateContext,
) -> Result<(), ErrorCode> {
    let (flow, hash) = (command.flow, offloads.hasher.hash(&command.flow));
    if offloads.flows.find(hash, function.id.0, &flow).is_some() {
        return Err(ErrorCode::ContextExists);
    }
    let contexts = &mut offloads.contexts;
    contexts.check_free(function.id, command.context)?;
    let context = contexts.create_receive(function.id, command, hash, &function.resources)?;
    let tags = u32::from(context.tags);
    if tags > function.tags_left {
        contexts.destroy_receive(function.id, &context);
        return Err(ErrorCode::OverQuota);
    }
    let counters = &mut function.counters;
    let inserted = Context::Receive(context);
    let slot = contexts.insert(function.id, command.context, inserted, counters)?;
    offloads
        .flows
        .insert(hash, function.id.0, flow, slot)
        .map_err(|_| ErrorCode::ContextExists)?;
    function.tags_left -= tags;
    let protocol = command.layers.ids()[0];
    name(function, command.context).created(protocol, &command.flow);
    Ok(())
}

/// Maps a buffer (`l5o_add_rr_state`).
pub(crate) fn add_rr_state(
    offloads: &mut Offloads,
    function: &mut Function,
    state: RrState,
    slices: &[Slice],
) -> Result<(), ErrorCode> {
    let (protocol, mapped) =
        with_buffers(offloads, function, state.context, |buffers, function| {
            for slice in slices {
                check_writable(&function.regions, *slice)?;
            }
            buffers.map(state.tag, slices)
        })?;
    let event = match mapped {
        Ok(()) => Event::RxBuffersMapped,
        Err(_) => Event::RxBuffersRefused,
    };
    function.counters.l5.count(protocol, event, 1);
    mapped
}

/// Unmaps a buffer (`l5o_del_rr_state`), and shows the host all that was placed in it.
pub(crate) fn del_rr_state(
    offloads: &mut Offloads,
    function: &mut Function,
    state: RrState,
) -> Result<(), ErrorCode> {
    let unmap = |buffers: &mut RrTable, _: &Function| buffers.unmap(state.tag);
    let (protocol, unmapped) = with_buffers(offloads, function, state.context, unmap)?;
    unmapped?;
    let counters = &mut function.counters;
    counters.l5.count(protocol, Event::RxBuffersUnmapped, 1);
    for_each_host(function, |host| host.show_placed(state.context));
    Ok(())
}

/// Calls `change` with the context of this id, if its innermost protocol places; gives that protocol too.
fn with_buffers<R>(
    offloads: &mut Offloads,
    function: &mut Function,
    context: ContextId,
    change: impl FnOnce(&mut RrTable, &Function) -> R,
) -> Result<(ProtocolId, R), ErrorCode> {
    let counters = &mut function.counters;
    let contexts = &mut offloads.contexts;
    let flow = contexts.receive_by_id(function.id, context, counters);
    let flow = flow.ok_or(ErrorCode::NoContext)?;
    let innermost = *flow.table.ids().last().ok_or(ErrorCode::NoContext)?;
    let buffers = flow.table.buffers(flow.at).ok_or(ErrorCode::NoContext)?;
    Ok((innermost, change(buffers, function)))
}

/// Takes the host's answer to a resync request (`l5o_resync_rx_resp`).
pub(crate) fn resync_response(
    offloads: &mut Offloads,
    function: &mut Function,
    response: &ResyncResponse,
) -> Result<(), ErrorCode> {
    let counters = &mut function.counters;
    let contexts = &mut offloads.contexts;
    let flow = contexts.receive_by_id(function.id, response.context, counters);
    let Flow { at, table, .. } = flow.ok_or(ErrorCode::NoContext)?;
    let (layer, position) = match response.inner {
        None => (0, response.tcpsn),
        Some(inner) => {
            let position = table.position_of(response.tcpsn, inner.offset);
            (inner.layer, position)
        }
    };
    let protocol = table.ids().get(usize::from(layer));
    let protocol = *protocol.ok_or(ErrorCode::BadParameters)?;
    let index = response.confirmed.then_some(response.index);
    let (event, answer) = match table.answer(at, layer, position, index) {
        Answer::Resumed => (Event::RxConfirmed, ResyncAnswer::Confirmed),
        Answer::Refused => (Event::RxRefuted, ResyncAnswer::Refused),
        Answer::Stale => (Event::RxStaleAnswers, ResyncAnswer::Stale),
    };
    probes::resync_response(&|| probes::ResyncResponse {
        function: function.id.0,
        context: response.context.0,
        protocol: protocol.0,
        seq: response.tcpsn.0,
        answer,
    });
    counters.l5.count(protocol, event, 1);
    if event == Event::RxConfirmed {
        name(function, response.context).resumed(protocol, Resumption::Confirmed);
    }
    Ok(())
}

/// Takes the answers whose time has come, of a function whose answers count late. The contexts of some may have gone.
pub(crate) fn answer_late(offloads: &mut Offloads, function: &mut Function, now: Instant) {
    while let Some(response) = function.faults.take_due(now) {
        let _ = resync_response(offloads, function, &response);
    }
}

/// Ends a context, which has been taken out of its slot (`l5o_destroy`). Nothing is written into its buffers any more.
pub(crate) fn destroyed(
    offloads: &mut Offloads,
    function: &mut Function,
    slot: u32,
    context: &ReceiveContext,
) {
    let ids = offloads.contexts.protocols(function.id, context);
    let mapped = offloads.contexts.destroy_receive(function.id, context);
    offloads.flows.remove(context.hash, slot);
    function.tags_left += u32::from(context.tags);
    for id in &ids {
        function.counters.l5.count(*id, Event::RxContextsEnded, 1);
    }
    if let Some(innermost) = ids.last() {
        let counters = &mut function.counters;
        counters
            .l5
            .count(*innermost, Event::RxBuffersUnmapped, mapped as u64);
    }
    for_each_host(function, |host| host.show_all(context.id));
    name(function, context.id).destroyed();
}

fn name(function: &Function, context: ContextId) -> ContextName {
    ContextName::new(function.id, context)
}

fn for_each_host(function: &mut Function, mut show: impl FnMut(&mut Host<'_>)) {
    for queue in 0..function.queues.len() {
        if let Some(mut host) = Host::of(function, queue) {
            show(&mut host);
        }
    }
}
