//! Patterns in what a host receives, searched for by its NIC and by software: on good links and bad ones, alone and inside TLS, over a reset of
//! the NIC, what is found is what a search of the whole stream finds.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use host::pattern::{Match, PatternSet, Patterns, TABLES};
use host::{Offload, SocketError, SocketId};
use l5p::pattern::Scanner;
use port::impair::Impairment;
use proptest::prelude::*;
use sim::{Suite, World, WorldConfig};
use wire::SeqNum;

const TEXT: &str = "evil\nlive\n/a[bc]+d/\n/x[^\\n]*y/";

fn patterns() -> Arc<Patterns> {
    Arc::new(Patterns::parse(TEXT, TABLES).expect("good patterns"))
}

/// Bytes with something to find here and there, and now and then an expression that waits for its end for long.
fn content(len: usize, seed: u64) -> Vec<u8> {
    let words: [&[u8]; 6] = [b"evil", b"live", b"abcbd", b"x", b"y", b"\n"];
    let mut random = seed | 1;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random >> 11
    };
    let mut bytes: Vec<u8> = (0..len)
        .map(|_| match next() % 400 {
            0 => b'\n',
            letter => b'e' + (letter % 18) as u8,
        })
        .collect();
    for _ in 0..len / 3000 {
        let word = words[(next() % 6) as usize];
        let at = (next() as usize) % len;
        let end = (at + word.len()).min(len);
        bytes[at..end].copy_from_slice(&word[..end - at]);
    }
    bytes
}

fn in_software(bytes: &[u8]) -> Vec<Match> {
    let mut matches = Vec::new();
    let mut scanner = Scanner::new(patterns());
    scanner.take(SeqNum(0), bytes, bytes.len() as u32, &mut matches);
    matches
}

/// Loads the set into host 1's NIC.
fn load(world: &mut World) -> PatternSet {
    let set = world.stack(1).load_patterns(patterns());
    await_loaded(world, &set);
    set
}

/// Waits for host 1's NIC, which takes as long as it takes.
fn await_loaded(world: &mut World, set: &PatternSet) {
    while world.stack(1).has_loaded(set).is_none() {
        if !world.step() && !world.advance() {
            std::thread::sleep(Duration::from_millis(1));
            world.pass(Duration::from_millis(1));
        }
    }
    assert_eq!(world.stack(1).has_loaded(set), Some(true));
}

/// How content goes from host 0 to host 1.
#[derive(Clone, Copy, Debug)]
struct Run {
    seed: u64,
    len: usize,
    tls: bool,
    impairment: Impairment,
    /// Bytes that are read before the search begins.
    before: usize,
    /// Bytes of one read; 0 to read in place.
    read: usize,
    /// The NIC is reset when so much was read.
    reset_at: Option<usize>,
    by_nic: bool,
}

impl Default for Run {
    fn default() -> Self {
        Run {
            seed: 7,
            len: 2_000_000,
            tls: false,
            impairment: Impairment::default(),
            before: 0,
            read: 10_000,
            reset_at: None,
            by_nic: true,
        }
    }
}

