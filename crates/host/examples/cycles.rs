//! Host cycles for each 256 KiB sent and received, by component and mode, without loss and without a wire:
//! `cargo run --release -p longshore-host --example cycles`.
//!
//! `-- MODE` measures one mode only, such as `Offload`; `-- --short` takes two turns instead of 200.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use host::{Cidr, Component, ListenOptions, Offload, ReadChunks, SocketId, Stack, StackConfig};
use l5p::tls::{Algorithm, CryptoInfo, Version};
use nic::ring::{FunctionConfig, Region, RegionId, Slice};
use nic::{FrameMeta, Nic, NicConfig, WireCapabilities};
use wire::ethernet::MacAddr;

const MESSAGE: usize = 256 << 10;
const ROUNDS: usize = 40;
const TURNS: usize = 200;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Plain,
    PlainZeroCopy,
    Software,
    Offload,
    OffloadZeroCopy,
}

struct Host {
    stack: Stack,
    nic: Nic,
}

const MODES: [Mode; 5] = [
    Mode::Plain,
    Mode::PlainZeroCopy,
    Mode::Software,
    Mode::Offload,
    Mode::OffloadZeroCopy,
];

/// Cycles of sender and receiver by component.
type Sample = [[u64; Component::ALL.len()]; 2];

/// Two hosts with one connection.
struct World {
    mode: Mode,
    now: Instant,
    hosts: [Host; 2],
    sender: SocketId,
    receiver: SocketId,
    region: RegionId,
    chunks: ReadChunks,
    samples: Vec<Sample>,
}

fn main() {
    let (options, modes): (Vec<_>, Vec<_>) = std::env::args()
        .skip(1)
        .partition(|argument| argument == "--short");
    let turns = if options.is_empty() { TURNS } else { 2 };
    let only = modes.first();
    let chosen = |mode: &Mode| only.is_none_or(|only| *only == format!("{mode:?}"));
    let mut worlds: Vec<World> = MODES.into_iter().filter(chosen).map(World::new).collect();
    let data = vec![0x5a; MESSAGE];
    let mut buffer = vec![0; MESSAGE];
    // In turn, so that whatever else the machine does falls on all of them.
    for _ in 0..turns {
        for world in &mut worlds {
            for round in 0..ROUNDS {
                let sample = world.round(&data, &mut buffer);
                if round > ROUNDS / 4 {
                    world.samples.push(sample);
                }
            }
        }
    }
    println!("cycles per {MESSAGE} bytes (10th percentile, median; totals of each)");
    for world in &worlds {
        world.report();
    }
}

impl World {
    fn new(mode: Mode) -> Self {
        let mut now = Instant::now();
        let mut hosts = [0u8, 1].map(|at| {
            let mac = MacAddr([2, 0, 0, 0, 0, at + 1]);
            let config = StackConfig {
                addresses: vec![Cidr::new([10, 0, 0, at + 1].into(), 24)],
                memory: 128 << 20,
                meter: true,
                ..StackConfig::default()
            };
            let (function, device) = nic::ring::function(FunctionConfig::new(mac));
            let wire = WireCapabilities {
                tso: true,
                checksum: true,
            };
            let mut nic = Nic::new(NicConfig {
                wire,
                ..NicConfig::new([at; 16])
            });
            nic.attach(device).expect("a first function");
            Host {
                stack: Stack::new(now, config, function),
                nic,
            }
        });
        let (sender, receiver) = connect(&mut hosts, &mut now);
        let offload = match mode {
            Mode::Offload | Mode::OffloadZeroCopy => Offload::Both,
            _ => Offload::None,
        };
        if !matches!(mode, Mode::Plain | Mode::PlainZeroCopy) {
            let keys = [keys(1), keys(2)];
            for (at, id) in [sender, receiver].into_iter().enumerate() {
                let (transmit, receive) = (keys[at].clone(), keys[1 - at].clone());
                let stack = &mut hosts[at].stack;
                let installed = stack.install_tls(now, id, transmit, receive, offload);
                installed.expect("connected");
            }
            for _ in 0..10 {
                exchange(&mut hosts, &mut now);
            }
        }
        let region = Arc::new(Region::anonymous(MESSAGE));
        let region = hosts[0].stack.register(region, "memory").expect("an id");
        Self {
            mode,
            now,
            hosts,
            sender,
            receiver,
            region,
            chunks: ReadChunks::default(),
            samples: Vec::with_capacity(TURNS * ROUNDS),
        }
    }

