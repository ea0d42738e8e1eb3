//! A million SYNs a second from forged addresses (RFC 4987), against a server whose NIC answers them.
//!
//! What a flood costs is real here, in virtual time: the link has 25 Gbit/s, which SYNs and SYN-ACKs share with everybody else's
//! packets, and the NIC takes 267 ns for every frame in each direction, which is 800 cycles of 3 GHz: more than answering
//! a SYN takes of one core. The server's host takes no time; that the flood does not reach it is asserted instead.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use host::{Accel, ListenOptions, SocketError, SocketId, StackConfig};
use port::impair::Impairment;
use sim::{NodeConfig, World, WorldConfig};
use testkit::frames::frame;
use wire::ethernet::MacAddr;
use wire::tcp::{Flags, Header, Options, Timestamps};
use wire::{FlowKey, SeqNum};

const CLIENT: usize = 0;
const SERVER: usize = 1;
const PORT: u16 = 80;
const TICK: Duration = Duration::from_micros(4);
const SYNS_PER_TICK: u32 = 4;
const WARM_UP: Duration = Duration::from_millis(20);
const MEASURED: Duration = Duration::from_millis(30);

struct Flood {
    world: World,
    sent: u32,
    is_on: bool,
}

fn world() -> World {
    let link = Impairment {
        delay: Duration::from_micros(10),
        rate: Some(25_000_000_000),
        queue: 1 << 20,
        ..Impairment::default()
    };
    let node = || NodeConfig {
        nic_frame_time: Duration::from_nanos(267),
        ..NodeConfig::default()
    };
    let mut server = node();
    server.stack = StackConfig {
        accel: Accel {
            setup: true,
            ..Accel::NONE
        },
        ..StackConfig::default()
    };
    World::new(WorldConfig {
        links: vec![link; 2],
        nodes: vec![node(), server],
        wire_bytes: 1 << 18,
        ..WorldConfig::default()
    })
}

/// A SYN as Linux sends it, from an address that is somebody else's; from a router that is on the same link.
fn forged_syn(number: u32) -> Vec<u8> {
    let flow = FlowKey {
        src: (
            Ipv4Addr::from_bits(0xc612_0000 | number.wrapping_mul(0x9e37_79b9) >> 15).into(),
            1024 + (number % 60_000) as u16,
        ),
        dst: (World::address(SERVER, false), PORT),
    };
    let syn = Header {
        src_port: flow.src.1,
        dst_port: PORT,
        seq: SeqNum(number.wrapping_mul(0x85eb_ca6b)),
        flags: Flags::SYN,
        window: 64_240,
        options: Options {
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: Some(Timestamps {
                val: number,
                echo: 0,
            }),
            ..Options::default()
        },
        ..Header::default()
    };
    frame(
        MacAddr([2, 0, 0, 0, 0, 77]),
        World::mac(SERVER),
        &flow,
        &syn,
        &[],
    )
}

impl Flood {
    fn new(is_on: bool) -> Flood {
        Flood {
            world: world(),
            sent: 0,
            is_on,
        }
    }

    /// Lets a tick go by, in which what `work` does is done whenever anything moves.
    fn tick(&mut self, mut work: impl FnMut(&mut World)) {
        let end = self.world.now() + TICK;
        if self.is_on {
            for _ in 0..SYNS_PER_TICK {
                self.world.inject(CLIENT, &forged_syn(self.sent));
                self.sent += 1;
            }
        }
        while self.world.now() < end {
            work(&mut self.world);
            while self.world.step() {
                work(&mut self.world);
            }
            self.world.advance_to(end);
        }
    }

    fn until(&mut self, end: Instant, mut work: impl FnMut(&mut World)) {
        while self.world.now() < end {
            self.tick(&mut work);
        }
    }
}

