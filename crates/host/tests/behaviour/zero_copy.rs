//! Zero-copy sends, and memory that changes under them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use l5p::tls::{Algorithm, Version};
use nic::ring::{Region, Slice};

use crate::pair::{CLIENT, Connected as _, Pair, SERVER, hosts, lossy, options, region, slice};
use host::{CloseReason, Event, Messages, Offload, SocketError, SocketId};
use sim::Fate;
use testkit::pattern;

pub fn send_all(pair: &mut Pair, server: SocketId, client: SocketId, slices: &[Slice]) -> Vec<u8> {
    let total: u64 = slices.iter().map(|slice| u64::from(slice.len)).sum();
    let mut left: Vec<Slice> = slices.to_vec();
    let mut received = Vec::new();
    pair.run_until(Duration::from_secs(300), |pair| {
        let now = pair.now();
        while !left.is_empty() {
            let Ok(mut taken) = pair.stack(SERVER).send_slices(now, server, &left) else {
                break;
            };
            while taken > 0 {
                let bytes = (left[0].len as usize).min(taken) as u32;
                left[0].offset += u64::from(bytes);
                left[0].len -= bytes;
                taken -= bytes as usize;
                if left[0].len == 0 {
                    left.remove(0);
                }
            }
        }
        pair.read(CLIENT, client, &mut received);
        received.len() as u64 >= total
    });
    received
}

const SUITES: [(Version, Algorithm); 3] = [
    (Version::Tls13, Algorithm::Aes128Gcm),
    (Version::Tls12, Algorithm::Aes256Gcm),
    (Version::Tls13, Algorithm::ChaCha20Poly1305),
];

#[test]
fn slices_arrive_in_every_mode_with_loss() {
    let data = pattern(1_000_000);
    for (version, algorithm) in SUITES {
        for (seed, mode) in [Offload::None, Offload::Both].into_iter().enumerate() {
            let mut pair = hosts();
            let (client, server) = pair.secured(&options(version, algorithm), [mode; 2]);
            pair.decide(lossy(SERVER, 0.02, 0.02, seed as u64 + 5));
            let id = pair.register(SERVER, region(&data), "file");
            let slices = [
                slice(id, 10, 3),
                slice(id, 100_000, 600_000),
                slice(id, 0, 100_000),
            ];
            let wanted: Vec<u8> = slices
                .iter()
                .flat_map(|s| &data[s.offset as usize..][..s.len as usize])
                .copied()
                .collect();
            let received = send_all(&mut pair, server, client, &slices);
            assert!(
                received == wanted,
                "{version:?} {algorithm:?} {mode:?}: {} bytes",
                received.len()
            );
            assert!(mode == Offload::None || pair.counter(SERVER, "DriverTxRecoveries") > 0);
            // Written and zero-copy records in turn.
            pair.write(SERVER, server, b"header");
            let received = send_all(&mut pair, server, client, &slices[..1]);
            assert_eq!(received, [b"header", &data[10..13]].concat());
        }
    }
}

#[test]
fn a_source_that_changes_before_its_retransmission_ends_the_connection() {
    let data = pattern(400_000);
    for (version, algorithm) in SUITES {
        let mut pair = hosts();
        let (client, server) = pair.secured(&options(version, algorithm), [Offload::Both; 2]);
        let memory = region(&data);
        let id = pair.register(SERVER, Arc::clone(&memory), "/srv/file");
        let changing = Arc::clone(&memory);
        let mut count = 0;
        pair.decide(move |from, _, frame| {
            if from == SERVER && frame.len() > 1000 {
                count += 1;
                if count == 30 {
                    // Lost; and before it is sent again, somebody writes to all of the file.
                    for page in 0..100 {
                        changing.write(page * 4000, &[0xee; 16]);
                    }
                    return Fate::Drop;
                }
            }
            Fate::Pass
        });
        let now = pair.now();
        let slice = slice(id, 0, 400_000);
        pair.stack(SERVER)
            .send_slices(now, server, &[slice])
            .expect("room");
        pair.run_for(Duration::from_secs(5));
        let reason = pair.ended(SERVER);
        let Some(CloseReason::SourceChanged { name, offset }) = reason else {
            panic!("{algorithm:?}: {reason:?}")
        };
        assert_eq!(name, "/srv/file");
        assert!((16_384..65_536).contains(&offset), "{offset}");
        assert!(
            pair.events(CLIENT)
                .contains(&Event::Closed(client, CloseReason::Reset))
        );
    }
}

