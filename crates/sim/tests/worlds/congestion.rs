//! Routers that mark packets (ECN), on paths that also lose and delay some, whether what they get is paced or not.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use host::Handoff;
use host::handoff::policy::Selection;
use nic::ToeConfig;
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use sim::{Fate, World, WorldConfig};
use tcp::EcnMode;
use testkit::frames;
use wire::tcp::Flags;
use wire::{Ecn, SeqNum};

/// What has been seen on the wires.
#[derive(Default)]
struct Seen {
    marked: Cell<u32>,
    echoes: Cell<u32>,
    reduced: Cell<u32>,
}

fn count(cell: &Cell<u32>, is_so: bool) {
    cell.set(cell.get() + u32::from(is_so));
}

/// A router that marks, loses and delays by a seed. RFC 3168 §6.1.5: what is sent again, and what has no payload, must not say that it
/// may be marked.
fn router(seed: u64, seen: Rc<Seen>) -> impl FnMut(usize, usize, &mut [u8]) -> Fate {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut sent: [Option<SeqNum>; 2] = [None; 2];
    let (loss, late, marks) = (
        rng.random_range(0.0..0.03),
        rng.random_range(0.0..0.01),
        rng.random_range(0.01..0.2),
    );
    move |from, _, frame| {
        let Ok(parsed) = wire::packet::parse(frame) else {
            return Fate::Pass;
        };
        let (tcp, len) = (parsed.tcp, parsed.payload_len);
        let (end, is_syn) = (tcp.seq + len, tcp.flags.contains(Flags::SYN));
        if tcp.ecn != Ecn::NotEct {
            assert!(len > 0 && !is_syn, "{tcp:?} says that it may be marked");
            let is_new = sent[from].is_none_or(|sent| tcp.seq.at_or_after(sent));
            assert!(is_new, "{tcp:?} was sent before");
        }
        if len > 0 {
            sent[from] = Some(sent[from].map_or(end, |sent| sent.max(end)));
        }
        count(&seen.echoes, tcp.flags.contains(Flags::ECE) && !is_syn);
        count(&seen.reduced, tcp.flags.contains(Flags::CWR) && !is_syn);
        if tcp.ecn == Ecn::Ect0 && rng.random_bool(marks) {
            frames::mark(frame, Ecn::Ce);
            count(&seen.marked, true);
        }
        match rng.random::<f64>() {
            chance if chance < loss => Fate::Drop,
            chance if chance < loss + late => {
                Fate::Late(Duration::from_millis(rng.random_range(1..400)))
            }
            _ => Fate::Pass,
        }
    }
}

/// Sends both ways over such a path; `hands_off`: the NICs run the connections.
fn exchange(seed: u64, hands_off: bool) {
    let mut config = WorldConfig {
        seed,
        ..WorldConfig::modest(2)
    };
    for node in &mut config.nodes {
        let tcp = &mut node.stack.tcp;
        tcp.timestamps = seed & 1 == 0;
        tcp.sack = seed & 6 != 0;
        tcp.pacing = seed.is_multiple_of(3);
        tcp.congestion = match seed & 8 {
            0 => tcp::Algorithm::Cubic,
            _ => tcp::Algorithm::NewReno,
        };
        if hands_off {
            node.stack.handoff = Handoff::new(Selection::Fcfs);
            node.nic.toe = ToeConfig::default();
            node.function.toe_connections = 64;
        }
    }
    config.nodes[0].stack.tcp.ecn = EcnMode::Ask;
    let mut world = World::new(config);
    let (a, b) = world.connect(1000, seed & 16 != 0);
    let seen = Rc::new(Seen::default());
    world.decide(router(seed, Rc::clone(&seen)));
    let data: Vec<u8> = (0..400_000u32).map(|n| (n % 251) as u8).collect();
    assert_eq!(world.transfer(0, a, b, &data), data, "seed {seed}");
    assert_eq!(world.transfer(1, b, a, &data), data, "seed {seed}");
    world.decide(|_, _, _| Fate::Pass);
    world.run_for(Duration::from_secs(5));
    let [marked, echoes, reduced] = [&seen.marked, &seen.echoes, &seen.reduced].map(Cell::get);
    assert!(
        marked > 0 && echoes > 0 && reduced > 0,
        "seed {seed}: {marked} {echoes} {reduced}"
    );
}

fn seeds() -> std::ops::Range<u64> {
    let count = std::env::var("SEEDS").ok();
    0..count.and_then(|count| count.parse().ok()).unwrap_or(32)
}

#[test]
fn marks_lower_the_window_and_lose_no_byte() {
    seeds().for_each(|seed| exchange(seed, false));
}

#[test]
fn marks_lower_the_window_of_connections_on_the_nic() {
    seeds().for_each(|seed| exchange(seed, true));
}
