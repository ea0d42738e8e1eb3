//! Sense data: why a command was not done (SPC-5 §4.4).

use core::fmt;

use crate::bytes::u16_at;

/// Why a command was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sense {
    /// In general.
    pub key: SenseKey,
    /// In particular: additional sense code, and its qualifier.
    pub code: u16,
    /// It is about an earlier command, whose answer did not tell. This one was not done.
    pub is_deferred: bool,
}

/// Kinds of reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SenseKey(pub u8);

impl SenseKey {
    /// The command is done, though not at once.
    pub const RECOVERED: SenseKey = SenseKey(1);
    /// The command, or one of its fields, is not supported.
    pub const ILLEGAL_REQUEST: SenseKey = SenseKey(5);
    /// Something has changed about the unit; the command was not looked at.
    pub const UNIT_ATTENTION: SenseKey = SenseKey(6);
}

impl Sense {
    /// From sense data of fixed or descriptor format. `None` when it is neither.
    #[must_use]
    pub fn parse(data: &[u8]) -> Option<Sense> {
        let format = data.first()? & 0x7f;
        let (key, code) = match format {
            0x70 | 0x71 => (*data.get(2)?, data.get(12..14)),
            0x72 | 0x73 => (*data.get(1)?, data.get(2..4)),
            _ => return None,
        };
        Some(Sense {
            key: SenseKey(key & 0x0f),
            code: code.map_or(0, |code| u16_at(code, 0)),
            is_deferred: matches!(format, 0x71 | 0x73),
        })
    }

    /// Whether the command is done all the same: the unit only has something to say about it.
    #[must_use]
    pub const fn is_success(self) -> bool {
        self.key.0 <= SenseKey::RECOVERED.0 && !self.is_deferred
    }

    /// Whether the unit does not know the command.
    #[must_use]
    pub const fn is_unknown_command(self) -> bool {
        self.key.0 == SenseKey::ILLEGAL_REQUEST.0 && self.code == 0x2000 && !self.is_deferred
    }
}

impl fmt::Display for SenseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            0 => "no sense",
            1 => "recovered error",
            2 => "not ready",
            3 => "medium error",
            4 => "hardware error",
            5 => "illegal request",
            6 => "unit attention",
            7 => "data protect",
            8 => "blank check",
            0xa => "copy aborted",
            0xb => "aborted command",
            0xd => "volume overflow",
            0xe => "miscompare",
            other => return write!(f, "sense key {other}"),
        })
    }
}

impl fmt::Display for Sense {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.code {
            0x0000 => return write!(f, "{}", self.key),
            0x0400..=0x04ff => "the unit is not ready",
            0x1100..=0x11ff => "unrecovered read error",
            0x0c00..=0x0cff => "write error",
            0x2000 => "the command is not supported",
            0x2100 => "the block is out of range",
            0x2400 => "a field of the command is invalid",
            0x2500 => "there is no such unit",
            0x2700..=0x27ff => "the unit is write-protected",
            0x2900..=0x29ff => "the unit was reset",
            0x2a09 => "the capacity has changed",
            0x2a00..=0x2aff => "parameters have changed",
            0x3a00..=0x3aff => "there is no medium",
            0x3f00..=0x3fff => "the unit has changed",
            _ => "",
        };
        if self.is_deferred {
            f.write_str("an earlier command failed: ")?;
        }
        write!(f, "{}", self.key)?;
        if !text.is_empty() {
            write!(f, ": {text}")?;
        }
        write!(f, " (code {:02x}/{:02x})", self.code >> 8, self.code & 0xff)
    }
}
