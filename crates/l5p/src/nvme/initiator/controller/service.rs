//! What goes on while a controller is there: keep-alive, events, and commands that take too long.

use std::time::{Duration, Instant};

use wire::nvme::command::{Admin, AsyncEvent, GetLogPage};
use wire::nvme::log::LogPage;

use super::admin::{ANSWER_LEN, Purpose, Reply};
use super::discovery::LogReading;
use super::setup::Step;
use super::{Controller, Event, Failure, Phase};

/// Parts of the command time-out after which the queues are looked at.
const TICKS: u32 = 8;

/// Events that are kept, beyond which notices are dropped.
const MAX_EVENTS: usize = 64;

/// Timers and what they wait for.
#[derive(Debug, Default)]
pub(super) struct Service {
    /// When to send the next Keep Alive.
    keep_alive_at: Option<Instant>,
    /// Keep Alives that were due while one was unanswered.
    keep_alives_missed: Option<u32>,
    tick_at: Option<Instant>,
    /// Something changed while another step was in flight.
    namespaces_changed: bool,
    discovery_changed: bool,
}

impl Controller {
    pub(super) fn start_keep_alive(&mut self, now: Instant) {
        self.service = Service {
            keep_alive_at: self.keep_alive_interval().map(|interval| now + interval),
            ..Service::default()
        };
    }

    pub(super) fn start_service(&mut self, now: Instant) {
        self.service.tick_at = Some(now + self.tick_interval());
        if self.wanted_events().0 != 0 && !self.config.keep_alive.is_zero() {
            self.ask_admin(Purpose::Event, Admin::AsyncEventRequest, 0);
        }
    }

    pub(super) fn stop_service(&mut self) {
        self.service = Service::default();
    }

    /// When [`Controller::run_service`] has something to do.
    pub(super) fn service_timeout(&self) -> Option<Instant> {
        let timers = [self.service.keep_alive_at, self.service.tick_at];
        timers.into_iter().flatten().min()
    }

    pub(super) fn run_service(&mut self, now: Instant) {
        if self.service.keep_alive_at.is_some_and(|at| at <= now) {
            self.keep_alive(now);
        }
        if self.service.tick_at.is_some_and(|at| at <= now) {
            self.service.tick_at = Some(now + self.tick_interval());
            let mut queues = self.queues.iter_mut().flatten();
            // Every queue must count, whatever the others found.
            let late = queues
                .by_ref()
                .fold(false, |late, queue| queue.tick(TICKS) | late);
            if late {
                self.fail(
                    now,
                    Failure::TimedOut {
                        what: "a command",
                        limit: self.config.command_timeout,
                    },
                );
            }
        }
    }

    /// Half of what the controller waits, so that one may be late.
    fn keep_alive_interval(&self) -> Option<Duration> {
        let interval = self.config.keep_alive / 2;
        (!interval.is_zero()).then_some(interval)
    }

    fn tick_interval(&self) -> Duration {
        (self.config.command_timeout / TICKS).max(Duration::from_millis(1))
    }

    fn keep_alive(&mut self, now: Instant) {
        self.service.keep_alive_at = self.keep_alive_interval().map(|interval| now + interval);
        match &mut self.service.keep_alives_missed {
            None => {
                self.service.keep_alives_missed = Some(0);
                self.ask_admin(Purpose::KeepAlive, Admin::KeepAlive, 0);
            }
            Some(missed) => {
                *missed += 1;
                if *missed >= 2 {
                    self.fail(
                        now,
                        Failure::TimedOut {
                            what: "the answer to a keep-alive",
                            limit: self.config.keep_alive,
                        },
                    );
                }
            }
        }
    }

    pub(super) fn handle_kept_alive(&mut self, now: Instant, reply: Reply) {
        self.service.keep_alives_missed = None;
        if let Err(status) = reply.status.ok() {
            let what = "Keep Alive";
            self.fail(now, Failure::Setup { what, status });
        }
    }

    /// An event: what it tells of is read again, which re-arms it, and the next one is asked for.
    pub(super) fn handle_async_event(&mut self, now: Instant, reply: Reply) {
        if !reply.status.is_success() {
            // As Linux does: no events, but all else.
            return;
        }
        match AsyncEvent::from_dword(reply.result as u32) {
            AsyncEvent::NAMESPACES_CHANGED => self.service.namespaces_changed = true,
            AsyncEvent::DISCOVERY_CHANGED => self.service.discovery_changed = true,
            other if self.events.len() < MAX_EVENTS => self.events.push_back(Event::Notice(other)),
            // An application that doesn't listen misses some.
            _ => {}
        }
        self.ask_admin(Purpose::Event, Admin::AsyncEventRequest, 0);
        self.run_pending(now);
    }

    /// Reads what changed, unless something else is being asked.
    pub(super) fn run_pending(&mut self, now: Instant) {
        if self.admin.step.is_some() || !matches!(self.phase, Phase::Ready) {
            return;
        }
        if std::mem::take(&mut self.service.namespaces_changed) {
            self.begin(now, Step::ChangedNamespaces);
        } else if std::mem::take(&mut self.service.discovery_changed) {
            self.begin(now, Step::Log(LogReading::default()));
        }
    }

    pub(super) fn ask_changed_namespaces(&mut self) -> bool {
        let page = GetLogPage {
            id: LogPage::CHANGED_NAMESPACES,
            specific: 0,
            retain_event: false,
            len: ANSWER_LEN as u64,
            offset: 0,
            nsid: u32::MAX,
        };
        self.ask_admin(Purpose::Step, Admin::GetLogPage(page), ANSWER_LEN)
    }
}
