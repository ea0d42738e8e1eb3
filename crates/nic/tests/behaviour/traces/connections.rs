//! Connections that the device runs: their commands, in which order they are done with what is on the send ring, and what they send.

use l5p::Layers;
use nic::ring::toe::{ToeCommand, ToeOption};
use nic::ring::{
    ContextId, CreateContext, Direction, FunctionConfig, RecoverContext, SendDescriptor, SendFlags,
    Slice, Verify,
};
use testkit::bare::{function_config, nic_config};
use testkit::fixtures::{self, HOST, PEER, aes_128_gcm};
use testkit::frames::{self, from_peer, headers};
use testkit::toe::{established, image, toe};
use wire::tcp::{Flags, Header};
use wire::{FlowKey, SeqNum};

use super::Bench;

/// First positions of our streams, and of the peers'.
pub(super) const OURS: SeqNum = SeqNum(1001);
pub(super) const THEIRS: SeqNum = SeqNum(5001);

pub(super) fn bench() -> Bench {
    let mut bench = Bench::with(
        nic_config(),
        FunctionConfig {
            contexts: 8,
            toe_connections: 8,
            command_entries: 64,
            ..function_config()
        },
    );
    bench.host().fill(64, 4);
    bench
}

pub(super) fn flow(index: u32) -> FlowKey {
    fixtures::flow(1000 + index as u16)
}

fn command(bench: &mut Bench, command: ToeCommand<'_>) {
    bench.host().command(0, command);
}

fn begin(bench: &mut Bench, index: u32) {
    let flow = flow(index);
    bench.host().begin(0, toe(index), flow);
}

fn offer(bench: &mut Bench, index: u32) {
    let config = tcp::Config {
        timestamps: false,
        ..tcp::Config::default()
    };
    let (flow, now) = (flow(index), bench.now);
    let [host, _] = established(now, &config, &flow, OURS - 1, THEIRS - 1);
    let image = image(now, &host);
    bench.host().offer(0, toe(index), flow, &image);
}

pub(super) fn hand_off(bench: &mut Bench, index: u32) {
    begin(bench, index);
    bench.settle(format!("begin {index}"));
    offer(bench, index);
    bench.settle(format!("offer {index}"));
}

pub(super) fn send(
    bench: &mut Bench,
    index: u32,
    seq: SeqNum,
    context: Option<ContextId>,
    payload: &[Slice],
) {
    command(
        bench,
        ToeCommand::Send {
            toe: toe(index),
            seq,
            context,
            flags: SendFlags::NONE,
            payload,
        },
    );
}

/// A segment of the peer's.
fn segment(bench: &mut Bench, index: u32, seq: SeqNum, ack: SeqNum, flags: Flags, payload: &[u8]) {
    let flow = flow(index).reversed();
    let header = Header {
        ack,
        flags: Flags::ACK | flags,
        window: 60_000,
        ..frames::ack(&flow, seq)
    };
    bench.bring(&from_peer(&flow, &header, payload));
}

/// A packet of the host's own.
pub(super) fn post(bench: &mut Bench, port: u16, context: Option<ContextId>, len: u32) {
    let flow = fixtures::flow(port);
    let header = headers(HOST, PEER, &flow, &frames::ack(&flow, SeqNum(0)));
    let payload = [bench.host().memory.slice(0, len)];
    bench.post(&SendDescriptor::Send {
        header: &header,
        mss: 1000,
        context,
        flags: SendFlags::CHECKSUM,
        payload: &payload,
    });
}

