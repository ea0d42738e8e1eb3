//! `longshore iscsi bench`: how fast a unit is, through our stack and NIC.

use anyhow::{Context as _, Result};
use serde::Serialize;

use super::options::Unit;
use crate::disk::{self, On, bench};

/// What was in flight, and how.
#[derive(Debug, Serialize)]
struct Manner {
    depth: u16,
    header_digest: bool,
    data_digest: bool,
}

/// Reads or writes for as long as was asked for.
pub(super) fn run(options: &On<Unit, disk::Bench>) -> Result<()> {
    let On { disk, how } = options;
    bench::remote(disk, how, |client| {
        let agreed = client.agreed();
        let agreed = agreed.context("the target closed the connection at once")?;
        let incoming = &agreed.incoming;
        let manner = Manner {
            depth: disk.peer.requests.depth,
            header_digest: incoming.header_digest,
            data_digest: incoming.data_digest,
        };
        Ok((manner, incoming.data_digest))
    })
}
