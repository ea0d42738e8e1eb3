//! The host takes connections back, and goes on with them.

use std::collections::HashMap;
use std::time::Duration;

use host::{Event, Holder, LegProgress, SocketError, SpliceEnd, SpliceHandle, SpliceOptions};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use sim::{Fate, World};
use testkit::network::{self, icmp};
use wire::arp;
use wire::ethernet::MacAddr;
use wire::icmp::v4;

use super::flows::{Flows, Plan};
use super::rig::{BACKEND, CLIENT, PROXY, Proxied as _, world};

const LIMIT: Duration = Duration::from_secs(600);

const PLAN: Plan = Plan {
    bytes: 1_000_000,
    piece: 20_000,
    shuts: true,
};

/// Under load, on a lossy link, again and again: the host relays for a while, splices, takes back, and no byte is lost.
fn back_and_forth(bytes: usize, loss: f64, seed: u64) -> u64 {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut chances = Pcg64Mcg::seed_from_u64(!seed);
    let mut world = world();
    let joined = world.join();
    world.decide(move |_, _, _| {
        if chances.random_bool(loss) {
            Fate::Drop
        } else {
            Fate::Pass
        }
    });
    let plan = Plan { bytes, ..PLAN };
    let mut flows = Flows::new(joined, [plan; 2]);
    let mut chance = Pcg64Mcg::seed_from_u64(seed.rotate_left(32));
    let mut current = None;
    let mut next = 30_000;
    flows.run_with(&mut world, LIMIT, |world, flows| {
        let done: usize = flows.ends.iter().map(|end| end.received.len()).sum();
        let now = world.now();
        if let Some(splice) = current {
            if world.refused(splice).is_some() || world.ended(splice).is_some() {
                current = None;
                next = done + rng.random_range(1_000..60_000);
            } else if done > next && world.is_spliced(splice) {
                let _ = world.stack(PROXY).unsplice(now, splice);
            } else if chance.random_bool(0.05) {
                let _ = world.stack(PROXY).query_splice(splice);
            }
        } else if done > next && flows.has_relayed_all() {
            let (a, b) = (joined.front, joined.back);
            current = world
                .stack(PROXY)
                .splice(now, a, b, Default::default())
                .ok();
            next = done + rng.random_range(1_000..60_000);
        }
    });
    // Payload counts, whether the host or the NIC has relayed it.
    world.run_for(Duration::from_secs(1));
    let [to_backend, to_client] = [0, 1].map(|end: usize| flows.ends[end].received.len() as u64);
    for (id, received, sent) in [
        (joined.front, to_backend, to_client),
        (joined.back, to_client, to_backend),
    ] {
        if let Some(tcp) = world.stack(PROXY).info(id).and_then(|info| info.tcp) {
            assert_eq!((tcp.bytes_received, tcp.bytes_acked), (received, sent));
            assert!(tcp.bytes_acked <= tcp.bytes_sent);
        }
    }
    for node in [CLIENT, BACKEND] {
        let closed = world.events(node).iter();
        let wrong = closed.filter(|event| matches!(event, Event::Closed(_, reason) if *reason != host::CloseReason::Graceful));
        assert_eq!(wrong.count(), 0);
    }
    assert_progress_is_true(&world);
    world.counter(PROXY, "AccelSplicesTakenBack")
}

/// What the NIC tells of a splice grows, and is never more than it has forwarded in the end.
fn assert_progress_is_true(world: &World) {
    let mut told: HashMap<SpliceHandle, [LegProgress; 2]> = HashMap::new();
    for event in world.events(PROXY) {
        match event {
            Event::SpliceProgress(handle, legs) => {
                let before = told.insert(*handle, *legs);
                for (side, leg) in legs.iter().enumerate() {
                    let before = before.map_or(0, |before| before[side].acknowledged);
                    assert!(before <= leg.acknowledged, "{before}, then {leg:?}");
                }
            }
            Event::SpliceEnded(handle, report) => {
                for (side, leg) in told.remove(handle).into_iter().flatten().enumerate() {
                    let forwarded = report.bytes[1 - side];
                    assert!(
                        leg.acknowledged + leg.unacknowledged <= forwarded,
                        "{leg:?}, {forwarded}"
                    );
                }
            }
            _ => {}
        }
    }
    assert!(told.is_empty(), "{told:?}");
}

