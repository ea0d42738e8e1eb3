//! What `longshore stat` shows of a NIC.

use nic::Nic;
use port::Port;

use super::hosts::Host;
use super::meter::Meter;
use crate::control::CounterGroup;

/// The counters of every part, as `ethtool -S` has them: of each host's driver and interface, of the NIC, of its wire; and where the
/// thread's time went.
pub fn groups(hosts: &[Host], nic: &Nic, wire: &dyn Port, meter: &Meter) -> Vec<CounterGroup> {
    let mut groups = Vec::new();
    for host in hosts {
        let name = host.tap().name();
        groups.push(CounterGroup::new(name, host.function().counters().iter()));
        groups.push(of_port(&format!("{name} tap"), host.tap()));
    }
    groups.push(CounterGroup::new("nic", nic.counters().iter()));
    groups.push(of_port("wire", wire));
    groups.push(CounterGroup::new("thread", meter.iter()));
    groups
}

fn of_port(name: &str, port: &dyn Port) -> CounterGroup {
    let mut counters = Vec::new();
    port.counters(&mut |name, value| counters.push((name, value)));
    CounterGroup::new(name, counters)
}
