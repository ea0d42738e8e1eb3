//! Host first (Connection handoff policies §3.1): a NIC that has more to do for the connections that it runs than it can does not slow down those of its
//! host.
//!
//! The server's NIC does 4,000 pieces of work a second for connections that it runs (a packet received, a command, a packet
//! sent), and is asked for all that it can do for a virtual minute. Meanwhile clients ask the host's own connections.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use host::handoff::policy::Selection;
use host::{Handoff, ListenOptions, SocketError, SocketId, StackConfig};
use nic::{NicConfig, ToeConfig};
use port::impair::Impairment;
use sim::{NodeConfig, World, WorldConfig};

const CLIENT: usize = 0;
const SERVER: usize = 1;
/// Connections to this port stay on the host; those to the other one go to the NIC.
const HOST_PORT: u16 = 80;
const NIC_PORT: u16 = 90;
const REQUEST: usize = 200;
const RESPONSE: usize = 8 << 10;
const TURN: Duration = Duration::from_millis(1);
const WORK_PER_TURN: u32 = 4;
const WARM_UP: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(60);

fn world() -> World {
    let link = Impairment {
        delay: Duration::from_millis(5),
        rate: Some(10_000_000_000),
        queue: 4 << 20,
        ..Impairment::default()
    };
    let mut server = NodeConfig {
        nic: NicConfig {
            toe: ToeConfig {
                packets_per_turn: Some(WORK_PER_TURN),
                turn: TURN,
                load_control: false,
                ..ToeConfig::default()
            },
            ..NicConfig::new([0; 16])
        },
        ..NodeConfig::default()
    };
    server.stack = StackConfig {
        handoff: Handoff {
            per_port: vec![(NIC_PORT, Selection::Fcfs)],
            ..Handoff::default()
        },
        ..StackConfig::default()
    };
    World::new(WorldConfig {
        links: vec![link; 2],
        nodes: vec![NodeConfig::default(), server],
        granularity: Duration::from_micros(20),
        ..WorldConfig::default()
    })
}

/// Clients that ask again as soon as they have been answered, and their server.
#[derive(Default)]
struct Asking {
    clients: Vec<(SocketId, usize)>,
    served: Vec<(SocketId, usize)>,
    answered: u64,
}

impl Asking {
    fn work(&mut self, world: &mut World) {
        let now = world.now();
        for (id, missing) in &mut self.clients {
            let mut bytes = [0; RESPONSE];
            while *missing > 0 {
                let got = world.stack(CLIENT).read(now, *id, &mut bytes[..*missing]);
                match got {
                    Ok(0) => panic!("the server has closed"),
                    Ok(len) => *missing -= len,
                    Err(SocketError::WouldBlock) => break,
                    Err(error) => panic!("{error}"),
                }
                self.answered += u64::from(*missing == 0);
            }
            if *missing == 0
                && let Ok(len) = world.stack(CLIENT).write(now, *id, &[b'?'; REQUEST])
            {
                assert_eq!(len, REQUEST);
                *missing = RESPONSE;
            }
        }
        for (id, missing) in &mut self.served {
            let mut bytes = [0; REQUEST];
            match world.stack(SERVER).read(now, *id, &mut bytes[..*missing]) {
                Ok(len) => *missing -= len,
                Err(SocketError::WouldBlock) => {}
                Err(error) => panic!("{error}"),
            }
            if *missing == 0 {
                *missing = REQUEST;
                let sent = world.stack(SERVER).write(now, *id, &[b'!'; RESPONSE]);
                assert_eq!(sent, Ok(RESPONSE));
            }
        }
    }
}

/// Downloads without an end.
#[derive(Default)]
struct Downloads {
    clients: Vec<SocketId>,
    served: Vec<SocketId>,
    read: u64,
}

impl Downloads {
    fn work(&mut self, world: &mut World) {
        let now = world.now();
        for id in &self.served {
            let wrote = world.stack(SERVER).write(now, *id, &[7; 16 << 10]);
            assert!(
                matches!(wrote, Ok(_) | Err(SocketError::WouldBlock)),
                "{wrote:?}"
            );
        }
        for id in &self.clients {
            while let Ok(Some(chunk)) = world.stack(CLIENT).read_chunk(now, *id) {
                if chunk.is_empty() {
                    break;
                }
                self.read += chunk.len() as u64;
            }
        }
    }
}

fn until(world: &mut World, end: Instant, mut work: impl FnMut(&mut World)) {
    while world.now() < end {
        work(world);
        while world.step() {
            work(world);
        }
        world.advance_to(end);
    }
}

/// Answers per second to `asking` clients of the host's while the NIC runs so many downloads, and these.
fn run(asking: usize, downloads: usize) -> (f64, Downloads, World) {
    let mut world = world();
    let now = world.now();
    let at = |port| SocketAddr::new(World::address(SERVER, false), port);
    let listeners = [HOST_PORT, NIC_PORT].map(|port| {
        let listener = world
            .stack(SERVER)
            .listen(at(port), ListenOptions::default());
        listener.expect("a free port")
    });
    let mut host = Asking::default();
    let mut lent = Downloads::default();
    for _ in 0..asking {
        let id = world.stack(CLIENT).connect(now, at(HOST_PORT));
        host.clients.push((id.expect("a free port"), 0));
    }
    for _ in 0..downloads {
        let id = world.stack(CLIENT).connect(now, at(NIC_PORT));
        lent.clients.push(id.expect("a free port"));
    }
    let mut work = |world: &mut World| {
        while let Some(id) = world.stack(SERVER).accept(listeners[0]) {
            host.served.push((id, REQUEST));
        }
        while let Some(id) = world.stack(SERVER).accept(listeners[1]) {
            lent.served.push(id);
        }
        host.work(world);
        lent.work(world);
        host.answered
    };
    let mut answered = 0;
    until(&mut world, now + WARM_UP, |world| answered = work(world));
    let before = answered;
    until(&mut world, now + WARM_UP + MEASURED, |world| {
        answered = work(world);
    });
    let rate = (answered - before) as f64 / MEASURED.as_secs_f64();
    (rate, lent, world)
}

#[test]
fn host_connections_keep_their_rate_while_the_nic_has_too_much_to_do_for_its_own() {
    const ASKING: usize = 4;
    const DOWNLOADS: usize = 16;
    let (alone, _, _) = run(ASKING, 0);
    let (beside, downloads, world) = run(ASKING, DOWNLOADS);
    let counters = world.nic_counters(SERVER);
    assert_eq!(counters.toe_handoffs, DOWNLOADS as u64);
    assert_eq!(counters.toe_connections, DOWNLOADS as u64);
    let most = (WARM_UP + MEASURED).as_secs_f64() / TURN.as_secs_f64() * f64::from(WORK_PER_TURN);
    let done = counters.toe_rx_packets - counters.toe_rx_queue_full
        + counters.toe_commands
        + counters.toe_tx_packets;
    assert!(
        done as f64 > 0.9 * most,
        "{done} of {most}: the NIC is not busy"
    );
    assert!(downloads.read > 0);
    assert!(alone > 300.0, "{alone} answers/s");
    assert!(
        beside >= 0.95 * alone,
        "{beside} answers/s beside, {alone} alone"
    );
}