    /// Sends a message and reads it on the other side.
    fn round(&mut self, data: &[u8], buffer: &mut [u8]) -> Sample {
        let before = [0, 1].map(|at| cycles(&self.hosts[at].stack));
        send(
            &mut self.hosts[0].stack,
            self.now,
            self.sender,
            self.mode,
            data,
            self.region,
        );
        let mut left = buffer.len();
        while left > 0 {
            exchange(&mut self.hosts, &mut self.now);
            left -= self.read(&mut buffer[..left]);
        }
        exchange(&mut self.hosts, &mut self.now);
        let after = [0, 1].map(|at| cycles(&self.hosts[at].stack));
        [0, 1].map(|at| std::array::from_fn(|c| after[at][c] - before[at][c]))
    }

    /// Reads what there is, in place if it was sent so.
    fn read(&mut self, buffer: &mut [u8]) -> usize {
        let stack = &mut self.hosts[1].stack;
        let mut done = 0;
        while done < buffer.len() {
            let read = match self.mode {
                Mode::PlainZeroCopy | Mode::OffloadZeroCopy => {
                    stack.read_chunks(self.now, self.receiver, &mut self.chunks)
                }
                _ => stack.read(self.now, self.receiver, &mut buffer[done..]),
            };
            match read {
                Ok(bytes) => done += bytes,
                Err(_) => break,
            }
        }
        done
    }

    fn report(&self) {
        for (at, what) in ["send", "receive"].into_iter().enumerate() {
            // A low percentile: what the stack takes when nothing else has the core.
            let percentile = |component: Component, percent: usize| {
                let column = self
                    .samples
                    .iter()
                    .map(|sample| sample[at][component as usize]);
                let mut values: Vec<u64> = column.collect();
                values.sort_unstable();
                values[values.len() * percent / 100]
            };
            let parts = [
                Component::Copy,
                Component::L5,
                Component::Tcp,
                Component::Driver,
            ]
            .map(|c| (c.name(), percentile(c, 10), percentile(c, 50)));
            let low: u64 = parts.iter().map(|(_, low, _)| low).sum();
            let median: u64 = parts.iter().map(|(_, _, median)| median).sum();
            let mode = format!("{:?}", self.mode);
            println!("{mode:16} {what:8} {parts:?} totals {low} {median}");
        }
    }
}

fn send(stack: &mut Stack, now: Instant, id: SocketId, mode: Mode, data: &[u8], region: RegionId) {
    let sent = match mode {
        Mode::PlainZeroCopy | Mode::OffloadZeroCopy => {
            let slice = Slice {
                region,
                offset: 0,
                len: data.len() as u32,
            };
            stack.send_slices(now, id, &[slice])
        }
        _ => stack.write(now, id, data),
    };
    assert_eq!(sent, Ok(data.len()));
}

fn cycles(stack: &Stack) -> [u64; Component::ALL.len()] {
    Component::ALL.map(|component| stack.meter().cycles(component))
}

fn keys(seed: u8) -> CryptoInfo {
    CryptoInfo {
        version: Version::Tls13,
        algorithm: Algorithm::Aes128Gcm,
        key: [seed; 32],
        iv: [seed; 12],
        sequence: 0,
    }
}

fn connect(hosts: &mut [Host; 2], now: &mut Instant) -> (SocketId, SocketId) {
    let address: SocketAddr = "10.0.0.2:9".parse().expect("an address");
    let listener = hosts[1]
        .stack
        .listen(address, ListenOptions::default())
        .expect("free");
    let sender = hosts[0].stack.connect(*now, address).expect("a route");
    loop {
        exchange(hosts, now);
        if let Some(receiver) = hosts[1].stack.accept(listener) {
            exchange(hosts, now);
            return (sender, receiver);
        }
    }
}

/// Each stack once, and what its NIC then has for the other.
fn exchange(hosts: &mut [Host; 2], now: &mut Instant) {
    thread_local!(static FRAME: std::cell::RefCell<Vec<u8>> = std::cell::RefCell::new(vec![0; 1 << 17]));
    *now += Duration::from_micros(5);
    for at in 0..2 {
        hosts[at].stack.poll(*now);
        while hosts[at].stack.poll_event().is_some() {}
        let (first, second) = hosts.split_at_mut(1);
        let (own, other) = if at == 0 {
            (&mut first[0], &mut second[0])
        } else {
            (&mut second[0], &mut first[0])
        };
        FRAME.with_borrow_mut(|frame| {
            while let Some((len, meta)) = own.nic.poll_transmit(*now, frame) {
                let meta = FrameMeta {
                    checksum_valid: true,
                    ..meta
                };
                other.nic.handle_frame(*now, &frame[..len], meta);
            }
        });
        own.nic.flush(*now);
        other.nic.flush(*now);
    }
}
