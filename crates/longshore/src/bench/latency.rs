//! How long requests take, with as many connections at once as were asked for.
//!
//! As there is no NIC in hardware here, the clock is made of two parts: while the server's host works, it goes on by the
//! time that the host has really taken; the link has a rate and a delay, and the NICs and the client keep up with it.

use std::time::Duration;

use hdrhistogram::Histogram;
use port::impair::Impairment;
use serde::Serialize;
use sim::World;

use super::clock::{Undisturbed, cycles_per_second};
use super::hosts::{CLIENTS, Hosts, MEASURED};

/// The least that the clock moves.
pub const TICK: Duration = Duration::from_nanos(100);
/// Bits per second of the link.
const RATE: u64 = 100_000_000_000;
/// The link's delay.
const DELAY: Duration = Duration::from_micros(1);

/// Microseconds from a request to the end of its response, with as many connections at once as were asked for.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Latency {
    /// The median.
    pub p50: f64,
    /// The longest but for one of ten.
    pub p90: f64,
    /// The longest but for one of a hundred.
    pub p99: f64,
    /// The longest but for one of a thousand.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

/// A time as a histogram of latencies has it.
pub fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Room for times of up to an hour, in nanoseconds, to three digits. It does not grow: whatever is longer counts as an hour.
pub fn histogram() -> Histogram<u64> {
    const HOUR: u64 = 3_600_000_000_000;
    Histogram::new_with_bounds(1, HOUR, 3).expect("the bounds are in order")
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

/// Clients whose requests are timed, in a world whose clock takes in what the measured host takes.
pub trait Timed: Hosts {
    /// Has the clients make so many requests more, or open so many connections.
    fn ask_for(&mut self, count: u64);

    /// Nanoseconds from requests to responses.
    fn latency(&mut self) -> &mut Histogram<u64>;

    /// Whether every byte until now was the right one.
    fn verified(&self) -> bool;

    /// Times so many after others that warm up. Answers whether every byte was right, too.
    ///
    /// # Errors
    /// When a connection fails, or nothing moves any more.
    fn time(&mut self, warm_up: u64, timed: u64) -> anyhow::Result<(Latency, bool)> {
        set_link(self.world());
        self.ask_for(warm_up);
        run(self)?;
        self.latency().reset();
        self.ask_for(timed);
        run(self)?;
        Ok((Latency::of(self.latency()), self.verified()))
    }
}

/// Gives both directions of the link their rate and delay.
pub fn set_link(world: &mut World) {
    let link = Impairment {
        rate: Some(RATE),
        delay: DELAY,
        queue: 16 << 20,
        ..Impairment::default()
    };
    for node in [CLIENTS, MEASURED] {
        world.impair(node, link);
    }
}

/// Goes on until all is done.
fn run(hosts: &mut (impl Hosts + ?Sized)) -> anyhow::Result<()> {
    let mut undisturbed = Undisturbed::start();
    let mut was_idle = false;
    while !hosts.is_done() {
        undisturbed.step();
        let (mut moved, taken) = hosts.step_hosts()?;
        if moved {
            undisturbed.step();
            // Not what somebody else has had of the processor meanwhile.
            let took = Duration::from_secs_f64(taken as f64 / cycles_per_second());
            hosts.world().pass(took.min(undisturbed.last()));
        }
        moved |= hosts.world().step_wires();
        // A NIC may tell its host something without a frame that moves: the host is asked once more.
        if !moved && was_idle {
            anyhow::ensure!(hosts.world().advance(), "nothing is under way any more");
        }
        was_idle = !moved && !was_idle;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Latency, histogram};

    #[test]
    fn times_are_kept_in_microseconds_however_they_are_recorded() {
        let mut nanos = histogram();
        for micros in 1..=1000u64 {
            nanos.saturating_record(micros * 1000);
        }
        let latency = Latency::of(&nanos);
        assert!((latency.p50 - 500.0).abs() < 1.0, "{latency:?}");
        assert!((latency.max - 1000.0).abs() < 1.0, "{latency:?}");
    }
}
