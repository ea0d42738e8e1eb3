//! Loss, reconnect, shutdown, and the timers of all of them.

use std::time::{Duration, Instant};

use wire::nvme::command::{ControllerStatus, Fabrics, Property, ShutdownStatus, Status};

use super::admin::{Purpose, Reply};
use super::setup::Step;
use super::{Controller, Event, Failure, Phase, Reconnect};

/// How long a shutdown may take.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Attempts to reconnect.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    /// Since when there is no controller, if there was one.
    lost_at: Option<Instant>,
    attempts: u32,
    was_ready: bool,
}

impl Recovery {
    pub(super) fn succeeded(&mut self) {
        *self = Recovery {
            was_ready: true,
            ..Recovery::default()
        };
    }

    /// How long to wait for the next attempt; `None`: no more attempts.
    fn next_wait(&mut self, now: Instant, policy: &Reconnect) -> Option<Duration> {
        let lost_at = *self.lost_at.get_or_insert(now);
        let doubled = policy.first.saturating_mul(1 << self.attempts.min(20));
        let wait = doubled.min(policy.longest);
        self.attempts += 1;
        (now + wait <= lost_at + policy.give_up).then_some(wait)
    }
}

impl Controller {
    /// When to call [`Controller::handle_timeout`], unless something else happens before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let phase = match &self.phase {
            Phase::Idle | Phase::Ended => return None,
            Phase::Lost { retry_at } => return Some(*retry_at),
            Phase::Setup(setup) => Some(setup.deadline),
            Phase::Shutdown { until } => Some(*until),
            Phase::Ready => None,
        };
        let status = match &self.admin.step {
            Some(Step::AwaitReady(again)) => *again,
            _ => None,
        };
        [phase, status, self.service_timeout()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        match &self.phase {
            Phase::Idle | Phase::Ended => return,
            Phase::Lost { retry_at } if *retry_at <= now => return self.begin_setup(now),
            Phase::Setup(setup) if setup.deadline <= now => {
                let timed_out = Failure::TimedOut {
                    what: "setting up the connections",
                    limit: self.config.setup_timeout,
                };
                return self.fail(now, timed_out);
            }
            Phase::Shutdown { until } if *until <= now => return self.end(None),
            _ => {}
        }
        if let Some(Step::AwaitReady(Some(at))) = self.admin.step
            && at <= now
        {
            self.begin(now, Step::AwaitReady(None));
        }
        self.run_service(now);
    }

    /// Says goodbye: the controller is told to shut down, which writes its caches, and all connections are closed.
    /// Commands in flight end with [`Status::ABORTED_BY_HOST`]; an application that wants them waits for them before.
    pub fn shutdown(&mut self, now: Instant) {
        if !self.is_ready() {
            return self.end(None);
        }
        let until = now + SHUTDOWN_TIMEOUT;
        self.phase = Phase::Shutdown { until };
        self.admin.step = None;
        self.close_queues(1, Status::ABORTED_BY_HOST, None);
        self.requests.end_waiting(Status::ABORTED_BY_HOST);
        let value = u64::from(self.configuration().with_normal_shutdown().0);
        let asked = self.ask_fabrics(Purpose::Shutdown, Fabrics::PropertySet(Property::CC, value));
        if !asked {
            self.end(None);
        }
    }

    /// CC was written, or CSTS was read.
    pub(super) fn handle_shutdown_reply(&mut self, _now: Instant, reply: Reply) {
        let status = ControllerStatus(reply.result as u32);
        let done = status.shutdown() == ShutdownStatus::Complete || status.fatal();
        if done || !reply.status.is_success() {
            return self.end(None);
        }
        if !self.ask_fabrics(Purpose::Shutdown, Fabrics::PropertyGet(Property::CSTS)) {
            self.end(None);
        }
    }

    /// The controller is lost. All connections are closed, and commands in flight end.
    pub(super) fn fail(&mut self, now: Instant, failure: Failure) {
        match self.phase {
            Phase::Idle | Phase::Ended | Phase::Lost { .. } => return,
            Phase::Shutdown { .. } => return self.end(None),
            Phase::Setup(_) | Phase::Ready => {}
        }
        self.close_queues(0, Status::HOST_PATHING_ERROR, Some(&failure));
        self.admin.step = None;
        self.stop_service();
        let policy = self.config.reconnect.filter(|_| self.recovery.was_ready);
        let wait = policy
            .filter(|_| !failure.is_final())
            .and_then(|policy| self.recovery.next_wait(now, &policy));
        let Some(wait) = wait else {
            return self.end(Some(failure));
        };
        if self.config.retries == 0 {
            self.requests.end_waiting(Status::HOST_PATHING_ERROR);
        }
        self.phase = Phase::Lost {
            retry_at: now + wait,
        };
        self.events.push_back(Event::Lost(failure));
    }

    /// There will be no controller any more.
    fn end(&mut self, failure: Option<Failure>) {
        if self.is_ended() {
            return;
        }
        let status = match failure {
            Some(_) => Status::HOST_PATHING_ERROR,
            None => Status::ABORTED_BY_HOST,
        };
        self.close_queues(0, status, failure.as_ref());
        self.admin.step = None;
        self.stop_service();
        self.phase = Phase::Ended;
        self.requests.end_waiting(status);
        self.events.push_back(Event::Ended(failure));
    }
}
