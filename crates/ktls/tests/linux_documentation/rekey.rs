//! "TLS 1.3 Key Updates".

use crate::sockets::*;

cases! {
    "any message sent after a KeyUpdate will be encrypted using the new key": new_keys,
    "TLS version and cipher cannot be changed": others_are_refused,
    "any read after the KeyUpdate and before the new key fails with EKEYEXPIRED": paused,
    "poll does not report any read events until the new key is provided": not_readable,
    "there is no pausing on the transmit side": sending_goes_on,
    "the kernel will not check for key/nonce reuse": the_same_again,
}

const KEY_UPDATE: &[u8] = &[24, 0, 0, 1, 0];

/// `a` has sent a key update and has its new keys; `b` has read it.
fn updated() -> Pair {
    let pair = Pair::keyed(TLS_1_3, 51);
    send_record(pair.a(), HANDSHAKE, KEY_UPDATE).unwrap();
    set(pair.a(), SOL_TLS, TLS_TX, &keys(TLS_1_3, 51, 2)).unwrap();
    send(pair.a(), b"new", 0).unwrap();
    let (data, told, _) = recv_record(pair.b(), 100, 0).unwrap();
    assert_eq!((&data[..], told), (KEY_UPDATE, Some(HANDSHAKE)));
    pair
}

fn new_keys() {
    let pair = updated();
    set(pair.b(), SOL_TLS, TLS_RX, &keys(TLS_1_3, 51, 2)).unwrap();
    assert_eq!(recv(pair.b(), 100, 0).unwrap(), b"new");
}

fn others_are_refused() {
    let pair = Pair::keyed(TLS_1_3, 51);
    let other = set(pair.a(), SOL_TLS, TLS_TX, &keys(TLS_1_3, 52, 2));
    assert_eq!(errno(other), libc::EINVAL);
    let other = set(pair.a(), SOL_TLS, TLS_TX, &keys(TLS_1_2, 51, 2));
    assert_eq!(errno(other), libc::EINVAL);
    // TLS 1.2 has no key updates.
    let pair = Pair::keyed(TLS_1_2, 51);
    let again = set(pair.a(), SOL_TLS, TLS_TX, &keys(TLS_1_2, 51, 2));
    assert_eq!(errno(again), libc::EBUSY);
    send(pair.a(), b"as before", 0).unwrap();
    assert_eq!(recv(pair.b(), 100, 0).unwrap(), b"as before");
}

fn paused() {
    let pair = updated();
    for _ in 0..2 {
        assert_eq!(errno(recv(pair.b(), 100, 0)), libc::EKEYEXPIRED);
    }
}

fn not_readable() {
    let pair = updated();
    assert!(!is_readable(&pair.b));
    set(pair.b(), SOL_TLS, TLS_RX, &keys(TLS_1_3, 51, 2)).unwrap();
    assert!(becomes_readable(&pair.b));
}

fn sending_goes_on() {
    let pair = Pair::keyed(TLS_1_3, 51);
    send_record(pair.a(), HANDSHAKE, KEY_UPDATE).unwrap();
    // Still under the old key, as the program wants it.
    assert_eq!(send(pair.a(), b"old", 0).unwrap(), 3);
}

fn the_same_again() {
    let pair = Pair::keyed(TLS_1_3, 51);
    for _ in 0..3 {
        send(pair.a(), b"x", 0).unwrap();
        assert_eq!(recv(pair.b(), 100, 0).unwrap(), b"x");
        for (fd, option) in [(pair.a(), TLS_TX), (pair.b(), TLS_RX)] {
            set(fd, SOL_TLS, option, &keys(TLS_1_3, 51, 1)).unwrap();
        }
    }
}
