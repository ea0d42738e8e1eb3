//! A world: the load balancer is one machine, with a worker or several; clients and servers share another one.

mod peer;
pub mod secure;
mod server;
pub mod streams;

use std::cell::RefCell;
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use handshake::Certificates;
use host::memory::MemoryLevel;
use host::{Accel, ListenOptions, ListenerId, Offload, ReadChunk, TlsRole};
use port::impair::Impairment;
use sim::{Fate, World, WorldConfig};

use crate::http::{Head, find_head};
use crate::lb::config::Config;
use crate::lb::http::{MAX_FIELDS, RequestTraits, Response};
use crate::lb::pool::Pool;
use crate::lb::{Balancer, Checks, Means};

pub use peer::Peer;
pub use server::{Manner, content};
use server::{Server, read_content};

/// Everything.
pub struct Rig {
    pub world: World,
    pub balancer: Balancer,
    /// Those of the other workers.
    others: Vec<Balancer>,
    pub clients: Vec<Peer>,
    listeners: Vec<Listener>,
    servers: Vec<Server>,
    /// The part in handshakes of the servers at [`SECURE`].
    pub servers_role: Option<TlsRole>,
    segment: usize,
    /// What the load balancer's host keeps of what another program of it has received.
    held: Vec<ReadChunk>,
    /// What the load balancer proves itself with.
    pub certificates: Option<Arc<Certificates>>,
    /// What was seen of clients and servers with TLS.
    pub leak: secure::Leak,
    /// Ports of clients that are gone.
    vanished: Rc<RefCell<HashSet<u16>>>,
}

/// Servers at this port have TLS.
pub const SECURE: u16 = 8443;

struct Listener {
    node: usize,
    id: ListenerId,
    port: u16,
    manner: Manner,
}

/// Where the load balancer is, and where the servers are.
pub const OURS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const THEIRS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

impl Rig {
    pub fn new(config: &str, servers: &[(u16, Manner)]) -> Rig {
        Rig::on(config, servers, Impairment::default(), 1 << 20, Accel::NONE)
    }

    /// On links that do this to frames, with peers that send so many bytes at a time.
    pub fn on(
        config: &str,
        servers: &[(u16, Manner)],
        impairment: Impairment,
        segment: usize,
        accel: Accel,
    ) -> Rig {
        let mut settings = WorldConfig {
            links: vec![impairment; 2],
            ..WorldConfig::default()
        };
        settings.nodes[0].stack.accel = accel;
        Rig::in_world(config, servers, settings, segment)
    }

    /// In a world of these settings.
    pub fn in_world(
        config: &str,
        servers: &[(u16, Manner)],
        settings: WorldConfig,
        segment: usize,
    ) -> Rig {
        let can_splice = settings.nodes[0].stack.accel.splice;
        let workers = settings.workers;
        let mut world = World::new(settings);
        let vanished = Rc::<RefCell<HashSet<u16>>>::default();
        let gone = Rc::clone(&vanished);
        let leak = secure::Leak::default();
        let looks = leak.clone();
        world.decide(move |from, _, frame| {
            let port = client_port(from, frame);
            if our_port(from, frame) == Some(443) || port == Some(SECURE) {
                looks.look(frame);
            }
            match port.is_some_and(|port| gone.borrow().contains(&port)) {
                true => Fate::Drop,
                false => Fate::Pass,
            }
        });
        let config = Config::parse("test", config).unwrap();
        let now = world.now();
        let (certificates, tls) = secure::tls(&config).unzip();
        let means = Means {
            can_splice,
            offload: if tls.is_some() {
                Offload::Both
            } else {
                Offload::None
            },
            tls,
            checks: Checks::Own,
        };
        let balancers = (0..workers).map(|nth| {
            let means = Means {
                checks: Checks::of(nth, workers),
                ..means.clone()
            };
            let config = config.share(nth, workers);
            let stack = world.stack(ours(nth.into()));
            Balancer::start(now, config, stack, means).unwrap()
        });
        let mut others: Vec<_> = balancers.collect();
        let balancer = others.remove(0);
        let mut listeners = Vec::new();
        for &(port, manner) in servers {
            let address = SocketAddr::new(THEIRS, port);
            for node in (0..workers.into()).map(theirs) {
                let id = world.stack(node).listen(address, ListenOptions::default());
                listeners.push(Listener {
                    node,
                    id: id.unwrap(),
                    port,
                    manner,
                });
            }
        }
        Rig {
            world,
            balancer,
            others,
            clients: Vec::new(),
            listeners,
            servers: Vec::new(),
            servers_role: None,
            segment,
            held: Vec::new(),
            certificates,
            leak,
            vanished,
        }
    }

    /// A client that connects to this port and sends this.
    pub fn client(&mut self, port: u16, out: impl Into<Vec<u8>>) -> usize {
        let now = self.world.now();
        let node = theirs(self.clients.len() % self.workers());
        let id = self
            .world
            .stack(node)
            .connect(now, SocketAddr::new(OURS, port));
        let mut peer = Peer::new(node, id.unwrap(), self.segment);
        peer.out = out.into();
        self.clients.push(peer);
        self.clients.len() - 1
    }

