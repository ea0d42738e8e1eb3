//! Receive contexts: what becomes of streams that come in order, with gaps and late pieces, and of questions and answers.

use std::time::Duration;

use l5p::nvme::Role;
use l5p::{Layers, Listed, ResourceId};
use nic::Fault;
use nic::ring::{
    ContextId, CreateContext, Direction, FunctionConfig, InnerPlace, RecvDescriptor, RegionId,
    ResyncResponse, SendDescriptor, Slice,
};
use testkit::bare::{VALID, function_config, nic_config};
use testkit::fixtures::{self, SUITES, aes_128_gcm, crypto, nvme};
use testkit::frames::{self, from_peer};
use testkit::pdus::{Kind, PduStream, data};
use testkit::records::Records;
use wire::{FlowKey, SeqNum};

use super::Bench;

const MSS: usize = 1448;
const FIRST: SeqNum = SeqNum(u32::MAX - 9_000);

fn flow(port: u16) -> FlowKey {
    fixtures::flow(port).reversed()
}

fn bench() -> Bench {
    let config = FunctionConfig {
        contexts: 4,
        tags: 80,
        ..function_config()
    };
    let mut bench = Bench::with(nic_config(), config);
    bench.host().refill();
    bench
}

fn create(bench: &mut Bench, context: u32, port: u16, direction: Direction, layers: &Layers) {
    let flow = match direction {
        Direction::Receive => flow(port),
        Direction::Transmit => fixtures::flow(port),
    };
    bench.post(&SendDescriptor::CreateContext(&CreateContext {
        context: ContextId(context),
        direction,
        flow,
        tcpsn: FIRST,
        layers: layers.clone(),
    }));
    bench.settle(format!("context {context} for port {port}"));
}

/// A packet of a stream comes.
fn packet(bench: &mut Bench, port: u16, stream: &[u8], n: usize) {
    let (from, to) = (n * MSS, ((n + 1) * MSS).min(stream.len()));
    if from < to {
        let header = frames::ack(&flow(port), FIRST + from as u32);
        let frame = from_peer(&flow(port), &header, &stream[from..to]);
        bench.nic.handle_frame(bench.now, &frame, VALID);
    }
}

fn packets(bench: &mut Bench, port: u16, stream: &[u8], numbers: impl IntoIterator<Item = usize>) {
    for n in numbers {
        packet(bench, port, stream, n);
    }
}

fn answer(
    bench: &mut Bench,
    context: u32,
    tcpsn: SeqNum,
    inner: Option<InnerPlace>,
    index: Option<u64>,
) {
    bench.post(&SendDescriptor::ResyncResponse(ResyncResponse {
        context: ContextId(context),
        tcpsn,
        inner,
        confirmed: index.is_some(),
        index: index.unwrap_or(0),
    }));
    bench.settle(format!("answer {context} {} {inner:?} {index:?}", tcpsn.0));
}

/// The question that was asked last.
fn asked(bench: &mut Bench) -> Vec<(SeqNum, Option<InnerPlace>)> {
    bench.nic.flush(bench.now);
    let mut asked = Vec::new();
    while let Some(descriptor) = bench.hosts[0].pop(0) {
        if let RecvDescriptor::ResyncRequest { tcpsn, inner, .. } = descriptor {
            asked.push((tcpsn, inner));
        }
        bench.say(format!("  < {}", super::clip(&format!("{descriptor:?}"))));
    }
    bench.hosts[0].refill();
    asked
}

#[test]
fn records() {
    let mut bench = bench();
    for (context, suite) in SUITES.iter().enumerate().take(3) {
        let keys = crypto(*suite);
        let contents = (0..12u8).map(|n| vec![n; 3_000 + usize::from(n) * 37]);
        let records = Records::of(&keys, contents);
        let (port, id) = (context as u16 + 1, context as u32);
        create(&mut bench, id, port, Direction::Receive, &Layers::of(&keys));
        let mut wire = records.wire.clone();
        for (name, numbers) in [
            ("in order", vec![0, 1, 2]),
            ("twice, and late", vec![4, 3, 3, 5]),
            ("a gap", vec![7, 8, 9, 6]),
        ] {
            packets(&mut bench, port, &wire, numbers);
            bench.settle(name);
            bench.host().refill();
        }
        wire[records.starts[6] - 1] ^= 1;
        packets(&mut bench, port, &wire, 10..20);
        let questions = asked(&mut bench);
        for (tcpsn, inner) in questions {
            let at = FIRST.distance_to(tcpsn) as usize;
            answer(&mut bench, id, tcpsn + 1, inner, Some(9));
            answer(&mut bench, id, tcpsn, inner, records.index_at(at));
            answer(&mut bench, id, tcpsn, inner, records.index_at(at));
        }
        packets(&mut bench, port, &wire, 20..30);
        bench.settle("to the end");
        bench.host().refill();
    }
    bench.end("receive_records");
}

