//! A function inside the device: its rings, memory and counters.

use std::collections::VecDeque;
use std::time::Instant;

use probes::DropReason;
use wire::SeqNum;

use crate::buffers::Buffers;
use crate::counters::Counters;
use crate::faults::Faults;
use crate::lro::Sessions;
use crate::probing::drop_packet;
use crate::resources::{Maker, Resources};
use crate::ring::{
    ContextId, DeviceFunction, DeviceQueue, DeviceRegions, ErrorCode, FunctionConfig,
    MulticastFilter, RecvDescriptor,
};
use crate::rss::Rss;
use crate::rx_queue::RxQueue;
use crate::send::{OwnSegments, SendState};
use crate::switch::FunctionId;

/// The device's state of a function.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) id: FunctionId,
    pub(crate) config: FunctionConfig,
    pub(crate) regions: DeviceRegions,
    /// Tags that contexts may still have.
    pub(crate) tags_left: u32,
    pub(crate) resources: Resources,
    pub(crate) rss: Rss,
    pub(crate) filter: MulticastFilter,
    pub(crate) queues: Vec<Queue>,
    /// What was received for connections that the device runs.
    pub(crate) nic_packets: RxQueue,
    /// What these send.
    pub(crate) own: OwnSegments,
    /// The host is woken also when slots of a send or command ring become free.
    pub(crate) tells_sent: bool,
    /// Faults that are made on purpose.
    pub(crate) faults: Faults,
    /// How often it was reset.
    epoch: u32,
    pub(crate) counters: Counters,
}

/// The device's state of a queue.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) rings: DeviceQueue,
    pub(crate) completions: Completions,
    pub(crate) transmit: SendState,
    /// Commands before this slot of the command ring may be carried out: the send ring was empty after they had been published.
    pub(crate) commands_until: u64,
    pub(crate) unshown: Unshown,
    /// The reset of the function is to be reported.
    pub(crate) reset_due: bool,
    pub(crate) receive: ReceiveState,
}

/// What the receive side keeps per queue.
#[derive(Debug, Default)]
pub(crate) struct ReceiveState {
    pub(crate) sessions: Sessions,
    pub(crate) buffers: Buffers,
    /// From when on resync requests count their time.
    epoch: Option<Instant>,
}

impl ReceiveState {
    /// Places in the receive ring that open sessions will take: nothing else may.
    pub(crate) fn reserved(&self) -> u32 {
        self.sessions.descriptors()
    }

    pub(crate) fn milliseconds(&mut self, now: Instant) -> u32 {
        let epoch = *self.epoch.get_or_insert(now);
        now.saturating_duration_since(epoch).as_millis() as u32
    }
}

impl Function {
    /// Its resources may take so many bytes.
    pub(crate) fn new(id: FunctionId, device: DeviceFunction, resource_bytes: usize) -> Function {
        let queues = device.queues.into_iter().map(|rings| Queue {
            rings,
            completions: Completions::default(),
            transmit: SendState::default(),
            commands_until: 0,
            unshown: Unshown::default(),
            reset_due: false,
            receive: ReceiveState::default(),
        });
        Function {
            id,
            config: device.config,
            regions: device.regions,
            tags_left: device.config.tags,
            resources: Resources::new(resource_bytes),
            rss: Rss::new(device.config.queues),
            filter: MulticastFilter::ALL,
            queues: queues.collect(),
            nic_packets: RxQueue::new(0),
            own: OwnSegments::default(),
            tells_sent: device.tells_sent,
            faults: Faults::default(),
            epoch: 0,
            counters: Counters::default(),
        }
    }

    /// Counts the packet at hand, which is dropped, and tells tracers.
    #[cold]
    pub(crate) fn drop_packet(&mut self, reason: DropReason) {
        drop_packet(&mut self.counters, self.id, reason);
    }

    /// In the place of a function that has gone.
    pub(crate) fn vacant(id: FunctionId) -> Function {
        Function::new(id, DeviceFunction::none(), 0)
    }

    /// Whether it is in the place of a function that has gone.
    pub(crate) fn is_vacant(&self) -> bool {
        self.queues.is_empty()
    }

    /// Writes a descriptor to a queue's receive ring, where room for packets and completions stays. False when the ring is full.
    #[must_use]
    pub(crate) fn report(&mut self, queue: usize, descriptor: RecvDescriptor) -> bool {
        self.report_all(queue, &[descriptor])
    }

    /// Forgets what is posted, being done and not reported yet; buffers that were taken are used for other packets. The host is to
    /// be notified.
    pub(crate) fn reset(&mut self) {
        self.resources.clear();
        self.rss.reset();
        self.filter = MulticastFilter::ALL;
        self.own.reset();
        self.faults.reset();
        self.epoch = self.epoch.wrapping_add(1);
        for queue in &mut self.queues {
            queue.transmit.reset();
            queue.completions = Completions::default();
            queue.unshown = Unshown::default();
            queue.rings.send.skip();
            queue.rings.commands.skip();
            queue.reset_due = true;
        }
    }

    /// Tells the host that the function was reset, if it does not know. False when that waits for room.
    pub(crate) fn report_reset(&mut self) -> bool {
        let epoch = self.epoch;
        let mut all = true;
        for at in 0..self.queues.len() {
            if self.queues[at].reset_due {
                let reported = self.report(at, RecvDescriptor::Reset { epoch });
                self.queues[at].reset_due = !reported;
                all &= reported;
            }
        }
        all
    }

