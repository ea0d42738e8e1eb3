//! `longshore bench proxy`: what a load balancer costs the host that relays, and one whose NIC splices.

mod case;
mod haproxy;
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
