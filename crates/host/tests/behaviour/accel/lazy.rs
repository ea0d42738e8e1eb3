//! Connections that the NIC has set up, and what makes a quasi control block a full one.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use super::rig::{accept, assert_nothing_left, listen, open, pair, pair_with, read, request};
use crate::pair::{CLIENT, Pair, SERVER, region, slice, v4, v6};
use host::{Accel, CloseReason, Event, Holder, ListenOptions, SocketError, SocketId};
use sim::Fate;
use testkit::pattern;

fn holder(pair: &mut Pair, socket: SocketId) -> Holder {
    pair.stack(SERVER).info(socket).expect("a socket").holder
}

/// A connection whose request waits to be read, in a quasi control block.
fn quasi(pair: &mut Pair, data: &[u8]) -> (SocketId, SocketId) {
    let listener = listen(pair, v4, ListenOptions::default());
    let client = open(pair, v4);
    request(pair, client, data);
    let server = accept(pair, listener);
    pair.run_until(Duration::from_millis(20), |pair| {
        pair.events(SERVER).contains(&Event::Readable(server))
    });
    assert_eq!(holder(pair, server), Holder::HostQuasi);
    (client, server)
}

/// The whole of a short connection, and never a full control block.
#[test]
fn a_request_and_its_response_need_forty_bytes() {
    for (ip, defer) in [
        (v4 as fn(usize) -> _, false),
        (v4, true),
        (v6, false),
        (v6, true),
    ] {
        let mut pair = pair(Accel::ALL);
        let listener = listen(
            &mut pair,
            ip,
            ListenOptions {
                defer,
                ..ListenOptions::default()
            },
        );
        let client = open(&mut pair, ip);
        request(&mut pair, client, &pattern(64));
        let server = accept(&mut pair, listener);
        assert!(pair.run_until(Duration::from_millis(20), |pair| {
            pair.events(SERVER).contains(&Event::Readable(server))
        }));
        let info = pair.stack(SERVER).info(server).expect("a socket");
        assert_eq!(
            (info.state, info.holder, info.receive_queue),
            ("ESTAB", Holder::HostQuasi, 64)
        );
        assert_eq!(info.local.ip(), ip(SERVER));
        assert_eq!(info.remote.ip(), ip(CLIENT));
        let now = pair.now();
        let chunk = pair
            .stack(SERVER)
            .read_chunk(now, server)
            .expect("data")
            .expect("not the end");
        assert_eq!(&chunk[..], &pattern(64)[..]);
        let again = pair.stack(SERVER).read_chunk(now, server);
        assert!(matches!(again, Err(SocketError::WouldBlock)));
        let response = pattern(1000);
        assert_eq!(pair.write(SERVER, server, &response), 1000);
        pair.close(SERVER, server);
        assert_eq!(
            pair.stack(SERVER).close(now, server),
            Err(SocketError::NotFound)
        );
        drop(chunk);
        assert_eq!(read(&mut pair, CLIENT, client, None), response);
        pair.close(CLIENT, client);
        pair.run_for(Duration::from_millis(50));
        let closed = pair.events(CLIENT).iter().find_map(|event| match event {
            Event::Closed(id, reason) if *id == client => Some(reason.clone()),
            _ => None,
        });
        assert!(matches!(closed, None | Some(CloseReason::Graceful)));
        assert_eq!(pair.counter(SERVER, "AccelSetups"), 1);
        assert_eq!(pair.counter(SERVER, "AccelQuasiPromoted"), 0);
        assert_eq!(pair.counter(SERVER, "AccelTeardowns"), 1);
        assert_eq!(pair.counter(SERVER, "AccelTeardownsRefused"), 0);
        assert_eq!(
            pair.counter(SERVER, "TcpOutSegs"),
            0,
            "the NIC has sent it all"
        );
        assert_nothing_left(&mut pair);
    }
}

