//! Whatever Linux's TCP does, what leaves is what software would have made, or nothing.

use l5p::tls::{Algorithm, Version};
use proptest::prelude::*;

use super::program::{CIPHERS, Program, Stretch};
use super::rig::{PAIRS, cases, flow};

/// What happens next. Offsets are in 1/256 of what there is.
#[derive(Clone, Debug)]
pub enum Step {
    /// The program writes so many bytes more.
    Write(usize),
    /// Linux sends so many new bytes; they are lost before the NIC, or behind it.
    Send(usize, bool, bool),
    /// Linux sends something again, with new bytes behind it where it comes to those; with the source changed meanwhile.
    Again {
        from: u8,
        len: usize,
        lost: bool,
        changed: bool,
    },
    /// The peer acknowledges a part of what it has; Linux does not hear of it.
    Acknowledge(u8, bool),
    /// The program writes up to where other keys will hold, and the peer gets and acknowledges all of it.
    Drain,
    /// The NIC's process dies; so many segments come before the library is back.
    Restart(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1usize..100_000).prop_map(Step::Write),
        4 => (1usize..65_000, prop::bool::weighted(0.15), prop::bool::weighted(0.2))
            .prop_map(|(len, before, behind)| Step::Send(len, before, behind)),
        3 => (any::<u8>(), 1usize..65_000, prop::bool::weighted(0.2), prop::bool::weighted(0.3))
            .prop_map(|(from, len, lost, changed)| Step::Again { from, len, lost, changed }),
        3 => (any::<u8>(), prop::bool::weighted(0.2))
            .prop_map(|(part, lost)| Step::Acknowledge(part, lost)),
        1 => Just(Step::Drain),
        1 => (0u8..3).prop_map(Step::Restart),
    ]
}

fn stretches() -> impl Strategy<Value = Vec<Stretch>> {
    let records = prop_oneof![
        prop::collection::vec(0usize..300, 1..30),
        prop::collection::vec(0usize..16_384, 1..8),
        prop::collection::vec(Just(16_384usize), 1..10),
    ];
    let stretch = prop_oneof![
        4 => records.prop_map(Stretch::Records),
        1 => (1usize..5000).prop_map(Stretch::Plain),
    ];
    (1usize..3000, prop::collection::vec(stretch, 1..5)).prop_map(|(greeting, rest)| {
        let mut all = vec![Stretch::Plain(greeting)];
        for stretch in rest {
            // Two of them are one.
            if !matches!(
                (&stretch, all.last()),
                (Stretch::Plain(_), Some(Stretch::Plain(_)))
            ) {
                all.push(stretch);
            }
        }
        all
    })
}

/// A program, the size of its packets, and what happens.
#[derive(Clone, Debug)]
pub struct Case {
    pair: usize,
    cipher: (Version, Algorithm),
    isn: u32,
    stretches: Vec<Stretch>,
    retain: u64,
    mss: u16,
    steps: Vec<Step>,
}

/// Cases of all kinds.
pub fn case() -> impl Strategy<Value = Case> {
    (
        0usize..2,
        0usize..6,
        prop_oneof![
            any::<u32>(),
            (0u32..200_000).prop_map(|before| before.wrapping_neg())
        ],
        stretches(),
        prop_oneof![Just(1u64 << 20), Just(64 << 10)],
        500u16..1440,
        prop::collection::vec(step(), 0..60),
    )
        .prop_map(|(pair, cipher, isn, stretches, retain, mss, steps)| Case {
            pair,
            cipher: CIPHERS[cipher],
            isn,
            stretches,
            retain,
            mss,
            steps,
        })
}

impl Case {
    pub fn program(&self) -> Program {
        Program::new(
            flow(PAIRS[self.pair]),
            self.cipher,
            self.isn,
            &self.stretches,
            self.retain,
        )
    }
}

/// Runs a case's program to its end.
pub fn run(program: &mut Program, case: Case) -> Result<(), TestCaseError> {
    let mss = case.mss;
    for step in case.steps {
        match step {
            Step::Write(len) => {
                // As many keys as may be in use are: the library goes on when the peer has acknowledged more.
                let _ = program.write(program.written + len);
            }
            Step::Send(len, before, behind) => {
                let from = program.sent;
                let to = (from + len).min(program.written);
                if from < to {
                    program.send(from, to, mss, (before, behind));
                }
            }
            Step::Again {
                from,
                len,
                lost,
                changed,
            } => {
                let span = program.sent - program.acknowledged;
                let from = program.acknowledged + span * usize::from(from) / 256;
                let to = (from + len).min(program.written);
                if from < to {
                    let mut bytes = program.source[from..to].to_vec();
                    // What was never sent has not been read yet.
                    let old = (program.sent - from).min(bytes.len());
                    if changed && program.received() >= program.sent {
                        program.change(from, &mut bytes[..old]);
                    }
                    program.send_bytes(from, &bytes, mss, (false, lost));
                }
            }
            Step::Acknowledge(part, lost) => {
                let has = program.received();
                let before = program.acknowledged.min(has);
                let upto = before + (has - before) * (usize::from(part) + 1) / 256;
                program.acknowledge(upto, lost);
            }
            Step::Drain => {
                program.write_before_keys();
                while program.acknowledged < program.written {
                    let from = program.acknowledged;
                    program.send(
                        from,
                        program.written.min(from + 60_000),
                        mss,
                        (false, false),
                    );
                    let has = program.received();
                    if has == from {
                        // No memory for more.
                        break;
                    }
                    program.acknowledge(has, false);
                }
            }
            // Before there are keys no state is kept: they would be refused.
            Step::Restart(_) if program.function.connections() == 0 => {}
            Step::Restart(sends) => {
                program.restart();
                for _ in 0..sends {
                    let (from, to) = (program.acknowledged, program.sent);
                    let to = to.min(from + 60_000);
                    if from < to {
                        program.send(from, to, mss, (false, false));
                    }
                }
                prop_assert_eq!(program.resume(), Ok(()));
            }
        }
    }
    program.finish(mss).map_err(TestCaseError::fail)?;
    prop_assert_eq!(program.resets, (0, 0));
    prop_assert!(program.function.is_drained());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2000, ..cases(96) })]

    /// A stream of plain bytes and of records under several keys, with segments lost, repeated, merged and cut anywhere, acknowledgements that
    /// only the NIC has seen, a source that changes behind what was sent, and restarts: the peer gets what software makes, all of it,
    /// and nothing else.
    #[test]
    fn the_peer_gets_what_software_makes(case in case()) {
        run(&mut case.program(), case)?;
    }
}
