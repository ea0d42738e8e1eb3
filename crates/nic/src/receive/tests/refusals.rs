//! What is wrong, too much, or for someone else.

use std::sync::Arc;

use l5p::tls::{Algorithm, Version};
use wire::SeqNum;

use super::rig::*;
use crate::ring::{
    FunctionConfig, RecvDescriptor, Region, RegionId, SendDescriptor, Slice, function,
};
use crate::{FrameMeta, FunctionId};

const FIRST: SeqNum = SeqNum(77);

#[test]
fn malformed_frames_are_dropped_and_counted_by_reason() {
    let mut rig = Rig::filled();
    let good = frame(&flow(1), &segment(&flow(1), FIRST), &[1; 50]);
    rig.frame(&good[..40], FrameMeta::default());
    let mut bad = good.clone();
    bad[14] = 0x55;
    rig.frame(&bad, FrameMeta::default());
    bad = good.clone();
    bad[14 + 20 + 12] = 0x10;
    rig.frame(&bad, VALID);
    bad = good.clone();
    bad[14 + 20 + 20 + 3] = 1;
    rig.frame(&bad, VALID);
    bad = good.clone();
    bad[60] ^= 1;
    rig.frame(&bad, FrameMeta::default());
    assert!(rig.flush().is_empty());
    let counters = rig.counters();
    assert_eq!(counters.rx_malformed, 4);
    let by_reason = counters.rx_malformed_truncated
        + counters.rx_malformed_length
        + counters.rx_malformed_option
        + counters.rx_malformed_value;
    assert_eq!(by_reason, 4);
    assert_eq!(counters.rx_malformed_option, 1);
    assert_eq!(counters.rx_csum_bad, 1);
}

#[test]
fn a_frame_without_a_destination_has_a_reason_too() {
    let mut rig = Rig::filled();
    rig.frame(&[2; 5], FrameMeta::default());
    let counters = rig.nic.counters();
    assert_eq!(counters.rx_malformed, 1);
    assert_eq!(counters.rx_malformed_truncated, 1);
}

#[test]
fn every_prefix_and_every_flipped_byte_of_a_frame_is_survived() {
    let mut rig = Rig::filled();
    let good = frame(&flow_v6(1), &segment(&flow_v6(1), FIRST), &[1; 50]);
    for len in 0..good.len() {
        rig.frame(&good[..len], VALID);
    }
    for at in 0..good.len() {
        for bit in [0x01, 0x80, 0xff] {
            let mut bad = good.clone();
            bad[at] ^= bit;
            rig.frame(&bad, VALID);
            rig.flush();
            rig.fill(1, 1);
        }
    }
}

#[test]
fn what_is_not_tcp_arrives_as_it_is() {
    let mut rig = Rig::filled();
    let mut arp = vec![0xff; 6];
    arp.extend_from_slice(&PEER.0);
    arp.extend_from_slice(&[8, 6]);
    arp.extend_from_slice(&[0x22; 46]);
    rig.frame(&arp, FrameMeta::default());
    let delivered = rig.packets();
    assert_eq!(delivered.len(), 1);
    assert_eq!(delivered[0].bytes, arp);
    assert_eq!(delivered[0].packet.header_len, 0);
}

#[test]
fn frames_padded_on_the_wire_arrive_without_the_padding() {
    let mut rig = Rig::filled();
    let bare = frame(&flow(1), &segment(&flow(1), FIRST), &[]);
    let mut padded = bare.clone();
    padded.resize(100, 0xaa);
    rig.frame(&padded, FrameMeta::default());
    assert_eq!(rig.packets()[0].bytes, bare);
}

#[test]
fn without_buffers_packets_are_dropped_and_the_context_does_not_see_them() {
    let keys = crypto(Algorithm::Aes128Gcm, Version::Tls13);
    let records = Records::new(&keys, &[vec![1; 4000]]);
    let mut rig = Rig::new(config());
    rig.offload(0, flow(1), FIRST, &keys);
    let send = |rig: &mut Rig, from: usize, to: usize| {
        let tcp = segment(&flow(1), FIRST + from as u32);
        rig.frame(&frame(&flow(1), &tcp, &records.wire[from..to]), VALID);
    };
    rig.fill(1, 0);
    send(&mut rig, 0, 1000);
    send(&mut rig, 1000, 2000);
    assert_eq!(rig.packets().len(), 1);
    assert_eq!(rig.counters().rx_out_of_buffer, 1);
    rig.fill(10, 2);
    send(&mut rig, 1000, 2000);
    send(&mut rig, 2000, records.wire.len());
    let delivered = rig.packets();
    assert!(delivered.iter().all(|packet| packet.packet.processed.by(0)));
    let bytes: Vec<u8> = delivered
        .iter()
        .flat_map(|d| d.payload().to_vec())
        .collect();
    assert_eq!(bytes, records.opened[1000..]);
}

#[test]
fn a_class_of_buffers_that_is_used_up_is_replaced_by_the_larger_one() {
    let mut rig = Rig::new(config());
    rig.fill(0, 3);
    for port in 0..4 {
        rig.frame(
            &frame(&flow(port), &segment(&flow(port), FIRST), &[1; 50]),
            VALID,
        );
    }
    assert_eq!(rig.packets().len(), 3);
    assert_eq!(rig.counters().rx_out_of_buffer, 1);
}

