//! Modes, and what is counted in them.

use serde::Serialize;

use crate::bench::case;

/// What is done with the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// It is searched for patterns.
    Search,
    /// It is decompressed, from gzip.
    Gzip,
    /// It is decompressed, from zstd.
    Zstd,
}

impl Work {
    fn name(self) -> &'static str {
        match self {
            Self::Search => "search",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

/// How content is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Mode {
    /// What is done with it.
    pub work: Work,
    /// Inside TLS 1.3, which the NIC decrypts in any case.
    pub tls: bool,
    /// By the NIC, as far as it can; else by software.
    pub by_nic: bool,
}

impl Mode {
    /// All of them, in the order in which a round goes through them.
    pub fn all() -> impl Iterator<Item = Mode> {
        let works = [Work::Search, Work::Gzip, Work::Zstd].into_iter();
        let kinds = works.flat_map(|work| [false, true].map(|tls| (work, tls)));
        kinds.flat_map(|(work, tls)| [false, true].map(|by_nic| Mode { work, tls, by_nic }))
    }
}

impl case::Mode for Mode {
    fn label(&self) -> String {
        let tls = if self.tls { "TLS, " } else { "" };
        let by = if self.by_nic { "NIC" } else { "software" };
        format!("{tls}{}: {by}", self.work.name())
    }
}

/// What was counted in a round.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Counted {
    /// Who did the work.
    pub done: Done,
}

/// Bytes by who did the work on them.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Done {
    /// Bytes of content that the NIC has searched or made.
    pub by_nic: u64,
    /// Bytes of content that software has searched or made.
    pub by_software: u64,
    /// Bytes on the way, without TLS.
    pub sent: u64,
}

/// Content per host core, the NIC over software.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Ratio {
    /// Of what work.
    pub work: Work,
    /// Inside TLS.
    pub tls: bool,
    /// How many times as much.
    pub nic_vs_software: f64,
}

impl Ratio {
    /// What is done, and where.
    pub fn label(&self) -> String {
        let inside = if self.tls { " inside TLS" } else { "" };
        format!("{}{inside}", self.work.name())
    }
}
