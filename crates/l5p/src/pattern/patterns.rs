//! A set of patterns, and the text that it is read from.

use regex_syntax::hir::Hir;
use thiserror::Error;

use super::automata::Automata;
use super::expressions::Expressions;
use super::strings::Strings;
use super::text::{LineError, Pattern, parse_line};

#[cfg(test)]
mod tests;

/// Bytes that the tables of a set may have unless told otherwise. A table that is larger than a processor's second-level cache is slow.
pub const TABLES: usize = 16 << 20;

/// A set of patterns, ready to be searched for. A pattern's number is its place in the text, counted from 0 without the lines that have
/// none.
///
/// The text has a pattern on each line. Empty lines and those that begin with `#` do not count.
///
/// ```text
/// evil.example            a string, without the blanks around it
/// "ends with a blank "    a string in quotes, with \\, \", \n, \r, \t, \0 and \xNN
/// /cmd=[a-z]+;/i          an expression, with the flags i, s and x
/// ```
///
/// Expressions are those of the crate `regex`, over bytes: `.` and classes are of ASCII. They can't ask for borders (`^`, `$`,
/// `\b`), and must not match the empty string. A pattern is found at each place where it ends: `/a+/` behind every `a`.
pub struct Patterns {
    text: String,
    /// The line of each pattern, counted from 1.
    lines: Vec<usize>,
    pub(super) automata: Automata,
}

/// Why a text is no set of patterns.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PatternsError {
    /// A line is no pattern.
    #[error("line {line}: {error}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        error: LineError,
    },
    /// There is no pattern.
    #[error("there is no pattern in it")]
    Empty,
    /// The strings' table would be too large.
    #[error("the strings need a table of {needed} bytes, and {limit} are allowed; take fewer")]
    StringsTooLarge {
        /// Bytes needed.
        needed: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// The expression's table alone would be too large.
    #[error(
        "line {line}: the expression needs a table of more than {limit} bytes; counted repetitions, as in `.{{9,99}}`, are what costs most"
    )]
    ExpressionTooLarge {
        /// Counted from 1.
        line: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// The expressions' table would be too large.
    #[error(
        "the expressions together need a table of more than {limit} bytes, which are left for them; take fewer, or write those as strings that are"
    )]
    ExpressionsTooLarge {
        /// Bytes allowed.
        limit: usize,
    },
}

/// What one automaton is to find, and the number of the pattern.
pub(super) struct Numbered<T> {
    pub number: u32,
    pub pattern: T,
}

impl Patterns {
    /// Reads patterns. Their tables may have `limit` bytes ([`TABLES`]).
    ///
    /// # Errors
    /// When a line is not a pattern, no line is one, or the tables would be larger.
    pub fn parse(text: &str, limit: usize) -> Result<Patterns, PatternsError> {
        let mut lines = Vec::new();
        let (mut strings, mut expressions) = (Vec::new(), Vec::new());
        for (at, content) in text.lines().enumerate() {
            let line = at + 1;
            let number = lines.len() as u32;
            match parse_line(content).map_err(|error| PatternsError::Line { line, error })? {
                None => continue,
                Some(Pattern::String(pattern)) => strings.push(Numbered { number, pattern }),
                Some(Pattern::Expression(pattern)) => {
                    expressions.push(Numbered { number, pattern });
                }
            }
            lines.push(line);
        }
        if lines.is_empty() {
            return Err(PatternsError::Empty);
        }
        let automata = build(&strings, &expressions, limit, &lines)?;
        Ok(Patterns {
            text: text.to_owned(),
            lines,
            automata,
        })
    }

    /// Number of patterns.
    pub fn count(&self) -> usize {
        self.lines.len()
    }

    /// The text of pattern `number`, as it was read.
    pub fn text(&self, number: u32) -> Option<&str> {
        let line = self.text.lines().nth(self.line(number)? - 1)?;
        Some(line.trim())
    }

    /// The line of pattern `number`, counted from 1.
    pub fn line(&self, number: u32) -> Option<usize> {
        self.lines.get(number as usize).copied()
    }

    /// The text that it was read from.
    pub fn source(&self) -> &str {
        &self.text
    }

    /// A number that two sets share only if they find the same and number their states alike: made by one version of this crate and of
    /// those that it uses, of one text.
    pub fn fingerprint(&self) -> u64 {
        self.automata.fingerprint()
    }

    /// Bytes of the tables.
    pub fn tables_len(&self) -> usize {
        self.automata.tables_len()
    }
}

/// The automata of patterns, of which there is at least one.
fn build(
    strings: &[Numbered<Vec<u8>>],
    expressions: &[Numbered<Hir>],
    limit: usize,
    lines: &[usize],
) -> Result<Automata, PatternsError> {
    let make_strings = || {
        let too_large = |needed| PatternsError::StringsTooLarge { needed, limit };
        Strings::new(strings, limit).map_err(too_large)
    };
    let make_expressions = |limit| {
        let made =
            Expressions::new(expressions, limit).map_err(|too_large| match too_large.alone {
                Some(number) => PatternsError::ExpressionTooLarge {
                    line: lines[number as usize],
                    limit,
                },
                None => PatternsError::ExpressionsTooLarge { limit },
            });
        made.map(Box::new)
    };
    if expressions.is_empty() {
        return Ok(Automata::Strings(make_strings()?));
    }
    if strings.is_empty() {
        return Ok(Automata::Expressions(make_expressions(limit)?));
    }
    let strings = make_strings()?;
    let left = limit - strings.table_len();
    Ok(Automata::Both(strings, make_expressions(left)?))
}

impl std::fmt::Debug for Patterns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Patterns")
            .field("count", &self.count())
            .field("tables_len", &self.tables_len())
            .finish_non_exhaustive()
    }
}
