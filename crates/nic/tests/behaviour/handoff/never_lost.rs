//! No byte is lost, repeated or changed, whenever a connection is handed off and comes back.

use std::time::Duration;

use nic::ToeConfig;
use proptest::prelude::*;
use tcp::Config;

use super::cases;
use super::host::Owner;
use super::world::{Setup, World};
use testkit::link::Faults;

fn setup() -> Setup {
    Setup {
        v6: false,
        config: Config::default(),
        link: Faults::none(Duration::from_millis(2)),
        toe: ToeConfig::default(),
        totals: (300_000, 200_000),
        nudges: false,
        seed: 1,
    }
}

/// Runs to the end, with handoffs and restores after these times.
fn run(setup: &Setup, moves: &[u64]) -> World {
    let mut world = World::new(setup);
    let mut moves = moves.iter().cycle();
    let mut next = world.now;
    let start = world.now;
    let mut rounds = 0;
    while !world.is_over() {
        rounds += 1;
        assert!(
            rounds < 60_000,
            "no end: {:?} after {:?}, nic {:?}, host {:?}, peer {:?}",
            world.host.owner,
            world.now - start,
            world
                .nic
                .poll_timeout()
                .map(|at| at.saturating_duration_since(world.now)),
            world
                .host
                .timeout()
                .map(|at| at.saturating_duration_since(world.now)),
            world
                .peer
                .poll_timeout()
                .map(|at| at.saturating_duration_since(world.now)),
        );
        assert!(
            world.now < start + Duration::from_secs(600),
            "{:?}",
            world.host.owner
        );
        world.host.write(world.now, 7_000);
        world.settle();
        if setup.nudges {
            world.host.nudge(world.now);
            world.peer.consumed(world.now, 0);
        }
        world.advance(world.now + Duration::from_millis(1));
        if world.now >= next
            && let Some(wait) = moves.next()
        {
            next = world.now + Duration::from_millis(*wait);
            let _ = world.host.begin() || world.host.restore();
        }
    }
    world
}

#[test]
fn a_connection_that_is_never_handed_off() {
    let world = run(&setup(), &[]);
    world.assert_complete();
    assert_eq!(world.host.handoffs, 0);
}

#[test]
fn a_connection_lives_and_ends_on_the_nic() {
    let world = run(&setup(), &[100_000_000]);
    world.assert_complete();
    assert_eq!((world.host.handoffs, world.host.restores), (1, 0));
    let counters = world.nic.counters();
    assert_eq!(counters.toe_handoffs, 1);
    assert_eq!(counters.toe_closed, 1);
    assert_eq!(counters.toe_connections, 0);
    assert!(counters.toe_rx_packets > 100, "{counters:?}");
}

#[test]
fn a_connection_goes_back_and_forth() {
    let world = run(&setup(), &[3, 5]);
    world.assert_complete();
    assert!(world.host.handoffs > 3, "{}", world.host.handoffs);
    assert!(world.host.restores > 3);
    assert!(world.host.refused.is_empty());
}

#[test]
fn one_that_nobody_offers_is_the_hosts_again() {
    let mut world = World::new(&setup());
    world.host.write(world.now, 1000);
    world.settle();
    assert!(world.host.begin());
    // The host does not look at its ring for a while.
    let mut out = vec![0; 2000];
    while world.nic.poll_transmit(world.now, &mut out).is_some() {}
    world.nic.flush(world.now);
    world.now += Duration::from_millis(1001);
    while world.nic.poll_transmit(world.now, &mut out).is_some() {}
    world.nic.flush(world.now);
    assert_eq!(world.nic.counters().toe_hold_expired, 1);
    assert_eq!(world.nic.counters().toe_connections, 0);
    world.settle();
    assert_eq!(world.host.owner, Owner::Host, "its offer came too late");
    assert_eq!(world.nic.counters().toe_refused_not_held, 1);
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn no_byte_is_lost(
        moves in prop::collection::vec(1u64..60, 0..12),
        totals in (0usize..200_000, 0usize..200_000),
        (loss, reorder, duplicate) in (0.0f64..0.06, 0.0f64..0.2, 0.0f64..0.05),
        (v6, timestamps, sack, window_scale, load_control) in any::<(bool, bool, bool, bool, bool)>(),
        per_turn in prop::option::of(0u32..8),
        (buffer, nudges, seed) in (4_000u32..100_000, any::<bool>(), any::<u64>()),
    ) {
        let setup = Setup {
            v6,
            config: Config {
                timestamps,
                sack,
                window_scale,
                rcv_buf: buffer,
                ..Config::default()
            },
            link: Faults { loss, reorder, duplicate, ..Faults::none(Duration::from_millis(2)) },
            toe: ToeConfig { packets_per_turn: per_turn, load_control, ..ToeConfig::default() },
            totals,
            nudges,
            seed,
        };
        run(&setup, &moves).assert_complete();
    }
}
