use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::tls::{Algorithm, TrafficSecrets};

const DATA: ContentType = ContentType::APPLICATION_DATA;
const HANDSHAKE: ContentType = ContentType::HANDSHAKE;
const KEY_UPDATE_NOT_REQUESTED: [u8; 5] = [24, 0, 0, 1, 0];
const KEY_UPDATE_REQUESTED: [u8; 5] = [24, 0, 0, 1, 1];

/// Client and server of one connection.
fn pair(version: Version) -> (PostHandshake, PostHandshake) {
    let side = |is_client| {
        let secrets = TrafficSecrets::new(is_client, Algorithm::Aes128Gcm, &[1; 32], &[2; 32]);
        PostHandshake::new(version, Box::new(secrets.expect("of the hash's length")))
    };
    (side(true), side(false))
}

fn violation(result: Result<(), TlsError>) -> Violation {
    let error = result.unwrap_err();
    assert_eq!(error.record, 5);
    error.violation
}

#[test]
fn both_sides_make_the_same_keys() {
    let (mut client, mut server) = pair(Version::Tls13);
    for request in [false, true] {
        let update = client.key_update(request).unwrap();
        assert_eq!(update.message[4], u8::from(request));
        assert_eq!(update.keys.sequence, 0);
        server
            .handle_record(0, HANDSHAKE, [&update.message[..]])
            .unwrap();
        let event = server.poll_event();
        assert_eq!(event, Some(Event::ReceiveKeys(update.keys)));
        let asked = server.poll_event();
        assert_eq!(asked, request.then_some(Event::KeyUpdateRequested));
    }
}

#[test]
fn several_requests_have_one_answer() {
    let (mut client, _) = pair(Version::Tls13);
    let post = &mut client;
    for _ in 0..3 {
        post.handle_record(0, HANDSHAKE, [&KEY_UPDATE_REQUESTED[..]])
            .unwrap();
    }
    let events: Vec<Event> = std::iter::from_fn(|| post.poll_event()).collect();
    let asked = |event: &&Event| **event == Event::KeyUpdateRequested;
    assert_eq!(events.len(), 4);
    assert_eq!(events.iter().filter(asked).count(), 1);
}

#[test]
fn keys_do_not_change_forever_without_data_under_them() {
    let (mut client, _) = pair(Version::Tls13);
    let post = &mut client;
    for _ in 0..3 {
        for _ in 0..32 {
            post.handle_record(0, HANDSHAKE, [&KEY_UPDATE_REQUESTED[..]])
                .unwrap();
        }
        post.handle_record(0, DATA, [&b"!"[..]]).unwrap();
    }
    for _ in 0..32 {
        post.handle_record(0, HANDSHAKE, [&KEY_UPDATE_REQUESTED[..]])
            .unwrap();
        post.handle_record(0, DATA, [&b""[..]]).unwrap();
    }
    let result = post.handle_record(5, HANDSHAKE, [&KEY_UPDATE_REQUESTED[..]]);
    assert_eq!(violation(result), Violation::TooManyKeyUpdates(33));
}

#[test]
fn messages_are_put_together_across_records() {
    let (_, mut server) = pair(Version::Tls13);
    let post = &mut server;
    for byte in KEY_UPDATE_NOT_REQUESTED {
        assert_eq!(post.poll_event(), None);
        post.handle_record(0, HANDSHAKE, [&[byte][..]]).unwrap();
    }
    assert!(matches!(post.poll_event(), Some(Event::ReceiveKeys(_))));
}

#[test]
fn nothing_may_come_between_the_parts_of_a_message() {
    for content_type in [DATA, ContentType::ALERT] {
        let (_, mut server) = pair(Version::Tls13);
        let post = &mut server;
        post.handle_record(4, HANDSHAKE, [&KEY_UPDATE_REQUESTED[..3]])
            .unwrap();
        let result = post.handle_record(5, content_type, [&[1, 0][..]]);
        assert_eq!(violation(result), Violation::Interleaved);
    }
}

