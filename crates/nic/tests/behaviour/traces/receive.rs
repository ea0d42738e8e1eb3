//! Frames that come: which reach a host, how, and which do not.

use std::net::IpAddr;

use nic::ring::{
    FunctionConfig, HashType, HashTypes, RSS_BYTES, RSS_ENTRIES, RegionId, RssKey, RssSettings,
    SendDescriptor, Slice,
};
use nic::{Fault, Features, FrameMeta};
use testkit::bare::{VALID, function_config, nic_config};
use testkit::fixtures::{self, HOST, PEER};
use testkit::frames::{self, from_peer, mark};
use wire::ethernet::MacAddr;
use wire::tcp::{Flags, Header, Timestamps};
use wire::{Ecn, FlowKey, SeqNum};

use super::Bench;

fn flow(port: u16) -> FlowKey {
    fixtures::flow(port).reversed()
}

fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|at| fixtures::byte(2, at)).collect()
}

/// A segment of so many bytes.
fn segment(flow: &FlowKey, seq: u32, flags: Flags, len: usize) -> Vec<u8> {
    let header = Header {
        flags: Flags::ACK | flags,
        ..frames::ack(flow, SeqNum(seq))
    };
    from_peer(flow, &header, &payload(len))
}

fn small_rings() -> FunctionConfig {
    FunctionConfig {
        receive_entries: 8,
        small_entries: 8,
        large_entries: 2,
        ..function_config()
    }
}

#[test]
fn buffers_and_drops() {
    let mut bench = Bench::with(nic_config(), small_rings());
    let data = |len| segment(&flow(1), 100, Flags::PSH, len);
    bench.bring(&data(10));
    bench.settle("no buffers");
    bench.host().fill(2, 0);
    for len in [0, 10, 1400] {
        bench.bring(&data(len));
    }
    bench.settle("two small buffers, three frames");
    bench.host().fill(1, 0);
    bench.nic.handle_frame(bench.now, &data(4000), VALID);
    bench.settle("too large for a small one");
    bench.host().fill(0, 1);
    bench.nic.handle_frame(bench.now, &data(4000), VALID);
    bench.settle("with a large one");
    bench.host().fill(8, 2);
    for port in 0..12 {
        bench.bring(&segment(&flow(port), 1, Flags::PSH, 5));
    }
    bench.settle("more than the ring takes");
    bench.host().fill(2, 0);
    bench.bring(&data(77));
    bench.settle("and then");
    for (offset, len, region) in [(1 << 40, 2048, 0), (0, 2048, 99), (0, 40, 0), (0, 64, 0)] {
        let region = RegionId(region);
        let buffer = Slice {
            offset,
            len,
            region,
        };
        let _ = bench.host().queues[0].small.push(buffer);
    }
    bench.settle("bad buffers");
    bench.bring(&data(20));
    bench.settle("which are found when they are needed");
    bench.end("receive_buffers");
}

#[test]
fn addresses_and_malformed_frames() {
    let mut bench = Bench::with(nic_config(), function_config());
    bench.attach(FunctionConfig {
        mac: MacAddr([2, 0, 0, 0, 0, 3]),
        ..function_config()
    });
    bench.hosts.iter_mut().for_each(|host| host.fill(64, 0));
    let good = segment(&flow(1), 100, Flags::PSH, 100);
    for to in [
        HOST,
        MacAddr([2, 0, 0, 0, 0, 3]),
        MacAddr([2, 0, 0, 0, 0, 4]),
        MacAddr::BROADCAST,
        MacAddr([0x33, 0x33, 0, 0, 0, 1]),
    ] {
        let mut frame = good.clone();
        frame[..6].copy_from_slice(&to.0);
        bench.bring(&frame);
        bench.settle(format!("to {to}"));
    }
    for len in [0, 5, 6, 13, 14, 20, 33, 34, 40, 53, 54, 100, 153] {
        bench.bring(&good[..len]);
        bench.settle(format!("cut to {len}"));
    }
    let mut longer = good.clone();
    longer.extend([0; 9]);
    bench.bring(&longer);
    bench.settle("bytes behind it");
    for (at, value) in [
        (14, 0x65),
        (14, 0x44),
        (14, 0x4f),
        (16, 0xff),
        (17, 10),
        (20, 0x20),
        (21, 9),
        (22, 0),
        (23, 17),
        (23, 1),
        (24, 7),
        (46, 0x40),
        (46, 0xf0),
        (50, 1),
        (60, 1),
        (12, 0x88),
        (13, 0x06),
        (12, 0x81),
    ] {
        let mut wrong = good.clone();
        wrong[at] = value;
        bench.bring(&wrong);
        bench.settle(format!("byte {at} is {value}"));
    }
    let stamped = Header {
        options: wire::tcp::Options {
            timestamps: Some(Timestamps { val: 7, echo: 8 }),
            ..Default::default()
        },
        ..frames::ack(&flow(1), SeqNum(5))
    };
    let stamped = from_peer(&flow(1), &stamped, b"stamped");
    for (at, value) in [(54, 2), (55, 0), (56, 3), (57, 1), (57, 200), (61, 9)] {
        let mut wrong = stamped.clone();
        wrong[at] = value;
        bench.nic.handle_frame(bench.now, &wrong, VALID);
        bench.settle(format!("option's byte {at} is {value}"));
    }
    let id = bench.host().id;
    bench.nic.inject(id, Fault::DropFrames(2));
    for _ in 0..3 {
        bench.bring(&good);
    }
    bench.settle("two of three are dropped on purpose");
    for meta in [
        FrameMeta {
            checksum_valid: true,
            ..FrameMeta::default()
        },
        FrameMeta {
            needs_checksum: Some((34, 16)),
            ..FrameMeta::default()
        },
        FrameMeta::default(),
    ] {
        let mut wrong = good.clone();
        wrong[60] ^= 1;
        bench.nic.handle_frame(bench.now, &wrong, meta);
        bench.settle(format!("a wrong sum, {meta:?}"));
    }
    bench.end("receive_refusals");
}

