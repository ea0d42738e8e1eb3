//! TLS with pre-shared keys, as NVMe/TCP uses it.

use std::time::Duration;

use handshake::nvme_psk::{ConfiguredPsk, Derivation, Hash, IdentityVersion, Keys};
use handshake::{OpenSslError, Psk, PskClientConfig};
use wire::nvme::Nqn;

use crate::pair::{CLIENT, Connected as _, Pair, SERVER, hosts, lossy, v4};
use host::{CloseReason, Event, Offload, SocketId, TlsRole};
use testkit::pattern;

const HOST: &str = "nqn.2014-08.org.example:host";
const SUBSYSTEM: &str = "nqn.2014-08.org.example:disk";
const MODES: [Offload; 4] = [Offload::None, Offload::Tx, Offload::Rx, Offload::Both];

fn nqn(name: &str) -> Nqn {
    Nqn::new(name).expect("a name")
}

fn tls_psk(key: &ConfiguredPsk, host: &str) -> Psk {
    key.tls_psk(
        IdentityVersion::V1,
        &nqn(host),
        &nqn(SUBSYSTEM),
        Derivation::Specification,
    )
    .expect("good names")
}

/// A target with this one key. `None`, said on standard error, where OpenSSL's library is not installed.
fn target(key: &ConfiguredPsk) -> Option<TlsRole> {
    let keys: Keys = format!("{HOST} {}", key.to_interchange())
        .parse()
        .expect("a good key");
    match keys.into_server_config(
        Derivation::Specification,
        |name| name.as_str() == SUBSYSTEM,
        None,
    ) {
        Ok(config) => Some(TlsRole::PskServer { config }),
        Err(error @ OpenSslError::Missing(_)) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn initiator(psk: Psk) -> TlsRole {
    let config = PskClientConfig::new(psk, None).expect("the target has loaded the library");
    TlsRole::PskClient { config }
}

fn start(pair: &mut Pair, roles: [TlsRole; 2], offload: Offload) -> (SocketId, SocketId) {
    let (client, server) = pair.connected(v4);
    pair.start_tls((client, server), roles, [offload; 2]);
    (client, server)
}

fn secured(pair: &mut Pair, (client, server): (SocketId, SocketId)) -> bool {
    pair.run_until(Duration::from_secs(60), |pair| {
        pair.events(CLIENT).contains(&Event::Secured(client))
            && pair.events(SERVER).contains(&Event::Secured(server))
    })
}

/// Why a side's connection ended.
fn ended(pair: &Pair, at: usize) -> Option<String> {
    pair.events(at).iter().find_map(|event| match event {
        Event::Closed(_, CloseReason::Handshake(why)) => Some(why.clone()),
        _ => None,
    })
}

#[test]
fn data_goes_both_ways_in_both_suites_and_every_mode() {
    let data = pattern(300_000);
    for hash in [Hash::Sha256, Hash::Sha384] {
        let key = ConfiguredPsk::generate(hash);
        for mode in MODES {
            let Some(target) = target(&key) else { return };
            let psk = tls_psk(&key, HOST);
            let identity = psk.identity().to_vec();
            let mut pair = hosts();
            let sockets = start(&mut pair, [initiator(psk), target], mode);
            assert!(secured(&mut pair, sockets), "{hash:?} {mode:?}");
            let (client, server) = sockets;
            assert!(pair.transfer(SERVER, server, client, &data) == data);
            assert!(pair.transfer(CLIENT, client, server, &data) == data);
            let named = pair.stack(SERVER).psk_identity(server);
            assert_eq!(named, Some(&identity[..]));
            let info = pair.stack(CLIENT).info(client).expect("open");
            let cipher = info.tls.expect("secured").cipher;
            let (name, device) = (
                match hash {
                    Hash::Sha256 => "AES-128-GCM",
                    Hash::Sha384 => "AES-256-GCM",
                },
                pair.counter(CLIENT, "TlsTxRecordsDevice"),
            );
            assert_eq!((cipher, device > 0), (name, mode.transmit()));
        }
    }
}

#[test]
fn loss_and_key_updates_change_nothing_that_is_read() {
    let data = pattern(400_000);
    for (hash, mode) in [
        (Hash::Sha256, Offload::None),
        (Hash::Sha256, Offload::Both),
        (Hash::Sha384, Offload::Both),
    ] {
        for lossy_side in [CLIENT, SERVER] {
            let key = ConfiguredPsk::generate(hash);
            let Some(target) = target(&key) else { return };
            let mut pair = hosts();
            let roles = [initiator(tls_psk(&key, HOST)), target];
            pair.decide(lossy(lossy_side, 0.05, 0.05, 11));
            let sockets = start(&mut pair, roles, mode);
            assert!(secured(&mut pair, sockets), "{hash:?} {mode:?}");
            let (client, server) = sockets;
            pair.decide(lossy(lossy_side, 0.02, 0.02, 13));
            for round in 0..3 {
                for (at, from, to) in [(SERVER, server, client), (CLIENT, client, server)] {
                    let now = pair.now();
                    pair.stack(at)
                        .key_update(now, from, round % 2 == 0)
                        .expect("TLS 1.3");
                    assert!(
                        pair.transfer(at, from, to, &data) == data,
                        "{hash:?} {mode:?}"
                    );
                }
            }
            assert!(pair.counter(CLIENT, "TlsRxRekeyOk") >= 3);
        }
    }
}

#[test]
fn a_wrong_key_and_an_unknown_host_are_told_apart() {
    let key = ConfiguredPsk::generate(Hash::Sha256);
    let other = ConfiguredPsk::generate(Hash::Sha256);
    // Version 0 names no key, so that its binder has to show the difference.
    let without_digest = other
        .tls_psk(
            IdentityVersion::V0,
            &nqn(HOST),
            &nqn(SUBSYSTEM),
            Derivation::Specification,
        )
        .expect("good names");
    for (psk, at_client, at_server) in [
        (
            tls_psk(&key, "nqn.stranger"),
            "does not know PSK identity",
            "there is no PSK for host nqn.stranger",
        ),
        (
            tls_psk(&other, HOST),
            "does not know PSK identity",
            "has another PSK than the one here",
        ),
        (
            without_digest,
            "has another key for PSK identity",
            "has another key than the one here",
        ),
    ] {
        let Some(target) = target(&key) else { return };
        let mut pair = hosts();
        start(&mut pair, [initiator(psk), target], Offload::Both);
        pair.run_for(Duration::from_secs(1));
        for (at, expected) in [(CLIENT, at_client), (SERVER, at_server)] {
            let why = ended(&pair, at).expect("it ended by its handshake");
            assert!(why.contains(expected), "{why}");
        }
    }
}
