//! Options that all commands for disks share.

use std::path::PathBuf;

use clap::Args;

use crate::size;

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
