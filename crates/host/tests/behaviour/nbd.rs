//! An NBD client on a stack, against a server that answers in any way that the protocol allows.

mod server;

use std::net::SocketAddr;

use handshake::{Options as TlsOptions, Trust, client_config};
use l5p::nbd::Cookie;
use proptest::prelude::*;
use rustls::pki_types::ServerName;
use wire::nbd::{REQUEST_LEN, Reply};

use super::disk::{self, BLOCK, DISK};
use crate::pair::{CLIENT, Connected as _, PORT, Pair, SERVER, hosts, slice, v4};
use host::TlsRole;
use host::disk::{Access, Client as _, Event, Operation, SubmitError};
use host::nbd::{Client, Failure, Options};
use server::{Server, Style};

type World = disk::World<Client, Server>;

fn world(style: Style, adjust: impl FnOnce(&mut Options)) -> World {
    let mut pair = hosts();
    let server = Server::new(&mut pair, style);
    let mut options = Options::new(SocketAddr::new(v4(SERVER), PORT), "disk");
    if style.tls {
        let config = client_config(Trust::Anyone, &TlsOptions::default()).unwrap();
        let name = ServerName::try_from("server.test").unwrap();
        options.tls = Some(TlsRole::Client { config, name });
    }
    adjust(&mut options);
    let client = Client::new(pair.now(), options);
    World::new(pair, server, client)
}

