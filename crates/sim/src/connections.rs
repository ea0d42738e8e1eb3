//! Whole connections, many at a time, driven through NICs that help with them (AccelTCP) and through hosts alone: both must give the
//! same bytes and the same ends.
//!
//! Some go from host 0 straight to host 1; others go to a relay on host 1 that connects back to host 0 and splices the two when
//! it can. What a connection must come to follows from what its two sides do, whatever the link does to their packets.

mod actor;
mod outcome;
mod relay;
mod run;
mod scenario;
mod setup;
mod watch;

pub use actor::End;
pub use outcome::{Outcome, Stalled};
pub use run::run;
pub use scenario::{Door, Life, Operation, Reads, Relayed, Scenario, Script, TcpOptions};
pub use watch::Wrong;

use host::{Accel, CloseReason};

use crate::Lending;
use crate::oracle::Side;

/// What each host asks of its NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Help {
    /// By node.
    pub accel: [Accel; 2],
    /// By node: what it hands off.
    pub lending: [Option<Lending>; 2],
}

impl Help {
    /// Nothing.
    pub const NONE: Self = Self {
        accel: [Accel::NONE; 2],
        lending: [None; 2],
    };

    /// All of setup, teardown and relaying.
    pub const ALL: Self = Self {
        accel: [Accel::ALL; 2],
        lending: [None; 2],
    };
}

/// How a run went wrong.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Mismatch {
    /// It did not come to its end.
    #[error("{help:?}: {stalled}")]
    Stalled {
        /// What the NICs did.
        help: Help,
        /// How far it came.
        stalled: Stalled,
    },
    /// What one side read is not what the other side wrote.
    #[error(
        "{help:?}: life {life}: {side:?} read {read} bytes of {written}, the same up to byte {same}; {ends}"
    )]
    Bytes {
        /// What the NICs did.
        help: Help,
        /// Which connection.
        life: usize,
        /// The side that read.
        side: Side,
        /// Bytes it read.
        read: usize,
        /// Bytes that were written.
        written: usize,
        /// First byte that differs.
        same: usize,
        /// How the client's side ended, and the server's.
        ends: String,
    },
    /// A side did not end as it must.
    #[error("{help:?}: life {life}: {side:?} ended with {end}, {why}")]
    End {
        /// What the NICs did.
        help: Help,
        /// Which connection.
        life: usize,
        /// The side.
        side: Side,
        /// Its end.
        end: String,
        /// What is wrong with that.
        why: &'static str,
    },
    /// A frame that nobody may send.
    #[error("{help:?}: {wrong}")]
    Wire {
        /// What the NICs did.
        help: Help,
        /// What is wrong.
        wrong: Wrong,
    },
    /// Memory of a stack is in use after all its connections have ended, besides what the NIC has to receive into.
    #[error("{help:?}: host {node} has {in_use} blocks in use at the end")]
    Memory {
        /// What the NICs did.
        help: Help,
        /// Which host.
        node: usize,
        /// Blocks.
        in_use: u32,
    },
    /// Servers were given connections twice: what had been over was opened again.
    #[error("{help:?}: {again} connections were accepted twice")]
    Again {
        /// What the NICs did.
        help: Help,
        /// How many.
        again: u32,
    },
    /// A splice has forwarded other numbers of bytes than went through it.
    #[error(
        "{help:?}: life {life}: the splice told of {told:?} bytes, and {through:?} went through it"
    )]
    Report {
        /// What the NICs did.
        help: Help,
        /// Which connection.
        life: usize,
        /// Bytes that it told of, from the client and from the server.
        told: [u64; 2],
        /// Bytes that the relay did not see.
        through: [u64; 2],
    },
}

/// Drives a scenario with each of `helps` and without, and compares each with what must come of it, and with the other. Gives
/// the outcomes, that of the hosts alone first.
///
/// # Errors
/// At the first difference.
pub fn compare(scenario: &Scenario, helps: &[Help]) -> Result<Vec<Outcome>, Mismatch> {
    let streams = scenario.streams();
    let mut outcomes = vec![check(scenario, &streams, Help::NONE)?];
    for &help in helps {
        outcomes.push(check(scenario, &streams, help)?);
    }
    Ok(outcomes)
}

fn check(scenario: &Scenario, streams: &[[Vec<u8>; 2]], help: Help) -> Result<Outcome, Mismatch> {
    let outcome =
        run(scenario, streams, help).map_err(|stalled| Mismatch::Stalled { help, stalled })?;
    if let Some(node) = (0..2).find(|node| outcome.in_use[*node] > setup::RECEIVE_BUFFERS) {
        let in_use = outcome.in_use[node];
        return Err(Mismatch::Memory { help, node, in_use });
    }
    if outcome.again > 0 {
        let again = outcome.again;
        return Err(Mismatch::Again { help, again });
    }
    if let Some(wrong) = outcome.wrong.clone() {
        return Err(Mismatch::Wire { help, wrong });
    }
    for (number, streams) in streams.iter().enumerate() {
        check_life(scenario, streams, &outcome, help, number)?;
    }
    Ok(outcome)
}

/// Checks what came of one connection.
fn check_life(
    scenario: &Scenario,
    streams: &[Vec<u8>; 2],
    outcome: &Outcome,
    help: Help,
    number: usize,
) -> Result<(), Mismatch> {
    let life = &scenario.lives[number];
    let ends = &outcome.ends[number];
    let is_cut_off = ends.iter().any(End::is_cut_off) || outcome.lost.contains(&number);
    let is_whole = life.is_gentle() && !is_cut_off;
    for side in Side::BOTH {
        let end = &ends[side as usize];
        let written = &streams[side.other() as usize];
        check_bytes(end, written, is_whole).map_err(|same| Mismatch::Bytes {
            help,
            life: number,
            side,
            read: end.received.len(),
            written: written.len(),
            same,
            ends: format!(
                "client: {}, server: {}; resets: {:?}; hosts: {:?}",
                ends[0],
                ends[1],
                outcome.resets,
                [0, 1].map(|node| outcome.of_acceleration(node)),
            ),
        })?;
        let why = match &end.closed {
            _ if !is_whole => None,
            Some(CloseReason::Graceful) | None if end.eof || !life.reads_end(side) => None,
            Some(CloseReason::Graceful) | None => Some("but has not read to the end"),
            Some(_) => Some("though both sides were done in order"),
        };
        if let Some(why) = why {
            return Err(Mismatch::End {
                help,
                life: number,
                side,
                end: end.to_string(),
                why,
            });
        }
    }
    match outcome.splices[number] {
        Some((told, through)) if is_whole && told != through => Err(Mismatch::Report {
            help,
            life: number,
            told,
            through,
        }),
        _ => Ok(()),
    }
}

/// What was read must be the beginning of what was written, and all of it if `whole`. The first byte that is wrong, else.
fn check_bytes(end: &End, written: &[u8], whole: bool) -> Result<(), usize> {
    let read = &end.received;
    let is_part = read.len() <= written.len() && read[..] == written[..read.len()];
    if is_part && (!whole || read.len() == written.len() || end.never_read) {
        return Ok(());
    }
    Err(read.iter().zip(written).take_while(|(a, b)| a == b).count())
}