/// Writes as much as goes.
fn fill(world: &mut World, id: SocketId) {
    let now = world.now();
    let chunk = [7; 16 << 10];
    loop {
        match world.stack(SERVER).write(now, id, &chunk) {
            Ok(len) if len == chunk.len() => {}
            Ok(_) | Err(SocketError::WouldBlock) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Reads all there is; answers how much that was.
fn drain(world: &mut World, id: SocketId) -> u64 {
    let now = world.now();
    let mut read = 0;
    while let Ok(Some(chunk)) = world.stack(CLIENT).read_chunk(now, id) {
        if chunk.is_empty() {
            break;
        }
        read += chunk.len() as u64;
    }
    read
}

/// Bytes per second that a connection downloads, and how many of `clients` connected and were answered meanwhile.
fn run(is_on: bool, clients: u32) -> (f64, u32, World) {
    let mut flood = Flood::new(is_on);
    let address = SocketAddr::new(World::address(SERVER, false), PORT);
    let listener = flood
        .world
        .stack(SERVER)
        .listen(address, ListenOptions::default())
        .unwrap();
    let now = flood.world.now();
    let download = flood.world.stack(CLIENT).connect(now, address).unwrap();
    let mut upload = None;
    let end = now + WARM_UP;
    flood.until(end, |world| {
        match upload {
            Some(id) => fill(world, id),
            None => upload = world.stack(SERVER).accept(listener),
        }
        drain(world, download);
    });
    let upload = upload.expect("the connection came about");
    let (mut read, mut answered) = (0, 0);
    let (mut waiting, mut served) = (Vec::new(), Vec::new());
    let end = end + MEASURED;
    let every = MEASURED / (clients + 1);
    let mut next = flood.world.now() + every;
    let mut opened = 0;
    flood.until(end, |world| {
        fill(world, upload);
        read += drain(world, download);
        let now = world.now();
        if now >= next && opened < clients {
            let id = world.stack(CLIENT).connect(now, address).unwrap();
            waiting.push((id, false));
            (next, opened) = (next + every, opened + 1);
        }
        waiting.retain_mut(|(id, asked)| {
            if !*asked {
                *asked = world.stack(CLIENT).write(now, *id, b"hello").is_ok();
            }
            let mut reply = [0; 16];
            match world.stack(CLIENT).read(now, *id, &mut reply) {
                Ok(5) => {
                    answered += 1;
                    world.stack(CLIENT).abort(now, *id).unwrap();
                    false
                }
                Ok(len) => panic!("{len} bytes"),
                Err(_) => true,
            }
        });
        while let Some(id) = world.stack(SERVER).accept(listener) {
            served.push(id);
        }
        served.retain(|id| {
            let mut request = [0; 16];
            match world.stack(SERVER).read(now, *id, &mut request) {
                Ok(len) if len > 0 => {
                    let sent = world.stack(SERVER).write(now, *id, &request[..len]);
                    assert_eq!(sent.unwrap(), len);
                    true
                }
                Err(SocketError::WouldBlock) => true,
                Ok(_) | Err(_) => false,
            }
        });
    });
    (read as f64 / MEASURED.as_secs_f64(), answered, flood.world)
}

#[test]
fn an_established_connection_hardly_notices_a_flood_and_real_clients_still_connect() {
    const CLIENTS: u32 = 20;
    let (calm, _, _) = run(false, 0);
    let (flooded, answered, world) = run(true, CLIENTS);
    assert!(calm * 8.0 > 20e9, "the link is the bottleneck: {calm} B/s");
    assert!(flooded > 0.95 * calm, "{flooded} B/s of {calm}");
    assert!(answered >= CLIENTS - 1, "{answered} clients were served");
    let counters = world.nic_counters(SERVER);
    let syns = (WARM_UP + MEASURED).as_micros() as u64;
    assert!(
        counters.accel_syn_acks >= syns * 99 / 100,
        "{}",
        counters.accel_syn_acks
    );
    assert_eq!(counters.accel_egress_full, 0);
    // The host never hears of the flood.
    let of = |name| world.counter(SERVER, name);
    assert_eq!(of("AccelSetups"), u64::from(CLIENTS) + 1);
    assert!(counters.rx_packets > of("TcpInSegs") + syns * 99 / 100);
}
