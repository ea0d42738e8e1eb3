//! Memory that runs out, and comes back.

use std::time::Duration;

use handshake::{Certificate, Options, Trust, client_config, server_config};
use rustls::pki_types::ServerName;
use testkit::pattern;

use super::pair::{CLIENT, Fate, Pair, SERVER};
use crate::driver::Supply;
use crate::memory::{Buffer, Purpose, SizeClass};
use crate::{Event, Offload, SocketError, TlsRole};

/// Takes all the memory that the server has left.
pub fn hoard(pair: &mut Pair) -> Vec<Buffer> {
    hoard_for(pair, Purpose::Control)
}

/// Takes what the server has left for a purpose.
fn hoard_for(pair: &mut Pair, purpose: Purpose) -> Vec<Buffer> {
    let driver = &mut pair.hosts[SERVER].stack.transport_mut().device.driver;
    while driver.tail_room() > 0 {
        driver.take_tail(driver.tail_room());
    }
    let arena = driver.arena().clone();
    SizeClass::ALL
        .into_iter()
        .flat_map(|class| {
            let arena = arena.clone();
            std::iter::from_fn(move || arena.allocate_class(purpose, class))
        })
        .collect()
}

#[test]
fn a_writer_without_memory_hears_of_it_when_the_application_lets_some_go() {
    let mut pair = Pair::new();
    let (_, server) = pair.connect();
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
    let (client, server) = pair.connect();
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

/// Its peer would take all that it has read for a part of it.
#[test]
fn a_session_ends_in_order_without_memory_for_data() {
    let mut pair = Pair::new();
    let (client, server) = pair.secure();
    pair.run_for(Duration::from_millis(50));
    let held = hoard_for(&mut pair, Purpose::Queued);
    let now = pair.now;
    assert_eq!(pair.stack(SERVER).shutdown(now, server), Ok(()));
    pair.run_for(Duration::from_millis(50));
    let now = pair.now;
    let read = pair.stack(CLIENT).read(now, client, &mut [0; 9]);
    assert_eq!(read, Ok(0), "the end of all");
    drop(held);
}

#[test]
fn a_record_that_finds_no_memory_for_its_ciphertext_holds_nobody_up() {
    let mut pair = Pair::new();
    let (client, server) = pair.secure();
    let (other_client, other) = pair.connect();
    let data = pattern(20_000);
    let now = pair.now;
    assert_eq!(pair.stack(SERVER).write(now, server, &data), Ok(data.len()));
    assert_eq!(pair.stack(SERVER).write(now, other, &data), Ok(data.len()));
    let contexts = pair.hosts[SERVER]
        .stack
        .transport_mut()
        .device
        .driver
        .contexts_mut();
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
    let sockets: Vec<_> = (0..20).map(|_| pair.connect().1).collect();
    let data = pattern(20_000);
    let now = pair.now;
    for &id in &sockets {
        pair.stack(SERVER).write(now, id, &data).expect("room");
    }
    // The NIC sleeps.
    for _ in 0..1000 {
        pair.stack(SERVER).poll(now);
    }
    let schedule = &pair.hosts[SERVER].stack.transport_mut().schedule;
    assert!(schedule.unsent.is_some());
    let ready = schedule.ready();
    assert!(ready <= sockets.len() + 1, "{ready}");
}

/// Data and acknowledgments that ride on it: what can't be kept of the one must not hold up the other.
#[test]
fn without_memory_acknowledgments_still_count() {
    let mut pair = Pair::new();
    let (client, server) = pair.connect();
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
        pair.hosts[SERVER].stack.transport_mut().device.supply = Supply::Short {
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
