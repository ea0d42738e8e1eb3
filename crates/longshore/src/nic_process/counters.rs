//! What `longshore stat` shows of a NIC.

use port::Port;

use super::hosts::Host;
use super::worker::DataPath;
use crate::control::{CounterGroup, totals_of_nics};

/// The counters of every part, as `ethtool -S` has them: of each host's driver and interface, of the NIC, of its wire; and where the
/// threads' time went. Of several cores, the sums of these, and some counters of each core.
pub fn groups(
    hosts: &[Host],
    path: &DataPath,
    others: Vec<Vec<CounterGroup>>,
) -> Vec<CounterGroup> {
    let mut groups = Vec::new();
    for host in hosts {
        let name = host.tap().name();
        groups.push(CounterGroup::new(name, host.function().counters().iter()));
        groups.push(of_port(&format!("{name} tap"), host.tap()));
    }
    let mut counted = Counted::default();
    counted.count(path);
    groups.extend(counted.groups());
    let mut all = vec![groups];
    all.extend(others);
    match all.len() {
        1 => all.remove(0),
        _ => totals_of_nics(&all),
    }
}

type Counters = Vec<(&'static str, u64)>;

/// What a core has counted.
#[derive(Debug, Default)]
pub struct Counted {
    nic: Counters,
    wire: Counters,
    thread: Counters,
}

impl Counted {
    /// Counts all again, in the same memory.
    pub fn count(&mut self, path: &DataPath) {
        let Counted { nic, wire, thread } = self;
        nic.clear();
        wire.clear();
        thread.clear();
        nic.extend(path.nic.counters().iter());
        path.wire
            .counters(&mut |name, value| wire.push((name, value)));
        thread.extend(path.meter.iter());
    }

    /// The same, as it is shown.
    pub fn groups(&self) -> Vec<CounterGroup> {
        let parts = [
            ("nic", &self.nic),
            ("wire", &self.wire),
            ("thread", &self.thread),
        ];
        let groups =
            parts.map(|(name, counters)| CounterGroup::new(name, counters.iter().copied()));
        groups.into()
    }
}

fn of_port(name: &str, port: &dyn Port) -> CounterGroup {
    let mut counters = Vec::new();
    port.counters(&mut |name, value| counters.push((name, value)));
    CounterGroup::new(name, counters)
}
