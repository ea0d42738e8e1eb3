//! `longshore bench tls`: what TLS by the NIC saves the host.

mod case;
mod linux;
mod printed;
mod rounds;
mod row;
mod settings;
mod source;
mod transfer;
mod world;

pub use case::{Case, Direction, Mode, Ratios, Records, Report, Resyncs, RunParameters};
pub use printed::{cycles_table, host_bars, nic_bars, pcie_table, records_bars};
pub use row::{Node, resyncs, row};
pub use settings::Settings;

#[cfg(test)]
mod tests;

/// Measures, and prints what came of it. Answers whether every byte was the right one.
///
/// # Errors
/// When a connection fails, or the report can't be written.
pub fn run(settings: &Settings) -> anyhow::Result<bool> {
    let report = rounds::measure(settings)?;
    printed::print(settings, &report)?;
    Ok(report.bytes_verified)
}