#[test]
fn no_byte_is_lost_on_the_way_back() {
    assert!(back_and_forth(8_000_000, 0.0, 1) > 0);
}

#[test]
fn no_byte_is_lost_on_the_way_back_over_a_bad_link() {
    let taken: u64 = (0..4)
        .map(|seed| back_and_forth(1_000_000, 0.01, seed))
        .sum();
    assert!(taken > 3, "{taken}");
}

#[test]
fn an_idle_splice_comes_back_alive() {
    let mut world = world();
    let joined = world.join();
    let now = world.now();
    let (a, b) = (joined.front, joined.back);
    let options = SpliceOptions {
        idle: Some(Duration::from_secs(10)),
    };
    let splice = world
        .stack(PROXY)
        .splice(now, a, b, options)
        .expect("drained");
    world.run_for(Duration::from_secs(9));
    world.write(CLIENT, joined.client, b"not idle yet");
    world.run_for(Duration::from_secs(9));
    assert_eq!(world.ended(splice), None);
    world.run_for(Duration::from_secs(3));
    let report = world.ended(splice).expect("it was idle");
    assert_eq!(report.reason, SpliceEnd::Idle);
    assert_eq!((report.bytes, report.packets[0]), ([12, 0], 1));
    let mut got = Vec::new();
    world.read(BACKEND, joined.server, &mut got);
    assert_eq!(got, b"not idle yet");
    let mut flows = Flows::new(joined, [PLAN; 2]);
    flows.run(&mut world, LIMIT);
}

/// The client has closed its direction when the splice comes back: the host goes on with the other one.
#[test]
fn a_half_closed_splice_comes_back() {
    let mut world = world();
    let joined = world.join();
    let splice = world.splice(&joined).expect("the NIC splices");
    world.shutdown(CLIENT, joined.client);
    world.run_for(Duration::from_millis(50));
    let now = world.now();
    world.stack(PROXY).unsplice(now, splice).expect("it runs");
    world.run_for(Duration::from_millis(50));
    let report = world.ended(splice).expect("taken back");
    assert_eq!(report.reason, SpliceEnd::TakenBack);
    let states = [joined.front, joined.back].map(|id| {
        let info = world.stack(PROXY).info(id).expect("it lives");
        (info.state, info.holder)
    });
    assert_eq!(
        states,
        [("CLOSE-WAIT", Holder::Host), ("FIN-WAIT-2", Holder::Host)]
    );
    let nothing = Plan {
        bytes: 0,
        shuts: false,
        ..PLAN
    };
    let mut flows = Flows::new(joined, [nothing, PLAN]);
    flows.run(&mut world, LIMIT);
    let mut rest = Vec::new();
    assert!(
        world.read(BACKEND, joined.server, &mut rest),
        "the client's end"
    );
}

