//! How connections begin.

use std::time::{Duration, Instant};

use tcp::{CloseReason, Config, Connection, Event, State, reset_for};
use wire::SeqNum;
use wire::tcp::{Flags, Header, Options};

use crate::pair::{App, Link, Pair, Setup};
use crate::peer::{ISS, PEER_ISS, Peer, modern};

/// The peer's SYN, without options.
fn syn() -> Header {
    Header {
        src_port: 80,
        dst_port: 1000,
        seq: PEER_ISS,
        flags: Flags::SYN,
        window: 1000,
        ..Header::default()
    }
}

/// The peer's ACK of our SYN-ACK.
fn last_ack() -> Header {
    Header {
        seq: PEER_ISS + 1,
        ack: ISS + 1,
        flags: Flags::ACK,
        ..syn()
    }
}

/// A connection that a SYN has made, and the time.
fn accept(syn: &Header) -> (Connection, Instant) {
    let now = Instant::now();
    let server = Connection::accept(now, &Config::default(), syn, ISS);
    (server, now)
}

/// RFC 9293 §3.5, figure 6; RFC 7323 §2.2, RFC 2018 §2, RFC 6691.
#[test]
fn a_syn_offers_everything() {
    let mut peer = Peer::new(&Config::default());
    let syn = peer.sent().remove(0);
    assert_eq!(syn.payload, 0);
    assert_eq!(syn.header.flags, Flags::SYN);
    assert_eq!(syn.header.seq, ISS);
    let options = syn.header.options;
    assert_eq!(options.mss, Some(1460));
    // 65,535 << 9 is the first window of at least 16 MiB.
    assert_eq!(options.window_scale, Some(9));
    assert!(options.sack_permitted);
    assert!(
        options
            .timestamps
            .is_some_and(|timestamps| timestamps.echo == 0)
    );
}

/// RFC 7323 §2.2 and §3.2: what the peer does not offer is not used.
#[test]
fn an_old_peer_gets_a_plain_connection() {
    let mut peer = Peer::connected(&Config::default(), Options::default());
    let info = peer.info();
    assert_eq!(info.window_scale, None);
    assert!(!info.timestamps && !info.sack);
    assert_eq!(info.snd_mss, 536, "RFC 9293 §3.7.1");
    peer.queue(10_000);
    let sent = peer.sent();
    assert!(
        sent.iter()
            .all(|transmit| transmit.header.options.is_empty())
    );
}

/// RFC 9293 §3.10.7.3: the window of a SYN is not scaled, later ones are (RFC 7323 §2.2).
#[test]
fn windows_are_scaled_after_the_syns() {
    let mut peer = Peer::modern();
    assert_eq!(peer.info().snd_wnd, 65_535);
    peer.window = 1_000;
    let ack = peer.ack;
    peer.acknowledge(ack);
    assert_eq!(peer.info().snd_wnd, 128_000);
}

/// RFC 9293 §3.8.1, RFC 6298 §5.
#[test]
fn a_lost_syn_is_sent_again_with_backoff_until_given_up() {
    let config = Config {
        syn_retries: 3,
        ..Config::default()
    };
    let mut peer = Peer::new(&config);
    assert_eq!(peer.sent().len(), 1);
    for wait in [1, 2, 4] {
        assert_eq!(peer.next_timer(), Some(Duration::from_secs(wait)));
        let again = peer.sent();
        assert_eq!(again.len(), 1);
        assert!(again[0].retransmit && again[0].header.flags == Flags::SYN);
    }
    assert_eq!(peer.next_timer(), Some(Duration::from_secs(8)));
    assert_eq!(peer.event(), Some(Event::Closed(CloseReason::TimedOut)));
    assert_eq!(peer.connection.poll_timeout(), None);
}

/// As Linux has it of `TCP_USER_TIMEOUT`: it ends the tries, and gives no more of them.
#[test]
fn the_user_timeout_ends_an_active_open_but_does_not_prolong_it() {
    for (limit, took) in [(5, 5), (3600, 15)] {
        let config = Config {
            syn_retries: 3,
            user_timeout: Some(Duration::from_secs(limit)),
            ..Config::default()
        };
        let mut peer = Peer::new(&config);
        let begin = peer.now;
        while peer.connection.state() != State::Closed {
            peer.sent();
            assert!(peer.next_timer().is_some());
        }
        assert_eq!(peer.now - begin, Duration::from_secs(took));
        assert_eq!(peer.event(), Some(Event::Closed(CloseReason::TimedOut)));
    }
}

