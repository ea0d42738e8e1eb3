//! Controller properties: CAP, VS, CC and CSTS (NVMe Base 2.0 §3.1.3), read and written by Property Get and Set.

/// Controller Capabilities (CAP, offset 0h, 8 bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// The capabilities of a fabrics controller: contiguous queues (CQR), the NVM command set (CSS bit 37), pages of
    /// 4 KiB. `entries` is the most entries of a queue (2 to 65,536), `timeout` the time that becoming ready may
    /// take, in units of 500 ms.
    #[must_use]
    pub const fn new(entries: u32, timeout: u8) -> Capabilities {
        let mqes = (entries - 1) as u16 as u64;
        Capabilities(mqes | 1 << 16 | (timeout as u64) << 24 | 1 << 37)
    }

    /// The most entries of a queue (MQES, counted from one), 1 to 65,536.
    #[must_use]
    pub const fn max_queue_entries(self) -> u32 {
        self.0 as u16 as u32 + 1
    }

    /// How long becoming ready may take (TO), in units of 500 ms.
    #[must_use]
    pub const fn timeout(self) -> u8 {
        (self.0 >> 24) as u8
    }

    /// The smallest page size's exponent, above 4 KiB (MPSMIN).
    #[must_use]
    pub const fn min_page_shift(self) -> u8 {
        (self.0 >> 48) as u8 & 0x0f
    }
}

/// The version that a controller follows (VS, offset 8h, 4 bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version(pub u32);

impl Version {
    /// Version `major.minor.tertiary`.
    #[must_use]
    pub const fn new(major: u16, minor: u8, tertiary: u8) -> Version {
        Version((major as u32) << 16 | (minor as u32) << 8 | tertiary as u32)
    }

    /// Major, minor and tertiary number.
    #[must_use]
    pub const fn parts(self) -> (u16, u8, u8) {
        ((self.0 >> 16) as u16, (self.0 >> 8) as u8, self.0 as u8)
    }
}

impl core::fmt::Display for Version {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (major, minor, tertiary) = self.parts();
        write!(f, "{major}.{minor}")?;
        if tertiary != 0 {
            write!(f, ".{tertiary}")?;
        }
        Ok(())
    }
}

/// What a host asks of a controller on its way down (CC.SHN).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shutdown {
    /// Nothing.
    None,
    /// A normal shutdown: finish what is there.
    Normal,
    /// Power is about to go.
    Abrupt,
    /// The reserved value.
    Reserved,
}

/// Controller Configuration (CC, offset 14h, 4 bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Configuration(pub u32);

impl Configuration {
    /// Enabled, with the NVM command set, 4 KiB pages, and entries of 64 and 16 bytes.
    pub const ENABLED: Configuration = Configuration(1 | 6 << 16 | 4 << 20);

    /// Whether the controller is to be enabled (EN).
    #[must_use]
    pub const fn enabled(self) -> bool {
        self.0 & 1 != 0
    }

    /// The command set (CSS): 0 NVM, 6 all that are supported, 7 admin only.
    #[must_use]
    pub const fn command_set(self) -> u8 {
        (self.0 >> 4) as u8 & 0x07
    }

    /// The page size's exponent, above 4 KiB (MPS).
    #[must_use]
    pub const fn page_shift(self) -> u8 {
        (self.0 >> 7) as u8 & 0x0f
    }

    /// What is asked of the controller on the way down (SHN).
    #[must_use]
    pub const fn shutdown(self) -> Shutdown {
        match (self.0 >> 14) & 3 {
            0 => Shutdown::None,
            1 => Shutdown::Normal,
            2 => Shutdown::Abrupt,
            _ => Shutdown::Reserved,
        }
    }

    /// The same, with a normal shutdown asked for.
    #[must_use]
    pub const fn with_normal_shutdown(self) -> Configuration {
        Configuration(self.0 & !(3 << 14) | 1 << 14)
    }

    /// The exponent of an I/O submission entry's size (IOSQES).
    #[must_use]
    pub const fn submission_shift(self) -> u8 {
        (self.0 >> 16) as u8 & 0x0f
    }

    /// The exponent of an I/O completion entry's size (IOCQES).
    #[must_use]
    pub const fn completion_shift(self) -> u8 {
        (self.0 >> 20) as u8 & 0x0f
    }
}

/// How far a shutdown is (CSTS.SHST).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShutdownStatus {
    /// None was asked for.
    None,
    /// It goes on.
    Occurring,
    /// It is done.
    Complete,
    /// The reserved value.
    Reserved,
}

/// Controller Status (CSTS, offset 1Ch, 4 bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct ControllerStatus(pub u32);

impl ControllerStatus {
    /// A status of these parts.
    #[must_use]
    pub const fn new(ready: bool, fatal: bool, shutdown: ShutdownStatus) -> ControllerStatus {
        ControllerStatus(ready as u32 | (fatal as u32) << 1 | (shutdown as u32) << 2)
    }

    /// Whether the controller is ready (RDY).
    #[must_use]
    pub const fn ready(self) -> bool {
        self.0 & 1 != 0
    }

    /// Whether it failed for good (CFS).
    #[must_use]
    pub const fn fatal(self) -> bool {
        self.0 & 2 != 0
    }

    /// How far a shutdown is (SHST).
    #[must_use]
    pub const fn shutdown(self) -> ShutdownStatus {
        match (self.0 >> 2) & 3 {
            0 => ShutdownStatus::None,
            1 => ShutdownStatus::Occurring,
            2 => ShutdownStatus::Complete,
            _ => ShutdownStatus::Reserved,
        }
    }
}
