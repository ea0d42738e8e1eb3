use core::net::IpAddr;

use proptest::prelude::*;

use super::*;
use crate::ecn::Ecn;
use crate::ethernet::{self, EtherType, MacAddr};
use crate::packet::{IpFields, emit_ip_headers, emit_tcp_headers};
use crate::tcp::Header;
use crate::{arp, ipv6};

const MACS: [MacAddr; 2] = [MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])];

fn addresses() -> impl Strategy<Value = (IpAddr, IpAddr)> {
    let unicast = |v4: u32| IpAddr::from((v4 & 0x7fff_ffff).to_be_bytes());
    prop_oneof![
        any::<[u32; 2]>().prop_map(move |[a, b]| (unicast(a), unicast(b))),
        any::<[[u8; 16]; 2]>().prop_map(|[a, b]| (a.into(), b.into())),
    ]
}

fn flows() -> impl Strategy<Value = FlowKey> {
    (addresses(), any::<[u16; 2]>()).prop_map(|((src, dst), ports)| FlowKey {
        src: (src, ports[0]),
        dst: (dst, ports[1]),
    })
}

fn steerings() -> impl Strategy<Value = Steering> {
    (any::<[u8; 16]>(), 1u16..17).prop_map(|(secret, workers)| Steering::new(&secret, workers))
}

/// A whole frame of the flow with so many bytes of payload.
fn segment(flow: &FlowKey, payload: usize) -> Vec<u8> {
    let header = Header {
        src_port: flow.src.1,
        dst_port: flow.dst.1,
        ..Header::default()
    };
    let mut frame = vec![0; 200 + payload];
    let [from, to] = MACS;
    let len = emit_tcp_headers(&mut frame, from, to, flow, &header, payload as u32, 64);
    frame.truncate(len + payload);
    frame
}

/// A frame with a message of another protocol between two addresses.
fn message((src, dst): (IpAddr, IpAddr), protocol: u8, bytes: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 200];
    let ip = IpFields {
        src,
        dst,
        protocol,
        hop_limit: 255,
        ecn: Ecn::of(0),
    };
    let [from, to] = MACS;
    let len = emit_ip_headers(&mut frame, from, to, &ip, bytes.len() as u32);
    frame.truncate(len);
    frame.extend_from_slice(bytes);
    frame
}

fn icmp(addresses: (IpAddr, IpAddr), kinds: [u8; 2], behind: &[u8]) -> Vec<u8> {
    let (protocol, kind) = match addresses.0 {
        IpAddr::V4(_) => (protocol::ICMP, kinds[0]),
        IpAddr::V6(_) => (protocol::ICMPV6, kinds[1]),
    };
    let bytes = [&[kind, 0, 0, 0, 0, 0, 0, 0], behind].concat();
    message(addresses, protocol, &bytes)
}

proptest! {
    #[test]
    fn both_directions_of_a_flow_are_one_workers(steering in steerings(), flow in flows(), payload in 0usize..3000) {
        let worker = steering.worker(&flow);
        prop_assert!(worker < steering.workers());
        for flow in [flow, flow.reversed()] {
            prop_assert_eq!(steering.worker(&flow), worker);
            let frame = segment(&flow, payload);
            prop_assert_eq!(steering.destination(&frame), Destination::Worker(worker));
        }
    }

    #[test]
    fn a_tag_in_front_of_a_packet_changes_nothing(steering in steerings(), flow in flows()) {
        let mut frame = segment(&flow, 100);
        let plain = steering.destination(&frame);
        // The priority of 802.1Q, for no VLAN.
        frame.splice(12..12, [0x81, 0x00, 0xe0, 0x00]);
        prop_assert_eq!(steering.destination(&frame), plain);
    }

    #[test]
    fn an_icmp_error_is_whose_the_packet_is_that_it_quotes(
        steering in steerings(),
        flow in flows(),
        router in addresses(),
        kinds in prop::sample::select(vec![[3, 1], [4, 2], [5, 3], [11, 4], [12, 4]]),
        bytes in 8usize..600,
    ) {
        // A router of the flow's family tells its sender; it quotes what it likes of the packet.
        let router = if router.0.is_ipv4() == flow.src.0.is_ipv4() { router.0 } else { flow.dst.0 };
        let packet = segment(&flow, 1000).split_off(ethernet::HEADER_LEN);
        let least = if flow.is_ipv6() { ipv6::HEADER_LEN } else { ipv4::HEADER_LEN };
        let error = icmp((router, flow.src.0), kinds, &packet[..least + bytes]);
        let expected = Destination::Worker(steering.worker(&flow));
        prop_assert_eq!(steering.destination(&error), expected);
    }

    #[test]
    fn all_fragments_of_a_datagram_are_one_workers(steering in steerings(), flow in flows(), at in 1u16..100) {
        let fragment = |at: u16, more: bool| {
            let mut frame = segment(&flow, 800);
            if flow.is_ipv6() {
                let l3 = ethernet::HEADER_LEN;
                let place = at << 3 | u16::from(more);
                let [high, low] = place.to_be_bytes();
                let header = [frame[l3 + 6], 0, high, low, 0, 0, 0, 1];
                frame[l3 + 6] = 44;
                let behind = frame.split_off(l3 + ipv6::HEADER_LEN);
                let payload = (behind.len() + header.len()) as u16;
                frame[l3 + 4..l3 + 6].copy_from_slice(&payload.to_be_bytes());
                frame.extend_from_slice(&header);
                frame.extend_from_slice(&behind);
            } else {
                let place = at | if more { 0x2000 } else { 0 };
                let field = ethernet::HEADER_LEN + 6;
                frame[field..field + 2].copy_from_slice(&place.to_be_bytes());
            }
            frame
        };
        let first = steering.destination(&fragment(0, true));
        prop_assert!(matches!(first, Destination::Worker(_)));
        prop_assert_eq!(steering.destination(&fragment(at, true)), first);
        prop_assert_eq!(steering.destination(&fragment(at, false)), first);
    }

    #[test]
    fn pings_and_their_answers_are_one_workers(steering in steerings(), (a, b) in addresses()) {
        let request = icmp((a, b), [8, 128], &[0; 32]);
        let reply = icmp((b, a), [0, 129], &[0; 32]);
        prop_assert_eq!(steering.destination(&request), steering.destination(&reply));
    }

    #[test]
    fn any_bytes_have_a_destination(steering in steerings(), mut frame in prop::collection::vec(any::<u8>(), 0..200), kind in 0usize..4) {
        let kinds = [EtherType::IPV4, EtherType::IPV6, EtherType::ARP].map(|it| it.0.to_be_bytes());
        if let (Some(kind), Some(field)) = (kinds.get(kind), frame.get_mut(12..14)) {
            field.copy_from_slice(kind);
        }
        if let Destination::Worker(worker) = steering.destination(&frame) {
            prop_assert!(worker < steering.workers());
        }
    }
}

