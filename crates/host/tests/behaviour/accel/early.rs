//! What comes before that which opens a connection.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use super::rig::{accept, assert_nothing_left, listen, open, pair, pair_with, read, request};
use crate::pair::{CLIENT, SERVER, v4, v6};
use host::{Accel, Event, ListenOptions};
use sim::Fate;
use testkit::pattern;

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
        pair.decide(move |from, _, frame| {
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
        pair.close(SERVER, server);
        assert!(read(&mut pair, CLIENT, client, None).is_empty());
        pair.close(CLIENT, client);
        assert_nothing_left(&mut pair);
    }
}

/// The host answers a SYN that the NIC leaves to it, the NIC the next copy, to which the peer connects. What then answers the host's
/// SYN-ACK, sent again, comes before the stream's beginning.
#[test]
fn a_connection_to_the_nic_is_not_reset_for_the_hosts_half_of_it() {
    for ip in [v4 as fn(usize) -> _, v6] {
        let mut pair = pair_with(Accel::ALL, |nic| nic.accel.setups_per_second = Some(1));
        let options = ListenOptions {
            defer: true,
            ..ListenOptions::default()
        };
        let listener = listen(&mut pair, ip, options);
        // All that the NIC may set up in a second.
        let first = open(&mut pair, ip);
        request(&mut pair, first, b"first");
        let server = accept(&mut pair, listener);
        assert_eq!(read(&mut pair, SERVER, server, Some(5)), b"first");
        let set_up = pair.nic_counter(SERVER, "accel_syn_acks");
        // The host's SYN-ACK is lost until the client's request to the NIC is, and that until the client has answered the host's.
        let has_answered = Rc::new(Cell::new(false));
        let answered = Rc::clone(&has_answered);
        let (mut hosts, mut has_sent, mut has_passed) = (None, false, false);
        pair.decide(move |from, _, frame| {
            let Ok(parsed) = wire::packet::parse(frame) else {
                return Fate::Pass;
            };
            let is_syn = parsed.tcp.flags.contains(wire::tcp::Flags::SYN);
            let is_lost = match (from, is_syn) {
                (SERVER, true) if *hosts.get_or_insert(parsed.tcp.seq) == parsed.tcp.seq => {
                    has_passed |= has_sent;
                    !has_sent
                }
                (CLIENT, false) if !answered.get() => {
                    has_sent |= parsed.payload_len > 0;
                    answered.set(has_passed && parsed.payload_len == 0);
                    !answered.get()
                }
                _ => false,
            };
            if is_lost { Fate::Drop } else { Fate::Pass }
        });
        let client = open(&mut pair, ip);
        request(&mut pair, client, b"other");
        assert_eq!(
            pair.nic_counter(SERVER, "accel_syn_acks"),
            set_up + 1,
            "the copy of the SYN was to be the NIC's"
        );
        let server = accept(&mut pair, listener);
        assert_eq!(read(&mut pair, SERVER, server, Some(5)), b"other");
        assert!(
            has_answered.get(),
            "the host's SYN-ACK was to be sent again"
        );
        assert!(pair.counter(SERVER, "AccelEarlySegments") > 0);
    }
}

/// The answer to a segment of no connection is RST, at once if no cookie can have been made for it.
#[test]
fn a_forged_cookie_is_reset() {
    let mut pair = pair(Accel::ALL);
    listen(&mut pair, v4, ListenOptions::default());
    // So that each knows where the other is.
    let client = open(&mut pair, v4);
    let resets = Rc::new(Cell::new(0));
    let seen = Rc::clone(&resets);
    let stolen = Rc::new(RefCell::new(None));
    let kept = Rc::clone(&stolen);
    pair.decide(move |from, _, frame| {
        let Ok(parsed) = wire::packet::parse(frame) else {
            return Fate::Pass;
        };
        let is_reset = parsed.tcp.flags.contains(wire::tcp::Flags::RST);
        seen.set(seen.get() + u32::from(from == SERVER && is_reset));
        if from == CLIENT && parsed.payload_len > 0 {
            kept.borrow_mut().get_or_insert_with(|| frame.to_vec());
            return Fate::Drop;
        }
        Fate::Pass
    });
    request(&mut pair, client, b"request");
    pair.run_for(Duration::from_millis(10));
    let frame = stolen.take().expect("it was sent");
    let forged = |port: u16, has_timestamps: bool| {
        let parsed = wire::packet::parse(&frame).expect("a segment");
        let mut header = parsed.tcp;
        header.src_port = port;
        header.ack += 1 << 8;
        if !has_timestamps {
            header.options.timestamps = None;
        }
        let mut flow = parsed.flow;
        flow.src.1 = port;
        rewritten(&frame, &flow, &header)
    };
    pair.deliver(SERVER, &forged(7000, false));
    pair.run_for(Duration::from_millis(1));
    assert_eq!(
        (resets.get(), pair.counter(SERVER, "AccelBadCookies")),
        (1, 1)
    );
    // With timestamps it may be the rest of a request: for three seconds.
    for (after, answers) in [(0, 1), (1, 1), (3, 2)] {
        pair.run_for(Duration::from_secs(after));
        pair.deliver(SERVER, &forged(7001, true));
        pair.run_for(Duration::from_millis(1));
        assert_eq!(resets.get(), answers, "{after}");
    }
    assert_eq!(pair.counter(SERVER, "AccelBadCookies"), 2);
}

/// A frame with the same Ethernet addresses and another header.
fn rewritten(frame: &[u8], flow: &wire::FlowKey, header: &wire::tcp::Header) -> Vec<u8> {
    let (ethernet, _) = wire::ethernet::Header::parse(frame).expect("Ethernet");
    testkit::frames::frame(ethernet.source, ethernet.destination, flow, header, &[])
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
    pair.decide(|from, _, _| match from {
        SERVER => Fate::Drop,
        _ => Fate::Pass,
    });
    pair.abort(SERVER, server);
    pair.run_for(Duration::from_millis(10));
    pair.decide(|_, _, _| Fate::Pass);
    let now = pair.now();
    let ended = |pair: &mut crate::pair::Pair| {
        let mut events = pair.events(CLIENT).iter();
        events.any(|event| matches!(event, Event::Closed(id, _) if *id == client))
    };
    let written = pair.stack(CLIENT).write(now, client, &pattern(5000));
    assert_eq!(written, Ok(5000));
    assert!(pair.run_until(Duration::from_secs(30), ended));
}
