//! `longshore nvme bench`: how fast a namespace is, through our stack and NIC.

use anyhow::{Result, anyhow};
use serde::Serialize;

use super::driver::{Driver, choose_namespace};
use super::initiator::Initiator;
use super::options::Bench;
use super::pipeline::Pipeline;
use crate::disk::bench::{self, Figures, share};

/// What was measured.
#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    figures: Figures,
    queues: u16,
    depth: u16,
    digest: Digests,
    tls: bool,
    /// Of the bytes of data that came, those that the NIC had placed.
    placed_share: Option<f64>,
    /// Of the data digests of what came, those that the NIC had checked.
    checked_share: Option<f64>,
    /// Of the PDUs that were sent, those whose digests the NIC made.
    made_share: Option<f64>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Digests {
    header: bool,
    data: bool,
}

/// Reads or writes for as long as was asked for.
pub(super) fn run(options: &Bench) -> Result<()> {
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

    let before = Counted::of(&mut driver, &initiator)?;
    let memory = (how.io_bytes, at_a_time);
    let mut pipeline = Pipeline::of(&mut driver, &mut initiator, namespace, memory)?;
    let figures = bench::run(&mut pipeline, how, disk.peer.seed())?;
    let counted = Counted::of(&mut driver, &initiator)?.since(&before);
    driver.disconnect(initiator)?;
    driver.end()?;

    let report = Report {
        figures,
        queues,
        depth,
        digest: Digests {
            header: digests.header,
            data: digests.data,
        },
        tls: disk.peer.psk.is_some(),
        placed_share: share(counted.placed, counted.copied),
        checked_share: share(counted.checked_by_nic, counted.checked_by_host),
        made_share: share(counted.made_by_nic, counted.made_by_host),
    };
    if how.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
        return Ok(());
    }
    let shares = [
        ("data placed by the NIC", report.placed_share),
        ("digests checked by the NIC", report.checked_share),
        ("PDUs with digests made by the NIC", report.made_share),
    ];
    let in_flight = format!("{queues} queues of {depth} commands");
    bench::print(&report.figures, &in_flight, &shares);
    Ok(())
}

/// What was counted of NVMe/TCP.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    placed: u64,
    copied: u64,
    checked_by_nic: u64,
    checked_by_host: u64,
    made_by_nic: u64,
    made_by_host: u64,
}

impl Counted {
    fn of(driver: &mut Driver, initiator: &Initiator) -> Result<Self> {
        if let Initiator::Linux(initiator) = initiator {
            return Ok(Self::of_kernel(initiator.counters()));
        }
        let mut counted = Self::default();
        for (name, value) in driver.attached()?.runtime.stack().counters() {
            match name {
                "NvmeTcpRxBytesPlaced" => counted.placed = value,
                "NvmeTcpRxBytesCopied" => counted.copied = value,
                "NvmeTcpRxDigestsDevice" => counted.checked_by_nic = value,
                "NvmeTcpRxDigestsSw" => counted.checked_by_host = value,
                "NvmeTcpTxPdusDevice" => counted.made_by_nic = value,
                "NvmeTcpTxPdusSw" | "NvmeTcpTxPdusFallback" => counted.made_by_host += value,
                _ => {}
            }
        }
        Ok(counted)
    }

    fn of_kernel(counters: &kernel_nvme::Counters) -> Self {
        Self {
            placed: counters.rx_bytes_placed,
            copied: counters.rx_bytes_copied,
            checked_by_nic: counters.rx_digests_device,
            checked_by_host: counters.rx_digests_sw,
            ..Self::default()
        }
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            placed: self.placed - before.placed,
            copied: self.copied - before.copied,
            checked_by_nic: self.checked_by_nic - before.checked_by_nic,
            checked_by_host: self.checked_by_host - before.checked_by_host,
            made_by_nic: self.made_by_nic - before.made_by_nic,
            made_by_host: self.made_by_host - before.made_by_host,
        }
    }
}

#[cfg(test)]
mod tests;