/// What holds a place may be a forged SYN, and the client whose ACK is lost has a bad link: the user timeout is for neither.
#[test]
fn the_user_timeout_changes_no_tries_of_a_passive_open() {
    for limit in [None, Some(1), Some(5), Some(3600)] {
        let config = Config {
            user_timeout: limit.map(Duration::from_secs),
            ..Config::default()
        };
        let start = Instant::now();
        let mut now = start;
        let mut server = Connection::accept(now, &config, &syn(), ISS);
        let mut tries = 0;
        while server.state() != State::Closed {
            tries += std::iter::from_fn(|| server.poll_transmit(now)).count();
            now = server.poll_timeout().unwrap_or(now);
            server.handle_timeout(now);
        }
        let tries_and_time = (tries, now - start);
        assert_eq!(tries_and_time, (7, Duration::from_secs(127)), "{limit:?}");
    }
}

/// RFC 9293 §3.10.7.3: a RST in answer to the SYN.
#[test]
fn a_refused_connection_ends() {
    let mut peer = Peer::new(&Config::default());
    let syn = peer.sent().remove(0).header;
    let forged = Header {
        ack: ISS,
        ..peer.header(Flags::RST | Flags::ACK)
    };
    peer.deliver(&forged, 0);
    assert_eq!(
        peer.connection.state(),
        State::SynSent,
        "it acknowledges nothing of ours"
    );
    let reset = reset_for(&syn, 0).expect("a RST");
    assert_eq!(reset.ack, ISS + 1);
    peer.deliver(&reset, 0);
    assert_eq!(peer.event(), Some(Event::Closed(CloseReason::Refused)));
}

/// RFC 9293 §3.5.1, figure 9: an old SYN-ACK is answered with RST, and the handshake goes on.
#[test]
fn an_ack_of_another_incarnation_is_reset() {
    let mut peer = Peer::new(&Config::default());
    peer.sent();
    peer.ack = SeqNum(77);
    peer.deliver(&peer.header(Flags::SYN | Flags::ACK), 0);
    let reset = peer.sent();
    assert_eq!(reset.len(), 1);
    assert_eq!(reset[0].header.flags, Flags::RST);
    assert_eq!(reset[0].header.seq, SeqNum(77));
    assert_eq!(peer.connection.state(), State::SynSent);
}

/// RFC 9293 §3.10.7.4, SYN-RECEIVED: likewise.
#[test]
fn a_wrong_ack_in_syn_received_is_reset() {
    let (mut server, now) = accept(&syn());
    let syn_ack = server.poll_transmit(now).expect("a SYN-ACK").header;
    assert_eq!(syn_ack.flags, Flags::SYN | Flags::ACK);
    assert_eq!(syn_ack.ack, PEER_ISS + 1);
    let wrong = Header {
        ack: ISS + 2,
        ..last_ack()
    };
    server.handle_segment(now, &wrong, 0, 1);
    let reset = server.poll_transmit(now).expect("a RST").header;
    assert_eq!((reset.flags, reset.seq), (Flags::RST, ISS + 2));
    assert_eq!(server.state(), State::SynReceived);
}

/// RFC 9293 §3.10.7.4, first check: an ACK outside of the window opens no connection.
#[test]
fn an_ack_of_an_old_segment_does_not_end_the_handshake() {
    let (mut server, now) = accept(&syn());
    server.poll_transmit(now).expect("a SYN-ACK");
    let old = Header {
        seq: PEER_ISS,
        ..last_ack()
    };
    server.handle_segment(now, &old, 0, 1);
    server.assert_invariants();
    assert_eq!(server.state(), State::SynReceived);
    assert_eq!(server.tcb(now), None);
    assert_eq!(server.snd_una(), ISS);
}

/// RFC 9293 §3.10.7.4: a SYN that comes again means that our SYN-ACK was lost.
#[test]
fn a_repeated_syn_gets_the_syn_ack_again() {
    let syn = Header {
        options: modern(),
        ..syn()
    };
    let (mut server, now) = accept(&syn);
    assert!(server.poll_transmit(now).is_some());
    assert!(server.poll_transmit(now).is_none());
    server.handle_segment(now, &syn, 0, 1);
    let again = server.poll_transmit(now).expect("a SYN-ACK").header;
    assert_eq!(again.flags, Flags::SYN | Flags::ACK);
}

/// A SYN of another incarnation must not make a connection forget that it owes a SYN-ACK: no timer watches before that.
#[test]
fn a_stray_syn_does_not_swallow_the_syn_ack() {
    let (mut server, now) = accept(&syn());
    let stray = Header {
        seq: PEER_ISS - 1000,
        ..syn()
    };
    server.handle_segment(now, &stray, 0, 1);
    let syn_ack = server.poll_transmit(now).expect("a SYN-ACK").header;
    assert_eq!(syn_ack.flags, Flags::SYN | Flags::ACK);
    assert!(server.poll_timeout().is_some());
}