#[test]
fn merging() {
    let mut bench = Bench::with(nic_config(), function_config());
    bench.host().refill();
    let (a, b, c) = (flow(1), flow(2), fixtures::flow_v6(3).reversed());
    let none = Flags::NONE;
    let mut seq = 1000;
    for (name, flags, len) in [
        ("nothing", none, 100),
        ("as long", none, 100),
        ("longer", none, 101),
        ("shorter", none, 50),
        ("behind a short one", none, 100),
        ("pushed", Flags::PSH, 100),
        ("behind a push", none, 100),
        ("FIN", Flags::FIN, 100),
        ("urgent", Flags::URG, 100),
        ("ECE", Flags::ECE, 100),
        ("CWR", Flags::CWR, 100),
        ("no bytes", none, 0),
        ("reset", Flags::RST, 0),
    ] {
        for (flow, at) in [(&a, seq), (&b, seq), (&c, seq)] {
            bench.bring(&segment(flow, at, none, 100));
            bench.bring(&segment(flow, at + 100, flags, len));
            bench.bring(&segment(flow, at + 100 + len as u32, none, 70));
        }
        seq += 270;
        bench.settle(name);
        bench.host().refill();
    }
    for (name, by) in [
        ("a gap", 1u32),
        ("again", 0u32.wrapping_sub(100)),
        ("inside", 0u32.wrapping_sub(50)),
    ] {
        bench.bring(&segment(&a, seq, none, 100));
        bench.bring(&segment(&a, (seq + 100).wrapping_add(by), none, 100));
        seq += 300;
        bench.settle(name);
    }
    for ecn in [Ecn::Ect0, Ecn::Ce, Ecn::Ce, Ecn::NotEct] {
        let mut frame = segment(&a, seq, none, 100);
        mark(&mut frame, ecn);
        bench.bring(&frame);
        seq += 100;
    }
    bench.settle("marks");
    let numbers = [
        (1000, 1000, 5, 1),
        (1001, 1000, 5, 1),
        (1001, 900, 5, 1),
        (999, 900, 5, 1),
    ];
    for (ack, window, val, echo) in numbers
        .into_iter()
        .chain([(999, 900, 6, 3), (999, 900, 4, 3)])
    {
        let mut header = frames::ack(&a, SeqNum(seq));
        (header.ack, header.window) = (SeqNum(ack), window);
        header.options.timestamps = Some(Timestamps { val, echo });
        bench.bring(&from_peer(&a, &header, &payload(100)));
        seq += 100;
    }
    bench.settle("acknowledgments, windows and timestamps");
    bench.host().refill();
    for (gso_size, len) in [(1448, 1448), (1448, 1449), (1000, 20_000), (1448, 60_000)] {
        let meta = FrameMeta { gso_size, ..VALID };
        let frame = segment(&b, seq, none, len);
        bench.nic.handle_frame(bench.now, &frame, meta);
        seq += len as u32;
    }
    bench.settle("frames that stand for several");
    bench.host().refill();
    for _ in 0..50 {
        bench.bring(&segment(&b, seq, none, 1448));
        seq += 1448;
    }
    bench.settle("more than an IP length says");
    bench.host().refill();
    for round in 0..2 {
        for port in 10..30 {
            bench.bring(&segment(&flow(port), 100 * round, none, 100));
        }
    }
    bench.settle("more flows than there are sessions");
    bench.end("receive_merging");
}

fn set(bench: &mut Bench, settings: &RssSettings) {
    let host = bench.host();
    host.memory.write(64, &settings.encode());
    let settings = host.memory.slice(64, RSS_BYTES as u32);
    bench.post(&SendDescriptor::SetRss { settings });
    bench.settle("settings");
    let into = bench.host().memory.slice(4096, RSS_BYTES as u32);
    bench.post(&SendDescriptor::QueryRss { into });
    bench.settle("and asked");
    let bytes = bench.host().memory.read(4096, RSS_BYTES);
    bench.say(format!("  {:016x}", testkit::written::sum(&bytes)));
}

