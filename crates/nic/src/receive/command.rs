//! What a host commands of the receive side: contexts, mapped buffers, answers to resync requests.

use l5p::nvme;
use l5p::tls::{CryptoInfo, Version};

use super::buffers::is_writable;
use super::context::{PlacingContext, ReceiveContext};
use super::queue::Host;
use super::recovery::Answer;
use super::stacked::Inner;
use crate::context::{Context, Found};
use crate::counters::Counters;
use crate::device::Offloads;
use crate::function::Function;
use crate::ring::{ContextId, CreateContext, ErrorCode, Protocols, ResyncResponse, RrState, Slice};

/// Makes a receive context (`l5o_create`).
pub(crate) fn create_context(
    offloads: &mut Offloads,
    function: &mut Function,
    command: &CreateContext,
) -> Result<(), ErrorCode> {
    let created = insert(offloads, function, command);
    let counters = &mut function.counters;
    let (tls, nvme) = match &command.protocols {
        Protocols::Tls(_) => (1, 0),
        Protocols::Nvme(_) => (0, 1),
        Protocols::NvmeInTls(..) => (1, 1),
    };
    match created {
        Ok(()) => {
            counters.rx_tls_ctx += tls;
            counters.rx_nvmeotcp_sk_add += nvme;
        }
        Err(_) => counters.rx_nvmeotcp_sk_add_fail += nvme,
    }
    created
}

fn insert(
    offloads: &mut Offloads,
    function: &mut Function,
    command: &CreateContext,
) -> Result<(), ErrorCode> {
    let hash = offloads.hasher.hash(&command.flow);
    let flow = command.flow;
    if offloads.flows.find(hash, function.id.0, &flow).is_some() {
        return Err(ErrorCode::ContextExists);
    }
    let (context, tags) = match &command.protocols {
        Protocols::Tls(crypto) => {
            let context = ReceiveContext::new(command, crypto, hash);
            (Context::Receive(context), 0)
        }
        Protocols::Nvme(nvme) => (placing(function, command, nvme, None, hash)?, nvme.commands),
        // NVMe over TLS is TLS 1.3 (NVMe/TCP 1.0 §3.6.1).
        Protocols::NvmeInTls(tls, _) if tls.version != Version::Tls13 => {
            return Err(ErrorCode::Unsupported);
        }
        Protocols::NvmeInTls(tls, nvme) => {
            let context = placing(function, command, nvme, Some(tls), hash)?;
            (context, nvme.commands)
        }
    };
    let counters = &mut function.counters;
    let slot = offloads
        .contexts
        .insert(function.id, command.context, context, counters)?;
    offloads
        .flows
        .insert(hash, function.id.0, flow, slot)
        .map_err(|_| ErrorCode::ContextExists)?;
    function.tags_left -= u32::from(tags);
    Ok(())
}

/// A context that places, if the function may have so many tags.
fn placing(
    function: &Function,
    command: &CreateContext,
    nvme: &nvme::Parameters,
    tls: Option<&CryptoInfo>,
    hash: u64,
) -> Result<Context, ErrorCode> {
    if u32::from(nvme.commands) > function.tags_left {
        return Err(ErrorCode::OverQuota);
    }
    let context = PlacingContext::new(command, nvme, tls, hash);
    Ok(Context::Placing(context.into()))
}

/// Maps a buffer (`l5o_add_rr_state`).
pub(crate) fn add_rr_state(
    offloads: &mut Offloads,
    function: &mut Function,
    state: RrState,
    slices: &[Slice],
) -> Result<(), ErrorCode> {
    let mapped = map(offloads, function, state, slices);
    match mapped {
        Ok(()) => function.counters.rx_nvmeotcp_ddp_setup += 1,
        Err(_) => function.counters.rx_nvmeotcp_ddp_setup_fail += 1,
    }
    mapped
}

fn map(
    offloads: &mut Offloads,
    function: &mut Function,
    state: RrState,
    slices: &[Slice],
) -> Result<(), ErrorCode> {
    let context = offloads
        .contexts
        .placing(function.id, state.context, &mut function.counters)
        .ok_or(ErrorCode::NoContext)?;
    for slice in slices {
        if !is_writable(&function.regions, *slice) {
            let region = function.regions.get(slice.region);
            return Err(match region {
                Some(region) if !region.writable() => ErrorCode::ReadOnlyMemory,
                _ => ErrorCode::BadMemory,
            });
        }
    }
    context.pdus.observer.table.map(state.tag, slices)
}

