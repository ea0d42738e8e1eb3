//! Frames that leave: how packets are cut, which contexts they go through, and what is refused.

use l5p::Layers;
use l5p::nvme::Role;
use nic::ring::{
    ContextId, CreateContext, Direction, FunctionConfig, RecoverContext, RegionId, SendDescriptor,
    SendFlags, Slice, Verify,
};
use nic::{NicConfig, WireCapabilities};
use testkit::bare::{MEMORY, function_config, nic_config};
use testkit::fixtures::{self, HOST, PEER, SUITES, aes_128_gcm, crypto, nvme};
use testkit::frames::{self, headers};
use testkit::pdus::{Kind, PduStream, data};
use testkit::records::Records;
use wire::tcp::{Flags, Header, Options, Timestamps};
use wire::{FlowKey, SeqNum};

use super::Bench;

const WIRES: [WireCapabilities; 3] = [
    WireCapabilities {
        tso: false,
        checksum: false,
    },
    WireCapabilities {
        tso: false,
        checksum: true,
    },
    WireCapabilities {
        tso: true,
        checksum: true,
    },
];

fn on(wire: WireCapabilities) -> Bench {
    let nic = NicConfig {
        wire,
        ..nic_config()
    };
    let config = FunctionConfig {
        contexts: 4,
        ..function_config()
    };
    let mut bench = Bench::with(nic, config);
    bench.host().fill(8, 0);
    bench
}

fn header(flow: &FlowKey, seq: SeqNum, flags: Flags) -> Vec<u8> {
    let header = Header {
        flags: Flags::ACK | flags,
        ..frames::ack(flow, seq)
    };
    headers(HOST, PEER, flow, &header)
}

fn send(bench: &mut Bench, header: &[u8], mss: u16, flags: SendFlags, payload: &[Slice]) {
    bench.post(&SendDescriptor::Send {
        header,
        mss,
        context: None,
        flags,
        payload,
    });
}

#[test]
fn segmentation() {
    for (number, wire) in WIRES.into_iter().enumerate() {
        let mut bench = on(wire);
        let (v4, v6) = (fixtures::flow(1), fixtures::flow_v6(1));
        let seq = SeqNum(u32::MAX - 2000);
        let all = Flags::PSH | Flags::FIN;
        for (flow, mss, len, flags) in [
            (v4, 0, 0, Flags::NONE),
            (v4, 0, 1, Flags::PSH),
            (v4, 0, 1460, all),
            (v4, 1000, 0, all),
            (v4, 1000, 999, all),
            (v4, 1000, 1000, all),
            (v4, 1000, 1001, all),
            (v4, 1000, 2000, all),
            (v4, 1000, 2001, Flags::CWR | Flags::PSH),
            (v4, 1, 4, Flags::FIN),
            (v6, 1440, 1440, all),
            (v6, 1440, 1441, all),
            (v6, 700, 2100, Flags::ECE | Flags::CWR),
        ] {
            let memory = &bench.host().memory;
            let payload = [memory.slice(7, len / 2), memory.slice(9000, len - len / 2)];
            let header = header(&flow, seq, flags);
            send(&mut bench, &header, mss, SendFlags::CHECKSUM, &payload);
            bench.settle(format!("{len} by {mss}, {}", super::flags(flags)));
        }
        let stamped = Header {
            options: Options {
                timestamps: Some(Timestamps { val: 7, echo: 8 }),
                ..Options::default()
            },
            ..frames::ack(&v4, seq)
        };
        let stamped = headers(HOST, PEER, &v4, &stamped);
        let memory = bench.host().memory.clone();
        for len in [1448, 1449, 2896] {
            send(
                &mut bench,
                &stamped,
                1448,
                SendFlags::CHECKSUM,
                &[memory.slice(1, len)],
            );
            bench.settle(format!("{len} with options"));
        }
        let plain = header(&v4, seq, Flags::NONE);
        send(
            &mut bench,
            &plain,
            0,
            SendFlags::NONE,
            &[memory.slice(0, 100)],
        );
        bench.settle("without a sum");
        for slices in [3, 4, 14, 15, 36] {
            let slices: Vec<Slice> = (0..slices).map(|n| memory.slice(n * 100, 90)).collect();
            send(&mut bench, &plain, 500, SendFlags::CHECKSUM, &slices);
            bench.settle(format!("{} slices", slices.len()));
        }
        send(
            &mut bench,
            &plain,
            1460,
            SendFlags::CHECKSUM,
            &[memory.slice(0, 1 << 17)],
        );
        bench.settle("128 KiB");
        bench.end(&format!("transmit_segments_{number}"));
    }
}

