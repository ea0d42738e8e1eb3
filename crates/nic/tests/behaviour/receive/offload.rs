//! Decryption, as the host sees it.

use std::time::Duration;

use l5p::tls::{Algorithm, Version};
use nic::Fault;
use nic::ring::{ContextId, RecvDescriptor, SendDescriptor};
use testkit::bare::{Delivered, Rig};
use testkit::fixtures::{MSS, SUITES};
use testkit::records::Records;
use wire::SeqNum;
use wire::tcp::Flags;

use super::*;

const FIRST: SeqNum = SeqNum(u32::MAX - 9_000);

fn stream(algorithm: Algorithm, version: Version) -> (Rig, Records) {
    let keys = keys(algorithm, version);
    let contents = (0..40u8).map(|n| vec![n; 5_000 + usize::from(n) * 37]);
    let records = Records::of(&keys, contents);
    let mut rig = filled();
    offload(&mut rig, 3, &flow(1), FIRST, &keys);
    (rig, records)
}

fn aes_stream() -> (Rig, Records) {
    stream(Algorithm::Aes128Gcm, Version::Tls13)
}

fn send(rig: &mut Rig, records: &Records, from: usize) {
    let to = (from + MSS).min(records.len());
    let header = segment(&flow(1), FIRST + from as u32);
    arrive(rig, &flow(1), &header, &records.wire[from..to]);
}

/// Checks that each packet is what its flag says; gives the payload bytes that were offloaded.
fn check(records: &Records, delivered: &[Delivered]) -> usize {
    let mut offloaded = 0;
    for packet in delivered {
        let from = FIRST.distance_to(packet.seq()) as usize;
        let to = from + packet.payload().len();
        let expected = if packet.packet.processed.by(0) {
            offloaded += to - from;
            &records.opened
        } else {
            &records.wire
        };
        assert_eq!(packet.payload(), &expected[from..to], "{from}..{to}");
        assert_eq!(packet.packet.context, Some(ContextId(3)));
        assert!(packet.packet.checksum_ok);
    }
    offloaded
}

#[test]
fn records_of_every_version_and_cipher_arrive_decrypted_and_merged() {
    for (version, algorithm) in SUITES {
        let (mut rig, records) = stream(algorithm, version);
        let (mut offloaded, mut packets, mut segments) = (0, 0, 0);
        for (n, from) in (0..records.len()).step_by(MSS).enumerate() {
            send(&mut rig, &records, from);
            if n % 16 == 15 || from + MSS >= records.len() {
                let delivered = rig.packets();
                offloaded += check(&records, &delivered);
                packets += delivered.len();
                let merged = delivered.iter().map(|d| usize::from(d.packet.segments));
                segments += merged.sum::<usize>();
                rig.host.refill();
            }
        }
        assert_eq!(offloaded, records.len(), "{version:?} {algorithm:?}");
        assert_eq!(segments, records.len().div_ceil(MSS));
        assert!(packets <= segments.div_ceil(16), "{packets} of {segments}");
        let counters = rig.counters();
        assert_eq!(counters.named("rx_tls_decrypted_packets"), segments as u64);
        assert_eq!(
            counters.named("rx_tls_decrypted_bytes"),
            records.len() as u64
        );
        assert_eq!(counters.context_hits, segments as u64);
    }
}

#[test]
fn a_packet_with_a_wrong_check_value_arrives_as_it_was_on_the_wire() {
    let (mut rig, mut records) = aes_stream();
    let end = records.starts[1];
    records.wire[end - 1] ^= 1;
    records.opened[end - 1] ^= 1;
    for from in (0..10 * MSS).step_by(MSS) {
        send(&mut rig, &records, from);
    }
    let delivered = rig.packets();
    check(&records, &delivered);
    let bad = delivered.iter().find(|packet| {
        let from = FIRST.distance_to(packet.seq()) as usize;
        (from..from + packet.payload().len()).contains(&(end - 1))
    });
    assert!(!bad.unwrap().packet.processed.by(0));
    assert!(
        delivered[0].packet.processed.by(0),
        "{:?}",
        delivered[0].packet
    );
    assert_eq!(rig.counters().named("rx_tls_err"), 1);
    assert_eq!(rig.counters().named("rx_tls_resync_req_start"), 1);
}