/// A message of a head and memory behind it is whole, and one record where both fit one.
#[test]
fn bytes_and_slices_behind_them_are_sent_together() {
    const HEAD: usize = 9;
    const BODY: u32 = 16_384 - HEAD as u32;
    let data = pattern(200_000);
    for mode in [None, Some(Offload::None), Some(Offload::Both)] {
        let mut pair = hosts();
        let options = options(Version::Tls13, Algorithm::Aes128Gcm);
        let (client, server) = match mode {
            Some(mode) => pair.secured(&options, [mode; 2]),
            None => pair.connected(crate::pair::v4),
        };
        pair.decide(lossy(SERVER, 0.02, 0.02, 3));
        let id = pair.register(SERVER, region(&data), "file");
        let before = tls_records(&mut pair);
        let (mut sent, mut received, mut wanted) = (0_u32, Vec::new(), Vec::new());
        pair.run_until(Duration::from_secs(300), |pair| {
            let now = pair.now();
            while sent < 10 {
                let slice = slice(id, u64::from(sent) * 1000, BODY);
                let head = [sent as u8; HEAD];
                let stack = pair.stack(SERVER);
                if stack
                    .write_with_slices(now, server, &head, &[slice])
                    .is_err()
                {
                    break;
                }
                wanted.extend(head);
                wanted.extend(&data[sent as usize * 1000..][..BODY as usize]);
                sent += 1;
            }
            pair.read(CLIENT, client, &mut received);
            sent == 10 && received.len() >= wanted.len()
        });
        assert!(received == wanted, "{mode:?}");
        let records = tls_records(&mut pair) - before;
        assert_eq!(records, if mode.is_some() { 10 } else { 0 }, "{mode:?}");
    }
}

/// Messages are whole, wherever the socket has had enough of them, and one record each; also those that a record has no room for are sent.
#[test]
fn messages_around_memory_are_sent_together() {
    const MESSAGES: u32 = 60;
    let data = pattern(MESSAGES as usize * 20_000);
    for (mode, head, content, records) in [
        (None, 9, 16_375, 0),
        (Some(Offload::None), 9, 16_375, MESSAGES),
        (Some(Offload::Both), 9, 16_375, MESSAGES),
        (Some(Offload::Both), 0, 1000, MESSAGES),
        (Some(Offload::Both), 9, 20_000, 2 * MESSAGES),
    ] {
        let mut pair = hosts();
        let options = options(Version::Tls13, Algorithm::Aes128Gcm);
        let (client, server) = match mode {
            Some(mode) => pair.secured(&options, [mode; 2]),
            None => pair.connected(crate::pair::v4),
        };
        pair.decide(lossy(SERVER, 0.02, 0.02, 3));
        let id = pair.register(SERVER, region(&data), "file");
        let before = tls_records(&mut pair);
        let heads: Vec<u8> = (0..MESSAGES)
            .flat_map(|nth| vec![nth as u8; head])
            .collect();
        let (mut sent, mut received) = (0_u32, Vec::new());
        let wanted: Vec<u8> = (0..MESSAGES as usize)
            .flat_map(|nth| {
                let content = &data[nth * content..][..content];
                [&heads[nth * head..][..head], content].concat()
            })
            .collect();
        pair.run_until(Duration::from_secs(300), |pair| {
            let now = pair.now();
            while sent < MESSAGES {
                let slice = slice(
                    id,
                    u64::from(sent) * content as u64,
                    (MESSAGES - sent) * content as u32,
                );
                let heads = &heads[sent as usize * head..];
                let messages = Messages::new(heads, slice, MESSAGES - sent).unwrap();
                match pair.stack(SERVER).write_messages(now, server, &messages) {
                    Ok(count) => sent += count,
                    Err(error) => {
                        assert_eq!(error, SocketError::WouldBlock);
                        break;
                    }
                }
            }
            pair.read(CLIENT, client, &mut received);
            sent == MESSAGES && received.len() >= wanted.len()
        });
        assert!(received == wanted, "{mode:?} {content}");
        assert_eq!(
            tls_records(&mut pair) - before,
            u64::from(records),
            "{mode:?} {content}"
        );
    }
}

/// Records that the server has made, or has had made.
fn tls_records(pair: &mut Pair) -> u64 {
    let counters = pair.stack(SERVER).counters();
    let made = counters.filter(|(name, _)| ["TlsTxRecordsDevice", "TlsTxRecordsSw"].contains(name));
    made.map(|(_, count)| count).sum()
}