impl Run {
    /// Sends everything; gives how many bytes the NIC has searched, and software.
    fn run(self) -> (u64, u64) {
        let mut world = World::new(WorldConfig {
            seed: self.seed,
            ..WorldConfig::default()
        });
        let set = load(&mut world);
        let (sender, receiver) = world.connect(4000, false);
        if self.tls {
            world.secure((sender, receiver), Suite::DEFAULT, Offload::Both);
        }
        world.impair(0, self.impairment);
        let bytes = content(self.len, self.seed);
        let (mut sent, mut read, mut found) = (0, Vec::new(), Vec::new());
        let mut scans = false;
        let mut reset_at = self.reset_at;
        while read.len() < bytes.len() {
            if !scans && read.len() >= self.before {
                let by_nic = self.by_nic;
                world.stack(1).start_scan(receiver, &set, by_nic).unwrap();
                scans = true;
            }
            if reset_at.is_some_and(|at| read.len() >= at) {
                reset_at = None;
                world.reset_nic(1);
            }
            sent += world.write(0, sender, &bytes[sent..]);
            // In front of the search no more is read than that.
            let most = if scans {
                usize::MAX
            } else {
                self.before - read.len()
            };
            let new = self.read(&mut world, receiver, most);
            read.extend(new);
            while let Some(one) = world.stack(1).take_match(receiver) {
                found.push(one);
            }
            assert!(world.step() || world.advance(), "the connection is stuck");
        }
        assert_eq!(read, bytes);
        assert_eq!(found, in_software(&bytes[self.before..]));
        let count = |name| world.counter(1, name);
        assert_eq!(count("PatternMatches"), found.len() as u64);
        let searched = (count("PatternBytesByNic"), count("PatternBytesBySoftware"));
        assert_eq!(searched.0 + searched.1, (bytes.len() - self.before) as u64);
        searched
    }

    /// Reads what has come.
    fn read(&self, world: &mut World, socket: SocketId, most: usize) -> Vec<u8> {
        let (now, mut read) = (world.now(), Vec::new());
        while read.len() < most {
            let new = if self.read == 0 && most == usize::MAX {
                let chunk = world.stack(1).read_chunk(now, socket);
                chunk.map(|chunk| chunk.expect("the stream goes on").to_vec())
            } else {
                let mut buffer = vec![0; self.read.max(100).min(most - read.len())];
                let len = world.stack(1).read(now, socket, &mut buffer);
                len.map(|len| buffer[..len].to_vec())
            };
            match new {
                Ok(new) => read.extend(new),
                Err(SocketError::WouldBlock) => break,
                Err(error) => panic!("{error}"),
            }
        }
        read
    }
}

#[test]
fn on_a_good_link_the_nic_searches_nearly_everything() {
    for tls in [false, true] {
        for read in [0, 10_000] {
            let run = Run {
                tls,
                read,
                ..Run::default()
            };
            let (by_nic, by_software) = run.run();
            assert!(by_software * 20 < by_nic, "{by_nic} {by_software} {run:?}");
        }
    }
}

#[test]
fn at_one_percent_of_loss_the_nic_still_searches_most() {
    for tls in [false, true] {
        let impairment = Impairment {
            loss: 0.01,
            ..Impairment::default()
        };
        let run = Run {
            tls,
            impairment,
            ..Run::default()
        };
        let (by_nic, by_software) = run.run();
        assert!(by_software < by_nic, "{by_nic} {by_software} {run:?}");
    }
}

#[test]
fn a_nic_takes_sets_that_are_loaded_at_once_and_others_in_their_place() {
    let mut world = World::new(WorldConfig::default());
    let sets: Vec<PatternSet> = (0..8)
        .map(|_| world.stack(1).load_patterns(patterns()))
        .collect();
    for set in &sets {
        await_loaded(&mut world, set);
    }
    for set in sets {
        world.stack(1).unload_patterns(set.clone());
        assert_eq!(world.stack(1).has_loaded(&set), Some(false));
        load(&mut world);
    }
}

#[test]
fn software_searches_alone_where_the_nic_is_not_to() {
    let run = Run {
        by_nic: false,
        ..Run::default()
    };
    assert_eq!(run.run().0, 0);
}

