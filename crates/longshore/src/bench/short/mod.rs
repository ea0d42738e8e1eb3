//! `longshore bench short`: what short connections cost the host, with setup and teardown done by the NIC and without.

mod case;
mod latency;
mod linux;
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
/// When a connection fails, or the report can't be written.
pub fn run(settings: &Settings) -> anyhow::Result<bool> {
    let report = rounds::measure(settings)?;
    printed::print(settings, &report)?;
    Ok(report.bytes_verified)
}
