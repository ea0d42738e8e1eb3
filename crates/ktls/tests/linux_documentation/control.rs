//! "Send TLS control messages" and "Receiving TLS control messages".

use crate::sockets::*;

cases! {
    "messages can be sent by providing the TLS record type via a CMSG": types_are_sent,
    "a control message that is none of TLS's is invalid": bad_control,
    "control messages are passed with their type via cmsg": types_are_told,
    "if no cmsg buffer is provided, an error is returned for a control message": no_buffer,
    "data messages may be received without a cmsg buffer set": data_without_buffer,
    "recv will never return data from mixed types of TLS records": never_mixed,
    "nor do reads of a part of a record, with a look before each": parts_are_never_mixed,
    "records of any type are passed with it": any_type,
    "empty control messages are passed with their type": empty_messages,
    "an empty data record before a control message is told with its type": empty_data,
    "without a cmsg buffer, data that come before a control message are received, and it stays": data_before_a_message,
}

fn types_are_sent() {
    let pair = Pair::plain();
    pair.sends(&keys(TLS_1_2, 51, 1));
    assert_eq!(send_record(pair.a(), ALERT, &[1, 0]).unwrap(), 2);
    // In TLS 1.2 the type is to be seen.
    assert_eq!(records(&pair.wire()), [(ALERT, 5 + 8 + 2 + 16)]);
}

fn bad_control() {
    let pair = Pair::keyed(TLS_1_3, 51);
    assert_eq!(
        errno(send_control(pair.a(), b"x", (9, &[ALERT]), 0)),
        libc::EINVAL
    );
    assert_eq!(
        errno(send_control(pair.a(), b"x", (1, &[]), 0)),
        libc::EINVAL
    );
    let more = send_control(pair.a(), b"x", (1, &[ALERT]), libc::MSG_MORE);
    assert_eq!(errno(more), libc::EINVAL);
}

fn types_are_told() {
    for version in [TLS_1_2, TLS_1_3] {
        let pair = Pair::keyed(version, 51);
        send_record(pair.a(), ALERT, &[1, 0]).unwrap();
        let (data, told, flags) = recv_record(pair.b(), 100, 0).unwrap();
        assert_eq!((&data[..], told), (&[1, 0][..], Some(ALERT)));
        assert_ne!(flags & libc::MSG_EOR, 0);
        // "record_type may be == to application data (23)"
        send(pair.a(), b"data", 0).unwrap();
        let (data, told, _) = recv_record(pair.b(), 100, 0).unwrap();
        assert_eq!((&data[..], told), (&b"data"[..], Some(DATA)));
    }
}

fn any_type() {
    for (version, cipher) in [(TLS_1_2, 51), (TLS_1_2, 54), (TLS_1_3, 51), (TLS_1_3, 54)] {
        let pair = Pair::keyed(version, cipher);
        for record_type in [1, 20, 24, 100, 255] {
            send_record(pair.a(), record_type, b"of a type").unwrap();
            assert_eq!(errno(recv(pair.b(), 100, 0)), libc::EIO);
            for flags in [libc::MSG_PEEK, 0] {
                let (data, told, _) = recv_record(pair.b(), 100, flags).unwrap();
                assert_eq!((&data[..], told), (&b"of a type"[..], Some(record_type)));
            }
        }
        send(pair.a(), b"data", 0).unwrap();
        assert_eq!(recv(pair.b(), 100, 0).unwrap(), b"data");
    }
}

/// Records as they go over the wire, of which some are empty: which no call sends.
fn sealed(version: u16, records: &[(u8, &[u8])]) -> Vec<u8> {
    let keys = keys(version, 51, 1);
    let (nonce, rest) = keys[4..].split_at(8);
    let (key, rest) = rest.split_at(16);
    let mut iv = [0; 12];
    iv[..4].copy_from_slice(&rest[..4]);
    iv[4..].copy_from_slice(nonce);
    let mut info = l5p::tls::CryptoInfo {
        version: match version {
            TLS_1_2 => l5p::tls::Version::Tls12,
            _ => l5p::tls::Version::Tls13,
        },
        algorithm: l5p::tls::Algorithm::Aes128Gcm,
        key: [0; 32],
        iv,
        sequence: 0,
    };
    info.key[..16].copy_from_slice(key);
    let mut writer = l5p::tls::Writer::new(info);
    let mut wire = Vec::new();
    for (record_type, content) in records {
        let mut record = [0; 200];
        let record_type = l5p::tls::ContentType(*record_type);
        let len = writer.seal_into(record_type, &[*content], &mut record);
        wire.extend(&record[..len]);
    }
    wire
}

fn receives_sealed(version: u16, records: &[(u8, &[u8])]) -> Pair {
    let pair = Pair::plain();
    pair.receives(&keys(version, 51, 1));
    pair.put(&sealed(version, records));
    pair
}

