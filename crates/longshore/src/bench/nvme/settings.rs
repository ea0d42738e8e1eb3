//! What `longshore bench nvme` may be asked.

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::bench::settings::{Run, share};

/// Settings of `bench nvme`.
#[derive(Clone, Debug, Args)]
pub struct Settings {
    /// Bytes of each read or write, a multiple of 4096
    #[arg(long, value_name = "N", default_value_t = 262_144, value_parser = io_bytes)]
    pub io_bytes: u32,

    /// Commands in flight at a time, on one queue
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub depth: u16,

    /// Measures reads only
    #[arg(long, conflicts_with = "write")]
    pub read: bool,

    /// Measures writes only
    #[arg(long)]
    pub write: bool,

    /// Measures with these digests only
    #[arg(long, value_enum)]
    pub digest: Option<Digest>,

    /// Measures NVMe inside TLS only
    #[arg(long)]
    pub tls: bool,

    /// Share of the data packets that the link loses, 0 to 0.5
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = share)]
    pub loss: f64,

    /// Share of the data packets that the link delivers late, 0 to 0.5
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = share)]
    pub reorder: f64,

    /// Measures the latency of single reads too, for 4, 16, 64 and 256 KiB
    #[arg(long)]
    pub latency: bool,

    /// Bytes in each measured round
    #[arg(long, value_name = "N", default_value_t = 256 << 20, value_parser = clap::value_parser!(u64).range(1..))]
    pub bytes: u64,

    /// Bytes of the namespace, and of the memory that is read to and written from
    #[arg(long, value_name = "N", default_value_t = 128 << 20, value_parser = clap::value_parser!(u64).range(1 << 20..=1 << 30))]
    pub working_set: u64,

    /// Seed of data, order, loss and reordering
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,

    #[command(flatten)]
    pub run: Run,
}

/// Which digests a connection has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Digest {
    /// None
    None,
    /// Over data
    Data,
    /// Over headers and data
    Both,
}

impl Settings {
    /// Commands of a round: whole passes over the namespace.
    pub fn commands(&self) -> u64 {
        let pass = (self.working_set / u64::from(self.io_bytes)).max(1);
        self.bytes
            .div_ceil(u64::from(self.io_bytes))
            .next_multiple_of(pass)
    }
}

fn io_bytes(text: &str) -> Result<u32, String> {
    let bytes: u32 = text
        .parse()
        .map_err(|_| format!("`{text}` is not a number of bytes"))?;
    if bytes.is_multiple_of(4096) && (4096..=1 << 20).contains(&bytes) {
        Ok(bytes)
    } else {
        Err(format!(
            "{bytes} is not a multiple of 4096 from 4096 to 1048576"
        ))
    }
}
