//! The device: functions, switch, and the two directions of the wire.

mod output;

use std::time::{Duration, Instant};

use probes::DropReason;
use wire::FlowKey;
use wire::ethernet::{self, MacAddr};

use crate::config::NicConfig;
use crate::counters::Counters;
use crate::delivery;
use crate::faults::Fault;
use crate::features::{Features, Identity};
use crate::frame::FrameMeta;
use crate::function::Function;
use crate::offloads::Offloads;
use crate::probing::{NO_FUNCTION, drop_packet};
use crate::receive;
use crate::ring::DeviceFunction;
use crate::rss::Rss;
use crate::switch::{Destination, FunctionId, Switch};
use crate::transmit::{self, Scheduler};
use crate::turn::{self, Turns};

/// Why a function was not attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// Every function needs a unicast address of its own.
    #[error("{mac} is not a free unicast address: give each function its own")]
    Address {
        /// The address asked for.
        mac: MacAddr,
    },
    /// No more ids.
    #[error("the NIC has {functions} functions already, which is the most it takes")]
    TooMany {
        /// Functions attached.
        functions: usize,
    },
}

/// A NIC: see the crate's documentation for the order of calls.
#[derive(Debug)]
pub struct Nic {
    offloads: Offloads,
    functions: Vec<Function>,
    switch: Switch,
    scheduler: Scheduler,
    /// What comes after all of the hosts' own packets.
    turns: Turns,
    /// Bytes that the NIC may send of its own frames before it is the functions' turn.
    own_turn: usize,
    /// Of which queue the frame was whose payload is borrowed.
    borrows_from: Option<(FunctionId, usize)>,
    recent: receive::Recent,
    /// Connections of functions whose hosts send nothing have waited long enough for those that do, and for frames that the NIC has made.
    spare_due: bool,
    /// Frames for no function, and what functions had counted that have gone.
    device: Counters,
    /// Set when work was left over: when to go on.
    again: Option<Instant>,
    /// Set when a descriptor waits for room in a receive ring. Free room does not wake the device.
    retry: Option<Instant>,
}

impl Nic {
    /// How long completions wait before a full receive ring is tried again.
    const RETRY: Duration = Duration::from_millis(1);

    /// A NIC without functions.
    pub fn new(config: NicConfig) -> Nic {
        Nic {
            offloads: Offloads::new(config),
            functions: Vec::new(),
            switch: Switch::default(),
            scheduler: Scheduler::default(),
            turns: Turns::new(&config.toe),
            own_turn: 0,
            borrows_from: None,
            recent: receive::Recent::default(),
            spare_due: false,
            device: Counters::default(),
            again: None,
            retry: None,
        }
    }

    /// What it offers to functions: the features of which its settings leave anything.
    pub fn identity(&self) -> Identity {
        let config = &self.offloads.config;
        let offered = [
            (config.resource_bytes > 0, Features::RESOURCES),
            (config.accel.listeners > 0, Features::LISTENERS),
            (config.accel.closing > 0, Features::TEARDOWNS),
            (config.accel.splices > 0, Features::SPLICES),
            (config.toe.hard_limit > 0, Features::TOE),
            (true, Features::MERGING),
            (true, Features::RSS),
            (true, Features::FILTER),
        ];
        let offered = offered.iter().filter(|(is_offered, _)| *is_offered);
        Identity {
            features: offered.fold(Features::CONTEXTS, |all, (_, feature)| all.union(*feature)),
            protocols: (l5p::PROTOCOLS.iter()).fold(0, |ids, info| ids | 1 << info.id.0),
            mtu: config.mtu,
            listeners: config.accel.listeners,
            resource_bytes: config.resource_bytes as u64,
        }
    }

    /// Adds a function.
    ///
    /// # Errors
    /// When its MAC address is not its own.
    pub fn attach(&mut self, device: DeviceFunction) -> Result<FunctionId, AttachError> {
        let functions = self.functions.len();
        let vacant = self.functions.iter().position(Function::is_vacant);
        let Ok(id) = u16::try_from(vacant.unwrap_or(functions)) else {
            return Err(AttachError::TooMany { functions });
        };
        let (id, mac) = (FunctionId(id), device.config.mac);
        if !self.switch.add(mac, id) {
            return Err(AttachError::Address { mac });
        }
        let contexts = &mut self.offloads.contexts;
        contexts.add_function(id, device.config.contexts);
        let mut function = Function::new(id, device, self.offloads.config.resource_bytes);
        if function.config.features.intersects(Features::RSS) {
            let key = self.offloads.next_rss_key();
            function.rss = Rss::keyed(function.config.queues, key);
        }
        match vacant {
            Some(at) => self.functions[at] = function,
            None => {
                self.functions.push(function);
                self.offloads.toe.add_function();
            }
        }
        self.share_queue();
        Ok(id)
    }