fn styles() -> impl Strategy<Value = Style> {
    (
        any::<bool>(),
        any::<bool>(),
        prop_oneof![Just(512u32), Just(4096), Just(1 << 20)],
        1usize..5,
    )
        .prop_map(|(structured, tls, chunk, batch)| Style {
            structured,
            tls,
            chunk,
            batch,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn what_is_read_is_what_the_disk_has_and_what_is_written_is_what_it_gets(
        style in styles(),
        placement in any::<bool>(),
        loss in prop_oneof![Just(0.0), Just(0.01)],
        seed in any::<u64>(),
        lens in prop::collection::vec(1u32..200, 1..6),
        depth in 1u16..20,
    ) {
        let mut world = world(style, |options| {
            options.placement = placement;
            options.depth = depth;
            options.map_threshold = 4096;
        });
        world.ready();
        world.move_everything(&lens, depth.into(), (loss, seed));
        let placed = world.pair.counter(CLIENT, "NbdRxBytesPlaced");
        prop_assert!(placement || placed == 0);
        if placement && loss == 0.0 && lens.iter().all(|len| *len > 64) {
            prop_assert!(placed > 0);
        }
        world.client.shutdown();
        world.run_until(|world| world.events.last() == Some(&Event::Ended(None)));
    }
}

const PLAIN: Style = Style {
    structured: true,
    tls: false,
    chunk: 4096,
    batch: 1,
};

#[test]
fn in_order_all_data_is_placed() {
    for structured in [false, true] {
        for tls in [false, true] {
            let style = Style {
                structured,
                tls,
                chunk: 1 << 20,
                batch: 1,
            };
            let mut world = world(style, |_| {});
            world.ready();
            for at in 0..4 {
                world.submit(Operation::Read, (1 + 3 * at) * (16 << 10), 32 << 10);
            }
            world.run_until(|world| world.results.len() == 4);
            let count = |name| world.pair.counter(CLIENT, name);
            let figures = (count("NbdRxBytesPlaced"), count("NbdRxBytesCopied"));
            assert_eq!(figures, (128 << 10, 0), "{style:?}");
        }
    }
}

#[test]
fn an_error_is_told_and_the_next_request_goes_on() {
    for structured in [false, true] {
        let style = Style {
            structured,
            ..PLAIN
        };
        let mut world = world(style, |_| {});
        world.ready();
        world.submit(Operation::Read, DISK as u64 - 4096, 4096);
        world.run_until(|world| !world.results.is_empty());
        let (_, result) = world.results.pop().unwrap();
        let words = match structured {
            true => "input/output error: bad block",
            false => "input/output error",
        };
        assert_eq!(result.unwrap_err().to_string(), words);
        world.submit(Operation::Flush, 0, 0);
        world.run_until(|world| !world.results.is_empty());
        assert_eq!(world.results.pop().unwrap().1, Ok(()));
    }
}

#[test]
fn what_can_be_no_request_is_refused_before_it_is_sent() {
    let mut world = world(PLAIN, |options| options.depth = 1);
    let submit = |world: &mut World, offset, len, given| {
        let slice = slice(world.region, 0, given);
        let access = Access {
            operation: Operation::Read,
            offset,
            len,
        };
        world.client.submit(access, &[slice])
    };
    let early = submit(&mut world, 0, 512, 512);
    assert_eq!(early, Err(SubmitError::NotConnected));
    world.ready();
    for (offset, len) in [
        (1, 512),
        (0, 100),
        (0, 0),
        (0, (1 << 19) + 512),
        (DISK as u64, 512),
        (u64::MAX - 511, 512),
    ] {
        let refused = submit(&mut world, offset, len, 1 << 20);
        assert_eq!(refused, Err(SubmitError::Range { offset, len }));
    }
    let short = submit(&mut world, 0, 1024, 512);
    let memory = SubmitError::Memory {
        needed: 1024,
        given: 512,
    };
    assert_eq!(short, Err(memory));
    assert!(submit(&mut world, 0, 512, 512).is_ok());
    assert_eq!(submit(&mut world, 0, 512, 512), Err(SubmitError::Full));
}

#[test]
fn what_the_server_does_not_have_is_told() {
    let mut world = world(PLAIN, |options| options.export = "tape".to_owned());
    world.run_until(|world| !world.events.is_empty());
    let [Event::Ended(Some(failure))] = &world.events[..] else {
        panic!("{:?}", world.events);
    };
    let words = "the server has no export \"tape\": no such disk";
    assert_eq!(failure.to_string(), words);
}

/// What the server has said is on its way, and a reset behind it, before the client looks.
fn reset_behind_what_was_said(world: &mut World) {
    let deliver = |world: &mut World| {
        for _ in 0..100 {
            while world.pair.step() {}
            world.pair.advance();
        }
    };
    deliver(world);
    let (now, socket) = (world.pair.now(), world.server.socket.unwrap());
    world.pair.stack(SERVER).abort(now, socket).unwrap();
    deliver(world);
    for _ in 0..100 {
        world.step();
        world.pair.advance();
    }
    world.pair.assert_no_sockets(CLIENT);
}

#[test]
fn the_reason_for_a_reset_is_what_came_before_it() {
    let mut world = world(PLAIN, |options| options.export = "tape".to_owned());
    while !world.server.has_refused {
        if !world.step() {
            world.pair.advance();
        }
    }
    assert!(world.events.is_empty());
    reset_behind_what_was_said(&mut world);
    let [Event::Ended(Some(Failure::Handshake(error)))] = &world.events[..] else {
        panic!("{:?}", world.events);
    };
    let words = "the server has no export \"tape\": no such disk";
    assert_eq!(error.to_string(), words);
}

#[test]
fn a_connection_ends_once() {
    let mut world = world(PLAIN, |_| {});
    world.ready();
    world.server.put(&Reply::simple(7, Ok(())));
    assert!(disk::Server::poll(&mut world.server, &mut world.pair));
    reset_behind_what_was_said(&mut world);
    assert_eq!(world.events.len(), 2, "{:?}", world.events);
    world.client.shutdown();
    assert_eq!(world.client.poll_timeout(), None);
}

#[test]
fn a_completion_that_was_not_looked_at_is_looked_at_before_sleeping() {
    let mut world = world(PLAIN, |_| {});
    world.ready();
    world.submit(Operation::Flush, 0, 0);
    for _ in 0..100 {
        while world.step_without_completions() {}
        world.pair.advance();
    }
    let at_once = |at| at <= world.pair.now();
    assert!(world.client.poll_timeout().is_some_and(at_once));
    assert!(world.client.poll_completion().is_some());
    assert_eq!(world.client.poll_timeout(), None);
}

#[test]
fn requests_end_with_the_connection() {
    let mut world = world(PLAIN, |_| {});
    world.ready();
    world.lose_everything(|server| server.socket.unwrap());
}

#[test]
fn a_reply_to_nothing_ends_the_connection() {
    let mut world = world(PLAIN, |_| {});
    world.ready();
    world.server.put(&Reply::simple(7, Ok(())));
    world.run_until(|world| world.events.len() > 1);
    let Some(Event::Ended(Some(Failure::Transport(reason)))) = world.events.last() else {
        panic!("{:?}", world.events);
    };
    assert_eq!(
        reason,
        "the peer sent a PDU that breaks NBD: a reply with cookie 0x0000000000000007, which no request has"
    );
}

/// Bytes that the client's TCP was given in all.
fn queued(pair: &Pair) -> u64 {
    let mut sockets = pair.stack_ref(CLIENT).sockets();
    let socket = sockets.find(|socket| socket.id.is_some());
    let socket = socket.expect("a connection");
    socket.tcp.expect("TCP").bytes_acked + socket.send_queue as u64
}

#[test]
fn a_write_that_waits_for_room_is_not_complete_whatever_the_server_says() {
    let mut world = world(PLAIN, |options| options.depth = 16);
    world.ready();
    world.server.is_stalled = true;
    let lens = (0..16).map(|n| (1 << 19) - n * BLOCK);
    let before = queued(&world.pair);
    for len in lens.clone() {
        world.submit(Operation::Write, 0, len);
    }
    for _ in 0..2000 {
        world.step();
        world.pair.advance();
    }
    // The first request that TCP was not given; all before it are whole.
    let waiting = |world: &World| {
        let mut left = queued(&world.pair) - before;
        let whole = lens.clone().take_while(|len| {
            let request = REQUEST_LEN as u64 + u64::from(*len);
            let fits = request <= left;
            left -= if fits { request } else { 0 };
            fits
        });
        let whole = whole.count() as u16;
        assert_eq!(left, 0);
        whole
    };
    let first = waiting(&world);
    assert!(first < 16, "there is no more room");
    // Cookies can be guessed.
    for tag in 0..=first {
        let cookie = Cookie {
            tag,
            generation: 1,
            low: 0,
        };
        world.server.put(&Reply::simple(cookie.to_bits(), Ok(())));
    }
    for _ in 0..2000 {
        world.step();
        world.pair.advance();
    }
    assert_eq!(waiting(&world), first);
    let places: Vec<_> = world.results.iter().map(|(place, _)| *place).collect();
    assert!(!places.contains(&usize::from(first)), "{places:?}");
    world.server.is_stalled = false;
    world.run_until(|world| world.results.len() == 16);
    world.pair.assert_no_sockets(CLIENT);
}
