//! Latency with as many connections at once as were asked for.

use super::case::Mode;
use super::settings::Settings;
use super::world::ShortWorld;
use crate::bench::latency::{Latency, TICK, run, set_link};

/// Transactions at most, the first quarter of which only warms up.
const TRANSACTIONS: u64 = 32_768;

/// Measures one mode. Answers whether every byte was right, too.
///
/// # Errors
/// When a connection fails.
pub fn measure(settings: &Settings, mode: Mode) -> anyhow::Result<(Latency, bool)> {
    let mut world = ShortWorld::new(settings, mode, TICK)?;
    set_link(&mut world.world);
    let transactions = TRANSACTIONS.min(settings.transactions);
    let connections = transactions
        .div_ceil(settings.transactions_per_connection.into())
        .max(u64::from(settings.connections) * 4);
    world.client().ask_for(connections.div_ceil(4));
    run(&mut world)?;
    world.client().latency().reset();
    world
        .client()
        .ask_for(connections - connections.div_ceil(4));
    run(&mut world)?;
    let latency = Latency::of(world.client().latency());
    Ok((latency, world.verified()))
}
