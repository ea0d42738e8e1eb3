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
        Self(kinds().collect())
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

type Kinds = (
    &'static str,
    &'static str,
    Vec<&'static [(&'static str, &'static str)]>,
    fn(&str) -> bool,
);

fn kinds() -> impl Iterator<Item = Kind> {
    let all: [Kinds; 10] = [
        (
            "nic",
            "the NIC",
            vec![nic::Counters::EXPLANATIONS],
            |group| group == "nic",
        ),
        (
            "host",
            "the host stack",
            vec![host::COUNTER_EXPLANATIONS],
            |group| group == "host",
        ),
        (
            "port, wire, NAME tap",
            "a network interface",
            vec![],
            |group| group == "port" || group == "wire" || group.ends_with(" tap"),
        ),
        (
            "thread",
            "cycles of the NIC process's thread",
            vec![PART_EXPLANATIONS],
            |group| group == "thread",
        ),
        (
            "http",
            "longshore serve",
            vec![ServeCounters::EXPLANATIONS],
            |group| group == "http",
        ),
        (
            "nvme",
            "an NVMe/TCP target",
            vec![TargetCounters::EXPLANATIONS],
            |group| group == "nvme",
        ),
        (
            "frontend NAME",
            "a frontend of the load balancer",
            vec![FrontendCounters::EXPLANATIONS],
            |group| group.starts_with("frontend "),
        ),
        (
            "pool NAME",
            "a pool of the load balancer",
            vec![PoolState::EXPLANATIONS, PoolCounters::EXPLANATIONS],
            |group| group.starts_with("pool "),
        ),
        (
            "backend POOL/ADDRESS",
            "a backend of the load balancer",
            vec![ServerState::EXPLANATIONS, ServerCounters::EXPLANATIONS],
            |group| group.starts_with("backend "),
        ),
        (
            "NAME",
            "the driver of an interface of longshore nic --host",
            vec![linux::Counters::EXPLANATIONS],
            |_| true,
        ),
    ];
    all.into_iter().map(|(name, title, lists, is_of)| {
        let mut counters: Vec<_> = lists.into_iter().flatten().copied().collect();
        if counters.is_empty() {
            counters.extend(port::explanations());
        }
        // Documentation comments begin with a blank; ports share names.
        let mut named = Vec::new();
        for (name, explanation) in counters {
            if named.iter().all(|(other, _)| *other != name) {
                named.push((name, explanation.trim()));
            }
        }
        Kind {
            name,
            title,
            counters: named,
            is_of,
        }
    })
}

#[cfg(test)]
mod tests;