#[test]
fn refusals() {
    let mut bench = on(WIRES[0]);
    let flow = fixtures::flow(1);
    let plain = header(&flow, SeqNum(5), Flags::PSH);
    let memory = bench.host().memory.clone();
    let one = |offset, len, region| {
        [Slice {
            offset,
            len,
            region: RegionId(region),
        }]
    };
    for (offset, len, region) in [
        (MEMORY as u64 - 9, 10, 0),
        (u64::MAX, 10, 0),
        (0, 10, 1),
        (0, 10, 99),
        (MEMORY as u64 - 10, 10, 0),
        (0, 1461, 0),
    ] {
        send(
            &mut bench,
            &plain,
            0,
            SendFlags::CHECKSUM,
            &one(offset, len, region),
        );
        bench.settle(format!("{len} from {offset} of {region}"));
    }
    let mut foreign = plain.clone();
    foreign[6] ^= 4;
    let syn = header(&flow, SeqNum(5), Flags::SYN);
    let reset = header(&flow, SeqNum(5), Flags::RST);
    let payload = [memory.slice(0, 1000)];
    for (name, header, mss) in [
        ("too large a part", &plain[..], 1461),
        ("short", &plain[..13], 0),
        ("no header", &plain[..0], 0),
        ("half of a header, not cut", &plain[..53], 0),
        ("half of a header", &plain[..53], 100),
        ("foreign", &foreign, 0),
        ("SYN", &syn, 100),
        ("reset", &reset, 100),
        ("right", &plain, 100),
    ] {
        send(&mut bench, header, mss, SendFlags::CHECKSUM, &payload);
        bench.settle(name);
    }
    let large = [
        memory.slice(0, 1 << 17),
        memory.slice(0, 1 << 17),
        memory.slice(0, 1),
    ];
    send(&mut bench, &plain, 1460, SendFlags::CHECKSUM, &large);
    bench.settle("beyond what a send takes");
    let region = bench.host().memory.id;
    bench.host().regions.unregister(region);
    send(&mut bench, &plain, 0, SendFlags::CHECKSUM, &payload);
    bench.settle("memory that has gone");
    bench.end("transmit_refusals");
}

/// A stream that goes through a context, with its messages.
struct Stream {
    framed: Vec<u8>,
    starts: Vec<usize>,
    layers: Layers,
}

const FIRST: SeqNum = SeqNum(u32::MAX - 3000);
const CONTEXT: ContextId = ContextId(1);

impl Stream {
    fn create(&self, bench: &mut Bench, context: ContextId) {
        bench.host().memory.write(0, &self.framed);
        bench.post(&SendDescriptor::CreateContext(&CreateContext {
            context,
            direction: Direction::Transmit,
            flow: fixtures::flow(1),
            tcpsn: FIRST,
            layers: self.layers.clone(),
        }));
    }

    fn send(&self, bench: &mut Bench, from: usize, to: usize, mss: u16, flags: SendFlags) {
        let memory = bench.host().memory.clone();
        let header = header(&fixtures::flow(1), FIRST + from as u32, Flags::PSH);
        bench.post(&SendDescriptor::Send {
            header: &header,
            mss,
            context: Some(CONTEXT),
            flags: flags.union(SendFlags::CHECKSUM),
            payload: &[memory.slice(from as u64, (to - from) as u32)],
        });
        bench.settle(format!("{from} to {to} by {mss} {flags:?}"));
    }

    /// Brings the context to a place, with what is before it in its message.
    fn recover(&self, bench: &mut Bench, at: usize, verify: Verify) {
        let index = self.starts.partition_point(|start| *start <= at) - 1;
        let (start, end) = (self.starts[index], self.starts[index + 1]);
        let until = match verify {
            Verify::None | Verify::Frontier => at,
            Verify::WholeMessage => end,
            Verify::Seek => start,
        };
        let memory = bench.host().memory.clone();
        let prefix = [memory.slice(start as u64, (until - start) as u32)];
        let recover = RecoverContext {
            context: CONTEXT,
            start: FIRST + start as u32,
            index: index as u64,
            len: (end - start) as u32,
            resume: FIRST + at as u32,
            verify,
            inner: None,
            toe: None,
        };
        let prefix = &prefix[..usize::from(until > start)];
        bench.post(&SendDescriptor::RecoverContext { recover, prefix });
        bench.say(format!("recover {at} {verify:?}"));
    }
}

