//! Modes, and what is counted in them.

use host::pdus::PduOffload;
use serde::Serialize;

use super::settings::{Digest, Settings};
use super::world::Protocol;
use crate::bench::case;
use crate::bench::pcie::PcieBytes;
use crate::tally::tally;

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Io {
    /// Blocks come to the host.
    Read,
    /// Blocks go to the disk.
    Write,
}

impl Io {
    fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// What the NIC does of it; each stage with those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Nothing.
    Software,
    /// TLS.
    Tls,
    /// The copy of what is read: placement.
    Copy,
    /// The data digest.
    Crc,
}

impl Stage {
    /// What the NIC is asked for beside TLS.
    pub fn offload(self) -> PduOffload {
        PduOffload {
            placement: self >= Self::Copy,
            receive_digest: self >= Self::Crc,
            transmit_digest: self >= Self::Crc,
        }
    }
}

/// How the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Mode {
    /// Reads or writes.
    pub io: Io,
    /// The digests of the connection.
    pub digest: Digest,
    /// NVMe/TCP inside TLS 1.3.
    pub tls: bool,
    /// What the NIC does.
    pub stage: Stage,
}

impl Mode {
    /// The modes that the settings ask for, in the order in which a round goes through them.
    pub fn of<P: Protocol>(settings: &Settings<P>) -> Vec<Self> {
        let digest = settings.digest();
        let mut modes = Vec::new();
        for tls in [false, true] {
            for io in [Io::Read, Io::Write] {
                let chosen = match io {
                    Io::Read => !settings.write,
                    Io::Write => !settings.read,
                };
                if !chosen || settings.tls && !tls || tls && !P::TLS {
                    continue;
                }
                let without = io == Io::Read && !tls && digest != Digest::None;
                if without && settings.only_digest.is_none() {
                    modes.extend(Self::stages(io, Digest::None, tls));
                }
                modes.extend(Self::stages(io, digest, tls));
            }
        }
        modes
    }

    /// The stages that there are for this kind of connection.
    pub fn stages(io: Io, digest: Digest, tls: bool) -> impl Iterator<Item = Self> {
        let all = [Stage::Software, Stage::Tls, Stage::Copy, Stage::Crc];
        let exists = move |stage: &Stage| match stage {
            Stage::Software => true,
            Stage::Tls => tls,
            Stage::Copy => io == Io::Read,
            Stage::Crc => digest != Digest::None,
        };
        all.into_iter().filter(exists).map(move |stage| Self {
            io,
            digest,
            tls,
            stage,
        })
    }

    /// Without digest and TLS, for tables that have them elsewhere.
    pub fn short_label(&self) -> String {
        format!("{}: {}", self.io.name(), self.stage_label())
    }

    fn stage_label(&self) -> &'static str {
        match (self.stage, self.tls, self.io) {
            (Stage::Software, ..) => "software",
            (Stage::Tls, ..) => "TLS",
            (Stage::Copy, false, _) => "placement",
            (Stage::Copy, true, _) => "TLS + placement",
            (Stage::Crc, false, Io::Read) => "placement + CRC",
            (Stage::Crc, true, Io::Read) => "TLS + placement + CRC",
            (Stage::Crc, false, Io::Write) => "CRC",
            (Stage::Crc, true, Io::Write) => "TLS + CRC",
        }
    }
}

impl case::Mode for Mode {
    fn label(&self) -> String {
        let digest = match self.digest {
            Digest::None => "no digest",
            Digest::Data => "data digest",
            Digest::Both => "both digests",
        };
        let tls = if self.tls { "TLS, " } else { "" };
        format!("{}, {tls}{digest}: {}", self.io.name(), self.stage_label())
    }
}

/// What is counted in a round.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Counted {
    /// Cycles of the server's host per byte.
    pub controller_cycles_per_byte: f64,
    /// What the client's NIC moved over PCIe.
    pub pcie_bytes: PcieBytes,
    /// What the client's NIC did for the protocol.
    pub offloaded: Offloaded,
    /// Payload bytes that TCP sent again towards the client or from there.
    pub retransmitted_bytes: u64,
}

tally! {
    /// How much of what the client's NIC took in it did its work on.
    pub struct Offloaded {
        /// Bytes of data that the NIC placed.
        pub placed_bytes: u64,
        /// Packets with data of which the NIC placed some.
        pub placed_packets: u64,
        /// Packets of which every digest was checked.
        pub digest_packets: u64,
        /// Packets with payload that came.
        pub packets: u64,
        /// Resynchronisations that the NIC asked for.
        pub resyncs: u64,
    }
}

/// How long single reads take, one at a time, in microseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Latency {
    /// How the bytes go.
    #[serde(flatten)]
    pub mode: Mode,
    /// Bytes of a read.
    pub io_bytes: u32,
    /// From submission to completion, the median, with NICs that work as fast as the link.
    pub median_us: f64,
    /// The longest but for one of a hundred.
    pub p99_us: f64,
    /// Of the median, what the client's host took.
    pub host_us: f64,
    /// The median with hosts and NICs taking turns on one thread: all that is computed.
    pub one_thread_us: f64,
    /// `median_us` over that of software.
    pub vs_software: f64,
    /// `one_thread_us` over that of software.
    pub one_thread_vs_software: f64,
}
