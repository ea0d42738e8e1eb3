//! Listening, SYN cookies and initial sequence numbers.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use tcp::isn::Generator;
use tcp::{
    AckAction, Config, Connection, Cookies, Event, ListenConfig, Listener, State, SynAction,
};
use wire::tcp::{Flags, Header, Timestamps};
use wire::{FlowKey, SeqNum};

use crate::peer::modern;

pub const KEY: [u8; 16] = *b"not very secret!";

pub fn flow(port: u16) -> FlowKey {
    let ip = |last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
    FlowKey {
        src: (ip(1), port),
        dst: (ip(2), 443),
    }
}

pub fn syn(flow: &FlowKey) -> Header {
    Header {
        src_port: flow.src.1,
        dst_port: flow.dst.1,
        seq: SeqNum(12345),
        flags: Flags::SYN,
        window: 60_000,
        options: modern(),
        ..Header::default()
    }
}

fn listener(now: Instant, cookies: Cookies, backlog: u32) -> Listener {
    Listener::new(
        now,
        ListenConfig {
            connection: Config::default(),
            backlog,
            cookies,
        },
        KEY,
        Generator::new(now, KEY),
    )
}

fn cookie(listener: &mut Listener, now: Instant, flow: &FlowKey, syn: &Header) -> Header {
    match listener.handle_syn(now, flow, syn) {
        SynAction::Reply(reply) => reply,
        other => panic!("expected a cookie: {other:?}"),
    }
}

fn open(listener: &mut Listener, now: Instant, flow: &FlowKey, ack: &Header) -> Option<Connection> {
    match listener.handle_ack(now, flow, ack, true) {
        AckAction::Open(connection) => Some(connection),
        AckAction::Refuse => None,
        AckAction::Drop => panic!("there is room"),
    }
}

fn answer(syn: &Header, reply: &Header) -> Header {
    let mut ack = Header {
        seq: syn.seq + 1,
        ack: reply.seq + 1,
        flags: Flags::ACK,
        ..*syn
    };
    ack.options = Default::default();
    ack.options.timestamps = reply.options.timestamps.map(|timestamps| Timestamps {
        val: 1001,
        echo: timestamps.val,
    });
    ack
}

#[test]
fn the_backlog_limits_half_open_connections() {
    let now = Instant::now();
    let mut listener = listener(now, Cookies::Never, 2);
    let accepted = |listener: &mut Listener, port| {
        matches!(
            listener.handle_syn(now, &flow(port), &syn(&flow(port))),
            SynAction::Accept(_)
        )
    };
    assert!(accepted(&mut listener, 1) && accepted(&mut listener, 2));
    assert!(!accepted(&mut listener, 3));
    listener.failed();
    assert!(accepted(&mut listener, 3));
    listener.established();
    listener.established();
    assert!(!accepted(&mut listener, 4), "two wait to be accepted");
    listener.accepted();
    assert!(accepted(&mut listener, 4));
}

#[test]
fn connections_that_the_nic_has_set_up_wait_in_the_backlog_too() {
    let now = Instant::now();
    let mut listener = listener(now, Cookies::OnOverflow, 2);
    let syn = syn(&flow(1));
    listener.admitted();
    listener.admitted();
    let dropped = listener.handle_syn(now, &flow(1), &syn);
    assert!(matches!(dropped, SynAction::Drop));
    listener.accepted();
    let taken = listener.handle_syn(now, &flow(1), &syn);
    assert!(matches!(taken, SynAction::Accept(_)));
}

/// RFC 9293 §3.10.7.2.
#[test]
fn a_listener_resets_acks_and_ignores_resets() {
    let now = Instant::now();
    let mut listener = listener(now, Cookies::OnOverflow, 2);
    let ack = Header {
        flags: Flags::SYN | Flags::ACK,
        ack: SeqNum(99),
        ..syn(&flow(1))
    };
    let reply = cookie(&mut listener, now, &flow(1), &ack);
    assert_eq!((reply.flags, reply.seq), (Flags::RST, SeqNum(99)));
    let reset = Header {
        flags: Flags::RST,
        ..ack
    };
    assert!(matches!(
        listener.handle_syn(now, &flow(1), &reset),
        SynAction::Drop
    ));
}

