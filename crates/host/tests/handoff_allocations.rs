//! A request and its response on a connection that the NIC runs cost the host no allocation.

mod counting;

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use counting::allocations;
use host::memory::ArenaLayout;
use host::{
    Cidr, Event, Holder, ListenOptions, SocketError, SocketId, Stack, StackConfig, read_cycles,
};
use nic::ring::FunctionConfig;
use nic::{FrameMeta, Nic, NicConfig};
use wire::ethernet::MacAddr;

const CLIENT: usize = 0;
const SERVER: usize = 1;
const CONNECTIONS: usize = 64;
const REQUEST: usize = 100;
const RESPONSE: usize = 4000;

struct World {
    now: Instant,
    stacks: [Stack; 2],
    nics: [Nic; 2],
    frame: Vec<u8>,
    /// Of the server's host.
    allocations: u64,
    cycles: u64,
    clients: Vec<SocketId>,
    servers: Vec<SocketId>,
    response: Vec<u8>,
}

fn address(at: usize) -> IpAddr {
    IpAddr::from([10, 0, 0, at as u8 + 1])
}

impl World {
    fn new() -> Self {
        let now = Instant::now();
        let mut nics = [0, 1].map(|at| Nic::new(NicConfig::new([at; 16])));
        let stacks = [CLIENT, SERVER].map(|at| {
            let mac = MacAddr([2, 0, 0, 0, 0, at as u8 + 1]);
            let (host, device) = nic::ring::function(FunctionConfig::new(mac));
            nics[at].attach(device).expect("a first function");
            let config = StackConfig {
                addresses: vec![Cidr::new(address(at), 24)],
                arena: ArenaLayout {
                    header: 2048,
                    packet: 4096,
                    record: 128,
                    large: 512,
                },
                secret: [at as u8; 16],
                ..StackConfig::default()
            };
            Stack::new(now, config, host)
        });
        let mut world = World {
            now,
            stacks,
            nics,
            frame: vec![0; 1 << 17],
            allocations: 0,
            cycles: 0,
            clients: Vec::new(),
            servers: Vec::new(),
            response: vec![9; RESPONSE],
        };
        world.connect();
        world
    }

    fn connect(&mut self) {
        let remote = SocketAddr::new(address(SERVER), 80);
        let options = ListenOptions::default();
        let listener = self.stacks[SERVER].listen(remote, options).expect("free");
        let now = self.now;
        self.clients = (0..CONNECTIONS)
            .map(|_| self.stacks[CLIENT].connect(now, remote).expect("a port"))
            .collect();
        while self.servers.len() < CONNECTIONS {
            self.step();
            self.servers.extend(self.stacks[SERVER].accept(listener));
        }
        for _ in 0..10 {
            self.step();
        }
        for at in [CLIENT, SERVER] {
            while self.stacks[at].poll_event().is_some() {}
        }
    }

    /// Runs what the server's host does, and counts.
    fn on_server<R>(&mut self, act: impl FnOnce(&mut Stack, Instant) -> R) -> R {
        let (before, from) = (allocations(), read_cycles());
        let done = act(&mut self.stacks[SERVER], self.now);
        self.cycles += read_cycles() - from;
        self.allocations += allocations() - before;
        done
    }

    fn step(&mut self) {
        self.now += Duration::from_micros(50);
        let now = self.now;
        for at in [CLIENT, SERVER] {
            self.nics[at].flush(now);
            if at == SERVER {
                self.on_server(|stack, now| stack.poll(now));
            } else {
                self.stacks[at].poll(now);
            }
            while let Some((len, _)) = self.nics[at].poll_transmit(now, &mut self.frame) {
                let frame = &self.frame[..len];
                self.nics[1 - at].handle_frame(now, frame, FrameMeta::default());
            }
            self.nics[at].flush(now);
        }
    }

    /// A request and a response on each connection.
    fn round(&mut self) {
        let mut buffer = [0; RESPONSE];
        for client in &self.clients {
            let written = self.stacks[CLIENT].write(self.now, *client, &[7; REQUEST]);
            assert_eq!(written, Ok(REQUEST));
        }
        let mut left = CONNECTIONS * RESPONSE;
        while left > 0 {
            self.step();
            let response = std::mem::take(&mut self.response);
            self.on_server(|stack, now| {
                while let Some(event) = stack.poll_event() {
                    let Event::Readable(id) = event else { continue };
                    let read = stack.read(now, id, &mut [0; 2 * REQUEST]);
                    assert_eq!(read, Ok(REQUEST));
                    let more = stack.read(now, id, &mut [0; 1]);
                    assert_eq!(more, Err(SocketError::WouldBlock));
                    assert_eq!(stack.write(now, id, &response), Ok(RESPONSE));
                }
            });
            self.response = response;
            for client in &self.clients {
                while let Ok(bytes) = self.stacks[CLIENT].read(self.now, *client, &mut buffer) {
                    left -= bytes;
                }
            }
            while self.stacks[CLIENT].poll_event().is_some() {}
        }
    }

    /// Host cycles of a request, and allocations of many.
    fn measure(&mut self) -> (u64, u64) {
        const ROUNDS: usize = 50;
        // Until every table is as large as it gets.
        for _ in 0..ROUNDS {
            self.round();
        }
        (self.allocations, self.cycles) = (0, 0);
        for _ in 0..ROUNDS {
            self.round();
        }
        (
            self.cycles / (ROUNDS * CONNECTIONS) as u64,
            self.allocations,
        )
    }

    /// Host cycles for each connection that is handed off or restored.
    fn move_all(&mut self, mut start: impl FnMut(&mut Stack, Instant, SocketId)) -> u64 {
        self.cycles = 0;
        for at in 0..CONNECTIONS {
            let id = self.servers[at];
            self.on_server(|stack, now| start(stack, now, id));
        }
        for _ in 0..10 {
            self.step();
        }
        self.cycles / CONNECTIONS as u64
    }

    fn held(&self) -> usize {
        let infos = self.servers.iter().map(|id| self.stacks[SERVER].info(*id));
        infos
            .flatten()
            .filter(|info| info.holder == Holder::Nic)
            .count()
    }
}

#[test]
fn requests_on_a_connection_that_the_nic_runs_cost_its_host_no_allocation() {
    let mut world = World::new();
    let (by_host, _) = world.measure();
    let handing = world.move_all(|stack, now, id| assert_eq!(stack.hand_off(now, id), Ok(())));
    assert_eq!(world.held(), CONNECTIONS);
    let (by_nic, allocations) = world.measure();
    assert_eq!(allocations, 0);
    assert_eq!(world.held(), CONNECTIONS);
    let restoring = world.move_all(|stack, now, id| assert_eq!(stack.restore(now, id), Ok(())));
    assert_eq!(world.held(), 0);
    println!(
        "host cycles: {by_host} for a request by the host, {by_nic} by the NIC; {handing} for a handoff, {restoring} for a restore"
    );
}
