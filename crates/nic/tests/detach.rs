//! Functions that come and go while others stay.

use std::sync::Arc;
use std::time::Instant;

use l5p::Layers;
use l5p::tls::{Algorithm, CryptoInfo, Version};
use nic::ring::{
    ContextId, Direction, FunctionConfig, HostFunction, RecvDescriptor, Region, SendDescriptor,
    SendFlags, Slice, function,
};
use nic::{FrameMeta, FunctionId, Nic, NicConfig};
use wire::ethernet::MacAddr;
use wire::{FlowKey, SeqNum};

const MEMORY: u64 = 1 << 20;
const BUFFERS: u64 = 16;
const BUFFER: u32 = 2048;

/// A host that sends and receives frames which are no TCP.
struct Host {
    function: HostFunction,
    id: FunctionId,
    mac: MacAddr,
    region: Arc<Region>,
}

fn mac(number: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, number])
}

impl Host {
    fn attach(nic: &mut Nic, number: u8) -> Host {
        let (mut function, device) = function(FunctionConfig {
            contexts: 8,
            ..FunctionConfig::new(mac(number))
        });
        let id = nic.attach(device).expect("a free address");
        let region = Arc::new(Region::anonymous(MEMORY as usize));
        let memory = function.register(Arc::clone(&region)).expect("a free id");
        let queue = &mut function.queues[0];
        for n in 0..BUFFERS {
            assert!(queue.small.push(Slice {
                offset: n * u64::from(BUFFER),
                len: BUFFER,
                region: memory,
            }));
        }
        let _ = queue.publish();
        Host {
            function,
            id,
            mac: mac(number),
            region,
        }
    }

    fn post(&mut self, descriptor: &SendDescriptor<'_>) {
        let queue = &mut self.function.queues[0];
        queue.send.post(descriptor).expect("room");
        let _ = queue.publish();
    }

    fn send(&mut self, to: MacAddr, text: &[u8]) {
        let mut frame = [to.0, self.mac.0].concat();
        frame.extend_from_slice(&[0x88, 0xb5]);
        frame.extend_from_slice(text);
        self.post(&SendDescriptor::Send {
            header: &frame,
            mss: 0,
            context: None,
            flags: SendFlags::NONE,
            payload: &[],
        });
    }

    /// What came after the Ethernet headers.
    fn received(&mut self) -> Vec<Vec<u8>> {
        let mut texts = Vec::new();
        while let Some(descriptor) = self.function.queues[0].recv.pop() {
            if let RecvDescriptor::Packet(packet) = descriptor {
                let mut frame = vec![0; packet.buffer.len as usize];
                assert!(self.region.read(packet.buffer.offset, &mut frame));
                texts.push(frame.split_off(14));
            }
        }
        texts
    }

    fn create(&mut self, context: u32) {
        let crypto = CryptoInfo {
            version: Version::Tls13,
            algorithm: Algorithm::Aes128Gcm,
            key: [1; 32],
            iv: [2; 12],
            sequence: 0,
        };
        self.post(&SendDescriptor::CreateContext {
            context: ContextId(context),
            direction: Direction::Receive,
            flow: FlowKey {
                src: ([10, 0, 0, 1].into(), 443),
                dst: ([10, 0, 0, 2].into(), 1000),
            },
            tcpsn: SeqNum(1),
            layers: &Layers::of(&crypto),
        });
    }

    fn was_refused(&mut self) -> bool {
        let mut taken = std::iter::from_fn(|| self.function.queues[0].recv.pop());
        taken.any(|it| matches!(it, RecvDescriptor::Completion { .. }))
    }
}

/// Does all there is, and gives the frames for the wire.
fn run(nic: &mut Nic) -> Vec<Vec<u8>> {
    let (now, mut out) = (Instant::now(), vec![0; 1 << 16]);
    let mut frames = Vec::new();
    while let Some((len, _)) = nic.poll_transmit(now, &mut out) {
        frames.push(out[..len].to_vec());
    }
    nic.flush(now);
    frames
}

fn nic() -> Nic {
    Nic::new(NicConfig::new([7; 16]))
}

#[test]
fn frames_for_one_that_has_gone_go_to_the_wire_until_it_comes_again() {
    let mut nic = nic();
    let (mut a, mut b) = (Host::attach(&mut nic, 1), Host::attach(&mut nic, 2));
    a.send(b.mac, b"one");
    assert!(run(&mut nic).is_empty());
    assert_eq!(b.received(), [b"one"]);
    let sent = nic.counters().tx_packets;

    assert!(nic.detach(b.id));
    assert!(!nic.detach(b.id), "it has gone");
    assert_eq!(nic.functions().collect::<Vec<_>>(), [a.id]);
    assert!(nic.function_counters(b.id).is_none());
    a.send(b.mac, b"two");
    a.send(MacAddr::BROADCAST, b"three");
    assert_eq!(run(&mut nic).len(), 2);
    nic.handle_frame(Instant::now(), &[0xff; 60], FrameMeta::default());
    nic.flush(Instant::now());
    assert!(b.received().is_empty());
    assert_eq!(nic.counters().tx_packets, sent + 2, "none is forgotten");

    let mut again = Host::attach(&mut nic, 2);
    assert_eq!(again.id, b.id, "its place was free");
    a.send(again.mac, b"four");
    again.send(a.mac, b"five");
    assert!(run(&mut nic).is_empty());
    assert_eq!(again.received(), [b"four"]);
    assert_eq!(a.received().last().map(Vec::as_slice), Some(&b"five"[..]));
}

#[test]
fn what_it_had_posted_is_forgotten_in_the_middle_of_its_turn() {
    let mut nic = nic();
    let (mut a, mut b) = (Host::attach(&mut nic, 1), Host::attach(&mut nic, 2));
    for _ in 0..20 {
        a.send(mac(9), b"from a");
        b.send(mac(9), b"from b");
    }
    let mut out = vec![0; 1 << 16];
    for _ in 0..3 {
        assert!(nic.poll_transmit(Instant::now(), &mut out).is_some());
    }
    assert!(nic.detach(a.id));
    let frames = run(&mut nic);
    assert!(frames.iter().all(|frame| frame.ends_with(b"from b")));
    assert!(!frames.is_empty());
    assert!(nic.detach(b.id));
    assert!(run(&mut nic).is_empty());
    assert!(nic.prepare_sleep(), "there is nothing to do");
}

#[test]
fn its_contexts_are_gone_and_its_successor_has_room_for_its_own() {
    let mut nic = nic();
    for _ in 0..3 {
        let mut host = Host::attach(&mut nic, 1);
        for context in 0..8 {
            host.create(context);
            // Of one flow there can be one.
            run(&mut nic);
            assert_eq!(host.was_refused(), context > 0);
        }
        host.create(8);
        run(&mut nic);
        assert!(host.was_refused(), "beyond its quota");
        assert!(nic.detach(host.id));
    }
    assert_eq!(nic.functions().count(), 0);
}

/// The memory is not the device's any more once the function has gone.
#[test]
fn its_memory_is_let_go_of() {
    let mut nic = nic();
    let mut host = Host::attach(&mut nic, 1);
    nic.handle_frame(
        Instant::now(),
        &[&host.mac.0[..], &[0; 54]].concat(),
        FrameMeta::default(),
    );
    run(&mut nic);
    assert_eq!(host.received().len(), 1);
    let region = Arc::downgrade(&host.region);
    assert!(nic.detach(host.id));
    drop(host);
    assert_eq!(region.strong_count(), 0);
}
