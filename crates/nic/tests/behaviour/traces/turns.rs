//! Whose turn it is: functions, their queues, commands and frames; and a wire that takes nothing for a while.

use std::time::Instant;

use l5p::{Layers, Listed, ResourceId};
use nic::Nic;
use nic::ring::{
    ContextId, CreateContext, Direction, FunctionConfig, RecoverContext, ResyncResponse,
    SendDescriptor, SendFlags, Verify,
};
use testkit::bare::{function_config, nic_config};
use testkit::fixtures::{self, HOST, PEER, aes_128_gcm};
use testkit::frames::{ack, headers};
use testkit::toe::toe;
use wire::ethernet::MacAddr;
use wire::{SeqNum, packet};

use super::Bench;

const OTHER: MacAddr = MacAddr([2, 0, 0, 0, 0, 4]);

fn header(mac: MacAddr, to: MacAddr, port: u16) -> Vec<u8> {
    let mut flow = fixtures::flow(50_000);
    flow.src.1 = port;
    headers(mac, to, &flow, &ack(&flow, SeqNum(0)))
}

fn attach(bench: &mut Bench, mac: MacAddr, queues: u16) {
    bench.attach(FunctionConfig {
        mac,
        queues,
        send_entries: 256,
        ..function_config()
    });
    let host = bench.hosts.last_mut().expect("a host");
    host.fill(16, 2);
}

fn post(bench: &mut Bench, host: usize, queue: usize, to: MacAddr, len: u32) {
    let host = &mut bench.hosts[host];
    let port = 100 * u16::from(host.config.mac.0[5]) + queue as u16;
    let header = header(host.config.mac, to, port);
    let payload = [host.memory.slice(0, len)];
    let send = SendDescriptor::Send {
        header: &header,
        mss: 1448,
        context: None,
        flags: SendFlags::CHECKSUM,
        payload: &payload,
    };
    host.queues[queue].send.post(&send).expect("room");
}

/// What leaves next.
fn next(nic: &mut Nic, now: Instant) -> Option<(u16, usize)> {
    let mut out = [0; 1514];
    let (len, _) = nic.poll_transmit(now, &mut out)?;
    let parsed = packet::parse(&out[..len]).expect("a segment");
    Some((parsed.flow.src.1, len))
}

/// Frames as they leave: runs of the same queue's, each with what was given back of the send rings by then.
fn runs(bench: &mut Bench, most: usize) {
    bench.hosts.iter_mut().for_each(|host| host.publish());
    let (mut run, mut count, mut bytes) = (None, 0, 0);
    for _ in 0..most {
        let left = next(&mut bench.nic, bench.now);
        let now = left.map(|(port, _)| (port, done(bench)));
        if run.is_some() && run != now {
            bench.say(format!("  {run:?}: {count} frames, {bytes} bytes"));
            (count, bytes) = (0, 0);
        }
        run = now;
        let Some((_, len)) = left else { return };
        (count, bytes) = (count + 1, bytes + len);
    }
    bench.say(format!(
        "  {run:?}: {count} frames, {bytes} bytes, and more"
    ));
}

/// Slots that were given back of all send rings.
fn done(bench: &mut Bench) -> Vec<Vec<u64>> {
    let hosts = bench.hosts.iter_mut();
    let done = hosts.map(|host| {
        host.queues
            .iter_mut()
            .map(|it| it.send.completed())
            .collect()
    });
    done.collect()
}

#[test]
fn functions_and_queues_take_turns() {
    let mut bench = Bench::new(nic_config());
    attach(&mut bench, HOST, 1);
    attach(&mut bench, OTHER, 3);
    attach(&mut bench, MacAddr([2, 0, 0, 0, 0, 5]), 2);
    for _ in 0..3 {
        post(&mut bench, 0, 0, PEER, 200_000);
        for queue in 0..3 {
            post(&mut bench, 1, queue, PEER, 100_000);
        }
        post(&mut bench, 2, 1, PEER, 150_000);
    }
    runs(&mut bench, 300);
    bench.say("a function goes");
    let gone = bench.hosts.remove(1);
    assert!(bench.nic.detach(gone.id));
    runs(&mut bench, 400);
    attach(&mut bench, OTHER, 2);
    for queue in [1, 0, 1, 0] {
        post(&mut bench, 2, queue, PEER, 10_000);
    }
    post(&mut bench, 0, 0, PEER, 10_000);
    post(&mut bench, 1, 0, PEER, 10_000);
    bench.say("and another comes");
    runs(&mut bench, 1000);
    bench.settle("at the end");
    bench.say("the one in turn goes");
    for host in 0..3 {
        post(&mut bench, host, 0, PEER, 20_000);
        post(&mut bench, host, 0, PEER, 20_000);
    }
    runs(&mut bench, 3);
    let gone = bench.hosts.remove(0);
    assert!(bench.nic.detach(gone.id));
    runs(&mut bench, 100);
    bench.end("turns");
}

