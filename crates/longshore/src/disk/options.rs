//! Options that all commands for disks share.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::size;

/// A command's disk, and what is done with it.
#[derive(Clone, Debug, Args)]
#[group(skip)]
pub struct On<D: Args, H: Args> {
    /// Which disk, and how to reach it.
    #[command(flatten)]
    pub disk: D,
    /// What to do.
    #[command(flatten)]
    pub how: H,
}

/// How requests are sent to a disk.
#[derive(Clone, Debug, Args)]
#[group(skip)]
pub struct Requests {
    /// Requests in flight at a time
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub depth: u16,
    /// The host copies the data of smaller reads; the NIC places that of others
    #[arg(long, value_name = "SIZE", default_value = "16K", value_parser = size::between_u32(0, u32::MAX))]
    pub map_threshold: u32,
    /// Seconds that connecting may take
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(0..=86_400))]
    pub timeout: u64,
}

/// The value of `--digest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Digest {
    /// None.
    None,
    /// Over headers.
    Header,
    /// Over data.
    Data,
    /// Over headers and data.
    Both,
}

impl Digest {
    /// Whether headers have digests.
    pub(crate) fn has_header(self) -> bool {
        matches!(self, Digest::Header | Digest::Both)
    }

    /// Whether data has digests.
    pub(crate) fn has_data(self) -> bool {
        matches!(self, Digest::Data | Digest::Both)
    }
}

/// Copying a disk, or a part of it, to a file.
#[derive(Clone, Debug, Args)]
#[group(skip)]
pub struct Read {
    /// Where to write; `-` is the standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// First byte; a multiple of the disk's block size
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = size::parse)]
    pub offset: u64,
    /// How much to read; a multiple of the block size [default: up to the end]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub length: Option<u64>,
    /// No progress bar
    #[arg(short, long)]
    pub quiet: bool,
}

/// Copying a file to a disk.
#[derive(Clone, Debug, Args)]
#[group(skip)]
pub struct Write {
    /// What to write; `-` is the standard input
    #[arg(short, long, value_name = "FILE")]
    pub input: PathBuf,
    /// Where the first byte goes; a multiple of the disk's block size
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = size::parse)]
    pub offset: u64,
    /// Fill the last block with zeroes if the input ends in its middle
    #[arg(long)]
    pub pad: bool,
    /// Read it all back, and compare the checksums
    #[arg(long)]
    pub verify: bool,
    /// No progress bar
    #[arg(short, long)]
    pub quiet: bool,
}

/// Measuring a disk.
#[derive(Clone, Debug, Args)]
#[group(skip)]
pub struct Bench {
    /// Read (the default)
    #[arg(long, conflicts_with = "write")]
    pub read: bool,
    /// Write: what the disk holds is overwritten with random bytes
    #[arg(long)]
    pub write: bool,
    /// Size of each command; a multiple of the disk's block size
    #[arg(long, value_name = "SIZE", default_value = "256K", value_parser = size::between_u32(1, 1 << 30))]
    pub io_bytes: u32,
    /// One place after the other, instead of random ones
    #[arg(long)]
    pub sequential: bool,
    /// How long to go on
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    pub seconds: u64,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct CommandLine {
        #[command(flatten)]
        requests: Requests,
    }

    #[test]
    fn times_that_no_clock_holds_are_refused() {
        let parsed = |seconds: u64| {
            CommandLine::try_parse_from(["read", &format!("--timeout={seconds}")])
                .map(|line| line.requests.timeout)
        };
        assert_eq!(parsed(86_400).unwrap(), 86_400);
        assert!(parsed(86_401).is_err() && parsed(u64::MAX).is_err());
    }
}
