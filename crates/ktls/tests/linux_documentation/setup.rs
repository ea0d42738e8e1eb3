//! "Creating a TLS connection", and the options.

use std::os::fd::AsRawFd;

use crate::sockets::*;

cases! {
    "once the connection is established set the TLS ULP": only_established,
    "setting the TLS ULP allows us to set and get TLS socket options": options_need_the_protocol,
    "transmit and receive are set separately": directions_are_separate,
    "a structure of another cipher, version or length is invalid": bad_structures,
    "a cipher without its module is not there": no_module,
    "the last record number is not used": numbers_end,
    "options are set per socket, and their state can be checked using getsockopt": options,
}

fn only_established() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    assert_eq!(errno(ulp(listener.as_raw_fd())), libc::ENOTCONN);
    let (unix, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    assert_eq!(errno(ulp(unix.as_raw_fd())), libc::EOPNOTSUPP);
    let pair = Pair::plain();
    ulp(pair.a()).unwrap();
    assert_eq!(errno(ulp(pair.a())), libc::EEXIST);
    assert_eq!(
        get(pair.a(), libc::SOL_TCP, libc::TCP_ULP, 16).unwrap()[..4],
        *b"tls\0"
    );
    // The name is a C string, in more room or less.
    set(pair.b(), libc::SOL_TCP, libc::TCP_ULP, b"tls\0and more").unwrap();
    let other = Pair::plain();
    set(other.a(), libc::SOL_TCP, libc::TCP_ULP, b"tls").unwrap();
    assert!(set(other.b(), libc::SOL_TCP, libc::TCP_ULP, b"tlsx").is_err());
}

fn options_need_the_protocol() {
    let pair = Pair::plain();
    let keys = keys(TLS_1_3, 51, 1);
    assert_eq!(
        errno(set(pair.a(), SOL_TLS, TLS_TX, &keys)),
        libc::ENOPROTOOPT
    );
    ulp(pair.a()).unwrap();
    set(pair.a(), SOL_TLS, TLS_TX, &keys).unwrap();
    assert_eq!(get(pair.a(), SOL_TLS, TLS_TX, keys.len()).unwrap(), keys);
    assert_eq!(get(pair.a(), SOL_TLS, TLS_TX, 4).unwrap(), keys[..4]);
    assert_eq!(
        errno(get(pair.a(), SOL_TLS, TLS_RX, keys.len())),
        libc::EBUSY
    );
}

fn directions_are_separate() {
    let pair = Pair::plain();
    pair.sends(&keys(TLS_1_3, 51, 1));
    // The other direction is as it was.
    send(pair.b(), b"plain", 0).unwrap();
    assert_eq!(recv(pair.a(), 10, 0).unwrap(), b"plain");
    send(pair.a(), b"secret", 0).unwrap();
    assert!(!holds(&pair.wire(), b"secret"));
}

fn bad_structures() {
    let pair = Pair::plain();
    ulp(pair.a()).unwrap();
    let good = keys(TLS_1_3, 51, 1);
    for bad in [&good[..39], &[0; 40], &keys(0x0302, 51, 1), &good[..4]] {
        assert_eq!(errno(set(pair.a(), SOL_TLS, TLS_TX, bad)), libc::EINVAL);
    }
    assert_eq!(errno(set(pair.a(), SOL_TLS, 99, &good)), libc::ENOPROTOOPT);
}

fn no_module() {
    let pair = Pair::plain();
    ulp(pair.a()).unwrap();
    for (cipher, len) in [(53, 40), (55, 40), (56, 40), (57, 40), (58, 56)] {
        let mut keys = keys(TLS_1_2, cipher, 1);
        keys.resize(len, 0);
        assert_eq!(errno(set(pair.a(), SOL_TLS, TLS_TX, &keys)), libc::ENOENT);
        keys.push(0);
        assert_eq!(errno(set(pair.a(), SOL_TLS, TLS_TX, &keys)), libc::EINVAL);
    }
}

fn numbers_end() {
    for (version, cipher) in [(TLS_1_2, 51), (TLS_1_3, 51), (TLS_1_3, 54)] {
        let pair = Pair::plain();
        let keys = crate::keys::keys(version, cipher, 1, u64::MAX - 2);
        pair.sends(&keys);
        pair.receives(&keys);
        // As far as there are numbers for.
        let data = [7; 16384 * 2];
        assert_eq!(send(pair.a(), &data, 0).unwrap(), data.len());
        for _ in 0..2 {
            assert_eq!(errno(send(pair.a(), b"more", 0)), libc::EBADMSG);
        }
        let got = recv(
            pair.b(),
            data.len() + 1,
            libc::MSG_WAITALL | libc::MSG_DONTWAIT,
        )
        .unwrap();
        assert_eq!(got, data);
        // A peer that goes on all the same is not heard.
        pair.put(&[23, 3, 3, 0, 100]);
        assert_eq!(errno(recv(pair.b(), 100, 0)), libc::EBADMSG);
        // It can be told that there is no more.
        let pair = Pair::plain();
        pair.sends(&crate::keys::keys(version, cipher, 1, u64::MAX));
        assert_eq!(errno(send(pair.a(), b"more", 0)), libc::EBADMSG);
        // SAFETY: numbers only.
        assert_eq!(unsafe { libc::shutdown(pair.a(), libc::SHUT_WR) }, 0);
        let patience = std::time::Duration::from_secs(5);
        pair.b.set_read_timeout(Some(patience)).unwrap();
        assert_eq!(pair.wire(), b"");
    }
}

fn options() {
    const ZEROCOPY: i32 = 3;
    const NO_PADDING: i32 = 4;
    let pair = Pair::keyed(TLS_1_3, 51);
    let one = 1_i32.to_ne_bytes();
    set(pair.a(), SOL_TLS, ZEROCOPY, &one).unwrap();
    assert_eq!(get(pair.a(), SOL_TLS, ZEROCOPY, 4).unwrap(), one);
    set(pair.b(), SOL_TLS, NO_PADDING, &one).unwrap();
    assert_eq!(get(pair.b(), SOL_TLS, NO_PADDING, 4).unwrap(), one);
    // They are off at first, and no other values than on and off.
    let pair = Pair::keyed(TLS_1_3, 51);
    for (fd, option) in [(pair.a(), ZEROCOPY), (pair.b(), NO_PADDING)] {
        assert_eq!(get(fd, SOL_TLS, option, 4).unwrap(), [0; 4]);
        for bad in [&2_i32.to_ne_bytes()[..], &[1], &[1; 8]] {
            assert_eq!(errno(set(fd, SOL_TLS, option, bad)), libc::EINVAL);
        }
        assert_eq!(errno(get(fd, SOL_TLS, option, 3)), libc::EINVAL);
    }
    assert_eq!(errno(get(pair.a(), SOL_TLS, 99, 4)), libc::ENOPROTOOPT);
    // "TLS 1.3 only."
    let pair = Pair::keyed(TLS_1_2, 51);
    assert_eq!(
        errno(set(pair.b(), SOL_TLS, NO_PADDING, &one)),
        libc::EINVAL
    );
    assert_eq!(errno(get(pair.b(), SOL_TLS, NO_PADDING, 4)), libc::EINVAL);
}
