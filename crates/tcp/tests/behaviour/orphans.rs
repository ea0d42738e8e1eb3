//! Connections that their application has let go of, and memory that is given up.

use std::time::Duration;

use tcp::{Config, State};
use wire::SeqNum;
use wire::tcp::Flags;

use super::peer::{Peer, modern};

/// What the settings allow an orphan without progress.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs timers until the connection is closed; answers how long that took, and whether the peer was told.
fn run_out(peer: &mut Peer, answers: bool) -> (Duration, bool) {
    let start = peer.now;
    let mut is_told = false;
    while peer.connection.state() != State::Closed {
        peer.next_timer().expect("it waits for something");
        for sent in peer.sent() {
            is_told |= sent.header.flags.contains(Flags::RST);
        }
        if answers && peer.connection.state() != State::Closed {
            peer.acknowledge(peer.ack);
        }
    }
    is_told |= peer
        .sent()
        .iter()
        .any(|sent| sent.header.flags.contains(Flags::RST));
    (peer.now - start, is_told)
}

#[test]
fn an_orphan_whose_peer_has_vanished_is_given_up_in_time_however_long_it_was_waited_for() {
    for waited in [0, 3, 30, 100, 400] {
        let mut peer = Peer::connected(&Config::default(), modern());
        peer.queue(5000);
        peer.sent();
        let until = peer.now + Duration::from_secs(waited);
        while peer.connection.poll_timeout().is_some_and(|at| at < until) {
            peer.next_timer();
            peer.sent();
        }
        peer.connection.close(peer.now);
        peer.connection.detach(peer.now);
        peer.sent();
        let (took, is_told) = run_out(&mut peer, false);
        assert!(took <= LIMIT && is_told, "{waited} s: {took:?}");
    }
}

/// RFC 9293 §3.8.6.1 has a closed window waited for as long as the peer answers; for an orphan there is no reason to.
#[test]
fn an_orphan_whose_peer_keeps_its_window_closed_is_given_up_in_time() {
    let mut peer = Peer::connected(&Config::default(), modern());
    peer.queue(5000);
    let first = peer.sent().remove(0).header.seq;
    peer.window = 0;
    peer.acknowledge(first + 1000);
    peer.connection.close(peer.now);
    peer.connection.detach(peer.now);
    let (took, is_told) = run_out(&mut peer, true);
    assert!(took <= LIMIT && is_told, "{took:?}");
}

#[test]
fn an_orphan_whose_peer_reads_on_is_served_to_the_end() {
    let mut peer = Peer::connected(&Config::default(), modern());
    peer.queue(200_000);
    peer.connection.close(peer.now);
    peer.connection.detach(peer.now);
    let mut rounds = 0;
    while peer.connection.state() != State::FinWait2 {
        let fin = |flags: Flags| u32::from(flags.contains(Flags::FIN));
        let sent = peer.sent();
        let ends = sent
            .iter()
            .map(|sent| sent.header.seq + sent.payload + fin(sent.header.flags));
        let end = ends.reduce(SeqNum::max).expect("there is more to send");
        peer.pass(Duration::from_millis(100));
        peer.acknowledge(end);
        rounds += 1;
        assert!(rounds < 1000);
    }
}

/// The right edge of the window that a segment offers.
fn edge(peer: &mut Peer, shift: u8) -> Option<SeqNum> {
    let sent = peer.sent();
    let last = sent.last()?.header;
    Some(last.ack + (u32::from(last.window) << shift))
}

#[test]
fn a_window_that_shrinks_is_never_withdrawn() {
    let mut peer = Peer::modern();
    let shift = peer.info().window_scale.expect("both have it").1;
    peer.data(1000);
    let mut last = edge(&mut peer, shift).expect("an acknowledgment");
    let before = last;
    peer.connection.limit_receive_buffer(0);
    for round in 0..400 {
        peer.data(1000);
        if round % 3 == 0 {
            peer.connection.consumed(peer.now, 3000);
        }
        if round % 50 == 0 {
            peer.connection.shrink_receive_buffer(1 << 20);
        }
        peer.pass(Duration::from_millis(50));
        if let Some(now) = edge(&mut peer, shift) {
            // The field can't say less than the scale (RFC 7323 §2.4).
            assert!((now + (1 << shift)).after(last), "{now:?} {last:?}");
            last = last.max(now);
        }
    }
    assert!(peer.info().rcv_space < 128 << 10 && last.after(before));
}

#[test]
fn a_limit_that_changes_nothing_loses_nothing_of_what_was_measured() {
    let mut peer = Peer::modern();
    let buffer = |peer: &Peer| {
        peer.connection
            .tcb(peer.now)
            .expect("it is open")
            .rcv_buffer
    };
    let before = buffer(&peer);
    for _ in 0..10 {
        peer.data(1000);
        peer.connection.consumed(peer.now, 1000);
        peer.sent();
        peer.pass(Duration::from_millis(50));
    }
    assert_eq!(buffer(&peer), before);
    peer.connection.limit_receive_buffer(before);
    // The application has consumed little: so little serves it.
    peer.connection.shrink_receive_buffer(before);
    assert!(buffer(&peer) < before, "{before}");
}

/// It is consumed as a whole (RFC 8446 §5.2), so a smaller window would never open again.
#[test]
fn a_window_that_shrinks_has_room_for_a_tls_record() {
    let mut peer = Peer::modern();
    let shift = peer.info().window_scale.expect("both have it").1;
    let mut last = None;
    for _ in 0..400 {
        peer.connection.shrink_receive_buffer(0);
        peer.data(1000);
        peer.connection.consumed(peer.now, 1000);
        peer.pass(Duration::from_millis(50));
        last = edge(&mut peer, shift).or(last);
    }
    let room = peer
        .connection
        .rcv_nxt()
        .distance_to(last.expect("an acknowledgment"));
    assert!((5 + 16_640..64 << 10).contains(&room), "{room}");
}

/// Room of less than a few units of the window's field (RFC 7323 §2.3) could not be told.
#[test]
fn a_window_that_shrinks_can_still_be_told() {
    let config = Config {
        rcv_buf: 1 << 20,
        rcv_buf_max: 1 << 30,
        ..Config::default()
    };
    let mut peer = Peer::connected(&config, modern());
    assert_eq!(peer.info().window_scale, Some((7, 14)));
    peer.connection.limit_receive_buffer(0);
    let tcb = peer.connection.tcb(peer.now).expect("it is open");
    assert_eq!(tcb.rcv_buffer, 4 << 14);
}

#[test]
fn what_came_out_of_order_and_was_given_up_is_taken_when_it_comes_again() {
    let mut peer = Peer::modern();
    peer.data_ahead(1000, 3000);
    peer.sent();
    assert_eq!(peer.connection.renege(), 3000);
    assert_eq!(peer.connection.renege(), 0);
    let start = peer.connection.rcv_nxt();
    peer.data(1000);
    assert_eq!(
        peer.connection.rcv_nxt(),
        start + 1000,
        "only that is there"
    );
    peer.data(3000);
    assert_eq!(peer.connection.rcv_nxt(), start + 4000);
    assert_eq!(peer.connection.unread(), 4000);
}
