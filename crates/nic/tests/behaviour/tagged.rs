//! Frames with tags of 802.1Q: they pass as they are, and what is in a VLAN is of no flow that the NIC knows.

use std::time::Instant;

use l5p::Layers;
use nic::ring::{
    ContextId, CreateContext, Direction, ErrorCode, FunctionConfig, RecvDescriptor, SendDescriptor,
    SendFlags,
};
use nic::{FrameMeta, Nic, NicConfig, WireCapabilities};
use proptest::prelude::*;
use testkit::bare::{BareHost, CONTEXT, Rig, drain, function_config, nic_config};
use testkit::fixtures::{HOST, PEER, aes_128_gcm, flow, flow_v6};
use testkit::frames::{ack, from_peer};
use testkit::records::Records;
use wire::SeqNum;
use wire::ethernet::MacAddr;
use wire::tcp::Flags;

const VLAN: [u8; 4] = [0x81, 0x00, 0x60, 5];
const PRIORITY: [u8; 4] = [0x81, 0x00, 0x60, 0];
const SERVICE: [u8; 4] = [0x88, 0xa8, 0, 7];
const MTU: usize = 1500;

/// The frame with a tag behind its addresses.
fn tagged(frame: &[u8], tag: [u8; 4]) -> Vec<u8> {
    let (addresses, rest) = frame.split_at(12);
    [addresses, &tag, rest].concat()
}

fn untagged(frame: &[u8]) -> Vec<u8> {
    [&frame[..12], &frame[16..]].concat()
}

/// A NIC and two hosts, whose addresses are these.
fn two_hosts() -> (Nic, [BareHost; 2]) {
    let mut nic = Nic::new(nic_config());
    let hosts = [HOST, PEER].map(|mac| {
        let config = FunctionConfig {
            mac,
            ..function_config()
        };
        let mut host = BareHost::attach(&mut nic, config);
        host.refill();
        host
    });
    (nic, hosts)
}

/// Posts a frame as it is.
fn post(host: &mut BareHost, frame: &[u8]) {
    let (header, rest) = frame.split_at(frame.len().min(100));
    host.memory.write(0, rest);
    let rest = [host.memory.slice(0, rest.len() as u32)];
    host.post(&SendDescriptor::Send {
        header,
        mss: 0,
        context: None,
        flags: SendFlags::NONE,
        payload: if rest[0].len == 0 { &[] } else { &rest },
    });
    host.publish();
}

/// The frames that a host finds.
fn found(host: &mut BareHost) -> Vec<Vec<u8>> {
    let taken = host.take().into_iter();
    let packets = taken.filter_map(|descriptor| host.read(descriptor));
    packets.map(|packet| packet.bytes).collect()
}

