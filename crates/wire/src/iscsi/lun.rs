//! Names of logical units (SAM-5 §4.7).

use core::fmt;

use crate::fields::field;

/// The name of a logical unit: the eight bytes on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lun(pub [u8; 8]);

field!(Lun([u8; 8]));

/// Flat space addressing.
const FLAT: u8 = 0x40;

impl Lun {
    /// The unit of this number, by peripheral device addressing below 256 and by flat space addressing from there on. `None` from 16384 on.
    #[must_use]
    pub const fn of(number: u16) -> Option<Lun> {
        let [high, low] = number.to_be_bytes();
        if number >= 1 << 14 {
            return None;
        }
        let method = if high == 0 { 0 } else { FLAT };
        Some(Lun([method | high, low, 0, 0, 0, 0, 0, 0]))
    }

    /// Its number, where it has one level and is addressed by one of these two methods.
    #[must_use]
    pub const fn number(self) -> Option<u16> {
        let [high, low, rest @ ..] = self.0;
        let has_one_level = matches!(rest, [0, 0, 0, 0, 0, 0]);
        match high & 0xc0 {
            0 if high == 0 && has_one_level => Some(low as u16),
            FLAT if has_one_level => Some(u16::from_be_bytes([high & 0x3f, low])),
            _ => None,
        }
    }
}

impl fmt::Display for Lun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number() {
            Some(number) => write!(f, "{number}"),
            None => write!(f, "{:#018x}", u64::from_be_bytes(self.0)),
        }
    }
}
