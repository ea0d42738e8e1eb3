//! One function's driver: what it has, and how it is run.

use std::time::Instant;

use attachment::{Answer, Errno, SlotRequest};
use nic::FrameMeta;
use nic::ring::HostFunction;
use wire::SeqNum;
use wire::ethernet::MacAddr;

use crate::config::Config;
use crate::contexts::{Quota, Rings};
use crate::counters::Counters;
use crate::memory::{Buffers, Held, Staging};
use crate::offload::{Answered, DriverEnv, Offload};
use crate::pdus::{self, Pdus, Rebuilt};
use crate::receive::Receive;
use crate::sockets::Sockets;
use crate::state::State;

/// The driver of a function whose host is Linux's TCP. See the crate's documentation for the order of calls.
#[derive(Debug)]
pub struct LinuxFunction {
    mac: MacAddr,
    pub(crate) rings: Rings,
    pub(crate) staging: Staging,
    pub(crate) buffers: Buffers,
    /// The buffer of the frame given last.
    pub(crate) shown: Option<Held>,
    pub(crate) receive: Receive,
    pub(crate) pdus: Pdus,
    /// The frame given last, if parts of it were placed.
    pub(crate) rebuilt: Rebuilt,
    /// The frame given last, if the driver has made it.
    pub(crate) answered: Option<Answered>,
    pub(crate) counters: Counters,
    pub(crate) offload: Offload,
}

impl LinuxFunction {
    /// The driver of `host`, which was made by [`Config::function`] of the same `config`. Connections in `state` were fenced when a driver before this
    /// one had it, and are so still; no other may have it now. With a new state, connections of sockets that are bound to the interface are reset: a driver
    /// with another state may have made their records. `secret` is known to no peer.
    ///
    /// # Errors
    /// With a new state: what Linux says instead of which sockets are bound; `ENOSPC` when they are more than the state has room for.
    ///
    /// # Panics
    /// When the function has not just one queue: Linux's side is one TAP queue.
    pub fn new(
        now: Instant,
        mut host: HostFunction,
        config: &Config,
        state: &State,
        sockets: Box<dyn Sockets>,
        secret: (u64, u64),
    ) -> Result<LinuxFunction, Errno> {
        assert_eq!(host.queues.len(), 1, "a TAP has one queue");
        let queues = std::mem::take(&mut host.queues);
        let contexts = host.config.contexts;
        let mut rings = Rings::new(queues, contexts);
        let offload = Offload::new(now, &host, state, sockets, secret)?;
        let mut function = LinuxFunction {
            mac: host.config.mac,
            staging: Staging::new(&host, config.chunks, offload.memory()),
            buffers: Buffers::new(&host, &mut rings.queues[0]),
            offload,
            rings,
            shown: None,
            receive: Receive::new(Quota::new(contexts / 2 - pdus::CONTEXTS)),
            pdus: Pdus::new(&host.regions),
            rebuilt: Rebuilt::default(),
            answered: None,
            counters: Counters::default(),
        };
        function.publish();
        Ok(function)
    }

    /// The function's address: the TAP interface's own.
    pub fn mac(&self) -> MacAddr {
        self.mac
    }

    /// Shows the NIC all that was sent and given back, and takes back what it has read.
    pub fn publish(&mut self) {
        self.return_shown();
        self.receive.flows.take_answers(&mut self.rings);
        self.pdus.flows.take_answers(&mut self.rings);
        self.rings.flush();
        self.rings.settle();
        self.pdus.handle_settled(&mut self.rings);
        while let Some(entry) = self.pdus.poll_ended_entry() {
            self.offload.forget(entry);
        }
        self.rings.publish();
        self.reap();
    }

