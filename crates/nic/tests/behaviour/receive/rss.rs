//! A key and a table that the host sets, and what it is told of the hash.

use std::sync::Arc;

use nic::Features;
use nic::ring::{
    ErrorCode, FunctionConfig, HashType, HashTypes, RSS_BYTES, RSS_ENTRIES, RecvDescriptor, Region,
    RegionId, RssKey, RssSettings, SendDescriptor, Slice,
};
use testkit::bare::BareHost;
use wire::ethernet::HEADER_LEN;

use super::*;

const FIRST: SeqNum = SeqNum(1000);
const QUEUES: u16 = 4;

/// A host with queues that spreads by a table.
fn rig() -> Rig {
    let config = FunctionConfig {
        features: Features::ALL,
        queues: QUEUES,
        ..function_config()
    };
    Rig::filled(nic_config(), config)
}

/// The table says queue `n % 3` for entry `n`.
fn settings() -> RssSettings {
    RssSettings {
        types: HashTypes::ALL,
        key: RssKey(std::array::from_fn(|at| (at * 7 + 1) as u8)),
        table: std::array::from_fn(|at| (at % 3) as u16),
    }
}

fn set(rig: &mut Rig, bytes: &[u8]) -> Vec<ErrorCode> {
    rig.host.memory.write(64, bytes);
    let settings = rig.slice(64, bytes.len() as u32);
    rig.command(&SendDescriptor::SetRss { settings });
    rig.nic.flush(rig.now);
    rig.host.codes()
}

fn query(rig: &mut Rig) -> Vec<u8> {
    let into = rig.slice(4096, RSS_BYTES as u32);
    rig.command(&SendDescriptor::QueryRss { into });
    rig.nic.flush(rig.now);
    assert_eq!(rig.host.codes(), []);
    rig.host.memory.read(4096, RSS_BYTES)
}

/// The packets of each queue.
fn by_queue(rig: &mut Rig) -> Vec<Vec<nic::ring::Packet>> {
    rig.nic.flush(rig.now);
    let of = |queue| {
        let all = std::iter::from_fn(|| rig.host.pop(queue));
        let packets = all.filter_map(|descriptor| match descriptor {
            RecvDescriptor::Packet(packet) => Some(packet),
            _ => None,
        });
        packets.collect()
    };
    (0..usize::from(QUEUES)).map(of).collect()
}

/// The one packet that has come, and its queue.
fn the_one(rig: &mut Rig) -> (usize, nic::ring::Packet) {
    let queues = by_queue(rig);
    let mut all = (0..)
        .zip(queues)
        .flat_map(|(at, its)| its.into_iter().map(move |it| (at, it)));
    let one = all.next().expect("a packet");
    assert!(all.next().is_none());
    rig.host.publish();
    one
}

/// Where the table of [`settings`] sends a packet.
fn assert_follows_the_table(queue: usize, packet: &nic::ring::Packet, hash_type: HashType) {
    assert_eq!(packet.hash_type, Some(hash_type));
    assert_eq!(queue, packet.hash as usize % RSS_ENTRIES % 3);
}

#[test]
fn flows_go_where_the_table_says() {
    let mut rig = rig();
    assert_eq!(set(&mut rig, &settings().encode()), []);
    let mut used = [false; QUEUES as usize];
    for port in 0..64 {
        for (flow, hash_type) in [
            (flow(port), HashType::TcpIpv4),
            (fixtures::flow_v6(port).reversed(), HashType::TcpIpv6),
        ] {
            let mut hashes = Vec::new();
            for n in 0..2 {
                arrive(&mut rig, &flow, &segment(&flow, FIRST + n), b"x");
                let (queue, packet) = the_one(&mut rig);
                assert_follows_the_table(queue, &packet, hash_type);
                used[queue] = true;
                hashes.push(packet.hash);
            }
            assert_eq!(hashes[0], hashes[1]);
        }
    }
    assert_eq!(used, [true, true, true, false]);
}

/// The hash of the first packet of the verification suite, through the device.
#[test]
fn the_hash_is_the_one_of_the_verification_suite() {
    let mut rig = rig();
    let key = RssKey([
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f,
        0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
        0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ]);
    let flow = FlowKey {
        src: ([66, 9, 149, 187].into(), 2794),
        dst: ([161, 142, 100, 80].into(), 1766),
    };
    for (types, hash) in [
        (HashTypes::ALL, 0x51cc_c178),
        (HashTypes::NONE.with(HashType::Ipv4), 0x323e_8fc2),
        (HashTypes::NONE.with(HashType::TcpIpv6), 0),
    ] {
        let settings = RssSettings {
            types,
            key,
            ..settings()
        };
        assert_eq!(set(&mut rig, &settings.encode()), []);
        arrive(&mut rig, &flow, &segment(&flow, FIRST), b"x");
        assert_eq!(the_one(&mut rig).1.hash, hash);
    }
}

