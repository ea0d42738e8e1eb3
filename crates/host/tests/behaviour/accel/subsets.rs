//! The same script with any part of the acceleration gives the same bytes and the same ends.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;

use super::rig::{listen, open};
use crate::pair::{CLIENT, Pair, SERVER, hosts_with, lossy, v4, v6};
use host::{Accel, CloseReason, Event, ListenOptions, SocketError, SocketId};
use testkit::pattern;

/// What one connection does.
#[derive(Clone, Copy, Debug)]
struct Script {
    v6: bool,
    request: usize,
    response: usize,
    transactions: usize,
    /// Who closes first, and how.
    end: End,
    /// Reads in place rather than by copies.
    chunks: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Server,
    Client,
    HalfClose,
    Abort,
}

/// What one connection has seen.
#[derive(Clone, Debug, Default, PartialEq)]
struct Seen {
    /// Bytes that the client and the server have read.
    read: [Vec<u8>; 2],
    /// The client has read the end of the stream, or was told of a reset.
    ended: Option<bool>,
    /// What the server's application was told of the connection.
    told: Vec<&'static str>,
}

/// The kinds of events of a socket, each once.
fn told(pair: &Pair, server: Option<SocketId>) -> Vec<&'static str> {
    let events = pair.events(SERVER).iter();
    let mut kinds: Vec<&str> = events
        .filter_map(|event| match event {
            Event::Readable(id) if Some(*id) == server => Some("readable"),
            Event::Writable(id) if Some(*id) == server => Some("writable"),
            Event::Connected(id) if Some(*id) == server => Some("connected"),
            Event::Closed(id, _) if Some(*id) == server => Some("closed"),
            _ => None,
        })
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

struct Connection {
    script: Script,
    client: SocketId,
    server: Option<SocketId>,
    asked: usize,
    answered: usize,
    shut: bool,
    done: bool,
    /// `Readable`s of the server's socket so far.
    heard: usize,
    seen: Seen,
}

fn script() -> impl Strategy<Value = Script> {
    let size = || prop_oneof![1usize..200, 1usize..3000, 1usize..40_000];
    let end = prop_oneof![
        4 => Just(End::Server),
        2 => Just(End::Client),
        2 => Just(End::HalfClose),
        1 => Just(End::Abort),
    ];
    (any::<bool>(), size(), size(), 1usize..4, end, any::<bool>()).prop_map(
        |(v6, request, response, transactions, end, chunks)| Script {
            v6,
            request,
            response,
            transactions,
            end,
            chunks,
        },
    )
}

/// Reads what is there. `Some` once the stream has ended: whether in good order.
fn drain(
    pair: &mut Pair,
    at: usize,
    id: SocketId,
    chunks: bool,
    into: &mut Vec<u8>,
) -> Option<bool> {
    let now = pair.now();
    let mut buffer = vec![0; 10_000];
    loop {
        let read = if chunks {
            let chunk = pair.stack(at).read_chunk(now, id);
            chunk.map(|chunk| {
                chunk.map_or(0, |chunk| {
                    into.extend_from_slice(&chunk);
                    chunk.len()
                })
            })
        } else {
            let read = pair.stack(at).read(now, id, &mut buffer);
            read.inspect(|bytes| into.extend_from_slice(&buffer[..*bytes]))
        };
        match read {
            Ok(0) => return Some(true),
            Ok(_) => {}
            Err(SocketError::WouldBlock | SocketError::NotConnected) => return None,
            Err(_) => return Some(false),
        }
    }
}

/// Goes on with one connection as far as it gets.
fn drive(pair: &mut Pair, it: &mut Connection) {
    let script = it.script;
    let connected = pair.events(CLIENT).contains(&Event::Connected(it.client));
    if it.seen.ended.is_none() && connected {
        it.seen.ended = drain(
            pair,
            CLIENT,
            it.client,
            script.chunks,
            &mut it.seen.read[CLIENT],
        );
        let may_ask = it.seen.read[CLIENT].len() == it.asked * script.response;
        if may_ask && it.asked < script.transactions {
            let data = pattern(script.request);
            assert_eq!(pair.write(CLIENT, it.client, &data), data.len());
            it.asked += 1;
        }
        let all_asked = it.asked == script.transactions;
        if all_asked && script.end == End::HalfClose && !it.shut {
            pair.shutdown(CLIENT, it.client);
            it.shut = true;
        }
        let all_read = it.seen.read[CLIENT].len() == script.transactions * script.response;
        if all_read && script.end == End::Client && !it.shut {
            pair.shutdown(CLIENT, it.client);
            it.shut = true;
        }
    }
    let Some(server) = it.server.filter(|_| !it.done) else {
        return;
    };
    // The server reads when it is told to.
    let readable = Event::Readable(server);
    let events = pair.events(SERVER).iter();
    let heard = events.filter(|event| **event == readable).count();
    if std::mem::replace(&mut it.heard, heard) == heard {
        return;
    }
    let ended = drain(
        pair,
        SERVER,
        server,
        script.chunks,
        &mut it.seen.read[SERVER],
    );
    while it.answered < script.transactions
        && it.seen.read[SERVER].len() >= (it.answered + 1) * script.request
    {
        it.answered += 1;
        if script.end == End::Abort && it.answered == script.transactions {
            pair.abort(SERVER, server);
            it.done = true;
            return;
        }
        let data = pattern(script.response);
        assert_eq!(pair.write(SERVER, server, &data), data.len());
    }
    let all_answered = it.answered == script.transactions;
    let closes = match script.end {
        End::Server => all_answered,
        _ => all_answered && ended == Some(true),
    };
    if closes {
        pair.close(SERVER, server);
        it.done = true;
    }
}

