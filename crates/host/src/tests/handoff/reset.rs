//! The NIC is reset in the middle of everything.

use std::time::Duration;

use l5p::tls::Options;

use super::rig::{assert_all_given_back, exchange, hand_off, holder, in_use};
use crate::tests::pair::{CLIENT, Pair, SERVER, lossy, pattern, v4};
use crate::{Accel, CloseReason, Event, Holder, Offload, SpliceEnd, SpliceOptions};

fn reset(pair: &mut Pair, at: usize) {
    let id = pair.hosts[at].nic.functions().next().expect("it has one");
    assert!(pair.hosts[at].nic.reset_function(id));
}

#[test]
fn the_host_goes_on_from_what_it_was_told_last() {
    for (seed, loss) in [(1, 0.0), (2, 0.01), (3, 0.03)] {
        let mut pair = Pair::new();
        let before = [in_use(&mut pair, CLIENT), in_use(&mut pair, SERVER)];
        let (client, server) = pair.connect(v4);
        pair.wire = lossy(SERVER, loss, loss, seed);
        let data = pattern(3_000_000);
        exchange(
            &mut pair,
            (client, server),
            [&data, &data],
            7,
            |pair, turn| {
                if turn > 40 {
                    return;
                }
                if turn % 2 == 0 {
                    reset(pair, SERVER);
                } else {
                    let now = pair.now;
                    let _ = pair.stack(SERVER).hand_off(now, server);
                }
            },
        );
        assert!(pair.counter(SERVER, "NicResets") > 3);
        assert!(pair.counter(SERVER, "HandoffRecovered") > 3);
        let now = pair.now;
        pair.stack(SERVER).close(now, server).expect("open");
        pair.stack(CLIENT).close(now, client).expect("open");
        assert_all_given_back(&mut pair, before);
    }
}

#[test]
fn software_does_what_contexts_did() {
    let mut pair = Pair::new();
    let (client, server) = pair.secure(&Options::default(), [Offload::Both; 2]);
    let data = pattern(1_500_000);
    hand_off(&mut pair, SERVER, server);
    exchange(
        &mut pair,
        (client, server),
        [&data, &data],
        20,
        |pair, turn| {
            if turn == 1 {
                reset(pair, SERVER);
            }
        },
    );
    assert_eq!(pair.counter(SERVER, "NicResets"), 1);
    assert_eq!(holder(&mut pair, SERVER, server), Some(Holder::Host));
    assert!(pair.counter(SERVER, "TlsTxRecordsSw") > 0);
}

#[test]
fn a_connection_that_was_closing_closes() {
    let mut pair = Pair::new();
    let before = [in_use(&mut pair, CLIENT), in_use(&mut pair, SERVER)];
    let (client, server) = pair.connect(v4);
    hand_off(&mut pair, SERVER, server);
    let data = pattern(40_000);
    let now = pair.now;
    assert_eq!(pair.stack(SERVER).write(now, server, &data), Ok(data.len()));
    pair.stack(SERVER).close(now, server).expect("open");
    pair.step();
    reset(&mut pair, SERVER);
    let mut read = Vec::new();
    let mut buffer = vec![0; 10_000];
    let done = pair.run_until(Duration::from_secs(20), |pair| {
        let now = pair.now;
        loop {
            match pair.stack(CLIENT).read(now, client, &mut buffer) {
                Ok(0) => return true,
                Ok(bytes) => read.extend_from_slice(&buffer[..bytes]),
                Err(_) => return false,
            }
        }
    });
    assert!(done && read == data, "{}", read.len());
    let now = pair.now;
    pair.stack(CLIENT).close(now, client).expect("open");
    assert_all_given_back(&mut pair, before);
}

#[test]
fn of_what_was_spliced_the_application_is_told() {
    let mut pair = Pair::with(|at, (stack, _)| {
        if at == SERVER {
            stack.accel = Accel::ALL;
            stack.accel.setup = false;
        }
    });
    let (_, a) = pair.connect(v4);
    let (_, b) = pair.connect(v4);
    let now = pair.now;
    let options = SpliceOptions::default();
    let splice = pair
        .stack(SERVER)
        .splice(now, a, b, options)
        .expect("at rest");
    pair.run_for(Duration::from_millis(50));
    reset(&mut pair, SERVER);
    pair.run_for(Duration::from_millis(5));
    let told = pair.hosts[SERVER]
        .events
        .iter()
        .find_map(|event| match event {
            Event::SpliceEnded(handle, report) if *handle == splice => Some(report.reason),
            _ => None,
        });
    assert_eq!(told, Some(SpliceEnd::NicReset));
    let now = pair.now;
    let read = pair.stack(SERVER).read(now, a, &mut [0; 4]);
    assert_eq!(read, Err(crate::SocketError::Closed(CloseReason::NicReset)));
}
