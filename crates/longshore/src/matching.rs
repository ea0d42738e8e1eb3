//! `match`: patterns in what clients send, and what is done about them.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use host::pattern::{PatternSet, Patterns, PatternsError, TABLES};
use host::{Offload, SocketId, Stack};
use serde::Deserialize;

use crate::log::LIMITED;

/// What is done about a connection with a pattern in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// A line of the log
    #[default]
    Log,
    /// A line of the log, and the connection ends before anything that was read with the pattern's end is used
    Close,
}

/// A set of patterns, and what is done about them.
#[derive(Clone, Debug)]
pub struct Rule {
    file: PathBuf,
    patterns: Arc<Patterns>,
    action: Action,
}

/// Why a file gives no patterns.
#[derive(Debug, thiserror::Error)]
pub enum RuleError {
    /// It can't be read.
    #[error("can't read {}: {error}; name a file of patterns that you may read", file.display())]
    Unreadable {
        /// Its name.
        file: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// It holds something else.
    #[error("{}: {error}", file.display())]
    Malformed {
        /// Its name.
        file: PathBuf,
        /// Where, and what to do about it.
        error: PatternsError,
    },
}

impl PartialEq for Rule {
    fn eq(&self, other: &Rule) -> bool {
        let what = |rule: &Rule| (rule.file.clone(), rule.action);
        what(self) == what(other) && self.patterns.source() == other.patterns.source()
    }
}

impl Rule {
    /// The file that it was read from.
    pub fn file(&self) -> &PathBuf {
        &self.file
    }

    /// Reads a file of patterns.
    ///
    /// # Errors
    /// When it can't be read, or a line is no pattern.
    pub fn read(file: &Path, action: Action) -> Result<Rule, RuleError> {
        let file = file.to_owned();
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) => return Err(RuleError::Unreadable { file, error }),
        };
        match Patterns::parse(&text, TABLES) {
            Ok(patterns) => Ok(Rule {
                file,
                patterns: Arc::new(patterns),
                action,
            }),
            Err(error) => Err(RuleError::Malformed { file, error }),
        }
    }
}

/// A rule whose patterns a stack knows.
#[derive(Debug)]
pub struct Matcher {
    rule: Rule,
    set: PatternSet,
    by_nic: bool,
}

impl Matcher {
    /// Makes the patterns known. With an offload on receive the NIC searches what it can.
    pub fn new(rule: Rule, stack: &mut Stack, offload: Offload) -> Matcher {
        let set = stack.load_patterns(Arc::clone(&rule.patterns));
        Matcher {
            rule,
            set,
            by_nic: offload.receive(),
        }
    }

    /// From now on what is read of this socket is searched. A connection that can't be is reset if patterns close connections: nothing
    /// passes unsearched.
    pub fn begin(&self, now: Instant, stack: &mut Stack, socket: SocketId) {
        let Err(error) = stack.start_scan(socket, &self.set, self.by_nic) else {
            return;
        };
        tracing::warn!(target: LIMITED, %error, "a connection is not searched");
        if self.rule.action == Action::Close {
            let _ = stack.abort(now, socket);
        }
    }

    /// Logs what was found in what was read last. Answers whether nothing of that may be used, and the connection must end.
    #[must_use]
    pub fn forbids(&self, stack: &mut Stack, socket: SocketId, client: SocketAddr) -> bool {
        let Some(first) = stack.take_match(socket) else {
            return false;
        };
        let mut others = 0;
        while stack.take_match(socket).is_some() {
            others += 1;
        }
        let found = Found {
            rule: &self.rule,
            pattern: first.pattern,
            end: first.end,
            others,
        };
        match self.rule.action {
            Action::Log => tracing::warn!(%client, "{found}"),
            Action::Close => tracing::warn!(%client, "{found}; the connection is closed"),
        }
        self.rule.action == Action::Close
    }
}

/// A line of the log.
struct Found<'a> {
    rule: &'a Rule,
    pattern: u32,
    end: u64,
    others: u32,
}

impl fmt::Display for Found<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let patterns = &self.rule.patterns;
        let text = patterns.text(self.pattern).unwrap_or_default();
        let line = patterns.line(self.pattern).unwrap_or_default();
        write!(
            f,
            "line {line} of {} (`{}`) matches up to byte {}",
            self.rule.file.display(),
            text.escape_debug(),
            self.end
        )?;
        match self.others {
            0 => Ok(()),
            others => write!(f, ", and {others} more at once"),
        }
    }
}