/// Whatever the application does, the id stays and the connection goes on.
#[test]
fn what_forty_bytes_cannot_say_makes_a_full_control_block() {
    type Act = fn(&mut Pair, SocketId, SocketId);
    let acts: [(&str, Act); 6] = [
        ("a second segment", |pair, client, _| {
            pair.stack(CLIENT).set_nodelay(client, true).expect("open");
            pair.write(CLIENT, client, b"more");
            pair.run_for(Duration::from_millis(5));
        }),
        ("a response and no close", |pair, _, server| {
            pair.write(SERVER, server, b"answer");
            pair.run_for(Duration::from_millis(1));
        }),
        ("two writes", |pair, _, server| {
            pair.write(SERVER, server, b"ans");
            pair.write(SERVER, server, b"wer");
        }),
        ("a long write", |pair, _, server| {
            let now = pair.now();
            let written = pair.stack(SERVER).write(now, server, &pattern(100_000));
            assert_eq!(written, Ok(100_000));
        }),
        ("registered memory", |pair, _, server| {
            let now = pair.now();
            let region = pair.register(SERVER, region(&pattern(100)), "file");
            let slice = slice(region, 0, 100);
            assert_eq!(
                pair.stack(SERVER).send_slices(now, server, &[slice]),
                Ok(100)
            );
        }),
        ("the delayed acknowledgement", |pair, _, _| {
            pair.run_for(Duration::from_millis(45));
        }),
    ];
    for (what, act) in acts {
        let mut pair = pair(Accel::ALL);
        let (client, server) = quasi(&mut pair, b"request");
        act(&mut pair, client, server);
        assert_eq!(holder(&mut pair, server), Holder::Host, "{what}");
        assert_eq!(pair.counter(SERVER, "AccelQuasiPromoted"), 1, "{what}");
        let len = if what == "a second segment" { 11 } else { 7 };
        let first = read(&mut pair, SERVER, server, Some(len));
        assert!(first.starts_with(b"request"), "{what}");
        // It goes on as any other.
        let data = pattern(200_000);
        assert!(
            pair.transfer(CLIENT, client, server, &data) == data,
            "{what}"
        );
        pair.write(SERVER, server, b"bye");
        pair.close(SERVER, server);
        assert!(
            read(&mut pair, CLIENT, client, None).ends_with(b"bye"),
            "{what}"
        );
        pair.close(CLIENT, client);
        assert_nothing_left(&mut pair);
    }
}

#[test]
fn a_part_that_was_read_is_not_read_again_from_a_full_control_block() {
    let mut pair = pair(Accel::ALL);
    let (client, server) = quasi(&mut pair, &pattern(300));
    let mut part = [0; 100];
    let now = pair.now();
    assert_eq!(pair.stack(SERVER).read(now, server, &mut part), Ok(100));
    pair.shutdown(SERVER, server);
    assert_eq!(holder(&mut pair, server), Holder::Host);
    assert_eq!(
        read(&mut pair, SERVER, server, Some(200)),
        &pattern(300)[100..]
    );
    assert_eq!(read(&mut pair, CLIENT, client, None), b"");
    // The other direction is still open.
    let data = pattern(50_000);
    assert!(pair.transfer(CLIENT, client, server, &data) == data);
}

#[test]
fn a_peer_that_closes_with_its_request_is_answered_all_the_same() {
    for lazy_tcb in [true, false] {
        let mut pair = pair(Accel {
            lazy_tcb,
            ..Accel::ALL
        });
        let listener = listen(
            &mut pair,
            v6,
            ListenOptions {
                defer: true,
                ..ListenOptions::default()
            },
        );
        let client = open(&mut pair, v6);
        request(&mut pair, client, &pattern(64));
        pair.shutdown(CLIENT, client);
        let server = accept(&mut pair, listener);
        assert_eq!(read(&mut pair, SERVER, server, None), pattern(64));
        assert_eq!(
            pair.stack(SERVER).info(server).expect("a socket").state,
            "CLOSE-WAIT"
        );
        pair.write(SERVER, server, b"answer");
        pair.close(SERVER, server);
        assert_eq!(read(&mut pair, CLIENT, client, None), b"answer");
        pair.close(CLIENT, client);
        assert_eq!(pair.counter(SERVER, "AccelTeardowns"), 1);
        assert_nothing_left(&mut pair);
    }
}

