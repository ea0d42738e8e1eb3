//! How connections end.

use std::time::Duration;

use tcp::{CloseReason, Config, Event, State};
use wire::tcp::Flags;

use crate::pair::{App, Link, Pair, Setup};
use crate::peer::{Peer, modern};

const MINUTE: Duration = Duration::from_secs(60);

/// RFC 9293 §3.6.1, figure 12.
#[test]
fn a_normal_close() {
    let mut peer = Peer::modern();
    peer.connection.close(peer.now);
    assert_eq!(peer.connection.state(), State::FinWait1);
    let fin = peer.sent().remove(0);
    assert_eq!(fin.header.flags, Flags::FIN | Flags::ACK);
    peer.acknowledge(fin.header.seq + 1);
    assert_eq!(peer.connection.state(), State::FinWait2);
    // Half closed: the peer may go on sending.
    let received = peer.data(500);
    assert_eq!(received.data.map(|data| data.len), Some(500));
    peer.connection.consumed(peer.now, 500);
    let received = peer.deliver(&peer.header(Flags::FIN | Flags::ACK), 0);
    assert!(received.fin);
    assert_eq!(peer.connection.state(), State::TimeWait);
    assert_eq!(peer.sent().last().expect("an ACK").header.ack, peer.seq + 1);
    assert_eq!(peer.event(), Some(Event::PeerFin));
    assert_eq!(peer.event(), Some(Event::TimeWait));
    assert_eq!(peer.next_timer(), Some(MINUTE));
    assert_eq!(peer.event(), Some(Event::Closed(CloseReason::Graceful)));
}

/// RFC 9293 §3.6, case 2: the peer closes first.
#[test]
fn the_peer_closes_first() {
    let mut peer = Peer::modern();
    let received = peer.deliver(&peer.header(Flags::FIN | Flags::ACK), 0);
    peer.seq += 1;
    assert!(received.fin);
    assert_eq!(peer.connection.state(), State::CloseWait);
    peer.queue(3000);
    assert!(!peer.sent_data().is_empty());
    peer.connection.close(peer.now);
    assert_eq!(peer.connection.state(), State::LastAck);
    assert!(
        peer.sent()
            .iter()
            .any(|transmit| transmit.header.flags.contains(Flags::FIN))
    );
    let all = peer.connection.snd_nxt();
    peer.acknowledge(all);
    assert_eq!(peer.connection.state(), State::Closed);
    let events: Vec<_> = std::iter::from_fn(|| peer.event()).collect();
    assert_eq!(events.last(), Some(&Event::Closed(CloseReason::Graceful)));
}

/// RFC 9293 §3.6, case 3, figure 13.
#[test]
fn both_close_at_once() {
    let mut peer = Peer::modern();
    peer.connection.close(peer.now);
    let fin = peer.sent().remove(0).header;
    peer.deliver(&peer.header(Flags::FIN | Flags::ACK), 0);
    peer.seq += 1;
    assert_eq!(peer.connection.state(), State::Closing);
    peer.acknowledge(fin.seq + 1);
    assert_eq!(peer.connection.state(), State::TimeWait);
}

/// RFC 9293 §3.10.7.4: TIME-WAIT acknowledges the peer's FIN again and starts anew.
#[test]
fn time_wait_answers_a_repeated_fin() {
    let mut peer = Peer::modern();
    peer.connection.close(peer.now);
    let fin = peer.sent().remove(0).header;
    peer.ack = fin.seq + 1;
    let their_fin = peer.header(Flags::FIN | Flags::ACK);
    peer.deliver(&their_fin, 0);
    assert_eq!(peer.connection.state(), State::TimeWait);
    peer.sent();
    peer.pass(MINUTE / 2);
    peer.deliver(&their_fin, 0);
    assert_eq!(peer.sent().len(), 1);
    assert_eq!(peer.next_timer(), Some(MINUTE));
    // RFC 1337: a RST does not end it.
    let mut peer = Peer::modern();
    peer.connection.close(peer.now);
    let fin = peer.sent().remove(0).header;
    peer.ack = fin.seq + 1;
    peer.deliver(&peer.header(Flags::FIN | Flags::ACK), 0);
    peer.seq += 1;
    peer.deliver(&peer.header(Flags::RST), 0);
    assert_eq!(peer.connection.state(), State::TimeWait);
}

/// RFC 9293 §3.10.5.
#[test]
fn an_abort_sends_a_reset() {
    let mut peer = Peer::modern();
    peer.queue(100_000);
    peer.sent();
    let nxt = peer.connection.snd_nxt();
    peer.connection.abort();
    let sent = peer.sent();
    assert_eq!(sent.len(), 1);
    assert_eq!(
        (sent[0].header.flags, sent[0].header.seq),
        (Flags::RST, nxt)
    );
    // RFC 7323 §3.2: with the option, as all segments have it.
    assert!(sent[0].header.options.timestamps.is_some());
    assert_eq!(peer.event(), Some(Event::Closed(CloseReason::Aborted)));
    assert_eq!(peer.connection.poll_timeout(), None);
    // Late news about the path wakes nothing.
    peer.connection.handle_path_mss(peer.now, 700);
    peer.connection.assert_invariants();
    assert_eq!(peer.connection.poll_timeout(), None);
}

