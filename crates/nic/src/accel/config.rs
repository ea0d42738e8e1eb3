//! Limits of the acceleration.

/// How much of the device its connections may take. Nothing is allocated before it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccelConfig {
    /// Listening rules of a function.
    pub listeners: u16,
    /// Connections in teardown or TIME-WAIT, of all functions together.
    pub closing: u32,
    /// Bytes of what these have still to send, or to have acknowledged, of all functions together.
    pub packet_memory: u64,
    /// Splices of all functions together.
    pub splices: u32,
    /// SYNs answered per second; beyond it they go to the hosts. `None`: as many as come.
    pub setups_per_second: Option<u32>,
    /// Bytes of memory for frames that the device has made and that have not left yet. What does not fit is lost, as on a full
    /// link.
    pub egress_bytes: u32,
}

impl Default for AccelConfig {
    fn default() -> Self {
        AccelConfig {
            listeners: 256,
            closing: 256 << 10,
            packet_memory: 64 << 20,
            splices: 64 << 10,
            setups_per_second: None,
            egress_bytes: 1 << 20,
        }
    }
}
