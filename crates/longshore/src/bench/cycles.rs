//! Cycles of a host and of its NIC, in all and per byte or whatever else is counted.

use host::Component;
use serde::Serialize;
use sim::World;

use super::cycles_per_second;
use crate::tally::tally;

/// Host cycles per byte of payload, or per transaction, by component.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct HostCycles {
    /// The application itself.
    pub app: f64,
    /// Copies between the application's memory and the stack's.
    pub copy: f64,
    /// Records: framing, and the cryptography that the host does.
    pub l5: f64,
    /// TCP, sockets, timers.
    pub tcp: f64,
    /// Rings, headers, contexts.
    pub driver: f64,
    /// All of it.
    pub total: f64,
}

/// NIC cycles per byte of payload, or per transaction. They include the link's: a frame is written in the link's memory and read from there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct NicCycles {
    /// From the send rings to the wire.
    pub transmit: f64,
    /// From the wire to the receive rings.
    pub receive: f64,
    /// Both.
    pub total: f64,
}

tally! {
    /// Cycles that one host and its NIC took.
    pub struct Taken {
        /// The whole host.
        pub host: u64,
        /// Of it, by component of the stack.
        pub copy: u64,
        /// Records.
        pub l5: u64,
        /// TCP.
        pub tcp: u64,
        /// The driver.
        pub driver: u64,
        /// The NIC, sending.
        pub nic_transmit: u64,
        /// The NIC, receiving.
        pub nic_receive: u64,
    }
}

/// What all nodes of a machine have taken until now.
pub fn taken(world: &World, machine: usize) -> Taken {
    let nodes = world.nodes_of(machine);
    nodes.fold(Taken::default(), |sum, node| sum + of_node(world, node))
}

fn of_node(world: &World, node: usize) -> Taken {
    let cycles = world.cycles(node);
    let meter = world.stack_ref(node).meter();
    Taken {
        host: cycles.host,
        copy: meter.cycles(Component::Copy),
        l5: meter.cycles(Component::L5),
        tcp: meter.cycles(Component::Tcp),
        driver: meter.cycles(Component::Driver),
        nic_transmit: cycles.nic_transmit,
        nic_receive: cycles.nic_receive,
    }
}

/// Cycles of a host and of its NIC over so many bytes, or whatever else is counted.
pub fn cycles_per(taken: &Taken, count: u64) -> (HostCycles, NicCycles) {
    let per = |cycles: u64| cycles as f64 / count as f64;
    let stack = taken.copy + taken.l5 + taken.tcp + taken.driver;
    let host = HostCycles {
        app: per(taken.host.saturating_sub(stack)),
        copy: per(taken.copy),
        l5: per(taken.l5),
        tcp: per(taken.tcp),
        driver: per(taken.driver),
        total: per(taken.host),
    };
    let nic = NicCycles {
        transmit: per(taken.nic_transmit),
        receive: per(taken.nic_receive),
        total: per(taken.nic_transmit + taken.nic_receive),
    };
    (host, nic)
}

/// How many in a second a core of the host could do that does nothing else.
pub fn per_host_core(cycles: f64) -> f64 {
    if cycles > 0.0 {
        cycles_per_second() / cycles
    } else {
        0.0
    }
}
