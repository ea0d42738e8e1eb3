//! One list of operations, driven through TLS offload and through plain software: both must give the same bytes and
//! the same ends.

mod endpoint;
mod payload;
mod run;
mod scenario;
mod watch;

pub use payload::Plant;
pub use run::{End, Outcome, Stalled, run};
pub use scenario::{Family, Keys, Operation, Reads, Scenario, Side};

use host::Offload;

use crate::Lending;

/// What the NICs do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Help {
    /// Of TLS, on both sides.
    pub offload: Offload,
    /// By node: what it hands off.
    pub lending: [Option<Lending>; 2],
}

impl From<Offload> for Help {
    fn from(offload: Offload) -> Self {
        Self {
            offload,
            lending: [None; 2],
        }
    }
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
        "{help:?}: {side:?} read {read} bytes of {written}, the same up to byte {same}; {ends}"
    )]
    Bytes {
        /// What the NICs did.
        help: Help,
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
    /// A side ended differently with and without offload.
    #[error("{side:?} ended with {offloaded} when offloaded, and with {software} in software")]
    Ends {
        /// The side.
        side: Side,
        /// Its end with offload.
        offloaded: String,
        /// Its end without.
        software: String,
    },
    /// Plaintext of an offloaded flow stood in a frame.
    #[error("{help:?}: plaintext {leak:02x?} on the wire in frame {frame}, sent by {side:?}")]
    Leak {
        /// What the NICs did.
        help: Help,
        /// Who sent it.
        side: Side,
        /// The frame's number.
        frame: u64,
        /// The plaintext found.
        leak: [u8; 8],
    },
    /// A retransmission carried other bytes than the first transmission: a counter was used twice.
    #[error(
        "{help:?}: frame {frame}, sent by {side:?}, gives other bytes for sequence numbers sent before"
    )]
    Changed {
        /// What the NICs did.
        help: Help,
        /// Who sent it.
        side: Side,
        /// The frame's number.
        frame: u64,
    },
}

/// Drives a scenario with each of `helps` and without, and compares each with the other and with what was written.
/// Gives the outcomes, the one in software first.
///
/// # Errors
/// At the first difference.
pub fn compare(
    scenario: &Scenario,
    helps: &[impl Into<Help> + Copy],
) -> Result<Vec<Outcome>, Mismatch> {
    let streams = payload::streams(scenario);
    let software = check(scenario, &streams, Offload::None.into())?;
    let mut outcomes = vec![software];
    for &help in helps {
        let outcome = check(scenario, &streams, help.into())?;
        let is_cut_off = outcome.ends.iter().chain(&outcomes[0].ends);
        let is_cut_off = is_cut_off.into_iter().any(End::is_cut_off);
        for side in Side::BOTH {
            let (offloaded, software) = (
                &outcome.ends[side as usize],
                &outcomes[0].ends[side as usize],
            );
            if is_cut_off {
                continue;
            }
            if offloaded.closed != software.closed || offloaded.eof != software.eof {
                return Err(Mismatch::Ends {
                    side,
                    offloaded: offloaded.to_string(),
                    software: software.to_string(),
                });
            }
        }
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

fn check(scenario: &Scenario, streams: &[Vec<u8>; 2], help: Help) -> Result<Outcome, Mismatch> {
    let outcome =
        run(scenario, streams, help).map_err(|stalled| Mismatch::Stalled { help, stalled })?;
    if let Some((side, frame, leak)) = outcome.leak {
        return Err(Mismatch::Leak {
            help,
            side,
            frame,
            leak: leak.block,
        });
    }
    if let Some((side, frame)) = outcome.changed {
        return Err(Mismatch::Changed { help, side, frame });
    }
    for side in Side::BOTH {
        let (read, written) = (
            &outcome.ends[side as usize].received,
            &streams[side.other() as usize],
        );
        // One that the network has cut off gave a part of the stream, and nothing else.
        let cut_off = outcome.ends.iter().any(End::is_cut_off);
        let written = if cut_off {
            &written[..written.len().min(read.len())]
        } else {
            &written[..]
        };
        if read != written {
            let same = read.iter().zip(written).take_while(|(a, b)| a == b).count();
            return Err(Mismatch::Bytes {
                help,
                side,
                read: read.len(),
                written: written.len(),
                same,
                ends: format!("client: {}, server: {}", outcome.ends[0], outcome.ends[1]),
            });
        }
    }
    Ok(outcome)
}