/// RFC 4987 §3.6.
#[test]
fn a_cookie_brings_back_all_options() {
    let now = Instant::now();
    let mut listener = listener(now, Cookies::Always, 10);
    let (flow, syn) = (flow(5000), syn(&flow(5000)));
    let reply = cookie(&mut listener, now, &flow, &syn);
    assert_eq!(reply.flags, Flags::SYN | Flags::ACK);
    assert_eq!(reply.ack, syn.seq + 1);
    let later = now + Duration::from_millis(30);
    let ack = answer(&syn, &reply);
    let mut connection = open(&mut listener, later, &flow, &ack).expect("a good cookie");
    assert_eq!(connection.state(), State::Established);
    let received = connection.handle_segment(later, &ack, 100, 1);
    assert_eq!(received.data.map(|data| data.len), Some(100));
    assert_eq!(connection.poll_event(), Some(Event::Connected));
    let info = connection.info(later);
    assert_eq!(info.window_scale, Some((7, 9)));
    assert!(info.sack && info.timestamps);
    assert_eq!(info.snd_mss, 1460 - 12);
    assert_eq!(info.snd_wnd, 60_000 << 7);
    // Its timestamps go on from the cookie's.
    connection.queue(later, 10);
    let sent = connection.poll_transmit(later).expect("data").header;
    let (before, after) = (
        reply.options.timestamps.expect("in the cookie").val,
        sent.options.timestamps.expect("on data").val,
    );
    assert!(SeqNum(before).at_or_before(SeqNum(after)));
}

#[test]
fn a_cookie_without_timestamps_keeps_only_the_mss() {
    let now = Instant::now();
    let mut listener = listener(now, Cookies::Always, 10);
    let flow = flow(5000);
    let mut syn = syn(&flow);
    syn.options.timestamps = None;
    let reply = cookie(&mut listener, now, &flow, &syn);
    assert_eq!(
        (reply.options.window_scale, reply.options.sack_permitted),
        (None, false)
    );
    let connection = open(&mut listener, now, &flow, &answer(&syn, &reply)).expect("a good cookie");
    let info = connection.info(now);
    assert_eq!(
        (info.window_scale, info.sack, info.snd_mss),
        (None, false, 1460)
    );
}

#[test]
fn a_cookie_expires() {
    let now = Instant::now();
    let (flow, syn) = (flow(5000), syn(&flow(5000)));
    for (seconds, good) in [
        (0, true),
        (63, true),
        (127, false),
        (128, false),
        (1000, false),
    ] {
        let mut listener = listener(now, Cookies::Always, 10);
        // Made at the very start of a period: good in it and in the next.
        let reply = cookie(&mut listener, now, &flow, &syn);
        let later = now + Duration::from_secs(seconds);
        let good = good || seconds == 127;
        assert_eq!(
            open(&mut listener, later, &flow, &answer(&syn, &reply)).is_some(),
            good,
            "{seconds}"
        );
    }
}

#[test]
fn a_forged_cookie_is_refused() {
    let now = Instant::now();
    let mut listener = listener(now, Cookies::Always, 10);
    let (flow, syn) = (flow(5000), syn(&flow(5000)));
    let reply = cookie(&mut listener, now, &flow, &syn);
    let good = answer(&syn, &reply);
    for bit in 0..32 {
        let forged = Header {
            ack: SeqNum(good.ack.0 ^ 1 << bit),
            ..good
        };
        assert!(
            open(&mut listener, now, &flow, &forged).is_none(),
            "bit {bit}"
        );
        let forged = Header {
            seq: SeqNum(good.seq.0 ^ 1 << bit),
            ..good
        };
        assert!(
            open(&mut listener, now, &flow, &forged).is_none(),
            "bit {bit}"
        );
    }
    assert!(
        open(&mut listener, now, &self::flow(5001), &good).is_none(),
        "another flow"
    );
    assert!(open(&mut listener, now, &flow, &good).is_some());
}

/// RFC 4987 §3.6: no cookie is looked for while none was given.
#[test]
fn acks_out_of_the_blue_are_not_cookies() {
    let now = Instant::now();
    let mut giver = listener(now, Cookies::Always, 10);
    let (flow, syn) = (flow(5000), syn(&flow(5000)));
    let reply = cookie(&mut giver, now, &flow, &syn);
    let mut other = listener(now, Cookies::OnOverflow, 10);
    assert!(open(&mut other, now, &flow, &answer(&syn, &reply)).is_none());
}

