//! NVMe Qualified Names (NVM Express Base 2.0c §4.5).

use core::fmt;
use core::hash::{Hash, Hasher};

use crate::error::ParseError;

/// The name of a host or of a subsystem: UTF-8 of at most 223 bytes, compared byte by byte.
///
/// Names are opaque here: that they should begin with `nqn.` is left to their authors.
#[derive(Clone, Copy)]
pub struct Nqn {
    len: u8,
    bytes: [u8; Nqn::MAX_LEN],
}

impl Nqn {
    /// The most bytes of a name, without the NUL that ends it on the wire.
    pub const MAX_LEN: usize = 223;
    /// Bytes of a field that holds a name, padded with NULs.
    pub const FIELD_LEN: usize = 256;
    /// No name: that of a host which says none. [`Nqn::new`] and [`Nqn::parse`] do not give it.
    pub const EMPTY: Nqn = Nqn::from_literal("");
    /// The name that every discovery subsystem answers to (§3.1.2.3).
    pub const DISCOVERY: Nqn = Nqn::from_literal("nqn.2014-08.org.nvmexpress.discovery");

    /// A name from text.
    ///
    /// # Errors
    /// With [`ParseError::BadLength`] if it is empty or longer than [`Nqn::MAX_LEN`] bytes, with
    /// [`ParseError::BadValue`] at a control character.
    pub fn new(name: &str) -> Result<Nqn, ParseError> {
        if name.is_empty() || name.len() > Nqn::MAX_LEN {
            return Err(ParseError::BadLength(name.len()));
        }
        if let Some(control) = name.chars().find(|c| c.is_control()) {
            return Err(ParseError::BadValue(control as u32));
        }
        let mut bytes = [0; Nqn::MAX_LEN];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        Ok(Nqn {
            len: name.len() as u8,
            bytes,
        })
    }

    const fn from_literal(name: &str) -> Nqn {
        let mut bytes = [0; Nqn::MAX_LEN];
        let mut at = 0;
        while at < name.len() {
            bytes[at] = name.as_bytes()[at];
            at += 1;
        }
        Nqn {
            len: name.len() as u8,
            bytes,
        }
    }

    /// A name from a field of [`Nqn::FIELD_LEN`] bytes: what stands before the first NUL.
    ///
    /// # Errors
    /// As [`Nqn::new`], and with [`ParseError::BadValue`] if it is not UTF-8.
    pub fn parse(field: &[u8]) -> Result<Nqn, ParseError> {
        ParseError::require(field, Nqn::FIELD_LEN)?;
        let field = &field[..Nqn::FIELD_LEN];
        let len = field.iter().position(|&b| b == 0).unwrap_or(field.len());
        match core::str::from_utf8(&field[..len]) {
            Ok(name) => Nqn::new(name),
            Err(error) => Err(ParseError::BadValue(field[error.valid_up_to()].into())),
        }
    }

    /// Writes the name and its padding into the first [`Nqn::FIELD_LEN`] bytes of `field`.
    pub fn emit(&self, field: &mut [u8]) {
        let field = &mut field[..Nqn::FIELD_LEN];
        field[..self.len.into()].copy_from_slice(self.as_str().as_bytes());
        field[self.len.into()..].fill(0);
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.len.into()]).expect("checked when it was made")
    }
}

impl core::str::FromStr for Nqn {
    type Err = ParseError;

    fn from_str(name: &str) -> Result<Nqn, ParseError> {
        Nqn::new(name)
    }
}

impl PartialEq for Nqn {
    fn eq(&self, other: &Nqn) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Nqn {}

impl Hash for Nqn {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Display for Nqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Nqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}
