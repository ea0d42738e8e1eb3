//! What every counter of every group counts.

use crate::lb::counters::{FrontendCounters, PoolCounters, PoolState, ServerCounters, ServerState};
use crate::nic_process::PART_EXPLANATIONS;
use crate::nvme::TargetCounters;
use crate::serve::ServeCounters;

use super::protocol::CounterGroup;
use super::several::WORKER_EXPLANATIONS;

/// Groups that count the same things.
pub struct Kind {
    /// Their names, as `stat` shows them; capitals stand for names that differ.
    pub name: &'static str,
    /// What they are.
    pub title: &'static str,
    /// The part of a metric's name that stands for them.
    pub part: &'static str,
    /// Names of counters, and what each counts.
    pub counters: Vec<(&'static str, &'static str)>,
    is_of: fn(&str) -> bool,
}

/// What can also fall. Everything else is a count since the start.
const GAUGES: [&str; 34] = [
    "AccelCurrListeners",
    "AccelCurrQuasi",
    "AccelCurrSplices",
    "HandoffCurr",
    "MemControl",
    "MemLevel",
    "MemLimit",
    "MemPosted",
    "MemQueued",
    "MemReceived",
    "MemResident",
    "TlsCurrRxDevice",
    "TlsCurrRxSw",
    "TlsCurrTxDevice",
    "TlsCurrTxSw",
    "accel_curr_closing",
    "accel_curr_packet_memory",
    "accel_curr_splices",
    "active",
    "connections_open",
    "draining",
    "files_mapped",
    "idle",
    "io_uring",
    "memory",
    "memory_used",
    "panic",
    "queues",
    "store_operations",
    "toe_connections",
    "toe_rx_queue_len",
    "toe_soft_limit",
    "up",
    "waiting",
];

/// What is in bytes, though its name does not say so.
const IN_BYTES: [&str; 9] = [
    "MemControl",
    "MemLimit",
    "MemPosted",
    "MemQueued",
    "MemReceived",
    "MemResident",
    "accel_curr_packet_memory",
    "memory",
    "memory_used",
];

impl Kind {
    /// Whether a counter can also fall.
    pub fn is_gauge(&self, counter: &str) -> bool {
        GAUGES.contains(&counter)
    }

    /// Whether a counter is in bytes; names with `bytes` in them say it themselves.
    pub fn is_in_bytes(&self, counter: &str) -> bool {
        IN_BYTES.contains(&counter)
    }

    /// What tells a group from the others of its kind, as labels of a metric.
    pub fn labels(&self, group: &str) -> Vec<(&'static str, String)> {
        let name = group.split_once(' ').map_or(group, |(_, name)| name);
        match self.part {
            "port" => vec![("port", group.to_owned())],
            "driver" => vec![("interface", group.to_owned())],
            "frontend" => vec![("frontend", name.to_owned())],
            "pool" => vec![("pool", name.to_owned())],
            "worker" => vec![("worker", name.to_owned())],
            "backend" => {
                // A pool may have a slash in its name.
                let (pool, address) = name.rsplit_once('/').unwrap_or(("", name));
                vec![("pool", pool.to_owned()), ("backend", address.to_owned())]
            }
            _ => Vec::new(),
        }
    }

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

    /// The kind of a group: the first that its name fits and that has its counters. An interface may have a name that looks like another
    /// kind's.
    pub fn kind_of(&self, group: &CounterGroup) -> &Kind {
        let has_counters = |kind: &Kind| {
            let mut counters = group.counters.iter();
            counters.all(|(name, _)| kind.explain(name).is_some())
        };
        let of_its_name = || self.0.iter().filter(|kind| (kind.is_of)(&group.name));
        // Those of another version have counters that none has: the name decides.
        let found = of_its_name().find(|kind| has_counters(kind));
        found
            .or_else(|| of_its_name().next())
            .expect("every name is an interface's, if nothing else's")
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
        part: &'static str,
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
            part,
            counters: named,
            is_of,
        }
    }
}

fn kinds() -> [Kind; 11] {
    let listed = |list: &'static [Explained]| list.iter().copied();
    [
        Kind::new(
            "nic",
            "nic",
            "the NIC",
            nic::Counters::explanations(),
            |group| group == "nic",
        ),
        Kind::new(
            "host",
            "host",
            "the host stack",
            host::counter_explanations(),
            |group| group == "host",
        ),
        Kind::new(
            "port",
            "port, wire, NAME tap",
            "a network interface",
            port::explanations(),
            |group| group == "port" || group == "wire" || group.ends_with(" tap"),
        ),
        Kind::new(
            "worker",
            "worker NUMBER",
            "one of several NICs, of serve, lb, nvme target and nic with --cores",
            listed(WORKER_EXPLANATIONS),
            |group| group.starts_with("worker "),
        ),
        Kind::new(
            "thread",
            "thread",
            "cycles of the NIC process's threads",
            listed(PART_EXPLANATIONS),
            |group| group == "thread",
        ),
        Kind::new(
            "http",
            "http",
            "longshore serve",
            listed(ServeCounters::EXPLANATIONS),
            |group| group == "http",
        ),
        Kind::new(
            "nvme_target",
            "nvme",
            "an NVMe/TCP target",
            listed(TargetCounters::EXPLANATIONS),
            |group| group == "nvme",
        ),
        Kind::new(
            "frontend",
            "frontend NAME",
            "a frontend of the load balancer",
            listed(FrontendCounters::EXPLANATIONS),
            |group| group.starts_with("frontend "),
        ),
        Kind::new(
            "pool",
            "pool NAME",
            "a pool of the load balancer",
            listed(PoolState::EXPLANATIONS).chain(listed(PoolCounters::EXPLANATIONS)),
            |group| group.starts_with("pool "),
        ),
        Kind::new(
            "backend",
            "backend POOL/ADDRESS",
            "a backend of the load balancer",
            listed(ServerState::EXPLANATIONS).chain(listed(ServerCounters::EXPLANATIONS)),
            |group| group.starts_with("backend "),
        ),
        Kind::new(
            "driver",
            "NAME",
            "the driver of an interface of longshore nic --host",
            listed(linux::Counters::EXPLANATIONS),
            |_| true,
        ),
    ]
}

#[cfg(test)]
mod tests;
