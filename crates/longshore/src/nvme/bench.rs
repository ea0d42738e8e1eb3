//! `longshore nvme bench`: how fast a namespace is, through our stack and NIC.

use anyhow::{Result, anyhow};
use serde::Serialize;

use super::driver::{Driver, choose_namespace};
use super::initiator::Initiator;
use super::options::Disk;
use super::pipeline::Pipeline;
use crate::disk::bench::{self, Report};
use crate::disk::{self, Counted, On};

/// What was in flight, and how.
#[derive(Debug, Serialize)]
struct Manner {
    queues: u16,
    depth: u16,
    digest: Digests,
    tls: bool,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Digests {
    header: bool,
    data: bool,
}

/// Reads or writes for as long as was asked for.
pub(super) fn run(options: &On<Disk, disk::Bench>) -> Result<()> {
    let (disk, how) = (&options.disk, &options.how);
    let mut driver = Driver::new(&disk.peer)?;
    let mut initiator = driver.connect_disk(disk)?;
    let namespace = choose_namespace(disk, &initiator)?;
    let limits = initiator.controller().limits();
    let (queues, depth) = (limits.io_queues, limits.depth);
    let at_a_time = u32::from(queues) * u32::from(depth);
    bench::check(how, at_a_time, limits.max_transfer)?;
    let negotiated = initiator.controller().queue(1);
    let digests = negotiated
        .and_then(|queue| queue.negotiated())
        .map(|agreed| agreed.digests)
        .ok_or_else(|| anyhow!("the target closed the connection at once; try again"))?;

    let before = counted(&mut driver, &initiator)?;
    let memory = (how.io_bytes, at_a_time);
    let mut pipeline = Pipeline::of(&mut driver, &mut initiator, namespace, memory)?;
    let figures = bench::run(&mut pipeline, how, disk.peer.seed())?;
    let counted = counted(&mut driver, &initiator)? - before;
    driver.disconnect(initiator)?;
    driver.end()?;

    let manner = Manner {
        queues,
        depth,
        digest: Digests {
            header: digests.header,
            data: digests.data,
        },
        tls: disk.peer.psk.is_some(),
    };
    let in_flight = format!("{queues} queues of {depth} commands");
    Report::new(figures, manner, counted.shares(digests.data)).print(how, &in_flight)
}

/// What has been counted of NVMe/TCP.
fn counted(driver: &mut Driver, initiator: &Initiator) -> Result<Counted> {
    if let Initiator::Linux(initiator) = initiator {
        let counters = initiator.counters();
        return Ok(Counted {
            placed: counters.rx_bytes_placed,
            copied: counters.rx_bytes_copied,
            checked_by_nic: counters.rx_digests_device,
            checked_by_host: counters.rx_digests_sw,
            ..Counted::default()
        });
    }
    let stack = driver.attached()?.runtime.stack();
    Ok(Counted::of("NvmeTcp", stack.counters()))
}

#[cfg(test)]
mod tests;