/// Unmaps a buffer (`l5o_del_rr_state`), and shows the host all that was placed in it.
pub(crate) fn del_rr_state(
    offloads: &mut Offloads,
    function: &mut Function,
    state: RrState,
) -> Result<(), ErrorCode> {
    let context = offloads
        .contexts
        .placing(function.id, state.context, &mut function.counters)
        .ok_or(ErrorCode::NoContext)?;
    context.pdus.observer.table.unmap(state.tag)?;
    function.counters.rx_nvmeotcp_ddp_teardown += 1;
    show_placed(function, state.context);
    Ok(())
}

/// Takes the host's answer to a resync request (`l5o_resync_rx_resp`).
pub(crate) fn resync_response(
    offloads: &mut Offloads,
    function: &mut Function,
    response: &ResyncResponse,
) -> Result<(), ErrorCode> {
    let contexts = &mut offloads.contexts;
    let slot = contexts
        .receive_slot(function.id, response.context)
        .ok_or(ErrorCode::NoContext)?;
    let counters = &mut function.counters;
    let found = contexts
        .receive(function.id, slot, counters)
        .ok_or(ErrorCode::NoContext)?;
    let ResyncResponse {
        tcpsn,
        inner,
        confirmed,
        index,
        ..
    } = *response;
    match (found, inner) {
        (Found::Tls(flow), None) => {
            let recovery = &mut flow.context.recovery;
            let answer = recovery.answer(flow.shared, tcpsn, confirmed, index);
            count_records(answer, counters);
        }
        (Found::Placing(flow), inner) => match (&mut flow.context.outer, inner) {
            (None, None) => {
                let pdus = &mut flow.context.pdus;
                let answer = pdus.answer(flow.pdus, tcpsn, confirmed, index);
                count_pdus(answer, counters);
            }
            (Some(outer), None) => {
                let answer = outer.records.answer(flow.records, tcpsn, confirmed, index);
                count_records(answer, counters);
            }
            (Some(outer), Some(offset)) => {
                let inner = Inner {
                    pdus: &mut flow.context.pdus,
                    shared: flow.pdus,
                };
                let answer = outer.answer(inner, (tcpsn, offset), confirmed, index);
                count_pdus(answer, counters);
            }
            (None, Some(_)) => return Err(ErrorCode::BadParameters),
        },
        (Found::Tls(_), Some(_)) => return Err(ErrorCode::BadParameters),
    }
    Ok(())
}

fn count_records(answer: Answer, counters: &mut Counters) {
    match answer {
        Answer::Resumed => counters.rx_tls_resync_res_ok += 1,
        Answer::Refused => counters.rx_tls_resync_res_retry += 1,
        Answer::Stale => counters.rx_tls_resync_res_skip += 1,
    }
}

fn count_pdus(answer: Answer, counters: &mut Counters) {
    match answer {
        Answer::Resumed => counters.rx_nvmeotcp_resync_res_ok += 1,
        Answer::Refused => counters.rx_nvmeotcp_resync_res_retry += 1,
        Answer::Stale => counters.rx_nvmeotcp_resync_res_skip += 1,
    }
}

/// Ends a context, which has been taken out of its slot (`l5o_destroy`).
pub(crate) fn destroyed(
    offloads: &mut Offloads,
    function: &mut Function,
    slot: u32,
    mut context: ReceiveContext,
) {
    context
        .recovery
        .release(offloads.contexts.records(function.id));
    offloads.flows.remove(context.hash, slot);
    function.counters.rx_tls_del += 1;
}

/// As [`destroyed`], for a context that places. Nothing is written into its buffers any more.
pub(crate) fn placing_destroyed(
    offloads: &mut Offloads,
    function: &mut Function,
    (slot, id): (u32, ContextId),
    mut context: Box<PlacingContext>,
) {
    context.pdus.release(offloads.contexts.pdus(function.id));
    if let Some(outer) = &mut context.outer {
        let shared = offloads.contexts.layered_records(function.id);
        outer.records.release(shared);
        function.counters.rx_tls_del += 1;
    }
    offloads.flows.remove(context.hash, slot);
    function.tags_left += u32::from(context.tags);
    function.counters.rx_nvmeotcp_ddp_teardown += context.pdus.observer.table.mapped() as u64;
    function.counters.rx_nvmeotcp_sk_del += 1;
    show_placed(function, id);
}

fn show_placed(function: &mut Function, context: ContextId) {
    for queue in 0..function.queues.len() {
        if let Some(mut host) = Host::of(function, queue) {
            host.show_placed(context);
        }
    }
}
