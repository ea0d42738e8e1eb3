//! `longshore fault`: a NIC that fails on purpose, for tests of drivers.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};

use super::{Answer, Request, ask};

pub const EXAMPLES: &str = "\
Examples:
  longshore fault /run/longshore.sock --host /run/guest.sock drop 20
  longshore fault /run/longshore.sock --host /run/guest.sock corrupt
  longshore fault /run/longshore.sock --host /run/guest.sock late 200
  longshore fault /run/longshore.sock --host /run/guest.sock refuse 3

The NIC must have been started with --faults.";

/// `longshore fault`.
#[derive(Clone, Debug, Args)]
pub struct FaultOptions {
    /// Control socket of a NIC that was started with --faults
    pub socket: PathBuf,
    /// The host whose function is to fail: its socket, or its TAP interface
    #[arg(long)]
    pub host: String,
    /// How.
    #[command(subcommand)]
    pub fault: FaultKind,
}

/// How a function fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Subcommand)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// Take each message that the host receives for the one behind it: tags do not hold any more
    #[command(after_help = "Example:
  longshore fault /run/longshore.sock --host /run/guest.sock corrupt")]
    Corrupt,
    /// Drop the next N frames for the host
    #[command(after_help = "Example:
  longshore fault /run/longshore.sock --host /run/guest.sock drop 20")]
    Drop {
        /// How many
        #[arg(value_name = "N")]
        frames: u32,
    },
    /// Have the host's answers to resync requests count only after so long; 0 ends it
    #[command(after_help = "Example:
  longshore fault /run/longshore.sock --host /run/guest.sock late 200")]
    Late {
        /// How long
        #[arg(value_name = "MILLISECONDS")]
        milliseconds: u32,
    },
    /// Refuse every Nth context that the host makes; 0 ends it
    #[command(after_help = "Example:
  longshore fault /run/longshore.sock --host /run/guest.sock refuse 3")]
    Refuse {
        /// Which
        #[arg(value_name = "N")]
        every: u32,
    },
}

impl From<FaultKind> for nic::Fault {
    fn from(kind: FaultKind) -> nic::Fault {
        match kind {
            FaultKind::Corrupt => nic::Fault::CorruptContexts,
            FaultKind::Drop { frames } => nic::Fault::DropFrames(frames),
            FaultKind::Late { milliseconds } => {
                nic::Fault::LateAnswers(Duration::from_millis(milliseconds.into()))
            }
            FaultKind::Refuse { every } => nic::Fault::RefuseContexts(every),
        }
    }
}

/// Has a function fail.
///
/// # Errors
/// The NIC does not answer, or was not started with `--faults`, or has no such host.
pub fn fault(options: &FaultOptions) -> Result<()> {
    let FaultOptions { host, fault, .. } = options;
    let request = Request::Fault {
        host: host.clone(),
        fault: *fault,
    };
    match ask(&options.socket, request)? {
        Answer::Done => Ok(()),
        _ => bail!("the service gave an unexpected answer; it may be of another version"),
    }
}
