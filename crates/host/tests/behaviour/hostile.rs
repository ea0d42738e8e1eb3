//! What nobody should send.

use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use handshake::Options;
use testkit::frames::{frame, syn};
use testkit::network::{self, Ends, icmp};
use testkit::pattern;
use wire::ethernet::MacAddr;
use wire::icmp::v4::{Echo, Message, Unreachable};
use wire::{FlowKey, SeqNum, ipv4};

use crate::pair::{CLIENT, Connected as _, PORT, Pair, SERVER, hosts, v4, v6};
use host::{CloseReason, Event, ListenOptions, Offload, SocketError};
use sim::Fate;

/// The client and the server, as their frames name them.
fn ends() -> Ends {
    [CLIENT, SERVER].map(|at| (Pair::mac(at), v4(at)))
}

#[test]
fn a_ping_is_answered_with_its_data() {
    let mut pair = hosts();
    pair.connected(v4);
    let data = pattern(900);
    let echo = Message::EchoRequest(Echo {
        identifier: 7,
        sequence: 3,
        data: &data,
    });
    let frame = icmp(ends(), &echo);
    let seen = std::rc::Rc::new(std::cell::Cell::new(false));
    let answered = std::rc::Rc::clone(&seen);
    pair.decide(move |from, _, frame| {
        if from == SERVER && frame.len() > 900 {
            let reply = Message::parse(&frame[34..]).expect("an ICMP message");
            let wanted = Echo {
                identifier: 7,
                sequence: 3,
                data: &pattern(900),
            };
            assert_eq!(reply, Message::EchoReply(wanted));
            assert!(ipv4::verify_checksum(&frame[14..34]));
            answered.set(true);
        }
        Fate::Pass
    });
    pair.deliver(SERVER, &frame);
    pair.run_for(Duration::from_millis(5));
    assert!(seen.get());
    assert_eq!(pair.counter(SERVER, "IcmpOutEchoReps"), 1);
}

/// The host is in no VLAN. A tag that only gives a priority names no VLAN.
#[test]
fn what_comes_in_a_vlan_is_passed_over() {
    let mut pair = hosts();
    pair.connected(v4);
    let echo = Message::EchoRequest(Echo {
        identifier: 7,
        sequence: 3,
        data: b"to VLAN 5",
    });
    let tagged = |vlan| {
        let mut frame = icmp(ends(), &echo);
        frame.splice(12..12, [0x81, 0x00, 0x60, vlan]);
        frame
    };
    for (vlan, answered) in [(5, 0), (0, 1)] {
        pair.deliver(SERVER, &tagged(vlan));
        pair.run_for(Duration::from_millis(5));
        assert_eq!(pair.counter(SERVER, "IcmpOutEchoReps"), answered);
    }
}

#[test]
fn a_protocol_that_nobody_speaks_is_refused_at_a_bounded_rate() {
    let mut pair = hosts();
    pair.connected(v4);
    for _ in 0..500 {
        pair.deliver(
            SERVER,
            &network::ipv4(ends(), ipv4::protocol::UDP, 30, |buffer| buffer.fill(1)),
        );
    }
    pair.run_for(Duration::from_millis(5));
    assert_eq!(pair.counter(SERVER, "IpInUnknownProtos"), 500);
    assert_eq!(pair.counter(SERVER, "IcmpOutDestUnreachs"), 100);
}

/// RFC 1122 §3.2.2; RFC 8200 §4, §4.7.
#[test]
fn errors_about_protocols_say_where_and_are_for_one_sender() {
    let mut pair = hosts();
    let mut deliver = |frame: &[u8], [unreachable, problems]: [u64; 2]| {
        pair.deliver(SERVER, frame);
        pair.run_for(Duration::from_millis(5));
        assert_eq!(pair.counter(SERVER, "IcmpOutDestUnreachs"), unreachable);
        assert_eq!(pair.counter(SERVER, "IcmpOutParmProbs"), problems);
    };
    let fill = |buffer: &mut [u8]| buffer.fill(1);
    let mut group = network::ipv4(ends(), ipv4::protocol::UDP, 30, fill);
    group[..6].fill(0xff);
    deliver(&group, [0, 0]);
    let ends = [CLIENT, SERVER].map(|at| (Pair::mac(at), v6(at)));
    deliver(&network::ipv6(ends, 59, 30, fill), [0, 0]);
    deliver(&network::ipv6(ends, ipv4::protocol::UDP, 30, fill), [1, 0]);
    deliver(&network::ipv6(ends, 132, 30, fill), [1, 1]);
}

