//! What comes before that which opens a connection.

use std::time::Duration;

use super::rig::{accept, assert_nothing_left, listen, open, pair, read, request};
use crate::tests::pair::{CLIENT, Fate, SERVER, pattern, v4, v6};
use crate::{Accel, Event, ListenOptions};

/// Where TCP's payload begins behind IPv4 or IPv6, with timestamps.
const LEAST_WITH_PAYLOAD: usize = 14 + 20 + 32 + 400;

#[test]
fn a_request_whose_beginning_is_lost_is_no_stray() {
    for (ip, defer) in [(v4 as fn(usize) -> _, true), (v6, true), (v4, false)] {
        let mut pair = pair(Accel::ALL);
        let options = ListenOptions {
            defer,
            ..ListenOptions::default()
        };
        let listener = listen(&mut pair, ip, options);
        // Of what follows the SYN nothing arrives until two segments of the request were sent.
        let mut segments = 0;
        pair.wire = Box::new(move |from, frame| {
            let is_later = wire::packet::parse(frame)
                .is_ok_and(|parsed| !parsed.tcp.flags.contains(wire::tcp::Flags::SYN));
            if from != CLIENT || !is_later || segments > 1 {
                return Fate::Pass;
            }
            segments += u32::from(frame.len() > LEAST_WITH_PAYLOAD);
            match segments {
                2 => Fate::Pass,
                _ => Fate::Drop,
            }
        });
        let data = pattern(4000);
        let client = open(&mut pair, ip);
        request(&mut pair, client, &data);
        let server = accept(&mut pair, listener);
        assert!(read(&mut pair, SERVER, server, Some(data.len())) == data);
        assert!(pair.counter(SERVER, "AccelEarlySegments") > 0, "{defer}");
        let now = pair.now;
        pair.stack(SERVER).close(now, server).expect("it is open");
        assert!(read(&mut pair, CLIENT, client, None).is_empty());
        let now = pair.now;
        pair.stack(CLIENT).close(now, client).expect("it is open");
        assert_nothing_left(&mut pair);
    }
}

#[test]
fn a_connection_that_nobody_has_is_reset_in_the_end() {
    let mut pair = pair(Accel::ALL);
    let listener = listen(&mut pair, v4, ListenOptions::default());
    let client = open(&mut pair, v4);
    let server = accept(&mut pair, listener);
    request(&mut pair, client, &pattern(10));
    assert_eq!(read(&mut pair, SERVER, server, Some(10)), pattern(10));
    pair.run_for(Duration::from_millis(100));
    // The server resets it, and that is lost.
    pair.wire = Box::new(|from, _| match from {
        SERVER => Fate::Drop,
        _ => Fate::Pass,
    });
    let now = pair.now;
    pair.stack(SERVER).abort(now, server).expect("it is open");
    pair.run_for(Duration::from_millis(10));
    pair.wire = Box::new(|_, _| Fate::Pass);
    let now = pair.now;
    let ended = |pair: &mut crate::tests::pair::Pair| {
        let mut events = pair.hosts[CLIENT].events.iter();
        events.any(|event| matches!(event, Event::Closed(id, _) if *id == client))
    };
    let written = pair.stack(CLIENT).write(now, client, &pattern(5000));
    assert_eq!(written, Ok(5000));
    assert!(pair.run_until(Duration::from_secs(30), ended));
}
