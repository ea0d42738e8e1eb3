//! Handshakes: in any pieces, with data right behind, and when they fail.

use std::io::Write;
use std::sync::{Arc, Mutex};

use handshake::{
    Certificate, Established, Handshake, HandshakeError, Options, Trust, client_config,
};
use l5p::tls::Version;
use proptest::prelude::*;
use rustls::{AlertDescription, Error};

use crate::PAIRS;
use crate::connection::{BOTH, Configs, Ours, Secured, give, run, take};

#[test]
fn pieces_do_not_matter() {
    for (version, algorithm) in PAIRS {
        for ours in BOTH {
            for piece in [1, 7, 600] {
                let (mut handshake, mut peer) = Configs::new(version, algorithm).handshake(ours);
                run(&mut handshake, &mut peer, piece);
                Secured::new(handshake, peer).check_both_ways();
            }
        }
    }
}

/// What the peer sends right behind its last handshake message is handed over whole.
#[test]
fn data_behind_the_handshake_is_handed_over() {
    for (version, algorithm) in PAIRS {
        for ours in BOTH {
            let (mut handshake, mut peer) = Configs::new(version, algorithm).handshake(ours);
            let mut sent = false;
            while !handshake.is_done() {
                while let Some(output) = handshake.poll_output() {
                    give(&mut peer, &output);
                }
                if !sent && !peer.is_handshaking() {
                    peer.writer().write_all(b"right behind").unwrap();
                    sent = true;
                }
                let mut input = take(&mut peer);
                if sent {
                    // And the beginning of a record that is not whole.
                    input.extend_from_slice(&[23, 3, 3]);
                }
                handshake.feed(&input).unwrap();
            }
            while let Some(output) = handshake.poll_output() {
                give(&mut peer, &output);
            }
            let mut connection = Secured::new(handshake, peer);
            if sent {
                assert_eq!(
                    connection.incoming[connection.incoming.len() - 3..],
                    [23, 3, 3]
                );
                connection.incoming.truncate(connection.incoming.len() - 3);
            } else {
                connection.peer_sends(b"right behind");
            }
            connection.receive().unwrap();
            assert_eq!(connection.received, b"right behind");
            connection.check_both_ways();
        }
    }
}

#[test]
fn an_untrusted_certificate_is_refused_with_an_alert() {
    let other = Certificate::self_signed(["peer.test"]).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(other.chain[0].clone()).unwrap();
    let client = client_config(Trust::Roots(Arc::new(roots)), &Options::default()).unwrap();
    for version in [Version::Tls12, Version::Tls13] {
        let configs = Configs {
            client: client.clone(),
            ..Configs::with(&Options {
                versions: vec![version],
                ..Options::default()
            })
        };
        let (mut handshake, mut peer) = configs.handshake(Ours::Client);
        give(&mut peer, &handshake.poll_output().unwrap());
        let error = handshake.feed(&take(&mut peer)).unwrap_err();
        assert!(matches!(
            error,
            HandshakeError::Failed(Error::InvalidCertificate(_))
        ));
        let alert = handshake.poll_output().expect("an alert");
        peer.read_tls(&mut &alert[..]).unwrap();
        let told = peer.process_new_packets().unwrap_err();
        assert!(matches!(told, Error::AlertReceived(_)), "{told}");
        assert!(handshake.feed(b"more").is_err());
        assert!(handshake.into_established().is_err());
    }
}

// RFC 8446 §5, §5.1: a record of no known type, or a longer one than there may be.
#[test]
fn what_is_no_record_is_refused_with_an_alert_once_the_peer_speaks_tls() {
    for bad in [&b"G"[..], b"GET / HTTP/1.1", &[22, 3, 3, 255, 255]] {
        for version in [Version::Tls12, Version::Tls13] {
            for ours in BOTH {
                let configs = Configs::new(version, PAIRS[0].1);
                let (mut handshake, mut peer) = configs.handshake(ours);
                if let Some(hello) = handshake.poll_output() {
                    give(&mut peer, &hello);
                }
                handshake.feed(&first_record(&take(&mut peer))).unwrap();
                while let Some(output) = handshake.poll_output() {
                    give(&mut peer, &output);
                }
                let error = handshake.feed(bad).unwrap_err();
                let is_no_tls = matches!(
                    error,
                    HandshakeError::NotTls(_) | HandshakeError::NotARecord
                );
                assert!(is_no_tls, "{error}");
                let alert = handshake.poll_output().expect("an alert");
                peer.read_tls(&mut &alert[..]).unwrap();
                let told = peer.process_new_packets().unwrap_err();
                assert!(matches!(told, Error::AlertReceived(_)), "{told}");
            }
        }
        let (mut handshake, _) = Configs::new(Version::Tls13, PAIRS[0].1).handshake(Ours::Server);
        handshake.feed(bad).unwrap_err();
        assert_eq!(handshake.poll_output(), None);
    }
}