#[test]
fn an_abort_a_close_with_data_unread_and_a_lost_listener_reset_the_peer() {
    type End = fn(&mut Pair, SocketId);
    let ends: [End; 2] = [
        |pair, server| {
            pair.abort(SERVER, server);
        },
        |pair, server| {
            pair.close(SERVER, server);
        },
    ];
    for end in ends {
        let mut pair = pair(Accel::ALL);
        let (client, server) = quasi(&mut pair, b"request");
        end(&mut pair, server);
        let reset = Event::Closed(client, CloseReason::Reset);
        assert!(pair.run_until(Duration::from_secs(2), |pair| {
            pair.events(CLIENT).contains(&reset)
        }));
        pair.close(CLIENT, client);
        assert_nothing_left(&mut pair);
    }
    let mut pair = pair(Accel::ALL);
    let listener = listen(&mut pair, v4, ListenOptions::default());
    let client = open(&mut pair, v4);
    request(&mut pair, client, b"request");
    let waits = |pair: &mut Pair| pair.counter(SERVER, "AccelCurrQuasi") == 1;
    assert!(pair.run_until(Duration::from_millis(5), waits));
    pair.stack(SERVER)
        .close_listener(listener)
        .expect("listens");
    let reset = Event::Closed(client, CloseReason::Reset);
    assert!(pair.run_until(Duration::from_secs(2), |pair| {
        pair.events(CLIENT).contains(&reset)
    }));
    assert_eq!(pair.counter(SERVER, "AccelCurrListeners"), 0);
    // Nobody answers any more.
    let late = open(&mut pair, v4);
    let refused = Event::Closed(late, CloseReason::Refused);
    assert!(pair.run_until(Duration::from_secs(2), |pair| {
        pair.events(CLIENT).contains(&refused)
    }));
}

/// The NIC hands up what the backlog allows; when the application accepts, it may hand up more.
#[test]
fn credits_follow_the_application() {
    let mut pair = pair(Accel::ALL);
    let listener = listen(
        &mut pair,
        v4,
        ListenOptions {
            backlog: 3,
            ..ListenOptions::default()
        },
    );
    let clients: Vec<SocketId> = (0..12).map(|_| open(&mut pair, v4)).collect();
    for client in &clients {
        request(&mut pair, *client, b"request");
    }
    pair.run_for(Duration::from_millis(100));
    // SYNs cross with hand-ups: a few more than the backlog may be under way.
    let set_up = pair.counter(SERVER, "AccelSetups");
    assert!((3..=6).contains(&set_up), "{set_up} wait");
    for _ in 0..12 {
        let server = accept(&mut pair, listener);
        assert_eq!(read(&mut pair, SERVER, server, Some(7)), b"request");
    }
}

/// A client that repeats the end of its handshake takes nobody else's place.
#[test]
fn a_repeated_handshake_costs_no_credit() {
    const BACKLOG: usize = 32;
    let mut pair = pair(Accel::ALL);
    let options = ListenOptions {
        backlog: BACKLOG,
        ..ListenOptions::default()
    };
    listen(&mut pair, v4, options);
    let acks = Rc::new(RefCell::new(Vec::new()));
    let sent = Rc::clone(&acks);
    pair.decide(move |from, _, frame| {
        let is_ack = wire::packet::parse(frame)
            .is_ok_and(|parsed| !parsed.tcp.flags.contains(wire::tcp::Flags::SYN));
        if from == CLIENT && is_ack {
            sent.borrow_mut().push(frame.to_vec());
        }
        Fate::Pass
    });
    open(&mut pair, v4);
    pair.run_for(Duration::from_millis(1));
    let first = acks.borrow_mut().remove(0);
    // Fewer than are returned together otherwise.
    for _ in 0..BACKLOG / 8 - 1 {
        pair.deliver(SERVER, &first.clone());
        pair.run_for(Duration::from_millis(1));
    }
    for _ in 1..BACKLOG {
        open(&mut pair, v4);
        pair.run_for(Duration::from_millis(1));
    }
    assert_eq!(pair.nic_counter(SERVER, "accel_established"), 35);
    assert_eq!(pair.counter(SERVER, "AccelSetups"), BACKLOG as u64);
}

/// The first data come once more after the connection is over: nobody is served twice.
#[test]
fn a_handshake_opens_one_connection_only() {
    for lazy_tcb in [true, false] {
        let mut pair = pair(Accel {
            lazy_tcb,
            ..Accel::ALL
        });
        let listener = listen(&mut pair, v4, ListenOptions::default());
        let client = open(&mut pair, v4);
        let sent = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        let kept = std::rc::Rc::clone(&sent);
        pair.decide(move |from, _, frame| {
            if from == CLIENT {
                kept.borrow_mut().push(frame.to_vec());
            }
            Fate::Pass
        });
        request(&mut pair, client, b"request");
        let server = accept(&mut pair, listener);
        assert_eq!(read(&mut pair, SERVER, server, Some(7)), b"request");
        pair.abort(SERVER, server);
        pair.run_for(Duration::from_millis(50));
        for frame in sent.take() {
            pair.deliver(SERVER, &frame);
        }
        pair.run_for(Duration::from_millis(50));
        assert_eq!(pair.stack(SERVER).accept(listener), None);
        assert!(pair.counter(SERVER, "AccelReplays") > 0);
        assert_eq!(pair.counter(SERVER, "AccelSetups"), 1);
    }
}

