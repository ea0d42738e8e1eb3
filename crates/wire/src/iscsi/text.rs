//! Text of login and text PDUs (RFC 7143 §6).

use super::ProtocolError;

/// A key with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair<'a> {
    /// The key, up to 63 bytes.
    pub key: &'a str,
    /// The value.
    pub value: &'a str,
}

impl Pair<'_> {
    /// Appends it to the text of a PDU.
    pub fn emit(&self, text: &mut impl Extend<u8>) {
        text.extend(self.key.bytes());
        text.extend([b'=']);
        text.extend(self.value.bytes());
        text.extend([0]);
    }
}

/// The pairs of a text, each of which ends with a NUL; the last one may end with the text.
///
/// # Errors
/// Each that is not UTF-8, has no `=`, a control character, or an empty or too long key.
pub fn pairs(text: &[u8]) -> impl Iterator<Item = Result<Pair<'_>, ProtocolError>> {
    text.split(|byte| *byte == 0)
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let pair = core::str::from_utf8(pair).map_err(|_| ProtocolError::Text)?;
            let (key, value) = pair.split_once('=').ok_or(ProtocolError::Text)?;
            match key.len() {
                1..=63 if !pair.contains(char::is_control) => Ok(Pair { key, value }),
                _ => Err(ProtocolError::Text),
            }
        })
}