#[test]
fn packets_with_different_results_are_not_merged() {
    let (mut rig, records) = stream(Algorithm::ChaCha20Poly1305, Version::Tls13);
    // One is missing, and this cipher can't take it late: raw until the next record's header, decrypted from there on.
    for n in [0, 1, 3, 4, 5, 6, 2, 7] {
        send(&mut rig, &records, n * MSS);
    }
    let delivered = rig.packets();
    let offloaded = check(&records, &delivered);
    assert!(offloaded > 0 && offloaded < 8 * MSS);
    let results: Vec<bool> = delivered.iter().map(|d| d.packet.processed.by(0)).collect();
    assert!(
        results.contains(&true) && results.contains(&false),
        "{results:?}"
    );
    assert_eq!(rig.counters().named("rx_tls_resumed"), 1);
}

#[test]
fn late_packets_of_a_record_are_decrypted_too() {
    for version in [Version::Tls12, Version::Tls13] {
        let (mut rig, records) = stream(Algorithm::Aes256Gcm, version);
        for n in [0, 2, 1, 3, 4, 5, 8, 9, 7, 6, 10] {
            send(&mut rig, &records, n * MSS);
        }
        let delivered = rig.packets();
        // The second record's header is in packet 3, the third one's in packet 6, which was late.
        let offloaded = check(&records, &delivered);
        assert!(offloaded >= 8 * MSS, "{offloaded}");
        assert!(rig.counters().named("rx_tls_decrypted_late_packets") >= 1);
        assert_eq!(rig.counters().named("rx_tls_resumed_late_header"), 1);
    }
}

#[test]
fn a_lost_header_is_asked_about_and_the_answer_resumes_the_offload() {
    let (mut rig, records) = aes_stream();
    let lost = records.starts[1] / MSS;
    let mut asked = None;
    let mut resumed = false;
    for n in (0..80).filter(|n| *n != lost) {
        send(&mut rig, &records, n * MSS);
        let (delivered, others) = rig.received();
        check(&records, &delivered);
        resumed |= asked.is_some() && delivered.iter().any(|d| d.packet.processed.by(0));
        for request in others {
            let RecvDescriptor::ResyncRequest { context, tcpsn, .. } = request else {
                panic!("{request:?}");
            };
            assert_eq!(context, ContextId(3));
            let index = records.index_at(FIRST.distance_to(tcpsn) as usize);
            assert!(index.is_some(), "a record begins there");
            asked = Some(tcpsn);
            rig.answer(&request, index);
        }
        rig.host.refill();
    }
    assert_eq!(asked, Some(FIRST + records.starts[2] as u32));
    assert!(resumed);
    let counters = rig.counters();
    assert_eq!(counters.named("rx_tls_resync_req_start"), 1);
    assert_eq!(counters.named("rx_tls_resync_req_end"), 1);
    assert_eq!(counters.named("rx_tls_resync_res_ok"), 1);
}

#[test]
fn a_destroyed_context_leaves_packets_as_they_are_and_its_flow_free() {
    let (mut rig, records) = aes_stream();
    send(&mut rig, &records, 0);
    rig.command(&SendDescriptor::DestroyContext {
        context: ContextId(3),
    });
    send(&mut rig, &records, MSS);
    let delivered = rig.packets();
    assert_eq!(delivered.len(), 2);
    assert_eq!(delivered[1].packet.context, None);
    assert!(!delivered[1].packet.processed.by(0));
    assert_eq!(rig.counters().named("rx_tls_del"), 1);
    offload(&mut rig, 3, &flow(1), FIRST, &aes());
    assert_eq!(rig.counters().named("rx_tls_ctx"), 2);
    assert_eq!(rig.counters().tx_errors, 0);
}

