//! How a target works, and what may be wrong with that.

use std::sync::Arc;

use handshake::PskServerConfig;
use l5p::nvme::target::ConfigError;

use crate::nvme::PduOffload;
use crate::{Offload, SocketError};

/// How a target works.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the NIC does of NVMe/TCP.
    pub offload: PduOffload,
    /// TLS on all connections, with keys that hosts were given before.
    pub tls: Option<Arc<PskServerConfig>>,
    /// What the NIC does of TLS.
    pub tls_offload: Offload,
    /// Bytes of memory for the data of commands.
    pub memory: u64,
    /// Writes of fewer bytes are not mapped: a copy of so little costs less than the mapping.
    pub map_threshold: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            offload: PduOffload::ALL,
            tls: None,
            tls_offload: Offload::Both,
            memory: 64 << 20,
            map_threshold: 16 << 10,
        }
    }
}

/// Why there is no target.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// What it is to offer makes no sense.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The stack takes no memory.
    #[error("the memory for commands can't be registered: {0}")]
    Memory(#[from] SocketError),
}

/// What happened to connections, besides what the [machine](l5p::nvme::target::Counters) counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Connections reset since there was no place for them.
    pub refused: u64,
    /// TLS handshakes that failed.
    pub handshakes_failed: u64,
    /// TLS handshakes that were not done in time.
    pub handshakes_timed_out: u64,
    /// TLS handshakes ended for others.
    pub handshakes_evicted: u64,
    /// Buffers that were mapped for the NIC.
    pub mapped: u64,
    /// Commands that failed since someone on the path had the NIC write what the stream did not bring.
    pub tainted: u64,
}
