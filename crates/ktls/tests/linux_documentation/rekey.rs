//! "TLS 1.3 Key Updates".

use std::os::fd::AsRawFd;

use crate::receiving::splice;
use crate::sockets::*;

cases! {
    "any message sent after a KeyUpdate will be encrypted using the new key": new_keys,
    "TLS version and cipher cannot be changed": others_are_refused,
    "any read after the KeyUpdate and before the new key fails with EKEYEXPIRED": paused,
    "poll does not report any read events until the new key is provided": not_readable,
    "there is no pausing on the transmit side": sending_goes_on,
    "the kernel will not check for key/nonce reuse": the_same_again,
    "key updates in bursts end a splice, and it goes on under the new key": spliced_between,
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

/// As a proxy that splices has it: each update is behind a splice that fails once it is next, and is read by `recvmsg`.
fn spliced_between() {
    let pair = Pair::keyed(TLS_1_3, 51);
    let (from, to) = rustix::pipe::pipe().unwrap();
    let mut sent = Vec::new();
    let updates = 2..=21;
    for seed in updates.clone() {
        // Up to three updates directly behind each other.
        if seed % 3 == 0 {
            send(pair.a(), &[seed; 100], 0).unwrap();
            sent.extend([seed; 100]);
        }
        send_record(pair.a(), HANDSHAKE, KEY_UPDATE).unwrap();
        set(pair.a(), SOL_TLS, TLS_TX, &keys(TLS_1_3, 51, seed)).unwrap();
    }
    send(pair.a(), b"the end", 0).unwrap();
    sent.extend(b"the end");
    let mut moved = 0;
    for seed in updates {
        let failed = loop {
            match splice(pair.b(), to.as_raw_fd(), 1000) {
                Ok(len) => moved += len,
                Err(error) => break error,
            }
        };
        assert_eq!(failed.raw_os_error(), Some(libc::EINVAL));
        let (data, told, _) = recv_record(pair.b(), 100, 0).unwrap();
        assert_eq!((&data[..], told), (KEY_UPDATE, Some(HANDSHAKE)));
        set(pair.b(), SOL_TLS, TLS_RX, &keys(TLS_1_3, 51, seed)).unwrap();
    }
    while moved < sent.len() {
        moved += splice(pair.b(), to.as_raw_fd(), 1000).unwrap();
    }
    let mut room = vec![0; sent.len() + 1];
    assert_eq!(rustix::io::read(&from, &mut room), Ok(sent.len()));
    assert_eq!(room[..sent.len()], sent);
}
