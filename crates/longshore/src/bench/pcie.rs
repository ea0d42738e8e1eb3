//! What a NIC moves over PCIe.

use crate::tally::tally;

tally! {
    /// Bytes that the NIC moved over PCIe, by purpose.
    pub struct PcieBytes {
        /// Payload read to be sent.
        pub payload_tx: u64,
        /// Payload written that was received.
        pub payload_rx: u64,
        /// Descriptors, both ways.
        pub descriptors: u64,
        /// Payload read again to recover transmit contexts.
        pub recovery: u64,
        /// Contexts fetched into the NIC's memory.
        pub context_fetch: u64,
        /// Contexts written back from there.
        pub context_writeback: u64,
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
