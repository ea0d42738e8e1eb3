//! What the reports of all benchmarks have in common.

use std::path::Path;

use anyhow::Context as _;
use serde::Serialize;

use crate::report::{Page, Table};

/// How a report is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// JSON and nothing else.
    pub json: bool,
    /// Where to write a page to.
    pub page: Option<&'a Path>,
}

/// Prints a report as JSON or by `text`, and writes a page if one is wanted.
///
/// # Errors
/// When the page can't be written.
pub fn print<R: Serialize>(
    wanted: Wanted<'_>,
    report: &R,
    text: impl FnOnce(&R),
    page: impl FnOnce(&R) -> Page,
) -> anyhow::Result<()> {
    if wanted.json {
        println!("{}", serde_json::to_string_pretty(report)?);
    } else {
        text(report);
    }
    if let Some(path) = wanted.page {
        std::fs::write(path, page(report).to_string())
            .with_context(|| format!("the report can't be written to {}", path.display()))?;
    }
    Ok(())
}

/// Numbers by their names, as they stand in the JSON.
pub fn ratios_table(ratios: &impl Serialize) -> Table {
    let mut table = Table::new(["ratio", ""]);
    let serde_json::Value::Object(all) = serde_json::to_value(ratios).expect("numbers by name")
    else {
        return table;
    };
    for (name, value) in all {
        table.row([name, format!("{:.2}", value.as_f64().unwrap_or(0.0))]);
    }
    table
}

/// The line that says whether every byte was right.
pub fn print_verified(what: &str, verified: bool) {
    println!(
        "Every byte compared with {what}: {}",
        if verified { "the same" } else { "DIFFERENT" }
    );
}
