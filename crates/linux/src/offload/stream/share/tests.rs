//! Whatever others hold, a stream whose peer acknowledges goes on.

use std::sync::atomic::Ordering::Relaxed;

use l5p::tls::{Algorithm, Version};
use proptest::prelude::*;
use wire::SeqNum;
use wire::ethernet::MacAddr;

use super::super::tests::records;
use super::super::{Retired, Stream};
use super::{RESERVE, Tenants};
use crate::Config;
use crate::state::{Arena, Found, MAX_PIECE, State, StateConfig};

const CIPHER: (Version, Algorithm) = (Version::Tls13, Algorithm::Aes128Gcm);

/// A stream, how much of its source it has taken, and how much of that its peer has.
struct Sender {
    owner: (u32, u32),
    tenant: u32,
    stream: Stream,
    taken: usize,
    acknowledged: usize,
}

struct World {
    state: State,
    all: u64,
    arena: Arena,
    tenants: Tenants,
    /// What every stream sends.
    source: Vec<u8>,
    senders: Vec<Sender>,
    opened: u32,
    retiring: Vec<Retired>,
}

fn arena(state: &State) -> (Arena, Vec<Found>) {
    let config = Config::default();
    let (host, _) = nic::ring::function(config.function(MacAddr([2, 0, 0, 0, 0, 1])));
    Arena::new(state, &host.regions).unwrap()
}

impl World {
    fn new(retain: u64, contents: &[usize]) -> World {
        let state = State::in_memory(StateConfig { flows: 1, retain }).unwrap();
        let (arena, _) = arena(&state);
        World {
            state,
            all: arena.free_bytes(),
            arena,
            tenants: Tenants::default(),
            source: records(contents),
            senders: Vec::new(),
            opened: 0,
            retiring: Vec::new(),
        }
    }

    /// A new stream of a tenant's, if there is memory for it.
    fn open(&mut self, tenant: u32) -> bool {
        let share = self.tenants.admit(tenant, self.arena.free_bytes());
        let Some(share) = share else {
            return false;
        };
        self.opened += 1;
        let owner = (self.opened, 1);
        self.senders.push(Sender {
            owner,
            tenant,
            stream: Stream::new(owner, CIPHER, SeqNum(0), 0, share),
            taken: 0,
            acknowledged: 0,
        });
        true
    }

    fn close(&mut self, at: usize) {
        let mut sender = self.senders.swap_remove(at);
        sender.stream.retire(&mut self.retiring);
    }

    /// So many bytes come, if there is memory for them; gives how many were taken.
    fn come(&mut self, at: usize, len: usize, in_block: bool) -> usize {
        let sender = &mut self.senders[at];
        let rest = &self.source[sender.taken..];
        let new = &rest[..len.min(rest.len())];
        let (arena, stream) = (&mut self.arena, &mut sender.stream);
        let may = in_block && new.len() < MAX_PIECE as usize && !new.is_empty();
        let spare = self.tenants.can_spare(MAX_PIECE.into(), arena.free_bytes());
        if may
            && spare
            && let Some(block) = arena.take_block()
        {
            assert!(arena.memory().0.write(arena.block(&block).offset, new));
            match stream.take_block(arena, block, 0, new).expect("records") {
                None => {
                    sender.taken += new.len();
                    return new.len();
                }
                Some(block) => arena.give_block(block),
            }
        }
        let taken = stream.append(arena, new).expect("records") as usize;
        sender.taken += taken;
        taken
    }

    fn acknowledge(&mut self, at: usize, share: usize) {
        let sender = &mut self.senders[at];
        sender.acknowledged += (sender.taken - sender.acknowledged) * share / 256;
        let una = SeqNum(sender.acknowledged as u32);
        sender.stream.acknowledge(una, &mut self.retiring);
    }

    fn reap(&mut self) {
        for piece in self.retiring.drain(..) {
            self.arena.release(piece.unit, piece.order);
        }
    }

    /// Another process has what is in the state.
    fn restart(&mut self) {
        let (mut arena, mut found) = arena(&self.state);
        found.sort_by_key(|piece| piece.start.0);
        let mut tenants = Tenants::default();
        let mut retired = Vec::new();
        for sender in &mut self.senders {
            let is_its = |piece: &Found| piece.owner == sender.owner;
            let (its, others): (Vec<Found>, _) = found.into_iter().partition(is_its);
            found = others;
            let (boundary, share) = (sender.stream.boundary(), tenants.readmit(sender.tenant));
            let mut stream =
                Stream::new(sender.owner, CIPHER, boundary.tcpsn, boundary.index, share);
            stream.adopt(&mut arena, &its, &mut retired);
            assert_eq!(stream.end(), sender.stream.end(), "nothing was lost");
            sender.acknowledged = boundary.tcpsn.0 as usize;
            sender.stream = stream;
        }
        let strays = found.iter().map(|piece| (piece.unit, piece.order));
        let retired = retired.iter().map(|piece| (piece.unit, piece.order));
        for (unit, order) in strays.chain(retired) {
            arena.release(unit, order);
        }
        (self.arena, self.tenants) = (arena, tenants);
        self.retiring.clear();
    }

    fn held(&self, tenant: u32) -> u64 {
        let its = self.senders.iter().filter(|sender| sender.tenant == tenant);
        its.map(|sender| sender.stream.share.held()).sum()
    }

