//! Decryption, as the host sees it.

use super::rig::*;
use crate::FrameMeta;
use crate::context::Contexts;
use crate::ring::{ContextId, RecvDescriptor, SendDescriptor};
use l5p::tls::{Algorithm, Version};
use wire::SeqNum;
use wire::tcp::Flags;

const MSS: usize = 1448;
const FIRST: SeqNum = SeqNum(u32::MAX - 9_000);

fn stream(algorithm: Algorithm, version: Version) -> (Rig, Records) {
    let keys = crypto(algorithm, version);
    let contents: Vec<Vec<u8>> = (0..40u8)
        .map(|n| vec![n; 5_000 + usize::from(n) * 37])
        .collect();
    let records = Records::new(&keys, &contents);
    let mut rig = Rig::filled();
    rig.offload(3, flow(1), FIRST, &keys);
    (rig, records)
}

fn send(rig: &mut Rig, records: &Records, from: usize) {
    let to = (from + MSS).min(records.wire.len());
    let tcp = segment(&flow(1), FIRST + from as u32);
    rig.frame(
        &frame(&flow(1), &tcp, &records.wire[from..to]),
        FrameMeta::default(),
    );
}

/// Checks that each packet is what its flag says; gives the payload bytes that were offloaded.
fn check(records: &Records, delivered: &[Delivered]) -> usize {
    let mut offloaded = 0;
    for packet in delivered {
        let from = FIRST.distance_to(packet.parsed().tcp.seq) as usize;
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
    for version in [Version::Tls12, Version::Tls13] {
        for algorithm in [
            Algorithm::Aes128Gcm,
            Algorithm::Aes256Gcm,
            Algorithm::ChaCha20Poly1305,
        ] {
            let (mut rig, records) = stream(algorithm, version);
            let mut offloaded = 0;
            let mut packets = 0;
            let mut segments = 0;
            for (n, from) in (0..records.wire.len()).step_by(MSS).enumerate() {
                send(&mut rig, &records, from);
                if n % 16 == 15 || from + MSS >= records.wire.len() {
                    let delivered = rig.packets();
                    offloaded += check(&records, &delivered);
                    packets += delivered.len();
                    segments += delivered
                        .iter()
                        .map(|d| usize::from(d.packet.segments))
                        .sum::<usize>();
                    rig.fill(delivered.len(), delivered.len());
                }
            }
            assert_eq!(offloaded, records.wire.len(), "{version:?} {algorithm:?}");
            assert_eq!(segments, records.wire.len().div_ceil(MSS));
            assert!(packets <= segments.div_ceil(16), "{packets} of {segments}");
            let counters = rig.counters();
            assert_eq!(counters.named("rx_tls_decrypted_packets"), segments as u64);
            assert_eq!(
                counters.named("rx_tls_decrypted_bytes"),
                records.wire.len() as u64
            );
            assert_eq!(counters.context_hits, segments as u64);
        }
    }
}

#[test]
fn a_packet_with_a_wrong_check_value_arrives_as_it_was_on_the_wire() {
    let (mut rig, mut records) = stream(Algorithm::Aes128Gcm, Version::Tls13);
    let end = records.starts[1];
    records.wire[end - 1] ^= 1;
    records.opened[end - 1] ^= 1;
    for from in (0..10 * MSS).step_by(MSS) {
        send(&mut rig, &records, from);
    }
    let delivered = rig.packets();
    check(&records, &delivered);
    let bad = delivered.iter().find(|packet| {
        let from = FIRST.distance_to(packet.parsed().tcp.seq) as usize;
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
    let (mut rig, records) = stream(Algorithm::Aes128Gcm, Version::Tls13);
    let lost = records.starts[1] / MSS;
    let mut asked = None;
    let mut resumed = false;
    for n in (0..80).filter(|n| *n != lost) {
        send(&mut rig, &records, n * MSS);
        let found = rig.flush();
        let delivered: Vec<_> = found.iter().filter_map(|d| rig.read(*d)).collect();
        check(&records, &delivered);
        resumed |= asked.is_some() && delivered.iter().any(|d| d.packet.processed.by(0));
        for descriptor in found {
            if let RecvDescriptor::ResyncRequest { context, tcpsn, .. } = descriptor {
                assert_eq!(context, ContextId(3));
                let at = FIRST.distance_to(tcpsn) as usize;
                let index = records.index_at(at).expect("a record begins there") + 5;
                asked = Some(tcpsn);
                rig.command(&SendDescriptor::ResyncResponse {
                    context,
                    tcpsn,
                    inner: None,
                    confirmed: true,
                    index,
                });
            }
        }
        rig.fill(1, 1);
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
    let (mut rig, records) = stream(Algorithm::Aes128Gcm, Version::Tls13);
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
    let keys = crypto(Algorithm::Aes128Gcm, Version::Tls13);
    rig.offload(3, flow(1), FIRST, &keys);
    assert_eq!(rig.counters().named("rx_tls_ctx"), 2);
    assert_eq!(rig.counters().tx_errors, 0);
}

#[test]
fn a_flow_has_one_context_and_a_context_one_flow() {
    let (mut rig, _) = stream(Algorithm::Aes128Gcm, Version::Tls13);
    let keys = crypto(Algorithm::Aes128Gcm, Version::Tls13);
    rig.offload(3, flow(2), FIRST, &keys);
    rig.offload(4, flow(1), FIRST, &keys);
    rig.offload(16, flow(5), FIRST, &keys);
    let errors = rig.flush();
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert!(
        errors
            .iter()
            .all(|d| matches!(d, RecvDescriptor::Completion { .. }))
    );
    rig.offload(4, flow(2), FIRST, &keys);
    assert!(rig.flush().is_empty());
}

#[test]
fn segments_without_stream_data_do_not_touch_the_context() {
    let (mut rig, records) = stream(Algorithm::Aes128Gcm, Version::Tls13);
    let mut tcp = segment(&flow(1), FIRST);
    rig.frame(&frame(&flow(1), &tcp, &[]), FrameMeta::default());
    tcp.flags = Flags::RST;
    rig.frame(&frame(&flow(1), &tcp, b"why"), FrameMeta::default());
    send(&mut rig, &records, 0);
    let delivered = rig.packets();
    assert_eq!(delivered.len(), 3);
    assert!(delivered[2].packet.processed.by(0));
    assert_eq!(rig.counters().context_hits, 1);
}

/// "A context ≤ 1 KiB of real memory, cipher state included": the heap part, at most 864 bytes, is tested with the engine.
#[test]
fn a_context_is_small_beside_its_cipher_state() {
    const { assert!(Contexts::SLOT_BYTES <= 160) };
}
