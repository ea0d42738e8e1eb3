//! Extensions of a chunk (RFC 9112 §7.1.1): names, and values that are tokens or quoted strings.

use super::fields::{is_text, is_token_byte};

/// How far the extensions of one chunk have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extension {
    /// A semicolon comes next, behind blanks.
    Separator,
    NameStart,
    Name,
    /// Blanks behind a name.
    NameEnd,
    ValueStart,
    Token,
    Quoted,
    Escaped,
    QuotedEnd,
}

impl Extension {
    /// Behind one more byte, which is no CR; nothing if that is malformed.
    pub fn step(self, byte: u8) -> Option<Self> {
        use Extension::*;
        let is_blank = matches!(byte, b' ' | b'\t');
        match self {
            NameStart | ValueStart if is_blank => Some(self),
            NameStart | Name if is_token_byte(byte) => Some(Name),
            ValueStart | Token if is_token_byte(byte) => Some(Token),
            ValueStart if byte == b'"' => Some(Quoted),
            Quoted if byte == b'"' => Some(QuotedEnd),
            Quoted if byte == b'\\' => Some(Escaped),
            Quoted | Escaped if is_text(byte) => Some(Quoted),
            Name | NameEnd if byte == b'=' => Some(ValueStart),
            Name | NameEnd if is_blank => Some(NameEnd),
            Separator | Name | NameEnd | Token | QuotedEnd if byte == b';' => Some(NameStart),
            Separator | Token | QuotedEnd if is_blank => Some(Separator),
            _ => None,
        }
    }

    /// Whether the line may end here.
    pub fn may_end(self) -> bool {
        matches!(self, Self::Name | Self::Token | Self::QuotedEnd)
    }
}