fn contents() -> impl Strategy<Value = Vec<u8>> {
    let raw = (0usize..=MTU).prop_flat_map(|len| prop::collection::vec(any::<u8>(), len));
    let of_type = |bytes: Vec<u8>| [&[0x88, 0xb5], &bytes[..]].concat();
    let segment = (any::<bool>(), 0usize..=MTU - 60).prop_map(|(v6, len)| {
        let flow = if v6 { flow_v6(1) } else { flow(1) };
        from_peer(&flow, &ack(&flow, SeqNum(7)), &vec![b'x'; len]).split_off(12)
    });
    prop_oneof![raw.prop_map(of_type), segment]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever is in it, from function to function, to the wire and from there; a full one too.
    #[test]
    fn a_tagged_frame_passes_as_it_is(
        contents in contents(),
        tag in prop::sample::select(vec![VLAN, PRIORITY, SERVICE]),
        to in prop::sample::select(vec![HOST, PEER, MacAddr::BROADCAST, MacAddr([0x33, 0x33, 0, 0, 0, 1]), MacAddr([2; 6])]),
        from_wire in any::<bool>(),
    ) {
        let (mut nic, mut hosts) = two_hosts();
        let now = Instant::now();
        let from = if from_wire { MacAddr([4; 6]) } else { HOST };
        let frame = tagged(&[&to.0[..], &from.0, &contents].concat(), tag);
        if from_wire {
            nic.handle_frame(now, &frame, FrameMeta::default());
        } else {
            post(&mut hosts[0], &frame);
        }
        let sent: Vec<Vec<u8>> = drain(&mut nic, now).into_iter().map(|(frame, _)| frame).collect();
        nic.flush(now);
        let [host, peer] = hosts.each_mut().map(found);
        let is_for = |mac| to == mac || !to.is_unicast();
        let copies = |is_there: bool| if is_there { vec![frame.clone()] } else { vec![] };
        prop_assert_eq!(sent, copies(!from_wire && to != HOST && to != PEER));
        prop_assert_eq!(host, copies(is_for(HOST) && (from_wire || to == HOST)));
        prop_assert_eq!(peer, copies(is_for(PEER)));
        prop_assert_eq!(nic.counters().tx_errors, 0);
    }

    /// What is cut, and what is left to a port that cuts, is that of an untagged segment with the tag.
    #[test]
    fn a_tagged_segment_is_cut_as_an_untagged_one(
        v6 in any::<bool>(),
        len in 1u32..50_000,
        mss in prop_oneof![Just(0), 500u16..1440],
        offloads in any::<bool>(),
    ) {
        let len = if mss == 0 { len % 1440 } else { len };
        let wire = WireCapabilities { tso: offloads, checksum: offloads };
        let mut rig = Rig::new(NicConfig { wire, ..nic_config() }, function_config());
        rig.flow = if v6 { flow_v6(50_000) } else { flow(50_000) };
        let bytes: Vec<u8> = (0..len).map(|n| (n * 7 + n / 251) as u8).collect();
        rig.host.memory.write(0, &bytes);
        let header = rig.header(SeqNum(u32::MAX - 1000), Flags::PSH);
        let payload = [rig.slice(0, len)];
        let mut sent = [header.clone(), tagged(&header, VLAN)].map(|header| {
            rig.post(&SendDescriptor::Send {
                header: &header,
                mss,
                context: None,
                flags: SendFlags::CHECKSUM,
                payload: if len == 0 { &[] } else { &payload },
            });
            rig.frames()
        });
        for (frame, meta) in &mut sent[1] {
            prop_assert_eq!(&frame[12..16], &VLAN);
            *frame = untagged(frame);
            meta.needs_checksum = meta.needs_checksum.map(|(start, field)| (start - 4, field));
        }
        let [plain, tagged] = sent;
        prop_assert_eq!(plain, tagged);
        prop_assert_eq!(rig.counters().tx_errors, 0);
    }
}

#[test]
fn one_tag_comes_on_top_of_the_mtu() {
    for (tags, most) in [
        (&[][..], MTU),
        (&[VLAN][..], MTU + 4),
        (&[SERVICE], MTU + 4),
        (&[VLAN, SERVICE], MTU + 4),
    ] {
        let (mut nic, mut hosts) = two_hosts();
        let now = Instant::now();
        let mut frame = [&[2; 6][..], &HOST.0, &[0x88, 0xb5]].concat();
        for tag in tags {
            frame = tagged(&frame, *tag);
        }
        for (len, leaves) in [(14 + most, 1), (15 + most, 0)] {
            frame.resize(len, 0);
            post(&mut hosts[0], &frame);
            assert_eq!(drain(&mut nic, now).len(), leaves, "{len} {tags:x?}");
            nic.flush(now);
            assert_eq!(hosts[0].errors().len(), 1 - leaves);
        }
    }
    // The tag is not in the header.
    let mut rig = Rig::default();
    let header = [&PEER.0[..], &HOST.0, &VLAN[..2]].concat();
    for (len, leaves) in [(MTU as u32 + 4, 1), (MTU as u32 + 5, 0)] {
        rig.post(&SendDescriptor::Send {
            header: &header,
            mss: 0,
            context: None,
            flags: SendFlags::NONE,
            payload: &[rig.slice(0, len)],
        });
        assert_eq!(rig.frames().len(), leaves);
    }
}

