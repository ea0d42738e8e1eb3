//! The options of `longshore nbd`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::uri::Uri;
use crate::attach::Wire;
use crate::disk::{self, On};

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show what an export is
    #[command(after_help = INFO_EXAMPLES)]
    Info(Export),
    /// Copy an export, or a part of it, to a file
    #[command(after_help = READ_EXAMPLES)]
    Read(On<Export, disk::Read>),
    /// Copy a file to an export
    #[command(after_help = WRITE_EXAMPLES)]
    Write(On<Export, disk::Write>),
    /// Copy between two exports, or an export and a file
    #[command(after_help = COPY_EXAMPLES)]
    Copy(Copy),
    /// Read or write at random places, and show throughput, latency and what the NIC did of it
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(On<Export, disk::Bench>),
}

const INFO_EXAMPLES: &str = "\
Example:
  sudo longshore nbd info nbd://10.9.0.1/disk --tap ls0 --ip 10.9.0.2/24";

const READ_EXAMPLES: &str = "\
Examples:
  sudo longshore nbd read nbd://10.9.0.1/disk --tap ls0 --ip 10.9.0.2/24 -o disk.img
  # the second MiB of the server's default export, to the standard output
  sudo longshore nbd read nbd://10.9.0.1 --tap ls0 --ip 10.9.0.2/24 \\
       --offset 1M --length 1M -o - | xxd | head
  # under TLS
  sudo longshore nbd read nbds://10.9.0.1/disk --tap ls0 --ip 10.9.0.2/24 \\
       --ca ca-cert.pem -o disk.img";

const WRITE_EXAMPLES: &str = "\
Example:
  sudo longshore nbd write nbd://10.9.0.1/disk --tap ls0 --ip 10.9.0.2/24 -i disk.img --verify";

const COPY_EXAMPLES: &str = "\
Examples:
  sudo longshore nbd copy nbd://10.9.0.1/old nbd://10.9.0.1/new --tap ls0 --ip 10.9.0.2/24
  sudo longshore nbd copy nbd://10.9.0.1/old disk.img --tap ls0 --ip 10.9.0.2/24
  sudo longshore nbd copy disk.img nbd://10.9.0.1/new --tap ls0 --ip 10.9.0.2/24";

const BENCH_EXAMPLES: &str = "\
Examples:
  sudo longshore nbd bench nbd://10.9.0.1/disk --tap ls0 --ip 10.9.0.2/24
  # without the NIC's help
  sudo longshore nbd bench nbd://10.9.0.1/disk --tap ls0 --ip 10.9.0.2/24 --offload none
  # what the export holds is overwritten
  sudo longshore nbd bench nbd://10.9.0.1/disk --tap ls0 --ip 10.9.0.2/24 \\
       --write --io-bytes 4K --depth 32 --json";

/// How to reach servers; the same for all commands.
#[derive(Clone, Debug, Args)]
pub struct Peer {
    /// How to reach the network.
    #[command(flatten)]
    pub wire: Wire,
    /// Accept any certificate of nbds://
    #[arg(long, conflicts_with = "ca", help_heading = "TLS")]
    pub insecure: bool,
    /// Trust the certificates in this PEM file instead of the system's: authorities, or the server's own
    #[arg(long, value_name = "FILE", help_heading = "TLS")]
    pub ca: Option<PathBuf>,
    /// How requests are sent.
    #[command(flatten)]
    pub requests: disk::Requests,
}

/// Which export to use, and how to reach it.
#[derive(Clone, Debug, Args)]
pub struct Export {
    /// The export: `nbd://HOST[:PORT]/NAME`, or `nbds://` for TLS; without NAME the server's default
    pub uri: Uri,
    /// How to reach it.
    #[command(flatten)]
    pub peer: Peer,
}

/// `longshore nbd copy`.
#[derive(Clone, Debug, Args)]
pub struct Copy {
    /// An export's URI, or a file; `-` is the standard input
    pub from: String,
    /// An export's URI, or a file; `-` is the standard output
    pub to: String,
    /// How to reach them.
    #[command(flatten)]
    pub peer: Box<Peer>,
    /// No progress bar
    #[arg(short, long)]
    pub quiet: bool,
}