#[test]
fn what_connections_send() {
    let mut bench = bench();
    hand_off(&mut bench, 0);
    let memory = bench.host().memory.clone();
    let mut seq = OURS;
    let no_delay = ToeCommand::Option {
        toe: toe(0),
        option: ToeOption::NoDelay(true),
    };
    command(&mut bench, no_delay);
    for len in [1, 1459, 1460, 1461, 2920, 2921, 5000] {
        let payload = [
            memory.slice(3, len / 2 + 1),
            memory.slice(9000, len - len / 2 - 1),
        ];
        let payload = &payload[..1 + usize::from(len > 1)];
        send(&mut bench, 0, seq, None, payload);
        bench.settle(format!("{len} bytes"));
        seq += len;
        bench.pass(1_000);
        segment(&mut bench, 0, THEIRS, seq, Flags::NONE, b"");
        bench.settle("acknowledged");
    }
    bench.say(format!("{}", bench.nic.counters().toe_tx_segments));
    let payload = [memory.slice(0, 3000)];
    send(&mut bench, 0, seq + 1, None, &payload);
    bench.settle("at the wrong place");
    send(&mut bench, 0, seq, None, &payload);
    bench.settle("lost");
    bench.wait(1_000, 4);
    segment(&mut bench, 0, THEIRS, seq + 3000, Flags::PSH, b"an answer");
    bench.settle("which is answered");
    command(
        &mut bench,
        ToeCommand::Consumed {
            toe: toe(0),
            bytes: 9,
        },
    );
    command(&mut bench, ToeCommand::Close { toe: toe(0) });
    bench.settle("closed");
    segment(&mut bench, 0, THEIRS + 9, seq + 3001, Flags::FIN, b"");
    bench.settle("by both");
    bench.end("connection_sends");
}

/// A command goes behind what was on the send ring before it, and before what comes later.
#[test]
fn commands_are_behind_what_was_sent_before() {
    let mut bench = bench();
    hand_off(&mut bench, 0);
    hand_off(&mut bench, 1);
    let memory = bench.host().memory.clone();
    let payload = [memory.slice(0, 700)];
    let mut seqs = [OURS; 2];
    for round in 0..4u32 {
        post(&mut bench, 60, None, 2500);
        for (index, seq) in (0..).zip(&mut seqs) {
            send(&mut bench, index, *seq, None, &payload);
            *seq += 700;
            if round % 2 == 1 {
                post(&mut bench, 61 + index as u16, None, 10);
            }
        }
        let mut out = [0; 2048];
        bench.hosts[0].publish();
        for _ in 0..12 {
            let left = bench.nic.poll_transmit(bench.now, &mut out);
            let (sent, done) = {
                let queue = &mut bench.host().queues[0];
                (queue.send.completed(), queue.commands.completed())
            };
            let told = left.map(|(len, meta)| super::told(&out[..len], meta));
            let counted = bench.nic.counters().toe_commands;
            bench.say(format!(
                "{round} {} {sent} {done} {counted}",
                told.unwrap_or_default()
            ));
            if round == 2 {
                post(&mut bench, 70, None, 5);
                bench.hosts[0].publish();
            }
            if left.is_none() {
                break;
            }
        }
        bench.settle("then");
    }
    bench.end("connection_order");
}

#[test]
fn commands_and_refusals() {
    let mut bench = bench();
    let bad = ToeCommand::Send {
        toe: toe(0),
        seq: OURS,
        context: None,
        flags: SendFlags::NONE,
        payload: &[],
    };
    command(&mut bench, bad);
    bench.settle("a send of nothing");
    for index in [0, 0, 8, 7] {
        begin(&mut bench, index);
        bench.settle(format!("begin {index}"));
    }
    offer(&mut bench, 3);
    bench.settle("what was not begun");
    command(&mut bench, ToeCommand::Cancel { toe: toe(7) });
    command(&mut bench, ToeCommand::Cancel { toe: toe(7) });
    bench.settle("cancelled");
    segment(&mut bench, 0, THEIRS, OURS, Flags::PSH, b"held");
    bench.settle("held");
    offer(&mut bench, 0);
    bench.settle("offered");
    offer(&mut bench, 0);
    bench.settle("again");
    for (name, seq, payload) in [
        ("in order", THEIRS, &b"held"[..]),
        ("over a gap", THEIRS + 10, b"later"),
        ("the gap", THEIRS + 4, b"filled"),
        ("again", THEIRS + 4, b"filled"),
    ] {
        segment(&mut bench, 0, seq, OURS, Flags::PSH, payload);
        bench.settle(name);
    }
    let toe = toe(0);
    command(&mut bench, ToeCommand::Consumed { toe, bytes: 1000 });
    command(&mut bench, ToeCommand::Consumed { toe, bytes: 15 });
    bench.settle("more than there was");
    for on in [true, false] {
        let option = ToeOption::Cork(on);
        command(&mut bench, ToeCommand::Option { toe, option });
        let payload = [bench.host().memory.slice(0, 10)];
        let seq = if on { OURS } else { OURS + 10 };
        send(&mut bench, 0, seq, None, &payload);
        bench.settle(format!("{option:?}"));
    }
    let context = ContextId(2);
    for (name, descriptor) in [
        (
            "no such descriptor there",
            SendDescriptor::DestroyContext { context },
        ),
        (
            "nor a packet",
            SendDescriptor::UnloadResource {
                resource: l5p::ResourceId(1),
            },
        ),
    ] {
        let queue = &mut bench.host().queues[0];
        queue.commands.post(&descriptor).expect("room");
        bench.settle(name);
    }
    let raw = [7; nic::ring::SLOT_WORDS];
    bench.host().queues[0]
        .commands
        .post_raw(&raw)
        .expect("room");
    bench.settle("nor nonsense");
    bench.post(&SendDescriptor::Toe(ToeCommand::Close { toe }));
    bench.settle("nor this on the send ring");
    begin(&mut bench, 5);
    bench.settle("begun and left");
    bench.wait(1_500, 6);
    command(&mut bench, ToeCommand::Restore { toe });
    command(&mut bench, ToeCommand::Restore { toe });
    bench.settle("asked back");
    hand_off(&mut bench, 1);
    let toe = testkit::toe::toe(1);
    command(&mut bench, ToeCommand::Detach { toe });
    segment(&mut bench, 1, THEIRS, OURS, Flags::NONE, b"to nobody");
    bench.settle("detached");
    hand_off(&mut bench, 2);
    let toe = testkit::toe::toe(2);
    command(&mut bench, ToeCommand::Abort { toe });
    bench.settle("aborted");
    bench.end("connection_commands");
}

