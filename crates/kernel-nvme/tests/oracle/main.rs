//! The library against a target, over a NIC whose wire loses, repeats, reorders and forges packets: whatever happens, it reads what was written.

mod connection;
#[path = "../../../l5p/tests/nvme_target/lines.rs"]
#[allow(dead_code)]
mod lines;
#[path = "../../../l5p/tests/nvme_target/rig.rs"]
#[allow(dead_code)]
mod rig;
#[path = "../../../l5p/tests/nvme_target/targets.rs"]
#[allow(dead_code)]
mod targets;
#[path = "../../../l5p/tests/nvme_pair/wire_end.rs"]
mod wire_end;
mod world;

use std::time::{Duration, Instant};

use kernel_nvme::{
    Access, Block, BlockPool, Blocks, Config, Counters, Event, Initiator, Io, Options,
};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use wire::nvme::Digests;

use rig::{BLOCK, BLOCKS};
use world::{Impairment, World};

/// Machines of the target.
const MACHINES: usize = 1;
/// A test that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(60);

struct Host {
    initiator: Initiator,
    pool: BlockPool,
    /// What the namespace holds.
    disk: Vec<u8>,
    /// By the commands' places.
    under_way: Vec<Option<(Block, Io)>>,
    until: Instant,
}

impl Host {
    fn new(world: &World, nic: bool, digests: Digests) -> Host {
        let now = Instant::now();
        let config = Config {
            io_queues: 2,
            depth: 8,
            digests,
            setup_timeout: TIMEOUT,
            keep_alive: Duration::ZERO,
            ..Config::new(rig::subsystem(), rig::host(), [5; 16])
        };
        let options = Options {
            nic: nic.then(|| world.control.clone()),
            map_threshold: 1024,
            memory: 16 << 20,
            ..Options::new(world.address)
        };
        let initiator = Initiator::new(now, config, options).unwrap();
        let mut host = Host {
            pool: initiator.blocks(128 << 10, 16).unwrap(),
            initiator,
            disk: vec![0; BLOCK * BLOCKS as usize],
            under_way: Vec::new(),
            until: now + TIMEOUT,
        };
        loop {
            host.turn();
            match host.initiator.poll_event() {
                None => {}
                Some(Event::Ready) => return host,
                Some(other) => panic!("{other:?}"),
            }
        }
    }

    fn turn(&mut self) {
        let now = Instant::now();
        assert!(
            now < self.until,
            "it goes on for ever: {:?}",
            self.initiator.counters()
        );
        if !self.initiator.poll(now) {
            let until = now + Duration::from_millis(20);
            self.initiator.wait(now, Some(until), &[]).unwrap();
        }
    }

    /// Reads and writes at random, several at a time.
    fn exchange(&mut self, random: &mut Pcg64Mcg, commands: usize) {
        let (mut begun, mut done) = (0, 0);
        while done < commands {
            while begun < commands && begun - done < 12 {
                self.begin(random);
                begun += 1;
            }
            self.turn();
            while let Some(completion) = self.initiator.poll_completion() {
                done += 1;
                assert!(completion.status.is_success(), "{:?}", completion.status);
                let (block, io) = self.under_way[completion.id.index()].take().unwrap();
                if let Io::Read { blocks, .. } = io {
                    // SAFETY: the command is complete.
                    let read = unsafe { block.bytes() };
                    let from = blocks.start as usize * BLOCK;
                    let wanted = &self.disk[from..from + blocks.count as usize * BLOCK];
                    let wrong = wanted.iter().zip(read).position(|(a, b)| a != b);
                    assert_eq!(wrong, None, "{io:?}: {:?}", self.initiator.counters());
                }
            }
            if let Some(event) = self.initiator.poll_event() {
                panic!("{event:?}");
            }
        }
    }

    fn begin(&mut self, random: &mut Pcg64Mcg) {
        let mut block = self.pool.take().expect("there is one for each command");
        let count = random.random_range(1..=200);
        // Each write to a place of its own, and reads only where no write is under way.
        let writes = self
            .under_way
            .iter()
            .flatten()
            .filter_map(|(_, io)| match io {
                Io::Write { blocks, .. } => Some(*blocks),
                _ => None,
            });
        let reads = self.under_way.iter().flatten().map(|(_, io)| match io {
            Io::Write { blocks, .. } | Io::Read { blocks, .. } => *blocks,
            other => panic!("{other:?}"),
        });
        let (writes, all): (Vec<Blocks>, Vec<Blocks>) = (writes.collect(), reads.collect());
        let blocks = |random: &mut Pcg64Mcg| Blocks {
            start: random.random_range(0..BLOCKS - 200),
            count,
        };
        let overlaps = |a: &Blocks, b: &Blocks| {
            a.start < b.start + u64::from(b.count) && b.start < a.start + u64::from(a.count)
        };
        let is_write = random.random_bool(0.3);
        let others = if is_write { &all } else { &writes };
        let blocks = loop {
            let blocks = blocks(random);
            if !others.iter().any(|other| overlaps(other, &blocks)) {
                break blocks;
            }
        };
        let len = count as usize * BLOCK;
        // SAFETY: the block was taken just now.
        let bytes = unsafe { block.bytes_mut() };
        let io = if is_write {
            random.fill(&mut bytes[..len]);
            let from = blocks.start as usize * BLOCK;
            self.disk[from..from + len].copy_from_slice(&bytes[..len]);
            Io::Write { blocks, fua: false }
        } else {
            bytes[..len].fill(0xee);
            Io::Read { blocks, fua: false }
        };
        let access = Access { nsid: 1, io };
        let id = self
            .initiator
            .submit(access, block.slice(len as u32))
            .unwrap();
        if self.under_way.len() <= id.index() {
            self.under_way.resize_with(id.index() + 1, || None);
        }
        self.under_way[id.index()] = Some((block, io));
    }

