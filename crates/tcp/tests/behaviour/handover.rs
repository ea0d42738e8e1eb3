//! Connections that the NIC has set up, or is to finish.

use std::time::{Duration, Instant};

use tcp::{Config, Connection, Handshake, State};
use wire::SeqNum;
use wire::tcp::{Flags, Header, Options, Timestamps};

const HANDSHAKE: Handshake = Handshake {
    mss: 1440,
    window_scale: Some(7),
    sack: true,
    timestamp: 5_000,
};

fn ack() -> Header {
    Header {
        src_port: 40_000,
        dst_port: 443,
        seq: SeqNum(101),
        ack: SeqNum(u32::MAX),
        flags: Flags::ACK,
        window: 500,
        options: Options {
            timestamps: Some(Timestamps {
                val: 77,
                echo: 4_999,
            }),
            ..Options::default()
        },
        ecn: wire::Ecn::NotEct,
    }
}

fn opened(now: Instant) -> Connection {
    let mut connection = Connection::from_handshake(now, &Config::default(), &ack(), &HANDSHAKE);
    connection.handle_segment(now, &ack(), 0, 1);
    connection
}

#[test]
fn a_connection_that_another_has_set_up_uses_what_was_agreed() {
    let now = Instant::now();
    let mut connection = opened(now);
    assert_eq!(connection.state(), State::Established);
    assert_eq!(connection.snd_una(), SeqNum(u32::MAX));
    assert_eq!(connection.rcv_nxt(), SeqNum(101));
    let info = connection.info(now);
    assert_eq!(info.snd_wnd, 500 << 7);
    assert!(info.sack && info.timestamps);
    assert_eq!(connection.queue(now, 100), 100);
    let later = now + Duration::from_millis(20);
    let sent = connection.poll_transmit(later).expect("data");
    assert_eq!((sent.header.seq, sent.payload), (SeqNum(u32::MAX), 100));
    // RFC 7323: our clock goes on from where the SYN-ACK had it, and the peer's value is echoed.
    let timestamps = sent.header.options.timestamps.expect("timestamps");
    assert_eq!((timestamps.val, timestamps.echo), (5_020, 77));
    assert_eq!(sent.mss, 1440 - 12);
    connection.assert_invariants();
}

#[test]
fn what_is_offered_without_a_connection_is_what_a_connection_offers() {
    let now = Instant::now();
    let config = Config::default();
    for window_scale in [None, Some(0), Some(7), Some(14)] {
        let handshake = Handshake {
            window_scale,
            ..HANDSHAKE
        };
        let mut connection = Connection::from_handshake(now, &config, &ack(), &handshake);
        connection.handle_segment(now, &ack(), 0, 1);
        let closing = connection.closing(now).expect("nothing is open");
        assert_eq!(closing.window, handshake.window_field(&config));
        assert_eq!(closing.peer_shift, handshake.peer_shift(&config));
        assert_eq!(closing.mss, handshake.payload_mss(config.mss));
    }
}

#[test]
fn a_quiet_connection_can_be_finished_by_another() {
    let now = Instant::now();
    let mut connection = opened(now);
    connection.queue(now, 3_000);
    let closing = connection.closing(now).expect("within the initial window");
    assert_eq!(closing.state, State::Established);
    assert_eq!(closing.snd_una, closing.snd_nxt);
    assert_eq!(closing.snd_una.distance_to(closing.end), 3_000);
    assert_eq!(closing.timestamps, Some((77, 5_000)));
    while connection.poll_transmit(now).is_some() {}
    let closing = connection.closing(now).expect("sent, not acknowledged");
    assert_eq!(closing.snd_nxt, closing.end);
    connection.close(now);
    assert_eq!(connection.closing(now), None, "it closes already");
}

#[test]
fn what_is_in_trouble_or_too_much_is_not_for_others() {
    let now = Instant::now();
    // More than the initial window.
    let mut connection = opened(now);
    connection.queue(now, 20_000);
    assert_eq!(connection.closing(now), None);

    // Unread data.
    let mut connection = opened(now);
    let mut data = ack();
    data.flags = Flags::ACK | Flags::PSH;
    connection.handle_segment(now, &data, 10, 1);
    assert_eq!(connection.closing(now), None);
    connection.consumed(now, 10);
    assert!(connection.closing(now).is_some());

    // A gap.
    data.seq = SeqNum(200);
    connection.handle_segment(now, &data, 10, 1);
    assert_eq!(connection.closing(now), None);

    // A timeout.
    let mut connection = opened(now);
    connection.queue(now, 100);
    while connection.poll_transmit(now).is_some() {}
    let mut later = now;
    for _ in 0..2 {
        later = connection.poll_timeout().expect("a timer runs");
        connection.handle_timeout(later);
        while connection.poll_transmit(later).is_some() {}
    }
    assert_eq!(connection.closing(later), None);

    // A closed window.
    let mut closed = ack();
    closed.window = 0;
    let connection = Connection::from_handshake(now, &Config::default(), &closed, &HANDSHAKE);
    assert_eq!(connection.closing(now), None);
}
