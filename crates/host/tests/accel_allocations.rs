//! A short connection that the NIC sets up and finishes costs its host no allocation in steady state.

mod counting;

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use counting::allocations;
use host::memory::ArenaLayout;
use host::{Accel, Cidr, Event, ListenOptions, SocketError, SocketId, Stack, StackConfig};
use nic::ring::FunctionConfig;
use nic::{FrameMeta, Nic, NicConfig};
use wire::ethernet::MacAddr;

const CLIENT: usize = 0;
const SERVER: usize = 1;
const CONNECTIONS: usize = 64;

struct World {
    now: Instant,
    stacks: [Stack; 2],
    nics: [Nic; 2],
    frame: Vec<u8>,
    /// Allocations of the server's host.
    allocations: u64,
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
                accel: if at == SERVER {
                    Accel::ALL
                } else {
                    Accel::NONE
                },
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
        World {
            now,
            stacks,
            nics,
            frame: vec![0; 1 << 17],
            allocations: 0,
        }
    }

    /// Runs what the server's host does, and counts.
    fn on_server<R>(&mut self, act: impl FnOnce(&mut Stack, Instant) -> R) -> R {
        let before = allocations();
        let done = act(&mut self.stacks[SERVER], self.now);
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

    /// So many connections from beginning to end, at once.
    fn round(&mut self) {
        let remote = SocketAddr::new(address(SERVER), 80);
        let now = self.now;
        let clients: Vec<SocketId> = (0..CONNECTIONS)
            .map(|_| self.stacks[CLIENT].connect(now, remote).expect("a port"))
            .collect();
        let mut left = clients.len();
        let mut buffer = [0; 256];
        while left > 0 {
            self.step();
            while let Some(event) = self.stacks[CLIENT].poll_event() {
                let client = &mut self.stacks[CLIENT];
                match event {
                    Event::Connected(id) => {
                        assert_eq!(client.write(self.now, id, &[7; 64]), Ok(64));
                        let empty = client.read(self.now, id, &mut buffer);
                        assert_eq!(empty, Err(SocketError::WouldBlock));
                    }
                    Event::Readable(id) => {
                        while client.read(self.now, id, &mut buffer) == Ok(64) {}
                        if client.read(self.now, id, &mut buffer) == Ok(0) {
                            client.close(self.now, id).expect("open");
                            left -= 1;
                        }
                    }
                    _ => {}
                }
            }
            self.on_server(|stack, now| {
                while let Some(event) = stack.poll_event() {
                    match event {
                        Event::Accepted(listener) => while stack.accept(listener).is_some() {},
                        Event::Readable(id) => {
                            let chunk = stack.read_chunk(now, id).expect("open");
                            assert_eq!(chunk.map(|chunk| chunk.len()), Some(64));
                            assert_eq!(stack.write(now, id, &[9; 64]), Ok(64));
                            stack.close(now, id).expect("open");
                        }
                        _ => {}
                    }
                }
            });
        }
    }

    fn counter(&self, name: &str) -> u64 {
        let mut counters = self.stacks[SERVER].counters();
        counters
            .find(|(counter, _)| *counter == name)
            .expect(name)
            .1
    }
}

#[test]
fn a_short_connection_costs_its_host_no_allocation() {
    let mut world = World::new();
    let listener = SocketAddr::new(address(SERVER), 80);
    let options = ListenOptions {
        defer: true,
        ..ListenOptions::default()
    };
    world.stacks[SERVER]
        .listen(listener, options)
        .expect("free");
    world.step();
    // Until every table is as large as it gets.
    for _ in 0..30 {
        world.round();
    }
    world.allocations = 0;
    for _ in 0..30 {
        world.round();
    }
    assert_eq!(world.counter("AccelSetups"), 60 * CONNECTIONS as u64);
    assert_eq!(world.counter("AccelTeardowns"), 60 * CONNECTIONS as u64);
    assert_eq!(world.counter("AccelQuasiPromoted"), 0);
    assert_eq!(world.allocations, 0);
}
