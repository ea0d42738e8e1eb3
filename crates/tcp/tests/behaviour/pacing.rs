//! Data spread over the round trip (RFC 9002 §7.7).

use std::time::Duration;

use tcp::Config;

use crate::loss::{a_round_later, ten_outstanding};
use crate::peer::{Peer, modern};
use crate::{MSS, ms};

const ROUND: Duration = ms(10);

/// A bulk sender behind its first window, 10 ms from its peer: it has twenty segments to send, twice as fast as the window lasts.
fn in_slow_start() -> Peer {
    let config = Config {
        pacing: true,
        ..Config::default()
    };
    let (mut peer, base, _) = ten_outstanding(&config, modern());
    peer.pass(Duration::ZERO);
    a_round_later(&mut peer, base);
    peer
}

/// Segments that leave up to so long from now, as the pacer lets them.
fn segments_within(peer: &mut Peer, span: Duration) -> u32 {
    let end = peer.now + span;
    let mut bytes = peer.sent_bytes();
    while peer.connection.poll_timeout().is_some_and(|due| due <= end) {
        peer.next_timer();
        bytes += peer.sent_bytes();
    }
    peer.pass(end.saturating_duration_since(peer.now));
    bytes / MSS
}

#[test]
fn a_window_is_spread_over_half_a_round_in_slow_start() {
    let mut peer = in_slow_start();
    let sent: Vec<u32> = (0..5)
        .map(|_| segments_within(&mut peer, ROUND / 8))
        .collect();
    assert_eq!(sent.iter().sum::<u32>(), 20, "{sent:?}");
    assert!(sent[0] <= 12, "no more than a burst at once: {sent:?}");
    // Five, in bursts of two segments.
    assert!(
        sent[1..4].iter().all(|some| (2..=6).contains(some)),
        "{sent:?}"
    );
}

/// Time that passed without data is made up for by no more than half of a burst.
#[test]
fn what_comes_late_does_not_come_at_once() {
    let mut in_time = in_slow_start();
    let burst = in_time.sent_bytes() / MSS;
    let mut late = in_slow_start();
    late.pass(ms(3));
    let sent = segments_within(&mut late, Duration::from_micros(200));
    assert!(sent <= 2 * burst, "{sent} segments, a burst has {burst}");
    assert!(sent < 20);
}
