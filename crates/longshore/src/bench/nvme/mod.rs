//! `longshore bench nvme`: what placement and digests by the NIC save the host, alone and inside TLS.

mod case;
mod latency;
mod load;
mod memory;
mod printed;
mod rounds;
mod settings;
mod world;

#[cfg(test)]
mod tests;

pub use settings::Settings;

/// Measures, and prints what came of it. Answers whether every byte was the right one.
///
/// # Errors
/// When a command fails, or the report can't be written.
pub fn run(settings: &Settings) -> anyhow::Result<bool> {
    let report = rounds::measure(settings)?;
    printed::print(settings, &report)?;
    Ok(report.bytes_verified)
}
