//! Linux's documentation of kernel TLS (Documentation/networking/tls.rst), sentence by sentence.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use l5p::tls::{ContentType, Writer};
use rustix::io::Errno;

use super::{CIPHERS, End, TLS_1_2, TLS_1_3, keyed, keys, pair, pattern};
use crate::session::Session;
use crate::{
    RECORD_TYPE_DATA, TLS_RX, TLS_RX_EXPECT_NO_PAD, TLS_TX, TLS_TX_MAX_PAYLOAD_LEN,
    TLS_TX_ZEROCOPY_RO,
};

const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const KEY_UPDATE: &[u8] = &[24, 0, 0, 1, 0];

#[test]
fn a_socket_that_is_not_connected_takes_no_protocol() {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    assert_eq!(Session::new(socket.as_fd()).err(), Some(Errno::NOTCONN));
}

#[test]
fn keys_are_told_as_they_were_set_but_at_the_next_record() {
    for version in [TLS_1_2, TLS_1_3] {
        for cipher in CIPHERS {
            let (a, b) = keyed(version, cipher).expect("loopback");
            a.write(b"one record");
            b.read_exactly(10);
            let mut expected = keys(version, cipher, 1, 6);
            if version == TLS_1_2 && cipher != 54 {
                // The explicit nonce is counted along.
                expected[11] += 1;
            }
            for (end, option) in [(&a, TLS_TX), (&b, TLS_RX)] {
                let mut told = vec![0; expected.len()];
                assert_eq!(end.session.option(option, &mut told), Ok(told.len()));
                assert_eq!(told, expected);
            }
        }
    }
}

/// As a process does that takes the socket over from another one (RFC 5288 §3: a nonce is used once).
#[test]
fn keys_that_are_set_as_they_were_told_go_on_with_the_next_nonce() {
    for cipher in [51, 52] {
        let (a, _b) = keyed(TLS_1_2, cipher).expect("loopback");
        let set = keys(TLS_1_2, cipher, 1, 5);
        a.write(b"one record");
        let mut told = vec![0; set.len()];
        a.session.option(TLS_TX, &mut told).expect("keys");
        let (a, b) = pair().expect("loopback");
        a.set(TLS_TX, &told).expect("keys");
        a.write(b"x");
        let mut record = [0; 5 + 8 + 1 + 16];
        rustix::io::read(&b.socket, &mut record).expect("loopback");
        let explicit = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().expect("8 bytes"));
        assert_eq!(explicit(&record[5..13]), explicit(&set[4..12]) + 1);
    }
}

#[test]
fn both_directions_have_one_version_and_one_cipher() {
    for (one, another) in [(TLS_TX, TLS_RX), (TLS_RX, TLS_TX)] {
        let (a, _b) = pair().expect("loopback");
        let set = |option, version, cipher, key| a.set(option, &keys(version, cipher, key, 0));
        assert_eq!(set(one, TLS_1_3, 51, 1), Ok(()));
        assert_eq!(set(another, TLS_1_3, 52, 2), Err(Errno::INVAL));
        assert_eq!(set(another, TLS_1_2, 51, 2), Err(Errno::INVAL));
        assert_eq!(set(another, TLS_1_3, 51, 2), Ok(()));
        // New keys, one direction behind the other.
        assert_eq!(set(one, TLS_1_3, 51, 3), Ok(()));
        assert_eq!(set(another, TLS_1_3, 51, 4), Ok(()));
    }
}

#[test]
fn keys_not_set_and_wrong_sizes_are_refused() {
    let (a, _b) = pair().expect("loopback");
    assert_eq!(a.session.option(TLS_TX, &mut [0; 40]), Err(Errno::BUSY));
    assert_eq!(a.set(TLS_TX, &[0; 40]), Err(Errno::INVAL));
    assert_eq!(a.set(99, &[0; 40]), Err(Errno::NOPROTOOPT));
    let good = keys(TLS_1_3, 51, 1, 0);
    assert_eq!(a.set(TLS_TX, &good), Ok(()));
    assert_eq!(a.session.option(TLS_TX, &mut [0; 41]), Err(Errno::INVAL));
}

