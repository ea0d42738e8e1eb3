//! How fast a disk is.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail};
use hdrhistogram::Histogram;
use host::disk::Client as _;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

use super::{Action, Bench, Disk, Driver, Geometry, Named, Part, Pipeline, Shares};
use crate::bench::clock::processor_time;
use crate::bench::latency::{self, Latency};
use crate::report;

/// Memory of all commands in flight, at most.
const MOST_MEMORY: u64 = 1 << 30;

/// What was measured.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    io: &'static str,
    order: &'static str,
    io_bytes: u32,
    seconds: f64,
    commands: u64,
    bytes: u64,
    iops: f64,
    gbit_per_s: f64,
    /// From submission to completion, microseconds.
    latency_us: Times,
    /// Processor time of the host's thread, microseconds. The NIC's is left out unless it has no thread of its own.
    host_us_per_command: f64,
}

/// The spread of times, in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Times {
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

/// Whether commands of this length fit, so many at a time.
///
/// # Errors
/// When the server does not take them, or they need too much memory.
pub(crate) fn check(options: &Bench, at_a_time: u32, most: u32) -> Result<()> {
    if options.io_bytes > most {
        bail!(
            "the server takes at most {} per command; reduce --io-bytes",
            report::bytes(most.into())
        );
    }
    if u64::from(at_a_time) * u64::from(options.io_bytes) > MOST_MEMORY {
        bail!(
            "{at_a_time} commands of {} in flight need more than {} of memory; reduce --depth, --queues or --io-bytes",
            report::bytes(options.io_bytes.into()),
            report::bytes(MOST_MEMORY)
        );
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
    fn new<D: Disk>(options: &Bench, geometry: Geometry, seed: u64) -> Result<Self> {
        let (len, noun) = (options.io_bytes, D::NOUN);
        let Geometry {
            size, block_size, ..
        } = geometry;
        if !len.is_multiple_of(block_size) {
            bail!("--io-bytes {len} is not a multiple of the {noun}'s block size, {block_size}");
        }
        let count = size / u64::from(len);
        if count == 0 {
            bail!("--io-bytes {len} is more than the {noun} has, {size} bytes");
        }
        Ok(Self {
            random: Pcg64Mcg::seed_from_u64(seed),
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
///
/// # Errors
/// When the disk can't be used so, or a command fails.
pub(crate) fn run<D: Disk>(disk: &mut D, options: &Bench, seed: u64) -> Result<Figures> {
    let geometry = disk.geometry();
    if options.write && geometry.is_read_only {
        bail!("{} is read-only", disk.name());
    }
    let places = Places::new::<D>(options, geometry, seed)?;
    let measured = measure(disk, options, places, seed)?;
    let seconds = measured.took.as_secs_f64();
    let bytes = measured.commands * u64::from(options.io_bytes);
    Ok(Figures {
        io: if options.write { "write" } else { "read" },
        order: match options.sequential {
            true => "sequential",
            false => "random",
        },
        io_bytes: options.io_bytes,
        seconds,
        commands: measured.commands,
        bytes,
        iops: measured.commands as f64 / seconds,
        gbit_per_s: bytes as f64 * 8.0 / seconds / 1e9,
        latency_us: Times::of(&measured.latency),
        host_us_per_command: measured.processor.as_secs_f64() * 1e6
            / measured.commands.max(1) as f64,
    })
}

fn measure(
    disk: &mut impl Disk,
    options: &Bench,
    mut places: Places,
    seed: u64,
) -> Result<Measured> {
    let mut latency = latency::histogram();
    let mut random = Pcg64Mcg::seed_from_u64(!seed);
    let mut idle = Vec::new();
    while let Some(mut block) = disk.take_block() {
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
            let action = match options.write {
                true => Action::Write,
                false => Action::Read,
            };
            disk.submit(action, part)?;
            under_way += 1;
        }
        if under_way == 0 {
            break;
        }
        let (part, took) = disk.next_done()?;
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

/// What was measured of a disk on a stack of ours.
#[derive(Debug, Serialize)]
pub(crate) struct Report<M> {
    #[serde(flatten)]
    figures: Figures,
    /// What was in flight, and how the two sides talk.
    #[serde(flatten)]
    manner: M,
    #[serde(flatten)]
    shares: Shares,
}

impl<M: Serialize> Report<M> {
    pub(crate) fn new(figures: Figures, manner: M, shares: Shares) -> Self {
        Self {
            figures,
            manner,
            shares,
        }
    }

    /// As `options` say, for the terminal or as JSON; `at_a_time` says what was in flight.
    ///
    /// # Errors
    /// When it can't be written as JSON.
    pub(crate) fn print(&self, options: &Bench, at_a_time: &str) -> Result<()> {
        if options.json {
            outln!("{}", serde_json::to_string_pretty(self)?);
            return Ok(());
        }
        let figures = &self.figures;
        outln!(
            "{} {}s of {} bytes, {at_a_time}, {:.1} s",
            figures.order,
            figures.io,
            figures.io_bytes,
            figures.seconds
        );
        outln!(
            "{:.0} commands/s, {:.2} Gbit/s, {:.1} µs of the host's processor per command",
            figures.iops,
            figures.gbit_per_s,
            figures.host_us_per_command
        );
        outln!("{}", figures.latency_us.line());
        for (what, share) in self.shares.lines() {
            if let Some(share) = share {
                outln!("{what}: {:.1} %", share * 100.0);
            }
        }
        Ok(())
    }
}

/// Measures a disk, and prints what came of it. `manner` says how the two sides talk, and whether data has digests.
///
/// # Errors
/// As [`run`].
pub(crate) fn remote<N: Named, M: Serialize>(
    disk: &N,
    options: &Bench,
    manner: impl FnOnce(&N::Client) -> Result<(M, bool)>,
) -> Result<()> {
    let mut driver = Driver::new(disk.wire())?;
    let at = disk.connect(&mut driver)?;
    let seed = disk.wire().line.seed;
    let client = driver.client(at);
    let (manner, has_digest) = manner(client)?;
    let (disk, depth) = (client.geometry(), u32::from(client.depth()));
    let disk = disk.ok_or_else(|| anyhow!("the connection ended at once"))?;
    check(options, depth, disk.max_request)?;
    let before = driver.counted();
    let (figures, counted) = driver.with(|driver| {
        let mut pipeline = Pipeline::of(driver, at, disk, (options.io_bytes, depth))?;
        let figures = run(&mut pipeline, options, seed)?;
        Ok((figures, driver.borrow_mut().counted() - before))
    })?;
    let report = Report::new(figures, manner, counted.shares(has_digest));
    report.print(options, &format!("{depth} at a time"))
}

#[cfg(test)]
mod tests;
