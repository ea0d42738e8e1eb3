//! Two hosts with a NIC each, of which the server's is watched: what it allocates, and how long it works.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use host::memory::ArenaLayout;
use host::{Cidr, Stack, StackConfig, read_cycles};
use nic::ring::FunctionConfig;
use nic::{FrameMeta, Nic, NicConfig};
use wire::ethernet::MacAddr;

use testkit::allocations;

pub const CLIENT: usize = 0;
pub const SERVER: usize = 1;

pub struct World {
    pub now: Instant,
    pub stacks: [Stack; 2],
    nics: [Nic; 2],
    frame: Vec<u8>,
    /// Of the server's host.
    pub allocations: u64,
    pub cycles: u64,
}

pub fn address(at: usize) -> IpAddr {
    IpAddr::from([10, 0, 0, at as u8 + 1])
}

impl World {
    /// With stacks whose settings `change` has had.
    pub fn new(change: impl Fn(usize, &mut StackConfig)) -> Self {
        let now = Instant::now();
        let mut nics = [0, 1].map(|at| Nic::new(NicConfig::new([at; 16])));
        let stacks = [CLIENT, SERVER].map(|at| {
            let mac = MacAddr([2, 0, 0, 0, 0, at as u8 + 1]);
            let (host, device) = nic::ring::function(FunctionConfig::new(mac));
            nics[at].attach(device).expect("a first function");
            let mut config = StackConfig {
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
            change(at, &mut config);
            Stack::new(now, config, host)
        });
        World {
            now,
            stacks,
            nics,
            frame: vec![0; 1 << 17],
            allocations: 0,
            cycles: 0,
        }
    }

    /// Runs what the server's host does, and counts.
    pub fn on_server<R>(&mut self, act: impl FnOnce(&mut Stack, Instant) -> R) -> R {
        let (before, from) = (allocations(), read_cycles());
        let done = act(&mut self.stacks[SERVER], self.now);
        self.cycles += read_cycles() - from;
        self.allocations += allocations() - before;
        done
    }

    pub fn step(&mut self) {
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
}
