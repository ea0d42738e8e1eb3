//! `longshore nbd bench`: how fast an export is, through our stack and NIC.

use anyhow::{Context as _, Result};
use serde::Serialize;

use super::options::Export;
use crate::disk::{self, On, bench};

/// What was in flight, and how.
#[derive(Debug, Serialize)]
struct Manner {
    depth: u16,
    structured: bool,
    tls: bool,
}

/// Reads or writes for as long as was asked for.
pub(super) fn run(options: &On<Export, disk::Bench>) -> Result<()> {
    let On { disk, how } = options;
    bench::remote(disk, how, |client| {
        let export = client.export();
        let export = export.context("the server closed the connection at once")?;
        let manner = Manner {
            depth: disk.peer.requests.depth,
            structured: export.structured,
            tls: disk.uri.secures(),
        };
        Ok((manner, false))
    })
}
