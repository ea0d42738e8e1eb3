//! From the counters of a host and its NIC to a row of the report.

use host::Component;
use sim::World;

use super::{Case, Direction, HostCycles, Mode, NicCycles, PcieBytes, Resyncs, cycles_per_second};

/// Cycles that one host and its NIC took.
#[derive(Clone, Copy, Debug, Default)]
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

/// One host with its NIC.
#[derive(Clone, Copy, Debug, Default)]
pub struct Node {
    /// Cycles.
    pub taken: Taken,
    /// What went over PCIe.
    pub pcie: PcieBytes,
}

impl Taken {
    /// These and those.
    pub fn plus(&self, other: &Self) -> Self {
        self.with(other, |a, b| a + b)
    }

    /// Cycles since then.
    pub fn since(&self, before: &Self) -> Self {
        self.with(before, |now, before| now - before)
    }

    /// Each of these with each of those.
    pub fn with(&self, other: &Self, f: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            host: f(self.host, other.host),
            copy: f(self.copy, other.copy),
            l5: f(self.l5, other.l5),
            tcp: f(self.tcp, other.tcp),
            driver: f(self.driver, other.driver),
            nic_transmit: f(self.nic_transmit, other.nic_transmit),
            nic_receive: f(self.nic_receive, other.nic_receive),
        }
    }
}

/// What a node of a world has taken until now.
pub fn taken(world: &World, node: usize) -> Taken {
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

/// The NIC's counters of what it moved over PCIe.
pub fn pcie(counters: &nic::Counters) -> PcieBytes {
    PcieBytes {
        payload_tx: counters.pcie_payload_tx,
        payload_rx: counters.pcie_payload_rx,
        descriptors: counters.pcie_descriptors,
        recovery: counters.pcie_recovery,
        context_fetch: counters.pcie_context_fetch,
        context_writeback: counters.pcie_context_writeback,
    }
}

/// The NIC's counters of what it asked.
pub fn resyncs(counters: &nic::Counters) -> Resyncs {
    Resyncs {
        asked: counters.rx_tls_resync_req_end,
        confirmed: counters.rx_tls_resync_res_ok,
        refused: counters.rx_tls_resync_res_retry,
        late: counters.rx_tls_resync_res_skip,
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

/// The row of a host: its cycles over the bytes.
pub fn row(direction: Direction, mode: Mode, bytes: u64, node: &Node) -> Case {
    let (host, nic) = cycles_per(&node.taken, bytes);
    Case {
        direction,
        mode,
        bytes,
        host_cycles_per_byte: host,
        nic_cycles_per_byte: nic,
        gbit_per_host_core: gbit_per_host_core(host.total),
        rounds: vec![host.total],
        pcie_bytes: node.pcie,
        records: None,
        resyncs: None,
        retransmitted_bytes: 0,
    }
}

/// What a core of the host could carry that does nothing else.
pub fn gbit_per_host_core(cycles_per_byte: f64) -> f64 {
    per_host_core(cycles_per_byte) * 8.0 / 1e9
}

/// How many in a second a core of the host could do that does nothing else.
pub fn per_host_core(cycles: f64) -> f64 {
    if cycles > 0.0 {
        cycles_per_second() / cycles
    } else {
        0.0
    }
}
