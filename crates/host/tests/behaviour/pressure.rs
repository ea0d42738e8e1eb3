//! Memory that some hold back must not keep others from theirs.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::Duration;

use host::memory::MemoryLevel;
use host::{Offload, SocketError, SocketId};
use l5p::tls::{Algorithm, Version};
use proptest::prelude::*;
use sim::Fate;
use testkit::pattern;

use crate::pair::{CLIENT, Connected as _, Pair, SERVER, hosts_with, options, v4};

/// The client's port of a TCP segment over IPv4.
fn client_port(from: usize, frame: &[u8]) -> Option<u16> {
    let is_tcp = frame.get(12..14)? == [8, 0] && *frame.get(23)? == 6;
    let at = if from == CLIENT { 34 } else { 36 };
    let port = frame.get(at..at + 2)?.try_into().ok()?;
    is_tcp.then(|| u16::from_be_bytes(port))
}

/// What is lost, by the client's port.
#[derive(Default)]
struct Losses {
    vanished: HashSet<u16>,
    /// Of those that lose one segment in ten, how many there have been.
    lossy: HashMap<u16, usize>,
    /// Which of each ten it is. Each connection begins elsewhere.
    which: Vec<usize>,
}

impl Losses {
    fn is_lost(&mut self, port: u16) -> bool {
        let lossy = self.lossy.get_mut(&port).is_some_and(|count| {
            let (ten, at) = (*count / 10 + usize::from(port), *count % 10);
            *count += 1;
            at == self.which[ten % self.which.len()]
        });
        lossy || self.vanished.contains(&port)
    }
}

type Wire = Rc<RefCell<Losses>>;

/// A server with little memory, behind a wire that loses segments.
fn small_server(wire: &Wire) -> Pair {
    let mut pair = hosts_with(|at, node| {
        if at == SERVER {
            node.stack.memory = 36 << 20;
        }
    });
    let wire = Rc::clone(wire);
    pair.decide(move |from, _, frame| {
        let port = client_port(from, frame);
        match port.is_some_and(|port| wire.borrow_mut().is_lost(port)) {
            true => Fate::Drop,
            false => Fate::Pass,
        }
    });
    pair
}

fn port_of(pair: &mut Pair, client: SocketId) -> u16 {
    let info = pair.stack(CLIENT).info(client).expect("it is there");
    info.local.port()
}

/// Bytes that the server has for what it sends and receives.
fn data_limit(pair: &mut Pair) -> u64 {
    let memory = pair.stack(SERVER).memory();
    (memory.limit - memory.posted) / 4 * 3
}

#[test]
fn readers_that_vanish_leave_memory_to_one_that_reads() {
    let wire = Wire::default();
    let mut pair = small_server(&wire);
    let (client, server) = pair.connected(v4);
    let response = pattern(64 << 10);
    let serve = |pair: &mut Pair| {
        let start = pair.now();
        assert!(pair.transfer(SERVER, server, client, &response) == response);
        pair.now() - start
    };
    let alone = (0..6).map(|_| serve(&mut pair)).min().expect("some");
    let data = pattern(256 << 10);
    for _ in 0..1000 {
        let (theirs, ours) = pair.connected(v4);
        let port = port_of(&mut pair, theirs);
        wire.borrow_mut().vanished.insert(port);
        pair.write(SERVER, ours, &data);
        pair.close(SERVER, ours);
    }
    assert!(pair.stack(SERVER).memory().level > MemoryLevel::Free);
    let mut slowest = Duration::ZERO;
    for _ in 0..50 {
        slowest = slowest.max(serve(&mut pair));
        pair.run_for(Duration::from_millis(100));
    }
    assert!(slowest <= 3 * alone, "{slowest:?} {alone:?}");
    // Orphans have a quarter, by bytes, which blocks are longer than.
    let (queued, limit) = (pair.stack(SERVER).memory().queued, data_limit(&mut pair));
    assert!(queued <= limit / 3, "{queued} of {limit}");
    let reset = pair.counter(SERVER, "TcpExtTCPAbortOnMemory");
    assert!(reset > 0);
    assert_eq!(pair.counter(SERVER, "MemOrphansReset"), reset);
    assert_eq!(pair.counter(SERVER, "TcpExtTCPMemoryPressures"), 1);
    pair.run_for(Duration::from_secs(62));
    let memory = pair.stack(SERVER).memory();
    assert!(
        memory.queued < 256 << 10 && memory.level == MemoryLevel::Free,
        "{memory:?}"
    );
    let left = pair
        .stack(SERVER)
        .sockets()
        .filter(|info| info.id.is_some());
    assert_eq!(left.count(), 1);
}

