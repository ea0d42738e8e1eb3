//! TLS in every mode.

use std::time::Duration;

use handshake::Options;
use l5p::tls::{Alert, Algorithm, Version};

use crate::pair::{CLIENT, Connected as _, SERVER, hosts, lossy, options, roles, v4};
use host::{CloseReason, Offload, ReadChunks, SocketError, TlsRole};
use sim::{Fate, Suite};
use testkit::pattern;

const MODES: [Offload; 4] = [Offload::None, Offload::Tx, Offload::Rx, Offload::Both];
const SUITES: [(Version, Algorithm); 6] = [
    (Version::Tls13, Algorithm::Aes128Gcm),
    (Version::Tls13, Algorithm::Aes256Gcm),
    (Version::Tls13, Algorithm::ChaCha20Poly1305),
    (Version::Tls12, Algorithm::Aes128Gcm),
    (Version::Tls12, Algorithm::Aes256Gcm),
    (Version::Tls12, Algorithm::ChaCha20Poly1305),
];

#[test]
fn every_suite_works_in_every_mode() {
    let data = pattern(300_000);
    for (version, algorithm) in SUITES {
        for mode in MODES {
            let mut pair = hosts();
            let (client, server) = pair.secured(&options(version, algorithm), [mode, mode]);
            assert!(
                pair.transfer(SERVER, server, client, &data) == data,
                "{version:?} {algorithm:?} {mode:?}"
            );
            assert!(
                pair.transfer(CLIENT, client, server, &data) == data,
                "{version:?} {algorithm:?} {mode:?}"
            );
            if mode.transmit() {
                assert!(pair.counter(CLIENT, "TlsTxRecordsDevice") >= 18);
                assert_eq!(pair.counter(CLIENT, "TlsTxRecordsSw"), 0);
            } else {
                assert_eq!(pair.counter(CLIENT, "TlsTxRecordsDevice"), 0);
            }
            if mode.receive() {
                assert_eq!(pair.counter(CLIENT, "TlsRxRecordsPartial"), 0);
                assert!(
                    pair.counter(CLIENT, "TlsRxRecordsFull") >= 18,
                    "{version:?} {algorithm:?}"
                );
            }
        }
    }
}

#[test]
fn loss_and_reordering_change_nothing_that_is_read() {
    let data = pattern(1_500_000);
    for (version, algorithm) in SUITES {
        for (seed, mode) in MODES.into_iter().enumerate() {
            let mut pair = hosts();
            let (client, server) = pair.secured(&options(version, algorithm), [mode, mode]);
            pair.decide(lossy(SERVER, 0.02, 0.02, seed as u64 + 77));
            assert!(
                pair.transfer(SERVER, server, client, &data) == data,
                "{version:?} {algorithm:?} {mode:?}"
            );
            if mode.transmit() {
                assert!(pair.counter(SERVER, "DriverTxRecoveries") > 0);
            }
        }
    }
}

#[test]
fn key_updates_of_both_sides_lose_nothing() {
    let options = options(Version::Tls13, Algorithm::Aes128Gcm);
    let data = pattern(400_000);
    for mode in MODES {
        let mut pair = hosts();
        let (client, server) = pair.secured(&options, [mode, mode]);
        pair.decide(lossy(SERVER, 0.01, 0.01, 3));
        for round in 0..4 {
            let now = pair.now();
            pair.stack(SERVER)
                .key_update(now, server, round % 2 == 0)
                .expect("TLS 1.3");
            assert!(
                pair.transfer(SERVER, server, client, &data) == data,
                "{mode:?}"
            );
            let now = pair.now();
            pair.stack(CLIENT)
                .key_update(now, client, true)
                .expect("TLS 1.3");
            assert!(
                pair.transfer(CLIENT, client, server, &data[..10_000]) == data[..10_000],
                "{mode:?}"
            );
        }
        assert!(pair.counter(CLIENT, "TlsRxRekeyOk") >= 4);
        assert!(pair.counter(SERVER, "TlsTxRekeyOk") >= 4);
    }
}

#[test]
fn close_notify_ends_the_stream_and_its_absence_is_an_error() {
    let mut pair = hosts();
    let (client, server) = pair.secured(&Options::default(), [Offload::Both; 2]);
    pair.write(SERVER, server, b"bye");
    pair.close(SERVER, server);
    pair.run_for(Duration::from_millis(50));
    let mut buffer = [0; 64];
    let now = pair.now();
    assert_eq!(pair.stack(CLIENT).read(now, client, &mut buffer), Ok(3));
    assert_eq!(pair.stack(CLIENT).read(now, client, &mut buffer), Ok(0));

    // The peer's TCP ends without a word from its TLS: it has none.
    let mut pair = hosts();
    let (client, server) = pair.connected(v4);
    let [transmit, receive] = [1, 2].map(|seed| Suite::DEFAULT.keys(seed));
    let now = pair.now();
    let stack = pair.stack(CLIENT);
    let installed = stack.install_tls(now, client, transmit, receive, Offload::Both);
    installed.expect("a connection without TLS");
    pair.close(SERVER, server);
    pair.run_for(Duration::from_millis(50));
    let now = pair.now();
    assert_eq!(
        pair.stack(CLIENT).read(now, client, &mut buffer),
        Err(SocketError::Closed(CloseReason::Truncated))
    );
}

