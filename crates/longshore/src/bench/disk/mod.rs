//! `longshore bench nvme`, `nbd` and `iscsi`: what placement and digests by the NIC save the host, alone and inside TLS.

mod case;
mod latency;
mod load;
mod memory;
mod nvme;
mod printed;
mod remote;
mod rounds;
pub mod settings;
mod world;

#[cfg(test)]
mod tests;

use nvme::NvmeWorld;
use remote::Remote;
use settings::Settings;
use world::Disks;

/// Measures NVMe/TCP, and prints what came of it. Answers whether every byte was the right one.
///
/// # Errors
/// When a command fails, or the report can't be written.
pub fn run_nvme(settings: &settings::Nvme) -> anyhow::Result<bool> {
    run::<NvmeWorld>(&settings.into())
}

/// The same for NBD.
///
/// # Errors
/// As [`run_nvme`].
pub fn run_nbd(settings: &settings::Nbd) -> anyhow::Result<bool> {
    run::<Remote<remote::Nbd>>(&settings.into())
}

/// The same for iSCSI.
///
/// # Errors
/// As [`run_nvme`].
pub fn run_iscsi(settings: &settings::Iscsi) -> anyhow::Result<bool> {
    run::<Remote<remote::Iscsi>>(&settings.into())
}

fn run<W: Disks>(settings: &Settings) -> anyhow::Result<bool> {
    let report = rounds::measure::<W>(settings)?;
    printed::print(settings, &report)?;
    Ok(report.bytes_verified)
}
