//! What every counter of every group counts.

use crate::lb::counters::{FrontendCounters, PoolCounters, PoolState, ServerCounters, ServerState};
use crate::nic_process::PART_EXPLANATIONS;
use crate::nvme::TargetCounters;
use crate::serve::ServeCounters;

/// Groups that count the same things.
pub struct Kind {
    /// Their names, as `stat` shows them; capitals stand for names that differ.
    pub name: &'static str,
    /// What they are.
    pub title: &'static str,
    /// Names of counters, and what each counts.
    pub counters: Vec<(&'static str, &'static str)>,
    is_of: fn(&str) -> bool,
}

impl Kind {
    fn explain(&self, counter: &str) -> Option<&'static str> {
        let mut counters = self.counters.iter();
        let found = counters.find(|(name, _)| *name == counter);
        found.map(|(_, explanation)| *explanation)
    }
}

/// Every kind of group.
pub struct Glossary(Vec<Kind>);

impl Glossary {
    /// All of them.
    pub fn new() -> Self {
        Self(kinds().into())
    }

    /// The kinds, in the order in which they are shown.
    pub fn kinds(&self) -> &[Kind] {
        &self.0
    }

    /// What a counter of a group counts. An interface may have a name that looks like another kind's.
    pub fn explain(&self, group: &str, counter: &str) -> Option<&'static str> {
        let mut of_its_kind = self.0.iter().filter(|kind| (kind.is_of)(group));
        let explained = of_its_kind.find_map(|kind| kind.explain(counter));
        explained.or_else(|| self.0.iter().find_map(|kind| kind.explain(counter)))
    }
}

type Explained = (&'static str, &'static str);

impl Kind {
    fn new(
        name: &'static str,
        title: &'static str,
        counters: impl IntoIterator<Item = Explained>,
        is_of: fn(&str) -> bool,
    ) -> Self {
        let mut named: Vec<Explained> = Vec::new();
        for (name, explanation) in counters {
            // Ports share names.
            if named.iter().all(|(other, _)| *other != name) {
                // Documentation comments begin with a blank.
                named.push((name, explanation.trim()));
            }
        }
        Self {
            name,
            title,
            counters: named,
            is_of,
        }
    }
}

fn kinds() -> [Kind; 10] {
    let listed = |list: &'static [Explained]| list.iter().copied();
    [
        Kind::new("nic", "the NIC", nic::Counters::explanations(), |group| {
            group == "nic"
        }),
        Kind::new(
            "host",
            "the host stack",
            host::counter_explanations(),
            |group| group == "host",
        ),
        Kind::new(
            "port, wire, NAME tap",
            "a network interface",
            port::explanations(),
            |group| group == "port" || group == "wire" || group.ends_with(" tap"),
        ),
        Kind::new(
            "thread",
            "cycles of the NIC process's thread",
            listed(PART_EXPLANATIONS),
            |group| group == "thread",
        ),
        Kind::new(
            "http",
            "longshore serve",
            listed(ServeCounters::EXPLANATIONS),
            |group| group == "http",
        ),
        Kind::new(
            "nvme",
            "an NVMe/TCP target",
            listed(TargetCounters::EXPLANATIONS),
            |group| group == "nvme",
        ),
        Kind::new(
            "frontend NAME",
            "a frontend of the load balancer",
            listed(FrontendCounters::EXPLANATIONS),
            |group| group.starts_with("frontend "),
        ),
        Kind::new(
            "pool NAME",
            "a pool of the load balancer",
            listed(PoolState::EXPLANATIONS).chain(listed(PoolCounters::EXPLANATIONS)),
            |group| group.starts_with("pool "),
        ),
        Kind::new(
            "backend POOL/ADDRESS",
            "a backend of the load balancer",
            listed(ServerState::EXPLANATIONS).chain(listed(ServerCounters::EXPLANATIONS)),
            |group| group.starts_with("backend "),
        ),
        Kind::new(
            "NAME",
            "the driver of an interface of longshore nic --host",
            listed(linux::Counters::EXPLANATIONS),
            |_| true,
        ),
    ]
}

#[cfg(test)]
mod tests;
