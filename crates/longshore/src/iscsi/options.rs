//! The options of `longshore iscsi`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::uri::Uri;
use crate::attach::Wire;
use crate::disk::{self, Digest, On};

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the targets that a server has
    #[command(after_help = DISCOVER_EXAMPLES)]
    Discover(Discover),
    /// Show what a unit is, and what was agreed on
    #[command(after_help = INFO_EXAMPLES)]
    Info(Unit),
    /// Copy a unit, or a part of it, to a file
    #[command(after_help = READ_EXAMPLES)]
    Read(On<Unit, disk::Read>),
    /// Copy a file to a unit
    #[command(after_help = WRITE_EXAMPLES)]
    Write(On<Unit, disk::Write>),
    /// Read or write at random places, and show throughput, latency and what the NIC did of it
    #[command(after_help = BENCH_EXAMPLES)]
    Bench(On<Unit, disk::Bench>),
}

const DISCOVER_EXAMPLES: &str = "\
Example:
  sudo longshore iscsi discover iscsi://10.9.0.1 --tap ls0 --ip 10.9.0.2/24";

const INFO_EXAMPLES: &str = "\
Example:
  sudo longshore iscsi info iscsi://10.9.0.1/iqn.2024-01.org.example:disk/1 \\
       --tap ls0 --ip 10.9.0.2/24 --digest both";

const READ_EXAMPLES: &str = "\
Examples:
  sudo longshore iscsi read iscsi://10.9.0.1/iqn.2024-01.org.example:disk/1 \\
       --tap ls0 --ip 10.9.0.2/24 -o disk.img
  # the second MiB, to the standard output
  sudo longshore iscsi read iscsi://10.9.0.1/iqn.2024-01.org.example:disk/1 \\
       --tap ls0 --ip 10.9.0.2/24 --offset 1M --length 1M -o - | xxd | head
  # a target that asks who we are (CHAP)
  sudo longshore iscsi read iscsi://10.9.0.1/iqn.2024-01.org.example:disk/1 \\
       --tap ls0 --ip 10.9.0.2/24 --user backup --secret secret.txt -o disk.img";

const WRITE_EXAMPLES: &str = "\
Example:
  sudo longshore iscsi write iscsi://10.9.0.1/iqn.2024-01.org.example:disk/1 \\
       --tap ls0 --ip 10.9.0.2/24 -i disk.img --verify";

const BENCH_EXAMPLES: &str = "\
Examples:
  sudo longshore iscsi bench iscsi://10.9.0.1/iqn.2024-01.org.example:disk/1 \\
       --tap ls0 --ip 10.9.0.2/24 --digest both
  # without the NIC's help
  sudo longshore iscsi bench iscsi://10.9.0.1/iqn.2024-01.org.example:disk/1 \\
       --tap ls0 --ip 10.9.0.2/24 --digest both --offload none
  # what the unit holds is overwritten
  sudo longshore iscsi bench iscsi://10.9.0.1/iqn.2024-01.org.example:disk/1 \\
       --tap ls0 --ip 10.9.0.2/24 --write --io-bytes 4K --depth 32 --json";

/// How to reach targets; the same for all commands.
#[derive(Clone, Debug, Args)]
pub struct Peer {
    /// How to reach the network.
    #[command(flatten)]
    pub wire: Wire,
    /// Our own name [default: that of /etc/iscsi/initiatorname.iscsi, else one made of this machine's ID]
    #[arg(long, value_name = "IQN", help_heading = "Session")]
    pub initiator: Option<String>,
    /// The name to prove by CHAP
    #[arg(
        long,
        value_name = "NAME",
        requires = "secret",
        help_heading = "Session"
    )]
    pub user: Option<String>,
    /// File with the secret that proves it, in one line
    #[arg(long, value_name = "FILE", requires = "user", help_heading = "Session")]
    pub secret: Option<PathBuf>,
    /// Digests to ask for
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Digest::None, help_heading = "Session")]
    pub digest: Digest,
    /// How requests are sent.
    #[command(flatten)]
    pub requests: disk::Requests,
}

/// Which unit to use, and how to reach it.
#[derive(Clone, Debug, Args)]
pub struct Unit {
    /// The unit: `iscsi://HOST[:PORT]/TARGET/LUN`
    #[arg(value_parser = Uri::of_unit)]
    pub uri: Uri,
    /// How to reach it.
    #[command(flatten)]
    pub peer: Peer,
}

/// `longshore iscsi discover`.
#[derive(Clone, Debug, Args)]
pub struct Discover {
    /// The server: `iscsi://HOST[:PORT]`
    #[arg(value_parser = Uri::of_server)]
    pub uri: Uri,
    /// How to reach it.
    #[command(flatten)]
    pub peer: Peer,
}