#[test]
fn a_control_record_is_sent_and_received_with_its_type() {
    let (a, b) = keyed(TLS_1_3, 51).expect("loopback");
    a.write(b"data");
    assert_eq!(a.send(&[1, 0], ALERT, 0), Ok(2));
    a.write(b"more");
    let (data, received) = b.receive(100, true, 0).expect("data");
    assert_eq!(
        (&data[..], received.record_type),
        (&b"data"[..], RECORD_TYPE_DATA)
    );
    let (data, received) = b.receive(100, true, 0).expect("an alert");
    assert_eq!((&data[..], received.record_type), (&[1, 0][..], ALERT));
    assert!(received.ends_record);
    assert_eq!(b.read_exactly(4), b"more");
}

#[test]
fn a_control_record_without_room_for_its_type_is_an_error_and_stays() {
    let (a, b) = keyed(TLS_1_2, 51).expect("loopback");
    assert_eq!(a.send(&[1, 0], ALERT, 0), Ok(2));
    assert_eq!(b.read(100), Err(Errno::IO));
    let (data, received) = b.receive(100, true, 0).expect("an alert");
    assert_eq!((&data[..], received.record_type), (&[1, 0][..], ALERT));
}

#[test]
fn records_of_data_are_joined_up_to_a_record_of_another_type() {
    let (a, b) = keyed(TLS_1_3, 54).expect("loopback");
    for part in [b"ab", b"cd", b"ef"] {
        a.write(part);
    }
    assert_eq!(a.send(&[9; 4], HANDSHAKE, 0), Ok(4));
    let (data, received) = b.receive(6, true, libc::MSG_WAITALL).expect("data");
    assert_eq!(
        (&data[..], received.record_type),
        (&b"abcdef"[..], RECORD_TYPE_DATA)
    );
    let (data, received) = b.receive(2, true, 0).expect("a message's front");
    assert_eq!((data.len(), received.ends_record), (2, false));
    let (data, received) = b.receive(9, true, 0).expect("its rest");
    assert_eq!((data.len(), received.ends_record), (2, true));
}

#[test]
fn a_look_leaves_what_it_sees() {
    let (a, b) = keyed(TLS_1_3, 51).expect("loopback");
    a.write(b"hello");
    for _ in 0..2 {
        let (data, _) = b.receive(3, false, libc::MSG_PEEK).expect("data");
        assert_eq!(data, b"hel");
    }
    assert_eq!(b.read_exactly(5), b"hello");
}

#[test]
fn more_holds_a_record_open_until_it_is_full() {
    let (a, b) = keyed(TLS_1_3, 51).expect("loopback");
    let data = pattern(20_000);
    for part in data.chunks(1000) {
        assert_eq!(a.send(part, RECORD_TYPE_DATA, libc::MSG_MORE), Ok(1000));
    }
    let (got, _) = b.receive(30_000, false, 0).expect("a full record");
    assert_eq!(got, data[..16_384]);
    assert_eq!(
        b.receive(1, false, libc::MSG_DONTWAIT).err(),
        Some(Errno::AGAIN)
    );
    // Another type ends it.
    assert_eq!(a.send(&[1, 0], ALERT, 0), Ok(2));
    let (got, _) = b.receive(30_000, false, 0).expect("the rest");
    assert_eq!(got, data[16_384..]);
}

#[test]
fn a_record_to_which_nothing_is_added_leaves_as_from_tcp() {
    let (a, b) = keyed(TLS_1_3, 51).expect("loopback");
    let patience = Some(Duration::from_secs(5));
    b.socket.set_read_timeout(patience).expect("a TCP socket");
    for part in [b"one", b"two"] {
        let began = Instant::now();
        assert_eq!(a.send(part, RECORD_TYPE_DATA, libc::MSG_MORE), Ok(3));
        assert_eq!(b.read_exactly(3), part);
        assert!(began.elapsed() >= Duration::from_millis(200));
    }
}