#[test]
fn behind_a_reset_of_the_nic_software_goes_on() {
    for tls in [false, true] {
        let run = Run {
            tls,
            reset_at: Some(500_000),
            ..Run::default()
        };
        let (by_nic, by_software) = run.run();
        assert!(by_nic > 0 && by_software > 500_000, "{run:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn what_is_found_is_what_software_finds(
        seed: u64,
        tls: bool,
        loss in prop_oneof![Just(0.0), 0.0..0.05],
        reorder in prop_oneof![Just(0.0), 0.0..0.2],
        duplicate in prop_oneof![Just(0.0), 0.0..0.05],
        before in prop_oneof![Just(0usize), 0..60_000usize],
        read in prop_oneof![Just(0usize), 1..40_000usize],
        reset_at in prop::option::weighted(0.2, 0..200_000usize),
    ) {
        let impairment = Impairment { loss, reorder, duplicate, ..Impairment::default() };
        let run = Run { seed, len: 300_000, tls, impairment, before, read, reset_at, by_nic: true };
        run.run();
    }
}

fn cases() -> u32 {
    let cases = std::env::var("LONGSHORE_CASES").ok();
    cases.map_or(48, |cases| cases.parse().expect("a number"))
}

/// Bytes in which there is something to find at many places, but not more than there can be notes on one packet.
fn sprinkled(len: usize, seed: u64) -> Vec<u8> {
    let words: [&[u8]; 8] = [b"evil", b"live", b"ev", b"il", b"x", b"y", b"\n", b"abcb"];
    let mut random = seed | 1;
    let mut bytes = Vec::new();
    while bytes.len() < len {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        bytes.extend_from_slice(words[(random >> 11) as usize % words.len()]);
        bytes.resize(bytes.len() + (random >> 32) as usize % 150, b'.');
    }
    bytes.truncate(len);
    bytes
}

/// A frame with this payload at an offset of the stream, behind the `last` frame of its sender.
fn forged(last: &[u8], offset: usize, payload: &[u8]) -> Vec<u8> {
    let parsed = wire::packet::parse(last).expect("a frame of TCP's");
    let mut frame = last[..parsed.payload_offset].to_vec();
    frame.extend_from_slice(payload);
    let ip_len = (frame.len() - parsed.l3_offset) as u16;
    frame[parsed.l3_offset + 2..][..2].copy_from_slice(&ip_len.to_be_bytes());
    let seq = parsed.tcp.seq + offset as u32;
    frame[parsed.l4_offset + 4..][..4].copy_from_slice(&seq.0.to_be_bytes());
    wire::ipv4::fill_checksum(&mut frame[parsed.l3_offset..parsed.l4_offset]);
    let (source, destination) = (parsed.flow.src.0, parsed.flow.dst.0);
    wire::tcp::fill_checksum(source, destination, &mut frame[parsed.l4_offset..]);
    frame
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    /// A peer that sends the same place of the stream with different bytes hides nothing: what is found is in what is read.
    #[test]
    fn pieces_that_contradict_one_another_hide_nothing(
        pieces in prop::collection::vec((0usize..30, 1usize..14, any::<u64>()), 4..30),
        reads in any::<u32>(),
        start in 0usize..8,
    ) {
        const LEN: usize = 44;
        let mut world = World::new(WorldConfig::default());
        let set = load(&mut world);
        let last = Rc::new(RefCell::new(Vec::new()));
        let seen = Rc::clone(&last);
        world.observe(move |node, frame| if node == 0 { *seen.borrow_mut() = frame.to_vec() });
        let (_, receiver) = world.connect(4000, false);
        let last = last.take();
        let rest = (0..LEN).step_by(11).map(|at| (at, 11, at as u64));
        let mut read = Vec::new();
        for (number, (at, len, seed)) in pieces.into_iter().chain(rest).enumerate() {
            if number == start {
                world.stack(1).start_scan(receiver, &set, true).unwrap();
                while world.step() {}
            }
            world.inject(0, &forged(&last, 100 * at, &sprinkled(100 * len, seed)));
            while world.step() {}
            if number >= start && reads >> (number % 32) & 1 == 1 {
                read.extend(Run::default().read(&mut world, receiver, usize::MAX));
            }
        }
        read.extend(Run::default().read(&mut world, receiver, usize::MAX));
        prop_assert_eq!(read.len(), 100 * LEN);
        let found: Vec<Match> = std::iter::from_fn(|| world.stack(1).take_match(receiver)).collect();
        prop_assert_eq!(found, in_software(&read));
    }
}