/// RFC 1122 §4.2.2.13: data that will not be read is answered with a reset.
#[test]
fn a_detached_connection_refuses_data() {
    let mut peer = Peer::modern();
    peer.connection.close(peer.now);
    peer.connection.detach(peer.now);
    let fin = peer.sent().remove(0).header;
    peer.acknowledge(fin.seq + 1);
    assert_eq!(peer.connection.state(), State::FinWait2);
    peer.data(10);
    assert!(
        peer.sent()
            .iter()
            .any(|transmit| transmit.header.flags.contains(Flags::RST))
    );
    assert_eq!(peer.connection.state(), State::Closed);
}

#[test]
fn letting_go_of_unread_data_resets() {
    let mut peer = Peer::modern();
    peer.data(10);
    peer.connection.close(peer.now);
    peer.connection.detach(peer.now);
    assert!(
        peer.sent()
            .iter()
            .any(|transmit| transmit.header.flags.contains(Flags::RST))
    );
}

#[test]
fn a_detached_connection_does_not_wait_for_ever_in_fin_wait_2() {
    for detach_first in [false, true] {
        let mut peer = Peer::modern();
        peer.connection.close(peer.now);
        if detach_first {
            peer.connection.detach(peer.now);
        }
        let fin = peer.sent().remove(0).header;
        peer.acknowledge(fin.seq + 1);
        if !detach_first {
            assert_eq!(
                peer.connection.poll_timeout(),
                None,
                "half closed, it may last"
            );
            peer.connection.detach(peer.now);
        }
        assert_eq!(peer.next_timer(), Some(MINUTE));
        assert_eq!(peer.connection.state(), State::Closed);
    }
}

/// A FIN that comes before the data in front of it waits for that.
#[test]
fn a_fin_out_of_order_waits() {
    let mut peer = Peer::modern();
    let mut fin = peer.header(Flags::FIN | Flags::ACK);
    fin.seq += 1000;
    let received = peer.deliver(&fin, 500);
    assert!(!received.fin);
    assert_eq!(received.data.map(|data| data.len), Some(500));
    let received = peer.data(1000);
    assert!(received.fin);
    assert_eq!(peer.connection.rcv_nxt(), fin.seq + 501);
    assert_eq!(peer.connection.unread(), 1500);
    assert_eq!(peer.connection.state(), State::CloseWait);
}

/// It has a sequence number (RFC 9293 §3.4): SACK tells of it at once, as of data above a hole (RFC 5681 §4.2).
#[test]
fn a_fin_out_of_order_is_selectively_acknowledged() {
    for len in [500, 0] {
        let mut peer = Peer::modern();
        let mut fin = peer.header(Flags::FIN | Flags::ACK);
        fin.seq += 1000;
        peer.deliver(&fin, len);
        let sent = peer.sent();
        assert_eq!(sent.len(), 1);
        assert_eq!(
            sent[0].header.options.sack.as_slice(),
            [(fin.seq, fin.seq + len + 1)]
        );
        peer.data(1000);
        let sent = peer.sent();
        assert!(sent[0].header.options.sack.is_empty());
        assert_eq!(sent[0].header.ack, fin.seq + len + 1);
    }
}

/// The FIN goes with the last data, and comes again alone or with it as needed.
#[test]
fn a_fin_rides_on_the_last_data() {
    let mut peer = Peer::connected(&Config::default(), modern());
    peer.queue(5000);
    peer.connection.close(peer.now);
    let sent = peer.sent();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].payload, 5000);
    assert_eq!(sent[0].header.flags, Flags::FIN | Flags::ACK | Flags::PSH);
    let base = sent[0].header.seq;
    // All but the FIN arrived.
    peer.acknowledge(base + 5000);
    peer.pass(Duration::from_secs(2));
    let again = peer.sent();
    assert!(again.iter().any(|transmit| transmit.payload == 0
        && transmit.header.flags.contains(Flags::FIN)
        && transmit.header.seq == base + 5000));
}

#[test]
fn every_state_ends_under_loss() {
    for seed in 0..60 {
        let link = Link {
            loss: 0.3,
            duplicate: 0.1,
            reorder: 0.3,
            ..Link::default()
        };
        let mut pair = Pair::new(Setup {
            links: [link; 2],
            apps: [
                App {
                    total: seed * 100,
                    closes_first: seed % 3 != 0,
                    ..App::default()
                },
                App::default(),
            ],
            configs: [
                Config {
                    retries: 40,
                    ..Config::default()
                },
                Config {
                    retries: 40,
                    ..Config::default()
                },
            ],
            seed,
            ..Setup::default()
        });
        pair.run_to_end(Duration::from_secs(100_000));
        pair.run(Duration::from_secs(100_000));
        for side in &pair.sides {
            assert_eq!(side.state(), State::Closed);
            assert_eq!(side.connection.poll_timeout(), None);
        }
    }
}
