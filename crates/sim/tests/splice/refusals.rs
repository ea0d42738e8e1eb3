//! What can't be spliced goes on being relayed by the host.

use std::time::Duration;

use host::{Accel, SocketError, SpliceRefused};

use crate::flows::{Flows, Plan};
use crate::rig::{BACKEND, CLIENT, PROXY, Rig};

const PLAN: Plan = Plan {
    bytes: 100_000,
    piece: 5_000,
    shuts: true,
};

/// Both directions work after a refusal, as if nothing had happened.
fn relays_on(rig: &mut Rig, joined: crate::rig::Joined) {
    let mut flows = Flows::new(joined, [PLAN; 2]);
    flows.run(rig, Duration::from_secs(60));
}

#[test]
fn a_host_that_may_not_ask_relays() {
    let mut rig = Rig::with(|_, stack, _| stack.accel = Accel::NONE);
    let joined = rig.join();
    assert_eq!(rig.splice(&joined), Err(SpliceRefused::Off));
    relays_on(&mut rig, joined);
}

#[test]
fn one_socket_is_no_pair() {
    let mut rig = Rig::new();
    let joined = rig.join();
    let now = rig.now;
    let stack = rig.stack(PROXY);
    let spliced = stack.splice(now, joined.front, joined.front, Default::default());
    assert_eq!(spliced, Err(SpliceRefused::Same));
    relays_on(&mut rig, joined);
}

#[test]
fn a_socket_has_one_splice() {
    let mut rig = Rig::new();
    let joined = rig.join();
    let now = rig.now;
    let stack = rig.stack(PROXY);
    let (front, back) = (joined.front, joined.back);
    let first = stack.splice(now, front, back, Default::default());
    let second = stack.splice(now, back, front, Default::default());
    assert_eq!(second, Err(SpliceRefused::Spliced(back)));
    let first = first.expect("both are drained");
    assert_eq!(stack.write(now, front, b"x"), Err(SocketError::Spliced));
    stack.unsplice(now, first).expect("it is young");
    rig.step();
    assert_eq!(rig.refused(first), Some(SpliceRefused::TakenBack));
    relays_on(&mut rig, joined);
}

#[test]
fn what_was_not_read_is_not_skipped() {
    let mut rig = Rig::new();
    let joined = rig.join();
    rig.write(CLIENT, joined.client, b"unread");
    rig.run_for(Duration::from_millis(10));
    assert_eq!(
        rig.splice(&joined),
        Err(SpliceRefused::Unread(joined.front))
    );
    let mut read = Vec::new();
    rig.read(PROXY, joined.front, &mut read);
    relays_on(&mut rig, joined);
}

#[test]
fn a_connection_that_is_closing_is_not_spliced() {
    let mut rig = Rig::new();
    let joined = rig.join();
    let now = rig.now;
    rig.stack(BACKEND)
        .shutdown(now, joined.server)
        .expect("open");
    rig.run_for(Duration::from_millis(10));
    let refused = rig.splice(&joined);
    assert_eq!(refused, Err(SpliceRefused::NotEstablished(joined.back)));
    rig.stack(PROXY).close(now, joined.front).expect("open");
    let refused = rig.splice(&joined);
    assert_eq!(refused, Err(SpliceRefused::NotFound(joined.front)));
}

#[test]
fn families_do_not_mix() {
    let mut rig = Rig::new();
    let joined = rig.join_over([false, true]);
    assert_eq!(rig.splice(&joined), Err(SpliceRefused::Family));
    relays_on(&mut rig, joined);
}

#[test]
fn packets_that_are_too_large_for_the_other_path_are_not_spliced() {
    let mut rig = Rig::with(|at, stack, nic| {
        if at == BACKEND {
            stack.mtu = 1400;
            nic.mtu = 1400;
        }
    });
    let joined = rig.join();
    assert_eq!(rig.splice(&joined), Err(SpliceRefused::Mss(1460, 1360)));
    relays_on(&mut rig, joined);
}

#[test]
fn options_have_to_be_alike() {
    let mut rig = Rig::with(|at, stack, _| stack.tcp.timestamps = at != BACKEND);
    let joined = rig.join();
    assert_eq!(rig.splice(&joined), Err(SpliceRefused::Timestamps));
    relays_on(&mut rig, joined);
    let mut rig = Rig::with(|at, stack, _| stack.tcp.sack = at != BACKEND);
    let joined = rig.join();
    assert_eq!(rig.splice(&joined), Err(SpliceRefused::Sack));
    relays_on(&mut rig, joined);
}

/// The backend takes its time to acknowledge, or never does: the splice waits, and then does not come about.
#[test]
fn a_peer_that_does_not_acknowledge_is_waited_for_in_vain() {
    let mut rig = Rig::new();
    let joined = rig.join();
    rig.wire = Box::new(|_, to, _| {
        if to == BACKEND {
            crate::rig::Fate::Drop
        } else {
            crate::rig::Fate::Pass
        }
    });
    rig.write(PROXY, joined.back, b"lost");
    let now = rig.now;
    let (a, b) = (joined.front, joined.back);
    let splice = rig.stack(PROXY).splice(now, a, b, Default::default());
    let splice = splice.expect("drained but for an acknowledgment");
    // What comes meanwhile is kept, and given to the host in the end.
    rig.write(CLIENT, joined.client, b"early");
    rig.run_for(Duration::from_millis(900));
    assert_eq!(rig.refused(splice), None);
    rig.run_for(Duration::from_millis(200));
    assert_eq!(rig.refused(splice), Some(SpliceRefused::NotDrained(b)));
    let mut read = Vec::new();
    rig.read(PROXY, joined.front, &mut read);
    assert_eq!(read, b"early");
}

/// No table, no splice: what was kept meanwhile is taken by the host, once.
#[test]
fn a_full_table_leaves_both_connections_to_the_host() {
    let mut rig = Rig::with(|_, _, nic| nic.accel.splices = 0);
    let joined = rig.join();
    rig.write(PROXY, joined.back, b"hello");
    let now = rig.now;
    let (a, b) = (joined.front, joined.back);
    let splice = rig.stack(PROXY).splice(now, a, b, Default::default());
    let splice = splice.expect("drained but for an acknowledgment");
    let mut flows = Flows::new(joined, [PLAN; 2]);
    let mut greeting = Vec::new();
    rig.run_until(Duration::from_secs(1), |rig| {
        rig.read(BACKEND, joined.server, &mut greeting);
        flows.ends[0].received.is_empty() && rig.refused(splice).is_some()
    });
    assert_eq!(greeting, b"hello");
    let reason = rig.refused(splice).expect("no room");
    assert!(matches!(
        reason,
        SpliceRefused::TableFull | SpliceRefused::Unsupported
    ));
    flows.run(&mut rig, Duration::from_secs(60));
    assert_eq!(rig.counter(PROXY, "AccelCurrSplices"), 0);
}
