//! Memory that runs out, and comes back.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use crate::pair::{CLIENT, Connected as _, Pair, SERVER, hosts_with, v4};
use host::SocketId;
use sim::Fate;
use testkit::pattern;

/// Connections whose data nobody can read yet, until memory is short and then some; and one more, which carries data all
/// the same.
fn crowd(pair: &mut Pair, send: impl Fn(&mut Pair, SocketId)) -> Vec<(SocketId, SocketId)> {
    const MOST: usize = 2000;
    let (client, server) = pair.connected(v4);
    let (mut crowd, mut more) = (Vec::new(), 100);
    while more > 0 {
        assert!(crowd.len() < MOST, "too few of them");
        let (client, server) = pair.connected(v4);
        crowd.push((client, server));
        send(pair, client);
        let is_short = ["DriverRxNoMemory", "TcpExtOfoPruned"]
            .iter()
            .any(|name| pair.counter(SERVER, name) > 0);
        if is_short {
            more -= 1;
        }
    }
    let data = pattern(64 << 10);
    assert!(pair.transfer(CLIENT, client, server, &data) == data);
    crowd
}

/// What all of them have sent arrives when it is read.
fn read_all(pair: &mut Pair, crowd: &[(SocketId, SocketId)], len: usize) {
    let mut buffer = vec![0; 4096];
    for &(_, server) in crowd {
        let mut received = 0;
        pair.run_until(Duration::from_secs(60), |pair| {
            let now = pair.now();
            while let Ok(bytes) = pair.stack(SERVER).read(now, server, &mut buffer) {
                received += bytes;
            }
            received >= len
        });
        assert_eq!(received, len);
    }
}

#[test]
fn memory_that_is_needed_no_more_is_given_back() {
    const SLACK: u64 = 9 << 20;
    let mut pair = hosts_with(|_, node| node.stack.memory = 512 << 20);
    let data = pattern(256 << 10);
    let connections: Vec<_> = (0..64).map(|_| pair.connected(v4)).collect();
    let before = pair.stack(CLIENT).memory();
    for &(client, _) in &connections {
        assert!(pair.write(CLIENT, client, &data) >= data.len() / 2);
    }
    let held = pair.stack(CLIENT).memory();
    assert!(held.queued >= 8 << 20, "{held:?}");
    let now = pair.now();
    for (client, _) in connections {
        pair.stack(CLIENT).abort(now, client).expect("it is open");
    }
    pair.run_for(Duration::from_secs(5));
    let after = pair.stack(CLIENT).memory();
    // A block is kept for what is written next.
    assert!(after.queued < 128 << 10, "{after:?}");
    assert!(
        after.resident <= before.resident.max(after.used) + SLACK,
        "{after:?} {before:?}"
    );
}

#[test]
fn packets_that_wait_to_be_read_take_little_more_memory_than_they_are_long() {
    const PACKETS: usize = 60;
    const BYTES: usize = 2500;
    for drops_first in [false, true] {
        let mut pair = hosts_with(|_, _| {});
        let (client, server) = pair.connected(v4);
        pair.stack(CLIENT).set_nodelay(client, true).expect("open");
        let lossy = Rc::new(Cell::new(drops_first));
        let is_lossy = Rc::clone(&lossy);
        pair.decide(move |from, _, frame| {
            let drops = from == CLIENT && frame.len() > BYTES / 2 && is_lossy.replace(false);
            if drops { Fate::Drop } else { Fate::Pass }
        });
        for _ in 0..PACKETS {
            assert_eq!(pair.write(CLIENT, client, &[1; BYTES]), BYTES);
            pair.run_for(Duration::from_micros(100));
        }
        let received = pair.stack(SERVER).memory().received;
        assert!(received >= (PACKETS * BYTES) as u64 / 2, "{received}");
        assert!(received <= 512 << 10, "{received}");
        read_all(&mut pair, &[(client, server)], PACKETS * BYTES);
    }
}

#[test]
fn many_records_received_by_half_in_short_segments_leave_memory_to_others() {
    let mut pair = hosts_with(|_, node| node.stack.memory = 26 << 20);
    let crowd = crowd(&mut pair, |pair, client| {
        pair.stack(CLIENT).set_nodelay(client, true).expect("open");
        for _ in 0..24 {
            let now = pair.now();
            let written = pair.stack(CLIENT).write(now, client, &[1; 300]);
            assert_eq!(written, Ok(300));
            while pair.step() {}
        }
        pair.run_for(Duration::from_micros(100));
    });
    read_all(&mut pair, &crowd, 24 * 300);
}

#[test]
fn many_records_whose_first_packet_is_lost_leave_memory_to_others() {
    const MARK: [u8; 8] = *b"the head";
    let mut pair = hosts_with(|at, node| {
        if at == CLIENT {
            node.stack.memory = 128 << 20;
            return;
        }
        node.stack.memory = 45 << 20;
    });
    let lossy = Rc::new(Cell::new(true));
    let is_lossy = Rc::clone(&lossy);
    pair.decide(move |from, _, frame| {
        let marked = frame.windows(MARK.len()).any(|bytes| bytes == MARK);
        if from == CLIENT && marked && is_lossy.get() {
            Fate::Drop
        } else {
            Fate::Pass
        }
    });
    let mut record = vec![1; 12_000];
    record[..MARK.len()].copy_from_slice(&MARK);
    let len = record.len();
    let crowd = crowd(&mut pair, |pair, client| {
        let now = pair.now();
        let written = pair.stack(CLIENT).write(now, client, &record);
        assert_eq!(written, Ok(record.len()));
        pair.run_for(Duration::from_micros(100));
    });
    lossy.set(false);
    read_all(&mut pair, &crowd, len);
}
