//! A client and a server, each on a NIC of its own, in one thread and in virtual time: for what only the crate itself can see.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use handshake::{Certificate, Options, Trust, client_config, server_config};
use nic::ring::FunctionConfig;
use nic::{FrameMeta, Nic, NicConfig};
use rustls::pki_types::ServerName;
use wire::ethernet::MacAddr;

use crate::{
    Cidr, Event, ListenOptions, ListenerId, Offload, SocketError, SocketId, Stack, StackConfig,
    TlsRole,
};

pub const PORT: u16 = 443;
pub const CLIENT: usize = 0;
pub const SERVER: usize = 1;

/// One host.
pub struct Host {
    pub stack: Stack,
    pub nic: Nic,
    inbox: VecDeque<(Instant, Vec<u8>)>,
    pub events: Vec<Event>,
}

/// What becomes of a frame on the wire.
pub enum Fate {
    Pass,
    Drop,
    Late(Duration),
}

type Wire = Box<dyn FnMut(usize, &mut Vec<u8>) -> Fate>;

/// Both hosts and the wire between them.
pub struct Pair {
    pub hosts: [Host; 2],
    pub now: Instant,
    /// Says what becomes of each frame, by its sender.
    pub wire: Wire,
    listener: Option<ListenerId>,
}

const LATENCY: Duration = Duration::from_micros(50);

impl Pair {
    pub fn new() -> Self {
        Self::with(|_, _| {})
    }

    /// A pair whose settings `adjust` has changed.
    pub fn with(adjust: impl Fn(usize, (&mut StackConfig, &mut FunctionConfig))) -> Self {
        let now = Instant::now();
        let hosts = [CLIENT, SERVER].map(|at| {
            let mac = mac(at);
            let mut config = StackConfig {
                addresses: vec![Cidr::new(v4(at), 24)],
                memory: 50 << 20,
                secret: [at as u8 + 7; 16],
                ..StackConfig::default()
            };
            let mut function = FunctionConfig {
                contexts: 4096,
                ..FunctionConfig::new(mac)
            };
            adjust(at, (&mut config, &mut function));
            let mut nic = Nic::new(NicConfig::new([at as u8; 16]));
            let (host, device) = nic::ring::function(function);
            nic.attach(device).expect("a first function");
            Host {
                stack: Stack::new(now, config, host),
                nic,
                inbox: VecDeque::new(),
                events: Vec::new(),
            }
        });
        Self {
            hosts,
            now,
            wire: Box::new(|_, _| Fate::Pass),
            listener: None,
        }
    }

    pub fn stack(&mut self, at: usize) -> &mut Stack {
        &mut self.hosts[at].stack
    }

    /// Runs everything that is due now. Answers whether there was anything.
    pub fn step(&mut self) -> bool {
        let now = self.now;
        let mut progress = false;
        let mut frame = vec![0; 1 << 17];
        for at in 0..2 {
            let host = &mut self.hosts[at];
            while host.inbox.front().is_some_and(|(due, _)| *due <= now) {
                let Some((_, bytes)) = host.inbox.pop_front() else {
                    break;
                };
                host.nic.handle_frame(now, &bytes, FrameMeta::default());
                progress = true;
            }
            host.nic.flush(now);
            progress |= host.stack.poll(now);
            while let Some(event) = host.stack.poll_event() {
                host.events.push(event);
                progress = true;
            }
            while let Some((len, _)) = self.hosts[at].nic.poll_transmit(now, &mut frame) {
                progress = true;
                let mut bytes = frame[..len].to_vec();
                let due = match (self.wire)(at, &mut bytes) {
                    Fate::Drop => continue,
                    Fate::Pass => now + LATENCY,
                    Fate::Late(more) => now + LATENCY + more,
                };
                let inbox = &mut self.hosts[1 - at].inbox;
                let place = inbox.partition_point(|(other, _)| *other <= due);
                inbox.insert(place, (due, bytes));
            }
            self.hosts[at].nic.flush(now);
        }
        progress
    }

    /// Runs on to the next thing that is due. False when nothing ever will be.
    pub fn advance(&mut self) -> bool {
        while self.step() {}
        let due = self
            .hosts
            .iter()
            .flat_map(|host| {
                [
                    host.stack.poll_timeout(),
                    host.nic.poll_timeout(),
                    host.inbox.front().map(|(due, _)| *due),
                ]
            })
            .flatten()
            .min();
        let Some(due) = due else { return false };
        self.now = due.max(self.now + Duration::from_micros(1));
        true
    }

