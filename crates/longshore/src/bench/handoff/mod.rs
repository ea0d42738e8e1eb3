//! `longshore bench handoff`: what keep-alive connections cost the host, run by itself and handed off to the NIC.

mod case;
mod client;
mod load_control;
mod moves;
mod pages;
mod printed;
mod rounds;
mod server;
mod settings;
mod world;

#[cfg(test)]
mod tests;

pub use settings::Settings;

/// Measures, and prints what came of it. Answers whether every byte was the right one.
///
/// # Errors
/// When a connection fails or can't be moved, or the report can't be written.
pub fn run(settings: &Settings) -> anyhow::Result<bool> {
    let report = rounds::measure(settings)?;
    printed::print(settings, &report)?;
    Ok(report.bytes_verified)
}
