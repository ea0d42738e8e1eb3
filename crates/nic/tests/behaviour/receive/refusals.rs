//! What is wrong, too much, or for someone else.

use nic::ring::{
    ContextId, FunctionConfig, RecvDescriptor, RegionId, ResyncResponse, SendDescriptor, Slice,
};
use nic::{FrameMeta, FunctionId};
use testkit::bare::{BareHost, Memory, Rig, VALID, function_config};
use testkit::fixtures::{self, HOST, PEER};
use testkit::records::Records;
use wire::SeqNum;
use wire::ethernet::MacAddr;

use super::*;

const FIRST: SeqNum = SeqNum(77);

/// A segment of 50 bytes.
fn fifty(flow: &FlowKey, seq: SeqNum) -> Vec<u8> {
    from_peer(flow, &segment(flow, seq), &[1; 50])
}

#[test]
fn malformed_frames_are_dropped_and_counted_by_reason() {
    let mut rig = filled();
    let good = fifty(&flow(1), FIRST);
    rig.receive_unchecked(&good[..40]);
    let mut bad = good.clone();
    bad[14] = 0x55;
    rig.receive_unchecked(&bad);
    bad = good.clone();
    bad[14 + 20 + 12] = 0x10;
    rig.receive(&bad);
    bad = good.clone();
    bad[14 + 20 + 20 + 3] = 1;
    rig.receive(&bad);
    bad = good.clone();
    bad[60] ^= 1;
    rig.receive_unchecked(&bad);
    assert!(rig.flush().is_empty());
    let counters = rig.counters();
    assert_eq!(counters.rx_malformed, 4);
    let by_reason = [
        counters.rx_malformed_truncated,
        counters.rx_malformed_length,
        counters.rx_malformed_option,
        counters.rx_malformed_value,
    ];
    assert_eq!(by_reason, [1; 4]);
    assert_eq!(counters.rx_csum_bad, 1);
}

/// RFC 1122 §3.2.1.2. What the port knows is TCP's checksum.
#[test]
fn an_ip_header_with_a_wrong_checksum_is_dropped_whoever_vouches_for_tcps() {
    let mut rig = filled();
    let good = fifty(&flow(1), FIRST);
    let mut bad = good.clone();
    bad[24] ^= 1;
    let to_be_made = FrameMeta {
        needs_checksum: Some((34, 16)),
        ..FrameMeta::default()
    };
    for meta in [FrameMeta::default(), VALID, to_be_made] {
        rig.nic.handle_frame(rig.now, &bad, meta);
    }
    assert!(rig.flush().is_empty());
    assert_eq!(rig.counters().rx_csum_bad, 3);
    rig.receive(&good);
    assert_eq!(rig.packets().len(), 1);
    assert_eq!(rig.counters().rx_csum_ok, 1);
}

/// Frames count as they came, whether or not they were fit for anything.
#[test]
fn all_frames_and_their_bytes_are_counted() {
    let mut rig = filled();
    let good = fifty(&flow(1), FIRST);
    let mut bad = good.clone();
    bad[60] ^= 1;
    for frame in [&good, &good, &bad] {
        rig.receive_unchecked(frame);
    }
    let counters = rig.counters();
    assert_eq!(counters.rx_packets, 3);
    assert_eq!(counters.rx_bytes, 3 * good.len() as u64);
}

#[test]
fn a_frame_without_a_destination_has_a_reason_too() {
    let mut rig = filled();
    rig.receive_unchecked(&[2; 5]);
    let counters = rig.nic.counters();
    assert_eq!(counters.rx_malformed, 1);
    assert_eq!(counters.rx_malformed_truncated, 1);
}

#[test]
fn every_prefix_and_every_flipped_byte_of_a_frame_is_survived() {
    let mut rig = filled();
    let good = fifty(&fixtures::flow_v6(1).reversed(), FIRST);
    for len in 0..good.len() {
        rig.receive(&good[..len]);
    }
    for at in 0..good.len() {
        for bit in [0x01, 0x80, 0xff] {
            let mut bad = good.clone();
            bad[at] ^= bit;
            rig.receive(&bad);
            rig.flush();
            rig.host.fill(1, 1);
        }
    }
}

#[test]
fn what_is_not_tcp_arrives_as_it_is() {
    let mut rig = filled();
    let mut arp = vec![0xff; 6];
    arp.extend_from_slice(&PEER.0);
    arp.extend_from_slice(&[8, 6]);
    arp.extend_from_slice(&[0x22; 46]);
    rig.receive_unchecked(&arp);
    let delivered = rig.packets();
    assert_eq!(delivered.len(), 1);
    assert_eq!(delivered[0].bytes, arp);
    assert_eq!(delivered[0].packet.header_len, 0);
}

