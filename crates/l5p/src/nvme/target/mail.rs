//! What one machine has others do, and what it does for them: with namespaces that change, and with queues whose controller is on another.

use std::collections::BTreeSet;

use super::action::{Action, CloseReason};
use super::config::{ConfigError, Hosts, Namespace, StoreId};
use super::controller::{Controller, Subject};
use super::ids::ControllerRef;
use super::machine::Target;
use super::shared::Request;

impl Target {
    /// Puts a namespace into the subsystem of this index, or changes the one of its NSID, on all machines of the target; hosts that want to
    /// hear of it do.
    ///
    /// # Errors
    /// When the namespace can't be one, or there is no such subsystem.
    pub fn set_namespace(&mut self, subsystem: usize, new: Namespace) -> Result<(), ConfigError> {
        new.check()?;
        self.request_of_all(&Request::PutNamespace(subsystem, new));
        Ok(())
    }

    /// All namespaces on this store have so many blocks from now on; hosts that want to hear of it do.
    pub fn resize(&mut self, store: StoreId, blocks: u64) {
        self.request_of_all(&Request::Resize(store, blocks));
    }

    /// Takes a namespace out of the subsystem of this index. Commands that a store works on still finish.
    pub fn remove_namespace(&mut self, subsystem: usize, nsid: u32) {
        self.request_of_all(&Request::RemoveNamespace(subsystem, nsid));
    }

    /// Who may connect to the subsystem of this index, from now on. Controllers that others have stay.
    pub fn set_hosts(&mut self, subsystem: usize, hosts: Hosts) {
        self.request_of_all(&Request::SetHosts(subsystem, hosts));
    }

    /// Before a host hears of it from one machine, all others have it in their mail.
    fn request_of_all(&mut self, request: &Request) {
        for machine in self.shared.request_of_all(request) {
            self.wake(machine);
        }
        self.look_at_mail();
    }

    /// Takes all I/O queues away from a controller of this machine.
    pub(super) fn delete_queues(&mut self, controller: u16, why: CloseReason) {
        let mut others = BTreeSet::new();
        for queue in self.shared.delete_queues(self.machine, controller, why) {
            match queue.machine == self.machine {
                true => self.close(queue, why),
                false => _ = others.insert(queue.machine),
            }
        }
        // Once each, however many queues it has.
        for machine in others {
            self.wake(machine);
        }
    }

    fn wake(&mut self, machine: u16) {
        if machine != self.machine {
            self.actions.push_back(Action::Wake {
                machine: machine.into(),
            });
        }
    }

    /// Does what others want done. Without mail that is one look at a flag.
    #[inline]
    pub(super) fn look_at_mail(&mut self) {
        if self.mail.has_come() {
            self.do_requests();
        }
    }

    #[cold]
    pub(super) fn do_requests(&mut self) {
        for request in self.shared.take_requests(self.machine) {
            match request {
                Request::Close(connection, why) => self.close(connection, why),
                Request::PutNamespace(subsystem, new) => self.put_namespace(subsystem, new),
                Request::RemoveNamespace(subsystem, nsid) => {
                    let live = self.subsystems.get_mut(subsystem);
                    if live.is_some_and(|live| live.remove(nsid)) {
                        self.namespace_changed(subsystem, nsid);
                    }
                }
                Request::SetHosts(subsystem, hosts) => self.hosts_changed(subsystem, hosts),
                Request::Resize(store, blocks) => self.store_resized(store, blocks),
            }
        }
    }

    fn put_namespace(&mut self, subsystem: usize, new: Namespace) {
        if let Some(live) = self.subsystems.get_mut(subsystem) {
            live.put(new);
            self.namespace_changed(subsystem, new.nsid);
        }
    }

    fn store_resized(&mut self, store: StoreId, blocks: u64) {
        for subsystem in 0..self.subsystems.len() {
            let namespaces = self.subsystems[subsystem].namespaces().iter();
            let on_it = namespaces.filter(|namespace| namespace.store == store);
            let resized = on_it.map(|namespace| Namespace {
                blocks,
                ..*namespace
            });
            // A size that no namespace can have changes nothing.
            let possible: Vec<_> = resized.filter(|it| it.check().is_ok()).collect();
            for namespace in possible {
                self.put_namespace(subsystem, namespace);
            }
        }
    }

    fn hosts_changed(&mut self, subsystem: usize, hosts: Hosts) {
        let Some(live) = self.subsystems.get_mut(subsystem) else {
            return;
        };
        live.hosts = hosts;
        self.discovery_generation += 1;
        self.tell(|controller| match controller.subject() {
            Subject::Discovery => controller.events.discovery_changed(),
            Subject::Subsystem(_) => {}
        });
    }

    fn namespace_changed(&mut self, subsystem: usize, nsid: u32) {
        self.tell(|controller| {
            if controller.subject() == Subject::Subsystem(subsystem) {
                controller.events.namespace_changed(nsid);
            }
        });
    }

    /// Lets every controller of this machine note an event, and tells hosts that wait for one.
    fn tell(&mut self, mut note: impl FnMut(&mut Controller)) {
        let mut told = Vec::new();
        for ((index, generation), controller) in self.controllers.iter_mut() {
            note(controller);
            told.push(ControllerRef {
                machine: self.machine,
                index,
                generation,
            });
        }
        for controller in told {
            self.deliver_events(controller);
        }
    }
}
