//! What offload and fallback do.

use std::time::Duration;

use handshake::Options;
use l5p::tls::{Algorithm, Version};

use crate::pair::{CLIENT, Connected as _, SERVER, hosts, hosts_with, lossy, options};
use host::{Offload, OffloadState};
use testkit::pattern;

#[test]
fn without_contexts_software_does_it_all() {
    let mut pair = hosts_with(|_, node| node.function.contexts = 0);
    let (client, server) = pair.secured(&Options::default(), [Offload::Both; 2]);
    let data = pattern(300_000);
    assert!(pair.transfer(SERVER, server, client, &data) == data);
    let info = pair
        .stack(SERVER)
        .info(server)
        .and_then(|info| info.tls)
        .expect("TLS");
    assert_eq!(
        (info.transmit, info.receive),
        (OffloadState::FellBack, OffloadState::FellBack)
    );
    assert_eq!(pair.counter(SERVER, "TlsTxRecordsSw"), info.records_sent);
    assert_eq!(pair.counter(SERVER, "TlsCurrTxDevice"), 0);
    assert_eq!(pair.counter(SERVER, "TlsContextRefused"), 2);
}

#[test]
fn offload_can_be_changed_on_the_way() {
    let mut pair = hosts();
    let (client, server) = pair.secured(&Options::default(), [Offload::None; 2]);
    pair.decide(lossy(SERVER, 0.01, 0.01, 9));
    let data = pattern(250_000);
    for (from, to) in [
        (Offload::Both, Offload::Rx),
        (Offload::None, Offload::Both),
        (Offload::Tx, Offload::None),
        (Offload::Both, Offload::Both),
    ] {
        let now = pair.now();
        pair.stack(SERVER)
            .set_offload(now, server, from)
            .expect("TLS");
        pair.stack(CLIENT)
            .set_offload(now, client, to)
            .expect("TLS");
        assert!(pair.transfer(SERVER, server, client, &data) == data);
        assert!(pair.transfer(CLIENT, client, server, &data[..50_000]) == data[..50_000]);
    }
    assert!(
        pair.counter(SERVER, "TlsTxRecordsSw") > 0
            && pair.counter(SERVER, "TlsTxRecordsDevice") > 0
    );
}

#[test]
fn receive_offload_can_be_switched_while_records_come() {
    for (seed, loss) in [(3, 0.0), (5, 0.01)] {
        let mut pair = hosts();
        let (client, server) = pair.secured(&Options::default(), [Offload::Both; 2]);
        pair.decide(lossy(SERVER, loss, loss, seed));
        let data = pattern(6_000_000);
        let (mut written, mut received) = (0, Vec::new());
        let mut buffer = vec![0; 30_000];
        let (mut steps, mut modes) = (0, [Offload::None, Offload::Both].into_iter().cycle());
        assert!(pair.run_until(Duration::from_secs(60), |pair| {
            let now = pair.now();
            written += pair.write(SERVER, server, &data[written..]);
            steps += 1;
            if steps % 60 == 0
                && let Some(mode) = modes.next()
            {
                pair.stack(CLIENT)
                    .set_offload(now, client, mode)
                    .expect("TLS");
            }
            // Not always all that there is, so that records of several contexts wait to be opened.
            let most = if written == data.len() {
                usize::MAX
            } else {
                steps % 3
            };
            for _ in 0..most {
                let Ok(bytes) = pair.stack(CLIENT).read(now, client, &mut buffer) else {
                    break;
                };
                received.extend_from_slice(&buffer[..bytes]);
            }
            received.len() == data.len()
        }));
        assert!(received == data);
        let counts = [
            "TlsRxRecordsFull",
            "TlsRxRecordsPartial",
            "TlsRxRecordsNone",
        ];
        let counts = counts.map(|name| pair.counter(CLIENT, name));
        assert!(
            counts[0] > 20 && counts[2] > 20,
            "{counts:?}, {steps} steps"
        );
    }
}

#[test]
fn no_plaintext_of_an_offloaded_flow_is_on_the_wire() {
    let mut pair = hosts_with(|_, node| node.function.send_entries = 16);
    let options = options(Version::Tls13, Algorithm::Aes128Gcm);
    let (client, server) = pair.secured(&options, [Offload::Both; 2]);
    let data = pattern(600_000);
    let windows: std::collections::HashSet<Vec<u8>> =
        data.windows(16).step_by(4).map(<[u8]>::to_vec).collect();
    let mut loss = lossy(SERVER, 0.05, 0.05, 4);
    pair.decide(move |from, to, frame| {
        if from == SERVER {
            let leaks = frame.windows(16).any(|window| windows.contains(window));
            assert!(!leaks, "plaintext on the wire");
        }
        loss(from, to, frame)
    });
    assert!(pair.transfer(SERVER, server, client, &data) == data);
    let [recoveries, asides] =
        ["DriverTxRecoveries", "DriverTxAsides"].map(|name| pair.counter(SERVER, name));
    assert!(
        asides > recoveries && recoveries > 0,
        "{asides}, {recoveries}"
    );
}