#[test]
fn frames_padded_on_the_wire_arrive_without_the_padding() {
    let mut rig = filled();
    let bare = from_peer(&flow(1), &segment(&flow(1), FIRST), &[]);
    let mut padded = bare.clone();
    padded.resize(100, 0xaa);
    rig.receive_unchecked(&padded);
    assert_eq!(rig.packets()[0].bytes, bare);
}

#[test]
fn without_buffers_packets_are_dropped_and_the_context_does_not_see_them() {
    let records = Records::of(&aes(), [vec![1; 4000]]);
    let mut rig = Rig::default();
    offload(&mut rig, 0, &flow(1), FIRST, &aes());
    let send = |rig: &mut Rig, from: usize, to: usize| {
        let tcp = segment(&flow(1), FIRST + from as u32);
        rig.receive(&from_peer(&flow(1), &tcp, &records.wire[from..to]));
    };
    rig.host.fill(1, 0);
    send(&mut rig, 0, 1000);
    send(&mut rig, 1000, 2000);
    assert_eq!(rig.packets().len(), 1);
    assert_eq!(rig.counters().rx_out_of_buffer, 1);
    rig.host.fill(10, 2);
    send(&mut rig, 1000, 2000);
    send(&mut rig, 2000, records.wire.len());
    let delivered = rig.packets();
    assert!(delivered.iter().all(|packet| packet.packet.processed.by(0)));
    assert_eq!(payloads(&delivered), records.opened[1000..]);
}

#[test]
fn a_class_of_buffers_that_is_used_up_is_replaced_by_the_larger_one() {
    let mut rig = Rig::default();
    rig.host.fill(0, 3);
    for port in 0..4 {
        rig.receive(&fifty(&flow(port), FIRST));
    }
    assert_eq!(rig.packets().len(), 3);
    assert_eq!(rig.counters().rx_out_of_buffer, 1);
}

#[test]
fn buffers_outside_of_the_hosts_memory_are_refused() {
    let mut rig = Rig::default();
    let buffers = rig.host.buffers();
    let good = buffers.slice(0, 2048);
    let bad = [
        Slice {
            region: RegionId(9),
            ..good
        },
        buffers.slice(buffers.region.len() as u64 - 10, 2048),
        buffers.slice(u64::MAX - 5, 2048),
        Slice { len: 10, ..good },
    ];
    for buffer in bad {
        assert!(rig.host.queues[0].small.push(buffer));
    }
    rig.host.publish();
    rig.receive(&fifty(&flow(1), FIRST));
    assert!(rig.packets().is_empty());
    assert_eq!(rig.counters().rx_bad_buffer, 4);
    assert!(rig.host.queues[0].small.push(good));
    rig.host.publish();
    rig.receive(&fifty(&flow(1), FIRST));
    assert_eq!(rig.packets().len(), 1);
}

#[test]
fn a_packet_longer_than_a_large_buffer_costs_the_host_no_buffer() {
    let config = FunctionConfig {
        large_bytes: 8192,
        ..function_config()
    };
    let mut rig = Rig::new(nic_config(), config);
    rig.host.fill(0, 2);
    let long = [1; 8192];
    for _ in 0..5 {
        rig.receive(&from_peer(&flow(1), &segment(&flow(1), FIRST), &long));
    }
    assert!(rig.packets().is_empty());
    assert_eq!(rig.counters().rx_out_of_buffer, 5);
    assert_eq!(rig.counters().rx_bad_buffer, 0);
    for port in 2..4 {
        let tcp = segment(&flow(port), FIRST);
        rig.receive(&from_peer(&flow(port), &tcp, &long[..7000]));
    }
    assert_eq!(rig.packets().len(), 2);
}

#[test]
fn a_full_receive_ring_drops_frames_and_loses_nothing_that_was_taken() {
    let mut rig = Rig::new(
        nic_config(),
        FunctionConfig {
            receive_entries: 8,
            ..function_config()
        },
    );
    rig.host.fill(100, 10);
    for port in 0..50 {
        rig.receive(&fifty(&flow(port), FIRST));
    }
    let delivered = rig.packets();
    let dropped = rig.counters().rx_ring_full;
    assert_eq!(delivered.len() as u64 + dropped, 50);
    assert!(delivered.len() >= 6, "{}", delivered.len());
    rig.receive(&fifty(&flow(1), FIRST + 50));
    assert_eq!(rig.packets().len(), 1);
}