#[test]
fn neighbours_speak_to_all_workers() {
    let steering = Steering::new(&[7; 16], 4);
    let mut frame = vec![0; ethernet::HEADER_LEN + arp::PACKET_LEN];
    let header = ethernet::Header {
        destination: MacAddr::BROADCAST,
        source: MACS[0],
        ether_type: EtherType::ARP,
    };
    header.emit(&mut frame);
    assert_eq!(steering.destination(&frame), Destination::All);
    let here = ("fe80::1".parse().unwrap(), "fe80::2".parse().unwrap());
    for kind in 133..=137 {
        let discovery = icmp(here, [0, kind], &[0; 32]);
        assert_eq!(steering.destination(&discovery), Destination::All, "{kind}");
    }
}

#[test]
fn what_nobody_has_a_use_for_is_no_certain_workers() {
    let steering = Steering::new(&[7; 16], 4);
    let ends = (
        "2001:db8::1".parse().unwrap(),
        "2001:db8::2".parse().unwrap(),
    );
    // A router has forwarded it.
    let mut discovery = icmp(ends, [0, 135], &[0; 32]);
    discovery[ethernet::HEADER_LEN + 7] = 254;
    // Its options for the destination are cut short.
    let cut = message(ends, 60, &[protocol::TCP, 9, 0, 0]);
    let mut unknown = vec![0; 60];
    unknown[12..14].copy_from_slice(&[0x88, 0xcc]);
    for frame in [discovery, cut, unknown, vec![0; 5]] {
        assert_eq!(steering.destination(&frame), Destination::Any, "{frame:?}");
    }
}

#[test]
fn flows_are_spread_evenly_and_otherwise_under_another_secret() {
    const FLOWS: u32 = 8000;
    let flow = |at: u32| FlowKey {
        src: ("10.0.0.1".parse().unwrap(), (at % 60_000) as u16),
        dst: ("10.0.0.2".parse().unwrap(), 443),
    };
    let [one, other] = [1, 2].map(|secret| Steering::new(&[secret; 16], 4));
    let mut counts = [0u32; 4];
    let mut same = 0;
    for at in 0..FLOWS {
        counts[one.worker(&flow(at))] += 1;
        same += u32::from(one.worker(&flow(at)) == other.worker(&flow(at)));
    }
    let even = FLOWS / 4;
    let is_even = |count: u32| count.abs_diff(even) < even / 10;
    assert!(counts.into_iter().all(is_even), "{counts:?}");
    assert!(is_even(same), "{same} of {FLOWS}");
}

/// Who has found flows of one worker, finds no others from the distance of their ports: whatever that is, half of the flows at that distance are
/// of one worker.
#[test]
fn flows_at_equal_distances_tell_nothing_of_each_other() {
    const FLOWS: u16 = 600;
    for v6 in [false, true] {
        let address = |last: u8| match v6 {
            true => IpAddr::from([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]),
            false => IpAddr::from([10, 0, 0, last]),
        };
        for secret in 0..40 {
            let steering = Steering::new(&[secret; 16], 2);
            let worker = |port: u16| {
                steering.worker(&FlowKey {
                    src: (address(1), port),
                    dst: (address(2), 443),
                })
            };
            let workers: Vec<_> = (1000..1000 + FLOWS + 64).map(worker).collect();
            for distance in 1..=64 {
                let pairs = workers.iter().zip(&workers[distance..]);
                let pairs = pairs.take(FLOWS.into());
                let same = pairs.filter(|(one, other)| one == other).count();
                let even = usize::from(FLOWS) / 2;
                assert!(same.abs_diff(even) < 90, "{same} at {distance}, {secret}");
            }
        }
    }
}