/// Sends in order, again, over a gap and at the wrong place.
fn go_through(bench: &mut Bench, stream: &Stream) {
    let none = SendFlags::NONE;
    let end = stream.framed.len();
    stream.create(bench, CONTEXT);
    stream.create(bench, CONTEXT);
    stream.create(bench, ContextId(4));
    stream.send(bench, 0, 500, 0, none);
    stream.send(bench, 500, 3000, 700, none);
    stream.send(bench, 3001, 3100, 0, none);
    stream.send(bench, 100, 300, 0, none);
    for verify in [
        Verify::None,
        Verify::Seek,
        Verify::WholeMessage,
        Verify::Frontier,
    ] {
        stream.recover(bench, 100, verify);
        stream.send(bench, 100, 1000, 400, none);
    }
    stream.recover(bench, 2000, Verify::None);
    stream.recover(bench, 3000, Verify::None);
    stream.send(bench, 3000, 3600, 0, none);
    stream.recover(bench, 50, Verify::Seek);
    stream.send(bench, 3600, 4000, 0, none);
    stream.send(bench, 3600, 4000, 0, none);
    stream.recover(bench, 4000, Verify::None);
    stream.send(bench, 4000, end, 1448, none);
    let context = CONTEXT;
    bench.post(&SendDescriptor::DestroyContext { context });
    stream.send(bench, 0, 100, 0, none);
    stream.recover(bench, 100, Verify::None);
    stream.create(bench, CONTEXT);
    stream.send(bench, 0, end, 1448, SendFlags::MUTABLE_SOURCE);
    stream.send(bench, 0, 100, 0, SendFlags::MUTABLE_SOURCE);
    for verify in [Verify::None, Verify::WholeMessage, Verify::Frontier] {
        stream.recover(bench, 60, verify);
        stream.send(bench, 60, 600, 0, SendFlags::MUTABLE_SOURCE);
    }
    bench.host().memory.write(80, b"changed");
    stream.recover(bench, 60, Verify::WholeMessage);
    stream.send(bench, 60, 600, 0, SendFlags::MUTABLE_SOURCE);
}

#[test]
fn records() {
    for (name, suite, wire) in [
        ("transmit_records", SUITES[3], WIRES[0]),
        ("transmit_records_cut", SUITES[2], WIRES[2]),
    ] {
        let keys = crypto(suite);
        let sizes = [800usize, 900, 30, 2000, 1500, 10, 700];
        let records = Records::of(&keys, sizes.iter().map(|len| vec![*len as u8; *len]));
        let stream = Stream {
            framed: records.framed,
            starts: records.starts,
            layers: Layers::of(&keys),
        };
        let mut bench = on(wire);
        go_through(&mut bench, &stream);
        bench.end(name);
    }
}

#[test]
fn pdus() {
    let parameters = nvme(Role::Host, true, true);
    let kinds: Vec<Kind> = [800u32, 900, 30, 2000, 1500, 10, 700]
        .iter()
        .map(|len| data(1, 0, *len))
        .collect();
    let stream = PduStream::new(&parameters, &kinds);
    let stream = Stream {
        framed: stream.framed,
        starts: stream.starts,
        layers: Layers::of(&parameters),
    };
    let mut bench = on(WIRES[0]);
    go_through(&mut bench, &stream);
    bench.end("transmit_pdus");
}

/// Contexts that are made, used and destroyed in the middle of the ring, which goes around.
#[test]
fn contexts_change_in_the_middle_of_the_ring() {
    let nic = nic_config();
    let config = FunctionConfig {
        send_entries: 8,
        contexts: 2,
        ..function_config()
    };
    let mut bench = Bench::with(nic, config);
    bench.host().fill(8, 0);
    let keys = aes_128_gcm();
    let records = Records::of(&keys, [vec![1; 200]]);
    let stream = Stream {
        framed: records.framed,
        starts: records.starts,
        layers: Layers::of(&keys),
    };
    for round in 0..6 {
        for step in 0..9 {
            let memory = bench.host().memory.clone();
            let header = header(&fixtures::flow(1), FIRST, Flags::PSH);
            match step % 4 {
                0 => stream.create(&mut bench, CONTEXT),
                3 => bench.post(&SendDescriptor::DestroyContext { context: CONTEXT }),
                _ => bench.post(&SendDescriptor::Send {
                    header: &header,
                    mss: 0,
                    context: Some(CONTEXT),
                    flags: SendFlags::CHECKSUM,
                    payload: &[memory.slice(0, 100 + round)],
                }),
            }
        }
        bench.settle(format!("round {round}"));
    }
    bench.end("transmit_changes");
}
