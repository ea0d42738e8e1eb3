//! Requests and responses between two machines of two cores each, with marks for a tracer of memory accesses: a store to a known address
//! says whose turn begins. `tests/cores/run` counts the cache lines that pass from one core of a machine to the other.
//!
//! Usage: `shared_lines [REQUESTS [RESPONSE_BYTES [tls]]]`, requests for each connection; or `shared_lines --short`.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use host::{Event, ListenOptions, ListenerId, Offload, SocketError, SocketId};
use sim::{Suite, World, WorldConfig};

const MACHINES: usize = 2;
const WORKERS: usize = 2;
const NODES: usize = MACHINES * WORKERS;
const CLIENTS: usize = 0;
const SERVERS: usize = 1;
/// Connections that each client's core opens.
const CONNECTIONS: usize = 16;
const REQUEST: usize = 64;
const PORT: u16 = 80;
/// The mark of what belongs to no core: the wire, and this program.
const NOBODY: usize = NODES;
/// The mark of the beginning: what came before has warmed up.
const BEGIN: usize = NODES + 1;

/// A cache line of its own.
#[repr(align(64))]
struct Line<T>(T);

static MARKS: [Line<AtomicU8>; NODES + 2] = [const { Line(AtomicU8::new(0)) }; NODES + 2];
/// How often the world has asked for the time.
static ASKED: Line<AtomicUsize> = Line(AtomicUsize::new(0));

fn mark(whose: usize) {
    MARKS[whose].0.store(1, Ordering::Relaxed);
}

/// The world asks for cycles when a node's turn begins and when it ends, in a fixed order: all hosts, then each machine's NICs as they
/// transmit, then each machine's twice as they receive.
fn clock() -> u64 {
    /// Of a step: at the beginning and the end of four turns of each node.
    const OF_A_STEP: usize = 2 * 4 * NODES;
    let asked = ASKED.0.fetch_add(1, Ordering::Relaxed) % OF_A_STEP;
    let (turn, ends) = (asked / 2, asked % 2 == 1);
    let node = |machine, worker| machine + MACHINES * worker;
    let whose = match turn {
        _ if ends => NOBODY,
        host if host < NODES => host,
        nic if nic < 2 * NODES => {
            let nth = nic - NODES;
            node(nth / WORKERS, nth % WORKERS)
        }
        nic => {
            let nth = nic - 2 * NODES;
            node(nth / (2 * WORKERS), nth % WORKERS)
        }
    };
    mark(whose);
    0
}

fn main() {
    let arguments = std::env::args().skip(1);
    let mut arguments = arguments.filter(|argument| argument != "--short");
    let mut number = |otherwise: usize| {
        arguments.next().map_or(otherwise, |text| {
            text.parse()
                .expect("usage: shared_lines [REQUESTS [RESPONSE_BYTES [tls]]]")
        })
    };
    let (requests, response) = (number(20), number(64));
    let is_secured = arguments.next().is_some();
    println!("marks: {:p}", &MARKS);
    println!("asked: {:p}", &ASKED);
    let mut exchange = Exchange::new(response, is_secured);
    exchange.connect();
    exchange.run(requests / 4 + 1);
    mark(BEGIN);
    exchange.run(requests);
    println!("transactions: {}", requests * CONNECTIONS * WORKERS);
}

/// A world, and what its applications know.
struct Exchange {
    world: World,
    response: Vec<u8>,
    is_secured: bool,
    listeners: Vec<ListenerId>,
    /// By node.
    sockets: [Vec<SocketId>; NODES],
    /// By node and the index of a socket: bytes of the message that comes, that have come.
    came: [Vec<usize>; NODES],
    /// By node.
    buffers: [Vec<u8>; NODES],
}

impl Exchange {
    fn new(response: usize, is_secured: bool) -> Self {
        let mut world = World::new(WorldConfig {
            workers: WORKERS as u16,
            own_queues: true,
            watched: false,
            cycle_counter: Some(clock),
            ..WorldConfig::modest(MACHINES)
        });
        let address = SocketAddr::new(World::address(SERVERS, false), PORT);
        let nodes = world.nodes_of(SERVERS);
        let listeners = nodes.map(|node| {
            let listener = world.stack(node).listen(address, ListenOptions::default());
            listener.expect("the port is free")
        });
        Self {
            listeners: listeners.collect(),
            world,
            response: vec![0x5a; response],
            is_secured,
            sockets: Default::default(),
            came: Default::default(),
            buffers: std::array::from_fn(|_| vec![0; 1 << 16]),
        }
    }