    /// All streams but some take what they get.
    fn be_greedy(&mut self, but: std::ops::Range<usize>) {
        for at in (0..self.senders.len()).filter(|at| !but.contains(at)) {
            while self.come(at, 9000, false) > 0 {}
        }
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let pieces = self.retiring.iter();
        let retiring: u64 = pieces
            .map(|piece| u64::from(crate::state::capacity(piece.order)))
            .sum();
        let held = || self.senders.iter().map(|sender| sender.stream.share.held());
        let reserved: u64 = held().map(|held| RESERVE.saturating_sub(held)).sum();
        let held: u64 = held().sum();
        prop_assert_eq!(self.arena.free_bytes() + retiring + held, self.all);
        prop_assert_eq!(self.tenants.reserved.load(Relaxed), reserved);
        prop_assert!(self.arena.free_bytes() + retiring >= reserved);
        for sender in &self.senders {
            let of_tenant = |other: &&Sender| other.tenant == sender.tenant;
            let its = self.senders.iter().filter(of_tenant);
            let committed: u64 = its.map(|one| one.stream.share.held().max(RESERVE)).sum();
            let reported = sender.stream.share.tenant.committed.load(Relaxed);
            prop_assert_eq!(reported, committed);
        }
        Ok(())
    }
}

#[test]
fn a_stream_alone_gets_more_than_half() {
    let mut world = World::new(8 << 20, &[16_384; 600]);
    assert!(world.open(0));
    world.be_greedy(0..0);
    assert!(world.held(0) >= 4 << 20, "{}", world.held(0));
    assert!(world.held(0) <= 5 << 20, "{}", world.held(0));
}

#[test]
fn tenants_that_take_all_they_can_leave_room_for_the_next_one() {
    let mut world = World::new(64 << 20, &[16_384; 200]);
    for tenant in 0..4 {
        for _ in 0..20 {
            assert!(world.open(tenant), "tenant {tenant}");
        }
        world.be_greedy(0..0);
        let most = world.all * 3 / 4;
        assert!(world.held(tenant) <= most, "{}", world.held(tenant));
        assert!(world.held(tenant) >= 20 * (16 << 10));
    }
}

#[test]
fn streams_that_can_not_be_sure_of_a_record_are_refused() {
    let mut world = World::new(1 << 20, &[16_384; 10]);
    let mut most = 0;
    while world.open(1) {
        most += 1;
    }
    assert_eq!(most, world.all * 3 / 4 / RESERVE);
    assert!(!world.open(1));
    world.close(0);
    assert!(world.open(1), "there is room again");
    assert!(!world.open(1));
    assert!(world.open(2), "for another tenant");
}

/// Peers that acknowledge nothing hold what they get; each other connection of the same server has its record still.
#[test]
fn peers_that_never_acknowledge_keep_no_other_connection_from_sending() {
    let mut world = World::new(1 << 20, &[16_384; 20]);
    for _ in 0..40 {
        assert!(world.open(7));
    }
    world.be_greedy(39..40);
    while world.senders[39].taken < world.source.len() {
        assert!(world.come(39, usize::MAX, false) > 0);
        world.acknowledge(39, 256);
        world.reap();
        world.be_greedy(39..40);
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Open(u32),
    Close(usize),
    Come(usize, usize, bool),
    Acknowledge(usize, usize),
    Reap,
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let len = || prop_oneof![1usize..8, 1usize..3000, 1usize..65_000];
    let step = prop_oneof![
        2 => (0u32..5).prop_map(Step::Open),
        1 => any::<usize>().prop_map(Step::Close),
        8 => (any::<usize>(), len(), any::<bool>()).prop_map(|(at, len, block)| Step::Come(at, len, block)),
        3 => (any::<usize>(), 0usize..257).prop_map(|(at, share)| Step::Acknowledge(at, share)),
        2 => Just(Step::Reap),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..150)
}

proptest! {
    /// Tenants of which some are never acknowledged anything, from some moment on; what the others have to send is sent, although those take all they get,
    /// and although the NIC is restarted in between.
    #[test]
    fn what_is_acknowledged_goes_on(
        retain in prop_oneof![Just(64u64 << 10), Just(256 << 10), Just(1 << 20)],
        contents in prop::collection::vec(prop_oneof![0usize..3000, Just(16_384)], 10..60),
        steps in steps(),
        good in any::<usize>(),
    ) {
        let mut world = World::new(retain, &contents);
        prop_assert!(world.open(0));
        for step in steps {
            let count = world.senders.len();
            match step {
                Step::Open(tenant) => { world.open(tenant); }
                Step::Close(at) if count > 1 => world.close(at % count),
                Step::Close(_) => {}
                Step::Come(at, len, in_block) => { world.come(at % count, len, in_block); }
                Step::Acknowledge(at, share) => world.acknowledge(at % count, share),
                Step::Reap => world.reap(),
                Step::Restart => world.restart(),
            }
            world.check()?;
        }
        let good = good % world.senders.len();
        world.be_greedy(good..good + 1);
        while world.senders[good].taken < world.source.len() {
            world.acknowledge(good, 256);
            world.reap();
            world.check()?;
            prop_assert!(world.come(good, usize::MAX, false) > 0, "stuck");
            world.be_greedy(good..good + 1);
        }
    }
}
