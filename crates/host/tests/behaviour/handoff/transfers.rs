//! Bytes are the same whoever runs TCP, and while it changes hands.

use std::time::Duration;

use super::rig::{exchange, hand_off, holder, restore};
use crate::pair::{CLIENT, Connected as _, Pair, SERVER, hosts, lossy, region, slice, v4, v6};
use host::Holder;
use testkit::pattern;

#[test]
fn the_nic_runs_a_connection_and_the_host_sees_no_segment_of_it() {
    for ip in [v4, v6] {
        let mut pair = hosts();
        let (client, server) = pair.connected(ip);
        hand_off(&mut pair, SERVER, server);
        let segments = [
            pair.counter(SERVER, "TcpInSegs"),
            pair.counter(SERVER, "TcpOutSegs"),
        ];
        let large = pair.nic_counter(SERVER, "tx_tso_packets");
        let data = pattern(3_000_000);
        assert!(pair.transfer(SERVER, server, client, &data) == data);
        assert!(pair.transfer(CLIENT, client, server, &data) == data);
        let after = [
            pair.counter(SERVER, "TcpInSegs"),
            pair.counter(SERVER, "TcpOutSegs"),
        ];
        assert_eq!(after, segments);
        assert!(pair.nic_counter(SERVER, "toe_tx_packets") > 2000);
        // It cuts them of segments of many times their size.
        let large = pair.nic_counter(SERVER, "tx_tso_packets") - large;
        assert!((10..1000).contains(&large), "{large}");
        assert!(pair.counter(SERVER, "HandoffDelivered") > 40);
        assert_eq!(pair.counter(SERVER, "HandoffStale"), 0);
        restore(&mut pair, SERVER, server);
        assert!(pair.transfer(SERVER, server, client, &data) == data);
        assert!(pair.counter(SERVER, "TcpOutSegs") > segments[1]);
    }
}

#[test]
fn both_ends_can_be_run_by_their_nics() {
    let mut pair = hosts();
    let (client, server) = pair.connected(v4);
    hand_off(&mut pair, CLIENT, client);
    hand_off(&mut pair, SERVER, server);
    let data = pattern(1_000_000);
    exchange(
        &mut pair,
        (client, server),
        [&data, &data],
        1 << 30,
        |_, _| {},
    );
}

#[test]
fn handing_off_and_restoring_in_the_middle_changes_no_byte() {
    for (seed, loss) in [(1, 0.0), (2, 0.01), (3, 0.03)] {
        let mut pair = hosts();
        let (client, server) = pair.connected(v4);
        pair.decide(lossy(
            if seed == 2 { CLIENT } else { SERVER },
            loss,
            loss,
            seed,
        ));
        let data = pattern(4_000_000);
        let mut moves = 0;
        exchange(
            &mut pair,
            (client, server),
            [&data, &data],
            3,
            |pair, turn| {
                let now = pair.now();
                let (at, id) = [(SERVER, server), (CLIENT, client)][turn as usize % 2];
                if holder(pair, at, id) == Some(Holder::Nic) {
                    assert_eq!(pair.stack(at).restore(now, id), Ok(true));
                } else if pair.stack(at).hand_off(now, id).is_ok() {
                    moves += 1;
                }
            },
        );
        assert!(moves > 20, "{moves} with seed {seed}");
        for at in [CLIENT, SERVER] {
            assert!(pair.counter(at, "HandoffAccepted") > 5);
            assert!(pair.counter(at, "HandoffRestored") > 5);
            assert_eq!(pair.counter(at, "DriverErrors"), 0);
        }
    }
}

