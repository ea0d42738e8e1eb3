//! Between the connections and the queues.

use std::time::Instant;

use wire::nvme::command::Status;
use wire::nvme::{FatalError, FatalErrorStatus, Pdu};

use super::admin::{ANSWER_LEN, Purpose, Reply};
use super::{Action, Closing, Controller, Failure, Phase};
use crate::nvme::initiator::queue::{
    ADMIN_IN_CAPSULE, Ended, Incoming, Outgoing, Queue, QueueConfig, QueueEvent,
};

/// Commands in flight on the admin queue; Linux's host takes 32 too.
const ADMIN_DEPTH: u16 = 31;
/// PDUs that a connection may bring beside the data of commands: an answer on the admin queue.
const ADMIN_TRANSFER: u32 = ANSWER_LEN as u32;

impl Controller {
    /// The connection that [`Action::Connect`] asked for is there.
    pub fn handle_connected(&mut self, _now: Instant, queue: u16) {
        if matches!(self.phase, Phase::Ended) {
            return;
        }
        let config = self.queue_config(queue);
        if let Some(slot) = self.queues.get_mut(usize::from(queue)) {
            *slot = Some(Queue::new(config));
        }
    }

    /// The connection of a queue could not be made, or is lost.
    pub fn handle_lost(&mut self, now: Instant, queue: u16, reason: String) {
        if usize::from(queue) < self.queues.len() {
            self.fail(now, Failure::Transport { queue, reason });
        }
    }

    /// A header that obeys [`Queue::framing`] came on the connection of `queue`. Says where its data goes.
    /// [`Controller::handle_end`] must follow before the next header.
    ///
    /// # Errors
    /// What the connection must be terminated for by H2CTermReq.
    pub fn handle_header(
        &mut self,
        now: Instant,
        queue: u16,
        pdu: &Pdu,
    ) -> Result<Incoming, FatalError> {
        let Some(machine) = self.queue_mut(queue) else {
            return Err(FatalError::of(FatalErrorStatus::SEQUENCE));
        };
        match machine.handle_header(pdu) {
            Ok(Incoming::Data { offset, .. }) if queue == 0 => {
                self.admin.incoming = Some(offset as usize);
                Ok(Incoming::Inline)
            }
            Ok(incoming) => Ok(incoming),
            Err(error) => {
                self.fail(now, Failure::Protocol { queue, error });
                Err(error)
            }
        }
    }

    /// What the connection of `queue` carried breaks the rules of [`Queue::framing`], or its header digest is wrong. The
    /// controller is to be told by H2CTermReq.
    pub fn handle_malformed(&mut self, now: Instant, queue: u16, error: FatalError) {
        if usize::from(queue) < self.queues.len() {
            self.fail(now, Failure::Protocol { queue, error });
        }
    }

    /// All of the PDU has come whose header came last on `queue`. `intact`: its data digest was right, or it has
    /// no digest. `data` is what [`Incoming::Inline`] asked for.
    pub fn handle_end(&mut self, now: Instant, queue: u16, intact: bool, data: &[u8]) {
        if let (0, Some(offset)) = (queue, self.admin.incoming.take()) {
            let answer = self.admin.answer.get_mut(offset..offset + data.len());
            answer
                .expect("the queue has checked offset and length")
                .copy_from_slice(data);
        }
        if let Some(machine) = self.queue_mut(queue) {
            machine.handle_end(intact);
        }
        while let Some(event) = self.queue_mut(queue).and_then(Queue::poll_event) {
            self.handle_queue_event(now, queue, event);
        }
    }

    /// The next PDU for the connection of `queue`; `None`: none for now. It must be sent, or the connection closed.
    pub fn poll_pdu(&mut self, queue: u16) -> Option<Outgoing> {
        self.queue_mut(queue)?.poll_pdu()
    }

    fn handle_queue_event(&mut self, now: Instant, queue: u16, event: QueueEvent) {
        match event {
            QueueEvent::Ended(ended) if queue == 0 => self.handle_admin_reply(now, &ended),
            QueueEvent::Ended(ended) => {
                self.requests.end(ended.token, ended.status, ended.result);
                self.dispatch();
            }
            QueueEvent::Negotiated(negotiated) => {
                self.actions
                    .push_back(Action::Negotiated { queue, negotiated });
            }
            QueueEvent::Connected { controller } => self.handle_queue_up(now, queue, controller),
            QueueEvent::Refused { status, reply } => {
                let names = (self.config.host, self.config.subsystem);
                self.fail(now, Failure::refused(queue, names, status, reply));
            }
            QueueEvent::AuthenticationRequired => self.fail(now, Failure::AuthenticationRequired),
            QueueEvent::Terminated(error) => self.fail(now, Failure::Terminated { queue, error }),
        }
    }

    fn handle_admin_reply(&mut self, now: Instant, ended: &Ended) {
        let reply = Reply {
            status: ended.status,
            result: ended.result,
        };
        match Purpose::of(ended.token) {
            Some(Purpose::Step) => self.handle_step(now, reply),
            Some(Purpose::KeepAlive) => self.handle_kept_alive(now, reply),
            Some(Purpose::Event) => self.handle_async_event(now, reply),
            Some(Purpose::Shutdown) => self.handle_shutdown_reply(now, reply),
            None => {}
        }
    }

    /// Closes the connections from queue `first` on, because of `why` or in order. Commands in flight end with `status`.
    pub(super) fn close_queues(&mut self, first: usize, status: Status, why: Option<&Failure>) {
        for (number, slot) in (0u16..).zip(&mut self.queues).skip(first) {
            if let Some(mut queue) = slot.take() {
                queue.close(status);
                while let Some(event) = queue.poll_event() {
                    if let (QueueEvent::Ended(ended), true) = (event, number > 0) {
                        self.requests.end(ended.token, ended.status, ended.result);
                    }
                }
            }
            let how = match why {
                None => Closing::InOrder,
                Some(Failure::Protocol { queue, error }) if *queue == number => {
                    Closing::Reported(*error)
                }
                Some(_) => Closing::Lost,
            };
            let queue = number;
            self.actions.push_back(Action::Close { queue, how });
        }
        self.queues.truncate(first);
    }

    fn queue_config(&self, queue: u16) -> QueueConfig {
        let is_admin = queue == 0;
        QueueConfig {
            id: queue,
            depth: if is_admin {
                ADMIN_DEPTH
            } else {
                self.limits.depth
            },
            digests: self.config.digests,
            hpda: self.config.hpda,
            max_r2ts: self.config.max_r2ts,
            max_h2c_data: self.config.max_h2c_data,
            in_capsule: if is_admin {
                ADMIN_IN_CAPSULE
            } else {
                self.limits.in_capsule
            },
            max_transfer: if is_admin {
                ADMIN_TRANSFER
            } else {
                self.limits.max_transfer
            },
            no_flow_control: true,
            keep_alive: if is_admin {
                self.config.keep_alive_ms()
            } else {
                0
            },
            identity: self.identity(queue),
        }
    }
}
