//! `longshore nvme bench`: how fast a namespace is, through our stack and NIC.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use hdrhistogram::Histogram;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

use super::driver::{Driver, choose_namespace};
use super::initiator::Initiator;
use super::options::Bench;
use super::pipeline::{Part, Pipeline};
use crate::bench::clock::processor_time;
use crate::bench::latency::{self, Latency};
use crate::report;

/// Memory of all commands in flight, at most.
const MOST_MEMORY: u64 = 1 << 30;

/// What was measured.
#[derive(Debug, Serialize)]
struct Report {
    io: &'static str,
    order: &'static str,
    io_bytes: u32,
    queues: u16,
    depth: u16,
    digest: Digests,
    tls: bool,
    seconds: f64,
    commands: u64,
    bytes: u64,
    iops: f64,
    gbit_per_s: f64,
    /// From submission to completion, microseconds.
    latency_us: Times,
    /// Processor time of the host's thread, microseconds. The NIC's is left out unless it has no thread of its own.
    host_us_per_command: f64,
    /// Of the bytes of data that came, those that the NIC had placed.
    placed_share: Option<f64>,
    /// Of the data digests of what came, those that the NIC had checked.
    checked_share: Option<f64>,
    /// Of the PDUs that were sent, those whose digests the NIC made.
    made_share: Option<f64>,
}

/// The spread of times, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
struct Times {
    min: f64,
    mean: f64,
    #[serde(flatten)]
    others: Latency,
}

impl Times {
    /// From nanoseconds.
    fn of(nanos: &Histogram<u64>) -> Self {
        Self {
            min: nanos.min() as f64 / 1e3,
            mean: nanos.mean() / 1e3,
            others: Latency::of(nanos),
        }
    }

    /// As fio writes it.
    fn line(&self) -> String {
        let Latency {
            p50,
            p99,
            p999,
            max,
            ..
        } = self.others;
        let (min, mean) = (self.min, self.mean);
        format!(
            "lat (usec): min={min:.1}, avg={mean:.1}, p50={p50:.1}, p99={p99:.1}, p99.9={p999:.1}, max={max:.1}"
        )
    }
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Digests {
    header: bool,
    data: bool,
}

/// Reads or writes for as long as was asked for.
pub(super) fn run(options: &Bench) -> Result<()> {
    let disk = &options.disk;
    let mut driver = Driver::new(&disk.peer)?;
    let mut initiator = driver.connect_disk(disk)?;
    let namespace = choose_namespace(disk, &initiator)?;
    if options.write && namespace.is_write_protected() {
        bail!("namespace {} is read-only", namespace.nsid);
    }
    let limits = initiator.controller().limits();
    let (queues, depth) = (limits.io_queues, limits.depth);
    let places = Places::new(options, namespace.size(), namespace.block_size())?;
    if options.io_bytes > limits.max_transfer {
        bail!(
            "the target takes at most {} per command; reduce --io-bytes",
            report::bytes(limits.max_transfer.into())
        );
    }
    let at_a_time = u32::from(queues) * u32::from(depth);
    if u64::from(at_a_time) * u64::from(options.io_bytes) > MOST_MEMORY {
        bail!(
            "{at_a_time} commands of {} in flight need more than {} of memory; reduce --depth, --queues or --io-bytes",
            report::bytes(options.io_bytes.into()),
            report::bytes(MOST_MEMORY)
        );
    }
    let negotiated = initiator.controller().queue(1);
    let digests = negotiated
        .and_then(|queue| queue.negotiated())
        .map(|agreed| agreed.digests)
        .ok_or_else(|| anyhow!("the target closed the connection at once; try again"))?;

    let before = Counted::of(&mut driver, &initiator)?;
    let memory = (options.io_bytes, at_a_time);
    let mut pipeline = Pipeline::of(&mut driver, &mut initiator, namespace, memory)?;
    let measured = measure(&mut pipeline, options, places)?;
    let counted = Counted::of(&mut driver, &initiator)?.since(&before);
    driver.disconnect(initiator)?;
    driver.end()?;

    let seconds = measured.took.as_secs_f64();
    let bytes = measured.commands * u64::from(options.io_bytes);
    let report = Report {
        io: if options.write { "write" } else { "read" },
        order: if options.sequential {
            "sequential"
        } else {
            "random"
        },
        io_bytes: options.io_bytes,
        queues,
        depth,
        digest: Digests {
            header: digests.header,
            data: digests.data,
        },
        tls: disk.peer.psk.is_some(),
        seconds,
        commands: measured.commands,
        bytes,
        iops: measured.commands as f64 / seconds,
        gbit_per_s: bytes as f64 * 8.0 / seconds / 1e9,
        latency_us: Times::of(&measured.latency),
        host_us_per_command: measured.processor.as_secs_f64() * 1e6
            / measured.commands.max(1) as f64,
        placed_share: share(counted.placed, counted.copied),
        checked_share: share(counted.checked_by_nic, counted.checked_by_host),
        made_share: share(counted.made_by_nic, counted.made_by_host),
    };
    match options.json {
        true => println!("{}", serde_json::to_string_pretty(&report)?),
        false => print(&report),
    }
    Ok(())
}

/// Where commands go.
struct Places {
    random: Pcg64Mcg,
    /// The next place, when they follow each other.
    next: Option<u64>,
    count: u64,
    len: u32,
}

impl Places {
    fn new(options: &Bench, size: u64, block_size: u32) -> Result<Self> {
        let len = options.io_bytes;
        if !len.is_multiple_of(block_size) {
            bail!("--io-bytes {len} is not a multiple of the namespace's block size, {block_size}");
        }
        let count = size / u64::from(len);
        if count == 0 {
            bail!("--io-bytes {len} is more than the namespace has, {size} bytes");
        }
        Ok(Self {
            random: Pcg64Mcg::seed_from_u64(options.disk.peer.seed()),
            next: options.sequential.then_some(0),
            count,
            len,
        })
    }

