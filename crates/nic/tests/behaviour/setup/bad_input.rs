//! SYNs that a cookie can't serve, and wrong cookies.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use l5p::Layers;
use l5p::nvme::Role;
use l5p::tls::Direction;
use proptest::prelude::*;
use testkit::fixtures::nvme;
use wire::SeqNum;
use wire::ethernet::MacAddr;
use wire::tcp::{Flags, Timestamps};

use super::rig::{Reported, Rig, ack, flow, frame, mac, options, syn, to_host};
use nic::ring::accel::ListenRuleId;
use nic::ring::{ContextId, CreateContext, SendDescriptor};

/// The host gets a frame as it came, and the NIC says nothing.
fn goes_up(rig: &mut Rig, host: usize, bytes: &[u8]) {
    rig.receive(bytes);
    assert_eq!(rig.reported(host), [Reported::Packet(bytes.to_vec())]);
    assert_eq!(rig.sent(), Vec::<Vec<u8>>::new());
}

#[test]
fn a_syn_that_a_cookie_cannot_serve_is_the_hosts() {
    let mut rig = Rig::listening(options());
    let flow = flow(false, 5000);
    let good = syn(&flow);
    let mut bare = good;
    bare.options.timestamps = None;
    goes_up(&mut rig, 0, &to_host(&flow, &bare, &[]));
    goes_up(&mut rig, 0, &to_host(&flow, &good, b"fast open"));
    for flag in [Flags::FIN, Flags::URG] {
        let mut odd = good;
        odd.flags |= flag;
        goes_up(&mut rig, 0, &to_host(&flow, &odd, &[]));
    }
    assert_eq!(rig.nic.counters().accel_syns_to_host, 4);
    let sources = [
        Ipv4Addr::BROADCAST,
        Ipv4Addr::UNSPECIFIED,
        Ipv4Addr::new(224, 0, 0, 1),
    ];
    for source in sources {
        let mut from = flow;
        from.src.0 = source.into();
        goes_up(&mut rig, 0, &to_host(&from, &good, &[]));
    }
    let mut nowhere = flow;
    nowhere.src.1 = 0;
    goes_up(&mut rig, 0, &to_host(&nowhere, &good, &[]));
    let mut group = to_host(&flow, &good, &[]);
    group[6] |= 1;
    goes_up(&mut rig, 0, &group);
    let mut itself = to_host(&flow, &good, &[]);
    itself[6..12].copy_from_slice(&mac(0).0);
    goes_up(&mut rig, 0, &itself);
    assert_eq!(rig.nic.counters().accel_syn_acks, 0);
    // A reset or an answer is no SYN to a listener.
    for flag in [Flags::RST, Flags::ACK] {
        let mut odd = good;
        odd.flags |= flag;
        goes_up(&mut rig, 0, &to_host(&flow, &odd, &[]));
    }
    assert_eq!(rig.nic.counters().accel_syns, 10);
}

/// RFC 9293 §3.9.2.3: it is discarded, by the host.
#[test]
fn a_syn_to_a_group_is_not_answered() {
    let mut rig = Rig::new(2);
    for host in 0..2 {
        rig.listen(host, 0, Ipv4Addr::UNSPECIFIED.into(), options());
        rig.listen(host, 1, Ipv6Addr::UNSPECIFIED.into(), options());
    }
    let (all_hosts, all_nodes) = (
        Ipv4Addr::new(224, 0, 0, 1),
        Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1),
    );
    for destination in [
        IpAddr::from(all_hosts),
        Ipv4Addr::BROADCAST.into(),
        Ipv4Addr::UNSPECIFIED.into(),
        all_nodes.into(),
    ] {
        let mut flow = flow(destination.is_ipv6(), 5000);
        flow.dst.0 = destination;
        goes_up(&mut rig, 0, &to_host(&flow, &syn(&flow), &[]));
    }
    let flow = flow(false, 5000);
    for group in [MacAddr::BROADCAST, MacAddr([0x33, 0x33, 0, 0, 0, 1])] {
        let bytes = frame(group, &flow, &syn(&flow), &[]);
        goes_up(&mut rig, 0, &bytes);
        assert_eq!(rig.reported(1), [Reported::Packet(bytes)]);
    }
    assert_eq!(rig.nic.counters().accel_syn_acks, 0);
    rig.shake(&flow);
}

/// RFC 5961 §4.2: the challenge ACK is the host's to send.
#[test]
fn a_syn_of_a_flow_with_a_context_is_the_hosts() {
    let mut rig = Rig::listening(options());
    let (known, other) = (flow(false, 5000), flow(false, 5001));
    let create = SendDescriptor::CreateContext(&CreateContext {
        context: ContextId(0),
        direction: Direction::Receive,
        flow: known,
        tcpsn: SeqNum(77),
        layers: Layers::of(&nvme(Role::Host, true, true)),
    });
    rig.post(0, &create);
    assert_eq!(rig.reported(0), []);
    goes_up(&mut rig, 0, &to_host(&known, &syn(&known), &[]));
    rig.shake(&other);
    assert_eq!(rig.nic.counters().accel_syns, 1);
}

#[test]
fn a_syn_with_a_vlan_tag_is_the_hosts() {
    let mut rig = Rig::listening(options());
    let flow = flow(false, 5000);
    let mut tagged = to_host(&flow, &syn(&flow), &[]);
    tagged.splice(12..12, [0x81, 0, 0, 5]);
    goes_up(&mut rig, 0, &tagged);
}

