//! What handing a connection off to the NIC, and taking it back, costs the host.

use anyhow::Context as _;
use host::Holder;
use serde::Serialize;

use super::world::HandoffWorld;
use crate::bench::cycles_per_second;

/// Times that all connections are taken back and handed off again.
const TIMES: usize = 5;

/// Host time of moving one connection: all that the server's host does from the call to the NIC's answer, with nothing else going on.
/// Medians.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Moves {
    /// Connections that were moved each time.
    pub connections: u64,
    /// Microseconds of the host for a handoff.
    pub handoff_us: f64,
    /// Microseconds of the host for a restore.
    pub restore_us: f64,
    /// Cycles of the NIC for a handoff.
    pub handoff_nic_cycles: f64,
    /// Cycles of the NIC for a restore.
    pub restore_nic_cycles: f64,
}

/// Takes all connections back that the NIC has, and hands them off again, several times.
///
/// # Errors
/// When one of them stays where it is.
pub fn measure(world: &mut HandoffWorld) -> anyhow::Result<Moves> {
    let held = world.held_by(Holder::Nic);
    if held.is_empty() {
        return Ok(Moves::default());
    }
    let count = held.len() as f64;
    let (mut handoffs, mut restores) = (Vec::new(), Vec::new());
    for _ in 0..TIMES {
        let back = world
            .hand(&held, Holder::Host, |stack, now, id| {
                stack.restore(now, id)?;
                Ok(())
            })
            .context("restore")?;
        restores.push(back);
        let off = world
            .hand(&held, Holder::Nic, |stack, now, id| {
                Ok(stack.hand_off(now, id)?)
            })
            .context("handoff")?;
        handoffs.push(off);
    }
    let each = |cycles: u64| cycles as f64 / count;
    let micros = |cycles: u64| each(cycles) * 1e6 / cycles_per_second();
    let median = |taken: &mut Vec<crate::bench::Taken>| {
        taken.sort_by_key(|taken| taken.host);
        taken[taken.len() / 2]
    };
    let (handoff, restore) = (median(&mut handoffs), median(&mut restores));
    Ok(Moves {
        connections: held.len() as u64,
        handoff_us: micros(handoff.host),
        restore_us: micros(restore.host),
        handoff_nic_cycles: each(handoff.nic_transmit + handoff.nic_receive),
        restore_nic_cycles: each(restore.nic_transmit + restore.nic_receive),
    })
}
