use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wire::ethernet::MacAddr;

use super::*;
use crate::Meta;
use crate::memory::{End, LinkConfig, link};

/// NICs with one address each, and the far ends of their wires.
struct Rig {
    addresses: Addresses,
    nics: Vec<Bridged<End>>,
    far: Vec<End>,
}

impl Rig {
    fn new(nics: usize) -> Rig {
        let config = LinkConfig {
            eventfd: true,
            ..LinkConfig::for_mtu(1500)
        };
        let (far, near) = (0..nics).map(|_| link(config)).unzip();
        let of = (0..nics).map(|nic| (address(nic), nic));
        let addresses = Addresses::new(nics, of).unwrap();
        (0..nics).for_each(|nic| addresses.set_present(address(nic), true));
        Rig {
            nics: bridge(addresses.clone(), near).unwrap(),
            addresses,
            far,
        }
    }

    /// Has a NIC send these.
    fn send(&mut self, nic: usize, frames: &[Vec<u8>]) -> usize {
        let mut source = Lent {
            frames,
            at: 0,
            split: 10,
        };
        let now = Instant::now();
        self.nics[nic].transmit_parts(now, &mut source).unwrap()
    }

    /// What has come to a NIC, and what is at the far end of its wire.
    fn came(&mut self, nic: usize) -> [Vec<Vec<u8>>; 2] {
        [drain(&mut self.nics[nic]), drain(&mut self.far[nic])]
    }

    fn counter(&self, nic: usize, wanted: &str) -> u64 {
        let mut found = 0;
        self.nics[nic].counters(&mut |name, value| {
            if name == wanted {
                found = value;
            }
        });
        found
    }
}

/// Frames of which all but the first bytes are lent.
struct Lent<'a> {
    frames: &'a [Vec<u8>],
    at: usize,
    split: usize,
}

impl Source for Lent<'_> {
    fn next(&mut self, buffer: &mut [u8]) -> Option<Parts<'_>> {
        let (head, rest) = self.frames.get(self.at)?.split_at(self.split);
        self.at += 1;
        buffer[..head.len()].copy_from_slice(head);
        let mut parts = Parts::new(head.len(), META);
        parts.lend(rest);
        Some(parts)
    }
}

const NOTHING: [Vec<Vec<u8>>; 2] = [const { Vec::new() }; 2];
const META: Meta = Meta {
    gso_size: 1448,
    needs_checksum: Some((34, 16)),
    checksum_valid: false,
};

fn drain(port: &mut impl Port) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mut take = |frame: &[u8], meta| {
        assert_eq!(meta, META);
        frames.push(frame.to_vec());
    };
    while port.receive(Instant::now(), &mut take).unwrap() > 0 {}
    frames
}

fn address(nic: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, nic as u8])
}

fn frame(to: MacAddr, filling: u8) -> Vec<u8> {
    [&to.0[..], &[filling; 200]].concat()
}

#[test]
fn a_frame_for_another_nics_address_passes_by_its_ring_and_not_by_the_wire() {
    let mut rig = Rig::new(3);
    let frames = [frame(address(2), 1), frame(address(2), 2)];
    assert_eq!(rig.send(0, &frames), 2);
    assert_eq!(rig.came(2), [frames.to_vec(), vec![]]);
    assert_eq!(rig.came(0), NOTHING);
    assert_eq!(rig.came(1), NOTHING);
    assert_eq!(rig.counter(0, "tx_passed"), 2);
    assert_eq!(rig.counter(2, "rx_passed"), 2);
}

#[test]
fn frames_behind_one_that_passes_go_to_the_wire_in_order() {
    let mut rig = Rig::new(2);
    let unknown = MacAddr([2, 0, 0, 0, 9, 9]);
    let frames = [
        frame(unknown, 1),
        frame(address(1), 2),
        frame(unknown, 3),
        // A function that is not there: a host that has not come.
        frame(address(0), 4),
    ];
    assert_eq!(rig.send(0, &frames), 4);
    let on_wire = [&frames[0], &frames[2], &frames[3]].map(Clone::clone);
    assert_eq!(rig.came(0), [vec![], on_wire.to_vec()]);
    assert_eq!(rig.came(1), [vec![frames[1].clone()], vec![]]);
}

#[test]
fn a_host_that_is_not_there_is_reached_by_the_wire_from_every_nic() {
    let mut rig = Rig::new(3);
    rig.addresses.set_present(address(2), false);
    let frames = vec![frame(address(2), 1)];
    for nic in 0..3 {
        rig.send(nic, &frames);
        assert_eq!(rig.came(nic)[1], frames);
    }
    assert_eq!(rig.came(2)[0], NOTHING[0]);
    rig.addresses.set_present(address(2), true);
    rig.send(0, &frames);
    assert_eq!(rig.came(2)[0], frames);
}

#[test]
fn multicast_goes_to_all_others_and_to_the_senders_wire() {
    let mut rig = Rig::new(3);
    let everyone = vec![frame(MacAddr::BROADCAST, 1)];
    rig.send(1, &everyone);
    assert_eq!(rig.came(0), [everyone.clone(), vec![]]);
    assert_eq!(rig.came(1), [vec![], everyone.clone()]);
    assert_eq!(rig.came(2), [everyone, vec![]]);
}