/// RFC 4022, tcpAttemptFails and tcpEstabResets: the client's host knows nothing of the SYN, and resets what answers it.
#[test]
fn a_scan_of_ports_resets_no_established_connection() {
    let mut pair = hosts();
    pair.stack(SERVER)
        .listen((v4(SERVER), 80).into(), ListenOptions::default())
        .expect("free");
    let flow = FlowKey::new((v4(CLIENT), 5000).into(), (v4(SERVER), 80).into());
    let syn = wire::tcp::Header {
        ack: wire::SeqNum(0),
        flags: wire::tcp::Flags::SYN,
        ..testkit::frames::ack(&flow, wire::SeqNum(100))
    };
    let [client, server] = [CLIENT, SERVER].map(Pair::mac);
    pair.deliver(SERVER, &frame(client, server, &flow, &syn, &[]));
    pair.run_for(Duration::from_millis(50));
    assert_eq!(pair.counter(SERVER, "TcpAttemptFails"), 1);
    assert_eq!(pair.counter(SERVER, "TcpEstabResets"), 0);
}

/// RFC 9293 §3.9.2.3: nothing of TCP is for several hosts.
#[test]
fn a_segment_in_a_frame_to_a_group_is_not_answered() {
    let mut pair = hosts();
    pair.connected(v4);
    let flow = FlowKey {
        src: (v4(CLIENT), 999),
        dst: (v4(SERVER), PORT),
    };
    let closed = FlowKey {
        dst: (v4(SERVER), 7),
        ..flow
    };
    pair.run_for(Duration::from_secs(1));
    let before = pair.counter(SERVER, "IpInAddrErrors");
    let sent = Rc::new(Cell::new(0));
    let frames = sent.clone();
    pair.observe(move |_, _| frames.set(frames.get() + 1));
    for to in [MacAddr::BROADCAST, MacAddr([1, 0, 0x5e, 0, 0, 1])] {
        for flow in [&flow, &closed] {
            let syn = frame(Pair::mac(CLIENT), to, flow, &syn(flow, SeqNum(7), 1), &[]);
            pair.deliver(SERVER, &syn);
        }
    }
    pair.run_for(Duration::from_secs(2));
    assert_eq!(sent.get(), 0);
    assert_eq!(pair.counter(SERVER, "IpInAddrErrors") - before, 4);
    let to = Pair::mac(SERVER);
    let syn = frame(Pair::mac(CLIENT), to, &flow, &syn(&flow, SeqNum(7), 1), &[]);
    pair.deliver(SERVER, &syn);
    pair.run_for(Duration::from_millis(5));
    assert!(sent.get() > 0, "one that is for it alone");
}

