//! Connections with random lives, on random links.

use std::time::Duration;

use nic::AccelConfig;
use port::impair::Impairment;
use proptest::prelude::*;
use sim::connections::{Door, Life, Operation, Reads, Relayed, Scenario, Script, TcpOptions};
use sim::oracle::Family;

/// A request and the response to it.
#[derive(Clone, Copy, Debug)]
struct Exchange {
    request: u32,
    response: u32,
    in_place: bool,
    /// Of the client before the request, and of the server before the response.
    pauses: [u32; 2],
}

/// Who closes, and how.
#[derive(Clone, Copy, Debug)]
enum Ending {
    /// The server, after its last response; the client reads to the end.
    Server,
    /// The client, when it has all; the server reads to the end.
    Client,
    /// Both, when they have all, at about the same time.
    Both,
    /// Both shut down when they have written all, and read to the end.
    HalfClosed,
    /// The client shuts down at once when it has written all, before it reads.
    ClientShutEarly,
}

fn exchanges() -> impl Strategy<Value = Vec<Exchange>> {
    let request = prop_oneof![6 => 1u32..2000, 1 => 2000u32..60_000];
    let response = prop_oneof![1 => Just(0u32), 6 => 1u32..3000, 4 => 3000u32..15_000, 1 => 15_000u32..100_000];
    let pause = || prop_oneof![4 => Just(0u32), 1 => 1u32..300];
    let one = (request, response, any::<bool>(), [pause(), pause()]).prop_map(
        |(request, response, in_place, pauses)| Exchange {
            request,
            response,
            in_place,
            pauses,
        },
    );
    prop_oneof![
        4 => prop::collection::vec(one.clone(), 1..2),
        2 => prop::collection::vec(one, 0..5),
    ]
}

fn scripts(exchanges: &[Exchange], ending: Ending) -> [Vec<Operation>; 2] {
    use Operation::{Await, AwaitEnd, Close, Send, Shutdown, Wait, Write};
    let [mut client, mut server] = [Vec::new(), Vec::new()];
    let (mut requested, mut responded) = (0, 0);
    let wait = |pause: u32| (pause > 0).then(|| Wait(Duration::from_millis(pause.into())));
    let early = matches!(ending, Ending::ClientShutEarly);
    for exchange in exchanges {
        client.extend(wait(exchange.pauses[0]));
        client.push(Write(exchange.request));
        requested += exchange.request;
        server.push(Await(requested));
        server.extend(wait(exchange.pauses[1]));
        if exchange.response > 0 {
            server.push(match exchange.in_place {
                true => Send(exchange.response),
                false => Write(exchange.response),
            });
        }
        responded += exchange.response;
        if !early {
            client.push(Await(responded));
        }
    }
    let ends: [&[Operation]; 2] = match ending {
        // A client that says nothing and waits is not heard of by a server whose NIC answers by cookies.
        Ending::Server if requested > 0 => [&[AwaitEnd, Close], &[Close]],
        Ending::Server | Ending::Client => [&[Close], &[AwaitEnd, Close]],
        Ending::Both => [&[Close], &[Close]],
        Ending::HalfClosed | Ending::ClientShutEarly => {
            [&[Shutdown, AwaitEnd, Close], &[Shutdown, AwaitEnd, Close]]
        }
    };
    client.extend(ends[0]);
    server.extend(ends[1]);
    [client, server]
}

/// What breaks the order: one side leaves after so many operations.
#[derive(Clone, Copy, Debug)]
struct Rudeness {
    server: bool,
    after: prop::sample::Index,
    abort: bool,
    /// It reads nothing either.
    never: bool,
}

fn rudeness() -> impl Strategy<Value = Rudeness> {
    any::<(bool, prop::sample::Index, bool, bool)>().prop_map(|(server, after, abort, never)| {
        Rudeness {
            server,
            after,
            abort,
            never,
        }
    })
}

fn families() -> impl Strategy<Value = Family> {
    prop_oneof![Just(Family::V4), Just(Family::V6)]
}

fn reads() -> impl Strategy<Value = Reads> {
    prop_oneof![Just(Reads::InPlace), (1usize..9000).prop_map(Reads::Copied)]
}

fn relayed() -> impl Strategy<Value = Relayed> {
    let time = || prop::option::weighted(0.3, (1u64..400).prop_map(Duration::from_millis));
    (0u32..5000, time(), time(), any::<bool>()).prop_map(|(after, idle, take_back, again)| {
        Relayed {
            after,
            idle,
            take_back,
            again,
        }
    })
}

