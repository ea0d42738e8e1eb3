//! `longshore iscsi bench`: how fast a unit is, through our stack and NIC.

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
    header_digest: bool,
    data_digest: bool,
}

/// Reads or writes for as long as was asked for.
pub(super) fn run(options: &Bench) -> Result<()> {
    let (unit, how) = (&options.unit, &options.how);
    let mut driver = Driver::new(&unit.peer.wire)?;
    let at = connect(&mut driver, &unit.peer, &unit.uri)?;
    let agreed = driver.client(at).agreed().copied();
    let agreed = agreed.ok_or_else(|| anyhow!("the target closed the connection at once"))?;
    let (figures, counted) = bench::remote(driver, at, how, unit.peer.wire.line.seed)?;
    let depth = unit.peer.requests.depth;
    let manner = Manner {
        depth,
        header_digest: agreed.incoming.header_digest,
        data_digest: agreed.incoming.data_digest,
    };
    let shares = counted.shares(manner.data_digest);
    Report::new(figures, manner, shares).print(how, &format!("{depth} at a time"))
}
