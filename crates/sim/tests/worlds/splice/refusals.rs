//! What can't be spliced goes on being relayed by the host.

use std::time::Duration;

use host::{Accel, SocketError, SpliceRefused};
use sim::{Fate, World};

use super::flows::{Flows, Plan};
use super::rig::{BACKEND, CLIENT, Joined, PROXY, Proxied as _, world, world_with};

const PLAN: Plan = Plan {
    bytes: 100_000,
    piece: 5_000,
    shuts: true,
};

/// Both directions work after a refusal, as if nothing had happened.
fn relays_on(world: &mut World, joined: Joined) {
    let mut flows = Flows::new(joined, [PLAN; 2]);
    flows.run(world, Duration::from_secs(60));
}

#[test]
fn a_host_that_may_not_ask_relays() {
    let mut world = world_with(|_, node| node.stack.accel = Accel::NONE);
    let joined = world.join();
    assert_eq!(world.splice(&joined), Err(SpliceRefused::Off));
    relays_on(&mut world, joined);
}

#[test]
fn one_socket_is_no_pair() {
    let mut world = world();
    let joined = world.join();
    let now = world.now();
    let stack = world.stack(PROXY);
    let spliced = stack.splice(now, joined.front, joined.front, Default::default());
    assert_eq!(spliced, Err(SpliceRefused::Same));
    relays_on(&mut world, joined);
}

#[test]
fn a_socket_has_one_splice() {
    let mut world = world();
    let joined = world.join();
    let now = world.now();
    let stack = world.stack(PROXY);
    let (front, back) = (joined.front, joined.back);
    let first = stack.splice(now, front, back, Default::default());
    let second = stack.splice(now, back, front, Default::default());
    assert_eq!(second, Err(SpliceRefused::Spliced(back)));
    let first = first.expect("both are drained");
    assert_eq!(stack.write(now, front, b"x"), Err(SocketError::Spliced));
    stack.unsplice(now, first).expect("it is young");
    world.step();
    assert_eq!(world.refused(first), Some(SpliceRefused::TakenBack));
    relays_on(&mut world, joined);
}

#[test]
fn what_was_not_read_is_not_skipped() {
    let mut world = world();
    let joined = world.join();
    world.write(CLIENT, joined.client, b"unread");
    world.run_for(Duration::from_millis(10));
    assert_eq!(
        world.splice(&joined),
        Err(SpliceRefused::Unread(joined.front))
    );
    let mut read = Vec::new();
    world.read(PROXY, joined.front, &mut read);
    relays_on(&mut world, joined);
}

#[test]
fn a_connection_that_is_closing_is_not_spliced() {
    let mut world = world();
    let joined = world.join();
    world.shutdown(BACKEND, joined.server);
    world.run_for(Duration::from_millis(10));
    let refused = world.splice(&joined);
    assert_eq!(refused, Err(SpliceRefused::NotEstablished(joined.back)));
    world.close(PROXY, joined.front);
    let refused = world.splice(&joined);
    assert_eq!(refused, Err(SpliceRefused::NotFound(joined.front)));
}

#[test]
fn families_do_not_mix() {
    let mut world = world();
    let joined = world.join_over([false, true]);
    assert_eq!(world.splice(&joined), Err(SpliceRefused::Family));
    relays_on(&mut world, joined);
}

#[test]
fn packets_that_are_too_large_for_the_other_path_are_not_spliced() {
    let mut world = world_with(|at, node| node.mtu = (at == BACKEND).then_some(1400));
    let joined = world.join();
    assert_eq!(world.splice(&joined), Err(SpliceRefused::Mss(1460, 1360)));
    relays_on(&mut world, joined);
}

#[test]
fn options_have_to_be_alike() {
    let mut world = world_with(|at, node| node.stack.tcp.timestamps = at != BACKEND);
    let joined = world.join();
    assert_eq!(world.splice(&joined), Err(SpliceRefused::Timestamps));
    relays_on(&mut world, joined);
    let mut world = world_with(|at, node| node.stack.tcp.sack = at != BACKEND);
    let joined = world.join();
    assert_eq!(world.splice(&joined), Err(SpliceRefused::Sack));
    relays_on(&mut world, joined);
}

/// The backend takes its time to acknowledge, or never does: the splice waits, and then does not come about.
#[test]
fn a_peer_that_does_not_acknowledge_is_waited_for_in_vain() {
    let mut world = world();
    let joined = world.join();
    world.decide(|_, to, _| {
        if to == BACKEND {
            Fate::Drop
        } else {
            Fate::Pass
        }
    });
    world.write(PROXY, joined.back, b"lost");
    let now = world.now();
    let (a, b) = (joined.front, joined.back);
    let splice = world.stack(PROXY).splice(now, a, b, Default::default());
    let splice = splice.expect("drained but for an acknowledgment");
    // What comes meanwhile is kept, and given to the host in the end.
    world.write(CLIENT, joined.client, b"early");
    world.run_for(Duration::from_millis(900));
    assert_eq!(world.refused(splice), None);
    world.run_for(Duration::from_millis(200));
    assert_eq!(world.refused(splice), Some(SpliceRefused::NotDrained(b)));
    let mut read = Vec::new();
    world.read(PROXY, joined.front, &mut read);
    assert_eq!(read, b"early");
}

/// No table, no splice: what was kept meanwhile is taken by the host, once.
#[test]
fn a_full_table_leaves_both_connections_to_the_host() {
    let mut world = world_with(|_, node| node.nic.accel.splices = 0);
    let joined = world.join();
    world.write(PROXY, joined.back, b"hello");
    let now = world.now();
    let (a, b) = (joined.front, joined.back);
    let splice = world.stack(PROXY).splice(now, a, b, Default::default());
    let splice = splice.expect("drained but for an acknowledgment");
    let mut flows = Flows::new(joined, [PLAN; 2]);
    let mut greeting = Vec::new();
    world.run_until(Duration::from_secs(1), |world| {
        world.read(BACKEND, joined.server, &mut greeting);
        flows.ends[0].received.is_empty() && world.refused(splice).is_some()
    });
    assert_eq!(greeting, b"hello");
    let reason = world.refused(splice).expect("no room");
    assert!(matches!(
        reason,
        SpliceRefused::TableFull | SpliceRefused::Unsupported
    ));
    flows.run(&mut world, Duration::from_secs(60));
    assert_eq!(world.counter(PROXY, "AccelCurrSplices"), 0);
}