#[test]
fn buffers_outside_of_the_hosts_memory_are_refused() {
    let mut rig = Rig::new(config());
    let good = rig.buffer(0, 2048);
    let bad = [
        Slice {
            region: RegionId(9),
            ..good
        },
        Slice {
            offset: rig.region.len() as u64 - 10,
            ..good
        },
        Slice {
            offset: u64::MAX - 5,
            ..good
        },
        Slice { len: 10, ..good },
    ];
    for buffer in bad {
        assert!(rig.host.queues[0].small.push(buffer));
    }
    let _ = rig.host.queues[0].publish();
    rig.frame(&frame(&flow(1), &segment(&flow(1), FIRST), &[1; 50]), VALID);
    assert!(rig.packets().is_empty());
    assert_eq!(rig.counters().rx_bad_buffer, 4);
    assert!(rig.host.queues[0].small.push(good));
    let _ = rig.host.queues[0].publish();
    rig.frame(&frame(&flow(1), &segment(&flow(1), FIRST), &[1; 50]), VALID);
    assert_eq!(rig.packets().len(), 1);
}

#[test]
fn a_full_receive_ring_drops_frames_and_loses_nothing_that_was_taken() {
    let mut rig = Rig::new(FunctionConfig {
        receive_entries: 8,
        ..config()
    });
    rig.fill(100, 10);
    for port in 0..50 {
        rig.frame(
            &frame(&flow(port), &segment(&flow(port), FIRST), &[1; 50]),
            VALID,
        );
    }
    let delivered = rig.packets();
    let dropped = rig.counters().rx_ring_full;
    assert_eq!(delivered.len() as u64 + dropped, 50);
    assert!(delivered.len() >= 6, "{}", delivered.len());
    rig.frame(
        &frame(&flow(1), &segment(&flow(1), FIRST + 50), &[1; 50]),
        VALID,
    );
    assert_eq!(rig.packets().len(), 1);
}

#[test]
fn a_context_is_of_its_function_alone() {
    let keys = crypto(Algorithm::Aes128Gcm, Version::Tls13);
    let records = Records::new(&keys, &[vec![1; 500], vec![2; 500]]);
    let mut rig = Rig::filled();
    let other_mac = wire::ethernet::MacAddr([2, 0, 0, 0, 0, 7]);
    let (mut other, device) = function(FunctionConfig {
        mac: other_mac,
        ..config()
    });
    assert_eq!(rig.nic.attach(device).unwrap(), FunctionId(1));
    let region = other
        .register(Arc::new(Region::anonymous(1 << 20)))
        .unwrap();
    for n in 0..10 {
        let buffer = Slice {
            offset: n * 2048,
            len: 2048,
            region,
        };
        assert!(other.queues[0].small.push(buffer));
    }
    let _ = other.queues[0].publish();
    rig.offload(0, flow(1), FIRST, &keys);

    // The other function names the context, and gets frames of the same flow.
    other.queues[0]
        .send
        .post(&SendDescriptor::ResyncResponse {
            context: crate::ring::ContextId(0),
            tcpsn: FIRST,
            inner: None,
            confirmed: true,
            index: 1,
        })
        .unwrap();
    let _ = other.queues[0].publish();
    assert!(rig.nic.poll_transmit(rig.now, &mut [0; 2048]).is_none());
    let mut bytes = frame(&flow(1), &segment(&flow(1), FIRST), &records.wire);
    bytes[..6].copy_from_slice(&other_mac.0);
    rig.frame(&bytes, VALID);
    bytes[..6].copy_from_slice(&MAC.0);
    rig.frame(&bytes, VALID);

    let delivered = rig.packets();
    assert!(delivered[0].packet.processed.by(0));
    let mut error = false;
    let mut raw = false;
    while let Some(descriptor) = other.queues[0].recv.pop() {
        match descriptor {
            RecvDescriptor::Completion { .. } => error = true,
            RecvDescriptor::Packet(packet) => {
                raw = !packet.processed.by(0) && packet.context.is_none()
            }
            other => panic!("not its own: {other:?}"),
        }
    }
    assert!(error && raw);
}

#[test]
fn flows_spread_over_the_queues_and_stay_on_theirs() {
    let mut rig = Rig::new(FunctionConfig {
        queues: 4,
        ..config()
    });
    rig.fill(100, 4);
    let mut queues = vec![Vec::new(); 64];
    for round in 0..2u32 {
        for port in 0..64 {
            let tcp = segment(&flow(port), FIRST + 50 * round);
            rig.frame(&frame(&flow(port), &tcp, &[1; 50]), VALID);
        }
        rig.nic.flush(rig.now);
        for queue in 0..4 {
            while let Some(descriptor) = rig.host.queues[queue].recv.pop() {
                let delivered = rig.read(descriptor).unwrap();
                queues[usize::from(delivered.parsed().flow.src.1)].push(queue);
            }
        }
    }
    let mut used = [0; 4];
    for flow in queues {
        assert!(flow.iter().all(|queue| *queue == flow[0]), "{flow:?}");
        used[flow[0]] += 1;
    }
    assert!(used.iter().all(|flows| *flows > 4), "{used:?}");
}
