//! One list of operations, driven through TLS offload and through plain software: both must give the same bytes and
//! the same ends.

mod endpoint;
mod payload;
mod run;
mod scenario;

pub use payload::Plant;
pub use run::{End, Outcome, Stalled, run};
pub use scenario::{Family, Keys, Operation, Reads, Scenario, Side};

use host::Offload;

/// How a run went wrong.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Mismatch {
    /// It did not come to its end.
    #[error("{offload:?}: {stalled}")]
    Stalled {
        /// What was offloaded.
        offload: Offload,
        /// How far it came.
        stalled: Stalled,
    },
    /// What one side read is not what the other side wrote.
    #[error("{offload:?}: {side:?} read {read} bytes of {written}, the same up to byte {same}")]
    Bytes {
        /// What was offloaded.
        offload: Offload,
        /// The side that read.
        side: Side,
        /// Bytes it read.
        read: usize,
        /// Bytes that were written.
        written: usize,
        /// First byte that differs.
        same: usize,
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
    #[error("{offload:?}: plaintext {leak:02x?} on the wire in frame {frame}, sent by {side:?}")]
    Leak {
        /// What was offloaded.
        offload: Offload,
        /// Who sent it.
        side: Side,
        /// The frame's number.
        frame: u64,
        /// The plaintext found.
        leak: [u8; 8],
    },
    /// A retransmission carried other bytes than the first transmission: a counter was used twice.
    #[error(
        "{offload:?}: frame {frame}, sent by {side:?}, gives other bytes for sequence numbers sent before"
    )]
    Changed {
        /// What was offloaded.
        offload: Offload,
        /// Who sent it.
        side: Side,
        /// The frame's number.
        frame: u64,
    },
}

/// Drives a scenario with each of `offloads` and without, and compares each with the other and with what was written.
/// Gives the outcomes, the one in software first.
///
/// # Errors
/// At the first difference.
pub fn compare(scenario: &Scenario, offloads: &[Offload]) -> Result<Vec<Outcome>, Mismatch> {
    let streams = payload::streams(scenario);
    let software = check(scenario, &streams, Offload::None)?;
    let mut outcomes = vec![software];
    for &offload in offloads {
        let outcome = check(scenario, &streams, offload)?;
        for side in Side::BOTH {
            let (offloaded, software) = (
                &outcome.ends[side as usize],
                &outcomes[0].ends[side as usize],
            );
            if offloaded.is_cut_off() || software.is_cut_off() {
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

fn check(
    scenario: &Scenario,
    streams: &[Vec<u8>; 2],
    offload: Offload,
) -> Result<Outcome, Mismatch> {
    let outcome = run(scenario, streams, offload)
        .map_err(|stalled| Mismatch::Stalled { offload, stalled })?;
    if let Some((side, frame, leak)) = outcome.leak {
        return Err(Mismatch::Leak {
            offload,
            side,
            frame,
            leak: leak.block,
        });
    }
    if let Some((side, frame)) = outcome.changed {
        return Err(Mismatch::Changed {
            offload,
            side,
            frame,
        });
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
                offload,
                side,
                read: read.len(),
                written: written.len(),
                same,
            });
        }
    }
    Ok(outcome)
}