/// Connections that were not closed are given up too, when memory is exhausted and they have not got on for long.
#[test]
fn open_connections_without_progress_are_given_up_when_memory_is_exhausted() {
    let wire = Wire::default();
    let mut pair = small_server(&wire);
    let (client, server) = pair.connected(v4);
    let data = pattern(64 << 10);
    let mut open = Vec::new();
    for _ in 0..1000 {
        let (theirs, ours) = pair.connected(v4);
        let port = port_of(&mut pair, theirs);
        wire.borrow_mut().vanished.insert(port);
        pair.write(SERVER, ours, &data);
        open.push(ours);
    }
    assert_eq!(pair.stack(SERVER).memory().level, MemoryLevel::Exhausted);
    for _ in 0..30 {
        assert!(pair.transfer(SERVER, server, client, &data) == data);
        pair.run_for(Duration::from_millis(500));
    }
    assert!(pair.stack(SERVER).memory().level < MemoryLevel::Exhausted);
    let now = pair.now();
    let is_reset = |id: &&SocketId| {
        let written = pair.stack(SERVER).write(now, **id, b"x");
        matches!(
            written,
            Err(SocketError::Closed(host::CloseReason::NoMemory))
        )
    };
    let reset = open.iter().filter(is_reset).count();
    // No more than it takes.
    assert!((1..open.len() / 2).contains(&reset), "{reset}");
}

/// They have all stood still for as long.
#[test]
fn those_that_hold_most_are_given_up_first() {
    let wire = Wire::default();
    let mut pair = small_server(&wire);
    let (small, large) = (pattern(500), pattern(64 << 10));
    let ends: Vec<_> = (0..1600).map(|_| pair.connected(v4)).collect();
    for (theirs, _) in &ends {
        let port = port_of(&mut pair, *theirs);
        wire.borrow_mut().vanished.insert(port);
    }
    let now = pair.now();
    // Those that hold little share blocks with each other, not with the others.
    let (few, many) = ends.split_at(800);
    for (ends, data) in [(few, small), (many, large)] {
        for (_, ours) in ends {
            pair.stack(SERVER).write(now, *ours, &data).ok();
        }
    }
    pair.run_for(Duration::from_secs(4));
    assert_eq!(pair.stack(SERVER).memory().level, MemoryLevel::Exhausted);
    pair.run_for(Duration::from_secs(4));
    let reset = pair.counter(SERVER, "TcpExtTCPAbortOnMemory");
    assert!((1..800).contains(&reset), "{reset}");
    assert_eq!(pair.counter(SERVER, "MemOrphansReset"), 0);
    let least = reset * (16 << 10);
    assert!(pair.counter(SERVER, "MemGivenUp") >= least);
    let now = pair.now();
    for (_, ours) in few {
        let written = pair.stack(SERVER).write(now, *ours, b"x");
        assert!(
            matches!(written, Ok(_) | Err(SocketError::WouldBlock)),
            "{written:?}"
        );
    }
}

/// What was sent to it before says nothing of how long it has not acknowledged what was written just now.
#[test]
fn a_connection_is_not_given_up_for_what_it_was_sent_just_now() {
    let wire = Wire::default();
    let mut pair = small_server(&wire);
    let data = pattern(64 << 10);
    let ends: Vec<_> = (0..1000).map(|_| pair.connected(v4)).collect();
    let now = pair.now();
    for (_, ours) in &ends {
        pair.stack(SERVER).write(now, *ours, &data).ok();
    }
    for _ in 0..60 {
        pair.run_for(Duration::from_secs(1));
        for (theirs, _) in &ends {
            pair.read(CLIENT, *theirs, &mut Vec::new());
        }
    }
    assert!(pair.counter(SERVER, "TcpExtTCPMemoryPressures") > 0);
    assert_eq!(pair.stack(SERVER).memory().level, MemoryLevel::Free);
    for (theirs, _) in &ends {
        let port = port_of(&mut pair, *theirs);
        wire.borrow_mut().vanished.insert(port);
    }
    for (_, ours) in &ends {
        pair.write(SERVER, *ours, &data);
    }
    pair.run_for(Duration::from_secs(3));
    assert_eq!(pair.stack(SERVER).memory().level, MemoryLevel::Exhausted);
    assert_eq!(pair.counter(SERVER, "TcpExtTCPAbortOnMemory"), 0);
    pair.run_for(Duration::from_secs(4));
    assert!(pair.counter(SERVER, "TcpExtTCPAbortOnMemory") > 0);
}

