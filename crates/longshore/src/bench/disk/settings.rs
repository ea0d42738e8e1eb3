//! Options of `longshore bench nvme`, `nbd` and `iscsi`.

use std::marker::PhantomData;
use std::ops::Deref;

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::world::Protocol;
use crate::bench::settings::{Faults, Run};
use crate::size;

/// What commands there are: the same for all protocols.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Workload")]
#[group(skip)]
pub struct Workload {
    /// Size of each read or write, a multiple of 4K up to 1M
    #[arg(long, value_name = "SIZE", default_value = "256K", value_parser = io_bytes)]
    pub io_bytes: u32,

    /// Commands in flight on the one connection, up to 1024
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub depth: u16,

    /// Measure only reads
    #[arg(long, conflicts_with = "write")]
    pub read: bool,

    /// Measure only writes
    #[arg(long)]
    pub write: bool,

    #[command(flatten)]
    pub faults: Faults,

    /// Also measure the latency of single reads of 4, 16, 64 and 256 KiB
    #[arg(long)]
    pub latency: bool,

    /// Payload per round
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = size::between(1, 1 << 50))]
    pub bytes: u64,

    /// Size of the disk, and of the host memory that it is read into, 1M to 1G
    #[arg(long, value_name = "SIZE", default_value = "128M", value_parser = size::between(1 << 20, 1 << 30))]
    pub working_set: u64,

    /// Random seed; the same seed gives the same packets
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    #[command(flatten)]
    pub run: Run,
}

/// Settings of `bench nvme`.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Workload")]
#[group(skip)]
pub struct Nvme {
    /// Measure only with these digests: none, data, or both (headers and data) [default: none and data]
    #[arg(long, value_enum, hide_possible_values = true)]
    pub digest: Option<Digest>,

    /// Measure only NVMe inside TLS
    #[arg(long)]
    pub tls: bool,

    #[command(flatten)]
    pub workload: Workload,
}

/// Settings of `bench nbd`.
#[derive(Clone, Debug, Args)]
#[group(skip)]
pub struct Nbd {
    #[command(flatten)]
    pub workload: Workload,
}

/// Settings of `bench iscsi`.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Workload")]
#[group(skip)]
pub struct Iscsi {
    /// Measure only with these digests: none, data, or both (headers and data) [default: none and data]
    #[arg(long, value_enum, hide_possible_values = true)]
    pub digest: Option<Digest>,

    #[command(flatten)]
    pub workload: Workload,
}

/// What is to be measured of a protocol.
pub struct Settings<P> {
    pub workload: Workload,
    /// Only with these digests.
    pub only_digest: Option<Digest>,
    /// Only inside TLS.
    pub tls: bool,
    protocol: PhantomData<fn() -> P>,
}

impl<P> Deref for Settings<P> {
    type Target = Workload;

    fn deref(&self) -> &Workload {
        &self.workload
    }
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

impl<P: Protocol> Settings<P> {
    /// Settings of a protocol.
    pub fn new(workload: &Workload, only_digest: Option<Digest>, tls: bool) -> Self {
        Self {
            workload: workload.clone(),
            only_digest,
            tls,
            protocol: PhantomData,
        }
    }

    /// The digests of what is measured, besides connections without any.
    pub fn digest(&self) -> Digest {
        match P::DIGESTS {
            true => self.only_digest.unwrap_or(Digest::Data),
            false => Digest::None,
        }
    }
}

impl Workload {
    /// Commands of a round: whole passes over the namespace.
    pub fn commands(&self) -> u64 {
        let pass = (self.working_set / u64::from(self.io_bytes)).max(1);
        self.bytes
            .div_ceil(u64::from(self.io_bytes))
            .next_multiple_of(pass)
    }

    /// Bytes of a round.
    pub fn bytes_of_a_round(&self) -> u64 {
        self.commands() * u64::from(self.io_bytes)
    }
}

fn io_bytes(text: &str) -> Result<u32, String> {
    let bytes = size::between_u32(4096, 1 << 20)(text)?;
    if bytes.is_multiple_of(4096) {
        Ok(bytes)
    } else {
        Err(format!("{bytes} bytes are no multiple of 4K"))
    }
}
