//! Policies choose by themselves.

use std::time::Duration;

use super::rig::holder;
use crate::handoff::policy::Selection;
use crate::tests::pair::{CLIENT, PORT, Pair, SERVER, pattern, v4};
use crate::{Handoff, Holder};

fn pair(selection: Selection, limit: u32) -> Pair {
    Pair::with_nics(
        |at, (stack, _)| {
            if at == SERVER {
                stack.handoff = Handoff::new(selection);
            }
        },
        |_, nic| nic.toe.hard_limit = limit,
    )
}

#[test]
fn first_come_first_served_hands_off_as_long_as_there_is_room() {
    let mut pair = pair(Selection::Fcfs, 2);
    let sockets: Vec<_> = (0..4).map(|_| pair.connect(v4)).collect();
    pair.run_for(Duration::from_millis(10));
    let mut held = Vec::new();
    for (client, server) in &sockets {
        held.push(holder(&mut pair, SERVER, *server) == Some(Holder::Nic));
        let data = pattern(50_000);
        assert!(pair.transfer(SERVER, *server, *client, &data) == data);
    }
    assert_eq!(held, [true, true, false, false]);
    assert_eq!(pair.nic_counter(SERVER, "toe_connections"), 2);
    // A place that is free again is for the next one.
    let now = pair.now;
    pair.stack(SERVER).abort(now, sockets[0].1).expect("open");
    pair.run_for(Duration::from_millis(10));
    let (_, next) = pair.connect(v4);
    pair.run_for(Duration::from_millis(10));
    assert_eq!(holder(&mut pair, SERVER, next), Some(Holder::Nic));
}

#[test]
fn a_threshold_counts_enqueues() {
    let mut pair = pair(Selection::Threshold(3), 100);
    let (client, server) = pair.connect(v4);
    for sends in 1..=4 {
        assert!(pair.transfer(SERVER, server, client, b"response") == b"response");
        pair.run_for(Duration::from_millis(5));
        let is_held = holder(&mut pair, SERVER, server) == Some(Holder::Nic);
        assert_eq!(is_held, sends >= 3, "after {sends} sends");
    }
}

#[test]
fn each_port_may_have_a_policy_of_its_own() {
    let mut pair = Pair::with(|at, (stack, _)| {
        if at == SERVER {
            stack.handoff.per_port = vec![(PORT, Selection::Fcfs)];
        } else {
            stack.handoff.selection = Selection::Off;
        }
    });
    let (client, server) = pair.connect(v4);
    pair.run_for(Duration::from_millis(10));
    assert_eq!(holder(&mut pair, SERVER, server), Some(Holder::Nic));
    assert_eq!(holder(&mut pair, CLIENT, client), Some(Holder::Host));
}

#[test]
fn what_predicts_sends_of_a_busy_connection_hands_it_off() {
    let mut pair = pair(Selection::Predict, 100);
    let (client, server) = pair.connect(v4);
    let data = pattern(3_000_000);
    assert!(pair.transfer(SERVER, server, client, &data) == data);
    assert!(pair.counter(SERVER, "HandoffAccepted") > 0);
}
