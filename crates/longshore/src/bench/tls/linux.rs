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
use super::{Case, Counted, Direction, Mode, Settings, Side};
use crate::bench::case::{Round, Unit};
use crate::bench::cycles::Taken;
use crate::bench::cycles_per_second;
use crate::bench::tap::namespace;

/// Processor time of a round.
#[derive(Clone, Copy, Debug, Default)]
struct Time {
    /// In the application and rustls, in seconds.
    user: f64,
    /// In the kernel.
    system: f64,
}

/// Measures both directions. Answers Linux's rows, and whether every byte was the right one. The namespace and the TAP in it go away with the threads that use them.
///
/// # Errors
/// When the namespace or the TAP can't be made, which needs CAP_SYS_ADMIN and CAP_NET_ADMIN, or a connection breaks.
pub fn measure(settings: &Settings, progress: &ProgressBar) -> anyhow::Result<(Vec<Case>, bool)> {
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
        let cases = vec![
            case(settings, Direction::Tx, &rounds.transmit),
            case(settings, Direction::Rx, &rounds.receive),
        ];
        Ok((cases, sent_verified && rounds.verified))
    })
}

fn case(settings: &Settings, direction: Direction, rounds: &[Time]) -> Case {
    let mode = Mode::Linux;
    let cycles = |seconds: f64| (seconds * cycles_per_second()) as u64;
    let round = |time: &Time| {
        // The application's own part is a loop of one call; all that it does not spend in the kernel is rustls's.
        let (l5, tcp) = (cycles(time.user), cycles(time.system));
        Round {
            count: settings.bytes,
            taken: Taken {
                host: l5 + tcp,
                l5,
                tcp,
                ..Taken::default()
            },
            counted: Counted::default(),
            verified: true,
        }
    };
    let rounds = rounds.iter().map(round).collect();
    Case::median(Unit::BYTE, Side { direction, mode }, rounds)
}
