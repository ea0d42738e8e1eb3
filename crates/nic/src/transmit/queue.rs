//! One queue's work: the descriptor at hand, and the next one off its send ring.

use std::time::Instant;

use l5p::{Event, ProtocolId, ResourceId};
use wire::SeqNum;

use crate::accel;
use crate::context::{Context, Contexts};
use crate::device::Offloads;
use crate::frame::FrameMeta;
use crate::function::{Function, FunctionId, Queue};
use crate::receive;
use crate::ring::{
    AccelCommand, BadDescriptor, Command, ContextId, CreateContext, Direction, ErrorCode, Gather,
    MAX_RR_SLICES, Recover, Send, Slice, Verify,
};

use super::ahead::AheadBuffer;
use super::context::TransmitContext;
use super::job::{Job, SendEnv};
use super::lent::BorrowedPayload;
use super::recover::Prefix;
use super::scratch::{SCRATCH_BYTES, Scratch};

/// What the transmit side keeps per queue.
#[derive(Debug)]
pub(crate) struct QueueState {
    pub(super) job: Option<Job>,
    /// The slices of the descriptor at hand.
    pub(super) gather: Box<Gather>,
    pub(super) scratch: Scratch,
    pub(super) ahead: AheadBuffer,
    /// The place that the next `Send` is of, beside where its context is.
    seek: Option<Recover>,
    /// Index of the descriptor whose payload is lent.
    lent: Option<u64>,
}

impl QueueState {
    /// Drops what is on its way, and what recoveries have left.
    pub(crate) fn reset(&mut self) {
        self.job = None;
        self.seek = None;
        self.lent = None;
        self.scratch = Scratch::default();
    }

    /// Whether a descriptor's memory is still being read.
    pub(super) fn is_busy(&self) -> bool {
        self.job.is_some()
    }

    /// Index of the descriptor whose memory is still being read.
    pub(crate) fn unfinished(&self) -> Option<u64> {
        // What is lent is of the job, or of the one before it.
        self.lent.or(self.job.as_ref().map(|job| job.index))
    }

    /// Whoever had a payload has read it.
    pub(crate) fn end_lending(&mut self) {
        self.lent = None;
    }
}

impl Default for QueueState {
    fn default() -> Self {
        QueueState {
            job: None,
            gather: Box::new(Gather::EMPTY),
            scratch: Scratch::default(),
            ahead: AheadBuffer::default(),
            seek: None,
            lent: None,
        }
    }
}

/// What a step of a queue gave.
pub(super) enum Progress {
    Frame {
        len: usize,
        meta: FrameMeta,
        lent: Option<BorrowedPayload>,
    },
    /// A descriptor was worked off without a frame; it counts as `cost` bytes.
    Command {
        cost: u64,
    },
    Nothing,
}

/// Bytes that a command counts, for fairness: about what a context install costs.
const COMMAND_COST: u64 = 2048;

/// A refused descriptor: which one, and what to tell of it.
struct Refused {
    index: u64,
    context: Option<ContextId>,
    tcpsn: SeqNum,
    error: ErrorCode,
}

/// Whether the queue has anything to work on. While its completions wait for room in the receive ring it
/// has not.
pub(super) fn has_work(function: &mut Function, queue: usize) -> bool {
    let queue = &mut function.queues[queue];
    !queue.completions.is_full() && (queue.transmit.job.is_some() || queue.rings.send.has_work())
}

/// Whether any of a function's queues has anything to work on.
pub(crate) fn has_sends(function: &mut Function) -> bool {
    (0..function.queues.len()).any(|queue| has_work(function, queue))
}

/// Does the next piece of work: one frame, or one command.
pub(super) fn step(
    offloads: &mut Offloads,
    function: &mut Function,
    queue: usize,
    now: Instant,
    out: &mut [u8],
) -> Progress {
    if !has_work(function, queue) {
        return Progress::Nothing;
    }
    let result = match &function.queues[queue].transmit.job {
        Some(_) => frame(offloads, function, queue, out).map(Some),
        None => descriptor(offloads, function, queue, now, out),
    };
    match result {
        Ok(Some(progress)) => progress,
        Ok(None) => Progress::Nothing,
        Err(refused) => {
            function.counters.tx_errors += 1;
            let completions = &mut function.queues[queue].completions;
            completions.push(refused.index, refused.context, refused.tcpsn, refused.error);
            Progress::Command { cost: COMMAND_COST }
        }
    }
}

