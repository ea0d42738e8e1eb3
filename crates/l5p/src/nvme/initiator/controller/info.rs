//! What a controller said of itself and its namespaces.

use std::ops::RangeInclusive;

use wire::nvme::command::{Capabilities, Version};
use wire::nvme::identify::{ControllerData, NamespaceData, NamespaceIds, NvmControllerData, sgls};

use super::Config;

/// LBADS of blocks that can be read and written: 512 bytes, which is the least (NVM 1.0c §4.1.5.1), to 2 GiB.
const BLOCK_SHIFTS: RangeInclusive<u8> = 9..=31;

/// A controller that answered Identify.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerInfo {
    /// CAP.
    pub capabilities: Capabilities,
    /// VS.
    pub version: Version,
    /// Identify Controller.
    pub data: ControllerData,
    /// Identify Controller of the NVM command set; zeroes, which are no limits, where the controller does not have it.
    pub nvm: NvmControllerData,
}

/// What commands must keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most data of a command, in bytes.
    pub max_transfer: u32,
    /// The most bytes of one Write Zeroes.
    pub max_write_zeroes: u64,
    /// The most ranges of one Dataset Management.
    pub max_ranges: u16,
    /// The most blocks of one range of Dataset Management.
    pub max_range_blocks: u32,
    /// The most data of a write that goes with its command, in bytes.
    pub in_capsule: u32,
    /// Commands in flight on one I/O queue.
    pub depth: u16,
    /// I/O queues.
    pub io_queues: u16,
}

/// A namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Its identifier.
    pub nsid: u32,
    /// Identify Namespace.
    pub data: NamespaceData,
    /// What identifies it everywhere; nothing if the controller didn't say.
    pub ids: NamespaceIds,
}

impl ControllerInfo {
    /// What is lacking, as Linux's host sees it too.
    pub(super) fn unfit(&self, config: &Config, controller: u16) -> Option<&'static str> {
        let data = &self.data;
        if data.cntlid != controller {
            Some("Identify gives another controller ID than Connect")
        } else if config.is_discovery() {
            None
        } else if data.ioccsz < 4 || data.iorcsz < 1 {
            Some("its capsules are too small for a command (IOCCSZ, IORCSZ)")
        } else if data.icdoff != 0 {
            Some("its in-capsule data has an offset (ICDOFF)")
        } else if data.sgls & 3 == 0 {
            Some("it takes no SGLs")
        } else if !config.keep_alive.is_zero() && data.kas == 0 {
            Some("it has no keep-alive (KAS)")
        } else {
            None
        }
    }

    /// The limits before it is known how many queues there are.
    pub(super) fn limits(&self, config: &Config) -> Limits {
        let page = 4096u64 << self.capabilities.min_page_shift();
        let pages = |shift: u8| {
            page.checked_shl(u32::from(shift))
                .filter(|bytes| *bytes >= page)
        };
        let mdts = match self.data.mdts {
            0 => u64::MAX,
            shift => pages(shift).unwrap_or(u64::MAX),
        };
        let max_transfer = u64::from(config.max_transfer).min(mdts) as u32;
        let max_write_zeroes = match self.nvm.wzsl {
            0 => mdts,
            shift => pages(shift).unwrap_or(u64::MAX),
        };
        let unless_zero = |value: u32, otherwise: u32| if value == 0 { otherwise } else { value };
        let in_capsule = match self.data.sgls & sgls::OFFSET {
            0 => 0,
            _ => self.data.ioccsz.saturating_mul(16).saturating_sub(64),
        };
        let entries = self.capabilities.max_queue_entries();
        let commands = unless_zero(u32::from(self.data.maxcmd), u32::MAX);
        let depth = u32::from(config.depth.max(1))
            .min(entries - 1)
            .min(commands);
        Limits {
            max_transfer,
            max_write_zeroes,
            max_ranges: unless_zero(u32::from(self.nvm.dmrl), 256).min(256) as u16,
            max_range_blocks: unless_zero(self.nvm.dmrsl, u32::MAX),
            in_capsule: in_capsule.min(max_transfer),
            depth: depth.max(1) as u16,
            io_queues: 0,
        }
    }

    /// Whether Compare is there (ONCS bit 0).
    #[must_use]
    pub fn has_compare(&self) -> bool {
        self.data.oncs & 1 != 0
    }

    /// Whether Dataset Management is there (ONCS bit 2).
    #[must_use]
    pub fn has_dataset_management(&self) -> bool {
        self.data.oncs & 1 << 2 != 0
    }

    /// Whether Write Zeroes is there (ONCS bit 3).
    #[must_use]
    pub fn has_write_zeroes(&self) -> bool {
        self.data.oncs & 1 << 3 != 0
    }

    /// Whether there is a volatile write cache, so that Flush does something (VWC).
    #[must_use]
    pub fn has_write_cache(&self) -> bool {
        self.data.vwc & 1 != 0
    }
}

impl Namespace {
    /// Bytes of a block; 0 if that is more than a `u32` holds, which a usable namespace does not have.
    #[must_use]
    pub fn block_size(&self) -> u32 {
        1u32.checked_shl(self.data.format.lbads.into()).unwrap_or(0)
    }

    /// Bytes of all blocks.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.data.nsze.saturating_mul(self.block_size().into())
    }

    /// Whether it can be read and written here.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.data.nsze > 0 && self.unusable().is_none()
    }

    /// What it has that keeps it from being read and written here.
    #[must_use]
    pub fn unusable(&self) -> Option<&'static str> {
        let format = &self.data.format;
        if !BLOCK_SHIFTS.contains(&format.lbads) {
            Some("a block size that is not supported")
        } else if format.metadata != 0 {
            Some("metadata in its blocks")
        } else {
            None
        }
    }

    /// Whether it refuses writes now.
    #[must_use]
    pub fn is_write_protected(&self) -> bool {
        self.data.nsattr & 1 != 0
    }
}
