//! Memory that runs out, and comes back.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use handshake::{Certificate, Options, Trust, client_config, server_config};
use rustls::pki_types::ServerName;

use super::pair::{CLIENT, Fate, Pair, SERVER, pattern, v4};
use crate::driver::Supply;
use crate::memory::{Buffer, SizeClass};
use crate::{Event, Offload, SocketError, SocketId, TlsRole};

/// Takes all the memory that the server has left.
fn hoard(pair: &mut Pair) -> Vec<Buffer> {
    let driver = &mut pair.hosts[SERVER].stack.core.driver;
    while driver.tail_room() > 0 {
        driver.take_tail(driver.tail_room());
    }
    let arena = driver.arena().clone();
    SizeClass::ALL
        .into_iter()
        .flat_map(|class| {
            let arena = arena.clone();
            std::iter::from_fn(move || arena.allocate_class(class))
        })
        .collect()
}

#[test]
fn a_writer_without_memory_hears_of_it_when_the_application_lets_some_go() {
    let mut pair = Pair::new();
    let (_, server) = pair.connect(v4);
    pair.run_for(Duration::from_millis(50));
    let held = hoard(&mut pair);
    let now = pair.now;
    assert_eq!(
        pair.stack(SERVER).write(now, server, b"x"),
        Err(SocketError::WouldBlock)
    );
    pair.run_for(Duration::from_millis(50));
    let writable = Event::Writable(server);
    assert!(!pair.hosts[SERVER].events.contains(&writable));
    drop(held);
    pair.run_for(Duration::from_millis(50));
    assert!(pair.hosts[SERVER].events.contains(&writable));
    let now = pair.now;
    assert_eq!(pair.stack(SERVER).write(now, server, b"x"), Ok(1));
}

#[test]
fn a_handshake_without_memory_goes_on_when_there_is_some() {
    let mut pair = Pair::new();
    let (client, server) = pair.connect(v4);
    pair.run_for(Duration::from_millis(50));
    let held = hoard(&mut pair);
    let now = pair.now;
    let options = Options::default();
    let config = client_config(Trust::Anyone, &options).expect("a configuration");
    let name = ServerName::try_from("server.test").expect("a name");
    pair.stack(CLIENT)
        .start_tls(now, client, TlsRole::Client { config, name }, Offload::None)
        .expect("starts");
    // Too long for the memory of the packet that it answers.
    let names = (0..200).map(|at| format!("{at}.server.test"));
    let certificate = Certificate::self_signed(names).expect("a certificate");
    let config = server_config(certificate, &options).expect("a configuration");
    pair.stack(SERVER)
        .start_tls(now, server, TlsRole::Server { config }, Offload::None)
        .expect("starts");
    pair.run_for(Duration::from_millis(100));
    let secured = Event::Secured(server);
    assert!(!pair.hosts[SERVER].events.contains(&secured));
    drop(held);
    pair.run_for(Duration::from_millis(100));
    assert!(pair.hosts[SERVER].events.contains(&secured));
}

#[test]
fn a_record_that_finds_no_memory_for_its_ciphertext_holds_nobody_up() {
    let mut pair = Pair::new();
    let (client, server) = pair.secure(&Options::default(), [Offload::Both; 2]);
    let (other_client, other) = pair.connect(v4);
    let data = pattern(20_000);
    let now = pair.now;
    assert_eq!(pair.stack(SERVER).write(now, server, &data), Ok(data.len()));
    assert_eq!(pair.stack(SERVER).write(now, other, &data), Ok(data.len()));
    let contexts = pair.hosts[SERVER].stack.core.driver.contexts_mut();
    contexts.iter_mut().for_each(|shadow| shadow.failed = true);
    let held = hoard(&mut pair);
    let read = |pair: &mut Pair, id, len: usize| {
        let (mut received, mut buffer) = (Vec::new(), [0; 5000]);
        pair.run_until(Duration::from_secs(5), |pair| {
            let now = pair.now;
            while let Ok(bytes) = pair.stack(CLIENT).read(now, id, &mut buffer) {
                received.extend_from_slice(&buffer[..bytes]);
            }
            received.len() >= len
        });
        received
    };
    assert!(read(&mut pair, other_client, data.len()) == data);
    drop(held);
    assert!(read(&mut pair, client, data.len()) == data);
}

