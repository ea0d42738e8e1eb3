//! Any commands, completed by the stores in any order, with PDUs of all connections in any order, over damage and broken
//! connections: what is read is what was written.

use std::collections::BTreeMap;
use std::time::Duration;

use l5p::nvme::initiator::{CommandId, Config};
use proptest::prelude::*;
use wire::nvme::Digests;
use wire::nvme::command::{Io, Status};

use crate::pair::{Pair, blocks, config, read_io, write_io};
use crate::rig::{BLOCK, pattern};

/// Regions of the namespace, of each of which one command is in flight at most.
const REGIONS: usize = 16;
/// Blocks of a region.
const REGION: u64 = 200;

#[derive(Clone, Copy, Debug)]
enum Kind {
    Read,
    Write,
    Zeroes,
    Compare,
}

#[derive(Clone, Copy, Debug)]
struct Wish {
    kind: Kind,
    region: usize,
    start: u64,
    blocks: usize,
    seed: u8,
}

fn wish() -> impl Strategy<Value = Wish> {
    let kind = prop_oneof![
        Just(Kind::Read),
        Just(Kind::Write),
        Just(Kind::Zeroes),
        Just(Kind::Compare)
    ];
    let size = prop_oneof![1usize..20, 1usize..150];
    (kind, 0..REGIONS, 0u64..50, size, any::<u8>()).prop_map(
        |(kind, region, start, blocks, seed)| Wish {
            kind,
            region,
            start,
            blocks,
            seed,
        },
    )
}

#[derive(Clone, Debug)]
struct Plan {
    wishes: Vec<Wish>,
    order: Vec<u16>,
    digests: Digests,
    max_r2ts: u32,
    memory_waits: bool,
    /// Of 256 PDUs with data, so many are damaged.
    damage: u8,
    /// Steps after which a connection breaks.
    cuts: Vec<(u16, u16)>,
}

fn plan() -> impl Strategy<Value = Plan> {
    let digests = prop_oneof![Just(Digests::NONE), Just(Digests::BOTH)];
    let damage = prop_oneof![Just(0u8), 0u8..40];
    let cuts = prop_oneof![
        Just(Vec::new()),
        prop::collection::vec((1u16..400, 0u16..3), 0..3)
    ];
    (
        prop::collection::vec(wish(), 1..60),
        prop::collection::vec(any::<u16>(), 64..256),
        digests,
        1u32..4,
        any::<bool>(),
        damage,
        cuts,
    )
        .prop_map(
            |(wishes, order, digests, max_r2ts, memory_waits, damage, cuts)| Plan {
                wishes,
                order,
                digests,
                max_r2ts,
                memory_waits,
                damage,
                cuts,
            },
        )
}

/// A command in flight, and what must come of it.
struct Pending {
    wish: Wish,
    expected: Status,
    data: Vec<u8>,
}

struct Run {
    pair: Pair,
    /// What the namespace must hold.
    model: Vec<u8>,
    pending: BTreeMap<usize, (CommandId, Pending)>,
    busy: [bool; REGIONS],
}

impl Run {
    fn submit(&mut self, wish: Wish) {
        let start = wish.region as u64 * REGION + wish.start;
        let len = wish.blocks * BLOCK;
        let range = start as usize * BLOCK..start as usize * BLOCK + len;
        let held = self.model[range.clone()].to_vec();
        let mut expected = Status::SUCCESS;
        let (io, memory) = match wish.kind {
            Kind::Read => (read_io(start, len), vec![!held[0]; len]),
            Kind::Write => {
                let data = pattern(len, wish.seed);
                self.model[range].copy_from_slice(&data);
                (write_io(start, len), data)
            }
            Kind::Zeroes => {
                self.model[range].fill(0);
                let zeroes = Io::WriteZeroes {
                    blocks: blocks(start, len),
                    fua: false,
                    deallocate: wish.seed.is_multiple_of(2),
                };
                (zeroes, Vec::new())
            }
            Kind::Compare => {
                let mut data = held.clone();
                if wish.seed.is_multiple_of(2) {
                    data[len - 1] ^= 1;
                    expected = Status::COMPARE_FAILURE;
                }
                let compare = Io::Compare {
                    blocks: blocks(start, len),
                    fua: false,
                };
                (compare, data)
            }
        };
        let id = self.pair.submit(1, io, memory);
        self.busy[wish.region] = true;
        let pending = Pending {
            wish,
            expected,
            data: held,
        };
        self.pending.insert(id.index(), (id, pending));
    }

    fn take_completions(&mut self) {
        for done in self.pair.completions() {
            let (id, pending) = self
                .pending
                .remove(&done.id.index())
                .expect("it is in flight");
            assert_eq!(done.id, id);
            assert!(done.status.is(pending.expected), "{}", done.status);
            let memory = self.pair.memory.remove(&id.index()).expect("it was given");
            if let Kind::Read = pending.wish.kind {
                assert!(memory == pending.data);
            }
            self.busy[pending.wish.region] = false;
        }
    }
}

fn run(plan: Plan) {
    let pair = Pair::ready(Config {
        digests: plan.digests,
        max_r2ts: plan.max_r2ts,
        retries: 200,
        ..config()
    });
    let model = pair.rig.stores[0].clone();
    let mut run = Run {
        pair,
        model,
        pending: BTreeMap::new(),
        busy: [false; REGIONS],
    };
    let mut order = plan.order.clone().into_iter().cycle();
    run.pair
        .choose_by(move |of| usize::from(order.next().unwrap_or(0)) % of);
    let mut rolls = plan.order.clone().into_iter().cycle();
    let damage = plan.damage;
    run.pair.damage = Box::new(move || {
        rolls
            .next()
            .is_some_and(|roll| (roll >> 8) < u16::from(damage))
    });
    run.pair.naps = true;
    run.pair.rig.at_once = false;
    run.pair.rig.has_memory = !plan.memory_waits;

    let mut wishes = plan.wishes.into_iter().peekable();
    let mut cuts = plan.cuts;
    let mut steps = 0u16;
    loop {
        while let Some(wish) = wishes.next_if(|wish| !run.busy[wish.region]) {
            run.submit(wish);
        }
        if run.pending.is_empty() {
            break;
        }
        steps = steps.saturating_add(1);
        if let Some(at) = cuts.iter().position(|(after, _)| *after == steps) {
            // What the stores have taken on is done before the host is back: it is refused until then.
            run.pair.cut(cuts.swap_remove(at).1);
        }
        let progress = run.pair.step();
        run.take_completions();
        if !progress && !run.pair.host.is_ready() {
            run.pair.pass(Duration::from_secs(1));
            run.take_completions();
        }
    }
    assert!(run.pair.rig.stores[0] == run.model);
    assert!(run.pair.refused.is_empty());
    assert_eq!(run.pair.host.outstanding(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn what_is_read_is_what_was_written(plan in plan()) {
        run(plan);
    }
}
