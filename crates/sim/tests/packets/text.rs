//! Words, numbers and times of a script, and what is wrong with it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// What is wrong at a line: of the script, or of what it has met.
#[derive(Debug)]
pub struct Error {
    pub line: usize,
    pub what: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.what)
    }
}

/// The words of a line, taken one by one.
pub struct Words<'a>(std::iter::Peekable<std::str::SplitWhitespace<'a>>);

impl<'a> Words<'a> {
    pub fn new(text: &'a str) -> Self {
        Self(text.split_whitespace().peekable())
    }

    pub fn next(&mut self) -> Option<&'a str> {
        self.0.next()
    }

    /// The next word, if it is this one.
    pub fn take(&mut self, word: &str) -> bool {
        self.0.next_if_eq(&word).is_some()
    }

    /// The word that must follow.
    pub fn word(&mut self, what: &str) -> Result<&'a str, String> {
        self.next().ok_or_else(|| format!("{what} is missing"))
    }

    pub fn number<T: FromStr>(&mut self, what: &str) -> Result<T, String> {
        number(self.word(what)?)
    }

    /// Nothing may follow.
    pub fn end(&mut self) -> Result<(), String> {
        match self.next() {
            Some(word) => Err(format!("`{word}` is too much")),
            None => Ok(()),
        }
    }
}

pub fn number<T: FromStr>(word: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("`{word}` is no number"))
}

/// `0.25` and `0.25s` are seconds; `250ms` is the same.
pub fn time(word: &str) -> Result<Duration, String> {
    let (digits, unit) = match word.strip_suffix("ms") {
        Some(digits) => (digits, 1e-3),
        None => (word.strip_suffix('s').unwrap_or(word), 1.0),
    };
    let value: f64 = digits.parse().map_err(|_| format!("`{word}` is no time"))?;
    let seconds = value * unit;
    Duration::try_from_secs_f64(seconds).map_err(|_| format!("`{word}` is no time"))
}