#[test]
fn a_flow_has_one_context_and_a_context_one_flow() {
    let (mut rig, _) = aes_stream();
    offload(&mut rig, 3, &flow(2), FIRST, &aes());
    offload(&mut rig, 4, &flow(1), FIRST, &aes());
    offload(&mut rig, 16, &flow(5), FIRST, &aes());
    let errors = rig.flush();
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert!(
        errors
            .iter()
            .all(|d| matches!(d, RecvDescriptor::Completion { .. }))
    );
    offload(&mut rig, 4, &flow(2), FIRST, &aes());
    assert!(rig.flush().is_empty());
}

#[test]
fn segments_without_stream_data_do_not_touch_the_context() {
    let (mut rig, records) = aes_stream();
    let mut tcp = segment(&flow(1), FIRST);
    arrive(&mut rig, &flow(1), &tcp, &[]);
    tcp.flags = Flags::RST;
    arrive(&mut rig, &flow(1), &tcp, b"why");
    send(&mut rig, &records, 0);
    let delivered = rig.packets();
    assert_eq!(delivered.len(), 3);
    assert!(delivered[2].packet.processed.by(0));
    assert_eq!(rig.counters().context_hits, 1);
}

fn inject(rig: &mut Rig, fault: Fault) {
    let id = rig.nic.functions().next().expect("a function");
    assert!(rig.nic.inject(id, fault));
}

#[test]
fn a_corrupt_context_is_found_by_its_checks_and_mended_by_an_answer_that_may_be_late() {
    for delay in [0, 500] {
        let (mut rig, records) = stream(Algorithm::Aes128Gcm, Version::Tls12);
        inject(&mut rig, Fault::LateAnswers(Duration::from_millis(delay)));
        let mut offloaded = Vec::new();
        let mut answered: Option<usize> = None;
        for n in 0..100 {
            if n == 10 {
                inject(&mut rig, Fault::CorruptContexts);
            }
            if answered.map(|at| at + 5) == Some(n) {
                rig.now += Duration::from_millis(delay);
                rig.flush();
            }
            send(&mut rig, &records, n * MSS);
            let (delivered, others) = rig.received();
            offloaded.push(check(&records, &delivered) > 0);
            for request in others {
                let RecvDescriptor::ResyncRequest { tcpsn, .. } = request else {
                    panic!("{request:?}");
                };
                answered.get_or_insert(n);
                let index = records.index_at(FIRST.distance_to(tcpsn) as usize);
                rig.answer(&request, index);
            }
            rig.host.refill();
        }
        let answered = answered.expect("the NIC asks");
        assert!(offloaded[9] && !offloaded[answered + 1] && offloaded[99]);
        let counters = rig.counters();
        assert!(counters.named("rx_tls_err") >= 1);
        assert_eq!(counters.named("rx_tls_resync_res_ok"), 1, "{delay} ms");
    }
}

#[test]
fn frames_and_contexts_fail_as_often_as_is_asked_for() {
    let (mut rig, records) = aes_stream();
    inject(&mut rig, Fault::DropFrames(2));
    for n in 0..5 {
        send(&mut rig, &records, n * MSS);
    }
    let delivered = rig.packets();
    check(&records, &delivered);
    let segments = delivered.iter().map(|d| d.packet.segments).sum::<u16>();
    assert_eq!((segments, rig.counters().rx_fault_dropped), (3, 2));
    inject(&mut rig, Fault::RefuseContexts(3));
    for n in 4..10 {
        offload(&mut rig, n, &flow(n as u16), FIRST, &aes());
    }
    assert_eq!(rig.flush().len(), 2, "completions");
    assert_eq!(rig.counters().contexts_fault_refused, 2);
}