/// A record is taken as a whole, so a window has room for one.
#[test]
fn tls_records_are_received_while_memory_is_exhausted() {
    let wire = Wire::default();
    let mut pair = small_server(&wire);
    let options = options(Version::Tls13, Algorithm::Aes128Gcm);
    let (client, server) = pair.secured(&options, [Offload::None, Offload::None]);
    let data = pattern(64 << 10);
    for _ in 0..1000 {
        let (theirs, ours) = pair.connected(v4);
        let port = port_of(&mut pair, theirs);
        wire.borrow_mut().vanished.insert(port);
        pair.write(SERVER, ours, &data);
    }
    let upload = pattern(2 << 20);
    for part in upload.chunks(256 << 10) {
        assert!(pair.stack(SERVER).memory().level > MemoryLevel::Free);
        assert!(pair.transfer(CLIENT, client, server, part) == part);
        pair.run_for(Duration::from_millis(500));
    }
}

/// A client, by how it reads.
#[derive(Clone, Copy, Debug)]
enum Reader {
    Fast,
    Lossy,
    /// So many bytes each 5 ms.
    Slow(usize),
    Vanished,
}

fn reader() -> impl Strategy<Value = Reader> {
    prop_oneof![
        Just(Reader::Fast),
        Just(Reader::Lossy),
        (500usize..20_000).prop_map(Reader::Slow),
        Just(Reader::Vanished),
        Just(Reader::Vanished),
    ]
}

struct Download {
    reader: Reader,
    ends: (SocketId, SocketId),
    data: Vec<u8>,
    written: usize,
    received: Vec<u8>,
}

impl Download {
    fn is_done(&self) -> bool {
        matches!(self.reader, Reader::Vanished) || self.received.len() == self.data.len()
    }

    fn go_on(&mut self, pair: &mut Pair) {
        let now = pair.now();
        let written = pair
            .stack(SERVER)
            .write(now, self.ends.1, &self.data[self.written..]);
        match written {
            Ok(bytes) => self.written += bytes,
            Err(SocketError::WouldBlock) => {}
            Err(error) => assert!(
                matches!(self.reader, Reader::Vanished),
                "{:?}: {error}",
                self.reader
            ),
        }
        let most = match self.reader {
            Reader::Fast | Reader::Lossy => 64 << 10,
            Reader::Slow(bytes) => bytes,
            Reader::Vanished => return,
        };
        let mut buffer = vec![0; most];
        if let Ok(bytes) = pair.stack(CLIENT).read(now, self.ends.0, &mut buffer) {
            self.received.extend_from_slice(&buffer[..bytes]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn readers_that_read_are_served_whoever_else_there_is(
        readers in prop::collection::vec((reader(), 20_000usize..400_000), 60..160),
        which in prop::collection::vec(0usize..10, 97),
    ) {
        let wire = Wire::new(RefCell::new(Losses { which, ..Losses::default() }));
        let mut pair = small_server(&wire);
        let mut downloads = Vec::new();
        for (reader, len) in readers {
            let ends = pair.connected(v4);
            let port = port_of(&mut pair, ends.0);
            match reader {
                Reader::Vanished => {
                    wire.borrow_mut().vanished.insert(port);
                }
                Reader::Lossy => {
                    wire.borrow_mut().lossy.insert(port, 0);
                }
                Reader::Fast | Reader::Slow(_) => {}
            }
            let data = pattern(len);
            downloads.push(Download { reader, ends, data, written: 0, received: Vec::new() });
        }
        let end = pair.now() + Duration::from_secs(120);
        while !downloads.iter().all(Download::is_done) {
            for download in downloads.iter_mut().filter(|it| it.written < it.data.len() || !it.is_done()) {
                download.go_on(&mut pair);
            }
            pair.run_for(Duration::from_millis(5));
            let lacking = || downloads.iter().filter(|it| !it.is_done()).map(|it| it.reader).collect::<Vec<_>>();
            prop_assert!(pair.now() < end, "{:?} {:?}", lacking(), pair.stack(SERVER).memory());
        }
        for download in &downloads {
            let is_right = download.received[..] == download.data[..download.received.len()];
            prop_assert!(is_right, "{:?}", download.reader);
        }
    }
}