/// A process that takes another one's place: its listener has the key and the clock of the one that gave the cookie.
#[test]
fn a_listener_in_the_place_of_another_takes_its_cookies_while_they_are_fresh() {
    let now = Instant::now();
    let mut giver = listener(now, Cookies::Always, 10);
    let (flow, syn) = (flow(5000), syn(&flow(5000)));
    let given = now + Duration::from_secs(300);
    let ack = answer(&syn, &cookie(&mut giver, given, &flow, &syn));
    let successor = || {
        let mut successor = listener(now, Cookies::OnOverflow, 10);
        successor.expect_cookies(given);
        successor
    };
    assert!(open(&mut successor(), given, &flow, &ack).is_some());
    let late = given + Duration::from_secs(300);
    assert!(open(&mut successor(), late, &flow, &ack).is_none());
}

/// The peer whose handshake is good is not reset because others wait: it sends again.
#[test]
fn a_good_cookie_waits_for_room_in_the_backlog() {
    let now = Instant::now();
    let mut listener = listener(now, Cookies::Always, 1);
    let answers = [5000, 5001].map(|port| {
        let reply = cookie(&mut listener, now, &flow(port), &syn(&flow(port)));
        (flow(port), answer(&syn(&flow(port)), &reply))
    });
    let [(first, ack), (second, late)] = &answers;
    assert!(open(&mut listener, now, first, ack).is_some());
    assert!(matches!(
        listener.handle_ack(now, second, late, true),
        AckAction::Drop
    ));
    let forged = Header {
        ack: late.ack + 1,
        ..*late
    };
    assert!(matches!(
        listener.handle_ack(now, second, &forged, true),
        AckAction::Refuse
    ));
    listener.accepted();
    assert!(matches!(
        listener.handle_ack(now, second, late, false),
        AckAction::Drop
    ));
    assert!(open(&mut listener, now, second, late).is_some());
}

#[test]
fn cookies_take_over_when_the_backlog_is_full() {
    let now = Instant::now();
    let mut listener = listener(now, Cookies::OnOverflow, 100);
    let mut replies = 0;
    for port in 1..=1000 {
        match listener.handle_syn(now, &flow(port), &syn(&flow(port))) {
            SynAction::Accept(_) => {}
            SynAction::Reply(_) => replies += 1,
            SynAction::Drop => panic!("dropped"),
        }
    }
    assert_eq!(replies, 900);
}

proptest! {
    #[test]
    fn cookies_hold_every_option(mss in 536u16..9000, shift in 0u8..=14, sack: bool, clock: u32, isn: u32, port: u16) {
        let now = Instant::now() + Duration::from_millis(u64::from(clock % 50_000_000));
        let mut listener = listener(now, Cookies::Always, 10);
        let flow = flow(port);
        let mut syn = syn(&flow);
        syn.seq = SeqNum(isn);
        syn.options.mss = Some(mss);
        syn.options.window_scale = Some(shift);
        syn.options.sack_permitted = sack;
        let reply = cookie(&mut listener, now, &flow, &syn);
        let connection = open(&mut listener, now, &flow, &answer(&syn, &reply)).expect("a good cookie");
        let info = connection.info(now);
        prop_assert_eq!(info.window_scale, Some((shift, 9)));
        prop_assert_eq!(info.sack, sack);
        prop_assert!(info.snd_mss + 12 <= mss.min(1460));
        prop_assert!(info.snd_mss + 12 >= 536);
    }
}

/// RFC 6528 §3.
#[test]
fn initial_sequence_numbers_rise_with_time_and_differ_by_flow() {
    let now = Instant::now();
    let generator = Generator::new(now, KEY);
    let first = generator.initial(now, &flow(1));
    let second = generator.initial(now + Duration::from_secs(1), &flow(1));
    assert_eq!(first.seq.distance_to(second.seq), 250_000, "one every 4 µs");
    assert_eq!(second.timestamp.wrapping_sub(first.timestamp), 1000);
    assert_ne!(generator.initial(now, &flow(2)).seq, first.seq);
    assert_ne!(
        Generator::new(now, [0; 16]).initial(now, &flow(1)).seq,
        first.seq
    );
}
