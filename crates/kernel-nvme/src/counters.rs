//! What an initiator counts.

/// What was done with what came, and by whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes of data that the NIC had placed, and that were dropped from the socket.
    pub rx_bytes_placed: u64,
    /// Bytes of data that were copied from the socket.
    pub rx_bytes_copied: u64,
    /// Data digests that the NIC had checked.
    pub rx_digests_device: u64,
    /// Data digests that were checked in software.
    pub rx_digests_sw: u64,
    /// Data digests that were wrong.
    pub digest_errors: u64,
    /// Reads whose memory was shown to the NIC.
    pub buffers_mapped: u64,
    /// Reads that were repeated because the NIC had written what the stream did not bring, or may have.
    pub buffers_tainted: u64,
    /// Questions of the NIC's that were answered.
    pub resyncs: u64,
    /// Connections whose data the NIC places.
    pub connections_device: u64,
    /// Connections of these that a NIC took on again after its restart.
    pub connections_resumed: u64,
    /// Connections that it refused, or that do not go through it.
    pub connections_refused: u64,
}

impl Counters {
    /// Every counter by its name, in a fixed order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        [
            ("rx_bytes_placed", self.rx_bytes_placed),
            ("rx_bytes_copied", self.rx_bytes_copied),
            ("rx_digests_device", self.rx_digests_device),
            ("rx_digests_sw", self.rx_digests_sw),
            ("digest_errors", self.digest_errors),
            ("buffers_mapped", self.buffers_mapped),
            ("buffers_tainted", self.buffers_tainted),
            ("resyncs", self.resyncs),
            ("connections_device", self.connections_device),
            ("connections_resumed", self.connections_resumed),
            ("connections_refused", self.connections_refused),
        ]
        .into_iter()
    }
}
