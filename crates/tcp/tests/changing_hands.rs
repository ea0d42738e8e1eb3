//! A connection that changes its owner again and again waits for its peer as long as one that does not.

use std::time::{Duration, Instant};

use tcp::{CloseReason, Config, Connection, Event, KeepAlive};
use wire::SeqNum;
use wire::tcp::Header;

/// Between two looks at the clock.
const STEP: Duration = Duration::from_millis(10);

/// A connection that is established, and whose peer is not heard any more from then on.
fn abandoned(now: Instant, config: &Config) -> Connection {
    let mut ours = Connection::connect(now, config, 40_000, 80, SeqNum(100));
    let syn = ours.poll_transmit(now).expect("a SYN").header;
    let mut peer = Connection::accept(now, config, &syn, SeqNum(900));
    let answer = peer.poll_transmit(now).expect("a SYN-ACK").header;
    let later = now + Duration::from_millis(3);
    ours.handle_segment(later, &answer, 0, 1);
    while ours.poll_event().is_some() {}
    while ours.poll_transmit(later).is_some() {}
    ours
}

/// All that it sends until it gives up, with the time of each, and why it ends.
fn sent_to_nobody(
    now: Instant,
    config: &Config,
    mut connection: Connection,
    moves: bool,
) -> (Vec<(Duration, Header)>, Option<CloseReason>) {
    let (mut sent, mut ended) = (Vec::new(), None);
    let mut elapsed = Duration::from_millis(3);
    while ended.is_none() && elapsed < Duration::from_secs(3000) {
        let at = now + elapsed;
        if moves && let Some(tcb) = connection.tcb(at) {
            connection = Connection::hand_over(at, config, &tcb);
        }
        if connection.poll_timeout().is_some_and(|due| due <= at) {
            connection.handle_timeout(at);
        }
        while let Some(transmit) = connection.poll_transmit(at) {
            sent.push((elapsed, transmit.header));
        }
        while let Some(event) = connection.poll_event() {
            if let Event::Closed(reason) = event {
                ended = Some(reason);
            }
        }
        elapsed += STEP;
    }
    (sent, ended)
}

fn assert_as_one_that_stays(config: &Config, queued: u32) {
    let now = Instant::now();
    let [stays, moved] = [false, true].map(|moves| {
        let mut connection = abandoned(now, config);
        assert_eq!(connection.queue(now, queued), queued);
        sent_to_nobody(now, config, connection, moves)
    });
    assert_eq!(stays.1, Some(CloseReason::TimedOut));
    assert_eq!(moved, stays);
    assert!(stays.0.len() > 4, "{stays:?}");
}

fn config() -> Config {
    Config {
        retries: 6,
        ..Config::default()
    }
}

#[test]
fn another_owner_has_the_same_settings() {
    let config = Config {
        initial_window: 4,
        keep_alive: Some(KeepAlive {
            idle: Duration::from_secs(10),
            interval: Duration::from_secs(2),
            probes: 3,
        }),
        user_timeout: Some(Duration::from_secs(20)),
        orphan_retries: 5,
        // It has sent its own SYN.
        syn_ack_retries: Config::default().syn_retries,
        ..config()
    };
    assert_eq!(abandoned(Instant::now(), &config).config(), config);
}

#[test]
fn what_is_lost_is_sent_again_no_later() {
    for sack in [false, true] {
        let config = Config { sack, ..config() };
        assert_as_one_that_stays(&config, 1000);
    }
}

#[test]
fn it_is_given_up_when_the_user_timeout_says_so() {
    let config = Config {
        user_timeout: Some(Duration::from_secs(20)),
        ..config()
    };
    assert_as_one_that_stays(&config, 1000);
}

/// The peer has no room to speak of, so that nothing goes for which it is not probed.
#[test]
fn a_closed_window_is_probed_no_later() {
    let config = Config {
        window_scale: false,
        ..config()
    };
    let now = Instant::now();
    let [stays, moved] = [false, true].map(|moves| {
        let mut connection = abandoned(now, &config);
        let later = now + Duration::from_millis(3);
        let tcb = connection.tcb(later).expect("established");
        let closes = Header {
            src_port: 80,
            dst_port: 40_000,
            seq: tcb.rcv_nxt,
            ack: tcb.snd_nxt,
            flags: wire::tcp::Flags::ACK,
            window: 0,
            options: wire::tcp::Options {
                timestamps: Some(wire::tcp::Timestamps {
                    val: tcb.timestamps.expect("agreed on").recent,
                    echo: 0,
                }),
                ..Default::default()
            },
            ecn: wire::Ecn::NotEct,
        };
        connection.handle_segment(later, &closes, 0, 1);
        assert_eq!(connection.queue(later, 1000), 1000);
        sent_to_nobody(now, &config, connection, moves)
    });
    assert_eq!(stays.1, Some(CloseReason::TimedOut));
    assert_eq!(moved, stays);
}

#[test]
fn a_silent_peer_is_noticed_no_later() {
    let config = Config {
        keep_alive: Some(KeepAlive {
            idle: Duration::from_secs(30),
            interval: Duration::from_secs(5),
            probes: 5,
        }),
        ..config()
    };
    assert_as_one_that_stays(&config, 0);
}