#[test]
fn a_source_that_goes_away_ends_its_connection_only() {
    let mut pair = hosts();
    let options = options(Version::Tls13, Algorithm::Aes128Gcm);
    let (client, server) = pair.secured(&options, [Offload::Both; 2]);
    let (other_client, other_server) = pair.connected(crate::pair::v4);
    let memory: Arc<Region> = region(&pattern(400_000));
    let id = pair.register(SERVER, Arc::clone(&memory), "/srv/short");
    let now = pair.now();
    let slice = slice(id, 0, 400_000);
    pair.stack(SERVER)
        .send_slices(now, server, &[slice])
        .expect("room");
    memory.faulted.store(true, Ordering::Release);
    pair.run_for(Duration::from_secs(1));
    assert!(pair.events(SERVER).iter().any(
        |event| matches!(event, Event::Closed(id, CloseReason::SourceGone { name, .. }) if *id == server && name == "/srv/short")
    ));
    let _ = client;
    assert_eq!(
        pair.transfer(SERVER, other_server, other_client, b"still here"),
        b"still here"
    );
}

/// Wherever in the sequence numbers they are.
#[test]
fn a_source_that_goes_away_ends_connections_without_contexts_too() {
    let mut pair = hosts();
    let connections: Vec<_> = (0..16).map(|_| pair.connected(crate::pair::v4).1).collect();
    for server in connections {
        let memory: Arc<Region> = region(&pattern(100_000));
        let now = pair.now();
        let stack = pair.stack(SERVER);
        let id = stack
            .register(Arc::clone(&memory), "/srv/short")
            .expect("an id");
        let slice = slice(id, 0, 100_000);
        stack.send_slices(now, server, &[slice]).expect("room");
        memory.faulted.store(true, Ordering::Release);
        pair.run_for(Duration::from_secs(1));
        assert!(pair.events(SERVER).iter().any(
            |event| matches!(event, Event::Closed(id, CloseReason::SourceGone { .. }) if *id == server)
        ));
    }
}

#[test]
fn a_region_is_held_until_nothing_names_it() {
    let mut pair = hosts();
    let (client, server) = pair.connected(crate::pair::v4);
    let data = pattern(100_000);
    let memory = region(&data);
    let id = pair.register(SERVER, Arc::clone(&memory), "file");
    let now = pair.now();
    let slice = slice(id, 0, 100_000);
    pair.stack(SERVER)
        .send_slices(now, server, &[slice])
        .expect("room");
    pair.stack(SERVER).unregister(id);
    assert!(
        pair.stack(SERVER)
            .send_slices(now, server, &[slice])
            .is_err()
    );
    assert!(Arc::strong_count(&memory) > 1);
    let mut received = Vec::new();
    pair.run_until(Duration::from_secs(5), |pair| {
        pair.read(CLIENT, client, &mut received);
        false
    });
    assert!(received == data);
    assert!(
        Arc::strong_count(&memory) <= 2,
        "only the device's copy of the table may hold it"
    );
}

#[test]
fn slices_outside_of_registered_memory_are_refused() {
    let mut pair = hosts();
    let (_, server) = pair.connected(crate::pair::v4);
    let id = pair
        .stack(SERVER)
        .register(region(&[1; 100]), "file")
        .expect("an id");
    let now = pair.now();
    for (offset, len) in [(0, 101), (100, 1), (u64::MAX, 2), (5, 0)] {
        let slice = slice(id, offset, len);
        assert!(
            pair.stack(SERVER)
                .send_slices(now, server, &[slice])
                .is_err()
        );
    }
    // The stack's own arena is nobody else's to send from.
    let arena = Slice {
        region: nic::ring::RegionId(0),
        offset: 0,
        len: 10,
    };
    assert!(
        pair.stack(SERVER)
            .send_slices(now, server, &[arena])
            .is_err()
    );
}

#[test]
fn memory_that_was_sent_is_told_back_when_nobody_uses_it() {
    let data = pattern(700_000);
    for (version, algorithm) in SUITES {
        let mut pair = hosts();
        let (client, server) = pair.secured(&options(version, algorithm), [Offload::Both; 2]);
        let id = pair.register(SERVER, region(&data), "pool");
        pair.stack(SERVER).watch(id);
        let slice = |offset| slice(id, offset, 300_000);
        let slices = [slice(0), slice(400_000), slice(0)];
        send_all(&mut pair, server, client, &slices);
        pair.run_for(Duration::from_millis(200));
        let mut times = vec![0; data.len()];
        while let Some(released) = pair.stack(SERVER).poll_released() {
            let start = released.offset as usize;
            times[start..start + released.len as usize]
                .iter_mut()
                .for_each(|times| *times += 1);
        }
        let expected = |at: usize| match at {
            0..300_000 => 2,
            400_000.. => 1,
            _ => 0,
        };
        assert!(
            times
                .iter()
                .enumerate()
                .all(|(at, times)| *times == expected(at))
        );
    }
}
