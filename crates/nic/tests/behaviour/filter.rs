//! Which multicast frames a function receives.

use std::collections::BTreeSet;
use std::time::Instant;

use nic::ring::{
    ErrorCode, FunctionConfig, MulticastFilter, SLOT_WORDS, SendDescriptor, SendFlags,
};
use nic::{Features, FrameMeta, Nic};
use proptest::prelude::*;
use testkit::bare::{BareHost, drain, function_config, nic_config};
use testkit::fixtures::{HOST, PEER};
use wire::ethernet::MacAddr;

const SET_FILTER: u64 = 32;
const ALL_MULTICAST: u64 = 1 << 8;

fn group(number: u16) -> MacAddr {
    let [a, b] = number.to_be_bytes();
    MacAddr([0x33, 0x33, 0, 0, a, b])
}

/// A NIC and two hosts.
struct World {
    nic: Nic,
    now: Instant,
    hosts: [BareHost; 2],
}

impl World {
    fn new(features: Features) -> World {
        let mut nic = Nic::new(nic_config());
        let hosts = [HOST, PEER].map(|mac| {
            let config = FunctionConfig {
                mac,
                features,
                ..function_config()
            };
            BareHost::attach(&mut nic, config)
        });
        let now = Instant::now();
        World { nic, now, hosts }
    }

    fn work(&mut self) -> usize {
        for host in &mut self.hosts {
            host.refill();
            host.publish();
        }
        let sent = drain(&mut self.nic, self.now).len();
        self.nic.flush(self.now);
        sent
    }

    fn set(&mut self, host: usize, filter: &MulticastFilter) -> Vec<ErrorCode> {
        self.hosts[host].post(&SendDescriptor::SetFilter(filter));
        assert_eq!(self.work(), 0);
        self.hosts[host].codes()
    }

    /// A descriptor as a host might write it.
    fn set_raw(&mut self, host: usize, words: &[u64; SLOT_WORDS]) -> Vec<ErrorCode> {
        self.hosts[host].queues[0].send.post_raw(words).unwrap();
        assert_eq!(self.work(), 0);
        self.hosts[host].codes()
    }

    /// Which hosts receive a frame for this address, from the wire.
    fn receive(&mut self, to: MacAddr) -> [bool; 2] {
        let frame = [&to.0[..], &[4; 6], &[0x88, 0xb5], &[0; 46]].concat();
        self.work();
        self.nic
            .handle_frame(self.now, &frame, FrameMeta::default());
        self.found()
    }

    /// Which hosts receive one from the first, and whether the wire does.
    fn send(&mut self, to: MacAddr) -> ([bool; 2], bool) {
        let header = [&to.0[..], &HOST.0, &[0x88, 0xb5]].concat();
        self.hosts[0].post(&SendDescriptor::Send {
            header: &header,
            mss: 0,
            context: None,
            flags: SendFlags::NONE,
            payload: &[],
        });
        let sent = self.work() == 1;
        (self.found(), sent)
    }

    fn found(&mut self) -> [bool; 2] {
        self.nic.flush(self.now);
        self.hosts.each_mut().map(|host| !host.take().is_empty())
    }

    fn filtered(&self) -> [u64; 2] {
        let of = |host: &BareHost| self.nic.function_counters(host.id).unwrap().rx_filtered;
        self.hosts.each_ref().map(of)
    }
}

#[test]
fn at_first_and_after_a_reset_every_group_comes() {
    let mut world = World::new(Features::ALL);
    assert_eq!(world.receive(group(1)), [true; 2]);
    assert_eq!(world.set(0, &MulticastFilter::of(&[])), []);
    assert_eq!(world.receive(group(1)), [false, true]);
    let id = world.hosts[0].id;
    world.nic.reset_function(id);
    world.work();
    world.found();
    assert_eq!(world.receive(group(1)), [true; 2]);
    assert_eq!(world.filtered(), [1, 0]);
}

#[test]
fn a_host_receives_the_groups_that_it_names() {
    let mut world = World::new(Features::ALL);
    assert_eq!(
        world.set(1, &MulticastFilter::of(&[group(3), group(1)])),
        []
    );
    for (to, comes) in [(1, true), (2, false), (3, true)] {
        assert_eq!(world.receive(group(to)), [true, comes]);
        // The wire has every frame; the sender none of its own.
        assert_eq!(world.send(group(to)), ([false, comes], true));
    }
    assert_eq!(world.filtered(), [0, 2]);
    // Others in their place.
    assert_eq!(world.set(1, &MulticastFilter::of(&[group(2)])), []);
    assert_eq!(world.receive(group(1)), [true, false]);
    assert_eq!(world.receive(group(2)), [true, true]);
    assert_eq!(world.set(1, &MulticastFilter::ALL), []);
    assert_eq!(world.receive(group(9)), [true, true]);
    let counters = world.nic.counters();
    assert_eq!((counters.rx_filtered, counters.tx_errors), (3, 0));
}

#[test]
fn broadcasts_and_its_own_address_always_come_and_others_never() {
    for filter in [MulticastFilter::of(&[]), MulticastFilter::ALL] {
        let mut world = World::new(Features::ALL);
        world.set(0, &filter);
        assert_eq!(world.receive(MacAddr::BROADCAST), [true, true]);
        assert_eq!(world.receive(HOST), [true, false]);
        assert_eq!(world.receive(PEER), [false, true]);
        assert_eq!(world.receive(MacAddr([2; 6])), [false; 2]);
        assert_eq!(world.filtered(), [0, 0]);
    }
}

