//! Places on the NIC: who waits for one, who gives one back, and what comes between asking and having.

use std::time::Duration;

use super::rig::{assert_all_given_back, exchange, hand_off, holder, in_use, restore};
use crate::pair::{CLIENT, Connected as _, SERVER, hosts, hosts_with, v4};
use host::handoff::policy::Selection;
use host::{Handoff, HandoffRefused, Holder};
use testkit::pattern;

/// A busy connection takes the place of one that has gone quiet, when the NIC has but this one.
#[test]
fn a_place_is_exchanged_when_all_are_taken() {
    let mut pair = hosts_with(|at, node| {
        node.nic.toe.hard_limit = 1;
        if at == SERVER {
            node.stack.handoff = Handoff::new(Selection::Predict);
            node.function.toe_connections = 1;
        }
    });
    let (client, quiet) = pair.connected(v4);
    let data = pattern(1_000_000);
    assert!(pair.transfer(SERVER, quiet, client, &data) == data);
    pair.run_for(Duration::from_millis(20));
    assert_eq!(holder(&mut pair, SERVER, quiet), Some(Holder::Nic));
    let (client, busy) = pair.connected(v4);
    for _ in 0..200 {
        pair.run_for(Duration::from_millis(50));
        assert!(pair.transfer(SERVER, busy, client, &data[..100_000]) == data[..100_000]);
        if holder(&mut pair, SERVER, busy) == Some(Holder::Nic) {
            break;
        }
    }
    assert_eq!(holder(&mut pair, SERVER, busy), Some(Holder::Nic));
    assert_eq!(holder(&mut pair, SERVER, quiet), Some(Holder::Host));
    assert_eq!(pair.counter(SERVER, "HandoffRefused"), 0);
    assert_eq!(pair.nic_counter(SERVER, "toe_connections"), 1);
}

/// The NIC has held the flow for a second and gives its packets to the host, which has just posted the offer.
#[test]
fn packets_that_an_offer_comes_too_late_for_are_not_lost() {
    let mut pair = hosts();
    let (client, server) = pair.connected(v4);
    pair.run_for(Duration::from_millis(50));
    let mut out = vec![0; 1 << 17];
    let begun = pair.now();
    assert_eq!(pair.stack(SERVER).hand_off(begun, server), Ok(()));
    pair.stack(SERVER).poll(begun);
    assert_eq!(pair.nic(SERVER).poll_transmit(begun, &mut out), None);
    pair.nic(SERVER).flush(begun);
    assert_eq!(pair.write(CLIENT, client, b"in between"), 10);
    pair.stack(CLIENT).poll(begun);
    let sent = pair.nic(CLIENT).poll_transmit(begun, &mut out);
    let (len, _) = sent.expect("a segment");
    pair.deliver(SERVER, &out[..len]);
    // The offer is posted before the second is over, and found after it.
    pair.pass(Duration::from_millis(999));
    let early = pair.now();
    pair.stack(SERVER).poll(early);
    pair.pass(Duration::from_millis(2));
    let late = pair.now();
    while pair.nic(SERVER).poll_transmit(late, &mut out).is_some() {}
    pair.nic(SERVER).flush(late);
    pair.stack(SERVER).poll(late);
    let mut buffer = [0; 100];
    let read = pair.stack(SERVER).read(late, server, &mut buffer);
    assert_eq!(read, Ok(10));
    pair.run_for(Duration::from_millis(50));
    assert_eq!(pair.nic_counter(SERVER, "toe_hold_expired"), 1);
    assert_eq!(pair.nic_counter(SERVER, "toe_refused_not_held"), 1);
    assert_eq!(pair.counter(SERVER, "HandoffStale"), 0);
    assert_eq!(holder(&mut pair, SERVER, server), Some(Holder::Host));
    // All is as it was.
    hand_off(&mut pair, SERVER, server);
    let data = pattern(200_000);
    assert!(pair.transfer(SERVER, server, client, &data) == data);
}

/// Also that of a connection which the NIC was asked about, and had not answered.
#[test]
fn a_reset_frees_every_place() {
    let mut pair = hosts_with(|_, node| node.function.toe_connections = 1);
    let (_, first) = pair.connected(v4);
    let (_, second) = pair.connected(v4);
    let now = pair.now();
    assert_eq!(pair.stack(SERVER).hand_off(now, first), Ok(()));
    assert_eq!(pair.stack(SERVER).restore(now, first), Ok(false));
    let refused = pair.stack(SERVER).hand_off(now, second);
    assert_eq!(refused, Err(HandoffRefused::Full));
    pair.stack(SERVER).poll(now);
    let nic = &mut pair.nic(SERVER);
    let id = nic.functions().next().expect("it has one");
    assert!(nic.reset_function(id));
    pair.run_for(Duration::from_millis(10));
    hand_off(&mut pair, SERVER, second);
}

/// A segment that waits for room in the send ring goes before the offer, and the offer is not forgotten for that.
#[test]
fn a_connection_is_offered_behind_a_segment_that_waited_for_room() {
    let mut pair = hosts_with(|at, node| {
        if at == SERVER {
            node.function.send_entries = 8;
            node.function.command_entries = 8;
        }
    });
    let before = [in_use(&mut pair, CLIENT), in_use(&mut pair, SERVER)];
    let (client, server) = pair.connected(v4);
    let data = pattern(2_000_000);
    let mut asked = 0;
    exchange(&mut pair, (client, server), [&data, &data], 5, |pair, _| {
        let now = pair.now();
        match holder(pair, SERVER, server) {
            Some(Holder::Host) => {
                let begun = pair.stack(SERVER).hand_off(now, server);
                asked += u32::from(begun.is_ok());
            }
            _ => {
                pair.stack(SERVER).restore(now, server).expect("open");
            }
        }
    });
    pair.run_for(Duration::from_millis(50));
    if holder(&mut pair, SERVER, server) == Some(Holder::Nic) {
        restore(&mut pair, SERVER, server);
    }
    let refused = pair.counter(SERVER, "HandoffRefused") + pair.counter(SERVER, "HandoffWithheld");
    let accepted = pair.counter(SERVER, "HandoffAccepted");
    assert!(asked > 3 && accepted > 3, "{asked} {accepted} {refused}");
    pair.close(SERVER, server);
    pair.close(CLIENT, client);
    assert_all_given_back(&mut pair, before);
}