#[test]
fn a_session_without_record_numbers_is_not_installed() {
    let mut pair = hosts();
    let (client, _) = pair.connected(v4);
    let [transmit, receive] = [1, 2].map(|seed| Suite::DEFAULT.keys(seed));
    let now = pair.now();
    for (sequence, is_enough) in [(u64::MAX, false), (u64::MAX - (1 << 48), true)] {
        let mut transmit = transmit.clone();
        transmit.sequence = sequence;
        let stack = pair.stack(CLIENT);
        let installed = stack.install_tls(now, client, transmit, receive.clone(), Offload::Both);
        assert_eq!(installed.is_ok(), is_enough, "{installed:?}");
    }
    pair.write(CLIENT, client, b"a record");
}

#[test]
fn a_changed_byte_is_answered_by_bad_record_mac() {
    for mode in [Offload::None, Offload::Both] {
        let mut pair = hosts();
        let (client, server) = pair.secured(&Options::default(), [mode; 2]);
        let data = pattern(100_000);
        let mut seen = 0;
        pair.decide(move |from, _, frame| {
            if from == SERVER && frame.len() > 1000 {
                seen += 1;
                if seen == 30 {
                    // Beyond TCP's header, and the checksum made right again.
                    flip(frame, 200);
                }
            }
            Fate::Pass
        });
        pair.write(SERVER, server, &data);
        let mut buffer = vec![0; 20_000];
        let mut failure = None;
        pair.run_until(Duration::from_secs(5), |pair| {
            let now = pair.now();
            if let Err(SocketError::Closed(reason)) =
                pair.stack(CLIENT).read(now, client, &mut buffer)
            {
                failure = Some(reason);
            }
            failure.is_some()
        });
        let Some(CloseReason::Tls { alert, record, .. }) = failure else {
            panic!("{mode:?}: {failure:?}")
        };
        assert_eq!(alert, Alert::BadRecordMac, "{mode:?}");
        assert!((1..6).contains(&record), "{mode:?} {record}");
        let mut told = None;
        pair.run_until(Duration::from_secs(1), |pair| {
            let now = pair.now();
            if let Err(SocketError::Closed(reason)) =
                pair.stack(SERVER).read(now, server, &mut buffer)
            {
                told = Some(reason);
            }
            told.is_some()
        });
        assert_eq!(told, Some(CloseReason::PeerAlert(20)), "{mode:?}");
    }
}

/// Changes a byte of a frame and its TCP checksum with it.
pub fn flip(frame: &mut [u8], at: usize) {
    let parsed = wire::packet::parse(frame).expect("TCP");
    frame[at] ^= 0x55;
    let (l4, end) = (
        parsed.l4_offset as usize,
        parsed.payload_offset as usize + parsed.payload_len as usize,
    );
    wire::tcp::fill_checksum(parsed.flow.src.0, parsed.flow.dst.0, &mut frame[l4..end]);
}

#[test]
fn a_client_that_does_not_trust_the_server_says_so() {
    let mut pair = hosts();
    let (client, server) = pair.connected(v4);
    let roots = std::sync::Arc::new(rustls::RootCertStore::empty());
    let config = handshake::client_config(handshake::Trust::Roots(roots), &Options::default())
        .expect("a configuration");
    let [trusting, other] = roles(&Options::default());
    let TlsRole::Client { name, .. } = trusting else {
        unreachable!("the first is the client's")
    };
    let roles = [TlsRole::Client { config, name }, other];
    pair.start_tls((client, server), roles, [Offload::Both; 2]);
    pair.run_for(Duration::from_secs(1));
    assert!(
        matches!(pair.ended(CLIENT), Some(CloseReason::Handshake(_))),
        "{:?}",
        pair.ended(CLIENT)
    );
    assert_eq!(pair.ended(SERVER), Some(CloseReason::PeerAlert(48)));
}

#[test]
fn records_in_place_are_read_as_they_were_written() {
    let all_at_once = [false, true];
    let cases = MODES.into_iter();
    for (mode, at_once) in cases.flat_map(|mode| all_at_once.map(|at_once| (mode, at_once))) {
        let mut chunks = ReadChunks::default();
        let mut pair = hosts();
        let (client, server) = pair.secured(&Options::default(), [mode; 2]);
        let data = pattern(500_000);
        let (mut written, mut received) = (0, Vec::new());
        assert!(pair.run_until(Duration::from_secs(60), |pair| {
            let now = pair.now();
            written += pair.write(SERVER, server, &data[written..]);
            let stack = pair.stack(CLIENT);
            if at_once && stack.read_chunks(now, client, &mut chunks).is_ok() {
                let taken = chunks.iter();
                taken.for_each(|chunk| received.extend_from_slice(chunk));
            }
            while !at_once && let Ok(Some(chunk)) = stack.read_chunk(now, client) {
                received.extend_from_slice(&chunk);
            }
            received.len() == data.len()
        }));
        assert!(received == data, "{mode:?}");
    }
}
