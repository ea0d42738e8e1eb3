use std::sync::Arc;
use std::time::Instant;

use wire::ethernet::MacAddr;
use wire::{SeqNum, packet};

use super::rig::*;
use crate::ring::{
    FunctionConfig, HostFunction, Region, SendDescriptor, SendFlags, Slice, function,
};
use crate::{Nic, NicConfig};

fn attach(nic: &mut Nic, mac: MacAddr, queues: u16) -> (HostFunction, Slice) {
    let (host, device) = function(FunctionConfig {
        queues,
        send_entries: 64,
        receive_entries: 64,
        contexts: 1,
        ..FunctionConfig::new(mac)
    });
    nic.attach(device).unwrap();
    let region = host.register(Arc::new(Region::anonymous(1 << 17))).unwrap();
    let all = Slice {
        region,
        offset: 0,
        len: 1 << 17,
    };
    (host, all)
}

fn header(mac: MacAddr, to: MacAddr, port: u16) -> Vec<u8> {
    let mut flow = flow(false);
    flow.src.1 = port;
    let tcp = wire::tcp::Header {
        src_port: port,
        dst_port: flow.dst.1,
        seq: SeqNum(0),
        ack: SeqNum(0),
        flags: wire::tcp::Flags::ACK,
        window: 0,
        options: wire::tcp::Options::default(),
    };
    let mut header = vec![0; 128];
    let len = packet::emit_tcp_headers(&mut header, mac, to, &flow, &tcp, 0, 64);
    header.truncate(len);
    header
}

fn post(host: &mut HostFunction, queue: usize, header: &[u8], payload: &[Slice]) {
    host.queues[queue]
        .send
        .post(&SendDescriptor::Send {
            header,
            mss: 1448,
            context: None,
            flags: SendFlags::CHECKSUM,
            payload,
        })
        .unwrap();
    let _ = host.queues[queue].publish();
}

/// A function with many queues gets no more than one with a single queue, and no queue starves.
#[test]
fn functions_share_alike_and_so_do_their_queues() {
    let mut nic = Nic::new(NicConfig::new([0; 16]));
    let macs = [MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])];
    let (mut one, all_of_one) = attach(&mut nic, macs[0], 1);
    let (mut four, all_of_four) = attach(&mut nic, macs[1], 4);
    let peer = MacAddr([2, 0, 0, 0, 0, 3]);
    for _ in 0..16 {
        post(&mut one, 0, &header(macs[0], peer, 1), &[all_of_one]);
        for queue in 0..4 {
            post(
                &mut four,
                queue,
                &header(macs[1], peer, 10 + queue as u16),
                &[all_of_four],
            );
        }
    }
    let now = Instant::now();
    let mut out = [0; 1514];
    let mut bytes = [0usize; 20];
    let mut sent = 0;
    while sent < 4 << 20 {
        let (len, _) = nic.poll_transmit(now, &mut out).unwrap();
        let port = packet::parse(&out[..len]).unwrap().flow.src.1;
        bytes[usize::from(port)] += len;
        sent += len;
    }
    let of_four: usize = bytes[10..14].iter().sum();
    let share = bytes[1] as f64 / sent as f64;
    assert!(
        (0.4..0.6).contains(&share),
        "function with one queue has {share}"
    );
    for queue in &bytes[10..14] {
        let share = *queue as f64 / of_four as f64;
        assert!((0.15..0.35).contains(&share), "queue has {share}");
    }
}

#[test]
fn frames_for_another_function_do_not_reach_the_wire() {
    let mut nic = Nic::new(NicConfig::new([0; 16]));
    let macs = [MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])];
    let (mut a, slice) = attach(&mut nic, macs[0], 1);
    let (_b, _) = attach(&mut nic, macs[1], 1);
    let part = Slice { len: 3000, ..slice };
    post(&mut a, 0, &header(macs[0], macs[1], 1), &[part]);
    let mut out = [0; 1514];
    assert!(nic.poll_transmit(Instant::now(), &mut out).is_none());
    assert_eq!(nic.counters().tx_loopback_packets, 3);
    post(&mut a, 0, &header(macs[0], MacAddr::BROADCAST, 1), &[]);
    assert!(nic.poll_transmit(Instant::now(), &mut out).is_some());
}

#[test]
fn a_sleeping_side_is_woken() {
    let mut nic = Nic::new(NicConfig::new([0; 16]));
    let mac = MacAddr([2, 0, 0, 0, 0, 1]);
    let (mut host, slice) = attach(&mut nic, mac, 1);
    let part = Slice { len: 30, ..slice };
    let queue = &mut host.queues[0];
    let header = header(mac, PEER, 1);
    let send = SendDescriptor::Send {
        header: &header,
        mss: 0,
        context: None,
        flags: SendFlags::NONE,
        payload: &[part],
    };
    queue.send.post(&send).unwrap();
    assert!(!queue.publish(), "the device is awake");
    assert!(!nic.prepare_sleep(), "there is work");
    let mut out = [0; 1514];
    while nic.poll_transmit(Instant::now(), &mut out).is_some() {}
    assert!(nic.prepare_sleep());
    queue.send.post(&send).unwrap();
    assert!(queue.publish());
    nic.cancel_sleep();
    assert!(nic.poll_transmit(Instant::now(), &mut out).is_some());

    // And the host by a completion.
    assert!(queue.prepare_sleep());
    queue
        .send
        .post(&SendDescriptor::DestroyContext {
            context: crate::ring::ContextId(0),
        })
        .unwrap();
    let _ = queue.publish();
    assert!(nic.poll_transmit(Instant::now(), &mut out).is_none());
    nic.flush(Instant::now());
    let mut woken = Vec::new();
    nic.take_wakeups(|function, queue| woken.push((function.0, queue)));
    assert_eq!(woken, [(0, 0)]);
    assert!(queue.recv.pop().is_some());
}
