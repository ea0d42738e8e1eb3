//! Flows that the device has, in teardown, spliced or run by it; and its own work beside that of a busy host.

use nic::ring::accel::{Leg, Splice, SpliceId, Teardown};
use nic::ring::{FunctionConfig, SendDescriptor, SendFlags};
use testkit::accel::teardown;
use testkit::bare::function_config;
use testkit::fixtures::{self, HOST, PEER};
use testkit::frames::{self, from_peer, headers};
use testkit::network::icmp;
use wire::ethernet::MacAddr;
use wire::icmp::v4::{Message, Unreachable};
use wire::tcp::Header;
use wire::{FlowKey, SeqNum};

use super::Bench;
use super::connections::{OURS, THEIRS, bench, flow, hand_off, post, send};

/// Flows that the device has: what else may be asked of them.
#[test]
fn flows_with_an_owner() {
    let mut bench = bench();
    hand_off(&mut bench, 0);
    let memory = bench.host().memory.clone();
    let closing = teardown(fixtures::flow(9), OURS, THEIRS);
    for (name, flow, len) in [
        ("teardown", fixtures::flow(9), 0),
        ("again", fixtures::flow(9), 0),
        ("of a connection that is run", flow(0), 0),
        ("with data", fixtures::flow(10), 2000),
    ] {
        let teardown = Teardown { flow, ..closing };
        let payload = [memory.slice(0, len)];
        bench.post(&SendDescriptor::Teardown {
            teardown: &teardown,
            payload: &payload[..usize::from(len > 0)],
        });
        bench.settle(name);
    }
    for (name, port, flags) in [
        ("of a closing flow", 9, SendFlags::CHECKSUM),
        ("of a connection that is run", 1000, SendFlags::CHECKSUM),
        ("of its own", 77, SendFlags::CHECKSUM),
        ("of a closing flow, made whole", 9, SendFlags::NONE),
        ("of its own, made whole", 77, SendFlags::NONE),
    ] {
        let flow = fixtures::flow(port);
        let syn = headers(HOST, PEER, &flow, &frames::syn(&flow, SeqNum(7), 1));
        bench.post(&SendDescriptor::Send {
            header: &syn,
            mss: 0,
            context: None,
            flags,
            payload: &[],
        });
        bench.settle(format!("a SYN {name}"));
    }
    for (name, a, b) in [
        ("the first is owned", flow(0), fixtures::flow(20)),
        ("the second is owned", fixtures::flow(20), fixtures::flow(9)),
        ("neither is", fixtures::flow(20), fixtures::flow(21)),
        ("both are by now", fixtures::flow(20), fixtures::flow(21)),
    ] {
        let splice = Splice {
            splice: SpliceId(3),
            a: leg(a),
            b: leg(b),
            idle_ms: 1_000,
        };
        bench.post(&SendDescriptor::Splice(&splice));
        bench.settle(format!("a splice, {name}"));
    }
    let data = Header {
        ack: OURS,
        ..frames::ack(&fixtures::flow(20).reversed(), THEIRS)
    };
    let data = from_peer(
        &fixtures::flow(20).reversed(),
        &data,
        b"from one to the other",
    );
    bench.bring(&data);
    bench.settle("data of a splice");
    too_big(&mut bench);
    bench.post(&SendDescriptor::QuerySplice {
        splice: SpliceId(3),
    });
    bench.post(&SendDescriptor::QuerySplice {
        splice: SpliceId(4),
    });
    bench.settle("asked about");
    bench.wait(3_000, 12);
    bench.end("connection_owners");
}

/// A connection that is to be joined with another one.
fn leg(flow: FlowKey) -> Leg {
    Leg {
        flow,
        hop: PEER,
        hop_limit: 64,
        snd_nxt: OURS,
        rcv_nxt: THEIRS,
        peer_window: 60_000,
        our_window: 50_000,
        peer_shift: 0,
        our_shift: 0,
        mss: 1460,
        our_mss: 1460,
        sack: false,
        timestamps: None,
        ecn: false,
        ecn_echo: false,
    }
}

/// Reports that packets are too big for their path, of what is on its way and of what is not.
fn too_big(bench: &mut Bench) {
    let payload = [bench.host().memory.slice(0, 1460)];
    send(bench, 0, OURS, None, &payload);
    bench.settle("in flight");
    let ends = [(PEER, [10, 0, 0, 9].into()), (HOST, [10, 0, 0, 1].into())];
    for (name, flow, seq) in [
        ("of a connection", flow(0), OURS),
        ("of what it did not send", flow(0), OURS + 90_000),
        ("of a closing flow", fixtures::flow(10), OURS),
        ("of a splice", fixtures::flow(21), OURS),
        (
            "of what that did not send",
            fixtures::flow(21),
            OURS + 90_000,
        ),
        ("of the host's", fixtures::flow(78), OURS),
    ] {
        let quoted = headers(HOST, PEER, &flow, &frames::ack(&flow, seq));
        let message = Message::Unreachable {
            reason: Unreachable::FragmentationNeeded { mtu: 1200 },
            original: &quoted[14..42],
        };
        bench.bring(&icmp(ends, &message));
        bench.settle(format!("too big, {name}"));
    }
}

/// One function's host sends without an end; the other one's connections are run by the device.
#[test]
fn connections_beside_a_busy_host() {
    let mut bench = bench();
    hand_off(&mut bench, 0);
    bench.attach(FunctionConfig {
        mac: MacAddr([2, 0, 0, 0, 0, 7]),
        send_entries: 64,
        ..function_config()
    });
    let header = headers(
        bench.hosts[1].config.mac,
        PEER,
        &flow(9),
        &frames::ack(&flow(9), OURS),
    );
    for _ in 0..4 {
        let payload = [bench.hosts[1].memory.slice(0, 150_000)];
        bench.hosts[1].post(&SendDescriptor::Send {
            header: &header,
            mss: 1460,
            context: None,
            flags: SendFlags::NONE,
            payload: &payload,
        });
    }
    let memory = bench.host().memory.clone();
    for n in 0..20 {
        send(&mut bench, 0, OURS + 700 * n, None, &[memory.slice(0, 700)]);
        if n % 7 == 3 {
            post(&mut bench, 60, None, 1500);
        }
    }
    bench.hosts.iter_mut().for_each(|host| host.publish());
    let (mut out, mut run, mut count) = ([0; 2048], None, 0);
    while let Some((len, _)) = bench.nic.poll_transmit(bench.now, &mut out) {
        let parsed = wire::packet::parse(&out[..len]).expect("a segment");
        let commands = bench.nic.counters().toe_commands;
        let now = Some((parsed.flow.dst.1, commands));
        if run.is_some() && run != now {
            bench.say(format!("  {run:?}: {count} frames"));
            count = 0;
        }
        (run, count) = (now, count + 1);
    }
    bench.settle("at the end");
    bench.end("connection_turns");
}
