//! `longshore nbd bench`: how fast an export is, through our stack and NIC.

use anyhow::{Result, anyhow};
use serde::Serialize;

use super::connect;
use super::options::Bench;
use crate::disk::Driver;
use crate::disk::bench::{self, Report};

/// What was in flight, and how.
#[derive(Debug, Serialize)]
struct Manner {
    depth: u16,
    structured: bool,
    tls: bool,
}

/// Reads or writes for as long as was asked for.
pub(super) fn run(options: &Bench) -> Result<()> {
    let (export, how) = (&options.export, &options.how);
    let mut driver = Driver::new(&export.peer.wire)?;
    let at = connect(&mut driver, &export.peer, &export.uri)?;
    let known = driver.client(at).export().copied();
    let known = known.ok_or_else(|| anyhow!("the server closed the connection at once"))?;
    let seed = export.peer.wire.line.seed;
    let (figures, counted) = bench::remote(driver, at, how, seed)?;
    let depth = export.peer.requests.depth;
    let manner = Manner {
        depth,
        structured: known.structured,
        tls: export.uri.secures(),
    };
    Report::new(figures, manner, counted.shares(false)).print(how, &format!("{depth} at a time"))
}
