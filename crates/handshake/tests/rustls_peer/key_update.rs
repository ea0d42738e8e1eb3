//! Key updates, from both sides and often.

use l5p::tls::{Algorithm, Event, Version};

use crate::connection::{BOTH, Configs, Ours};

const ALGORITHMS: [Algorithm; 3] = [
    Algorithm::Aes128Gcm,
    Algorithm::Aes256Gcm,
    Algorithm::ChaCha20Poly1305,
];

#[test]
fn the_peer_updates_its_keys_and_ours() {
    for algorithm in ALGORITHMS {
        for ours in BOTH {
            let mut connection = Configs::new(Version::Tls13, algorithm).connect(ours);
            connection.receive().unwrap();
            for round in 1..6 {
                connection.events.clear();
                connection.peer.refresh_traffic_keys().unwrap();
                connection.check_both_ways();
                assert!(matches!(
                    connection.events[..],
                    [Event::ReceiveKeys(_), Event::KeyUpdateRequested]
                ));
                assert_eq!(
                    (connection.reader.epoch(), connection.writer.epoch()),
                    (round, round)
                );
            }
        }
    }
}

#[test]
fn we_update_our_keys() {
    for algorithm in ALGORITHMS {
        for ours in BOTH {
            let mut connection = Configs::new(Version::Tls13, algorithm).connect(ours);
            connection.receive().unwrap();
            for round in 1..6 {
                connection.update_keys(false);
                connection.check_both_ways();
                assert_eq!(
                    (connection.reader.epoch(), connection.writer.epoch()),
                    (0, round)
                );
            }
        }
    }
}

#[test]
fn we_make_the_peer_update_its_keys() {
    for algorithm in ALGORITHMS {
        for ours in BOTH {
            let mut connection = Configs::new(Version::Tls13, algorithm).connect(ours);
            connection.receive().unwrap();
            for round in 1..6 {
                connection.update_keys(true);
                connection.check_both_ways();
                assert_eq!(
                    (connection.reader.epoch(), connection.writer.epoch()),
                    (round, round)
                );
            }
        }
    }
}

#[test]
fn tls_1_2_has_none() {
    let mut connection = Configs::new(Version::Tls12, Algorithm::Aes128Gcm).connect(Ours::Server);
    connection.post_handshake.key_update(false).unwrap_err();
    connection.check_both_ways();
}