/// Takes the next descriptor off the ring and carries it out.
fn descriptor(
    offloads: &mut Offloads,
    function: &mut Function,
    queue: usize,
    now: Instant,
    out: &mut [u8],
) -> Result<Option<Progress>, Refused> {
    let Queue {
        rings, transmit, ..
    } = &mut function.queues[queue];
    // What came before is done with, and its slots are the host's again at the next publish.
    let Some(taken) = rings.send.take(&mut transmit.gather) else {
        return Ok(None);
    };
    function.regions.refresh();
    function.counters.pcie_descriptors += u64::from(taken.bytes);
    let index = taken.index;
    let refuse = |context, tcpsn, error| Refused {
        index,
        context,
        tcpsn,
        error,
    };
    let unmaps = matches!(taken.command, Ok(Command::Destroy(_) | Command::DelRr(_)));
    let done = match &taken.command {
        Err(BadDescriptor { context, error }) => {
            return Err(refuse(*context, SeqNum(0), *error));
        }
        Ok(Command::Send(send)) => {
            return self::send(offloads, function, queue, index, send, now, out).map(Some);
        }
        Ok(Command::Create(command)) => create(offloads, function, command)
            .map_err(|error| refuse(Some(command.context), command.tcpsn, error)),
        Ok(Command::Destroy(id)) => {
            destroy(offloads, function, *id).map_err(|error| refuse(Some(*id), SeqNum(0), error))
        }
        Ok(Command::Recover(command)) if command.toe.is_some() => {
            // That belongs on the command ring.
            Err(refuse(
                Some(command.context),
                command.start,
                ErrorCode::Unsupported,
            ))
        }
        Ok(Command::Recover(command)) if command.verify == Verify::Seek => {
            transmit.seek = Some(*command);
            // The keystream before the packet is made for nothing.
            let before = command.start.distance_to(command.resume) as usize;
            Ok(COMMAND_COST + before.min(SCRATCH_BYTES) as u64)
        }
        Ok(Command::Recover(command)) => recover(offloads, function, queue, command)
            .map_err(|error| refuse(Some(command.context), command.start, error)),
        Ok(Command::Resync(response)) => receive::resync_response(offloads, function, response)
            .map(|()| COMMAND_COST)
            .map_err(|error| refuse(Some(response.context), response.tcpsn, error)),
        Ok(Command::AddRr(state)) => {
            let mut slices = [Slice::NOTHING; MAX_RR_SLICES];
            let gathered = function.queues[queue].transmit.gather.slices();
            let slices = &mut slices[..gathered.len().min(MAX_RR_SLICES)];
            slices.copy_from_slice(&gathered[..slices.len()]);
            receive::add_rr_state(offloads, function, *state, slices)
                .map(|()| COMMAND_COST)
                .map_err(|error| refuse(Some(state.context), SeqNum(state.tag.into()), error))
        }
        Ok(Command::Load(resource, protocol)) => {
            load(offloads, function, queue, *resource, *protocol)
                .map_err(|error| refuse(None, SeqNum(resource.0.into()), error))
        }
        Ok(Command::Unload(resource)) => (function.resources.unload(*resource))
            .map(|()| COMMAND_COST)
            .map_err(|error| refuse(None, SeqNum(resource.0.into()), error)),
        // That ring is for packets.
        Ok(Command::Toe(_)) => Err(refuse(None, SeqNum(0), ErrorCode::Unsupported)),
        Ok(Command::Accel(command)) => accelerate(offloads, function, queue, command, now)
            .map_err(|error| refuse(None, SeqNum(command.name()), error)),
        Ok(Command::DelRr(state)) => receive::del_rr_state(offloads, function, *state)
            .map(|()| COMMAND_COST)
            .map_err(|error| refuse(Some(state.context), SeqNum(state.tag.into()), error)),
    };
    if unmaps && done.is_ok() {
        let unshown = &mut function.queues[queue].unshown;
        unshown.hold(index, &mut function.nic_packets);
    }
    done.map(|cost| Some(Progress::Command { cost }))
}

fn send(
    offloads: &mut Offloads,
    function: &mut Function,
    queue: usize,
    index: u64,
    send: &Send,
    now: Instant,
    out: &mut [u8],
) -> Result<Progress, Refused> {
    let context = send.context;
    let large = send.mss != 0 && send.payload_len > u32::from(send.mss);
    let bytes = u64::from(send.payload_len);
    let mut job = Job::new(send.clone(), index);
    if let Some(seek) = function.queues[queue].transmit.seek.take() {
        job.set_seek(seek);
    }
    let tcpsn = job.tcpsn();
    let refuse = |error| Refused {
        index,
        context,
        tcpsn,
        error,
    };
    if let Some(flow) = job.opens().filter(|_| !offloads.accel.is_idle()) {
        let (accel, device) = offloads.accel(now);
        accel.open(&device, function, &flow).map_err(refuse)?;
    }
    job.check(&mut send_env(function, queue).env, offloads)
        .map_err(refuse)?;
    if large {
        function.counters.tx_tso_packets += 1;
        function.counters.tx_tso_bytes += bytes;
    }
    function.queues[queue].transmit.job = Some(job);
    frame(offloads, function, queue, out)
}

