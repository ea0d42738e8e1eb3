//! `longshore bench linux`: what TLS costs a server on Linux's own TCP, by whom it is done.

mod bulk;
mod case;
mod forwarder;
mod network;
mod nic;
mod parts;
mod printed;
mod reading;
mod rounds;
mod server;
mod settings;

#[cfg(test)]
mod tests;

pub use settings::Settings;

/// Measures, and prints what came of it. Answers whether every byte was the right one.
///
/// # Errors
/// When a program is missing or fails, without privileges, or when the report can't be written.
pub fn run(settings: &Settings) -> anyhow::Result<bool> {
    settings.rounds.wanted().check()?;
    let report = rounds::measure(settings)?;
    printed::print(settings, &report)?;
    Ok(report.bytes_verified)
}
