//! From the first connection to the last namespace: one step after the other (NVMe Base 2.0 §3.5.2, §3.6.2).

use std::time::{Duration, Instant};

use wire::nvme::command::{
    Admin, Capabilities, Configuration, ConnectData, ControllerStatus, DYNAMIC_CONTROLLER,
    EventMask, Fabrics, Feature, Identify, Property, QueueCounts, Version,
};
use wire::nvme::identify::{CSI_NVM, Cns, ControllerData, NvmControllerData};

use super::admin::{ANSWER_LEN, Purpose, Reply};
use super::discovery::LogReading;
use super::namespaces::NamespaceReading;
use super::{Action, Controller, ControllerInfo, Event, Failure, Phase};

/// How long to wait before the status is read again.
const STATUS_INTERVAL: Duration = Duration::from_millis(20);

/// A setup that goes on.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) deadline: Instant,
}

/// What is being asked of the controller.
#[derive(Debug)]
pub(super) enum Step {
    /// Nothing yet: the admin queue connects.
    Admin,
    Capabilities,
    Version,
    Enable,
    /// The status is read until it says ready; `Some`: again at that time.
    AwaitReady(Option<Instant>),
    Identify,
    IdentifyNvm,
    QueueCount,
    Events,
    /// So many I/O queues are not connected yet.
    IoQueues(u16),
    /// The list that says which namespaces changed is read to re-arm the event, and not looked at.
    ChangedNamespaces,
    Namespaces(NamespaceReading),
    Log(LogReading),
}

impl Controller {
    /// Begins to connect.
    pub fn start(&mut self, now: Instant) {
        if matches!(self.phase, Phase::Idle) {
            self.begin_setup(now);
        }
    }

    pub(super) fn begin_setup(&mut self, now: Instant) {
        let deadline = now + self.config.setup_timeout;
        self.phase = Phase::Setup(Setup { deadline });
        self.admin.step = Some(Step::Admin);
        self.queues.push(None);
        self.actions.push_back(Action::Connect { queue: 0 });
    }

    /// Who connects to what on `queue`.
    pub(super) fn identity(&self, queue: u16) -> ConnectData {
        ConnectData {
            host_id: self.config.host_id,
            controller: if queue == 0 {
                DYNAMIC_CONTROLLER
            } else {
                self.id
            },
            subsystem: self.config.subsystem,
            host: self.config.host,
        }
    }

    /// Connect succeeded on `queue`.
    pub(super) fn handle_queue_up(&mut self, now: Instant, queue: u16, controller: u16) {
        match &mut self.admin.step {
            Some(Step::Admin) if queue == 0 => {
                self.id = controller;
                self.start_keep_alive(now);
                self.begin(now, Step::Capabilities);
            }
            Some(Step::IoQueues(left)) if queue > 0 && controller == self.id => {
                *left -= 1;
                if *left == 0 {
                    self.begin(now, Step::Namespaces(NamespaceReading::default()));
                }
            }
            _ => {
                let unfit = Failure::Unfit("it gave an I/O queue another controller ID");
                self.fail(now, unfit);
            }
        }
    }