    /// Removes a function whose host has gone: all that [`reset_function`](Self::reset_function) forgets, its address, and its
    /// memory. Its counters stay in those of [all functions together](Self::counters); its id may be another one's from now on.
    /// False when there is no such function.
    pub fn detach(&mut self, id: FunctionId) -> bool {
        if self.attached(id).is_none() || !self.reset_function(id) {
            return false;
        }
        self.switch.remove(id);
        self.scheduler.remove_function(id);
        self.offloads.accel.remove_function(id);
        self.offloads.contexts.add_function(id, 0);
        let place = &mut self.functions[usize::from(id.0)];
        let gone = std::mem::replace(place, Function::vacant(id));
        let counted = Counters {
            toe_rx_queue_len: 0,
            ..gone.counters
        };
        self.device.add(&counted);
        self.share_queue();
        true
    }

    fn attached(&self, id: FunctionId) -> Option<&Function> {
        let function = self.functions.get(usize::from(id.0))?;
        (!function.is_vacant()).then_some(function)
    }

    /// Resets a function, as a device does whose firmware was loaded anew: contexts, listeners, connections in teardown, spliced or
    /// run by the NIC are gone, without a word to any peer, and so is what was posted and not done. It is reported by
    /// [`RecvDescriptor::Reset`](crate::ring::RecvDescriptor::Reset), behind all that was reported before. False when there is no such
    /// function.
    pub fn reset_function(&mut self, id: FunctionId) -> bool {
        self.end_borrowing();
        let offloads = &mut self.offloads;
        let Some(function) = self.functions.get_mut(usize::from(id.0)) else {
            return false;
        };
        offloads.accel.reset_function(&offloads.hasher, id);
        // First of all: it takes the buffers back that packets are in.
        delivery::reset(function);
        function.reset();
        let (toe, accel) = (&mut offloads.toe, &mut offloads.accel);
        toe.reset_function(accel, function);
        for context in offloads.contexts.ids_of(id) {
            // Each of them is there.
            let _ = transmit::destroy(offloads, function, context);
        }
        true
    }

    /// Has a function fail, for tests of drivers. False when there is no such function.
    pub fn inject(&mut self, id: FunctionId, fault: Fault) -> bool {
        if self.attached(id).is_none() {
            return false;
        }
        if fault == Fault::CorruptContexts {
            self.offloads.contexts.corrupt(id);
        }
        self.functions[usize::from(id.0)].faults.set(fault);
        true
    }

    /// The settings.
    pub fn config(&self) -> &NicConfig {
        &self.offloads.config
    }

    /// Takes a frame from the wire.
    pub fn handle_frame(&mut self, now: Instant, frame: &[u8], meta: FrameMeta) {
        let Some(destination) = ethernet::destination(frame) else {
            let reason = DropReason::RxMalformedTruncated;
            return drop_packet(&mut self.device, NO_FUNCTION, reason);
        };
        match self.switch.destination(destination) {
            Destination::Function(id) => self.deliver(now, id, frame, meta),
            Destination::Everyone => self.deliver_to_all_but(now, None, destination, frame, meta),
            Destination::Wire => {
                drop_packet(&mut self.device, NO_FUNCTION, DropReason::RxNoFunction);
            }
        }
    }

    /// Ends a batch of [`handle_frame`](Self::handle_frame) and [`poll_transmit`](Self::poll_transmit) calls: shows the hosts what was
    /// received, sent and refused.
    pub fn flush(&mut self, now: Instant) {
        self.end_borrowing();
        self.scheduler.end_turn(&mut self.functions);
        let (accel, device) = self.offloads.accel(now);
        let mut all = accel.flush(&device, &mut self.functions);
        for function in &mut self.functions {
            receive::answer_late(&mut self.offloads, function, now);
            function.regions.refresh();
            all &= receive::flush(function);
        }
        all &= self.report_connections(now);
        self.turns.flush();
        self.turns.look_again(now, &self.offloads, &self.functions);
        self.retry = (!all).then(|| now + Self::RETRY);
    }

