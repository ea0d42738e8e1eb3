//! The latency of single reads.
//!
//! What is asked is what a NIC in hardware would give, on a machine that has none, and less cores than hosts and NICs. So
//! the clock is made of two parts: while a host works, it goes on by the time that the host has really taken; the link has
//! a rate and a delay, and the NICs keep up with it. What the software NICs take is counted apart, in `one_thread_us`.

use std::time::Duration;

use hdrhistogram::Histogram;
use host::read_cycles;
use sim::World;

use super::case::{Io, Latency, Mode, Stage};
use super::load::{self, Load, Pass};
use super::memory::{ChunkOrder, Memory};
use super::settings::{Settings, Workload};
use super::world::{DiskWorld, HOST, Protocol, SERVER};
use crate::bench::cycles_per_second;
use crate::bench::latency::{self, TICK, set_link};

/// Bytes of the reads.
const SIZES: [u32; 4] = [4 << 10, 16 << 10, 64 << 10, 256 << 10];
/// Reads of each size in each mode, of which the first half only warms up.
const READS: usize = 400;
/// Reads of a mode before the next one has its turn.
const TURN: usize = 20;

/// Measures every stage with and without TLS, in turns.
///
/// # Errors
/// When a command fails.
pub fn measure<P: Protocol>(settings: &Settings<P>) -> anyhow::Result<Vec<Latency>> {
    let digest = settings.digest();
    let mut latencies = Vec::new();
    for tls in [false, true] {
        if settings.tls && !tls || tls && !P::TLS {
            continue;
        }
        let modes: Vec<Mode> = Mode::stages(Io::Read, digest, tls).collect();
        for io_bytes in SIZES {
            let mut workload = settings.workload.clone();
            (workload.io_bytes, workload.depth) = (io_bytes, 1);
            latencies.extend(of_size::<P>(&workload, &modes)?);
        }
    }
    Ok(latencies)
}

/// What reads of one mode took.
struct Samples {
    latency: Histogram<u64>,
    host: Histogram<u64>,
    one_thread: Histogram<u64>,
}

fn of_size<P: Protocol>(settings: &Workload, modes: &[Mode]) -> anyhow::Result<Vec<Latency>> {
    let mut world = DiskWorld::<P>::new(settings, modes, TICK)?;
    let stack = world.world.stack(HOST);
    let (bytes, chunk) = (settings.working_set, settings.io_bytes);
    let memory = Memory::new(stack, bytes, chunk, settings.seed)?;
    let mut order = ChunkOrder::new(settings.seed, memory.chunks());
    let fill = Load {
        pass: Pass::Write,
        commands: u64::from(memory.chunks()),
        depth: 1,
    };
    load::run(&mut world, 0, &memory, &mut order, fill)?;
    set_link(&mut world.world);
    let mut samples = Vec::new();
    for _ in modes {
        samples.push(Samples {
            latency: latency::histogram(),
            host: latency::histogram(),
            one_thread: latency::histogram(),
        });
    }
    for number in 0..READS / TURN {
        for (client, samples) in samples.iter_mut().enumerate() {
            for _ in 0..TURN {
                let read = one(&mut world, client, &memory, &mut order)?;
                if number >= READS / TURN / 2 {
                    samples.latency.record(read.latency.as_nanos() as u64)?;
                    samples.host.record(nanos(read.host))?;
                    samples.one_thread.record(nanos(read.all))?;
                }
            }
        }
    }
    let micros = |histogram: &Histogram<u64>, quantile: f64| {
        histogram.value_at_quantile(quantile) as f64 / 1e3
    };
    let software = samples.first().map(|samples| {
        let latency = micros(&samples.latency, 0.5);
        (latency, micros(&samples.one_thread, 0.5))
    });
    let latencies = modes.iter().zip(&samples).map(|(mode, samples)| {
        debug_assert!(modes[0].stage == Stage::Software);
        let (median_us, one_thread_us) = (
            micros(&samples.latency, 0.5),
            micros(&samples.one_thread, 0.5),
        );
        let (software, software_one_thread) = software.unwrap_or((median_us, one_thread_us));
        Latency {
            mode: *mode,
            io_bytes: settings.io_bytes,
            median_us,
            p99_us: micros(&samples.latency, 0.99),
            host_us: micros(&samples.host, 0.5),
            one_thread_us,
            vs_software: median_us / software,
            one_thread_vs_software: one_thread_us / software_one_thread,
        }
    });
    Ok(latencies.collect())
}

/// What one read took.
struct Read {
    /// On the clock.
    latency: Duration,
    /// Cycles of the client's host.
    host: u64,
    /// Cycles of both hosts and both NICs.
    all: u64,
}

fn one<P: Protocol>(
    world: &mut DiskWorld<P>,
    client: usize,
    memory: &Memory,
    order: &mut ChunkOrder,
) -> anyhow::Result<Read> {
    let (chunk, slot) = order.next(false, |_| true).unwrap_or((0, 0));
    let began = world.world.now();
    let nics = nic_cycles(&world.world);
    let (mut host, mut server) = (0, 0);
    let mut submitted = false;
    loop {
        let start = read_cycles();
        if !std::mem::replace(&mut submitted, true) {
            world.submit(client, Pass::Read, chunk, memory.slice(slot))?;
        }
        let mut moved = world.poll_client(client);
        let client_done = read_cycles();
        let done = world.poll_done(client)?;
        moved |= world.poll_server();
        let server_done = read_cycles();
        let inside = &mut world.world;
        let stacks = [HOST, SERVER].map(|node| inside.cycles(node).host);
        moved |= inside.step_hosts();
        let after = [HOST, SERVER].map(|node| inside.cycles(node).host);
        if moved {
            let one = client_done - start + after[HOST] - stacks[HOST];
            let other = server_done - client_done + after[SERVER] - stacks[SERVER];
            host += one;
            server += other;
            inside.pass(Duration::from_nanos(nanos(one + other)));
        }
        if done.is_some() {
            break;
        }
        moved |= inside.step_wires();
        if !moved {
            anyhow::ensure!(world.wait(client), "a read is stuck");
        }
    }
    anyhow::ensure!(
        memory.holds(slot, chunk),
        "a read gave other bytes than were written"
    );
    let latency = world.world.now() - began;
    let all = host + server + nic_cycles(&world.world) - nics;
    world.settle(client);
    Ok(Read { latency, host, all })
}

fn nic_cycles(world: &World) -> u64 {
    let of = |node| {
        let cycles = world.cycles(node);
        cycles.nic_receive + cycles.nic_transmit
    };
    of(HOST) + of(SERVER)
}

fn nanos(cycles: u64) -> u64 {
    (cycles as f64 / cycles_per_second() * 1e9) as u64
}