#[test]
fn closing_a_spliced_socket_takes_the_splice_back_first() {
    for abort in [false, true] {
        let mut world = world();
        let joined = world.join();
        let splice = world.splice(&joined).expect("the NIC splices");
        world.write(CLIENT, joined.client, &[7; 5_000]);
        let now = world.now();
        let stack = world.stack(PROXY);
        if abort {
            stack.abort(now, joined.front).expect("held");
            stack.abort(now, joined.back).expect("held");
        } else {
            stack.close(now, joined.back).expect("held");
        }
        let (closed, aborted) = (stack.close(now, joined.back), stack.abort(now, joined.back));
        assert_eq!(closed, Err(SocketError::NotFound));
        assert_eq!(aborted, Err(SocketError::NotFound));
        world.run_for(Duration::from_secs(1));
        let report = world.ended(splice).expect("taken back");
        assert_eq!(report.reason, SpliceEnd::TakenBack);
        if !abort {
            let mut got = Vec::new();
            world.read(BACKEND, joined.server, &mut got);
            world.close(BACKEND, joined.server);
            world.close(PROXY, joined.front);
            world.close(CLIENT, joined.client);
        }
        world.run_for(Duration::from_secs(130));
        assert_eq!(world.stack(PROXY).sockets().count(), 0);
        assert_eq!(world.counter(PROXY, "AccelCurrSplices"), 0);
    }
}

/// Nothing is left of many splices: neither sockets nor memory.
#[test]
fn memory_comes_back() {
    let mut world = world();
    world.run_for(Duration::from_secs(1));
    let before = world.stack(PROXY).arena_stats();
    for round in 0..8 {
        let joined = world.join();
        let splice = world.splice(&joined).expect("the NIC splices");
        let plan = Plan {
            bytes: 100_000,
            ..PLAN
        };
        let mut flows = Flows::new(joined, [plan; 2]);
        if round % 2 == 0 {
            let now = world.now();
            world.stack(PROXY).unsplice(now, splice).expect("it runs");
        }
        flows.run(&mut world, LIMIT);
        world.run_for(Duration::from_secs(5));
        let now = world.now();
        for (node, socket) in [
            (PROXY, joined.front),
            (PROXY, joined.back),
            (CLIENT, joined.client),
            (BACKEND, joined.server),
        ] {
            let _ = world.stack(node).close(now, socket);
        }
        world.run_for(Duration::from_secs(130));
    }
    assert_eq!(world.stack(PROXY).sockets().count(), 0);
    let after = world.stack(PROXY).arena_stats();
    for (after, before) in after.pools.iter().zip(&before.pools) {
        // Fewer when the NIC's rings are not filled up yet.
        assert!(after.in_use <= before.in_use, "{after:?} {before:?}");
    }
}

/// What a router says of a packet to the backend that is too large for the next link.
fn too_big(packet: &[u8], mtu: u16) -> Vec<u8> {
    let message = v4::Message::Unreachable {
        reason: v4::Unreachable::FragmentationNeeded { mtu },
        original: &packet[14..14 + 28],
    };
    icmp(
        [BACKEND, PROXY].map(|at| (World::mac(at), World::address(at, false))),
        &message,
    )
}

/// The path to the backend shrinks under load: what is on its way comes again in small packets, the host takes the splice
/// back and sends small ones too.
#[test]
fn a_path_that_shrinks_brings_the_splice_back() {
    let mut world = world();
    let joined = world.join();
    let splice = world.splice(&joined).expect("the NIC splices");
    let lost = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let packets = std::rc::Rc::clone(&lost);
    world.decide(move |from, to, frame| {
        if (from, to) == (PROXY, BACKEND) && frame.len() > 1014 {
            packets.borrow_mut().push(too_big(frame, 1000));
            return Fate::Drop;
        }
        Fate::Pass
    });
    let plan = Plan {
        bytes: 300_000,
        ..PLAN
    };
    let mut flows = Flows::new(joined, [plan; 2]);
    flows.run_with(&mut world, Duration::from_secs(20), |world, _| {
        for message in lost.borrow_mut().drain(..) {
            world.deliver(PROXY, &message);
        }
    });
    let report = world.ended(splice).expect("taken back");
    assert_eq!(report.reason, SpliceEnd::TakenBack);
    let info = world.stack(PROXY).info(joined.back).expect("it lives");
    assert_eq!(info.tcp.expect("a connection").snd_mss, 960 - 12);
}