fn life(through_relay: Option<bool>) -> impl Strategy<Value = Life> {
    let through_relay = match through_relay {
        Some(all) => Just(all).boxed(),
        None => prop::bool::weighted(0.3).boxed(),
    };
    let ending = prop::sample::select(vec![
        Ending::Server,
        Ending::Server,
        Ending::Client,
        Ending::Both,
        Ending::HalfClosed,
        Ending::ClientShutEarly,
    ]);
    (
        (families(), prop::sample::select(Door::ALL.to_vec())),
        0u64..100,
        (through_relay, relayed()).prop_map(|(through, relayed)| through.then_some(relayed)),
        (exchanges(), ending, [reads(), reads()]),
        prop::option::weighted(0.25, rudeness()),
    )
        .prop_map(
            |((family, door), start, relayed, (exchanges, ending, mut reads), rude)| {
                let mut operations = scripts(&exchanges, ending);
                if let Some(rude) = rude {
                    let at = usize::from(rude.server);
                    let list = &mut operations[at];
                    // A client has said something before, or the server may not hear of it.
                    let least = usize::from(!rude.server).min(list.len() - 1);
                    list.truncate((rude.after.index(list.len())).max(least));
                    list.push(match rude.abort {
                        true => Operation::Abort,
                        false => Operation::Close,
                    });
                    if rude.never {
                        reads[at] = Reads::Never;
                    }
                }
                let [client, server] = operations;
                let script = |reads, operations| Script { reads, operations };
                Life {
                    family,
                    door,
                    start: Duration::from_millis(start),
                    relayed,
                    scripts: [script(reads[0], client), script(reads[1], server)],
                }
            },
        )
}

/// As dreadful as a NIC's patience with a closing connection allows: nothing is lost eight times in a row.
fn link() -> impl Strategy<Value = Impairment> {
    let some = |most: f64| prop_oneof![2 => Just(0.0), 1 => 0.0..most / 5.0, 1 => 0.0..most];
    (
        (some(0.05), some(0.1), some(0.1), some(0.03)),
        0u64..2000,
        0u64..500,
    )
        .prop_map(
            |((loss, reorder, duplicate, corrupt), delay, jitter)| Impairment {
                loss,
                reorder,
                duplicate,
                corrupt,
                delay: Duration::from_micros(delay),
                jitter: Duration::from_micros(jitter),
                ..Impairment::default()
            },
        )
}

fn tcp() -> impl Strategy<Value = TcpOptions> {
    let mostly = || prop::bool::weighted(0.85);
    let buffer = prop_oneof![3 => Just(1u32 << 20), 1 => 4000u32..60_000];
    (mostly(), mostly(), mostly(), buffer).prop_map(
        |(timestamps, sack, window_scale, receive_buffer)| TcpOptions {
            timestamps,
            sack,
            window_scale,
            receive_buffer,
        },
    )
}

/// Much room, or so little that much is refused.
fn limits() -> impl Strategy<Value = AccelConfig> {
    let entries = || prop_oneof![3 => Just(1024u32), 1 => 0u32..4];
    let memory = prop_oneof![3 => Just(1u64 << 20), 1 => 0u64..20_000];
    let setups = prop_oneof![3 => Just(None), 1 => (0u32..20).prop_map(Some)];
    let egress = prop_oneof![3 => Just(1u32 << 20), 1 => 20_000u32..40_000];
    (entries(), memory, entries(), setups, egress).prop_map(
        |(closing, packet_memory, splices, setups_per_second, egress_bytes)| AccelConfig {
            closing,
            packet_memory,
            splices,
            setups_per_second,
            egress_bytes,
            ..AccelConfig::default()
        },
    )
}

/// Lives whose connections the server's NIC sets up and hands up with their first bytes, many at a time, on a link that loses
/// nothing.
pub fn handed_up() -> impl Strategy<Value = Scenario> {
    let door = Door {
        accel: true,
        defer: true,
    };
    (
        scenario(Some(false)),
        prop::collection::vec(life(Some(false)), 1..32),
    )
        .prop_map(move |(scenario, mut lives)| {
            for life in &mut lives {
                life.door = door;
            }
            Scenario {
                link: Impairment {
                    loss: 0.0,
                    corrupt: 0.0,
                    ..scenario.link
                },
                tcp: scenario.tcp.map(|tcp| TcpOptions {
                    timestamps: true,
                    ..tcp
                }),
                lives,
                ..scenario
            }
        })
}

/// `through_relay`: all of them, or none, or some.
pub fn scenario(through_relay: Option<bool>) -> impl Strategy<Value = Scenario> {
    let mtu = prop_oneof![3 => Just(1500u16), 1 => 1280u16..9001];
    (
        (any::<u64>(), mtu),
        link(),
        [tcp(), tcp()],
        (limits(), prop_oneof![2 => Just(1u16), 1 => Just(2)]),
        prop::collection::vec(life(through_relay), 1..12),
    )
        .prop_map(
            |((seed, mtu), link, tcp, (limits, workers), lives)| Scenario {
                seed,
                mtu,
                link,
                tcp,
                limits,
                workers,
                lives,
            },
        )
}
