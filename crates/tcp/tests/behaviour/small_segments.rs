//! Which segments wait for others: delayed acknowledgments, Nagle, the cork.

use wire::tcp::Flags;

use crate::peer::Peer;
use crate::{MSS, ms};

/// RFC 9293 §3.8.6.3, RFC 5681 §4.2.
#[test]
fn acks_are_delayed_after_the_start() {
    let mut peer = Peer::modern();
    let mut at_once = 0;
    for _ in 0..16 {
        peer.data(MSS);
        at_once += peer.sent().len();
        peer.connection.consumed(peer.now, MSS);
    }
    assert_eq!(
        at_once, 16,
        "quick at the start, so that the peer's window grows"
    );
    peer.data(MSS);
    assert!(peer.sent().is_empty());
    peer.data(MSS);
    assert_eq!(peer.sent().len(), 1, "every second segment");
    peer.data(MSS);
    assert_eq!(peer.next_timer(), Some(ms(40)));
    assert_eq!(peer.sent().len(), 1);
    // An LRO packet stands for the segments that it was made of.
    let header = peer.header(Flags::ACK);
    peer.connection
        .handle_segment(peer.now, &header, 3 * MSS, 3);
    assert_eq!(peer.sent().len(), 1);
}

/// An ACK rides on data.
#[test]
fn answers_carry_the_ack() {
    let mut peer = Peer::modern();
    peer.data(100);
    peer.queue(200);
    let sent = peer.sent();
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].payload, sent[0].header.ack), (200, peer.seq));
}

/// RFC 9293 §3.7.4 in Minshall's variant: one short segment outstanding.
#[test]
fn nagle_holds_back_small_segments() {
    let mut peer = Peer::modern();
    peer.queue(100);
    assert_eq!(peer.sent_data().len(), 1);
    peer.queue(100);
    assert!(peer.sent_data().is_empty());
    peer.queue(2 * MSS);
    let sent = peer.sent_bytes();
    assert_eq!(sent, 2 * MSS, "full segments go");
    let all = peer.connection.snd_nxt();
    peer.acknowledge(all);
    let sent = peer.sent_bytes();
    assert_eq!(sent, 100);
    peer.connection.set_nagle(false);
    peer.queue(7);
    peer.queue(7);
    assert_eq!(peer.sent_data().len(), 1);
}

#[test]
fn a_cork_holds_short_segments_for_a_while() {
    let mut peer = Peer::modern();
    peer.connection.set_cork(peer.now, true);
    peer.queue(100);
    assert!(peer.sent().is_empty());
    peer.queue(MSS);
    assert_eq!(peer.sent_bytes(), MSS);
    let all = peer.connection.snd_nxt();
    peer.acknowledge(all);
    assert!(peer.sent().is_empty());
    assert!(peer.next_timer().is_some_and(|waited| waited <= ms(200)));
    assert_eq!(peer.sent_bytes(), 100);
    peer.queue(50);
    assert!(peer.sent().is_empty());
    peer.connection.set_cork(peer.now, false);
    let all = peer.connection.snd_nxt();
    peer.acknowledge(all);
    assert_eq!(peer.sent_data().len(), 1);
}

/// The last segment of what is queued says so.
#[test]
fn push_marks_the_end_of_the_queue() {
    let mut peer = Peer::modern();
    peer.queue(8 * MSS + 10);
    let sent = peer.sent();
    let pushes: Vec<_> = sent
        .iter()
        .map(|transmit| transmit.header.flags.contains(Flags::PSH))
        .collect();
    assert_eq!(pushes.last(), Some(&true));
    assert!(!pushes[..pushes.len() - 1].contains(&true));
}

/// A Transmit is at most half the window, so that ACKs keep coming.
#[test]
fn bursts_leave_room_for_the_ack_clock() {
    let mut peer = Peer::modern();
    peer.queue(1 << 20);
    let sent = peer.sent();
    assert_eq!(sent.len(), 2);
    assert!(sent.iter().all(|transmit| transmit.payload == 5 * MSS));
}