/// A half-open connection ends in time, however often the peer repeats its SYN.
#[test]
fn repeated_syns_do_not_keep_a_half_open_connection() {
    let (mut server, mut now) = accept(&syn());
    for _ in 0..1000 {
        while server.poll_transmit(now).is_some() {}
        now += Duration::from_millis(500);
        server.handle_timeout(now);
        server.handle_segment(now, &syn(), 0, 1);
    }
    assert_eq!(server.state(), State::Closed);
}

/// RFC 9293 §3.5, figure 7.
#[test]
fn both_may_open_at_once() {
    for loss in [0.0, 0.3] {
        for seed in 0..20 {
            let mut pair = Pair::new(Setup {
                simultaneous_open: true,
                links: [Link {
                    loss,
                    ..Link::default()
                }; 2],
                apps: [App::sends(5_000); 2],
                seed,
                ..Setup::default()
            });
            pair.run_to_end(Duration::from_secs(3600));
        }
    }
}

/// RFC 9293 §3.10.4: CLOSE in SYN-RECEIVED waits for the handshake, in SYN-SENT it just ends.
#[test]
fn closing_before_the_handshake_is_complete() {
    let mut peer = Peer::new(&Config::default());
    peer.sent();
    peer.connection.close(peer.now);
    assert_eq!(peer.event(), Some(Event::Closed(CloseReason::Graceful)));
    assert!(peer.sent().is_empty());

    let (mut server, now) = accept(&syn());
    server.poll_transmit(now);
    server.close(now);
    server.handle_segment(now, &last_ack(), 0, 1);
    assert_eq!(server.state(), State::FinWait1);
    let fin = server.poll_transmit(now).expect("a FIN").header;
    assert_eq!(fin.flags, Flags::FIN | Flags::ACK);
}

/// Data on the ACK that completes the handshake is taken.
#[test]
fn the_last_ack_of_the_handshake_may_carry_data() {
    let (mut server, now) = accept(&syn());
    server.poll_transmit(now);
    let received = server.handle_segment(now, &last_ack(), 100, 1);
    assert_eq!(received.data.map(|data| data.len), Some(100));
    assert_eq!(server.poll_event(), Some(Event::Connected));
}

/// RFC 9293 §3.5.2, group 1: the RST for a segment of no connection.
#[test]
fn segments_of_no_connection_are_reset() {
    let with_ack = Header {
        src_port: 1,
        dst_port: 2,
        seq: SeqNum(5),
        ack: SeqNum(9),
        flags: Flags::ACK,
        ..Header::default()
    };
    let reset = reset_for(&with_ack, 10).expect("a RST");
    assert_eq!(
        (reset.seq, reset.flags, reset.src_port, reset.dst_port),
        (SeqNum(9), Flags::RST, 2, 1)
    );
    let syn = Header {
        flags: Flags::SYN,
        ..with_ack
    };
    let reset = reset_for(&syn, 10).expect("a RST");
    assert_eq!(
        (reset.seq, reset.ack, reset.flags),
        (SeqNum(0), SeqNum(16), Flags::RST | Flags::ACK)
    );
    assert_eq!(
        reset_for(
            &Header {
                flags: Flags::RST,
                ..with_ack
            },
            0
        ),
        None
    );
}

/// RFC 6298 §5.7, RFC 5681 §3.1.
#[test]
fn after_lost_syns_the_start_is_cautious() {
    let mut peer = Peer::new(&Config {
        timestamps: false,
        ..Config::default()
    });
    peer.sent();
    for _ in 0..2 {
        peer.next_timer();
        peer.sent();
    }
    peer.ack = ISS + 1;
    peer.deliver(
        &Header {
            options: modern(),
            ..peer.header(Flags::SYN | Flags::ACK)
        },
        0,
    );
    let info = peer.info();
    assert_eq!(info.rto, Duration::from_secs(3));
    assert_eq!(info.cwnd, u32::from(info.snd_mss));
}

/// RFC 3168 §6.1.1: who is asked for ECN agrees; its flags on data, and an urgent pointer, keep no payload from being taken.
#[test]
fn a_peer_that_asks_for_ecn_gets_it() {
    let syn = Header {
        flags: Flags::SYN | Flags::ECE | Flags::CWR,
        ..syn()
    };
    let (mut server, now) = accept(&syn);
    let syn_ack = server.poll_transmit(now).expect("a SYN-ACK").header;
    assert_eq!(syn_ack.flags, Flags::SYN | Flags::ACK | Flags::ECE);
    let data = Header {
        flags: Flags::ACK | Flags::ECE | Flags::CWR | Flags::URG,
        ..last_ack()
    };
    let received = server.handle_segment(now, &data, 10, 1);
    assert_eq!(received.data.map(|data| data.len), Some(10));
}
