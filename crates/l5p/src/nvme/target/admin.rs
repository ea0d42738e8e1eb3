//! Admin commands (Base 2.0c §5).

use std::sync::Arc;

use wire::nvme::command::{
    self, Admin, EventMask, Feature, Identify, QueueCounts, Status, SubmissionEntry,
};
use wire::nvme::identify::{self, CSI_NVM, Cns};
use wire::nvme::log::{
    CommandEffects, DiscoveryEntry, DiscoveryHeader, ErrorEntry, FirmwareSlots, HealthLog, LogPage,
    SupportedPages,
};

use super::answer::Answer;
use super::capsule::Plan;
use super::command::{State, Work};
use super::config::Namespace;
use super::controller::{ERROR_LOG_ENTRIES, Subject};
use super::ids::{ConnectionId, ControllerRef};
use super::io;
use super::machine::Target;

/// The NSID of all namespaces.
const ALL_NAMESPACES: u32 = 0xffff_ffff;
/// Bit 0 of dword 11 of Host Identifier: it has 128 bits (EXHID).
const EXTENDED_HOST_ID: u32 = 1;

impl Target {
    pub(super) fn admin_command(
        &mut self,
        id: ControllerRef,
        slot: u16,
        entry: &SubmissionEntry,
    ) -> Result<Plan, Status> {
        match Admin::parse(entry)? {
            Admin::Identify(what) => {
                let answer = self.identify(id, &what)?;
                io::to_host(entry, identify::LEN as u32)?;
                Ok(Plan::Answer(answer, identify::LEN as u32))
            }
            Admin::GetLogPage(page) => {
                if page.len > u64::from(self.config.limits.data) {
                    return Err(Status::INVALID_FIELD.do_not_retry());
                }
                io::to_host(entry, page.len as u32)?;
                Ok(Plan::Answer(self.log_page(id, &page)?, page.len as u32))
            }
            Admin::SetFeatures {
                feature,
                save,
                value,
                ..
            } => self.set_feature(id, feature, save, value).map(Plan::Reply),
            Admin::GetFeatures {
                feature,
                select,
                value,
                ..
            } => self.feature(id, entry, feature, select, value),
            Admin::AsyncEventRequest => {
                let controller = self.controller_mut(id).expect("its queue is open");
                if !controller.events.park(slot) {
                    return Err(Status::AER_LIMIT_EXCEEDED.do_not_retry());
                }
                Ok(Plan::Park)
            }
            Admin::KeepAlive => Ok(Plan::Reply(0)),
            Admin::Abort { queue, cid } => Ok(Plan::Reply(self.abort(id, queue, cid).into())),
        }
    }

    fn identify(&mut self, id: ControllerRef, what: &Identify) -> Result<Answer, Status> {
        let controller = self.controller_mut(id).expect("its queue is open");
        let invalid_field = Err(Status::INVALID_FIELD.do_not_retry());
        let invalid_namespace = Err(Status::INVALID_NAMESPACE.do_not_retry());
        let subsystem = match controller.subject() {
            Subject::Discovery if what.cns == Cns::CONTROLLER => {
                return Ok(Answer::IdentifyController);
            }
            Subject::Discovery => return invalid_field,
            Subject::Subsystem(at) => &self.subsystems[at],
        };
        let active = subsystem.active(what.nsid).map(|_| ());
        let is_nvm = what.command_set == CSI_NVM;
        match what.cns {
            Cns::CONTROLLER => Ok(Answer::IdentifyController),
            // Zeroes for a namespace that is not active. Of all namespaces, what they have in common is for controllers with
            // namespace management alone.
            Cns::NAMESPACE if !Namespace::may_have(what.nsid) => invalid_namespace,
            Cns::NAMESPACE => Ok(Answer::IdentifyNamespace(what.nsid)),
            Cns::ACTIVE_NAMESPACES if what.nsid >= ALL_NAMESPACES - 1 => invalid_namespace,
            Cns::ACTIVE_NAMESPACES => Ok(Answer::ActiveNamespaces(what.nsid)),
            Cns::COMMAND_SET_ACTIVE_NAMESPACES if what.nsid >= ALL_NAMESPACES - 1 => {
                invalid_namespace
            }
            Cns::COMMAND_SET_ACTIVE_NAMESPACES if is_nvm => Ok(Answer::ActiveNamespaces(what.nsid)),
            Cns::COMMAND_SET_CONTROLLER if is_nvm => Ok(Answer::IdentifyNvmController),
            Cns::NAMESPACE_IDS => active.map(|()| Answer::NamespaceIds(what.nsid)),
            Cns::COMMAND_SET_NAMESPACE if is_nvm => active.map(|()| Answer::IdentifyNvmNamespace),
            Cns::INDEPENDENT_NAMESPACE => active.map(|()| Answer::IdentifyIndependent(what.nsid)),
            _ => invalid_field,
        }
    }