    /// Begins a step: asks its question.
    pub(super) fn begin(&mut self, now: Instant, mut step: Step) {
        let purpose = Purpose::Step;
        let asked = match &mut step {
            Step::Admin => true,
            Step::Capabilities => self.ask_fabrics(purpose, Fabrics::PropertyGet(Property::CAP)),
            Step::Version => self.ask_fabrics(purpose, Fabrics::PropertyGet(Property::VS)),
            Step::Enable => {
                let value = u64::from(self.configuration().0);
                self.ask_fabrics(purpose, Fabrics::PropertySet(Property::CC, value))
            }
            Step::AwaitReady(_) => self.ask_fabrics(purpose, Fabrics::PropertyGet(Property::CSTS)),
            Step::Identify => self.ask_admin(purpose, identify(Cns::CONTROLLER, 0), ANSWER_LEN),
            Step::IdentifyNvm => self.ask_admin(
                purpose,
                identify(Cns::COMMAND_SET_CONTROLLER, 0),
                ANSWER_LEN,
            ),
            Step::QueueCount => {
                let counts = self.queue_counts().to_dword();
                self.ask_admin(purpose, features(Feature::NUMBER_OF_QUEUES, counts), 0)
            }
            Step::Events => {
                let mask = self.wanted_events().0;
                self.ask_admin(
                    purpose,
                    features(Feature::ASYNC_EVENT_CONFIGURATION, mask),
                    0,
                )
            }
            Step::IoQueues(left) => {
                for queue in 1..=*left {
                    self.queues.push(None);
                    self.actions.push_back(Action::Connect { queue });
                }
                true
            }
            Step::ChangedNamespaces => self.ask_changed_namespaces(),
            Step::Namespaces(reading) => match reading.next() {
                Some((cns, nsid)) => self.ask_admin(purpose, identify(cns, nsid), ANSWER_LEN),
                None => {
                    self.namespaces = std::mem::take(&mut reading.read);
                    let replaced = self.identities.compare(&mut self.namespaces);
                    let replaced = replaced.into_iter().map(Event::NamespaceReplaced);
                    self.events.extend(replaced);
                    return self.finish(now, Event::NamespacesChanged);
                }
            },
            Step::Log(reading) => {
                let page = Admin::GetLogPage(reading.question());
                let len = reading.answer_len();
                self.ask_admin(purpose, page, len)
            }
        };
        self.admin.step = Some(step);
        if !asked {
            // Its depth is far above what is asked at once.
            self.fail(now, Failure::Unfit("its admin queue takes no commands"));
        }
    }

    /// CC of an enabled controller: with the smallest pages that it has.
    pub(super) fn configuration(&self) -> Configuration {
        let pages = u32::from(self.admin.capabilities.min_page_shift()) << 7;
        Configuration(Configuration::ENABLED.0 | pages)
    }

    fn queue_counts(&self) -> QueueCounts {
        let count = u32::from(self.config.io_queues);
        QueueCounts {
            submission: count,
            completion: count,
        }
    }

    /// The last step is done.
    pub(super) fn finish(&mut self, now: Instant, changed: Event) {
        self.admin.step = None;
        if let Phase::Setup(_) = self.phase {
            self.phase = Phase::Ready;
            self.recovery.succeeded();
            self.events.push_back(Event::Ready);
            self.start_service(now);
            self.dispatch();
        } else {
            self.events.push_back(changed);
        }
        self.run_pending(now);
    }

    /// The answer to the step in flight came.
    pub(super) fn handle_step(&mut self, now: Instant, reply: Reply) {
        let Some(step) = self.admin.step.take() else {
            return;
        };
        if let (Err(status), Some(what)) = (reply.status.ok(), step.required()) {
            return self.fail(now, Failure::Setup { what, status });
        }
        match self.next_step(now, step, reply) {
            Ok(Some(next)) => self.begin(now, next),
            Ok(None) => {}
            Err(failure) => self.fail(now, failure),
        }
    }

    /// Takes in the answer to a step. `None`: the next one is to wait, or all is done.
    fn next_step(
        &mut self,
        now: Instant,
        step: Step,
        reply: Reply,
    ) -> Result<Option<Step>, Failure> {
        Ok(Some(match step {
            Step::Admin | Step::IoQueues(_) => return Ok(None),
            Step::Capabilities => {
                self.admin.capabilities = Capabilities(reply.result);
                Step::Version
            }
            Step::Version => {
                self.admin.version = Version(reply.result as u32);
                Step::Enable
            }
            Step::Enable => Step::AwaitReady(None),
            Step::AwaitReady(_) => match ControllerStatus(reply.result as u32) {
                status if status.fatal() => return Err(Failure::ControllerFatal),
                status if status.ready() => Step::Identify,
                _ => {
                    self.admin.step = Some(Step::AwaitReady(Some(now + STATUS_INTERVAL)));
                    return Ok(None);
                }
            },
            Step::Identify => self.take_identity()?,
            Step::IdentifyNvm => {
                if let (true, Ok(nvm), Some(info)) = (
                    reply.status.is_success(),
                    NvmControllerData::parse(&self.admin.answer),
                    &mut self.info,
                ) {
                    info.nvm = nvm;
                    self.limits = info.limits(&self.config);
                }
                self.after_identity()
            }
            Step::QueueCount => {
                let granted = QueueCounts::from_dword(reply.result as u32);
                let count = granted.submission.min(granted.completion);
                let count = count.min(u32::from(self.config.io_queues));
                self.limits.io_queues = count as u16;
                self.events_or(Step::IoQueues(count as u16))
            }
            Step::Events => self.after_events(),
            Step::ChangedNamespaces => Step::Namespaces(NamespaceReading::default()),
            Step::Namespaces(mut reading) => {
                reading.take(&self.admin.answer, reply.status)?;
                Step::Namespaces(reading)
            }
            Step::Log(reading) => return self.take_log(now, reading, reply.status),
        }))
    }

