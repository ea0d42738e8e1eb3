//! Functions that come and go while others stay.

use std::sync::Arc;
use std::time::Instant;

use l5p::Layers;
use nic::ring::{
    ContextId, CreateContext, Direction, FunctionConfig, RecvDescriptor, SendDescriptor, SendFlags,
};
use nic::{FrameMeta, Nic};
use testkit::bare::{BareHost, drain, nic_config};
use testkit::fixtures::{aes_128_gcm, flow};
use wire::SeqNum;
use wire::ethernet::MacAddr;

/// A host that sends and receives frames which are no TCP.
struct Host(BareHost);

fn mac(number: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, number])
}

impl Host {
    fn attach(nic: &mut Nic, number: u8) -> Host {
        let config = FunctionConfig {
            contexts: 8,
            ..FunctionConfig::new(mac(number))
        };
        let mut host = BareHost::attach(nic, config);
        host.fill(16, 0);
        Host(host)
    }

    fn mac(&self) -> MacAddr {
        self.0.config.mac
    }

    fn post(&mut self, descriptor: &SendDescriptor<'_>) {
        self.0.post(descriptor);
        self.0.publish();
    }

    fn send(&mut self, to: MacAddr, text: &[u8]) {
        let header = [&to.0[..], &self.mac().0, &[0x88, 0xb5], text].concat();
        self.post(&SendDescriptor::Send {
            header: &header,
            mss: 0,
            context: None,
            flags: SendFlags::NONE,
            payload: &[],
        });
    }

    /// What came after the Ethernet headers.
    fn received(&mut self) -> Vec<Vec<u8>> {
        let taken = self.0.take().into_iter();
        let packets = taken.filter_map(|descriptor| self.0.read(descriptor));
        packets
            .map(|mut packet| packet.bytes.split_off(14))
            .collect()
    }

    fn create(&mut self, context: u32) {
        self.post(&SendDescriptor::CreateContext(&CreateContext {
            context: ContextId(context),
            direction: Direction::Receive,
            flow: flow(1000),
            tcpsn: SeqNum(1),
            layers: Layers::of(&aes_128_gcm()),
        }));
    }

    fn was_refused(&mut self) -> bool {
        let taken = self.0.take();
        taken
            .iter()
            .any(|it| matches!(it, RecvDescriptor::Completion { .. }))
    }
}

/// Does all there is, and gives the frames for the wire.
fn run(nic: &mut Nic) -> Vec<Vec<u8>> {
    let now = Instant::now();
    let frames = drain(nic, now);
    nic.flush(now);
    frames.into_iter().map(|(frame, _)| frame).collect()
}

fn nic() -> Nic {
    Nic::new(nic_config())
}

#[test]
fn frames_for_one_that_has_gone_go_to_the_wire_until_it_comes_again() {
    let mut nic = nic();
    let (mut a, mut b) = (Host::attach(&mut nic, 1), Host::attach(&mut nic, 2));
    a.send(b.mac(), b"one");
    assert!(run(&mut nic).is_empty());
    assert_eq!(b.received(), [b"one"]);
    let sent = nic.counters().tx_packets;

    assert!(nic.detach(b.0.id));
    assert!(!nic.detach(b.0.id), "it has gone");
    assert_eq!(nic.functions().collect::<Vec<_>>(), [a.0.id]);
    assert!(nic.function_counters(b.0.id).is_none());
    a.send(b.mac(), b"two");
    a.send(MacAddr::BROADCAST, b"three");
    assert_eq!(run(&mut nic).len(), 2);
    nic.handle_frame(Instant::now(), &[0xff; 60], FrameMeta::default());
    nic.flush(Instant::now());
    assert!(b.received().is_empty());
    assert_eq!(nic.counters().tx_packets, sent + 2, "none is forgotten");

    let mut again = Host::attach(&mut nic, 2);
    assert_eq!(again.0.id, b.0.id, "its place was free");
    a.send(again.mac(), b"four");
    again.send(a.mac(), b"five");
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
    assert!(nic.detach(a.0.id));
    let frames = run(&mut nic);
    assert!(frames.iter().all(|frame| frame.ends_with(b"from b")));
    assert!(!frames.is_empty());
    assert!(nic.detach(b.0.id));
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
        assert!(nic.detach(host.0.id));
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
        &[&host.mac().0[..], &[0; 54]].concat(),
        FrameMeta::default(),
    );
    run(&mut nic);
    assert_eq!(host.received().len(), 1);
    let region = Arc::downgrade(&host.0.buffers().region);
    assert!(nic.detach(host.0.id));
    drop(host);
    assert_eq!(region.strong_count(), 0);
}