    /// Runs until `done`, for `limit` of virtual time at most.
    pub fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let end = self.now + limit;
        loop {
            while self.step() {
                if done(self) {
                    return true;
                }
            }
            if done(self) {
                return true;
            }
            if self.now >= end || !self.advance() {
                return false;
            }
        }
    }

    pub fn run_for(&mut self, time: Duration) {
        self.run_until(time, |_| false);
    }

    /// A connection, client and server side.
    pub fn connect(&mut self) -> (SocketId, SocketId) {
        let address = SocketAddr::new(v4(SERVER), PORT);
        let listener = self.listener.unwrap_or_else(|| {
            let listener = self.stack(SERVER).listen(address, ListenOptions::default());
            listener.expect("the port is free")
        });
        self.listener = Some(listener);
        let now = self.now;
        let client = self.stack(CLIENT).connect(now, address).expect("a route");
        let mut server = None;
        let connected = self.run_until(Duration::from_secs(30), |pair| {
            server = server.or_else(|| pair.stack(SERVER).accept(listener));
            server.is_some()
                && pair.hosts[CLIENT]
                    .events
                    .contains(&Event::Connected(client))
        });
        assert!(connected, "no connection: {:?}", self.hosts[CLIENT].events);
        (client, server.expect("accepted"))
    }

    /// A connection with TLS on it, of which the NICs do all that they can.
    pub fn secure(&mut self) -> (SocketId, SocketId) {
        let (client, server) = self.connect();
        let (now, options) = (self.now, Options::default());
        let config = client_config(Trust::Anyone, &options).expect("a configuration");
        let name = ServerName::try_from("server.test").expect("a name");
        self.stack(CLIENT)
            .start_tls(now, client, TlsRole::Client { config, name }, Offload::Both)
            .expect("starts");
        let config = server_config(certificate(), &options).expect("a configuration");
        self.stack(SERVER)
            .start_tls(now, server, TlsRole::Server { config }, Offload::Both)
            .expect("starts");
        let secured = self.run_until(Duration::from_secs(30), |pair| {
            pair.hosts[CLIENT].events.contains(&Event::Secured(client))
                && pair.hosts[SERVER].events.contains(&Event::Secured(server))
        });
        assert!(
            secured,
            "{:?} {:?}",
            self.hosts[CLIENT].events, self.hosts[SERVER].events
        );
        (client, server)
    }

    /// Sends bytes from one side and reads them on the other; gives what was read.
    pub fn transfer(
        &mut self,
        from: usize,
        sender: SocketId,
        receiver: SocketId,
        data: &[u8],
    ) -> Vec<u8> {
        let mut written = 0;
        let mut received = Vec::with_capacity(data.len());
        let mut buffer = vec![0; 100_000];
        let finished = self.run_until(Duration::from_secs(600), |pair| {
            let now = pair.now;
            while written < data.len() {
                match pair.stack(from).write(now, sender, &data[written..]) {
                    Ok(bytes) => written += bytes,
                    Err(SocketError::WouldBlock) => break,
                    Err(error) => panic!("write: {error}"),
                }
            }
            loop {
                match pair.stack(1 - from).read(now, receiver, &mut buffer) {
                    Ok(0) => break,
                    Ok(bytes) => received.extend_from_slice(&buffer[..bytes]),
                    Err(SocketError::WouldBlock) => break,
                    Err(error) => panic!("read after {} bytes: {error}", received.len()),
                }
            }
            received.len() >= data.len()
        });
        assert!(
            finished,
            "{written} written and {} received of {} bytes",
            received.len(),
            data.len()
        );
        received
    }

    /// Puts a frame on the wire towards a host.
    pub fn inject(&mut self, to: usize, frame: Vec<u8>) {
        self.hosts[to].inbox.push_front((self.now, frame));
    }

    pub fn counter(&self, at: usize, name: &str) -> u64 {
        let found = self.hosts[at]
            .stack
            .counters()
            .find(|(counter, _)| *counter == name);
        found.unwrap_or_else(|| panic!("no counter {name}")).1
    }
}

pub fn mac(at: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, at as u8 + 1])
}

pub fn v4(at: usize) -> IpAddr {
    IpAddr::from([10, 0, 0, at as u8 + 1])
}

/// A wire that loses and delays frames of one side, the same at every run.
pub fn lossy(sender: usize, loss: f64, reorder: f64, seed: u64) -> Wire {
    let mut state = seed | 1;
    let mut chance = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    Box::new(move |from, _| {
        if from != sender {
            return Fate::Pass;
        }
        let roll = chance();
        if roll < loss {
            Fate::Drop
        } else if roll < loss + reorder {
            Fate::Late(Duration::from_micros(80))
        } else {
            Fate::Pass
        }
    })
}

fn certificate() -> Certificate {
    Certificate::self_signed(["server.test".to_owned()]).expect("a certificate")
}