#[test]
fn what_comes_by_a_wire_goes_where_its_destination_is() {
    let mut rig = Rig::new(2);
    let unknown = frame(MacAddr([2, 0, 0, 0, 9, 9]), 1);
    let other = frame(address(1), 2);
    let everyone = frame(MacAddr::BROADCAST, 3);
    let from_wire = [&unknown, &other, &everyone].map(Clone::clone);
    let mut left = from_wire.iter();
    let mut fill = |buffer: &mut [u8]| {
        let frame = left.next()?;
        buffer[..frame.len()].copy_from_slice(frame);
        Some((frame.len(), META))
    };
    rig.far[0].transmit(Instant::now(), &mut fill).unwrap();
    // What no NIC has stays with the one by whose wire it came, which drops and counts it.
    assert_eq!(rig.came(0)[0], [unknown, everyone.clone()]);
    assert_eq!(rig.came(1)[0], [other, everyone]);
    assert_eq!(rig.counter(0, "rx_passed_on"), 2);
}

#[test]
fn a_nic_that_takes_nothing_loses_frames_and_holds_up_no_other() {
    let mut rig = Rig::new(3);
    let large: Vec<u8> = [&address(1).0[..], &[7; 60_000]].concat();
    let rounds = 200;
    for round in 0..rounds {
        let for_other = frame(address(2), round as u8);
        rig.send(0, &[large.clone(), for_other.clone()]);
        assert_eq!(rig.came(2)[0], [for_other]);
    }
    let dropped = rig.counter(0, "tx_pass_dropped");
    assert!(dropped > 0 && dropped < rounds, "{dropped}");
    let came = rig.came(1)[0].len() as u64;
    assert_eq!(came + dropped, rounds);
    rig.send(0, std::slice::from_ref(&large));
    assert_eq!(rig.came(1)[0], [large], "there is room again");
}

#[test]
fn what_hosts_send_leaves_room_for_what_comes_from_the_wire() {
    let mut rig = Rig::new(2);
    let large: Vec<u8> = [&address(1).0[..], &[7; 60_000]].concat();
    while rig.counter(0, "tx_pass_dropped") == 0 {
        rig.send(0, std::slice::from_ref(&large));
    }
    let passed = rig.counter(0, "tx_passed");
    let from_wire = frame(address(1), 2);
    for _ in 0..100 {
        let mut left = Some(&from_wire);
        let mut fill = |buffer: &mut [u8]| {
            let frame = left.take()?;
            buffer[..frame.len()].copy_from_slice(frame);
            Some((frame.len(), META))
        };
        rig.far[0].transmit(Instant::now(), &mut fill).unwrap();
        rig.came(0);
    }
    assert_eq!(rig.counter(0, "rx_pass_dropped"), 0);
    assert_eq!(rig.came(1)[0].len() as u64, passed + 100);
}

#[test]
fn a_nic_that_is_sent_much_by_others_receives_from_its_wire() {
    let mut rig = Rig::new(2);
    let from_other: Vec<_> = (0..64).map(|nth| frame(address(1), nth)).collect();
    rig.send(0, &from_other);
    let mut left = 200;
    let mut fill = |buffer: &mut [u8]| {
        left = u32::checked_sub(left, 1)?;
        buffer[..200].fill(0);
        buffer[..6].copy_from_slice(&address(1).0);
        Some((200, META))
    };
    rig.far[1].transmit(Instant::now(), &mut fill).unwrap();
    let received = rig.nics[1].receive(Instant::now(), &mut |_, _| {}).unwrap();
    assert!(received >= 128, "{received}");
}

#[test]
fn a_call_passes_a_bounded_number_of_frames() {
    let mut rig = Rig::new(2);
    let many: Vec<_> = (0..100).map(|nth| frame(address(1), nth)).collect();
    assert_eq!(rig.send(0, &many), BATCH);
    assert_eq!(rig.came(1)[0], many[..BATCH]);
    let by_turns: Vec<_> = (0..400)
        .map(|nth| frame(address(1 + nth % 2 * 9), 1))
        .collect();
    assert_eq!(rig.send(0, &by_turns), BATCH + 1);
}

#[test]
fn a_nic_that_sleeps_is_woken_by_what_another_one_sends() {
    let mut rig = Rig::new(2);
    let is_readable = |nic: &Bridged<End>| {
        let fd = nic.fd().unwrap();
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).unwrap() > 0
    };
    assert!(rig.nics[1].prepare_sleep());
    assert!(!is_readable(&rig.nics[1]));
    rig.send(0, &[frame(address(1), 1)]);
    assert!(is_readable(&rig.nics[1]));
    rig.nics[1].cancel_sleep();
    assert!(!rig.nics[1].prepare_sleep(), "something has come");
    rig.nics[1].cancel_sleep();
    assert_eq!(rig.came(1)[0].len(), 1);
    assert!(rig.nics[1].prepare_sleep());
}