#[test]
fn questions_and_answers() {
    let mut bench = bench();
    let keys = aes_128_gcm();
    let records = Records::of(&keys, (0..30u8).map(|n| vec![n; 2_000]));
    let wire = records.wire.clone();
    let layers = Layers::of(&keys);
    create(&mut bench, 1, 5, Direction::Receive, &layers);
    packets(&mut bench, 5, &wire, [0, 2, 3, 4, 5, 6]);
    let questions = asked(&mut bench);
    bench.say(format!("{} questions", questions.len()));
    for (tcpsn, _) in &questions {
        answer(&mut bench, 1, *tcpsn, None, None);
    }
    packets(&mut bench, 5, &wire, 7..12);
    let questions = asked(&mut bench);
    let inner = InnerPlace {
        layer: 1,
        offset: 3,
    };
    let id = bench.host().id;
    for (tcpsn, _) in questions {
        answer(&mut bench, 3, tcpsn, None, Some(1));
        answer(&mut bench, 1, tcpsn, Some(inner), Some(1));
        bench
            .nic
            .inject(id, Fault::LateAnswers(Duration::from_millis(3)));
        let at = FIRST.distance_to(tcpsn) as usize;
        answer(&mut bench, 1, tcpsn, None, records.index_at(at));
        packets(&mut bench, 5, &wire, 12..14);
        bench.wait(10, 5);
        bench.nic.inject(id, Fault::LateAnswers(Duration::ZERO));
    }
    bench.host().refill();
    packets(&mut bench, 5, &wire, 14..18);
    bench.settle("and on");
    bench.nic.inject(id, Fault::CorruptContexts);
    packets(&mut bench, 5, &wire, 18..24);
    bench.settle("corrupted");
    bench.host().refill();
    bench.nic.inject(id, Fault::RefuseContexts(2));
    for context in [0, 2, 3, 1] {
        create(
            &mut bench,
            context,
            10 + context as u16,
            Direction::Receive,
            &layers,
        );
    }
    packets(&mut bench, 5, &wire, 24..26);
    let context = ContextId(1);
    bench.post(&SendDescriptor::DestroyContext { context });
    bench.settle("destroyed with packets that wait");
    bench.post(&SendDescriptor::DestroyContext { context });
    packets(&mut bench, 5, &wire, 26..28);
    bench.settle("gone");
    bench.end("receive_questions");
}

/// Which contexts there may be.
#[test]
fn contexts_and_quotas() {
    let mut bench = bench();
    let tls = Layers::of(&aes_128_gcm());
    let pdus = Layers::of(&nvme(Role::Controller, true, true));
    let both = Layers::of(&aes_128_gcm()).carrying(&nvme(Role::Controller, false, true));
    for (context, port, direction, layers) in [
        (0, 1, Direction::Receive, &pdus),
        (0, 2, Direction::Receive, &pdus),
        (1, 1, Direction::Receive, &tls),
        (1, 2, Direction::Receive, &both),
        (2, 3, Direction::Receive, &pdus),
        (2, 3, Direction::Receive, &tls),
        (3, 1, Direction::Transmit, &tls),
        (4, 1, Direction::Transmit, &tls),
        (u32::MAX - 1, 1, Direction::Receive, &tls),
    ] {
        create(&mut bench, context, port, direction, layers);
    }
    for context in [0, 0, 3, 2, 1] {
        let context = ContextId(context);
        bench.post(&SendDescriptor::DestroyContext { context });
        bench.settle(format!("{context:?} ends"));
        create(&mut bench, 0, 9, Direction::Receive, &pdus);
    }
    // 80 tags: two contexts have 64 of them, and a third with 16 fits exactly.
    let mut some = nvme(Role::Controller, false, false);
    create(&mut bench, 1, 10, Direction::Receive, &pdus);
    for commands in [17, 16, 1] {
        some.commands = commands;
        create(&mut bench, 2, 11, Direction::Receive, &Layers::of(&some));
        create(&mut bench, 3, 12, Direction::Receive, &Layers::of(&some));
    }
    bench.end("receive_contexts");
}