/// Frames of all that is hashed.
fn frames_to_spread() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for port in 1..4 {
        all.push(segment(&flow(port), 100, Flags::PSH, 10));
        let v6 = fixtures::flow_v6(port).reversed();
        all.push(segment(&v6, 100, Flags::PSH, 10));
    }
    let [v4, v6] = [all[0].clone(), all[1].clone()];
    let datagram = |fragment: u16, protocol: u8| {
        let mut frame = v4.clone();
        frame[20..22].copy_from_slice(&fragment.to_be_bytes());
        frame[23] = protocol;
        frame[24..26].fill(0);
        wire::ipv4::fill_checksum(&mut frame[14..34]);
        frame
    };
    all.extend(
        [(0, 17), (0x2000, 17), (7, 17), (7, 6), (0, 1), (0, 132)].map(|(a, b)| datagram(a, b)),
    );
    for protocol in [17, 44, 58] {
        let mut frame = v6.clone();
        frame[20] = protocol;
        all.push(frame);
    }
    let mut other = v4;
    other[12..14].copy_from_slice(&[0x88, 0xb5]);
    all.push(other);
    all
}

#[test]
fn spreading() {
    let config = FunctionConfig {
        features: Features::ALL,
        queues: 4,
        ..function_config()
    };
    let mut bench = Bench::with(nic_config(), config);
    bench.host().refill();
    let settings = RssSettings {
        types: HashTypes::ALL,
        key: RssKey(std::array::from_fn(|at| (at * 7 + 1) as u8)),
        table: std::array::from_fn(|at| (at % 3) as u16),
    };
    let types = HashTypes::NONE.with(HashType::Ipv4).with(HashType::UdpIpv6);
    let turned = RssSettings {
        table: std::array::from_fn(|at| (at / 32) as u16),
        key: RssKey(std::array::from_fn(|at| (at * 11 + 5) as u8)),
        ..settings
    };
    let few = RssSettings { types, ..turned };
    let wrong = RssSettings {
        table: [4; RSS_ENTRIES],
        ..settings
    };
    for settings in [None, Some(settings), Some(turned), Some(few), Some(wrong)] {
        if let Some(settings) = settings {
            set(&mut bench, &settings);
        }
        for frame in frames_to_spread() {
            bench.nic.handle_frame(bench.now, &frame, VALID);
        }
        bench.settle("frames");
        bench.host().refill();
    }
    bench.end("receive_spreading");
}

/// Frames that the host puts back, of all lengths.
#[test]
fn put_back() {
    let mut bench = Bench::with(nic_config(), function_config());
    bench.host().refill();
    let v6: FlowKey = fixtures::flow_v6(9).reversed();
    let mut frames = vec![
        segment(&flow(1), 5, Flags::PSH, 1000),
        segment(&flow(1), 1005, Flags::FIN, 0),
        segment(&v6, 5, Flags::PSH, 333),
    ];
    // A sum that was of other packets.
    frames[0][50] ^= 0x55;
    let mut padded = segment(&flow(1), 2000, Flags::PSH, 3);
    padded.extend([9; 8]);
    frames.push(padded);
    let mut datagram = segment(&flow(1), 5, Flags::PSH, 10);
    datagram[23] = 17;
    frames.push(datagram);
    for frame in frames {
        let memory = &bench.host().memory;
        memory.write(0, &frame);
        let slice = memory.slice(0, frame.len() as u32);
        for gso_size in [0, 200] {
            bench.post(&SendDescriptor::Reinject {
                frame: slice,
                gso_size,
            });
            bench.settle(format!("{} bytes, {gso_size}", frame.len()));
        }
    }
    bench.host().memory.write(0, &vec![0; 70_000]);
    let largest = segment(&flow(1), 9000, Flags::PSH, 60_000);
    bench.host().memory.write(0, &largest);
    const MOST: u32 = (64 << 10) + 256;
    for len in [0, 13, 40, 60_054, MOST - 1, MOST, MOST + 1, 1 << 17] {
        let frame = bench.host().memory.slice(0, len);
        bench.post(&SendDescriptor::Reinject { frame, gso_size: 0 });
        bench.settle(format!("{len} bytes"));
    }
    for (offset, region) in [(1 << 40, 0), (0, 7), ((1 << 18) - 50, 0)] {
        let frame = Slice {
            offset,
            len: 100,
            region: RegionId(region),
        };
        bench.post(&SendDescriptor::Reinject { frame, gso_size: 0 });
        bench.settle(format!("from {offset} of {region}"));
    }
    let ends: [(MacAddr, IpAddr); 2] = [(PEER, [10, 0, 0, 9].into()), (HOST, [10, 0, 0, 1].into())];
    let ping = testkit::network::ipv4(ends, 1, 8, |bytes| bytes.fill(1));
    bench.bring(&ping);
    bench.settle("something else");
    bench.end("receive_put_back");
}
