//! How long transactions take, with as many connections at once as were asked for.
//!
//! As there is no NIC in hardware here, the clock is made of two parts: while the server's host works, it goes on by the
//! time that the host has really taken; the link has a rate and a delay, and the NICs and the client keep up with it.

use std::time::Duration;

use hdrhistogram::Histogram;
use port::impair::Impairment;

use super::case::{Latency, Mode};
use super::settings::Settings;
use super::world::ShortWorld;
use crate::bench::clock::Undisturbed;
use crate::bench::cycles_per_second;

/// Bits per second of the link.
const RATE: u64 = 100_000_000_000;
/// The link's delay.
const DELAY: Duration = Duration::from_micros(1);
/// The least that the clock moves.
const TICK: Duration = Duration::from_nanos(100);
/// Transactions at most, the first quarter of which only warms up.
const TRANSACTIONS: u64 = 32_768;

/// Measures one mode. Answers whether every byte was right, too.
///
/// # Errors
/// When a connection fails.
pub fn measure(settings: &Settings, mode: Mode) -> anyhow::Result<(Latency, bool)> {
    let mut world = ShortWorld::new(settings, mode, TICK)?;
    world.impair(Impairment {
        rate: Some(RATE),
        delay: DELAY,
        queue: 16 << 20,
        ..Impairment::default()
    });
    let transactions = TRANSACTIONS.min(settings.transactions);
    let connections = transactions
        .div_ceil(settings.transactions_per_connection.into())
        .max(u64::from(settings.connections) * 4);
    run(&mut world, connections.div_ceil(4))?;
    world.client().latency().reset();
    run(&mut world, connections - connections.div_ceil(4))?;
    let latency = Latency::of(world.client().latency());
    Ok((latency, world.verified()))
}

fn run(world: &mut ShortWorld, connections: u64) -> anyhow::Result<()> {
    world.client().ask_for(connections);
    let mut undisturbed = Undisturbed::start();
    while !world.client().is_done() {
        undisturbed.step();
        let (mut moved, taken) = world.step_hosts()?;
        if moved {
            undisturbed.step();
            // Not what somebody else has had of the processor meanwhile.
            let took = Duration::from_secs_f64(taken as f64 / cycles_per_second());
            world.world.pass(took.min(undisturbed.last()));
        }
        moved |= world.world.step_wires();
        if !moved {
            anyhow::ensure!(world.world.advance(), "nothing is under way any more");
        }
    }
    Ok(())
}

impl Latency {
    /// From nanoseconds.
    pub fn of(nanos: &Histogram<u64>) -> Self {
        let at = |quantile| nanos.value_at_quantile(quantile) as f64 / 1e3;
        Self {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: nanos.max() as f64 / 1e3,
        }
    }
}
