//! What is exported, and what can be done with it.

use host::nvme::initiator::{ControllerInfo, Limits, Namespace};

use wire::nbd::{Errno, Kind, MAX_REQUEST, Request, flag};

/// A namespace as clients see it.
#[derive(Clone, Copy, Debug)]
pub(in crate::nvme) struct Export {
    pub(super) nsid: u32,
    /// Bytes.
    pub(super) size: u64,
    pub(super) block_size: u32,
    pub(super) read_only: bool,
    /// A flush does something.
    pub(super) has_cache: bool,
    /// The controller can deallocate.
    pub(super) can_trim: bool,
    /// The controller can make zeroes by itself.
    pub(super) can_zero: bool,
    /// The most bytes of one command with data: a multiple of the block size.
    pub(super) most_data: u32,
    /// The most bytes that one command makes zeroes: a multiple of the block size.
    pub(super) most_zeroes: u64,
    /// The most bytes of one range that a command deallocates: a multiple of the block size.
    pub(super) most_trim: u64,
    /// The most ranges of one command, at least one.
    pub(super) most_ranges: u16,
}

/// Bytes of the longest command: more of them in parallel do better than longer ones.
const MOST_DATA: u32 = 1 << 20;

impl Export {
    pub(in crate::nvme) fn new(
        namespace: &Namespace,
        info: &ControllerInfo,
        limits: &Limits,
        read_only: bool,
    ) -> Export {
        let block_size = namespace.block_size();
        let whole = |bytes: u64| (bytes / u64::from(block_size)).max(1) * u64::from(block_size);
        let most_blocks = u64::from(wire::nvme::command::MAX_BLOCKS) * u64::from(block_size);
        let range_blocks = u64::from(limits.max_range_blocks) * u64::from(block_size);
        Export {
            nsid: namespace.nsid,
            size: namespace.size(),
            block_size,
            read_only: read_only || namespace.is_write_protected(),
            has_cache: info.has_write_cache(),
            can_trim: info.has_dataset_management(),
            can_zero: info.has_write_zeroes(),
            most_data: whole(u64::from(limits.max_transfer.min(MOST_DATA))) as u32,
            most_zeroes: whole(limits.max_write_zeroes.min(most_blocks)),
            most_trim: whole(range_blocks),
            most_ranges: limits.max_ranges.clamp(1, 256),
        }
    }

    /// A mebibyte in blocks of 512 bytes, on a controller that can do everything.
    #[cfg(test)]
    pub(super) fn of_a_mebibyte() -> Export {
        Export {
            nsid: 1,
            size: 1 << 20,
            block_size: 512,
            read_only: false,
            has_cache: true,
            can_trim: true,
            can_zero: true,
            most_data: 1 << 20,
            most_zeroes: 1 << 20,
            most_trim: 1 << 20,
            most_ranges: 256,
        }
    }

    /// The most bytes of one command with data.
    pub(in crate::nvme) fn most_data(&self) -> u32 {
        self.most_data
    }

    /// Whether nothing may be written.
    pub(in crate::nvme) fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// The export's transmission flags.
    pub(super) fn flags(&self, structured: bool) -> u16 {
        let mut flags = flag::HAS_FLAGS | flag::SEND_FLUSH | flag::CAN_MULTI_CONN;
        if self.read_only {
            flags |= flag::READ_ONLY;
        } else {
            flags |= flag::SEND_FUA | flag::SEND_WRITE_ZEROES;
            flags |= if self.can_trim { flag::SEND_TRIM } else { 0 };
            flags |= if self.can_zero {
                flag::SEND_FAST_ZERO
            } else {
                0
            };
        }
        // A read is answered in one chunk whatever the client says.
        flags | if structured { flag::SEND_DF } else { 0 }
    }

    /// The sizes that requests should have: least, best, most.
    pub(super) fn block_sizes(&self) -> [u32; 3] {
        [self.block_size, self.block_size.max(4096), MAX_REQUEST]
    }

    /// Whether a request can be carried out.
    pub(super) fn check(&self, request: &Request) -> Result<(), Errno> {
        match request.kind {
            Kind::Flush | Kind::Disconnect => return Ok(()),
            Kind::Unknown(_) => return Err(Errno::Invalid),
            Kind::Write | Kind::Trim | Kind::WriteZeroes if self.read_only => {
                return Err(Errno::NotPermitted);
            }
            Kind::Trim if !self.can_trim => return Err(Errno::NotSupported),
            Kind::WriteZeroes if request.fast_zero && !self.can_zero => {
                return Err(Errno::NotSupported);
            }
            _ => {}
        }
        let moves_data = matches!(request.kind, Kind::Read | Kind::Write);
        let block = u64::from(self.block_size);
        if request.len == 0 || (moves_data && request.len > MAX_REQUEST) {
            return Err(Errno::Invalid);
        }
        if !request.offset.is_multiple_of(block) || !u64::from(request.len).is_multiple_of(block) {
            return Err(Errno::Invalid);
        }
        match request.offset.checked_add(u64::from(request.len)) {
            Some(end) if end <= self.size => Ok(()),
            _ if request.kind == Kind::Read => Err(Errno::Invalid),
            _ => Err(Errno::NoSpace),
        }
    }
}
