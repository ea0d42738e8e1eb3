//! `longshore bench content`: what it costs a host to search what it receives for patterns, and to decompress it, by itself and by its NIC.

mod case;
mod printed;
mod rounds;
mod settings;
mod world;

#[cfg(test)]
mod tests;

pub use settings::Settings;

/// Measures, and prints what came of it. Answers whether every byte and every match was the right one.
///
/// # Errors
/// When a connection fails, or the report can't be written.
pub fn run(settings: &Settings) -> anyhow::Result<bool> {
    let report = rounds::measure(settings)?;
    printed::print(settings, &report)?;
    Ok(report.verified)
}