#[test]
fn an_icmp_error_about_what_is_not_in_flight_is_ignored() {
    let mut pair = hosts();
    let (client, server) = pair.connected(v4);
    let info = pair.stack(SERVER).info(server).expect("connected");
    let quote = |seq: u32| {
        let (IpAddr::V4(src), IpAddr::V4(dst)) = (v4(SERVER), v4(CLIENT)) else {
            unreachable!("both are IPv4 addresses")
        };
        let mut original = vec![0; 28];
        let ip = ipv4::Header {
            src,
            dst,
            protocol: ipv4::protocol::TCP,
            ttl: 64,
            traffic_class: 0,
            identification: 0,
            dont_fragment: true,
            payload_len: 1400,
            fragment: None,
        };
        ip.emit(&mut original);
        original[20..22].copy_from_slice(&info.local.port().to_be_bytes());
        original[22..24].copy_from_slice(&info.remote.port().to_be_bytes());
        original[24..28].copy_from_slice(&seq.to_be_bytes());
        original
    };
    // What the client acknowledges.
    let acked = Rc::new(Cell::new(0));
    let seen = Rc::clone(&acked);
    pair.decide(move |from, _, frame| {
        if let (CLIENT, Ok(parsed)) = (from, wire::packet::parse(frame)) {
            seen.set(parsed.tcp.ack.0);
        }
        Fate::Pass
    });
    assert_eq!(pair.transfer(SERVER, server, client, b"one"), b"one");
    pair.run_for(Duration::from_secs(1));
    let una = acked.get();
    for (seq, reason) in [
        (
            una.wrapping_add(5),
            Unreachable::FragmentationNeeded { mtu: 600 },
        ),
        (
            una.wrapping_sub(5),
            Unreachable::FragmentationNeeded { mtu: 600 },
        ),
        (una, Unreachable::Port),
    ] {
        let original = quote(seq);
        let error = Message::Unreachable {
            reason,
            original: &original,
        };
        let frame = icmp(ends(), &error);
        pair.deliver(SERVER, &frame);
    }
    pair.run_for(Duration::from_millis(5));
    assert_eq!(pair.counter(SERVER, "IcmpInPktTooBigs"), 0);
    let data = pattern(100_000);
    assert!(pair.transfer(SERVER, server, client, &data) == data);

    // One about what is in flight is believed.
    pair.run_for(Duration::from_secs(1));
    pair.write(SERVER, server, &data);
    pair.step();
    let original = quote(acked.get());
    let reason = Unreachable::FragmentationNeeded { mtu: 600 };
    let error = Message::Unreachable {
        reason,
        original: &original,
    };
    pair.deliver(SERVER, &icmp(ends(), &error));
    pair.decide(|from, _, frame| {
        assert!(from == CLIENT || frame.len() <= 1514);
        Fate::Pass
    });
    assert_eq!(pair.transfer(CLIENT, client, server, b"on").len(), 2);
    assert_eq!(pair.counter(SERVER, "IcmpInPktTooBigs"), 1);
    let info = pair
        .stack(SERVER)
        .info(server)
        .and_then(|info| info.tcp)
        .expect("TCP");
    assert!(info.snd_mss < 600, "{}", info.snd_mss);
}

#[test]
fn cookies_open_connections_that_left_no_state_behind() {
    let mut pair = hosts();
    let address = SocketAddr::new(v4(SERVER), 80);
    let options = ListenOptions {
        always_cookies: true,
        ..ListenOptions::default()
    };
    let listener = pair.stack(SERVER).listen(address, options).expect("free");
    let now = pair.now();
    let client = pair.stack(CLIENT).connect(now, address).expect("a route");
    let mut server = None;
    assert!(pair.run_until(Duration::from_secs(5), |pair| {
        server = server.or_else(|| pair.stack(SERVER).accept(listener));
        server.is_some()
    }));
    assert_eq!(pair.counter(SERVER, "TcpExtSyncookiesRecv"), 1);
    let data = pattern(300_000);
    let server = server.expect("accepted");
    assert!(pair.transfer(CLIENT, client, server, &data) == data);
    assert!(pair.transfer(SERVER, server, client, &data) == data);
}

#[test]
fn a_closed_listener_resets_who_waits_at_it() {
    let mut pair = hosts();
    let address = SocketAddr::new(v4(SERVER), 80);
    let listener = pair
        .stack(SERVER)
        .listen(address, ListenOptions::default())
        .expect("free");
    assert_eq!(
        pair.stack(SERVER).listen(address, ListenOptions::default()),
        Err(SocketError::AddressInUse(address))
    );
    let now = pair.now();
    let client = pair.stack(CLIENT).connect(now, address).expect("a route");
    pair.run_for(Duration::from_millis(10));
    pair.stack(SERVER)
        .close_listener(listener)
        .expect("it listens");
    pair.run_for(Duration::from_millis(10));
    assert!(
        pair.events(CLIENT)
            .contains(&Event::Closed(client, CloseReason::Reset))
    );
    assert_eq!(pair.stack(SERVER).sockets().count(), 0);
    assert_eq!(pair.stack(SERVER).accept(listener), None);
}