    /// Tells the host what has become of its resources. False when some are still being made, or that waits for room.
    pub(crate) fn report_resources(&mut self, maker: &mut Maker) -> bool {
        self.resources.reclaim();
        if self.resources.is_idle() {
            return true;
        }
        let counters = &mut self.counters;
        let count = |protocol, event| counters.l5.count(protocol, event, 1);
        self.resources.settle(count);
        self.resources.make_next(maker);
        while let Some((resource, result)) = self.resources.unreported() {
            let error = result.err();
            if !self.report(0, RecvDescriptor::Resource { resource, error }) {
                break;
            }
            self.resources.reported(resource);
        }
        self.resources.is_idle()
    }

    /// Whether a command waits.
    pub(crate) fn has_commands(&mut self) -> bool {
        let mut queues = self.queues.iter_mut();
        queues.any(|queue| queue.rings.commands.has_work())
    }

    /// Whether [`tell_all`](Self::report_all) would tell so many.
    pub(crate) fn has_space(&mut self, queue: usize, descriptors: u32) -> bool {
        let Some(queue) = self.queues.get_mut(queue) else {
            return false;
        };
        let needed = queue.receive.reserved() + 1 + descriptors;
        queue.rings.recv.free(needed) >= needed
    }

    /// As [`report`](Self::report), for several: all of them, or nothing.
    #[must_use]
    pub(crate) fn report_all(&mut self, queue: usize, descriptors: &[RecvDescriptor]) -> bool {
        if !self.has_space(queue, descriptors.len() as u32) {
            return false;
        }
        let queue = &mut self.queues[queue];
        for descriptor in descriptors {
            let pushed = queue.rings.recv.push(*descriptor);
            debug_assert!(pushed, "there is room");
        }
        self.counters.pcie_descriptors += 64 * descriptors.len() as u64;
        true
    }
}

impl Queue {
    /// Gives the slots of the send ring back to the host as far as it needs no more of them: those of a frame that is still
    /// to be sent have its memory, and those of a refused descriptor mean that it was carried out unless the host has been
    /// told.
    ///
    /// And those of a buffer that was unmapped: what was placed in it is on a receive ring first, not among these packets.
    pub(crate) fn give_back(&mut self, nic_packets: &RxQueue) {
        let unfinished = self.transmit.unfinished();
        let unreported = self.completions.first();
        let unshown = self.unshown.first(nic_packets);
        self.rings.commands.publish();
        let send = &mut self.rings.send;
        let needed = unfinished.into_iter().chain(unreported).chain(unshown);
        match needed.min() {
            Some(index) => send.publish_before(index),
            None => send.publish(),
        }
    }
}

/// Descriptors of a send ring that have destroyed contexts or unmapped buffers, while the queue of NIC packets still has what names these: the
/// host may not take them for done before.
#[derive(Debug, Default)]
pub(crate) struct Unshown {
    /// The first one, and the epoch to be passed.
    first: Option<(u64, u64)>,
    /// The first and the last epoch of those after it.
    later: Option<(u64, u64)>,
}

impl Unshown {
    /// Holds back the descriptor at `index` until all that names a context or was placed up to now has left the queue.
    pub(crate) fn hold(&mut self, index: u64, nic_packets: &mut RxQueue) {
        let Some(epoch) = nic_packets.end_epoch() else {
            return;
        };
        match (&self.first, &mut self.later) {
            (None, _) => self.first = Some((index, epoch)),
            (Some(_), Some((_, last))) => *last = epoch,
            (Some(_), later) => *later = Some((index, epoch)),
        }
    }

    /// The first descriptor that is held back.
    fn first(&mut self, nic_packets: &RxQueue) -> Option<u64> {
        while let Some((index, epoch)) = self.first {
            if !nic_packets.has_passed(epoch) {
                return Some(index);
            }
            self.first = self.later.take();
        }
        None
    }
}

/// Error completions that wait for room in the receive ring.
///
/// While it is full, the queue's send ring is not read: nothing is lost, and the host is held up
/// by its own errors only.
#[derive(Debug, Default)]
pub(crate) struct Completions {
    waiting: VecDeque<RecvDescriptor>,
}

impl Completions {
    const MAX: usize = 64;

    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= Self::MAX
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Reports a refused descriptor.
    pub(crate) fn push(
        &mut self,
        send_index: u64,
        context: Option<ContextId>,
        tcpsn: SeqNum,
        error: ErrorCode,
    ) {
        self.waiting.push_back(RecvDescriptor::Completion {
            send_index,
            context,
            tcpsn,
            error,
        });
    }

    /// Index in the send ring of the oldest descriptor that one waits for.
    fn first(&self) -> Option<u64> {
        match self.waiting.front()? {
            RecvDescriptor::Completion { send_index, .. } => Some(*send_index),
            _ => None,
        }
    }

    /// Moves what fits to the receive ring, of which no place may be reserved for packets that have come.
    pub(crate) fn flush(&mut self, rings: &mut DeviceQueue, counters: &mut Counters) {
        while let Some(completion) = self.waiting.front() {
            if !rings.recv.push(*completion) {
                break;
            }
            self.waiting.pop_front();
            counters.pcie_descriptors += 64;
        }
    }
}