fn run(accel: Accel, defer: bool, closing: u32, loss: f64, scripts: &[Script]) -> Vec<Seen> {
    let mut pair = hosts_with(|at, node| {
        let stack = &mut node.stack;
        stack.accel = accel;
        // A reset may be lost: the client asks then.
        stack.tcp.keep_alive = (at == CLIENT).then(|| tcp::KeepAlive {
            idle: Duration::from_secs(100),
            ..tcp::KeepAlive::default()
        });
        stack.tcp.time_wait = Duration::from_secs(1);
        // Whoever has been left half-closed for so long is not forgotten, which its keep-alive would learn by a reset.
        stack.tcp.fin_wait_2 = Duration::from_secs(4000);
        node.nic.accel.closing = closing;
    });
    pair.decide(lossy(SERVER, loss, loss, 99));
    let options = || ListenOptions {
        defer,
        ..ListenOptions::default()
    };
    let listeners = [
        listen(&mut pair, v4, options()),
        listen(&mut pair, v6, options()),
    ];
    let mut connections: Vec<Connection> = scripts
        .iter()
        .map(|&script| Connection {
            client: open(&mut pair, if script.v6 { v6 } else { v4 }),
            script,
            server: None,
            asked: 0,
            answered: 0,
            shut: false,
            done: false,
            heard: 0,
            seen: Seen::default(),
        })
        .collect();
    let mut by_port = HashMap::new();
    for (at, connection) in connections.iter().enumerate() {
        let info = pair
            .stack(CLIENT)
            .info(connection.client)
            .expect("a socket");
        by_port.insert(info.local, at);
    }
    let done = pair.run_until(Duration::from_secs(3000), |pair| {
        for listener in listeners {
            while let Some(id) = pair.stack(SERVER).accept(listener) {
                let info = pair.stack(SERVER).info(id).expect("a socket");
                connections[by_port[&info.remote]].server = Some(id);
            }
        }
        for connection in &mut connections {
            drive(pair, connection);
        }
        connections
            .iter()
            .all(|it| it.done && it.seen.ended.is_some())
    });
    assert!(done, "{accel} does not come to an end");
    for connection in &connections {
        pair.close(CLIENT, connection.client);
        let aborted = connection.script.end == End::Abort;
        let reset = Event::Closed(connection.client, CloseReason::Reset);
        assert_eq!(pair.events(CLIENT).contains(&reset), aborted, "{accel}");
    }
    pair.run_for(Duration::from_secs(400));
    for at in [CLIENT, SERVER] {
        let left: Vec<_> = pair
            .stack(at)
            .sockets()
            .filter(|it| it.id.is_some())
            .collect();
        assert!(left.is_empty(), "{accel}: host {at} has {left:?}");
        assert!(!pair.stack(at).has_pending_teardowns());
    }
    let seen = connections.into_iter().map(|it| Seen {
        told: told(&pair, it.server),
        ..it.seen
    });
    seen.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_part_of_the_acceleration_gives_the_same_bytes_and_ends(
        scripts in prop::collection::vec(script(), 1..6),
        (setup, teardown, lazy_tcb, defer) in any::<(bool, bool, bool, bool)>(),
        closing in prop_oneof![3 => Just(1000u32), 1 => 0u32..3],
        loss in prop_oneof![Just(0.0), Just(0.1)],
    ) {
        let accel = Accel { setup, teardown, lazy_tcb, splice: false };
        let expected = run(Accel::NONE, false, 1000, loss, &scripts);
        let seen = run(accel, defer, closing, loss, &scripts);
        prop_assert_eq!(seen, expected);
    }
}
