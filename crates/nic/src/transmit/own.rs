//! Segments of connections that the device runs: transmit jobs as those of the hosts' `Send`s, one at a time for each function.

use crate::context::transmit::recover::Prefix;
use crate::frame::FrameMeta;
use crate::function::Function;
use crate::offloads::Offloads;
use crate::ring::{ErrorCode, RecoverContext, Send};
use crate::send::Stopped;
use crate::send::job::{Job, SendEnv};

/// Begins a segment, of which `offloads.gather` has the slices: nothing else is on its way.
///
/// # Errors
/// When it can't be sent; nothing of it was.
pub(crate) fn begin(
    offloads: &mut Offloads,
    function: &mut Function,
    connection: u32,
    send: &Send,
) -> Result<(), Stopped> {
    debug_assert!(function.own.work.job.is_none());
    std::mem::swap(&mut function.own.work.gather, &mut offloads.gather);
    function.own.connection = connection;
    let large = send.mss != 0 && send.payload_len > u32::from(send.mss);
    let bytes = u64::from(send.payload_len);
    let mut job = Job::new(send, 0);
    let mut env = send_env(offloads, function);
    job.check(&mut env).map_err(|error| Stopped {
        connection,
        tcpsn: job.tcpsn(),
        error,
    })?;
    if large {
        env.counters.tx_tso_packets += 1;
        env.counters.tx_tso_bytes += bytes;
    }
    function.own.work.job = Some(job);
    Ok(())
}

/// Writes the next frame of the segment that is on its way. `None` when none is.
///
/// # Errors
/// When the rest of it can't be sent.
pub(crate) fn frame(
    offloads: &mut Offloads,
    function: &mut Function,
    out: &mut [u8],
) -> Result<Option<(usize, FrameMeta)>, Stopped> {
    let Some(mut job) = function.own.work.job.take() else {
        return Ok(None);
    };
    let connection = function.own.connection;
    let (packets, bytes) = (job.packets(), job.payload_sent());
    let mut env = send_env(offloads, function);
    let made = job.frame(&mut env, out).map_err(|error| Stopped {
        connection,
        tcpsn: job.tcpsn(),
        error,
    })?;
    let counters = env.counters;
    counters.tx_packets += 1;
    counters.tx_bytes += made.len as u64;
    counters.toe_tx_packets += u64::from(job.packets() - packets);
    counters.toe_tx_bytes += u64::from(job.payload_sent() - bytes);
    if !job.finished() {
        function.own.work.job = Some(job);
    }
    Ok(Some((made.len, made.meta)))
}

/// Brings a transmit context to where a connection of the device's goes on with it; `function.own.commands` has the slices.
pub(crate) fn recover(
    offloads: &mut Offloads,
    function: &mut Function,
    command: &RecoverContext,
) -> Result<(), ErrorCode> {
    debug_assert!(
        function.own.work.job.is_none(),
        "it may be in the scratch memory"
    );
    let recovery = offloads.next_recovery();
    let own = &mut function.own;
    let prefix = Prefix {
        gather: &own.commands.0,
        regions: &function.regions,
        scratch: &mut own.work.scratch,
        counters: &mut function.counters,
        recovery,
    };
    super::commands::recover_context(&mut offloads.contexts, function.id, command, prefix)
}

fn send_env<'a>(offloads: &'a mut Offloads, function: &'a mut Function) -> SendEnv<'a> {
    SendEnv {
        nic: &offloads.config,
        contexts: &mut offloads.contexts,
        hasher: &offloads.hasher,
        function: function.id,
        config: &function.config,
        regions: &function.regions,
        gather: &function.own.work.gather,
        scratch: &function.own.work.scratch,
        ahead: &mut function.own.work.ahead,
        counters: &mut function.counters,
        borrows_from: None,
    }
}