/// Headers that the NIC would have to look through further are refused, as is a context: nothing leaves in clear.
#[test]
fn a_tag_is_refused_where_it_cannot_be() {
    let mut rig = Rig::default();
    let crypto = aes_128_gcm();
    let records = Records::of(&crypto, [[b'c'; 2000]]);
    rig.host.memory.write(0, &records.framed);
    rig.create(SeqNum(50), &Layers::of(&crypto));
    let header = rig.header(SeqNum(50), Flags::PSH);
    for (tags, context) in [
        (&[VLAN][..], Some(CONTEXT)),
        (&[PRIORITY], Some(CONTEXT)),
        (&[SERVICE], Some(CONTEXT)),
        (&[SERVICE], None),
        (&[VLAN, VLAN], None),
    ] {
        let mut header = header.clone();
        for tag in tags {
            header = tagged(&header, *tag);
        }
        for mss in [0, 500] {
            rig.post(&SendDescriptor::Send {
                header: &header,
                mss,
                context,
                flags: SendFlags::CHECKSUM,
                payload: &[rig.slice(0, 1000)],
            });
            assert_eq!(rig.frames(), []);
            let errors: Vec<ErrorCode> =
                rig.host.errors().into_iter().map(|(_, why)| why).collect();
            assert_eq!(errors, [ErrorCode::BadHeader], "{tags:x?}");
        }
    }
    // The context is where it was.
    let payload = [rig.slice(0, 1000)];
    rig.send(SeqNum(50), 0, Some(CONTEXT), SendFlags::NONE, &payload);
    let segments = rig.segments();
    assert_eq!(segments[0].1, records.wire[..1000]);
}

/// A connection of a VLAN may have the addresses and ports of one without.
#[test]
fn a_segment_of_a_vlan_meets_no_context() {
    let flow = flow(1).reversed();
    let first = SeqNum(u32::MAX - 300);
    let crypto = aes_128_gcm();
    let records = Records::of(&crypto, [[b'c'; 1000]]);
    for (tag, processed) in [
        (VLAN, false),
        (SERVICE, false),
        // A priority alone is no VLAN.
        (PRIORITY, true),
    ] {
        let mut rig = Rig::filled(nic_config(), function_config());
        rig.command(&SendDescriptor::CreateContext(&CreateContext {
            context: ContextId(3),
            direction: Direction::Receive,
            flow,
            tcpsn: first,
            layers: Layers::of(&crypto),
        }));
        let frame = from_peer(&flow, &ack(&flow, first), &records.wire);
        for (frame, processed) in [
            (tagged(&frame, tag), processed),
            // The context is where it was, or behind the record.
            (frame, !processed),
        ] {
            rig.receive_unchecked(&frame);
            let packets = rig.packets();
            let [packet] = &packets[..] else {
                panic!("{} packets", packets.len());
            };
            assert_eq!(packet.packet.processed.by(0), processed);
            let payload = if processed {
                &records.opened
            } else {
                &records.wire
            };
            assert_eq!(packet.payload(), payload);
            assert_eq!(
                usize::from(packet.packet.header_len),
                packet.bytes.len() - payload.len()
            );
            let is_of_vlan = frame[12..14] != [8, 0] && frame[15] != 0;
            let context = (!is_of_vlan).then_some(ContextId(3));
            assert_eq!(packet.packet.context, context);
        }
    }
}

/// Nothing that comes in a VLAN makes the NIC ask where a message begins.
#[test]
fn segments_of_a_vlan_ask_for_nothing() {
    let flow = flow(1).reversed();
    let mut rig = Rig::filled(nic_config(), function_config());
    rig.offload(ContextId(3), &flow, SeqNum(0), &Layers::of(&aes_128_gcm()));
    let records = Records::of(&aes_128_gcm(), [[b'c'; 1000]; 8]);
    for at in (3000..6000).step_by(1000) {
        let header = ack(&flow, SeqNum(at as u32));
        let frame = from_peer(&flow, &header, &records.wire[at..at + 1000]);
        rig.receive_unchecked(&tagged(&frame, VLAN));
    }
    let (packets, rest) = rig.received();
    assert_eq!(rest, Vec::<RecvDescriptor>::new());
    assert_eq!(packets.len(), 1, "merged");
}
