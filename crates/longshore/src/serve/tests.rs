//! A server on a stack in virtual time, and clients that are slow, or come while memory is short.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use host::memory::MemoryLevel;
use host::{ListenOptions, Offload, ReadChunk, SocketError, SocketId, TlsRole};
use port::impair::Impairment;
use sim::{World, WorldConfig};

use super::counters::ServeCounters;
use super::files::FileSource;
use super::server::{Rules, Server};
use crate::matching::{Action, Matcher, Rule};
use crate::min_rate::MinRate;
use crate::store::Store;

const OURS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const GET: &[u8] = b"GET /file HTTP/1.1\r\nHost: h\r\n\r\n";
const FILE_BYTES: usize = 4_000_000;
const SEND_TIMEOUT: Duration = Duration::from_secs(20);

/// A server at node 0.
pub(super) struct Rig {
    pub(super) world: World,
    pub(super) server: Server,
    pub(super) folder: PathBuf,
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Rig {
    fn new(name: &str, rate: u32) -> Rig {
        let way = FileSource::Copied;
        Rig::with(name, rate, None, way, (0, Impairment::default()))
    }

    /// On a link that does this to frames, by a seed.
    pub(super) fn with(
        name: &str,
        rate: u32,
        tls: Option<TlsRole>,
        way: FileSource,
        (seed, link): (u64, Impairment),
    ) -> Rig {
        let folder = format!("longshore-serve-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("file"), vec![b'x'; FILE_BYTES]).unwrap();
        fs::write(folder.join("short"), "short").unwrap();
        let mut settings = WorldConfig {
            seed,
            links: vec![link; 2],
            ..WorldConfig::default()
        };
        settings.nodes[0].stack.memory = 32 << 20;
        let mut world = World::new(settings);
        let min_rate = MinRate {
            rate,
            window: Duration::from_secs(5),
        };
        let rules = Rules {
            matcher: None,
            min_rate,
            send_timeout: Some(SEND_TIMEOUT),
        };
        let store = Store::open(&folder).unwrap();
        let offload = match tls {
            Some(_) => Offload::Both,
            None => Offload::None,
        };
        let mut server = Server::new(store, tls, offload, way, rules);
        let address = SocketAddr::new(OURS, 80);
        world.stack(0).set_default_user_timeout(Some(SEND_TIMEOUT));
        server.listen(world.stack(0), address).unwrap();
        Rig {
            world,
            server,
            folder,
        }
    }

    /// A client that connects.
    pub(super) fn connect(&mut self) -> SocketId {
        let now = self.world.now();
        let stack = self.world.stack(1);
        stack.connect(now, SocketAddr::new(OURS, 80)).unwrap()
    }

    /// A client that has sent this.
    fn client(&mut self, request: &[u8]) -> SocketId {
        let id = self.connect();
        self.run_for(Duration::from_millis(1));
        let now = self.world.now();
        let written = self.world.stack(1).write(now, id, request);
        assert_eq!(written, Ok(request.len()));
        id
    }

    /// Takes at most so many bytes of what has come.
    pub(super) fn read(&mut self, id: SocketId, most: usize) -> Result<Vec<u8>, SocketError> {
        let now = self.world.now();
        let mut buffer = vec![0; most];
        let len = self.world.stack(1).read(now, id, &mut buffer)?;
        buffer.truncate(len);
        Ok(buffer)
    }

    /// Runs for so long, and sweeps as often as the command does.
    pub(super) fn run_for(&mut self, time: Duration) {
        let end = self.world.now() + time;
        while self.world.now() < end {
            let now = self.world.now();
            let moved = self.world.step() | self.server.poll(now, self.world.stack(0));
            while self.world.stack(1).poll_event().is_some() {}
            if !moved {
                self.server.sweep(now, self.world.stack(0));
                let tick = now + super::SWEEP;
                let due = self.server.poll_timeout().into_iter().chain([tick, end]);
                self.world.advance_to(due.min().unwrap_or(end));
            }
        }
    }
}

/// A client that has its last answer, and has not read it, is not reset for what it sends yet.
#[test]
fn a_pattern_behind_the_last_request_takes_no_answer_away() {
    let mut rig = Rig::new("searching", 0);
    let patterns = rig.folder.join("patterns");
    fs::write(&patterns, "evil\n").unwrap();
    let rule = Rule::read(&patterns, Action::Close).unwrap();
    let matcher = Matcher::new(rule, rig.world.stack(0), Offload::None);
    rig.server.rules.matcher = Some(matcher);
    let id = rig.client(b"GET /short HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    rig.run_for(Duration::from_millis(10));
    let now = rig.world.now();
    let written = rig.world.stack(1).write(now, id, b"evil");
    assert_eq!(written, Ok(4));
    rig.run_for(Duration::from_millis(10));
    let answer = rig.read(id, 10_000).unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200") && answer.ends_with(b"short"));
    assert_eq!(rig.read(id, 1), Ok(Vec::new()));
    assert_eq!(rig.server.counters().match_closes, 0);
    // One that is still to be answered is.
    let id = rig.client(b"GET /short HTTP/1.1\r\nHost: h\r\nX: evil\r\n\r\n");
    rig.run_for(Duration::from_millis(10));
    assert!(rig.read(id, 1).is_err());
    assert_eq!(rig.server.counters().match_closes, 1);
}

/// How much of a file a client has got that takes so many bytes a second, and whether its connection broke.
fn take(rig: &mut Rig, pace: usize) -> (usize, bool) {
    let id = rig.client(GET);
    let mut got = 0;
    while got < FILE_BYTES {
        rig.run_for(Duration::from_secs(1));
        match rig.read(id, pace) {
            Ok(bytes) if bytes.is_empty() => return (got, false),
            Ok(bytes) => got += bytes.len(),
            Err(SocketError::WouldBlock) => {}
            Err(_) => return (got, true),
        }
    }
    (got, false)
}

#[test]
fn who_takes_less_than_the_least_rate_is_reset() {
    let mut rig = Rig::new("slow", 240);
    let id = rig.client(GET);
    for _ in 0..60 {
        rig.run_for(Duration::from_secs(1));
        let _ = rig.read(id, 100);
    }
    assert_eq!(rig.server.counters().slow_readers, 1);
    assert_eq!(rig.server.counters().connections_open, 0);
}

#[test]
fn who_takes_nothing_for_as_long_as_the_send_timeout_is_reset() {
    let mut rig = Rig::new("nothing", 0);
    let id = rig.client(GET);
    rig.run_for(Duration::from_secs(19));
    assert_eq!(rig.server.counters().connections_open, 1);
    rig.run_for(Duration::from_secs(2));
    assert_eq!(rig.server.counters().send_timeouts, 1);
    assert_eq!(rig.server.counters().connections_open, 0);
    // A block is kept for what is written next.
    assert!(rig.world.stack(0).memory().queued < 128 << 10);
    while rig.read(id, FILE_BYTES).is_ok() {}
    assert!(
        !matches!(rig.read(id, 1), Err(SocketError::WouldBlock)),
        "it was told"
    );
}

#[test]
fn who_is_slow_gets_all_of_the_file() {
    for rate in [0, 240] {
        let mut rig = Rig::new(&format!("all-{rate}"), rate);
        let (got, is_broken) = take(&mut rig, 100_000);
        assert!(got >= FILE_BYTES && !is_broken, "{got} bytes");
        assert_eq!(rig.server.counters().slow_readers, 0);
    }
}

/// A client that takes so many bytes a second of a response that is its last, and fits into the server's queue; how much of it, and what was counted by then.
fn take_the_last(name: &str, rate: u32, pace: usize, half_closes: bool) -> (usize, ServeCounters) {
    const LAST: &[u8] =
        b"GET /file HTTP/1.1\r\nHost: h\r\nRange: bytes=0-349999\r\nConnection: close\r\n\r\n";
    let mut rig = Rig::new(name, rate);
    let id = rig.client(LAST);
    let now = rig.world.now();
    if half_closes {
        rig.world.stack(1).shutdown(now, id).unwrap();
    }
    let mut got = 0;
    for _ in 0..60 {
        rig.run_for(Duration::from_secs(1));
        match rig.read(id, pace) {
            Ok(bytes) if bytes.is_empty() => break,
            Ok(bytes) => got += bytes.len(),
            Err(_) => {}
        }
    }
    let now = rig.world.now();
    let _ = rig.world.stack(1).close(now, id);
    rig.run_for(Duration::from_secs(2));
    (got, rig.server.counters())
}

#[test]
fn who_takes_the_last_response_at_less_than_the_least_rate_is_reset_too() {
    for half_closes in [false, true] {
        let (_, counters) = take_the_last("last", 240, 100, half_closes);
        let counted = (counters.slow_readers, counters.client_timeouts);
        assert_eq!(counted, (1, 0), "{half_closes}");
        assert_eq!(counters.connections_open, 0);
    }
}

#[test]
fn who_is_slow_to_take_the_last_response_is_not_late() {
    for half_closes in [false, true] {
        let (got, counters) = take_the_last("not-late", 240, 60_000, half_closes);
        assert!(got > 350_000, "{got}");
        let counted = (counters.slow_readers, counters.client_timeouts);
        assert_eq!(counted, (0, 0), "{half_closes}");
        assert_eq!(counters.connections_open, 0);
    }
}

/// A client on the same stack keeps what it receives.
pub(super) fn hold_memory(rig: &mut Rig, level: MemoryLevel) -> Vec<ReadChunk> {
    let address = SocketAddr::from(([10, 0, 0, 2], 9));
    let stack = rig.world.stack(1);
    let listener = stack.listen(address, ListenOptions::default()).unwrap();
    let began = rig.world.now();
    let receiver = rig.world.stack(0).connect(began, address).unwrap();
    let (mut sender, mut held) = (None, Vec::new());
    while rig.world.stack(0).memory_level() < level {
        rig.run_for(Duration::from_micros(100));
        let now = rig.world.now();
        assert!(now < began + Duration::from_secs(60));
        let stack = rig.world.stack(1);
        sender = sender.or_else(|| stack.accept(listener));
        let _ = sender.map(|id| stack.write(now, id, &[0; 65_536]));
        let read = rig.world.stack(0).read_chunk(now, receiver);
        held.extend(read.ok().flatten());
    }
    held
}

#[test]
fn without_memory_requests_are_refused_but_for_those_of_clients_that_have_taken_a_response() {
    let short: &[u8] = b"GET /short HTTP/1.1\r\nHost: h\r\n\r\n";
    let mut rig = Rig::new("exhausted", 0);
    let kept = rig.client(short);
    rig.run_for(Duration::from_millis(10));
    let answer = String::from_utf8(rig.read(kept, 4096).unwrap()).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let held = hold_memory(&mut rig, MemoryLevel::Exhausted);
    rig.run_for(Duration::from_secs(6));
    let now = rig.world.now();
    rig.world.stack(1).write(now, kept, short).unwrap();
    let new = rig.client(short);
    rig.run_for(Duration::from_millis(20));
    let answer = String::from_utf8(rig.read(kept, 4096).unwrap()).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let answer = String::from_utf8(rig.read(new, 4096).unwrap()).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("\r\nRetry-After: 1\r\n"), "{answer}");
    let now = rig.world.now();
    rig.world.stack(1).write(now, new, short).unwrap();
    rig.run_for(Duration::from_millis(20));
    let answer = String::from_utf8(rig.read(new, 4096).unwrap()).unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    let counters = rig.server.counters();
    assert_eq!((counters.requests_shed, counters.connections), (2, 2));
    drop(held);
}

/// Each of them takes the place of the one before it: on a stack that is too small for calls nested as often.
#[test]
fn without_memory_many_clients_that_have_gone_already_take_one_place_after_the_other() {
    let thread = std::thread::Builder::new().stack_size(256 << 10);
    let clients = thread.spawn(accept_clients_that_have_gone).unwrap();
    clients.join().unwrap();
}

fn accept_clients_that_have_gone() {
    const CLIENTS: u64 = 900;
    let mut rig = Rig::new("gone", 0);
    let first = rig.client(b"");
    let held = hold_memory(&mut rig, MemoryLevel::Exhausted);
    let now = rig.world.now();
    let address = SocketAddr::new(OURS, 80);
    let stack = rig.world.stack(1);
    let gone: Vec<_> = (0..CLIENTS)
        .map(|_| stack.connect(now, address).unwrap())
        .collect();
    rig.run_for(Duration::from_millis(1));
    for id in gone {
        rig.world.stack(1).close(now, id).unwrap();
    }
    rig.run_for(Duration::from_millis(1));
    assert!(rig.server.counters().connections <= 2);
    rig.world.stack(1).close(now, first).unwrap();
    rig.run_for(Duration::from_millis(1));
    let counters = rig.server.counters();
    assert_eq!(counters.connections, 1 + CLIENTS);
    assert_eq!(counters.connections_open, 0);
    drop(held);
}
