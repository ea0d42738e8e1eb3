//! Linux's TCP with rustls against our own stack, over a TAP in a network namespace of its own.
//!
//! Linux's host is one thread with the application, rustls and the kernel's TCP, on one core; the TAP, the NIC and our
//! host, on another core, are the other end of the wire, the same for every mode. What Linux takes is the thread's
//! processor time, user and system. Packets that come from the TAP are steered to the thread's core (RPS), so that TCP's
//! work on them is done there too; what of it is done while the thread sleeps is not in its time, to Linux's favour.

mod client;
mod peer;

use std::sync::mpsc;

use anyhow::Context as _;
use indicatif::ProgressBar;

use super::source::Source;
use super::{Case, Direction, Mode, Settings};
use crate::bench::cycles::{HostCycles, NicCycles, gbit_per_host_core};
use crate::bench::cycles_per_second;
use crate::bench::pcie::PcieBytes;
use crate::bench::tap::namespace;

/// What came of it.
pub struct Measured {
    /// Linux's rows.
    pub cases: Vec<Case>,
    /// Whether every byte was the right one.
    pub verified: bool,
}

/// Processor time of a round.
#[derive(Clone, Copy, Debug, Default)]
struct Time {
    /// In the application and rustls, in seconds.
    user: f64,
    /// In the kernel.
    system: f64,
}

/// Measures both directions. The namespace and the TAP in it go away with the threads that use them.
///
/// # Errors
/// When the namespace or the TAP can't be made, which needs CAP_SYS_ADMIN and CAP_NET_ADMIN, or a connection breaks.
pub fn measure(settings: &Settings, progress: &ProgressBar) -> anyhow::Result<Measured> {
    progress.set_message("Linux");
    let source = Source::new(settings.seed, settings.message_bytes as usize);
    let identity = sim::Identity::new();
    std::thread::scope(|scope| {
        let (give_tap, take_tap) = mpsc::sync_channel(1);
        let (ready, wait_ready) = mpsc::sync_channel(1);
        let linux = scope.spawn({
            let (source, identity) = (&source, &identity);
            move || {
                let tap = namespace::enter().and_then(|()| namespace::open_tap());
                give_tap.send(tap)?;
                wait_ready.recv().context("our host has ended")?;
                namespace::pin(1);
                namespace::steer_to(1);
                client::run(settings, source, identity)
            }
        });
        let tap = take_tap.recv().context("Linux's thread has ended")??;
        let affinity = namespace::pin(0);
        let served = peer::run(settings, tap, &source, &identity, &ready, || {
            linux.is_finished()
        });
        namespace::restore(affinity);
        drop(ready);
        let rounds = linux
            .join()
            .map_err(|_| anyhow::anyhow!("Linux's thread has panicked"))?;
        let sent_verified = served?;
        let rounds = rounds?;
        Ok(Measured {
            cases: vec![
                case(settings, Direction::Tx, &rounds.transmit),
                case(settings, Direction::Rx, &rounds.receive),
            ],
            verified: sent_verified && rounds.verified,
        })
    })
}

fn case(settings: &Settings, direction: Direction, rounds: &[Time]) -> Case {
    let bytes = settings.bytes;
    let per_byte = |seconds: f64| seconds * cycles_per_second() / bytes as f64;
    let mut sorted = rounds.to_vec();
    sorted.sort_by(|a, b| (a.user + a.system).total_cmp(&(b.user + b.system)));
    let median = sorted[sorted.len() / 2];
    let total = per_byte(median.user + median.system);
    Case {
        direction,
        mode: Mode::Linux,
        bytes,
        // The application's own part is a loop of one call; all that it does not spend in the kernel is rustls's.
        host_cycles_per_byte: HostCycles {
            l5: per_byte(median.user),
            tcp: per_byte(median.system),
            total,
            ..HostCycles::default()
        },
        nic_cycles_per_byte: NicCycles::default(),
        gbit_per_host_core: gbit_per_host_core(total),
        rounds: rounds
            .iter()
            .map(|time| per_byte(time.user + time.system))
            .collect(),
        pcie_bytes: PcieBytes::default(),
        records: None,
        resyncs: None,
        retransmitted_bytes: 0,
    }
}
