//! How large a function for Linux is.

use nic::ring::FunctionConfig;
use wire::ethernet::MacAddr;

/// Memory of a function. The little that is in use at a time should stay in the cache of the core that runs the NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Buffers for single packets, a power of two.
    pub small_buffers: u32,
    /// Buffers for super-frames and merged packets, a power of two.
    pub large_buffers: u32,
    /// Chunks in which frames lie that Linux has sent; each has room for four super-frames.
    pub chunks: u32,
}

impl Default for Config {
    /// About 6 MiB, most of which are touched only when the wire is slow.
    fn default() -> Config {
        Config {
            small_buffers: 512,
            large_buffers: 16,
            chunks: 16,
        }
    }
}

impl Config {
    /// The function that the NIC is to have for it. `mac` is the TAP's own address, that of Linux's side.
    pub fn function(&self, mac: MacAddr) -> FunctionConfig {
        FunctionConfig {
            small_entries: self.small_buffers,
            large_entries: self.large_buffers,
            // Linux has its own sockets: the NIC does not open, finish, join or run them.
            closing: 0,
            packet_memory: 0,
            splices: 0,
            toe_connections: 0,
            ..FunctionConfig::new(mac)
        }
    }
}
