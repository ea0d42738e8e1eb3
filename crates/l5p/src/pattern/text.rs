//! The text that patterns are read from.

use regex_automata::util::syntax;
use regex_syntax::hir::Hir;
use thiserror::Error;

#[cfg(test)]
mod tests;

/// What a line asks to look for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// These bytes.
    String(Vec<u8>),
    /// What this expression matches.
    Expression(Hir),
}

/// Why a line is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LineError {
    /// Quotes with nothing in them.
    #[error("an empty string is everywhere; write what to look for")]
    EmptyString,
    /// A quoted string goes on to the end of the line.
    #[error("the string is not closed; it ends with `\"`, and a quote in it is written `\\\"`")]
    UnclosedString,
    /// Something follows a quoted string.
    #[error("`{0}` follows the string; a line has one pattern")]
    AfterString(String),
    /// A backslash with something else behind it.
    #[error("`\\{0}` is no escape; there are \\\\, \\\", \\n, \\r, \\t, \\0 and \\xNN")]
    Escape(String),
    /// An expression without its second slash.
    #[error(
        "the expression is not closed; it is written `/expression/`, and a string that begins with a slash goes into quotes"
    )]
    UnclosedExpression,
    /// A letter behind the expression.
    #[error(
        "`{0}` is no flag; there are i (any case), s (`.` is a line's end too) and x (blanks do not count), and a string that begins with a slash goes into quotes"
    )]
    Flag(char),
    /// It can't be parsed.
    #[error("the expression is wrong: {0}")]
    Expression(String),
    /// It matches nothing.
    #[error("the expression never matches")]
    NeverMatches,
    /// It matches the empty string.
    #[error(
        "the expression matches where nothing is, and so everywhere; ask for at least one byte"
    )]
    MatchesEmpty,
    /// It asks for a border.
    #[error(
        "the expression asks for a border (^, $, \\A, \\z, \\b or \\B), which a stream does not have; name the bytes there instead"
    )]
    Border,
}

/// The pattern on a line, `None` if it has none.
pub(super) fn parse_line(line: &str) -> Result<Option<Pattern>, LineError> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    if let Some(quoted) = line.strip_prefix('"') {
        return parse_quoted(quoted).map(Pattern::String).map(Some);
    }
    if let Some(rest) = line.strip_prefix('/') {
        let (expression, flags) = rest.rsplit_once('/').ok_or(LineError::UnclosedExpression)?;
        return parse_expression(expression, flags)
            .map(Pattern::Expression)
            .map(Some);
    }
    Ok(Some(Pattern::String(line.as_bytes().to_vec())))
}

/// A string, behind its first quote.
fn parse_quoted(text: &str) -> Result<Vec<u8>, LineError> {
    let mut bytes = Vec::new();
    let mut rest = text.chars();
    loop {
        match rest.next().ok_or(LineError::UnclosedString)? {
            '"' => break,
            '\\' => bytes.push(parse_escape(&mut rest)?),
            other => bytes.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    let behind = rest.as_str().trim();
    if !behind.is_empty() {
        return Err(LineError::AfterString(behind.to_owned()));
    }
    if bytes.is_empty() {
        return Err(LineError::EmptyString);
    }
    Ok(bytes)
}

/// The byte that an escape stands for, behind its backslash.
fn parse_escape(rest: &mut std::str::Chars<'_>) -> Result<u8, LineError> {
    let byte = match rest.next().ok_or(LineError::UnclosedString)? {
        '\\' => b'\\',
        '"' => b'"',
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        '0' => 0,
        'x' => {
            let digits: String = rest.take(2).collect();
            let is_hex = digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            return match u8::from_str_radix(&digits, 16) {
                Ok(byte) if is_hex => Ok(byte),
                _ => Err(LineError::Escape(format!("x{digits}"))),
            };
        }
        other => return Err(LineError::Escape(other.to_string())),
    };
    Ok(byte)
}

/// An expression over bytes.
fn parse_expression(expression: &str, flags: &str) -> Result<Hir, LineError> {
    let mut config = syntax::Config::new().unicode(false).utf8(false);
    for flag in flags.chars() {
        config = match flag {
            'i' => config.case_insensitive(true),
            's' => config.dot_matches_new_line(true),
            'x' => config.ignore_whitespace(true),
            other => return Err(LineError::Flag(other)),
        };
    }
    let parsed = syntax::parse_with(expression, &config)
        .map_err(|error| LineError::Expression(one_line(&error)))?;
    let properties = parsed.properties();
    if !properties.look_set().is_empty() {
        return Err(LineError::Border);
    }
    match properties.minimum_len() {
        None => Err(LineError::NeverMatches),
        Some(0) => Err(LineError::MatchesEmpty),
        Some(_) => Ok(parsed),
    }
}

/// What is wrong, without the expression and the mark below it.
fn one_line(error: &regex_syntax::Error) -> String {
    match error {
        regex_syntax::Error::Parse(error) => error.kind().to_string(),
        regex_syntax::Error::Translate(error) => error.kind().to_string(),
        other => other.to_string(),
    }
}
