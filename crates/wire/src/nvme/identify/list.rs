//! Lists of namespace identifiers (Base 2.0c §4.3.2): ascending, ended by a zero or the list's end.

use super::LEN;
use crate::bytes::{put_u32_le, u32_le_at};
use crate::error::ParseError;

/// A list of NSIDs, read in place.
#[derive(Clone, Copy, Debug)]
pub struct NamespaceList<'a> {
    bytes: &'a [u8],
}

impl<'a> NamespaceList<'a> {
    /// The most identifiers of one list.
    pub const CAPACITY: usize = LEN / 4;

    /// A list from an answer.
    ///
    /// # Errors
    /// If it is shorter than [`LEN`].
    pub fn parse(bytes: &'a [u8]) -> Result<NamespaceList<'a>, ParseError> {
        ParseError::require(bytes, LEN)?;
        Ok(NamespaceList {
            bytes: &bytes[..LEN],
        })
    }

    /// The identifiers.
    pub fn iter(&self) -> impl Iterator<Item = u32> + 'a {
        self.bytes
            .chunks_exact(4)
            .map(|nsid| u32_le_at(nsid, 0))
            .take_while(|&nsid| nsid != 0)
    }
}

/// Writes `nsids` as a list into the first [`LEN`] bytes of `buffer`; as many as fit.
pub fn emit_namespace_list(buffer: &mut [u8], nsids: impl IntoIterator<Item = u32>) {
    let buffer = &mut buffer[..LEN];
    buffer.fill(0);
    for (at, nsid) in (0..LEN).step_by(4).zip(nsids) {
        put_u32_le(buffer, at, nsid);
    }
}