#[test]
fn mangled_frames_cost_a_connection_at_worst() {
    let data = pattern(200_000);
    for seed in 1..40u64 {
        let mut pair = hosts();
        let (client, server) = pair.secured(&Options::default(), [Offload::Both; 2]);
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut random = move |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 20) as usize % below
        };
        pair.decide(move |_, _, frame| {
            if random(20) == 0 {
                for _ in 0..=random(3) {
                    // Headers more often than payload.
                    let reach = if random(2) == 0 { 80 } else { 2000 };
                    let at = random(frame.len().min(reach));
                    frame[at] = random(256) as u8;
                }
                if random(8) == 0 {
                    return Fate::Cut(random(frame.len()));
                }
                if random(2) == 0
                    && let Ok(parsed) = wire::packet::parse(frame)
                {
                    // With its checksums right, it gets further.
                    let end = parsed.payload_offset + parsed.payload_len as usize;
                    let (src, dst) = (parsed.flow.src.0, parsed.flow.dst.0);
                    wire::tcp::fill_checksum(src, dst, &mut frame[parsed.l4_offset..end]);
                    ipv4::fill_checksum(&mut frame[parsed.l3_offset..parsed.l4_offset]);
                }
            }
            Fate::Pass
        });
        let (mut written, mut received) = (0, Vec::new());
        let mut buffer = vec![0; 50_000];
        pair.run_until(Duration::from_secs(20), |pair| {
            let now = pair.now();
            if written < data.len() {
                match pair.stack(SERVER).write(now, server, &data[written..]) {
                    Ok(bytes) => written += bytes,
                    Err(SocketError::WouldBlock) => {}
                    Err(_) => return true,
                }
            }
            match pair.stack(CLIENT).read(now, client, &mut buffer) {
                Ok(bytes) => received.extend_from_slice(&buffer[..bytes]),
                Err(SocketError::WouldBlock) => {}
                Err(_) => return true,
            }
            received.len() >= data.len()
        });
        assert!(
            data.starts_with(&received),
            "seed {seed}: other bytes than were sent"
        );
    }
}

#[test]
fn arbitrary_frames_are_counted_and_dropped() {
    let mut pair = hosts();
    let (client, server) = pair.connected(v4);
    let mut state = 88172645463325252u64;
    for _ in 0..20_000 {
        let mut frame: Vec<u8> = (0..(state >> 7) % 200)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state as u8
            })
            .collect();
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        if frame.len() >= 14 {
            frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
            let kinds = [[8, 0], [8, 6], [0x86, 0xdd]];
            frame[12..14].copy_from_slice(&kinds[(state >> 9) as usize % 3]);
            if let Some(version) = frame.get_mut(14) {
                *version = if (state >> 3) & 1 == 0 { 0x45 } else { 0x60 };
            }
        }
        pair.deliver(SERVER, &frame);
    }
    pair.run_for(Duration::from_secs(1));
    let data = pattern(10_000);
    assert!(pair.transfer(CLIENT, client, server, &data) == data);
}

/// A SYN from `src` to the server's port 80, in a frame.
fn syn_from(src: SocketAddr) -> Vec<u8> {
    let flow = FlowKey::new(src, (v4(SERVER), 80).into());
    let syn = wire::tcp::Header {
        src_port: src.port(),
        dst_port: 80,
        seq: wire::SeqNum(77),
        flags: wire::tcp::Flags::SYN,
        window: 1000,
        ..wire::tcp::Header::default()
    };
    frame(Pair::mac(CLIENT), Pair::mac(SERVER), &flow, &syn, &[])
}

#[test]
fn syns_from_where_no_route_leads_do_not_fill_the_backlog() {
    let mut pair = hosts();
    let address = SocketAddr::new(v4(SERVER), 80);
    let options = ListenOptions {
        backlog: 4,
        ..ListenOptions::default()
    };
    let listener = pair.stack(SERVER).listen(address, options).expect("free");
    for host in 0..20 {
        pair.deliver(SERVER, &syn_from(([192, 0, 2, host], 5000).into()));
    }
    pair.run_for(Duration::from_millis(5));
    assert_eq!(pair.counter(SERVER, "IpOutNoRoutes"), 20);
    let now = pair.now();
    pair.stack(CLIENT).connect(now, address).expect("a route");
    assert!(pair.run_until(Duration::from_secs(5), |pair| {
        pair.stack(SERVER).accept(listener).is_some()
    }));
    assert_eq!(pair.counter(SERVER, "TcpExtSyncookiesRecv"), 0);
}

#[test]
fn nobody_answers_a_group() {
    let mut pair = hosts();
    for src in [[224, 0, 0, 1], [255; 4], [0; 4]] {
        pair.deliver(SERVER, &syn_from((src, 5000).into()));
    }
    pair.run_for(Duration::from_millis(5));
    assert_eq!(pair.counter(SERVER, "TcpOutRsts"), 0);
    pair.deliver(SERVER, &syn_from((v4(CLIENT), 5000).into()));
    pair.run_for(Duration::from_millis(5));
    assert_eq!(pair.counter(SERVER, "TcpOutRsts"), 1);
}