    /// The first byte of the next command.
    fn next(&mut self) -> u64 {
        let place = match &mut self.next {
            Some(next) => std::mem::replace(next, (*next + 1) % self.count),
            None => self.random.random_range(0..self.count),
        };
        place * u64::from(self.len)
    }
}

struct Measured {
    commands: u64,
    took: Duration,
    processor: Duration,
    /// In nanoseconds.
    latency: Histogram<u64>,
}

/// Keeps all queues full until the time is over, and then waits for what is under way.
fn measure(pipeline: &mut Pipeline<'_>, options: &Bench, mut places: Places) -> Result<Measured> {
    let mut latency = latency::histogram();
    let mut random = Pcg64Mcg::seed_from_u64(!options.disk.peer.seed());
    let mut idle = Vec::new();
    while let Some(mut block) = pipeline.take_block() {
        // SAFETY: the block was taken just now: no command names it.
        let bytes = unsafe { block.bytes_mut() };
        if options.write {
            random.fill_bytes(bytes);
        }
        idle.push(block);
    }
    let (mut commands, mut under_way) = (0, 0);
    let (started, processor) = (Instant::now(), processor_time());
    let until = started + Duration::from_secs(options.seconds);
    loop {
        while Instant::now() < until
            && let Some(block) = idle.pop()
        {
            let part = Part {
                offset: places.next(),
                len: options.io_bytes,
                block,
            };
            match options.write {
                true => pipeline.write(part)?,
                false => pipeline.read(part)?,
            }
            under_way += 1;
        }
        if under_way == 0 {
            break;
        }
        let (part, took) = pipeline.next_timed()?;
        latency.saturating_record(took.as_nanos() as u64);
        commands += 1;
        under_way -= 1;
        idle.push(part.block);
    }
    Ok(Measured {
        commands,
        took: started.elapsed(),
        processor: processor_time() - processor,
        latency,
    })
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

/// The part of both; `None` if there is nothing.
fn share(part: u64, rest: u64) -> Option<f64> {
    (part + rest > 0).then(|| part as f64 / (part + rest) as f64)
}

fn print(report: &Report) {
    println!(
        "{} {}s of {} bytes, {} queues of {} commands, {:.1} s",
        report.order, report.io, report.io_bytes, report.queues, report.depth, report.seconds
    );
    println!(
        "{:.0} commands/s, {:.2} Gbit/s, {:.1} µs of the host's processor per command",
        report.iops, report.gbit_per_s, report.host_us_per_command
    );
    println!("{}", report.latency_us.line());
    for (what, share) in [
        ("data placed by the NIC", report.placed_share),
        ("digests checked by the NIC", report.checked_share),
        ("PDUs with digests made by the NIC", report.made_share),
    ] {
        if let Some(share) = share {
            println!("{what}: {:.1} %", share * 100.0);
        }
    }
}

#[cfg(test)]
mod tests;