#[test]
fn what_is_set_is_read_back() {
    let mut rig = rig();
    let at_first = query(&mut rig);
    assert_eq!(query(&mut rig), at_first);
    let even: Vec<u16> = (0..RSS_ENTRIES as u16).map(|at| at % QUEUES).collect();
    let table = at_first[RSS_BYTES - 2 * RSS_ENTRIES..].as_chunks().0;
    assert!(
        table
            .iter()
            .map(|entry| u16::from_ne_bytes(*entry))
            .eq(even)
    );
    assert_eq!(set(&mut rig, &settings().encode()), []);
    assert_eq!(query(&mut rig), settings().encode());
    let id = rig.host.id;
    rig.nic.reset_function(id);
    rig.flush();
    assert_eq!(query(&mut rig), at_first, "a reset function is as at first");
}

/// Whose function had the address before knows its key.
#[test]
fn a_function_has_a_key_that_no_other_had() {
    let mut rig = rig();
    let mut seen = vec![query(&mut rig)];
    for _ in 0..3 {
        assert!(rig.nic.detach(rig.host.id));
        rig.host = BareHost::attach(&mut rig.nic, rig.host.config);
        let settings = query(&mut rig);
        assert!(!seen.contains(&settings));
        seen.push(settings);
    }
}

/// Datagrams of UDP by their ports, all else of IP by its addresses; what is not of IP goes to the first queue.
#[test]
fn packets_that_are_not_tcp_are_spread_too() {
    const UDP: u8 = 17;
    let frame = |protocol: u8, fragment: u16, ports: [u16; 2]| {
        let tcp = segment(&flow(1), FIRST);
        let mut frame = from_peer(&flow(1), &tcp, &[0; 40]);
        frame[HEADER_LEN + 6..HEADER_LEN + 8].copy_from_slice(&fragment.to_be_bytes());
        frame[HEADER_LEN + 9] = protocol;
        frame[HEADER_LEN + 10..HEADER_LEN + 12].fill(0);
        wire::ipv4::fill_checksum(&mut frame[HEADER_LEN..HEADER_LEN + 20]);
        frame[34..36].copy_from_slice(&ports[0].to_be_bytes());
        frame[36..38].copy_from_slice(&ports[1].to_be_bytes());
        frame
    };
    let mut rig = rig();
    assert_eq!(set(&mut rig, &settings().encode()), []);
    let hash_of = |rig: &mut Rig, frame: &[u8], expected: HashType| {
        rig.receive(frame);
        let (queue, packet) = the_one(rig);
        assert_follows_the_table(queue, &packet, expected);
        packet.hash
    };
    let ports = hash_of(&mut rig, &frame(UDP, 0, [1, 2]), HashType::UdpIpv4);
    let others = hash_of(&mut rig, &frame(UDP, 0, [1, 3]), HashType::UdpIpv4);
    assert_ne!(ports, others);
    // The same ports of TCP give the same hash.
    let mut tcp = flow(1);
    (tcp.src.1, tcp.dst.1) = (1, 2);
    let of_tcp = from_peer(&tcp, &segment(&tcp, FIRST), b"x");
    assert_eq!(hash_of(&mut rig, &of_tcp, HashType::TcpIpv4), ports);
    // A fragment has no ports, or the first only has.
    let addresses = hash_of(&mut rig, &frame(UDP, 0x2000, [1, 2]), HashType::Ipv4);
    for other in [
        frame(UDP, 7, [9, 9]),
        frame(6, 7, [9, 9]),
        frame(1, 0, [0, 0]),
        frame(132, 0, [1, 2]),
    ] {
        assert_eq!(hash_of(&mut rig, &other, HashType::Ipv4), addresses);
    }
    let mut settings = settings();
    settings.table = [3; RSS_ENTRIES];
    assert_eq!(set(&mut rig, &settings.encode()), []);
    let mut of_no_ip = frame(UDP, 0, [1, 2]);
    of_no_ip[12..14].copy_from_slice(&[0x88, 0xb5]);
    rig.receive(&of_no_ip);
    let (queue, packet) = the_one(&mut rig);
    assert_eq!((queue, packet.hash, packet.hash_type), (0, 0, None));
}