#[test]
fn placement() {
    let mut bench = bench();
    let parameters = nvme(Role::Controller, true, true);
    let kinds: Vec<Kind> = (0..8).map(|tag| data(tag, 0, 3_000)).collect();
    let stream = PduStream::new(&parameters, &kinds);
    create(
        &mut bench,
        1,
        7,
        Direction::Receive,
        &Layers::of(&parameters),
    );
    let memory = bench.host().memory.clone();
    let context = ContextId(1);
    let far = Slice {
        region: RegionId(44),
        ..memory.slice(0, 10)
    };
    let wide = memory.slice(0, 4000);
    for (tag, slices) in [
        (0, vec![memory.slice(0, 1000), memory.slice(5000, 2000)]),
        (1, vec![memory.slice(10_000, 3000)]),
        (1, vec![memory.slice(10_000, 3000)]),
        (2, vec![memory.slice(20_000, 100)]),
        (3, vec![memory.slice(30_000, 3000)]),
        (4, vec![wide, far]),
        (5, vec![memory.slice((1 << 18) - 5, 10)]),
        (32, vec![wide]),
        (6, vec![memory.slice(40_000, 0)]),
    ] {
        let slices = &slices;
        bench.post(&SendDescriptor::AddRrState {
            context,
            tag,
            slices,
        });
        bench.settle(format!("map {tag}"));
    }
    for (name, numbers) in [
        ("in order", vec![0, 1, 2]),
        ("a gap and late", vec![4, 5, 3, 3, 6]),
        ("all of it again", (0..8).collect()),
    ] {
        packets(&mut bench, 7, &stream.wire, numbers);
        bench.settle(name);
        bench.host().refill();
    }
    for tag in [0, 0, 7, 32] {
        bench.post(&SendDescriptor::DelRrState { context, tag });
        bench.settle(format!("unmap {tag}"));
    }
    packets(&mut bench, 7, &stream.wire, 8..13);
    bench.post(&SendDescriptor::DelRrState { context, tag: 3 });
    bench.settle("unmapped with packets that wait");
    packets(&mut bench, 7, &stream.wire, 13..20);
    bench.post(&SendDescriptor::DestroyContext { context });
    bench.settle("and destroyed");
    bench.post(&SendDescriptor::DelRrState { context, tag: 1 });
    let (tag, slices) = (1, &[wide]);
    bench.post(&SendDescriptor::AddRrState {
        context,
        tag,
        slices,
    });
    bench.settle("too late");
    let bytes = testkit::written::sum(&memory.read(0, 50_000));
    bench.say(format!("memory {bytes:016x}"));
    create(
        &mut bench,
        2,
        8,
        Direction::Receive,
        &Layers::of(&aes_128_gcm()),
    );
    bench.post(&SendDescriptor::AddRrState {
        context: ContextId(2),
        tag,
        slices,
    });
    bench.settle("records are not placed");
    bench.end("receive_placement");
}

/// PDUs in records, and digests that are wrong.
#[test]
fn one_inside_the_other() {
    let mut bench = bench();
    let parameters = nvme(Role::Controller, false, true);
    let kinds: Vec<Kind> = (0..6).map(|tag| data(tag, 0, 2_500)).collect();
    let stream = PduStream::new(&parameters, &kinds);
    let mut wire = stream.wire.clone();
    wire[stream.pdus[3].digest.start] ^= 1;
    let keys = aes_128_gcm();
    let records = Records::of(&keys, wire.chunks(1_700));
    let layers = Layers::of(&keys).carrying(&parameters);
    create(&mut bench, 1, 7, Direction::Receive, &layers);
    let memory = bench.host().memory.clone();
    for tag in 0..6 {
        let slices = &[memory.slice(u64::from(tag) * 3000, 2_500)];
        let context = ContextId(1);
        bench.post(&SendDescriptor::AddRrState {
            context,
            tag,
            slices,
        });
    }
    bench.settle("mapped");
    packets(&mut bench, 7, &records.wire, [0, 1, 3, 4, 2]);
    bench.settle("a gap and late");
    packets(&mut bench, 7, &records.wire, [6, 7, 8, 9, 10, 11]);
    for (tcpsn, inner) in asked(&mut bench) {
        let at = FIRST.distance_to(tcpsn) as usize;
        answer(&mut bench, 1, tcpsn, inner, records.index_at(at));
    }
    packets(&mut bench, 7, &records.wire, 5..14);
    bench.settle("and again");
    let bytes = testkit::written::sum(&memory.read(0, 20_000));
    bench.say(format!("memory {bytes:016x}"));
    bench.end("receive_stacked");
}

/// What contexts share.
#[test]
fn resources() {
    let mut bench = bench();
    let protocol = l5p::pattern::Parameters::ID;
    let memory = bench.host().memory.clone();
    memory.write(0, b"needle");
    let mut is_made = false;
    for (resource, offset, len) in [(1, 0, 6), (1, 0, 6), (2, 1 << 40, 9), (3, (1 << 18) - 4, 9)] {
        let bytes = memory.slice(offset, len);
        let resource = ResourceId(resource);
        bench.post(&SendDescriptor::LoadResource {
            resource,
            protocol,
            bytes,
        });
        bench.hosts[0].publish();
        assert!(bench.nic.poll_transmit(bench.now, &mut []).is_none());
        let loads = usize::from(resource.0 == 1 && !is_made);
        is_made |= resource.0 == 1;
        bench.settle_resources(&format!("load {resource:?}"), loads);
    }
    for resource in [1, 1, 2] {
        let resource = ResourceId(resource);
        bench.post(&SendDescriptor::UnloadResource { resource });
        bench.settle(format!("unload {resource:?}"));
    }
    bench.end("resources");
}