/// Listeners of one address come before those of all, on the NIC as on the host, in whatever order they come and go.
#[test]
fn rules_follow_the_listeners() {
    let mut pair = pair(Accel::ALL);
    let everywhere = |at: usize| match v4(at) {
        std::net::IpAddr::V4(_) => std::net::IpAddr::from([0, 0, 0, 0]),
        other => other,
    };
    let all = listen(&mut pair, everywhere, ListenOptions::default());
    assert_eq!(pair.counter(SERVER, "AccelCurrListeners"), 1);
    pair.reset_nic(SERVER);
    pair.run_for(Duration::from_millis(1));
    assert_eq!(pair.counter(SERVER, "AccelCurrListeners"), 1);
    open(&mut pair, v4);
    accept(&mut pair, all);
    let one = listen(&mut pair, v4, ListenOptions::default());
    open(&mut pair, v4);
    accept(&mut pair, one);
    pair.stack(SERVER).close_listener(one).expect("listens");
    pair.run_for(Duration::from_millis(1));
    open(&mut pair, v4);
    accept(&mut pair, all);
    assert_eq!(pair.counter(SERVER, "AccelSetups"), 3);
    assert_eq!(pair.counter(SERVER, "AccelListenersRefused"), 0);
    let listeners: Vec<Holder> = pair
        .stack(SERVER)
        .sockets()
        .filter(|it| it.id.is_none())
        .map(|it| it.holder)
        .collect();
    assert_eq!(listeners, [Holder::Nic]);
}

/// A rule that the NIC has no room for is asked for again; until then the host answers.
#[test]
fn a_refused_listener_is_installed_when_there_is_room() {
    let mut pair = pair_with(Accel::ALL, |nic| nic.accel.listeners = 1);
    let first = listen(&mut pair, v4, ListenOptions::default());
    let second = listen(&mut pair, v6, ListenOptions::default());
    assert_eq!(pair.counter(SERVER, "AccelCurrListeners"), 1);
    open(&mut pair, v6);
    accept(&mut pair, second);
    assert_eq!(pair.counter(SERVER, "AccelSetups"), 0);
    pair.stack(SERVER).close_listener(first).expect("listens");
    let installed = |pair: &mut Pair| pair.counter(SERVER, "AccelCurrListeners") == 1;
    pair.run_for(Duration::from_millis(1));
    assert!(pair.run_until(Duration::from_secs(3), installed));
    pair.run_for(Duration::from_millis(1));
    open(&mut pair, v6);
    accept(&mut pair, second);
    assert_eq!(pair.counter(SERVER, "AccelSetups"), 1);
}

/// A peer that has forgotten everything opens a connection from the same port: the NIC, which keeps nothing, answers, and the
/// connection that the host still has gives way.
#[test]
fn a_peer_that_has_restarted_gets_a_new_connection() {
    for heard in [false, true] {
        let mut pair = pair(Accel::ALL);
        let listener = listen(&mut pair, v4, ListenOptions::default());
        let client = open(&mut pair, v4);
        request(&mut pair, client, b"request");
        let old = accept(&mut pair, listener);
        assert_eq!(read(&mut pair, SERVER, old, Some(7)), b"request");
        if heard {
            pair.write(SERVER, old, b"answer");
            assert_eq!(read(&mut pair, CLIENT, client, Some(6)), b"answer");
        }
        let port = pair.stack(CLIENT).info(client).expect("open").local.port();
        pair.restart(CLIENT);
        pair.run_for(Duration::from_millis(100));
        let again = open(&mut pair, v4);
        let info = pair.stack(CLIENT).info(again).expect("open");
        assert_eq!(info.local.port(), port);
        request(&mut pair, again, b"another");
        let new = accept(&mut pair, listener);
        assert_ne!(new, old);
        assert_eq!(read(&mut pair, SERVER, new, Some(7)), b"another");
        let reset = Event::Closed(old, CloseReason::Reset);
        assert!(pair.events(SERVER).contains(&reset));
        let data = pattern(100_000);
        assert!(pair.transfer(CLIENT, again, new, &data) == data);
        pair.close(SERVER, old);
        assert!(pair.transfer(CLIENT, again, new, &data) == data);
    }
}
