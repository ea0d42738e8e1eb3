//! Pages that say what a controller supports (Base 2.0c §5.16.1.1, §5.16.1.4, §5.16.1.6).

use crate::bytes::{put_u32_le, u32_le_at};
use crate::error::ParseError;
use crate::fields::{Bits, fields, page};
use crate::nvme::log::LogPage;

/// Supported Log Pages: which identifiers Get Log Page knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SupportedPages {
    /// One bit per page.
    bits: [u128; 2],
}

impl SupportedPages {
    /// Bytes of the page.
    pub const LEN: usize = 1024;

    /// The set of `pages`.
    #[must_use]
    pub fn of(pages: &[LogPage]) -> SupportedPages {
        let mut set = SupportedPages::default();
        for page in pages {
            set.bits[usize::from(page.0 >> 7)] |= 1 << (page.0 & 127);
        }
        set
    }

    /// Whether `page` is supported.
    #[must_use]
    pub fn contains(&self, page: LogPage) -> bool {
        self.bits[usize::from(page.0 >> 7)] >> (page.0 & 127) & 1 == 1
    }

    /// Parses a page.
    ///
    /// # Errors
    /// If it is shorter than [`SupportedPages::LEN`].
    pub fn parse(bytes: &[u8]) -> Result<SupportedPages, ParseError> {
        ParseError::require(bytes, SupportedPages::LEN)?;
        let mut set = SupportedPages::default();
        for page in 0..256 {
            let supported = u32_le_at(bytes, 4 * page) & 1;
            set.bits[page >> 7] |= u128::from(supported) << (page & 127);
        }
        Ok(set)
    }

    /// Writes the page into the first [`SupportedPages::LEN`] bytes of `buffer`.
    pub fn emit(&self, buffer: &mut [u8]) {
        for page in 0..=255 {
            let supported = self.contains(LogPage(page));
            put_u32_le(buffer, 4 * usize::from(page), supported.into());
        }
    }
}

fields! {
    Le:
    /// Commands Supported and Effects: a word for each opcode.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CommandEffects {
        /// Of each admin opcode.
        admin: [u32; 256] = 0,
        /// Of each I/O opcode.
        io: [u32; 256] = 1024,
    }
}

impl CommandEffects {
    /// Bytes of the page.
    pub const LEN: usize = 4096;
    /// The command is supported.
    pub const SUPPORTED: u32 = 1;
    /// It may change the content of logical blocks.
    pub const CHANGES_BLOCKS: u32 = 1 << 1;

    /// A page without any command.
    pub const NONE: CommandEffects = CommandEffects {
        admin: [0; 256],
        io: [0; 256],
    };
}

page!(CommandEffects, CommandEffects::LEN);

fields! {
    Le:
    /// Firmware Slot Information with its first slot, which is the active one.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct FirmwareSlots {
        /// Which slot is active, 1 to 7.
        active: u8 = Bits(0, 7),
        /// The revision in the first slot, ASCII padded with blanks.
        first: [u8; 8] = 8,
    }
}

impl FirmwareSlots {
    /// Bytes of the page.
    pub const LEN: usize = 512;
}

page!(FirmwareSlots, FirmwareSlots::LEN);