#[test]
fn a_record_that_goes_on_to_grow_is_not_sent() {
    let (a, b) = keyed(TLS_1_2, 54).expect("loopback");
    let (began, mut longest, mut last) = (Instant::now(), Duration::ZERO, Instant::now());
    let mut sent = 0;
    while began.elapsed() < Duration::from_millis(700) {
        longest = longest.max(last.elapsed());
        last = Instant::now();
        assert_eq!(a.send(b"more", RECORD_TYPE_DATA, libc::MSG_MORE), Ok(4));
        sent += 4;
        std::thread::sleep(Duration::from_millis(5));
    }
    let open = a.session.sending().open;
    assert!(open == sent || longest > Duration::from_millis(150));
    assert_eq!(a.send(b"end", RECORD_TYPE_DATA, 0), Ok(3));
    assert_eq!(b.read_exactly(sent + 3).len(), sent + 3);
}

#[test]
fn tls_1_3_takes_new_keys_and_tls_1_2_does_not() {
    let (a, b) = keyed(TLS_1_2, 51).expect("loopback");
    assert_eq!(a.set(TLS_TX, &keys(TLS_1_2, 51, 9, 0)), Err(Errno::BUSY));
    a.write(b"still the old ones");
    b.read_exactly(18);
    let (a, _) = keyed(TLS_1_3, 51).expect("loopback");
    assert_eq!(a.set(TLS_TX, &keys(TLS_1_3, 52, 9, 0)), Err(Errno::INVAL));
}

#[test]
fn after_a_key_update_nothing_is_read_before_there_are_new_keys() {
    let (a, b) = keyed(TLS_1_3, 51).expect("loopback");
    let new = keys(TLS_1_3, 51, 77, 0);
    a.write(b"old");
    assert_eq!(a.send(KEY_UPDATE, HANDSHAKE, 0), Ok(5));
    assert_eq!(a.set(TLS_TX, &new), Ok(()));
    a.write(b"new");
    assert_eq!(b.read_exactly(3), b"old");
    let (data, received) = b.receive(100, true, 0).expect("the update");
    assert_eq!((&data[..], received.record_type), (KEY_UPDATE, HANDSHAKE));
    assert_eq!(b.read(100), Err(Errno::KEYEXPIRED));
    assert_eq!(b.set(TLS_RX, &new), Ok(()));
    assert_eq!(b.read_exactly(3), b"new");
}

#[test]
fn a_record_that_cannot_be_opened_is_a_bad_message_for_good() {
    let (a, b) = pair().expect("loopback");
    a.set(TLS_TX, &keys(TLS_1_3, 51, 1, 0)).expect("keys");
    b.set(TLS_RX, &keys(TLS_1_3, 51, 2, 0)).expect("keys");
    a.write(b"under other keys");
    assert_eq!(b.read(100), Err(Errno::BADMSG));
    assert_eq!(b.read(100), Err(Errno::BADMSG));
}

#[test]
fn a_record_that_is_too_long_or_of_another_version_says_so() {
    for (header, expected) in [
        ([23, 3, 3, 0x7f, 0xff], Errno::MSGSIZE),
        ([23, 2, 3, 0, 100], Errno::INVAL),
    ] {
        let (a, b) = pair().expect("loopback");
        b.set(TLS_RX, &keys(TLS_1_3, 51, 2, 0)).expect("keys");
        rustix::io::write(&a.socket, &header).expect("loopback");
        assert_eq!(b.read(100), Err(expected));
    }
}