#[test]
fn more_groups_than_there_may_be_are_all() {
    let groups: Vec<MacAddr> = (0..29).map(group).collect();
    assert_eq!(MulticastFilter::of(&groups), MulticastFilter::ALL);
    assert_eq!(MulticastFilter::of(&[HOST]), MulticastFilter::ALL);
    let mut world = World::new(Features::ALL);
    assert_eq!(world.set(0, &MulticastFilter::of(&groups[..28])), []);
    assert_eq!(world.receive(group(27)), [true; 2]);
    assert_eq!(world.receive(group(28)), [false, true]);
}

#[test]
fn a_host_without_the_feature_has_no_filter() {
    let mut world = World::new(Features::ALL.without(Features::FILTER));
    let refused = world.set(0, &MulticastFilter::of(&[]));
    assert_eq!(refused, [ErrorCode::Unsupported]);
    assert_eq!(world.receive(group(1)), [true; 2]);
}

/// A slot with these groups, as the specification has it.
fn slot(head: u64, count: u32, addresses: &[MacAddr]) -> [u64; SLOT_WORDS] {
    let mut bytes = [0; SLOT_WORDS * 8];
    bytes[..8].copy_from_slice(&(SET_FILTER | head).to_le_bytes());
    bytes[8..12].copy_from_slice(&count.to_le_bytes());
    for (place, address) in bytes[16..].chunks_mut(6).zip(addresses) {
        place.copy_from_slice(&address.0);
    }
    let mut words = [0; SLOT_WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks(8)) {
        *word = u64::from_le_bytes(bytes.try_into().unwrap());
    }
    words
}

#[test]
fn a_filter_that_means_nothing_is_refused_and_the_one_of_before_holds() {
    let mut world = World::new(Features::ALL);
    assert_eq!(world.set_raw(0, &slot(0, 1, &[group(1)])), []);
    let many: Vec<MacAddr> = (0..28).map(group).collect();
    let mut reserved = slot(0, 1, &[group(2)]);
    reserved[23] = 1;
    for words in [
        // More than fit, and none to be seen.
        slot(0, 29, &many),
        slot(0, u32::MAX, &many),
        // No groups.
        slot(0, 1, &[PEER]),
        slot(0, 2, &[group(2), MacAddr::ZERO]),
        slot(0, 2, &[group(2)]),
        // Something behind them.
        slot(0, 1, &[group(2), group(3)]),
        slot(0, 0, &many),
        // All, and some.
        slot(ALL_MULTICAST, 1, &[group(2)]),
        slot(ALL_MULTICAST, 0, &[group(2)]),
        // Flags that there are not: nothing makes a function promiscuous.
        slot(2 << 8, 0, &[]),
        slot(ALL_MULTICAST | 4 << 8, 0, &[]),
        reserved,
    ] {
        assert_eq!(world.set_raw(0, &words), [ErrorCode::BadParameters]);
        assert_eq!(world.receive(group(1)), [true; 2]);
        assert_eq!(world.receive(group(2)), [false, true]);
        assert_eq!(world.receive(PEER), [false, true]);
    }
    // It has no slices.
    assert_eq!(
        world.set_raw(0, &slot(1 << 24, 0, &[])),
        [ErrorCode::BadLength]
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever a host writes: its own frames and broadcasts come, no one else's do, and groups as the specification says.
    #[test]
    fn whatever_is_written_no_foreign_frame_comes(
        flags in prop_oneof![3 => Just(0u64), 1 => Just(1), 1 => 0u64..4],
        count in prop_oneof![4 => 0u32..6, 1 => 24u32..32, 1 => any::<u32>()],
        groups in prop::collection::vec((0u16..8).prop_map(group), 0..28),
        extra in prop_oneof![9 => Just(None), 1 => any::<[u8; 6]>().prop_map(|bytes| Some(MacAddr(bytes)))],
    ) {
        let mut named: Vec<MacAddr> = groups;
        // Most are right.
        named.truncate(if count < 6 { count as usize } else { 28 });
        named.extend(extra.filter(|_| named.len() < 28));
        let mut world = World::new(Features::ALL);
        let errors = world.set_raw(0, &slot(flags << 8, count, &named));
        let is_taken = errors.is_empty();
        prop_assert!(is_taken || errors == [ErrorCode::BadParameters]);
        let wanted: BTreeSet<[u8; 6]> = named.iter().map(|it| it.0).collect();
        if is_taken {
            prop_assert!(flags < 2 && count <= 28);
            prop_assert!(flags == 0 || count == 0);
        }
        for number in 0..8 {
            let comes = !is_taken || flags == 1 || wanted.contains(&group(number).0);
            prop_assert_eq!(world.receive(group(number)), [comes, true]);
        }
        prop_assert_eq!(world.receive(MacAddr::BROADCAST), [true, true]);
        prop_assert_eq!(world.receive(HOST), [true, false]);
        prop_assert_eq!(world.receive(PEER), [false, true]);
        prop_assert_eq!(world.receive(MacAddr([2; 6])), [false, false]);
    }
}
