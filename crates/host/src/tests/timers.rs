//! Timers, and what sockets take.

use std::time::Duration;

use testkit::pattern;

use super::pair::{CLIENT, Pair, SERVER};

/// A connection that is busy now and then leaves no trail of timers.
#[test]
fn stale_timers_are_bounded() {
    let keep_alive = tcp::KeepAlive::default();
    let mut pair = Pair::with(|_, (config, _)| config.tcp.keep_alive = Some(keep_alive));
    let (client, server) = pair.connect();
    for _ in 0..2500 {
        assert_eq!(pair.transfer(CLIENT, client, server, b"x"), b"x");
        for _ in 0..3 {
            pair.now += Duration::from_millis(100);
            while pair.step() {}
        }
    }
    for at in [CLIENT, SERVER] {
        let timers = pair.hosts[at].stack.transport_mut().schedule.timers.len();
        assert!(timers <= 1024 + 2, "{timers}");
    }
}

#[test]
fn many_connections_carry_their_own_bytes() {
    let mut pair = Pair::new();
    let sockets: Vec<_> = (0..300).map(|_| pair.connect()).collect();
    for (at, (client, server)) in sockets.iter().enumerate() {
        let data = pattern(1000 + 37 * at);
        assert!(pair.transfer(CLIENT, *client, *server, &data) == data);
    }
    // All idle: nothing is due but what neighbours and memory need.
    pair.run_for(Duration::from_secs(120));
    assert_eq!(
        pair.hosts[CLIENT]
            .stack
            .transport_mut()
            .schedule
            .timers
            .next(),
        None
    );
}

#[test]
fn a_socket_takes_little_memory() {
    assert!(
        size_of::<crate::socket::Socket>() <= 1400,
        "{}",
        size_of::<crate::socket::Socket>()
    );
    assert!(
        size_of::<crate::tls::Session>() <= 1200,
        "{}",
        size_of::<crate::tls::Session>()
    );
}

#[test]
fn a_failed_session_that_is_closed_late_ends_although_its_peer_says_nothing() {
    let mut pair = Pair::new();
    let (client, server) = pair.connect();
    let options = handshake::Options::default();
    let certificate = handshake::Certificate::self_signed(["server.test".to_owned()]);
    let certificate = certificate.expect("a certificate");
    let config = handshake::server_config(certificate, &options).expect("a configuration");
    let now = pair.now;
    let role = crate::TlsRole::Server { config };
    let started = (pair.stack(SERVER)).start_tls(now, server, role, crate::Offload::None);
    started.expect("a connection without TLS");
    // Application data where a ClientHello belongs.
    let mut record = [0; 25];
    record[..5].copy_from_slice(&[23, 3, 3, 0, 20]);
    let sent = pair.stack(CLIENT).write(now, client, &record);
    assert_eq!(sent, Ok(25));
    pair.run_for(Duration::from_secs(10));
    let now = pair.now;
    pair.stack(SERVER).close(now, server).expect("closes");
    pair.run_for(Duration::from_secs(600));
    assert!(!pair.stack(SERVER).has_sockets());
}