    /// A client that speaks TLS to port 443.
    pub fn secure_client(&mut self, out: impl Into<Vec<u8>>) -> usize {
        let client = self.client(443, out);
        self.clients[client].tls = Some(secure::client());
        client
    }

    /// The same, of a client with this part in the handshake.
    pub fn client_of(&mut self, role: TlsRole, out: impl Into<Vec<u8>>) -> usize {
        let client = self.client(443, out);
        self.clients[client].tls = Some(role);
        client
    }

    /// The client resets its connection.
    pub fn reset(&mut self, client: usize) {
        let now = self.world.now();
        let peer = &mut self.clients[client];
        peer.is_broken = true;
        let _ = self.world.stack(peer.node).abort(now, peer.id);
    }

    /// Where the client comes from.
    pub fn source(&self, client: usize) -> SocketAddr {
        let peer = &self.clients[client];
        let info = self.world.stack_ref(peer.node).info(peer.id);
        info.expect("it is there").local
    }

    /// The last connection to the server of this port.
    pub fn server(&self, port: u16) -> Option<&Peer> {
        let mut servers = self.servers.iter().rev();
        servers
            .find(|server| server.port == port)
            .map(|server| &server.peer)
    }

    /// The client is gone: none of its packets comes through any more, nor any to it.
    pub fn vanish(&mut self, client: usize) {
        let port = self.source(client).port();
        self.vanished.borrow_mut().insert(port);
    }

    /// Has another program on the load balancer's stack keep what it receives, until memory is so short.
    pub fn hold_memory(&mut self, level: MemoryLevel) {
        let (now, address) = (self.world.now(), SocketAddr::new(OURS, 9));
        let stack = self.world.stack(0);
        let listener = stack.listen(address, ListenOptions::default()).unwrap();
        self.client(9, vec![0; 64 << 20]);
        let mut receiver = None;
        while self.world.stack(0).memory().level < level {
            let is_late = self.world.now() > now + Duration::from_secs(60);
            assert!(!is_late, "{:?}", self.world.stack(0).memory());
            let is_at_rest = !self.step() && !self.world.advance();
            assert!(!is_at_rest, "{:?}", self.world.stack(0).memory());
            let (now, stack) = (self.world.now(), self.world.stack(0));
            receiver = receiver.or_else(|| stack.accept(listener));
            let read = receiver.map(|id| stack.read_chunk(now, id));
            self.held.extend(read.and_then(Result::ok).flatten());
        }
    }

    /// Has it give the memory back.
    pub fn release_memory(&mut self) {
        self.held.clear();
    }

    /// The server of this port behaves otherwise on new connections.
    pub fn behave(&mut self, port: u16, manner: Manner) {
        for listener in &mut self.listeners {
            if listener.port == port {
                listener.manner = manner;
            }
        }
    }

    /// Gives the load balancer another configuration. Answers what needs a restart.
    pub fn reload(&mut self, config: &str) -> Vec<String> {
        let (now, config) = (self.world.now(), Config::parse("test", config).unwrap());
        let count = self.workers() as u16;
        for (nth, other) in (1..).zip(&mut self.others) {
            let stack = self.world.stack(ours(nth.into()));
            other.reload(now, config.share(nth, count), stack);
        }
        let config = config.share(0, count);
        self.balancer.reload(now, config, self.world.stack(0))
    }

    /// The pools of all workers.
    pub fn pools(&self) -> impl Iterator<Item = &Pool> {
        let others = self.others.iter();
        let all = std::iter::once(&self.balancer).chain(others);
        all.flat_map(Balancer::pools)
    }

    /// How many workers the load balancer has.
    fn workers(&self) -> usize {
        1 + self.others.len()
    }

    /// Runs until it is so.
    pub fn run(&mut self, until: impl FnMut(&Rig) -> bool) {
        let end = self.world.now() + Duration::from_secs(300);
        assert!(self.run_until(end, until), "it does not come to an end");
    }

    /// Runs for so long.
    pub fn run_for(&mut self, time: Duration) {
        let end = self.world.now() + time;
        self.run_until(end, |_| false);
    }

    /// Runs until it is so, or until `end`. Answers whether it is.
    fn run_until(&mut self, end: Instant, mut until: impl FnMut(&Rig) -> bool) -> bool {
        loop {
            let moved = self.step();
            if until(self) {
                return true;
            }
            if self.world.now() >= end {
                return false;
            }
            if !moved {
                let reads = self.clients.iter().filter_map(Peer::due);
                let others = self.others.iter().filter_map(Balancer::poll_timeout);
                let own = others.chain(self.balancer.poll_timeout());
                let due = reads.chain(own).min();
                self.world.advance_to(due.map_or(end, |due| due.min(end)));
            }
        }
    }

    /// The servers that answer so many requests, each on a connection of its own; 0 for a refusal.
    pub fn who_answers(&mut self, requests: usize) -> Vec<u16> {
        let answers = (0..requests).map(|_| {
            let client = self.client(80, "GET /n/10 HTTP/1.1\r\nHost: h\r\n\r\n");
            self.answers(client, 1)[0].port
        });
        let mut ports: Vec<_> = answers.collect();
        ports.sort_unstable();
        ports
    }