/// A world with a splice, and the first packet that it forwards to the backend, which does not get it: it stays on its way.
fn with_a_packet_on_its_way() -> (World, SpliceHandle, Vec<u8>) {
    let mut world = world();
    let joined = world.join();
    let splice = world.splice(&joined).expect("the NIC splices");
    let sent = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let packets = std::rc::Rc::clone(&sent);
    world.decide(move |from, to, frame| {
        if (from, to) == (PROXY, BACKEND) {
            packets.borrow_mut().push(frame.to_vec());
            return Fate::Drop;
        }
        Fate::Pass
    });
    world.write(CLIENT, joined.client, &[7; 5_000]);
    world.run_for(Duration::from_millis(50));
    let packet = sent.borrow_mut().remove(0);
    (world, splice, packet)
}

/// A report that names no smaller packets than there are says nothing of the path.
#[test]
fn a_path_that_takes_what_there_is_ends_no_splice() {
    let (mut world, splice, packet) = with_a_packet_on_its_way();
    for mtu in [u16::MAX, 1500] {
        world.deliver(PROXY, &too_big(&packet, mtu));
        world.run_for(Duration::from_millis(50));
        assert_eq!(world.ended(splice), None, "{mtu}");
    }
    assert_eq!(world.counter(PROXY, "IcmpInPktTooBigs"), 2);
    world.deliver(PROXY, &too_big(&packet, 1499));
    world.decide(|_, _, _| Fate::Pass);
    world.run_for(Duration::from_secs(5));
    let report = world.ended(splice).expect("taken back");
    assert_eq!(report.reason, SpliceEnd::TakenBack);
}

/// Where a sequence number stands in the frame of an IPv4 packet.
const SEQ: std::ops::Range<usize> = 14 + 20 + 4..14 + 20 + 8;

/// Only a segment that is on its way can have been too big for the path: whoever can't see the connection does not know which
/// one that is (RFC 5927 §4.1).
#[test]
fn a_report_of_what_is_not_on_its_way_ends_no_splice() {
    let (mut world, splice, packet) = with_a_packet_on_its_way();
    let numbers: [u8; 4] = packet[SEQ].try_into().expect("four bytes");
    let seq = u32::from_be_bytes(numbers);
    let quoting = |seq: u32| {
        let mut quoted = packet.clone();
        quoted[SEQ].copy_from_slice(&seq.to_be_bytes());
        too_big(&quoted, 1000)
    };
    let forged = [
        seq.wrapping_sub(1),
        seq.wrapping_add(5_000),
        seq.wrapping_add(1 << 31),
    ];
    for (count, forged) in (1..).zip(forged) {
        world.deliver(PROXY, &quoting(forged));
        world.run_for(Duration::from_millis(20));
        assert_eq!(world.ended(splice), None, "{forged}");
        let counters = world.nic_counters(PROXY);
        assert_eq!(counters.accel_splice_stale_errors, count);
    }
    assert_eq!(world.counter(PROXY, "IcmpInPktTooBigs"), 0);
    world.deliver(PROXY, &quoting(seq.wrapping_add(4_999)));
    world.decide(|_, _, _| Fate::Pass);
    world.run_for(Duration::from_secs(5));
    let report = world.ended(splice).expect("taken back");
    assert_eq!(report.reason, SpliceEnd::TakenBack);
    // What was acknowledged meanwhile is on its way no more.
    let (mut world, splice, packet) = with_a_packet_on_its_way();
    world.decide(|_, _, _| Fate::Pass);
    world.run_for(Duration::from_secs(5));
    world.deliver(PROXY, &too_big(&packet, 1000));
    world.run_for(Duration::from_millis(50));
    assert_eq!(world.ended(splice), None);
}