    /// Whether the NIC slept when something was published, since this was asked last.
    pub fn take_wakeup(&mut self) -> bool {
        self.rings.take_wakeup()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), and then [`poll_frame`](Self::poll_frame) and [`publish`](Self::publish), although
    /// nothing has come.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let timers = [self.offload.poll_timeout(), self.pdus.poll_timeout()];
        timers.into_iter().flatten().min()
    }

    /// Does what is due: asks Linux which connections have gone.
    pub fn handle_timeout(&mut self, now: Instant) {
        let (offload, mut env) = self.parts(now);
        offload.handle_timeout(&mut env);
        let sockets = self.offload.sockets();
        self.pdus.handle_timeout(now, sockets, &mut self.rings);
    }

    /// Does what a library asks for with one of its connections, and answers it: with `ENODEV` when the connection is not one of this
    /// function's. A slot of which no function knows is free once it is released.
    pub fn handle_slot_request(&mut self, now: Instant, order: &SlotRequest) -> Answer {
        if let Some(answered) = self.handle_pdu_request(now, order) {
            return answered.map_or_else(Answer::refused, Answer::at);
        }
        let (offload, mut env) = self.parts(now);
        let answer = offload.handle_slot_request(order, &mut env);
        env.rings.flush();
        answer
    }

    /// Does what a library asks for with a connection that carries PDUs. `None` for what is of no such connection.
    fn handle_pdu_request(
        &mut self,
        now: Instant,
        order: &SlotRequest,
    ) -> Option<Result<SeqNum, Errno>> {
        match order {
            SlotRequest::Pdus {
                slot,
                memory,
                parameters,
                socket,
            } => {
                let located = self.offload.locate(now, socket);
                Some(located.and_then(|located| {
                    let place = (&located, self.offload.may_be_queued(&located));
                    let (pdus, rings) = (&mut self.pdus, &mut self.rings);
                    let start = pdus.start(now, slot, memory, *parameters, place, rings)?;
                    pdus.set_entry(&located, self.offload.remember(&located));
                    Ok(start)
                }))
            }
            SlotRequest::Settle { slot } => {
                let is_known = self
                    .pdus
                    .settle(now, slot, &mut self.counters, &mut self.rings);
                is_known.then_some(Ok(SeqNum(0)))
            }
            SlotRequest::Release { slot, .. } => {
                let is_known = self.pdus.release(now, slot, &mut self.rings);
                is_known.then_some(Ok(SeqNum(0)))
            }
            SlotRequest::SetKeys { .. } | SlotRequest::Stop { .. } => None,
        }
    }

    /// From now on takes no more connections, and asks libraries to make their records themselves.
    pub fn drain(&mut self) {
        self.offload.drain();
    }

    /// Whether peers have everything that was made of records here: then this driver is not needed for it any more.
    pub fn is_drained(&self) -> bool {
        self.offload.is_drained()
    }

    /// Connections whose records are made or opened here.
    pub fn connections(&self) -> usize {
        self.offload.count()
    }

    /// The connections, and what they need beside.
    pub(crate) fn parts(&mut self, now: Instant) -> (&mut Offload, DriverEnv<'_>) {
        let env = DriverEnv {
            rings: &mut self.rings,
            staging: &self.staging,
            receive: &mut self.receive,
            counters: &mut self.counters,
            now,
        };
        (&mut self.offload, env)
    }

    /// Announces that the host is about to sleep. False when something has come from the NIC meanwhile: then it must not.
    pub fn prepare_sleep(&mut self) -> bool {
        self.rings.prepare_sleep()
    }

    /// Takes the announcement back, after the sleep or instead of it.
    pub fn cancel_sleep(&mut self) {
        self.rings.cancel_sleep();
    }

    /// What was counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// A copy of a frame that Linux has sent, with its virtio-net header's meaning. Dropped and counted while there is no
    /// [`room`](Self::room).
    pub fn handle_frame(&mut self, now: Instant, frame: &[u8], meta: FrameMeta) {
        let filled = self.room().is_some_and(|mut room| room.fill(frame));
        if !filled {
            self.counters.tx_dropped += 1;
            return;
        }
        self.handle_read(now, frame.len(), meta);
    }

    pub(crate) fn reap(&mut self) {
        self.staging.reap(self.rings.completed());
        self.offload.reap(&mut self.rings);
    }

    pub(crate) fn return_shown(&mut self) {
        if let Some(held) = self.shown.take() {
            self.buffers.give_back(held, &mut self.rings.queues[0]);
        }
    }
}