/// What has come before is on its ring when a table sends the rest of the flow to another one.
#[test]
fn a_table_ends_what_is_being_merged() {
    let mut rig = rig();
    let mut settings = settings();
    for n in 0..6u32 {
        if n % 2 == 0 {
            settings.table = [(n / 2 % 2) as u16; RSS_ENTRIES];
            rig.host.memory.write(64, &settings.encode());
            let settings = rig.slice(64, RSS_BYTES as u32);
            rig.command(&SendDescriptor::SetRss { settings });
        }
        let tcp = segment(&flow(1), FIRST + 10 * n);
        arrive(&mut rig, &flow(1), &tcp, &[n as u8; 10]);
    }
    let queues = by_queue(&mut rig);
    let segments = queues
        .iter()
        .map(|queue| queue.iter().map(|it| it.segments).collect());
    let segments: Vec<Vec<u16>> = segments.collect();
    assert_eq!(segments, [vec![2, 2], vec![2], vec![], vec![]]);
}

#[test]
fn wrong_settings_are_refused_and_change_nothing() {
    let mut rig = rig();
    assert_eq!(set(&mut rig, &settings().encode()), []);
    let good = settings().encode();
    let with = |at: usize, byte: u8| {
        let mut bytes = good;
        bytes[at] = byte;
        bytes.to_vec()
    };
    let mut longer = good.to_vec();
    longer.push(0);
    let last = RSS_BYTES - 2;
    for (bytes, error) in [
        // Entries beyond the queues, types that there are not, and what must be zero.
        (with(last, QUEUES as u8), ErrorCode::BadParameters),
        (with(last + 1, 0x80), ErrorCode::BadParameters),
        (with(0, 64), ErrorCode::BadParameters),
        (with(3, 1), ErrorCode::BadParameters),
        (with(4, 1), ErrorCode::BadParameters),
        (good[..RSS_BYTES - 1].to_vec(), ErrorCode::BadLength),
        (good[..40].to_vec(), ErrorCode::BadLength),
        (longer, ErrorCode::BadLength),
    ] {
        assert_eq!(set(&mut rig, &bytes), [error]);
    }
    let elsewhere = Slice {
        offset: 0,
        len: RSS_BYTES as u32,
        region: RegionId(99),
    };
    let beyond = rig.slice(testkit::bare::MEMORY as u64 - 8, RSS_BYTES as u32);
    for slice in [elsewhere, beyond] {
        for descriptor in [
            SendDescriptor::SetRss { settings: slice },
            SendDescriptor::QueryRss { into: slice },
        ] {
            rig.command(&descriptor);
            rig.nic.flush(rig.now);
            assert_eq!(rig.host.codes(), [ErrorCode::BadMemory]);
        }
    }
    let short = rig.slice(0, RSS_BYTES as u32 - 8);
    rig.command(&SendDescriptor::QueryRss { into: short });
    rig.nic.flush(rig.now);
    assert_eq!(rig.host.codes(), [ErrorCode::BadLength]);
    assert_eq!(query(&mut rig), good);
}

#[test]
fn read_only_memory_is_read_and_not_written() {
    let mut rig = rig();
    let owner = Arc::new(settings().encode());
    let start = owner.as_ptr().cast_mut();
    // SAFETY: `owner` keeps these bytes, which are not written.
    let region = unsafe { Region::from_raw_parts(start, RSS_BYTES, owner, false) };
    let id = rig.host.register(Arc::new(region)).expect("a free id");
    let slice = Slice {
        offset: 0,
        len: RSS_BYTES as u32,
        region: id,
    };
    rig.command(&SendDescriptor::SetRss { settings: slice });
    rig.command(&SendDescriptor::QueryRss { into: slice });
    rig.nic.flush(rig.now);
    assert_eq!(rig.host.codes(), [ErrorCode::ReadOnlyMemory]);
    assert_eq!(query(&mut rig), settings().encode());
}

#[test]
fn a_host_without_the_feature_has_no_settings() {
    let config = FunctionConfig {
        features: Features::ALL.without(Features::RSS),
        ..function_config()
    };
    let mut rig = Rig::filled(nic_config(), config);
    assert_eq!(
        set(&mut rig, &settings().encode()),
        [ErrorCode::Unsupported]
    );
    arrive(&mut rig, &flow(1), &segment(&flow(1), FIRST), b"x");
    assert_eq!(rig.packets()[0].packet.hash_type, None);
}