/// The same while the NIC has not come to the splice yet, and does not know the connection: nothing is on its way then.
#[test]
fn a_report_that_comes_before_the_nic_has_the_splice_ends_none() {
    let mut world = world();
    let joined = world.join();
    let sent = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let packets = std::rc::Rc::clone(&sent);
    world.decide(move |from, to, frame| {
        if (from, to) == (PROXY, BACKEND) {
            packets.borrow_mut().push(frame.to_vec());
        }
        Fate::Pass
    });
    world.write(PROXY, joined.back, &[7; 2_000]);
    world.run_for(Duration::from_secs(1));
    let packet = sent.borrow_mut().remove(0);
    let now = world.now();
    let spliced = world
        .stack(PROXY)
        .splice(now, joined.front, joined.back, Default::default());
    let splice = spliced.expect("both are idle");
    // The host posts it, and the report is there before the NIC has looked.
    world.stack(PROXY).poll(now);
    world.deliver(PROXY, &too_big(&packet, 1000));
    world.run_for(Duration::from_secs(1));
    assert!(world.is_spliced(splice));
    assert_eq!(world.ended(splice), None);
    let info = world.stack(PROXY).info(joined.back).expect("it lives");
    assert!(info.tcp.expect("a connection").snd_mss > 1000);
}

/// The backend is gone with bytes that only the NIC has had in its hands: when these were waited for long enough, both
/// connections are reset, and the application is told.
#[test]
fn what_nobody_acknowledges_while_the_splice_comes_back_ends_both_connections() {
    let (mut world, splice, _) = with_a_packet_on_its_way();
    let now = world.now();
    world.stack(PROXY).unsplice(now, splice).expect("it runs");
    let mut resets = Vec::new();
    world.run_until(Duration::from_millis(9_900), |_| false);
    assert_eq!(world.ended(splice), None);
    world.run_for(Duration::from_millis(300));
    let report = world.ended(splice).expect("given up");
    assert_eq!(report.reason, SpliceEnd::TimedOut);
    assert!(report.bytes[0] > 0);
    for id in report.sockets {
        let closed = Event::Closed(id, host::CloseReason::TimedOut);
        resets.extend(
            world
                .events(PROXY)
                .iter()
                .filter(|event| **event == closed)
                .cloned(),
        );
        let now = world.now();
        let mut buffer = [0; 16];
        let read = world.stack(PROXY).read(now, id, &mut buffer);
        assert_eq!(read, Err(SocketError::Closed(host::CloseReason::TimedOut)));
        world.close(PROXY, id);
    }
    assert_eq!(resets.len(), 2);
    // The reset takes its time.
    world.run_for(Duration::from_millis(1));
    let reset = |event: &&Event| matches!(event, Event::Closed(_, host::CloseReason::Reset));
    assert_eq!(
        world.events(CLIENT).iter().filter(reset).count(),
        1,
        "the client hears of it"
    );
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.stack(PROXY).sockets().count(), 0);
    assert_eq!(world.counter(PROXY, "AccelCurrSplices"), 0);
}

/// The backend's address moves to another network card: the host finds it there.
#[test]
fn a_neighbour_that_moves_brings_the_splice_back() {
    let mut world = world();
    let joined = world.join();
    let splice = world.splice(&joined).expect("the NIC splices");
    world.run_for(Duration::from_secs(3));
    assert_eq!(world.ended(splice), None);
    let moved = MacAddr([2, 0, 0, 0, 0, 99]);
    let question = arp::Packet {
        operation: arp::Operation::Request,
        sender_mac: moved,
        sender_ip: [10, 0, 0, 3].into(),
        target_mac: MacAddr([0; 6]),
        target_ip: [10, 0, 0, 2].into(),
    };
    let frame = network::arp(World::mac(PROXY), &question);
    // The old card says nothing any more.
    world.decide(|from, _, _| {
        if from == BACKEND {
            Fate::Drop
        } else {
            Fate::Pass
        }
    });
    world.deliver(PROXY, &frame);
    world.run_for(Duration::from_secs(3));
    let report = world.ended(splice).expect("taken back");
    assert_eq!(report.reason, SpliceEnd::TakenBack);
}