fn empty_messages() {
    for version in [TLS_1_2, TLS_1_3] {
        let records: [(u8, &[u8]); 4] = [
            (DATA, b"data"),
            (HANDSHAKE, b""),
            (HANDSHAKE, b""),
            (DATA, b"data"),
        ];
        let pair = receives_sealed(version, &records);
        for (record_type, content) in records {
            assert!(becomes_readable(&pair.b));
            for flags in [libc::MSG_PEEK, 0] {
                let (data, told, _) = recv_record(pair.b(), 100, flags).unwrap();
                assert_eq!((&data[..], told), (content, Some(record_type)));
            }
        }
        let nothing = recv_record(pair.b(), 100, libc::MSG_DONTWAIT);
        assert_eq!(errno(nothing), libc::EAGAIN);
        pair.a.shutdown(std::net::Shutdown::Write).unwrap();
        // The end has no type.
        let (data, told, _) = recv_record(pair.b(), 100, 0).unwrap();
        assert_eq!((&data[..], told), (&b""[..], None));
    }
}

fn empty_data() {
    for version in [TLS_1_2, TLS_1_3] {
        let pair = receives_sealed(version, &[(DATA, b""), (DATA, b""), (ALERT, &[1, 0])]);
        let (data, told, _) = recv_record(pair.b(), 100, 0).unwrap();
        assert_eq!((&data[..], told), (&b""[..], Some(DATA)));
        let (data, told, _) = recv_record(pair.b(), 100, 0).unwrap();
        assert_eq!((&data[..], told), (&[1, 0][..], Some(ALERT)));
        // Without room for types it would look like the end.
        let pair = receives_sealed(version, &[(DATA, b""), (ALERT, &[1, 0])]);
        assert_eq!(errno(recv(pair.b(), 100, 0)), libc::EIO);
        // Nothing but empty data is nothing.
        let pair = receives_sealed(version, &[(DATA, b""), (DATA, b"")]);
        assert_eq!(errno(recv(pair.b(), 100, libc::MSG_DONTWAIT)), libc::EAGAIN);
    }
}

fn no_buffer() {
    let pair = Pair::keyed(TLS_1_3, 51);
    send_record(pair.a(), ALERT, &[1, 0]).unwrap();
    assert_eq!(errno(recv(pair.b(), 100, 0)), libc::EIO);
    let (data, told, _) = recv_record(pair.b(), 100, 0).unwrap();
    assert_eq!((&data[..], told), (&[1, 0][..], Some(ALERT)));
}

fn data_without_buffer() {
    let pair = Pair::keyed(TLS_1_3, 51);
    send(pair.a(), b"data", 0).unwrap();
    assert_eq!(recv(pair.b(), 100, 0).unwrap(), b"data");
}

fn never_mixed() {
    let pair = Pair::keyed(TLS_1_3, 54);
    send(pair.a(), b"before", 0).unwrap();
    send_record(pair.a(), HANDSHAKE, &[9; 4]).unwrap();
    send(pair.a(), b"after", 0).unwrap();
    let expected: [(&[u8], u8); 3] = [(b"before", DATA), (&[9; 4], HANDSHAKE), (b"after", DATA)];
    for expected in expected {
        let (data, told, _) = recv_record(pair.b(), 100, 0).unwrap();
        assert_eq!((&data[..], told), (expected.0, Some(expected.1)));
    }
}

fn parts_are_never_mixed() {
    for room in [1, 3, 5, 100] {
        let pair = Pair::keyed(TLS_1_2, 51);
        send(pair.a(), b"before", 0).unwrap();
        send_record(pair.a(), HANDSHAKE, b"a message").unwrap();
        send_record(pair.a(), HANDSHAKE, b"another").unwrap();
        send(pair.a(), b"after", 0).unwrap();
        let (mut got, mut ends) = (Vec::new(), 0);
        while got.len() < 6 + 9 + 7 + 5 {
            let (seen, seen_type, _) = recv_record(pair.b(), room, libc::MSG_PEEK).unwrap();
            let (data, told, flags) = recv_record(pair.b(), room, 0).unwrap();
            assert_eq!((&data[..seen.len()], told), (&seen[..], seen_type));
            ends += usize::from(flags & libc::MSG_EOR != 0);
            got.extend(data.into_iter().map(|byte| (byte, told)));
        }
        let record = |content: &[u8], record_type| -> Vec<_> {
            let typed = content.iter().map(|byte| (*byte, Some(record_type)));
            typed.collect()
        };
        let expected = [
            record(b"before", DATA),
            record(b"a message", HANDSHAKE),
            record(b"another", HANDSHAKE),
            record(b"after", DATA),
        ];
        assert_eq!(got, expected.concat());
        assert_eq!(ends, 2, "each message ends once");
    }
}

fn data_before_a_message() {
    let pair = Pair::keyed(TLS_1_3, 51);
    send(pair.a(), b"data", 0).unwrap();
    send_record(pair.a(), ALERT, &[1, 0]).unwrap();
    assert_eq!(recv(pair.b(), 100, 0).unwrap(), b"data");
    assert!(becomes_readable(&pair.b));
    for flags in [libc::MSG_PEEK, 0, 0] {
        assert_eq!(errno(recv(pair.b(), 100, flags)), libc::EIO);
    }
    let (data, told, _) = recv_record(pair.b(), 100, 0).unwrap();
    assert_eq!((&data[..], told), (&[1, 0][..], Some(ALERT)));
}