    fn log_page(
        &mut self,
        id: ControllerRef,
        page: &command::GetLogPage,
    ) -> Result<Answer, Status> {
        let log = page.id;
        let subject = self
            .controller_mut(id)
            .expect("its queue is open")
            .subject();
        if !super::answer::pages(subject).contains(&log) {
            return Err(Status::INVALID_LOG_PAGE.do_not_retry());
        }
        // There are no pages of one namespace (LPA bit 0), and no offsets greater than a page's size (§5.16.1).
        let is_of_all = matches!(page.nsid, 0 | ALL_NAMESPACES);
        if !is_of_all || page.offset > self.log_len(id, log) {
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        let controller = self.controller_mut(id).expect("its queue is open");
        match log {
            LogPage::CHANGED_NAMESPACES => {
                let changed = controller.events.read_changed(page.retain_event);
                return Ok(Answer::ChangedNamespaces(changed, page.offset));
            }
            LogPage::DISCOVERY => controller.events.read_discovery(page.retain_event),
            _ => {}
        }
        Ok(Answer::Log(log, page.offset))
    }

    /// Bytes of a log page that the controller has.
    fn log_len(&mut self, id: ControllerRef, log: LogPage) -> u64 {
        match log {
            LogPage::DISCOVERY => {
                let controller = self.controller_mut(id).expect("its queue is open");
                let host = controller.control.owner.host.nqn;
                let found = self.subsystems.iter().filter(|s| s.hosts.allow(&host));
                let records = found.count() * self.config.portals.len();
                (DiscoveryHeader::LEN + records * DiscoveryEntry::LEN) as u64
            }
            LogPage::SUPPORTED => SupportedPages::LEN as u64,
            LogPage::ERROR => (ERROR_LOG_ENTRIES * ErrorEntry::LEN) as u64,
            LogPage::HEALTH => HealthLog::LEN as u64,
            LogPage::FIRMWARE => FirmwareSlots::LEN as u64,
            LogPage::COMMAND_EFFECTS => CommandEffects::LEN as u64,
            // Changed namespaces.
            _ => identify::LEN as u64,
        }
    }

    /// Sets a feature (§5.27); answers dword 0 of the completion.
    fn set_feature(
        &mut self,
        id: ControllerRef,
        feature: Feature,
        save: bool,
        value: u32,
    ) -> Result<u64, Status> {
        let (most, has_cache) = (self.config.limits.io_queues, self.has_cache(id));
        let controllers = &mut self.controllers;
        let controller = controllers.get_mut(id.index, id.generation);
        let controller = controller.expect("its queue is open");
        if save {
            return Err(Status::FEATURE_NOT_SAVEABLE.do_not_retry());
        }
        match feature {
            Feature::NUMBER_OF_QUEUES if controller.subject() != Subject::Discovery => {
                if value & 0xffff == 0xffff || value >> 16 == 0xffff {
                    return Err(Status::INVALID_FIELD.do_not_retry());
                }
                let mut state = self.shared.lock();
                let queues = state.io_queues(controller.id());
                if queues.iter().any(Option::is_some) {
                    return Err(Status::SEQUENCE_ERROR.do_not_retry());
                }
                let asked = QueueCounts::from_dword(value);
                // A connection is a submission and a completion queue.
                let granted = asked.submission.min(asked.completion).min(most.into());
                *queues = vec![None; granted as usize];
                Ok(queue_counts(queues.len()).into())
            }
            Feature::KEEP_ALIVE_TIMER => {
                let set = controller.set_keep_alive(value);
                let number = controller.id();
                self.expect_silence(number);
                Ok(set.into())
            }
            Feature::ASYNC_EVENT_CONFIGURATION => {
                let offered = match controller.subject() {
                    Subject::Discovery => EventMask::DISCOVERY,
                    Subject::Subsystem(_) => EventMask::NAMESPACES,
                };
                // The critical warnings of bits 7:0 never come, so that any may be enabled.
                let asked = EventMask(value & !0xff);
                if !offered.contains(asked) {
                    return Err(Status::INVALID_FIELD.do_not_retry());
                }
                controller.events.enabled = EventMask(value);
                Ok(0)
            }
            Feature::VOLATILE_WRITE_CACHE if has_cache => {
                controller.control.set_write_cache(value & 1 != 0);
                Ok(0)
            }
            Feature::HOST_IDENTIFIER => Err(Status::SEQUENCE_ERROR.do_not_retry()),
            _ if controller.subject() == Subject::Discovery => {
                Err(Status::INVALID_FIELD.do_not_retry())
            }
            _ => controller.features.set(feature, value).map(|()| 0),
        }
    }

    /// Reads a feature (§5.15).
    fn feature(
        &mut self,
        id: ControllerRef,
        entry: &SubmissionEntry,
        feature: Feature,
        select: u8,
        value: u32,
    ) -> Result<Plan, Status> {
        let (has_cache, shared) = (self.has_cache(id), Arc::clone(&self.shared));
        let controller = self.controller_mut(id).expect("its queue is open");
        if select != 0 {
            // Only current values: ONCS says that Select is not supported.
            return Err(Status::INVALID_FIELD.do_not_retry());
        }
        let dword = match feature {
            Feature::NUMBER_OF_QUEUES if controller.subject() != Subject::Discovery => {
                queue_counts(shared.lock().io_queues(controller.id()).len())
            }
            Feature::KEEP_ALIVE_TIMER => controller.control.keep_alive(),
            Feature::ASYNC_EVENT_CONFIGURATION => controller.events.enabled.0,
            Feature::VOLATILE_WRITE_CACHE if has_cache => {
                controller.control.has_write_cache().into()
            }
            Feature::HOST_IDENTIFIER => {
                if value & EXTENDED_HOST_ID == 0 {
                    return Err(Status::HOST_ID_INCONSISTENT.do_not_retry());
                }
                io::to_host(entry, 16)?;
                return Ok(Plan::Answer(Answer::HostId, 16));
            }
            _ if controller.subject() == Subject::Discovery => {
                return Err(Status::INVALID_FIELD.do_not_retry());
            }
            _ => controller.features.get(feature, value)?,
        };
        Ok(Plan::Reply(dword.into()))
    }

    /// Gives up a command that has not begun: one that waits for memory, or for an event. Answers dword 0: 0 if it was given up,
    /// 1 if not (§5.1).
    fn abort(&mut self, id: ControllerRef, queue: u16, cid: u16) -> u32 {
        const ABORTED: u32 = 0;
        const NOT_ABORTED: u32 = 1;
        // Another machine's commands are well on their way when this could reach it.
        let found = self.queue_of(id, queue);
        let Some(connection) = found.filter(|queue| queue.machine == self.machine) else {
            return NOT_ABORTED;
        };
        let live = self.open_mut(connection).expect("it is a queue");
        let Some(slot) = live.find(cid) else {
            return NOT_ABORTED;
        };
        let command = live.command_mut(slot).expect("it was found");
        match (&command.state, &command.work) {
            (State::Waiting, Work::Store(_)) => {}
            (State::Parked, Work::Reply) => {
                let controller = self.controller_mut(id).expect("its queue is open");
                // Abort itself is in flight too, and has nothing parked.
                if !controller.events.unpark(slot) {
                    return NOT_ABORTED;
                }
            }
            _ => return NOT_ABORTED,
        }
        self.respond(connection, slot, Status::ABORT_REQUESTED, 0);
        ABORTED
    }

    /// Whether the controller has a volatile write cache.
    fn has_cache(&self, id: ControllerRef) -> bool {
        let controller = self.controllers.get(id.index, id.generation);
        match controller.expect("its queue is open").subject() {
            Subject::Discovery => false,
            Subject::Subsystem(at) => self.subsystems[at].has_volatile_cache(),
        }
    }

    /// The connection of a controller's queue.
    fn queue_of(&mut self, id: ControllerRef, queue: u16) -> Option<ConnectionId> {
        let controller = self.controller_mut(id)?;
        let (admin, number) = (controller.admin, controller.id());
        let Some(at) = queue.checked_sub(1) else {
            return Some(admin);
        };
        let mut state = self.shared.lock();
        let found = state.io_queues(number).get(usize::from(at))?.as_ref()?;
        Some(found.connection)
    }

    /// Tells the host what it waits for.
    pub(super) fn deliver_events(&mut self, id: ControllerRef) {
        while let Some(controller) = self.controller_mut(id) {
            let admin = controller.admin;
            let Some((slot, event)) = controller.events.next() else {
                return;
            };
            self.respond(admin, slot, Status::SUCCESS, event.to_dword().into());
        }
    }
}

fn queue_counts(queues: usize) -> u32 {
    QueueCounts {
        submission: queues as u32,
        completion: queues as u32,
    }
    .to_dword()
}
