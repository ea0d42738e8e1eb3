//! A subsystem and its namespaces, as one machine has them.

use wire::nvme::Nqn;
use wire::nvme::command::Status;

use super::config::{Hosts, Namespace, Subsystem};

/// A subsystem as it is now.
#[derive(Debug)]
pub(super) struct Live {
    pub nqn: Nqn,
    pub serial: String,
    pub model: String,
    pub hosts: Hosts,
    /// Ascending by NSID.
    namespaces: Vec<Namespace>,
}

impl Live {
    pub(super) fn new(mut subsystem: Subsystem) -> Live {
        subsystem.namespaces.sort_by_key(|namespace| namespace.nsid);
        Live {
            nqn: subsystem.nqn,
            serial: subsystem.serial,
            model: subsystem.model,
            hosts: subsystem.hosts,
            namespaces: subsystem.namespaces,
        }
    }

    pub(super) fn namespace(&self, nsid: u32) -> Option<&Namespace> {
        let found = self.namespaces.binary_search_by_key(&nsid, |n| n.nsid);
        found.ok().map(|at| &self.namespaces[at])
    }

    /// The namespace that a command is for.
    ///
    /// # Errors
    /// Invalid Namespace or Format for an NSID that no namespace can have, and Invalid Field for one that none has now (Base
    /// 2.0c §3.2.1.2 to §3.2.1.4).
    pub(super) fn active(&self, nsid: u32) -> Result<&Namespace, Status> {
        self.namespace(nsid).ok_or(match Namespace::may_have(nsid) {
            true => Status::INVALID_FIELD.do_not_retry(),
            false => Status::INVALID_NAMESPACE.do_not_retry(),
        })
    }

    /// All namespaces, ascending by NSID.
    pub(super) fn namespaces(&self) -> &[Namespace] {
        &self.namespaces
    }

    /// Puts a namespace in, in place of the one of its NSID.
    pub(super) fn put(&mut self, namespace: Namespace) {
        let by = |n: &Namespace| n.nsid;
        match self.namespaces.binary_search_by_key(&namespace.nsid, by) {
            Ok(at) => self.namespaces[at] = namespace,
            Err(at) => self.namespaces.insert(at, namespace),
        }
    }

    /// Takes a namespace out. False when it does not exist.
    pub(super) fn remove(&mut self, nsid: u32) -> bool {
        let before = self.namespaces.len();
        self.namespaces.retain(|namespace| namespace.nsid != nsid);
        self.namespaces.len() < before
    }

    /// Whether any namespace may lose what was not flushed.
    pub(super) fn has_volatile_cache(&self) -> bool {
        self.namespaces
            .iter()
            .any(|namespace| namespace.volatile_cache)
    }
}
