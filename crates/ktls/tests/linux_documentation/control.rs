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
    assert!(is_readable(&pair.b));
    for flags in [libc::MSG_PEEK, 0, 0] {
        assert_eq!(errno(recv(pair.b(), 100, flags)), libc::EIO);
    }
    let (data, told, _) = recv_record(pair.b(), 100, 0).unwrap();
    assert_eq!((&data[..], told), (&[1, 0][..], Some(ALERT)));
}
