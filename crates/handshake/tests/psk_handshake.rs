//! Handshakes with pre-shared keys between two of ours, in memory.

use std::sync::{Arc, Mutex};

use handshake::{
    Established, Handshake, HandshakeError, KeyLogSink, OpenSslError, Psk, PskClientConfig,
    PskServerConfig, UnknownPsk,
};
use l5p::tls::{Alert, Algorithm, CryptoInfo, Event, Version};
use wire::tls::ContentType;

const SUITES: [(Algorithm, usize, &str); 3] = [
    (Algorithm::Aes128Gcm, 32, "TLS_AES_128_GCM_SHA256"),
    (Algorithm::Aes256Gcm, 48, "TLS_AES_256_GCM_SHA384"),
    (
        Algorithm::ChaCha20Poly1305,
        32,
        "TLS_CHACHA20_POLY1305_SHA256",
    ),
];

fn psk(name: &str, fill: u8, (algorithm, len, _): (Algorithm, usize, &str)) -> Psk {
    Psk::new(name.into(), &vec![fill; len], algorithm)
}

/// A server that knows these keys. `None`, said on standard error, where OpenSSL's library is not installed.
fn server(known: Vec<Psk>, key_log: Option<KeyLogSink>) -> Option<Arc<PskServerConfig>> {
    let lookup = move |identity: &[u8]| {
        let found = known.iter().find(|psk| psk.identity() == identity);
        found.cloned().ok_or_else(|| "never heard of it".to_owned())
    };
    match PskServerConfig::new(Arc::new(lookup), key_log) {
        Ok(config) => Some(config),
        Err(error @ OpenSslError::Missing(_)) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn client(psk: Psk) -> Arc<PskClientConfig> {
    PskClientConfig::new(psk, None).expect("the server's side has loaded the library")
}

/// Runs a client and a server until neither has anything to say. Each side's end: keys, or an error.
fn run(
    client: &PskClientConfig,
    server: &PskServerConfig,
    piece: usize,
) -> [Result<Established, HandshakeError>; 2] {
    let mut sides = [
        Handshake::psk_client(client).expect("a client"),
        Handshake::psk_server(server).expect("a server"),
    ];
    let mut errors = [None, None];
    loop {
        let mut progress = false;
        for from in 0..2 {
            while let Some(output) = sides[from].poll_output() {
                for piece in output.chunks(piece) {
                    progress = true;
                    if let Err(error) = sides[1 - from].feed(piece) {
                        errors[1 - from].get_or_insert(error);
                    }
                }
            }
        }
        if !progress {
            break;
        }
    }
    let [client_error, server_error] = errors;
    let [client, server] = sides;
    let end = |side: Handshake, error: Option<HandshakeError>| match error {
        Some(error) => Err(error),
        None => side.into_established(),
    };
    [end(client, client_error), end(server, server_error)]
}

/// A client that has read the server's Finished, and a server that has not got the client's.
fn before_finished(config: &PskServerConfig, key: Psk) -> [Handshake; 2] {
    let mut client = Handshake::psk_client(&client(key)).expect("a client");
    let mut server = Handshake::psk_server(config).expect("a server");
    server.feed(&client.poll_output().unwrap()).unwrap();
    client.feed(&server.poll_output().unwrap()).unwrap();
    [client, server]
}

fn same(ours: &CryptoInfo, theirs: &CryptoInfo) -> bool {
    ours == theirs && ours.version == Version::Tls13 && ours.sequence == 0
}

#[test]
fn both_sides_have_the_same_keys_in_every_suite_and_segmentation() {
    for suite in SUITES {
        for piece in [usize::MAX, 1, 7, 300] {
            let key = psk("name", 1, suite);
            let Some(config) = server(vec![psk("other", 9, suite), key.clone()], None) else {
                return;
            };
            let [client, server] = run(&client(key), &config, piece);
            let (client, server) = (client.expect("a client"), server.expect("a server"));
            assert!(same(&client.transmit, &server.receive));
            assert!(same(&client.receive, &server.transmit));
            assert!(client.transmit != client.receive);
            assert_eq!((client.suite.as_str(), client.resumed), (suite.2, false));
            assert_eq!(client.psk_identity.as_deref(), Some(&b"name"[..]));
            assert_eq!(server.psk_identity.as_deref(), Some(&b"name"[..]));
            assert!(client.leftover.is_empty() && server.leftover.is_empty());
            assert!(client.output.is_empty() && server.output.is_empty());
        }
    }
}

// RFC 8446 §5.1, §6.2.
#[test]
fn a_record_that_is_too_long_is_refused_with_an_alert_once_the_peer_speaks_tls() {
    let long = [22, 3, 3, 255, 255];
    let key = psk("name", 1, SUITES[0]);
    let Some(config) = server(vec![key.clone()], None) else {
        return;
    };
    let [_, mut server] = before_finished(&config, key);
    let error = server.feed(&long).unwrap_err();
    assert!(matches!(error, HandshakeError::NotTls(_)), "{error}");
    let alert = server.poll_output().expect("an alert");
    assert!(alert.len() > 7, "under the keys of the handshake");
    server = Handshake::psk_server(&config).expect("a server");
    server.feed(&long).unwrap_err();
    assert_eq!(server.poll_output(), None);
}

#[test]
fn records_behind_the_handshake_are_left_over() {
    let key = psk("name", 1, SUITES[0]);
    let Some(config) = server(vec![key.clone()], None) else {
        return;
    };
    let [mut client, mut server] = before_finished(&config, key);
    assert!(client.is_done());
    let mut finished = client.poll_output().unwrap();
    let record = [&[23, 3, 3, 0, 30][..], &[7; 30]].concat();
    finished.extend_from_slice(&record);
    finished.extend_from_slice(&[23, 3]);
    server.feed(&finished).unwrap();
    assert!(server.is_done());
    let leftover = server.into_established().unwrap().leftover;
    assert_eq!(leftover, [&record[..], &[23, 3]].concat());
}

#[test]
fn keys_are_updated_alike() {
    for suite in SUITES {
        let key = psk("name", 1, suite);
        let Some(config) = server(vec![key.clone()], None) else {
            return;
        };
        let [client, server] = run(&client(key), &config, usize::MAX);
        let (mut client, mut server) = (client.unwrap(), server.unwrap());
        let mut before = client.transmit.clone();
        for request in [false, true, true] {
            let update = client.post_handshake.key_update(request).unwrap();
            assert!(update.keys != before);
            before = update.keys.clone();
            server
                .post_handshake
                .handle_record(0, ContentType::HANDSHAKE, [&update.message[..]])
                .unwrap();
            let event = server.post_handshake.poll_event();
            assert_eq!(event, Some(Event::ReceiveKeys(update.keys)));
            let asked = server.post_handshake.poll_event();
            assert_eq!(asked, request.then_some(Event::KeyUpdateRequested));
        }
    }
}

#[test]
fn a_client_takes_tickets_and_a_server_does_not() {
    let key = psk("name", 1, SUITES[0]);
    let Some(config) = server(vec![key.clone()], None) else {
        return;
    };
    let [client, server] = run(&client(key), &config, usize::MAX);
    let ticket = [&[4, 0, 0, 14][..], &[0; 14]].concat();
    let handle = |side: Result<Established, HandshakeError>| {
        let mut side = side.unwrap().post_handshake;
        side.handle_record(0, ContentType::HANDSHAKE, [&ticket[..]])
            .map(|()| side.poll_event())
    };
    assert_eq!(handle(client), Ok(None));
    assert!(handle(server).is_err());
}

#[test]
fn a_wrong_key_is_told_from_an_unknown_identity() {
    for suite in SUITES {
        let Some(config) = server(vec![psk("name", 1, suite)], None) else {
            return;
        };
        let [one, other] = run(&client(psk("name", 2, suite)), &config, usize::MAX);
        assert!(
            matches!(&other, Err(HandshakeError::WrongPsk(name)) if name == "name"),
            "{:?}",
            other.err()
        );
        let Err(error @ HandshakeError::PskRefused { .. }) = one else {
            panic!("{:?}", one.err());
        };
        assert!(error.to_string().contains("another key"), "{error}");

        let [one, other] = run(&client(psk("nobody", 1, suite)), &config, usize::MAX);
        let Err(HandshakeError::UnknownPsk(UnknownPsk::Refused { identity, why })) = &other else {
            panic!("{:?}", other.err());
        };
        assert_eq!(
            (identity.as_str(), why.as_str()),
            ("nobody", "never heard of it")
        );
        let Err(HandshakeError::PskRefused { identity, alert }) = one else {
            panic!("{:?}", one.err());
        };
        assert_eq!(
            (identity.as_str(), alert),
            ("nobody", Alert::UnknownPskIdentity)
        );
    }
}

#[test]
fn a_key_for_another_suite_is_refused() {
    let Some(config) = server(vec![psk("name", 1, SUITES[1])], None) else {
        return;
    };
    let [one, other] = run(&client(psk("name", 1, SUITES[0])), &config, usize::MAX);
    assert!(one.is_err() && other.is_err());
}

#[test]
fn a_lookup_that_panics_ends_that_handshake_only() {
    let key = psk("name", 1, SUITES[0]);
    if server(vec![], None).is_none() {
        return;
    }
    let config = PskServerConfig::new(Arc::new(|_| panic!("on purpose")), None).unwrap();
    let [one, other] = run(&client(key), &config, usize::MAX);
    assert!(one.is_err() && other.is_err());
}

#[test]
fn the_key_log_has_every_secret() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = lines.clone();
    let key_log: KeyLogSink = Arc::new(move |line| sink.lock().unwrap().push(line.to_owned()));
    let key = psk("name", 1, SUITES[0]);
    let Some(config) = server(vec![key.clone()], Some(key_log)) else {
        return;
    };
    let [_, server] = run(&client(key), &config, usize::MAX);
    server.unwrap();
    let lines = lines.lock().unwrap();
    for label in [
        "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
        "SERVER_HANDSHAKE_TRAFFIC_SECRET",
        "CLIENT_TRAFFIC_SECRET_0",
        "SERVER_TRAFFIC_SECRET_0",
    ] {
        let found = lines.iter().filter(|line| line.starts_with(label));
        assert_eq!(found.count(), 1, "{label} in {lines:?}");
    }
}

#[test]
fn garbage_is_refused() {
    let Some(config) = server(vec![], None) else {
        return;
    };
    for garbage in [
        &b"GET / HTTP/1.0\r\n\r\n"[..],
        &[22, 3, 1, 0, 4, 1, 0, 0, 0],
        &[22, 3, 1, 0, 0],
        &[21, 3, 3, 0, 2, 2, 40],
        &[23, 3, 3, 0xff, 0xff],
        &[0; 100],
    ] {
        let mut server = Handshake::psk_server(&config).unwrap();
        let fed = server.feed(garbage);
        assert!(!server.is_done());
        if fed.is_err() {
            assert!(server.feed(&[22]).is_err(), "it stays refused");
        }
        server.into_established().err().expect("no keys");
    }
}

#[test]
fn a_client_refuses_a_server_with_a_certificate() {
    let Some(_) = server(vec![], None) else {
        return;
    };
    let certificate = handshake::Certificate::self_signed(["peer.test".to_owned()]).unwrap();
    let options = handshake::Options::default();
    let config = handshake::server_config(certificate, &options).unwrap();
    let mut server = Handshake::server(config).unwrap();
    let mut client = Handshake::psk_client(&client(psk("name", 1, SUITES[0]))).unwrap();
    let mut failed = false;
    for _ in 0..4 {
        if let Some(output) = client.poll_output() {
            failed |= server.feed(&output).is_err();
        }
        if let Some(output) = server.poll_output() {
            failed |= client.feed(&output).is_err();
        }
    }
    assert!(failed && !client.is_done());
}