/// A context of a connection that goes back, and what its host answers.
#[test]
fn contexts_of_connections() {
    let mut bench = bench();
    let record = 1000;
    let memory = bench.host().memory.clone();
    for at in [0, 1000, 2000] {
        memory.write(at, &[23, 3, 3, 0x03, 0xe3]);
    }
    let context = ContextId(3);
    bench.post(&SendDescriptor::CreateContext(&CreateContext {
        context,
        direction: Direction::Transmit,
        flow: flow(0),
        tcpsn: OURS,
        layers: Layers::of(&aes_128_gcm()),
    }));
    hand_off(&mut bench, 0);
    send(
        &mut bench,
        0,
        OURS,
        Some(context),
        &[memory.slice(0, 3 * record)],
    );
    bench.settle("three records");
    bench.wait(1_000, 2);
    let recover = |toe, index: u64, resume: u32| SendDescriptor::RecoverContext {
        recover: RecoverContext {
            context,
            start: OURS + record * index as u32,
            index,
            len: record,
            resume: OURS + record * index as u32 + resume,
            verify: Verify::None,
            inner: None,
            toe,
        },
        prefix: &[],
    };
    let toe = toe(0);
    let resume = |at: u32, len| ToeCommand::Resume {
        toe,
        context,
        tcpsn: OURS + at,
        len,
    };
    let other = testkit::toe::toe(1);
    for (name, toe) in [
        ("for nobody", None),
        ("for another", Some(other)),
        ("right", Some(toe)),
    ] {
        let queue = &mut bench.host().queues[0];
        queue.commands.post(&recover(toe, 0, 0)).expect("room");
        bench.settle(name);
    }
    command(&mut bench, resume(0, record));
    bench.settle("resumed");
    let mut to_the_end = recover(Some(toe), 2, 920);
    let before = [memory.slice(2 * u64::from(record), 920)];
    if let SendDescriptor::RecoverContext { prefix, .. } = &mut to_the_end {
        *prefix = &before;
    }
    let queue = &mut bench.host().queues[0];
    queue.commands.post(&to_the_end).expect("room");
    command(&mut bench, resume(2920, 80));
    bench.settle("where it was asked for");
    bench.wait(5_000, 4);
    let queue = &mut bench.host().queues[0];
    queue
        .commands
        .post(&recover(Some(toe), 1, 10))
        .expect("room");
    bench.settle("without what is before");
    bench.post(&recover(Some(toe), 0, 0));
    bench.settle("on the other ring");
    bench.post(&SendDescriptor::DestroyContext { context });
    bench.settle("its context goes");
    command(&mut bench, resume(0, record));
    bench.settle("resumed without it");
    segment(&mut bench, 0, THEIRS, OURS + 3 * record, Flags::NONE, b"");
    bench.settle("it is the host's");
    bench.end("connection_contexts");
}