    /// When to call [`poll_transmit`](Self::poll_transmit) and [`flush`](Self::flush) again, without any new input.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let accel = self.offloads.accel.poll_timeout();
        let toe = self.turns.poll_timeout(self.offloads.toe.poll_timeout());
        let late = self.functions.iter().map(|it| it.faults.poll_timeout());
        let own = [self.again, self.retry, accel, toe].into_iter();
        own.chain(late).flatten().min()
    }

    /// Announces that the device is about to sleep until a host or the wire wakes it. False when
    /// a host has posted something meanwhile: then it must not.
    pub fn prepare_sleep(&mut self) -> bool {
        if self.again.is_some() || self.offloads.accel.has_frames() {
            return false;
        }
        let offloads = &self.offloads;
        let waits = self.functions.iter().any(|f| turn::has_work(offloads, f));
        if waits && self.turns.poll_timeout(None).is_none() {
            return false;
        }
        let mut queues = self.functions.iter_mut().flat_map(|f| &mut f.queues);
        let idle = queues.all(|queue| queue.rings.prepare_sleep());
        if !idle {
            self.cancel_sleep();
        }
        idle
    }

    /// Takes the announcement back, after the sleep or instead of it.
    pub fn cancel_sleep(&mut self) {
        for queue in self.functions.iter_mut().flat_map(|f| &mut f.queues) {
            queue.rings.cancel_sleep();
        }
    }

    /// Calls `wake` for each queue of a function whose host slept when something was published to it, or given back to it if the function
    /// [says so](crate::ring::DeviceFunction::over_each).
    pub fn take_wakeups(&mut self, mut wake: impl FnMut(FunctionId, u16)) {
        for function in &mut self.functions {
            for (index, queue) in function.queues.iter_mut().enumerate() {
                if function.tells_sent {
                    queue.rings.tell_sent();
                }
                if queue.rings.recv.take_wakeup() {
                    wake(function.id, index as u16);
                }
            }
        }
    }

    /// Connections that hosts have handed over to be finished and whose peers have not acknowledged all that they are to get. Looks
    /// at each connection: for a device that is about to go away.
    pub fn unfinished_teardowns(&self) -> usize {
        self.offloads.accel.unfinished_teardowns(None)
    }

    /// The same, of one function's host.
    pub fn unfinished_teardowns_of(&self, id: FunctionId) -> usize {
        self.offloads.accel.unfinished_teardowns(Some(id))
    }

    /// The flows of connections that it finishes for its hosts, in TIME-WAIT too: from the host to the peer.
    pub fn closing_flows(&self) -> Vec<FlowKey> {
        self.offloads.accel.closing_flows()
    }

    /// Counters of all functions together.
    pub fn counters(&self) -> Counters {
        let mut total = self.device;
        for function in &self.functions {
            total.add(&self.counters_of(function));
        }
        total
    }

    /// What a function counts, and what it has in use now.
    fn counters_of(&self, function: &Function) -> Counters {
        let mut counters = function.counters;
        self.offloads.accel.measure(function.id, &mut counters);
        counters
    }

    /// The functions attached.
    pub fn functions(&self) -> impl Iterator<Item = FunctionId> + use<> {
        let attached = self.functions.iter().filter(|it| !it.is_vacant());
        let ids: Vec<FunctionId> = attached.map(|function| function.id).collect();
        ids.into_iter()
    }

    /// Counters of one function.
    pub fn function_counters(&self, id: FunctionId) -> Option<Counters> {
        Some(self.counters_of(self.attached(id)?))
    }

    /// Tells the hosts of the connections that the NIC runs. False when some of that waits for room.
    fn report_connections(&mut self, now: Instant) -> bool {
        let mut all = true;
        self.device.toe_soft_limit = self.offloads.toe.room.soft_limit().into();
        turn::shed(&mut self.offloads, &mut self.functions, now);
        for function in &mut self.functions {
            function.counters.toe_rx_queue_len = function.nic_packets.len().into();
            all &= function.report_reset();
            all &= function.report_resources(&mut self.offloads.maker);
            all &= self.offloads.toe.room.report(function);
            if !self.offloads.toe.is_idle() {
                let (toe, mut around) = self.offloads.toe(now, function);
                all &= toe.report(&mut around);
            }
            for queue in &mut function.queues {
                queue.rings.recv.publish();
            }
        }
        all
    }

    /// Gives each function that may hand connections off its share of the queue of NIC packets.
    fn share_queue(&mut self) {
        let takes_part = |function: &&mut Function| function.config.toe_connections > 0;
        let sharers = self.functions.iter_mut().filter(takes_part).count();
        let share = self.offloads.config.toe.queue / sharers.max(1) as u32;
        for function in self.functions.iter_mut().filter(takes_part) {
            function.nic_packets.set_limit(share);
        }
    }

    fn deliver(&mut self, now: Instant, id: FunctionId, frame: &[u8], meta: FrameMeta) {
        let function = &mut self.functions[usize::from(id.0)];
        let (offloads, recent) = (&mut self.offloads, &mut self.recent);
        receive::handle_frame(offloads, function, recent, now, frame, meta);
    }

    fn deliver_to_all_but(
        &mut self,
        now: Instant,
        sender: Option<FunctionId>,
        destination: MacAddr,
        frame: &[u8],
        meta: FrameMeta,
    ) {
        for function in &mut self.functions {
            if Some(function.id) != sender && !function.is_vacant() {
                if !function.filter.admits(destination) {
                    function.drop_packet(DropReason::RxFiltered);
                    continue;
                }
                let (offloads, recent) = (&mut self.offloads, &mut self.recent);
                receive::handle_frame(offloads, function, recent, now, frame, meta);
            }
        }
    }
}