    /// Runs until this client has so many responses, or its connection is over.
    pub fn answers(&mut self, client: usize, count: usize) -> Vec<Answer> {
        self.run(|rig| {
            let peer = &rig.clients[client];
            peer.is_over() || answers(&peer.input).len() >= count
        });
        answers(&self.clients[client].input)
    }

    /// The servers end their connections when they have sent everything.
    pub fn end_servers(&mut self) {
        for server in &mut self.servers {
            server.peer.ends = true;
        }
    }

    /// Clients and then servers do what there is to do, and it comes to the load balancer's host, which does not look.
    pub fn step_peers(&mut self) {
        let now = self.world.now();
        for client in &mut self.clients {
            client.turn(now, self.world.stack(client.node));
        }
        while self.world.step() {}
        for server in &mut self.servers {
            server.peer.turn(now, self.world.stack(server.peer.node));
        }
        while self.world.step() {}
    }

    fn step(&mut self) -> bool {
        let mut moved = self.world.step();
        let now = self.world.now();
        moved |= self.balancer.poll(now, self.world.stack(0));
        moved |= self.poll_others();
        for node in (0..self.workers()).map(theirs) {
            while self.world.stack(node).poll_event().is_some() {}
        }
        for listener in &self.listeners {
            while let Some(id) = self.world.stack(listener.node).accept(listener.id) {
                let mut peer = Peer::new(listener.node, id, self.segment);
                if listener.port == SECURE {
                    peer.tls.clone_from(&self.servers_role);
                }
                let server = Server::new(peer, listener.port, listener.manner);
                self.servers.push(server);
            }
        }
        for server in &mut self.servers {
            let stack = self.world.stack(server.peer.node);
            moved |= server.peer.turn(now, stack);
            server.serve(now, stack);
        }
        for client in &mut self.clients {
            moved |= client.turn(now, self.world.stack(client.node));
        }
        moved
    }

    /// The other workers do what there is to do, and hear of the first one's checks.
    fn poll_others(&mut self) -> bool {
        let now = self.world.now();
        let verdicts = self.balancer.take_verdicts();
        let mut moved = false;
        for (nth, other) in (1..).zip(&mut self.others) {
            let stack = self.world.stack(ours(nth));
            for verdict in &verdicts {
                other.apply_verdict(now, stack, verdict);
            }
            moved |= other.poll(now, stack);
        }
        moved
    }
}

/// The node of a worker of the load balancer's.
fn ours(worker: usize) -> usize {
    2 * worker
}

/// The node of a worker of the clients' and servers'.
fn theirs(worker: usize) -> usize {
    2 * worker + 1
}

/// The port on host 0 of a TCP segment over IPv4.
fn our_port(from: usize, frame: &[u8]) -> Option<u16> {
    client_port(1 - from, frame)
}

/// The port on host 1 of a TCP segment over IPv4.
fn client_port(from: usize, frame: &[u8]) -> Option<u16> {
    let is_tcp = frame.get(12..14)? == [8, 0] && *frame.get(23)? == 6;
    let at = if from == 1 { 34 } else { 36 };
    let port = frame.get(at..at + 2)?.try_into().ok()?;
    is_tcp.then(|| u16::from_be_bytes(port))
}

/// A configuration of one frontend and one pool, with more settings in them.
pub fn config(frontend: &str, pool: &str, backends: &[u16]) -> String {
    let backends: Vec<_> = backends
        .iter()
        .map(|port| format!("\"10.0.0.2:{port}\""))
        .collect();
    let backends = backends.join(", ");
    let backends = if pool.contains("backends") {
        String::new()
    } else {
        format!("backends = [{backends}]")
    };
    let health = if pool.contains("health") {
        ""
    } else {
        "health = { check = \"none\" }"
    };
    format!(
        "[frontends.web]\nlisten = [\"10.0.0.1:80\"]\npool = \"app\"\n{frontend}\n[pools.app]\n{backends}\n{health}\n{pool}\n"
    )
}

/// A response that a client got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// The server that gave it; 0 if none did.
    pub port: u16,
    pub content: Vec<u8>,
    pub keep_alive: bool,
}

/// The whole responses in what a client got.
pub fn answers(mut input: &[u8]) -> Vec<Answer> {
    let mut answers = Vec::new();
    while let Head::Complete { start, end } = find_head(input, &mut 0, 1 << 20) {
        let mut storage = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let asked = RequestTraits::default();
        let response = Response::parse(&input[start..end], &mut storage, asked).unwrap();
        let port = response.headers.iter().find(|field| field.name == "X-Port");
        let port = port.map_or(0, |field| {
            std::str::from_utf8(field.value).unwrap().parse().unwrap()
        });
        let Some((len, content)) = read_content(response.framing, &input[end..]) else {
            break;
        };
        answers.push(Answer {
            status: response.status,
            port,
            content,
            keep_alive: response.keep_alive,
        });
        input = &input[end + len..];
    }
    answers
}
