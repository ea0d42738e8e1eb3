//! What one host may have.

use nic::ring::FunctionConfig;
use wire::ethernet::MacAddr;

use crate::message::{Identity, VERSION};

/// What one host may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The function's quotas, and the most slots of its rings and queues.
    pub config: FunctionConfig,
    /// Regions at a time.
    pub regions: usize,
    /// Of these, files.
    pub files: usize,
    /// Bytes of memory that the NIC may write to, in all regions.
    pub writable: u64,
    /// Bytes of address space, for all regions.
    pub mapped: u64,
}

impl Default for Limits {
    /// The quotas of [`FunctionConfig::new`], 16 queues, 16,384 slots of each ring, 4096 regions with 1024 files among them, 16 GiB of
    /// memory and 4 TiB of addresses.
    fn default() -> Limits {
        const SLOTS: u32 = 1 << 14;
        Limits {
            config: FunctionConfig {
                queues: 16,
                send_entries: SLOTS,
                command_entries: SLOTS,
                receive_entries: SLOTS,
                small_entries: SLOTS,
                large_entries: SLOTS,
                ..FunctionConfig::new(MacAddr::ZERO)
            },
            regions: 4096,
            files: 1024,
            writable: 16 << 30,
            mapped: 4 << 40,
        }
    }
}

impl Limits {
    /// What is reported to a host of a NIC with this identity.
    pub(super) fn identity(&self, nic: &nic::Identity) -> Identity {
        let most = &self.config;
        Identity {
            version: VERSION.into(),
            features: nic.features.bits(),
            protocols: nic.protocols,
            mtu: nic.mtu.into(),
            queues: most.queues.into(),
            send_entries: most.send_entries.into(),
            command_entries: most.command_entries.into(),
            receive_entries: most.receive_entries.into(),
            small_entries: most.small_entries.into(),
            large_entries: most.large_entries.into(),
            contexts: most.contexts.into(),
            tags: most.tags.into(),
            closing: most.closing.into(),
            packet_memory: most.packet_memory,
            splices: most.splices.into(),
            toe_connections: most.toe_connections.into(),
            listeners: nic.listeners.into(),
            resource_bytes: nic.resource_bytes,
            regions: self.regions as u64,
            files: self.files as u64,
            writable_bytes: self.writable,
            mapped_bytes: self.mapped,
        }
    }

    pub(super) fn allow(&self, config: &FunctionConfig) -> bool {
        let most = &self.config;
        config.queues <= most.queues
            && config.send_entries <= most.send_entries
            && config.command_entries <= most.command_entries
            && config.receive_entries <= most.receive_entries
            && config.small_entries <= most.small_entries
            && config.large_entries <= most.large_entries
            && config.contexts <= most.contexts
            && config.tags <= most.tags
            && config.closing <= most.closing
            && config.packet_memory <= most.packet_memory
            && config.splices <= most.splices
            && config.toe_connections <= most.toe_connections
    }
}
