//! From the counters of a host and its NIC to a row of the report.

use super::{Case, Direction, Mode, Resyncs};
use crate::bench::cycles::{Taken, cycles_per, gbit_per_host_core};
use crate::bench::pcie::PcieBytes;

/// One host with its NIC.
#[derive(Clone, Copy, Debug, Default)]
pub struct Node {
    /// Cycles.
    pub taken: Taken,
    /// What went over PCIe.
    pub pcie: PcieBytes,
}

/// The NIC's counters of what it asked.
pub fn resyncs(counters: &nic::Counters) -> Resyncs {
    Resyncs {
        asked: counters.named("rx_tls_resync_req_end"),
        confirmed: counters.named("rx_tls_resync_res_ok"),
        refused: counters.named("rx_tls_resync_res_retry"),
        late: counters.named("rx_tls_resync_res_skip"),
    }
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
