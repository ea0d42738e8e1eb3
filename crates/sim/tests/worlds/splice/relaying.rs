//! The NIC relays: all bytes, both ends, on good links and bad ones.

use std::time::Duration;

use host::{CloseReason, Event, Holder, SocketError, SpliceEnd};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use sim::{Fate, Fates, World};

use super::flows::{Flows, Plan, is_closed};
use super::rig::{BACKEND, CLIENT, Joined, PROXY, Proxied as _, world, world_with};

const LIMIT: Duration = Duration::from_secs(600);

fn plan(bytes: usize, shuts: bool) -> Plan {
    Plan {
        bytes,
        piece: 10_000,
        shuts,
    }
}

/// Loses, delays and doubles frames of every direction, the same at every run.
fn bad_wire(loss: f64, late: f64, twice: f64, seed: u64) -> Fates {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    Box::new(move |_, _, _| {
        let roll: f64 = rng.random();
        let more = Duration::from_micros(rng.random_range(1..400));
        if roll < loss {
            Fate::Drop
        } else if roll < loss + late {
            Fate::Late(more)
        } else if roll < loss + late + twice {
            Fate::Twice(more)
        } else {
            Fate::Pass
        }
    })
}

/// Both sockets of the proxy wait for `close` and for nothing else; afterwards nothing is left of the splice.
fn leaves_nothing(world: &mut World, joined: Joined) {
    let now = world.now();
    for socket in [joined.front, joined.back] {
        assert!(!is_closed(world, PROXY, socket), "`SpliceEnded` said it");
        world.close(PROXY, socket);
    }
    for (node, socket) in [(CLIENT, joined.client), (BACKEND, joined.server)] {
        let _ = world.stack(node).close(now, socket);
    }
    world.run_for(Duration::from_secs(130));
    assert_eq!(world.stack(PROXY).sockets().count(), 0);
    assert_eq!(world.counter(PROXY, "AccelCurrSplices"), 0);
    assert_eq!(world.counter(PROXY, "DriverErrors"), 0);
}

/// Splices at once and runs both plans to the end.
fn relay(world: &mut World, plans: [Plan; 2]) -> Flows {
    let joined = world.join();
    let splice = world.splice(&joined).expect("the NIC splices");
    let segments = world.counter(PROXY, "TcpOutSegs");
    let mut flows = Flows::new(joined, plans);
    flows.run(world, LIMIT);
    world.run_for(Duration::from_secs(5));
    let report = world.ended(splice).expect("it is over");
    assert_eq!(report.sockets, [joined.front, joined.back]);
    assert_eq!(report.reason, SpliceEnd::Finished);
    assert!(report.bytes[0] >= plans[0].bytes as u64, "{report:?}");
    assert!(report.bytes[1] >= plans[1].bytes as u64, "{report:?}");
    assert_eq!(
        world.counter(PROXY, "TcpOutSegs"),
        segments,
        "the host sent nothing"
    );
    for (node, socket) in [(CLIENT, joined.client), (BACKEND, joined.server)] {
        assert!(is_closed(world, node, socket));
    }
    leaves_nothing(world, joined);
    flows
}

#[test]
fn both_directions_flow_and_close() {
    let mut world = world();
    relay(&mut world, [plan(3_000_000, true), plan(2_000_000, true)]);
}

#[test]
fn one_direction_stays_open_for_long_after_the_other() {
    let mut world = world();
    let joined = world.join();
    let splice = world.splice(&joined).expect("the NIC splices");
    let mut flows = Flows::new(joined, [plan(1_000, true), plan(4_000_000, false)]);
    flows.run(&mut world, LIMIT);
    assert_eq!(world.ended(splice), None, "half of it is open");
    world.shutdown(BACKEND, joined.server);
    world.run_for(Duration::from_secs(5));
    let report = world.ended(splice).expect("it is over");
    assert_eq!(report.reason, SpliceEnd::Finished);
    leaves_nothing(&mut world, joined);
}

#[test]
fn both_ends_close_at_once() {
    let mut world = world();
    relay(&mut world, [plan(0, true), plan(0, true)]);
}

#[test]
fn loss_reordering_and_duplicates_are_between_the_peers() {
    for seed in 0..4 {
        let mut world = world();
        let joined = world.join();
        let splice = world.splice(&joined).expect("the NIC splices");
        world.decide(bad_wire(0.02, 0.05, 0.02, seed));
        let mut flows = Flows::new(joined, [plan(300_000, true), plan(300_000, true)]);
        flows.run(&mut world, LIMIT);
        world.decide(|_, _, _| Fate::Pass);
        world.run_for(Duration::from_secs(70));
        let report = world.ended(splice).expect("it is over");
        assert_eq!(report.reason, SpliceEnd::Finished);
        leaves_nothing(&mut world, joined);
    }
}