fn first_record(bytes: &[u8]) -> Vec<u8> {
    let len = u16::from_be_bytes([bytes[3], bytes[4]]);
    bytes[..5 + usize::from(len)].to_vec()
}

#[test]
fn whoever_trusts_anyone_connects() {
    let client = client_config(Trust::Anyone, &Options::default()).unwrap();
    for (version, algorithm) in PAIRS {
        let configs = Configs {
            client: client.clone(),
            ..Configs::new(version, algorithm)
        };
        configs.connect(Ours::Client).check_both_ways();
    }
}

#[test]
fn a_peer_without_a_common_version_is_told() {
    let configs = Configs {
        server: Configs::new(Version::Tls12, PAIRS[0].1).server,
        ..Configs::new(Version::Tls13, PAIRS[0].1)
    };
    let (mut handshake, mut peer) = configs.handshake(Ours::Server);
    assert!(handshake.feed(&take(&mut peer)).is_err());
    let alert = handshake.poll_output().expect("an alert");
    peer.read_tls(&mut &alert[..]).unwrap();
    assert_eq!(
        peer.process_new_packets().unwrap_err(),
        Error::AlertReceived(AlertDescription::ProtocolVersion)
    );
}

#[test]
fn secrets_are_logged() {
    for version in [Version::Tls12, Version::Tls13] {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = lines.clone();
        let configs = Configs::with(&Options {
            versions: vec![version],
            key_log: Some(Arc::new(move |line: &str| {
                sink.lock().unwrap().push(line.to_owned());
            })),
            ..Options::default()
        });
        configs.connect(Ours::Server);
        let lines = lines.lock().unwrap();
        let label = match version {
            Version::Tls12 => "CLIENT_RANDOM",
            Version::Tls13 => "SERVER_TRAFFIC_SECRET_0",
        };
        let line = lines.iter().find(|line| line.starts_with(label)).unwrap();
        let fields: Vec<&str> = line.split(' ').collect();
        assert_eq!(fields.len(), 3);
        assert_eq!(fields[1].len(), 64);
        assert!(line.bytes().all(|b| b.is_ascii_graphic() || b == b' '));
    }
}

#[test]
fn it_is_not_established_before_it_is_done() {
    let (handshake, _) = Configs::new(Version::Tls13, PAIRS[0].1).handshake(Ours::Server);
    assert!(!handshake.is_done());
    let refused: Result<Established, _> = handshake.into_established();
    assert!(matches!(refused, Err(HandshakeError::NotComplete)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn arbitrary_input_never_panics(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        flips in prop::collection::vec((any::<u16>(), 1..=255u8), 1..4),
        ours_is_client in any::<bool>(),
    ) {
        let ours = if ours_is_client { Ours::Client } else { Ours::Server };
        let configs = Configs::new(Version::Tls13, PAIRS[0].1);
        let (mut handshake, _) = configs.handshake(ours);
        let _ = handshake.feed(&bytes);
        while handshake.poll_output().is_some() {}
        // A real first flight with changed bytes.
        let (mut handshake, mut peer): (Handshake, _) = configs.handshake(ours);
        while let Some(output) = handshake.poll_output() {
            give(&mut peer, &output);
        }
        let mut flight = take(&mut peer);
        for (at, flip) in flips {
            let at = usize::from(at) % flight.len();
            flight[at] ^= flip;
        }
        let _ = handshake.feed(&flight);
        while handshake.poll_output().is_some() {}
    }
}