    fn take_identity(&mut self) -> Result<Step, Failure> {
        let data = ControllerData::parse(&self.admin.answer).map_err(|error| Failure::Answer {
            what: "Identify Controller",
            error,
        })?;
        let info = ControllerInfo {
            capabilities: self.admin.capabilities,
            version: self.admin.version,
            data,
            nvm: NvmControllerData::default(),
        };
        if let Some(what) = info.unfit(&self.config, self.id) {
            return Err(Failure::Unfit(what));
        }
        self.limits = info.limits(&self.config);
        self.info = Some(info);
        if self.config.is_discovery() {
            return Ok(self.events_or(Step::Log(LogReading::default())));
        }
        // Earlier versions have no such structure, and some controllers end the connection when asked for it.
        Ok(match self.admin.version >= Version::new(2, 0, 0) {
            true => Step::IdentifyNvm,
            false => self.after_identity(),
        })
    }

    fn after_identity(&self) -> Step {
        match self.config.io_queues {
            0 => self.events_or(Step::Namespaces(NamespaceReading::default())),
            _ => Step::QueueCount,
        }
    }

    /// The events that the controller offers and that mean something here.
    pub(super) fn wanted_events(&self) -> EventMask {
        let offered = self.info.as_ref().map_or(0, |info| info.data.oaes);
        EventMask(offered).intersection(EventMask::NAMESPACES.union(EventMask::DISCOVERY))
    }

    /// The configuration of events if there are any to configure, and the connection is kept alive.
    fn events_or(&self, step: Step) -> Step {
        match self.wanted_events() {
            EventMask(0) => step,
            _ if self.config.keep_alive.is_zero() => step,
            _ => Step::Events,
        }
    }

    fn after_events(&self) -> Step {
        match self.limits.io_queues {
            _ if self.config.is_discovery() => Step::Log(LogReading::default()),
            0 => Step::Namespaces(NamespaceReading::default()),
            count => Step::IoQueues(count),
        }
    }
}

impl Step {
    /// What fails if this step does; `None`: it may.
    fn required(&self) -> Option<&'static str> {
        match self {
            Step::Capabilities => Some("Property Get of CAP"),
            Step::Version => Some("Property Get of VS"),
            Step::Enable => Some("Property Set of CC"),
            Step::AwaitReady(_) => Some("Property Get of CSTS"),
            Step::Identify => Some("Identify Controller"),
            Step::QueueCount => Some("Set Features, Number of Queues"),
            Step::Log(reading) if !reading.is_of_entries() => {
                Some("Get Log Page of the discovery log")
            }
            Step::Namespaces(reading) if reading.listing => Some("Identify, active namespaces"),
            _ => None,
        }
    }
}

fn identify(cns: Cns, nsid: u32) -> Admin {
    Admin::Identify(Identify {
        cns,
        nsid,
        controller: 0,
        command_set: CSI_NVM,
        specific: 0,
    })
}

fn features(feature: Feature, value: u32) -> Admin {
    Admin::SetFeatures {
        feature,
        save: false,
        nsid: 0,
        value,
    }
}