#[test]
fn bytes_are_counted_once_by_whichever_side_runs_the_connection() {
    for (seed, loss) in [(1, 0.0), (2, 0.02)] {
        let mut pair = hosts();
        let (client, server) = pair.connected(v4);
        pair.decide(lossy(SERVER, loss, loss, seed));
        let data = pattern(1_000_000);
        exchange(
            &mut pair,
            (client, server),
            [&data, &data],
            5,
            |pair, turn| {
                let now = pair.now();
                match turn % 5 {
                    4 => pair.reset_nic(SERVER),
                    2 => drop(pair.stack(SERVER).restore(now, server)),
                    _ => drop(pair.stack(SERVER).hand_off(now, server)),
                }
            },
        );
        pair.shutdown(SERVER, server);
        pair.run_for(Duration::from_secs(1));
        pair.close(CLIENT, client);
        pair.run_for(Duration::from_secs(1));
        let info = pair.stack(SERVER).info(server).expect("in TIME-WAIT");
        let tcp = info.tcp.expect("a connection");
        let len = data.len() as u64;
        assert_eq!((tcp.bytes_acked, tcp.bytes_received), (len, len));
        assert_eq!(info.send_queue, 0);
    }
}

#[test]
fn what_was_written_while_the_connection_changes_hands_is_sent_once() {
    let mut pair = hosts();
    let (client, server) = pair.connected(v4);
    let data = pattern(400_000);
    let mut sent = 0;
    // Something is in flight, something was never sent, and more is written in every phase.
    let mut write = |pair: &mut Pair, bytes: usize| {
        sent += pair.write(SERVER, server, &data[sent..sent + bytes]);
    };
    write(&mut pair, 100_000);
    let now = pair.now();
    assert_eq!(pair.stack(SERVER).hand_off(now, server), Ok(()));
    for _ in 0..20 {
        write(&mut pair, 1000);
        pair.step();
    }
    pair.run_for(Duration::from_millis(20));
    let now = pair.now();
    assert_eq!(pair.stack(SERVER).restore(now, server), Ok(true));
    for _ in 0..20 {
        write(&mut pair, 1000);
        pair.step();
    }
    let mut read = Vec::new();
    pair.run_until(Duration::from_secs(10), |pair| {
        pair.read(CLIENT, client, &mut read);
        read.len() >= sent
    });
    assert!(
        sent > 130_000 && read == data[..sent],
        "{sent} {}",
        read.len()
    );
    assert_eq!(pair.counter(SERVER, "HandoffRestored"), 1);
}

#[test]
fn a_reader_that_is_slow_closes_the_window_and_opens_it_again() {
    let mut pair = hosts();
    let (client, server) = pair.connected(v4);
    hand_off(&mut pair, SERVER, server);
    let data = pattern(8_000_000);
    let (mut written, mut read) = (0, Vec::new());
    let mut buffer = vec![0; 30_000];
    for turn in 0..2000 {
        written += pair.write(CLIENT, client, &data[written..]);
        pair.run_for(Duration::from_millis(1));
        let now = pair.now();
        if turn > 100
            && let Ok(bytes) = pair.stack(SERVER).read(now, server, &mut buffer)
        {
            read.extend_from_slice(&buffer[..bytes]);
        }
    }
    assert!(read == data, "{written} {}", read.len());
}

#[test]
fn memory_sent_in_place_is_given_back_when_it_is_acknowledged() {
    let mut pair = hosts();
    let (client, server) = pair.connected(v4);
    let data = pattern(1 << 20);
    let region = region(&data);
    let region = pair.register(SERVER, region, "file");
    pair.stack(SERVER).watch(region);
    hand_off(&mut pair, SERVER, server);
    let (mut queued, mut released, mut read) = (0usize, 0u64, Vec::new());
    let done = pair.run_until(Duration::from_secs(60), |pair| {
        let now = pair.now();
        if queued < data.len() {
            let slice = slice(
                region,
                queued as u64,
                (data.len() - queued).min(100_000) as u32,
            );
            if let Ok(bytes) = pair.stack(SERVER).send_slices(now, server, &[slice]) {
                queued += bytes;
            }
        }
        pair.read(CLIENT, client, &mut read);
        while let Some(slice) = pair.stack(SERVER).poll_released() {
            released += u64::from(slice.len);
        }
        read.len() == data.len() && released == data.len() as u64
    });
    assert!(done && read == data, "{queued} {} {released}", read.len());
    assert_eq!(holder(&mut pair, SERVER, server), Some(Holder::Nic));
}
