//! `longshore nbd bench`: how fast an export is, through our stack and NIC.

use anyhow::{Result, anyhow};
use serde::Serialize;

use super::driver::Driver;
use super::options::Bench;
use super::pipeline::Pipeline;
use crate::disk::bench::{self, Figures, share};

/// What was measured.
#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    figures: Figures,
    depth: u16,
    structured: bool,
    tls: bool,
    /// Of the bytes of data that came, those that the NIC had placed.
    placed_share: Option<f64>,
}

/// Reads or writes for as long as was asked for.
pub(super) fn run(options: &Bench) -> Result<()> {
    let (export, how) = (&options.export, &options.how);
    let mut driver = Driver::new(&export.peer)?;
    let at = driver.connect(&export.peer, &export.uri)?;
    let known = driver.clients[at].client.export().copied();
    let known = known.ok_or_else(|| anyhow!("the server closed the connection at once"))?;
    let depth = export.peer.depth;
    bench::check(how, depth.into(), known.max_request)?;

    let before = placed_and_copied(&mut driver);
    let (figures, after) = driver.with(|driver| {
        let mut pipeline = Pipeline::of(driver, at, known, (how.io_bytes, depth.into()))?;
        let figures = bench::run(&mut pipeline, how, export.peer.wire.line.seed)?;
        Ok((figures, placed_and_copied(&mut driver.borrow_mut())))
    })?;

    let report = Report {
        figures,
        depth,
        structured: known.structured,
        tls: export.uri.secures(),
        placed_share: share(after.0 - before.0, after.1 - before.1),
    };
    if how.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
        return Ok(());
    }
    let shares = [("data placed by the NIC", report.placed_share)];
    bench::print(&report.figures, &format!("{depth} at a time"), &shares);
    Ok(())
}

/// Bytes of data that the NIC placed, and that the host copied.
fn placed_and_copied(driver: &mut Driver) -> (u64, u64) {
    let mut found = (0, 0);
    for (name, value) in driver.attached.runtime.stack().counters() {
        match name {
            "NbdRxBytesPlaced" => found.0 = value,
            "NbdRxBytesCopied" => found.1 = value,
            _ => {}
        }
    }
    found
}