#[test]
fn a_full_ring_makes_no_queue_grow() {
    let mut pair = Pair::with(|_, (_, function)| function.send_entries = 16);
    let sockets: Vec<_> = (0..20).map(|_| pair.connect(v4).1).collect();
    let data = pattern(20_000);
    let now = pair.now;
    for &id in &sockets {
        pair.stack(SERVER).write(now, id, &data).expect("room");
    }
    // The NIC sleeps.
    for _ in 0..1000 {
        pair.stack(SERVER).poll(now);
    }
    let core = &pair.hosts[SERVER].stack.core;
    assert!(core.unsent.is_some());
    assert!(
        core.ready.len() <= sockets.len() + 1,
        "{}",
        core.ready.len()
    );
}

/// Data and acknowledgments that ride on it: what can't be kept of the one must not hold up the other.
#[test]
fn without_memory_acknowledgments_still_count() {
    let mut pair = Pair::new();
    let (client, server) = pair.connect(v4);
    let data = pattern(400_000);
    let now = pair.now;
    pair.stack(CLIENT).write(now, client, &data).expect("room");
    pair.run_for(Duration::from_millis(50));
    let now = pair.now;
    pair.stack(CLIENT).write(now, client, &data).expect("room");
    pair.stack(SERVER)
        .write(now, server, &data[..10_000])
        .expect("room");
    let segment = 1000;
    pair.wire = Box::new(move |from, frame| {
        if from == CLIENT && frame.len() < segment {
            Fate::Drop
        } else {
            Fate::Pass
        }
    });
    let mut acked = 0;
    for _ in 0..20_000 {
        pair.hosts[SERVER].stack.core.supply = Supply::Short {
            left: 8,
            reserve: 0,
        };
        pair.step();
        pair.now += Duration::from_micros(50);
        let info = pair.hosts[SERVER]
            .stack
            .info(server)
            .and_then(|info| info.tcp);
        acked = info.expect("TCP").bytes_acked;
    }
    assert!(pair.counter(SERVER, "DriverRxNoMemory") > 0);
    assert_eq!(acked, 10_000);
}

/// A connection that is busy now and then leaves no trail of timers.
#[test]
fn stale_timers_are_bounded() {
    let keep_alive = tcp::KeepAlive::default();
    let mut pair = Pair::with(|_, (config, _)| config.tcp.keep_alive = Some(keep_alive));
    let (client, server) = pair.connect(v4);
    for _ in 0..2500 {
        assert_eq!(pair.transfer(CLIENT, client, server, b"x"), b"x");
        for _ in 0..3 {
            pair.now += Duration::from_millis(100);
            while pair.step() {}
        }
    }
    for at in [CLIENT, SERVER] {
        let timers = pair.hosts[at].stack.core.timers.len();
        assert!(timers <= 1024 + 2, "{timers}");
    }
}

/// Connections whose data nobody can read yet, until memory is short and then some; and one more, which carries data all
/// the same.
fn crowd(pair: &mut Pair, send: impl Fn(&mut Pair, SocketId)) -> Vec<(SocketId, SocketId)> {
    const MOST: usize = 2000;
    let (client, server) = pair.connect(v4);
    let (mut crowd, mut more) = (Vec::new(), 100);
    while more > 0 {
        assert!(crowd.len() < MOST, "too few of them");
        let (client, server) = pair.connect(v4);
        crowd.push((client, server));
        send(pair, client);
        if pair.counter(SERVER, "DriverRxNoMemory") > 0 {
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
            let now = pair.now;
            while let Ok(bytes) = pair.stack(SERVER).read(now, server, &mut buffer) {
                received += bytes;
            }
            received >= len
        });
        assert_eq!(received, len);
    }
}

#[test]
fn many_records_received_by_half_in_short_segments_leave_memory_to_others() {
    let mut pair = Pair::new();
    let crowd = crowd(&mut pair, |pair, client| {
        pair.stack(CLIENT).set_nodelay(client, true).expect("open");
        for _ in 0..24 {
            let now = pair.now;
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
    let mut pair = Pair::with(|at, (config, _)| {
        if at == CLIENT {
            return;
        }
        config.arena.record = 128;
        config.arena.large = 320;
    });
    let lossy = Rc::new(Cell::new(true));
    let is_lossy = Rc::clone(&lossy);
    pair.wire = Box::new(move |from, frame| {
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
        let now = pair.now;
        let written = pair.stack(CLIENT).write(now, client, &record);
        assert_eq!(written, Ok(record.len()));
        pair.run_for(Duration::from_micros(100));
    });
    lossy.set(false);
    read_all(&mut pair, &crowd, len);
}