/// Writes the next frame of the job at hand, which stays where it is: it is large.
fn frame(
    offloads: &mut Offloads,
    function: &mut Function,
    queue: usize,
    out: &mut [u8],
) -> Result<Progress, Refused> {
    let Sending {
        mut env,
        job,
        lent,
        counters,
    } = send_env(function, queue);
    let Some(at_hand) = job else {
        return Ok(Progress::Nothing);
    };
    env.lender = offloads.lends.then_some(queue);
    match at_hand.frame(&mut env, offloads, out) {
        Ok(made) => {
            env.counters.tx_packets += 1;
            env.counters.tx_bytes += made.len as u64;
            counters.tx_packets += 1;
            counters.tx_bytes += made.len as u64;
            *lent = made.lent.map(|_| at_hand.index);
            if at_hand.finished() {
                *job = None;
            }
            Ok(Progress::Frame {
                len: made.len,
                meta: made.meta,
                lent: made.lent,
            })
        }
        Err(error) => {
            let refused = Refused {
                index: at_hand.index,
                context: at_hand.send.context,
                tcpsn: at_hand.tcpsn(),
                error,
            };
            *job = None;
            Err(refused)
        }
    }
}

/// What is needed to send for a queue.
struct Sending<'a> {
    env: SendEnv<'a>,
    job: &'a mut Option<Job>,
    /// Index of the descriptor whose payload is lent.
    lent: &'a mut Option<u64>,
    counters: &'a mut crate::counters::QueueCounters,
}

fn send_env(function: &mut Function, queue: usize) -> Sending<'_> {
    let Queue {
        transmit, counters, ..
    } = &mut function.queues[queue];
    Sending {
        env: SendEnv {
            function: function.id,
            config: &function.config,
            regions: &function.regions,
            gather: &transmit.gather,
            scratch: &transmit.scratch,
            ahead: &mut transmit.ahead,
            counters: &mut function.counters,
            lender: None,
        },
        job: &mut transmit.job,
        lent: &mut transmit.lent,
        counters,
    }
}

/// Begins to make a resource of the bytes that the command at hand names, which are copied here.
fn load(
    offloads: &mut Offloads,
    function: &mut Function,
    queue: usize,
    resource: ResourceId,
    protocol: ProtocolId,
) -> Result<u64, ErrorCode> {
    let named = function.queues[queue].transmit.gather.slices().first();
    let named = *named.ok_or(ErrorCode::BadLength)?;
    let region = function.regions.get(named.region);
    let bytes = region.ok_or(ErrorCode::BadMemory).and_then(|region| {
        let mut bytes = vec![0; named.len as usize];
        match region.read(named.offset, &mut bytes) {
            true => Ok(bytes),
            false => Err(ErrorCode::BadMemory),
        }
    });
    let resources = &mut function.resources;
    resources.load(&mut offloads.maker, resource, protocol, bytes)?;
    Ok(COMMAND_COST + u64::from(named.len))
}

fn create(
    offloads: &mut Offloads,
    function: &mut Function,
    command: &CreateContext,
) -> Result<u64, ErrorCode> {
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
    Ok(COMMAND_COST)
}

/// Carries out a command to the acceleration.
fn accelerate(
    offloads: &mut Offloads,
    function: &mut Function,
    queue: usize,
    command: &AccelCommand,
    now: Instant,
) -> Result<u64, ErrorCode> {
    if let AccelCommand::Reinject { gso_size } = command {
        let frame = function.queues[queue].transmit.gather.slices()[0];
        return receive::reinject(offloads, function, now, frame, *gso_size).map(|()| COMMAND_COST);
    }
    // The command needs the whole function, and its slices.
    let transmit = &mut function.queues[queue].transmit;
    std::mem::swap(&mut transmit.gather, &mut offloads.gather);
    let device = accel::Device {
        now,
        nic: &offloads.config,
        hasher: &offloads.hasher,
        toe: &offloads.toe,
    };
    let done = offloads
        .accel
        .command(&device, function, command, &offloads.gather);
    done.map(|()| COMMAND_COST)
}

/// Destroys a context.
pub(crate) fn destroy(
    offloads: &mut Offloads,
    function: &mut Function,
    id: ContextId,
) -> Result<u64, ErrorCode> {
    match offloads.contexts.remove(function.id, id) {
        None => return Err(ErrorCode::NoContext),
        Some((_, Context::Transmit(context))) => {
            context.count(&mut function.counters, Event::TxContextsEnded, 1);
        }
        Some((slot, Context::Receive(context))) => {
            receive::destroyed(offloads, function, slot, &context);
        }
    }
    Ok(COMMAND_COST)
}

fn recover(
    offloads: &mut Offloads,
    function: &mut Function,
    queue: usize,
    command: &Recover,
) -> Result<u64, ErrorCode> {
    let recovery = offloads.next_recovery();
    let transmit = &mut function.queues[queue].transmit;
    let prefix = Prefix {
        gather: &transmit.gather,
        regions: &function.regions,
        scratch: &mut transmit.scratch,
        counters: &mut function.counters,
        recovery,
    };
    recover_context(&mut offloads.contexts, function.id, command, prefix)?;
    Ok(COMMAND_COST + transmit.gather.len())
}

/// Brings a transmit context to where the command says.
pub(super) fn recover_context(
    contexts: &mut Contexts,
    function: FunctionId,
    command: &Recover,
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