    /// Opens all connections, and lets TLS begin on them.
    fn connect(&mut self) {
        let address = SocketAddr::new(World::address(SERVERS, false), PORT);
        for node in self.world.nodes_of(CLIENTS) {
            for _ in 0..CONNECTIONS {
                let now = self.world.now();
                let socket = self.world.stack(node).connect(now, address);
                self.sockets[node].push(socket.expect("a port is free"));
            }
        }
        let servers: Vec<usize> = self.world.nodes_of(SERVERS).collect();
        while servers
            .iter()
            .map(|node| self.sockets[*node].len())
            .sum::<usize>()
            < CONNECTIONS * WORKERS
        {
            self.step();
            for (node, listener) in servers.iter().zip(&self.listeners) {
                while let Some(socket) = self.world.stack(*node).accept(*listener) {
                    self.sockets[*node].push(socket);
                }
            }
        }
        self.world.run_for(Duration::from_millis(1));
        for node in 0..NODES {
            for socket in self.sockets[node].clone() {
                if self.is_secured {
                    self.secure(node, socket);
                }
                let came = &mut self.came[node];
                came.resize(came.len().max(socket.index() + 1), 0);
            }
        }
    }

    fn secure(&mut self, node: usize, socket: SocketId) {
        let is_client = node % MACHINES == CLIENTS;
        let now = self.world.now();
        let stack = self.world.stack(node);
        let info = stack.info(socket).expect("an open socket");
        let client = if is_client { info.local } else { info.remote };
        let [up, down] = [0, 1].map(|way| Suite::DEFAULT.keys(u64::from(client.port()) << 1 | way));
        let (transmit, receive) = if is_client { (up, down) } else { (down, up) };
        stack
            .install_tls(now, socket, transmit, receive, Offload::Both)
            .expect("a connection without TLS");
    }

    /// Sends so many requests on each connection, one after the other, and answers them.
    fn run(&mut self, requests: usize) {
        let clients: Vec<usize> = self.world.nodes_of(CLIENTS).collect();
        for &node in &clients {
            for socket in self.sockets[node].clone() {
                self.write(node, socket, false);
            }
        }
        let mut left = requests * CONNECTIONS * WORKERS;
        let mut asked: Vec<Vec<usize>> = vec![vec![1; 1 << 12]; NODES];
        while left > 0 {
            self.step();
            for node in 0..NODES {
                mark(node);
                while let Some(event) = self.world.stack(node).poll_event() {
                    let Event::Readable(socket) = event else {
                        continue;
                    };
                    let is_client = node % MACHINES == CLIENTS;
                    let expected = if is_client {
                        self.response.len()
                    } else {
                        REQUEST
                    };
                    for _ in 0..self.read(node, socket, expected) {
                        if !is_client {
                            self.write(node, socket, true);
                            continue;
                        }
                        left -= 1;
                        let asked = &mut asked[node][socket.index()];
                        if *asked < requests {
                            *asked += 1;
                            self.write(node, socket, false);
                        }
                    }
                }
                mark(NOBODY);
            }
        }
    }

    /// Writes a message, which always has room.
    fn write(&mut self, node: usize, socket: SocketId, is_response: bool) {
        let now = self.world.now();
        let message = if is_response {
            &self.response[..]
        } else {
            &[0x3c; REQUEST]
        };
        let written = self.world.stack(node).write(now, socket, message);
        assert_eq!(
            written,
            Ok(message.len()),
            "a socket has room for a message"
        );
    }

    /// Reads what there is; answers how many messages of that length have come whole.
    fn read(&mut self, node: usize, socket: SocketId, expected: usize) -> usize {
        let now = self.world.now();
        let mut messages = 0;
        loop {
            let read = self
                .world
                .stack(node)
                .read(now, socket, &mut self.buffers[node]);
            let len = match read {
                Ok(len) if len > 0 => len,
                Err(SocketError::WouldBlock) => return messages,
                other => panic!("a read gave {other:?}"),
            };
            let came = &mut self.came[node][socket.index()];
            *came += len;
            messages += *came / expected;
            *came %= expected;
        }
    }

    fn step(&mut self) {
        if !self.world.step() {
            assert!(self.world.advance(), "nothing is under way any more");
        }
    }
}