#[test]
fn the_flags_are_zero_or_one_and_padding_is_tls_1_3s() {
    let (a, b) = keyed(TLS_1_3, 51).expect("loopback");
    let flag = |end: &End, option| {
        let mut value = [9; 4];
        end.session
            .option(option, &mut value)
            .map(|_| i32::from_ne_bytes(value))
    };
    assert_eq!(a.set(TLS_TX_ZEROCOPY_RO, &1_i32.to_ne_bytes()), Ok(()));
    assert_eq!(flag(&a, TLS_TX_ZEROCOPY_RO), Ok(1));
    assert_eq!(
        a.set(TLS_TX_ZEROCOPY_RO, &2_i32.to_ne_bytes()),
        Err(Errno::INVAL)
    );
    assert_eq!(b.set(TLS_RX_EXPECT_NO_PAD, &1_i32.to_ne_bytes()), Ok(()));
    let (_, b) = keyed(TLS_1_2, 51).expect("loopback");
    assert_eq!(
        b.set(TLS_RX_EXPECT_NO_PAD, &1_i32.to_ne_bytes()),
        Err(Errno::INVAL)
    );
}

#[test]
fn records_are_limited_to_what_tls_has() {
    for (version, least, most) in [(TLS_1_2, 64, 16_384), (TLS_1_3, 63, 16_384_u16)] {
        let (a, b) = keyed(version, 51).expect("loopback");
        let set = |limit: u16| a.set(TLS_TX_MAX_PAYLOAD_LEN, &limit.to_ne_bytes());
        assert_eq!(set(least - 1), Err(Errno::INVAL));
        assert_eq!(set(most + 1), Err(Errno::INVAL));
        assert_eq!(set(most), Ok(()));
        assert_eq!(set(least), Ok(()));
        a.write(&pattern(2 * usize::from(least)));
        assert_eq!(
            b.read(1000).map(|data| data.len()),
            Ok(2 * usize::from(least))
        );
    }
}

#[test]
fn records_with_padding_and_of_other_types_are_received_though_none_were_expected() {
    let (a, b) = pair().expect("loopback");
    let info = keys(TLS_1_3, 51, 1, 0);
    b.set(TLS_RX, &info).expect("keys");
    b.set(TLS_RX_EXPECT_NO_PAD, &1_i32.to_ne_bytes())
        .expect("an option");
    let mut writer = Writer::new(crate::abi::parse(&info).expect("keys"));
    writer.set_padding(16);
    for (content_type, content) in [
        (ContentType::APPLICATION_DATA, &b"padded"[..]),
        (ContentType(ALERT), &[1, 0]),
        (ContentType::APPLICATION_DATA, b""),
        (ContentType::APPLICATION_DATA, b"again"),
    ] {
        let mut record = [0; 5 + 16 + 16];
        let len = writer.seal_into(content_type, &[content], &mut record);
        assert_eq!(len, record.len(), "it is padded");
        rustix::io::write(&a.socket, &record[..len]).expect("loopback");
    }
    assert_eq!(b.read(100), Ok(b"padded".to_vec()));
    let (data, received) = b.receive(100, true, 0).expect("an alert");
    assert_eq!((&data[..], received.record_type), (&[1, 0][..], ALERT));
    assert_eq!(b.read(100), Ok(b"again".to_vec()));
}

#[test]
fn the_end_of_the_stream_is_no_bytes() {
    let (a, b) = keyed(TLS_1_3, 51).expect("loopback");
    a.write(b"last");
    drop(a);
    assert_eq!(b.read_exactly(4), b"last");
    assert_eq!(b.read(10).map(|data| data.len()), Ok(0));
}

#[test]
fn explicit_nonces_are_counted_as_the_kernel_counts_them() {
    let (a, b) = pair().expect("loopback");
    let info = keys(TLS_1_2, 51, 1, 5);
    a.set(TLS_TX, &info).expect("keys");
    let first = u64::from_be_bytes(info[4..12].try_into().expect("8 bytes"));
    for more in 0..3 {
        a.write(b"x");
        let mut record = [0; 5 + 8 + 1 + 16];
        rustix::io::read(&b.socket, &mut record).expect("loopback");
        let nonce = u64::from_be_bytes(record[5..13].try_into().expect("8 bytes"));
        assert_eq!(nonce, first + more);
    }
}
