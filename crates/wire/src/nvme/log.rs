//! Log pages (NVM Express Base 2.0c §5.16).
//!
//! A page is a run of bytes of which Get Log Page asks a piece; the structures here write and read
//! whole ones.

mod commands;
mod discovery;
mod health;

pub use commands::{CommandEffects, FirmwareSlots, SupportedPages};
pub use discovery::{
    AddressFamily, DiscoveryEntry, DiscoveryHeader, SecureChannel, SecurityType, SubsystemType,
};
pub use health::{ErrorEntry, HealthLog};

/// Which page: the LID field (§5.16.1, Figure 202).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LogPage(pub u8);

impl LogPage {
    /// [`SupportedPages`].
    pub const SUPPORTED: LogPage = LogPage(0x00);
    /// [`ErrorEntry`]s, the newest first.
    pub const ERROR: LogPage = LogPage(0x01);
    /// [`HealthLog`].
    pub const HEALTH: LogPage = LogPage(0x02);
    /// [`FirmwareSlots`].
    pub const FIRMWARE: LogPage = LogPage(0x03);
    /// The namespaces that changed since the page was last read, as an identify list.
    pub const CHANGED_NAMESPACES: LogPage = LogPage(0x04);
    /// [`CommandEffects`].
    pub const COMMAND_EFFECTS: LogPage = LogPage(0x05);
    /// [`DiscoveryHeader`] and [`DiscoveryEntry`]s.
    pub const DISCOVERY: LogPage = LogPage(0x70);
}
