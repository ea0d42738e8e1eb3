//! A host on a function without features that the host was told to use.

use std::time::Duration;

use nic::Features;

use super::pair::{CLIENT, Pair, SERVER};
use crate::{Accel, Event, SpliceOptions};

/// The server asks for all that its NIC may do for connections; its function has all features but one.
fn without(feature: Features) -> Pair {
    Pair::with(|at, (config, function)| {
        if at == SERVER {
            config.accel = Accel::ALL;
            function.features = Features::ALL.without(feature);
        }
    })
}

#[test]
fn a_close_that_the_nic_refuses_for_want_of_the_feature_is_finished_by_the_host() {
    let mut pair = without(Features::TEARDOWNS);
    let (client, server) = pair.connect();
    let now = pair.now;
    assert_eq!(pair.stack(SERVER).write(now, server, &[7; 1000]), Ok(1000));
    pair.stack(SERVER).close(now, server).expect("closes");
    pair.run_for(Duration::from_secs(5));
    let mut buffer = [0; 2000];
    let now = pair.now;
    let read = pair.stack(CLIENT).read(now, client, &mut buffer);
    let end = pair.stack(CLIENT).read(now, client, &mut buffer);
    assert_eq!((read, end), (Ok(1000), Ok(0)));
    assert_eq!(pair.counter(SERVER, "AccelTeardownsRefused"), 1);
}

#[test]
fn a_splice_that_the_nic_refuses_for_want_of_the_feature_is_told_as_refused() {
    let mut pair = without(Features::SPLICES);
    let (_, a) = pair.connect();
    let (_, b) = pair.connect();
    let now = pair.now;
    let asked = (pair.stack(SERVER)).splice(now, a, b, SpliceOptions::default());
    asked.expect("may be asked for");
    pair.run_for(Duration::from_secs(5));
    let events = &pair.hosts[SERVER].events;
    let is_refused = |event: &Event| matches!(event, Event::SpliceRefused(..));
    assert!(events.iter().any(is_refused), "{events:?}");
}

#[test]
fn a_listener_that_the_nic_refuses_for_want_of_the_feature_is_answered_by_the_host() {
    let mut pair = without(Features::LISTENERS);
    let (client, server) = pair.connect();
    let now = pair.now;
    assert_eq!(pair.stack(CLIENT).write(now, client, &[7; 1000]), Ok(1000));
    pair.run_for(Duration::from_secs(1));
    let mut buffer = [0; 2000];
    let now = pair.now;
    assert_eq!(pair.stack(SERVER).read(now, server, &mut buffer), Ok(1000));
}