/// Commands cost as much as they read.
#[test]
fn commands_take_turns_with_frames() {
    let mut bench = Bench::new(nic_config());
    attach(&mut bench, HOST, 1);
    attach(&mut bench, OTHER, 1);
    let sends = |bench: &mut Bench| {
        for _ in 0..6 {
            post(bench, 1, 0, PEER, 130_000);
        }
    };
    bench.say("nothing but commands");
    let stale = ResyncResponse {
        context: ContextId(2),
        tcpsn: SeqNum(5),
        inner: None,
        confirmed: true,
        index: 1,
    };
    create(&mut bench, 2, Direction::Receive);
    for _ in 0..200 {
        bench.post(&SendDescriptor::ResyncResponse(stale));
    }
    sends(&mut bench);
    runs(&mut bench, 1000);
    bench.settle("done");
    bench.say("resources");
    let memory = bench.host().memory.clone();
    for resource in 0..12 {
        bench.post(&SendDescriptor::LoadResource {
            resource: ResourceId(resource),
            protocol: l5p::pattern::Parameters::ID,
            bytes: memory.slice(0, 50_000),
        });
    }
    sends(&mut bench);
    runs(&mut bench, 1000);
    bench.settle_resources("done", 8);
    bench.say("recoveries");
    recoveries(&mut bench);
    sends(&mut bench);
    runs(&mut bench, 1000);
    bench.settle("done");
    bench.end("turns_of_commands");
}

fn create(bench: &mut Bench, context: u32, direction: Direction) {
    bench.post(&SendDescriptor::CreateContext(&CreateContext {
        context: ContextId(context),
        direction,
        flow: fixtures::flow(1),
        tcpsn: SeqNum(0),
        layers: Layers::of(&aes_128_gcm()),
    }));
}

/// A context, and how it is brought to places of a record of 16 KiB.
fn recoveries(bench: &mut Bench) {
    let memory = bench.host().memory.clone();
    memory.write(0, &[23, 3, 3, 0x40, 0x10]);
    create(bench, 3, Direction::Transmit);
    for verify in [Verify::None, Verify::Seek, Verify::None, Verify::Seek] {
        for at in (2_000..16_000).step_by(1_000) {
            let prefix = [memory.slice(0, at)];
            let recover = RecoverContext {
                context: ContextId(3),
                start: SeqNum(0),
                index: 0,
                len: 16_405,
                resume: SeqNum(at),
                verify,
                inner: None,
                toe: None,
            };
            let prefix = &prefix[..usize::from(verify == Verify::None)];
            bench.post(&SendDescriptor::RecoverContext { recover, prefix });
        }
    }
}

#[test]
fn frames_for_other_functions_do_not_leave() {
    let mut bench = Bench::new(nic_config());
    attach(&mut bench, HOST, 1);
    attach(&mut bench, OTHER, 1);
    for (from, to, len) in [
        (0, OTHER, 3000),
        (1, HOST, 100),
        (0, HOST, 100),
        (0, MacAddr::BROADCAST, 10),
        (1, MacAddr([1, 0, 0x5e, 0, 0, 1]), 10),
        (0, PEER, 10),
    ] {
        post(&mut bench, from, 0, to, len);
        bench.settle(format!("{from} to {to}"));
    }
    for _ in 0..200 {
        post(&mut bench, 0, 0, OTHER, 8_000);
    }
    bench.hosts[0].publish();
    let mut out = [0; 1514];
    for _ in 0..3 {
        let left = bench.nic.poll_transmit(bench.now, &mut out).is_some();
        let again = bench.nic.poll_timeout().is_some();
        let sleeps = bench.nic.prepare_sleep();
        bench.nic.cancel_sleep();
        let looped = bench.nic.counters().tx_loopback_packets;
        bench.say(format!("{left} {again} {sleeps} {looped}"));
    }
    bench.settle("many");
    bench.end("turns_between_functions");
}

/// A wire that takes a frame now and then, and a host that takes none of its completions.
#[test]
fn back_pressure() {
    let mut bench = Bench::with(
        nic_config(),
        FunctionConfig {
            receive_entries: 4,
            send_entries: 256,
            ..function_config()
        },
    );
    for _ in 0..4 {
        post(&mut bench, 0, 0, PEER, 6_000);
    }
    bench.hosts[0].publish();
    for step in 0..20 {
        let left = next(&mut bench.nic, bench.now);
        if step % 3 == 2 {
            bench.nic.flush(bench.now);
        }
        let sleeps = bench.nic.prepare_sleep();
        bench.nic.cancel_sleep();
        let completed = bench.host().queues[0].send.completed();
        bench.say(format!("{left:?} done {completed} {sleeps}"));
    }
    for context in 0..200 {
        let context = ContextId(context % 5);
        bench.post(&SendDescriptor::DestroyContext { context });
    }
    post(&mut bench, 0, 0, PEER, 100);
    let flow = fixtures::flow(9);
    bench.host().begin(0, toe(1), flow);
    bench.hosts[0].publish();
    for _ in 0..4 {
        let left = next(&mut bench.nic, bench.now);
        bench.nic.flush(bench.now);
        let waits = bench.nic.poll_timeout().map(|at| at - bench.now);
        let completed = bench.host().queues[0].send.completed();
        let errors = bench.nic.counters().tx_errors;
        bench.say(format!(
            "{left:?} done {completed} errors {errors} {waits:?}"
        ));
    }
    for round in 0..60 {
        bench.pass(1_000);
        bench.settle(format!("round {round}"));
    }
    bench.end("turns_back_pressure");
}