#[test]
fn where_no_rule_is_the_host_answers() {
    let mut rig = Rig::new(2);
    let flow = flow(false, 5000);
    let bytes = [0, 1].map(|host| frame(mac(host), &flow, &syn(&flow), &[]));
    goes_up(&mut rig, 0, &bytes[0]);
    rig.listen(1, 0, Ipv4Addr::new(10, 0, 0, 1).into(), options());
    goes_up(&mut rig, 0, &bytes[0]);
    rig.answer(&bytes[1]);
    let mut other = flow;
    other.dst.0 = Ipv4Addr::new(10, 0, 0, 2).into();
    goes_up(&mut rig, 1, &frame(mac(1), &other, &syn(&other), &[]));
    let mut port = flow;
    port.dst.1 = 81;
    goes_up(&mut rig, 1, &frame(mac(1), &port, &syn(&port), &[]));
}

#[test]
fn a_cookie_of_one_function_is_none_of_another() {
    let mut rig = Rig::new(2);
    for host in 0..2 {
        rig.listen(host, 0, Ipv4Addr::UNSPECIFIED.into(), options());
    }
    let flow = flow(false, 5000);
    let (syn, answer) = rig.shake(&flow);
    let ack = ack(&syn, &answer);
    goes_up(&mut rig, 1, &frame(mac(1), &flow, &ack, b"data"));
    rig.receive(&to_host(&flow, &ack, b"data"));
    assert_eq!(rig.reported(0).len(), 2);
}

#[test]
fn a_cookie_expires() {
    let mut rig = Rig::listening(options());
    let flow = flow(false, 5000);
    let (syn, answer) = rig.shake(&flow);
    let bytes = to_host(&flow, &ack(&syn, &answer), b"data");
    rig.wait(Duration::from_secs(127));
    rig.receive(&bytes);
    assert_eq!(rig.reported(0).len(), 2);
    rig.wait(Duration::from_secs(1));
    goes_up(&mut rig, 0, &bytes);
}

#[test]
fn a_cookie_is_good_for_no_other_flow() {
    let mut rig = Rig::listening(options());
    let one = flow(false, 5000);
    let (syn, answer) = rig.shake(&one);
    let header = ack(&syn, &answer);
    let mut others = [one; 3];
    others[0].src.0 = Ipv4Addr::new(10, 0, 0, 10).into();
    others[1].dst.0 = Ipv4Addr::new(10, 0, 0, 2).into();
    others[2].src.1 = 5001;
    for other in others {
        goes_up(&mut rig, 0, &to_host(&other, &header, b"data"));
    }
    assert_eq!(rig.nic.counters().accel_cookies_failed, 3);
}

#[test]
fn after_its_rule_is_gone_a_cookie_opens_nothing() {
    let mut rig = Rig::listening(options());
    let flow = flow(false, 5000);
    let (syn, answer) = rig.shake(&flow);
    let rule = ListenRuleId(0);
    rig.post(0, &SendDescriptor::RemoveListener { rule });
    let data = to_host(&flow, &ack(&syn, &answer), b"data");
    goes_up(&mut rig, 0, &data);
    goes_up(&mut rig, 0, &to_host(&flow, &syn, &[]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_cookie_with_a_flipped_bit_opens_nothing(bit in 0u32..32, number: bool, v6: bool) {
        let mut rig = Rig::listening(options());
        let flow = flow(v6, 5000);
        let (syn, answer) = rig.shake(&flow);
        let mut header = ack(&syn, &answer);
        let flipped = if number { &mut header.ack } else { &mut header.seq };
        flipped.0 ^= 1 << bit;
        goes_up(&mut rig, 0, &to_host(&flow, &header, b"data"));
    }

    #[test]
    fn a_guessed_cookie_opens_nothing(
        (seq, number, val, echo) in any::<(u32, u32, u32, u32)>(),
        v6: bool,
    ) {
        let mut rig = Rig::listening(options());
        let flow = flow(v6, 5000);
        let mut header = syn(&flow);
        header.flags = Flags::ACK;
        (header.seq, header.ack) = (SeqNum(seq), SeqNum(number));
        header.options.timestamps = Some(Timestamps { val, echo });
        goes_up(&mut rig, 0, &to_host(&flow, &header, b"data"));
    }

    /// Whatever comes, nothing panics, and what the NIC sends is a SYN-ACK.
    #[test]
    fn any_segment_is_answered_or_passed_up(
        (flags, seq, number) in any::<(u8, u32, u32)>(),
        stamps in proptest::option::of(any::<(u32, u32)>()),
        payload in proptest::collection::vec(any::<u8>(), 0..20),
        v6: bool,
    ) {
        let mut rig = Rig::listening(options());
        let flow = flow(v6, 5000);
        let mut header = syn(&flow);
        header.flags = Flags(flags);
        (header.seq, header.ack) = (SeqNum(seq), SeqNum(number));
        header.options.timestamps = stamps.map(|(val, echo)| Timestamps { val, echo });
        let bytes = to_host(&flow, &header, &payload);
        rig.receive(&bytes);
        let (sent, reported) = (rig.sent(), rig.reported(0));
        let not_answered = Flags::ACK | Flags::RST | Flags::FIN | Flags::URG;
        let plain = header.flags.contains(Flags::SYN) && !header.flags.intersects(not_answered);
        if plain && stamps.is_some() && payload.is_empty() {
            prop_assert_eq!((sent.len(), reported.len()), (1, 0));
        } else {
            prop_assert_eq!((sent.len(), reported), (0, vec![Reported::Packet(bytes)]));
        }
    }
}