#[test]
fn a_context_is_of_its_function_alone() {
    let records = Records::of(&aes(), [vec![1; 500], vec![2; 500]]);
    let mut rig = filled();
    let other_mac = MacAddr([2, 0, 0, 0, 0, 7]);
    let mut other = BareHost::attach(
        &mut rig.nic,
        FunctionConfig {
            mac: other_mac,
            ..function_config()
        },
    );
    assert_eq!(other.id, FunctionId(1));
    other.fill(10, 0);
    offload(&mut rig, 0, &flow(1), FIRST, &aes());

    // The other function names the context, and gets frames of the same flow.
    other.post(&SendDescriptor::ResyncResponse(ResyncResponse {
        context: ContextId(0),
        tcpsn: FIRST,
        inner: None,
        confirmed: true,
        index: 1,
    }));
    other.publish();
    rig.work();
    let mut bytes = from_peer(&flow(1), &segment(&flow(1), FIRST), &records.wire);
    bytes[..6].copy_from_slice(&other_mac.0);
    rig.receive(&bytes);
    bytes[..6].copy_from_slice(&HOST.0);
    rig.receive(&bytes);

    let delivered = rig.packets();
    assert!(delivered[0].packet.processed.by(0));
    let mut error = false;
    let mut raw = false;
    for descriptor in other.take() {
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
    let mut rig = Rig::new(
        nic_config(),
        FunctionConfig {
            queues: 4,
            ..function_config()
        },
    );
    rig.host.fill(100, 4);
    let mut queues = vec![Vec::new(); 64];
    for round in 0..2u32 {
        for port in 0..64 {
            let tcp = segment(&flow(port), FIRST + 50 * round);
            rig.receive(&from_peer(&flow(port), &tcp, &[1; 50]));
        }
        rig.nic.flush(rig.now);
        for queue in 0..4 {
            while let Some(descriptor) = rig.host.pop(queue) {
                let delivered = rig.host.read(descriptor).unwrap();
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

/// The first buffer's memory is taken away while a packet in it grows.
#[test]
fn a_good_buffer_is_not_lost_with_a_bad_one() {
    let mut rig = Rig::default();
    let small = Memory::register(&rig.host, 4096);
    let large = Memory::register(&rig.host, 1 << 17);
    let queue = &mut rig.host.queues[0];
    assert!(queue.small.push(small.slice(0, 2048)));
    assert!(queue.large.push(large.slice(0, 67_584)));
    rig.host.publish();
    let mut seq = FIRST;
    let mut next = |rig: &mut Rig| {
        arrive(rig, &flow(1), &segment(&flow(1), seq), &[1; 1448]);
        seq += 1448;
    };
    next(&mut rig);
    rig.host.regions.unregister(small.id);
    next(&mut rig);
    let regions: Vec<_> = buffers_of(&mut rig).iter().map(|it| it.region).collect();
    assert_eq!(regions, [small.id, large.id]);
    assert_eq!(rig.counters().rx_out_of_buffer, 0);
}

/// The same while a packet moves to a buffer of its own, whose result is another one than that of those before it.
#[test]
fn a_good_buffer_is_not_lost_when_a_packet_cannot_move_to_it() {
    let mut rig = Rig::default();
    let mut records = Records::of(&aes(), [vec![1; 300], vec![2; 300]]);
    let (end, middle) = (records.wire.len(), records.starts[1]);
    records.wire[end - 1] ^= 1;
    offload(&mut rig, 0, &flow(1), FIRST, &aes());
    let small = Memory::register(&rig.host, 4096);
    let large = Memory::register(&rig.host, 1 << 17);
    let queue = &mut rig.host.queues[0];
    assert!(queue.small.push(small.slice(0, 2048)));
    assert!(queue.large.push(large.slice(0, 67_584)));
    rig.host.publish();
    let bring = |rig: &mut Rig, from: usize, to: usize| {
        let tcp = segment(&flow(1), FIRST + from as u32);
        arrive(rig, &flow(1), &tcp, &records.wire[from..to]);
    };
    bring(&mut rig, 0, middle);
    rig.host.regions.unregister(small.id);
    bring(&mut rig, middle, end);
    assert_eq!(buffers_of(&mut rig).len(), 1);
    assert_eq!(rig.counters().rx_bad_buffer, 1);
    rig.receive(&fifty(&flow(2), FIRST));
    assert_eq!(buffers_of(&mut rig)[0].region, large.id);
}

/// The buffers of the packets that have come.
fn buffers_of(rig: &mut Rig) -> Vec<Slice> {
    let received = rig.flush().into_iter();
    let packets = received.filter_map(|descriptor| match descriptor {
        RecvDescriptor::Packet(packet) => Some(packet.buffer),
        _ => None,
    });
    packets.collect()
}