#[test]
fn handshake_messages_that_may_not_come_are_refused() {
    let cases: [(&[u8], Violation); 7] = [
        (
            &[24, 0, 0, 1, 0, 24, 0, 0, 1, 0],
            Violation::KeyUpdateNotLast,
        ),
        (&[24, 0, 0, 1, 0, 24], Violation::KeyUpdateNotLast),
        (&[24, 0, 0, 1, 2], Violation::KeyUpdateValue),
        (&[24, 0, 0, 0], Violation::Malformed("key update")),
        (&[24, 0, 0, 2], Violation::MessageTooLong(2)),
        (&[1, 0, 0, 0], Violation::HandshakeMessage(1)),
        (&[4, 0, 0, 0], Violation::HandshakeMessage(4)),
    ];
    for (message, expected) in cases {
        let (_, mut server) = pair(Version::Tls13);
        let result = server.handle_record(5, HANDSHAKE, [message]);
        assert_eq!(violation(result), expected);
    }
}

#[test]
fn a_ticket_without_a_store_is_ignored() {
    let (mut client, _) = pair(Version::Tls13);
    client
        .handle_record(5, HANDSHAKE, [&[4, 0, 0, 2, 0, 0][..]])
        .unwrap();
    assert_eq!(client.poll_event(), None);
    let result = client.handle_record(5, HANDSHAKE, [&[4, 1, 0, 0][..]]);
    assert_eq!(result.clone().unwrap_err().alert(), Alert::DecodeError);
    assert_eq!(violation(result), Violation::MessageTooLong(1 << 16));
}

#[test]
fn tls_1_2_has_no_key_updates() {
    let (mut client, _) = pair(Version::Tls12);
    let error = client.key_update(false).unwrap_err();
    assert_eq!(error, KeyScheduleError::NoKeyUpdates);
}

#[test]
fn alerts_are_told_apart() {
    let told = |version, content: &[u8]| {
        let (mut client, _) = pair(version);
        client.handle_record(5, ContentType::ALERT, [content])?;
        Ok::<_, TlsError>(client.poll_event())
    };
    for version in [Version::Tls12, Version::Tls13] {
        assert_eq!(told(version, &[1, 0]), Ok(Some(Event::CloseNotify)));
        assert_eq!(told(version, &[1, 90]), Ok(None));
        let fatal = Event::PeerAlert(Alert::BadRecordMac);
        assert_eq!(told(version, &[2, 20]), Ok(Some(fatal)));
        for malformed in [&[2][..], &[2, 20, 0], &[3, 20]] {
            let error = told(version, malformed).unwrap_err();
            assert_eq!(error.violation, Violation::Malformed("alert"));
        }
    }
    let warning = Event::PeerAlert(Alert::UnrecognisedName);
    assert_eq!(told(Version::Tls13, &[1, 112]), Ok(Some(warning)));
    assert_eq!(told(Version::Tls12, &[1, 112]), Ok(None));
}

#[test]
fn renegotiation_is_refused() {
    let (mut client, mut server) = pair(Version::Tls12);
    for (post, message) in [
        (&mut client, &[0, 0, 0, 0][..]),
        (&mut server, &[1, 0, 0, 2, 3, 3][..]),
    ] {
        post.handle_record(5, HANDSHAKE, [message]).unwrap();
        assert_eq!(post.poll_event(), Some(Event::RefuseRenegotiation));
    }
    let result = client.handle_record(5, HANDSHAKE, [&KEY_UPDATE_REQUESTED[..]]);
    assert_eq!(violation(result), Violation::HandshakeMessage(24));
}

#[test]
fn renegotiation_is_not_refused_without_end() {
    let (_, mut server) = pair(Version::Tls12);
    let client_hello = [1, 0, 0, 2, 3, 3];
    for _ in 0..8 {
        server
            .handle_record(0, HANDSHAKE, [&client_hello[..]])
            .unwrap();
        assert_eq!(server.poll_event(), Some(Event::RefuseRenegotiation));
        server.handle_record(0, DATA, [&b"!"[..]]).unwrap();
    }
    let result = server.handle_record(5, HANDSHAKE, [&client_hello[..]]);
    assert_eq!(
        result.clone().unwrap_err().alert(),
        Alert::UnexpectedMessage
    );
    assert_eq!(violation(result), Violation::TooManyRenegotiations(9));
    assert_eq!(server.poll_event(), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn arbitrary_records_never_panic(
        records in vec((20..25u8, vec(vec(any::<u8>(), 0..8), 0..3)), 1..6),
        tls13 in any::<bool>(),
    ) {
        let (client, server) = pair(if tls13 { Version::Tls13 } else { Version::Tls12 });
        for mut side in [client, server] {
            for (content_type, content) in &records {
                let pieces = content.iter().map(Vec::as_slice);
                let _ = side.handle_record(0, ContentType(*content_type), pieces);
            }
            while side.poll_event().is_some() {}
        }
    }
}
