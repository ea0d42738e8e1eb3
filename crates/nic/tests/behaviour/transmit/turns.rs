//! Whose turn it is, and who sleeps.

use std::time::Instant;

use l5p::pattern::Parameters as Pattern;
use l5p::{Listed, MAX_RESOURCE, ResourceId};
use nic::Nic;
use nic::ring::{
    ContextId, ErrorCode, FunctionConfig, RecvDescriptor, RegionId, SendDescriptor, SendFlags,
    Slice,
};
use testkit::bare::{BareHost, MEMORY, function_config, nic_config};
use testkit::fixtures::{HOST, PEER, flow};
use testkit::frames::{ack, headers};
use wire::ethernet::MacAddr;
use wire::{SeqNum, packet};

fn attach(nic: &mut Nic, mac: MacAddr, queues: u16) -> BareHost {
    let config = FunctionConfig {
        mac,
        queues,
        send_entries: 64,
        ..function_config()
    };
    BareHost::attach(nic, config)
}

fn header(mac: MacAddr, to: MacAddr, port: u16) -> Vec<u8> {
    let mut flow = flow(50_000);
    flow.src.1 = port;
    headers(mac, to, &flow, &ack(&flow, SeqNum(0)))
}

fn post(host: &mut BareHost, queue: usize, header: &[u8], payload: &[Slice]) {
    let send = SendDescriptor::Send {
        header,
        mss: 1448,
        context: None,
        flags: SendFlags::CHECKSUM,
        payload,
    };
    host.queues[queue].send.post(&send).unwrap();
    host.publish();
}

/// A function with many queues gets no more than one with a single queue, and no queue starves.
#[test]
fn functions_share_alike_and_so_do_their_queues() {
    let mut nic = Nic::new(nic_config());
    let other = MacAddr([2, 0, 0, 0, 0, 4]);
    let mut one = attach(&mut nic, HOST, 1);
    let mut four = attach(&mut nic, other, 4);
    let of_one = [one.memory.slice(0, MEMORY as u32 / 2)];
    let of_four = [four.memory.slice(0, MEMORY as u32 / 2)];
    for _ in 0..16 {
        post(&mut one, 0, &header(HOST, PEER, 1), &of_one);
        for queue in 0..4 {
            let header = header(other, PEER, 10 + queue as u16);
            post(&mut four, queue, &header, &of_four);
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

/// A command costs its function what it reads: while one function loads eight times 64 KiB, another one sends as much.
#[test]
fn what_commands_read_counts_as_much_as_frames() {
    let mut nic = Nic::new(nic_config());
    let other = MacAddr([2, 0, 0, 0, 0, 4]);
    let mut loads = attach(&mut nic, HOST, 1);
    let mut sends = attach(&mut nic, other, 1);
    for resource in 0..8 {
        let load = SendDescriptor::LoadResource {
            resource: ResourceId(resource),
            protocol: Pattern::ID,
            bytes: loads.memory.slice(0, MAX_RESOURCE),
        };
        loads.queues[0].send.post(&load).unwrap();
    }
    loads.publish();
    let payload = [sends.memory.slice(0, MAX_RESOURCE)];
    for _ in 0..16 {
        post(&mut sends, 0, &header(other, PEER, 1), &payload);
    }
    let now = Instant::now();
    let mut out = [0; 1514];
    let mut sent = 0;
    while sent < 4 * MAX_RESOURCE as usize {
        sent += nic.poll_transmit(now, &mut out).unwrap().0;
    }
    let loaded = loads.queues[0].send.completed();
    assert!((2..=6).contains(&loaded), "{loaded} resources");
}

/// Whatever memory it names: that is not looked at.
#[test]
fn a_resource_with_a_number_in_use_is_refused() {
    let mut nic = Nic::new(nic_config());
    let mut host = attach(&mut nic, HOST, 1);
    let load = |slice: Slice| SendDescriptor::LoadResource {
        resource: ResourceId(1),
        protocol: Pattern::ID,
        bytes: slice,
    };
    let bytes = host.memory.slice(0, 16);
    let nowhere = Slice {
        region: RegionId(77),
        ..bytes
    };
    host.queues[0].send.post(&load(bytes)).unwrap();
    host.queues[0].send.post(&load(nowhere)).unwrap();
    host.publish();
    let mut out = [0; 1514];
    assert!(nic.poll_transmit(Instant::now(), &mut out).is_none());
    nic.flush(Instant::now());
    let mut errors = Vec::new();
    while let Some(reported) = host.queues[0].recv.pop() {
        if let RecvDescriptor::Completion { error, .. } = reported {
            errors.push(error);
        }
    }
    assert_eq!(errors, [ErrorCode::ResourceExists]);
}

#[test]
fn frames_for_another_function_do_not_reach_the_wire() {
    let mut nic = Nic::new(nic_config());
    let other = MacAddr([2, 0, 0, 0, 0, 4]);
    let mut a = attach(&mut nic, HOST, 1);
    let _b = attach(&mut nic, other, 1);
    let part = a.memory.slice(0, 3000);
    post(&mut a, 0, &header(HOST, other, 1), &[part]);
    let mut out = [0; 1514];
    assert!(nic.poll_transmit(Instant::now(), &mut out).is_none());
    assert_eq!(nic.counters().tx_loopback_packets, 3);
    post(&mut a, 0, &header(HOST, MacAddr::BROADCAST, 1), &[]);
    assert!(nic.poll_transmit(Instant::now(), &mut out).is_some());
}

#[test]
fn a_sleeping_side_is_woken() {
    let mut nic = Nic::new(nic_config());
    let mut host = attach(&mut nic, HOST, 1);
    let part = host.memory.slice(0, 30);
    let queue = &mut host.queues[0];
    let header = header(HOST, PEER, 1);
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
            context: ContextId(0),
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