#[test]
fn a_reset_passes_through() {
    for (node, by_front) in [(CLIENT, true), (BACKEND, false)] {
        let mut world = world();
        let joined = world.join();
        let splice = world.splice(&joined).expect("the NIC splices");
        world.write(CLIENT, joined.client, &[1; 10_000]);
        world.run_for(Duration::from_millis(20));
        let (dies, lives, other) = if by_front {
            (joined.client, joined.server, BACKEND)
        } else {
            (joined.server, joined.client, CLIENT)
        };
        world.abort(node, dies);
        world.run_for(Duration::from_secs(5));
        let report = world.ended(splice).expect("it is over");
        let by = if by_front { joined.front } else { joined.back };
        assert_eq!(report.reason, SpliceEnd::Reset { by });
        let reset = Event::Closed(lives, CloseReason::Reset);
        assert!(world.events(other).contains(&reset));
        leaves_nothing(&mut world, joined);
    }
}

#[test]
fn ipv6_is_relayed_too() {
    let mut world = world();
    let joined = world.join_over([true, true]);
    let splice = world.splice(&joined).expect("the NIC splices");
    let mut flows = Flows::new(joined, [plan(200_000, true); 2]);
    flows.run(&mut world, LIMIT);
    world.run_for(Duration::from_secs(5));
    assert_eq!(
        world.ended(splice).expect("it is over").reason,
        SpliceEnd::Finished
    );
}

/// What peers send while the splice is being made is neither lost nor taken twice: the proxy relays a first message
/// itself and splices at once, with nothing acknowledged.
#[test]
fn a_conversation_is_spliced_in_the_middle() {
    for (loss, seed) in [(0.0, 0), (0.03, 1), (0.03, 2), (0.1, 3)] {
        let mut world = world();
        let joined = world.join();
        world.decide(bad_wire(loss, 0.0, 0.0, seed));
        let mut flows = Flows::new(joined, [plan(400_000, true), plan(400_000, true)]);
        let mut splices = Vec::new();
        flows.run_with(&mut world, LIMIT, |world, flows| {
            let now = world.now();
            let is_idle = splices
                .last()
                .is_none_or(|last| world.refused(*last).is_some());
            if is_idle && flows.ends[1].received.len() > 20_000 && flows.has_relayed_all() {
                let (a, b) = (joined.front, joined.back);
                let splice = world.stack(PROXY).splice(now, a, b, Default::default());
                splices.extend(splice);
            }
        });
        assert!(!splices.is_empty());
        if loss == 0.0 {
            let last = *splices.last().expect("some");
            assert!(world.is_spliced(last), "{:?}", world.refused(last));
            assert_eq!(flows.ends[0].error, None);
        }
    }
}

#[test]
fn a_spliced_socket_is_the_nics() {
    let mut world = world();
    let joined = world.join();
    let _splice = world.splice(&joined).expect("the NIC splices");
    let now = world.now();
    let stack = world.stack(PROXY);
    let mut buffer = [0; 10];
    let front = joined.front;
    assert_eq!(
        stack.read(now, front, &mut buffer),
        Err(SocketError::Spliced)
    );
    assert_eq!(stack.write(now, front, b"x"), Err(SocketError::Spliced));
    assert_eq!(stack.shutdown(now, front), Err(SocketError::Spliced));
    let info = stack.info(front).expect("it is there");
    assert_eq!(info.holder, Holder::Nic);
    assert_eq!(info.spliced, Some(joined.back));
    assert_eq!(info.state, "ESTAB");
}

/// The table has room for one pair: the second one is relayed by the host.
#[test]
fn the_second_splice_finds_the_table_full() {
    let mut world = world_with(|_, node| node.nic.accel.splices = 1);
    let first = world.join();
    let second = world.join();
    let spliced = world.splice(&first).expect("there is room for one");
    let refused = world.splice(&second);
    assert_eq!(refused, Err(host::SpliceRefused::TableFull));
    let mut flows = Flows::new(second, [plan(200_000, true); 2]);
    flows.run(&mut world, LIMIT);
    let mut flows = Flows::new(first, [plan(200_000, true); 2]);
    flows.run(&mut world, LIMIT);
    world.run_for(Duration::from_secs(5));
    assert_eq!(
        world.ended(spliced).map(|report| report.reason),
        Some(SpliceEnd::Finished)
    );
}