    /// Ends it; gives what was counted.
    fn end(mut self) -> Counters {
        self.initiator.shutdown(Instant::now());
        loop {
            self.turn();
            if let Some(Event::Ended(reason)) = self.initiator.poll_event() {
                assert_eq!(reason, None);
                return *self.initiator.counters();
            }
        }
    }
}

fn run(
    seed: u64,
    impairment: Impairment,
    nic: bool,
    digests: Digests,
    commands: usize,
) -> Counters {
    let world = World::start(seed, impairment);
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut host = Host::new(&world, nic, digests);
    host.exchange(&mut random, commands);
    host.end()
}

const DATA: Digests = Digests {
    header: false,
    data: true,
};

#[test]
fn without_a_nic_all_is_copied() {
    let counted = run(1, Impairment::default(), false, Digests::BOTH, 60);
    assert_eq!((counted.rx_bytes_placed, counted.rx_digests_device), (0, 0));
    assert!(
        counted.rx_bytes_copied > 0 && counted.rx_digests_sw > 0,
        "{counted:?}"
    );
}

#[test]
fn on_a_good_wire_the_nic_does_it_all() {
    for digests in [Digests::NONE, DATA, Digests::BOTH] {
        let counted = run(2, Impairment::default(), true, digests, 200);
        assert_eq!(counted.connections_device, 2, "{counted:?}");
        // Short reads are copied, and what came along with a header.
        assert!(
            counted.rx_bytes_placed > 20 * counted.rx_bytes_copied,
            "{counted:?}"
        );
        // Of the admin queue, which the NIC does not look at.
        assert!(counted.rx_digests_sw < 20, "{counted:?}");
        assert_eq!(counted.rx_digests_device > 100, digests.data);
        assert_eq!((counted.buffers_tainted, counted.digest_errors), (0, 0));
    }
}

/// Reads that the NIC dies with are done by software, and later ones by the NIC that has come.
#[test]
fn connections_go_on_over_restarts_and_are_helped_with_again() {
    for (seed, digests) in [(3, Digests::NONE), (4, DATA), (5, Digests::BOTH)] {
        let world = World::start(seed, Impairment::default());
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut host = Host::new(&world, true, digests);
        host.exchange(&mut random, 40);
        for restarts in 1..=2 {
            world.restart();
            while host.initiator.counters().connections_resumed < 2 * restarts {
                host.exchange(&mut random, 4);
            }
            let before = *host.initiator.counters();
            host.exchange(&mut random, 200);
            let after = host.initiator.counters();
            let placed = after.rx_bytes_placed - before.rx_bytes_placed;
            let copied = after.rx_bytes_copied - before.rx_bytes_copied;
            assert!(placed > copied, "{after:?}");
        }
        let counted = host.end();
        assert_eq!((counted.connections_device, counted.digest_errors), (6, 0));
    }
}

#[test]
fn what_somebody_else_sends_is_never_read() {
    let impairment = Impairment {
        forge: 0.01,
        ..Impairment::default()
    };
    for seed in 10..14 {
        let counted = run(seed, impairment, true, Digests::NONE, 100);
        assert!(counted.rx_bytes_placed > 0, "{counted:?}");
    }
}

fn cases() -> ProptestConfig {
    let cases = std::env::var("LONGSHORE_CASES");
    let cases = cases.ok().and_then(|cases| cases.parse().ok());
    ProptestConfig {
        cases: cases.unwrap_or(16),
        // The world's thread does not run the same way twice.
        failure_persistence: None,
        max_shrink_iters: 0,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases())]

    /// Whatever the wire does, what is read is what was written.
    #[test]
    fn what_is_read_is_what_was_written(
        seed in any::<u64>(),
        loss in 0.0..0.05,
        reorder in 0.0..0.1,
        duplicate in 0.0..0.05,
        forge in prop_oneof![Just(0.0), 0.0..0.02],
        restarts in any::<bool>(),
        digests in prop_oneof![Just(Digests::NONE), Just(DATA), Just(Digests::BOTH)],
    ) {
        let impairment = Impairment { loss, reorder, duplicate, forge };
        let world = World::start(seed, impairment);
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut host = Host::new(&world, true, digests);
        host.exchange(&mut random, 30);
        if restarts {
            world.restart();
        }
        host.exchange(&mut random, 30);
        let counted = host.end();
        prop_assert!(counted.connections_device >= 2);
        prop_assert_eq!(counted.digest_errors, 0);
    }
}
