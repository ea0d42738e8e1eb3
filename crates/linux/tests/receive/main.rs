//! What a session reads of records that the NIC opens is what it would read without it.
//!
//! Everything but Linux's TCP is the real thing: the peer's session, the device, the driver, the attachment, the session that reads. Packets are cut
//! anyhow, come in any order, are lost before the NIC and behind it, come twice, are forged; the NIC is restarted.

#[path = "../../../kernel-tls/tests/keys/mod.rs"]
mod keys;
mod process;
mod world;

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

use kernel_tls::{Counter, Errno, RECORD_TYPE_DATA, Session, TLS_RX, TLS_TX, counters};
use keys::keys;
use l5p::tls::HEADER_LEN;
use process::Process;
use proptest::prelude::*;
use world::World;

const TLS_1_2: u16 = 0x0303;
const TLS_1_3: u16 = 0x0304;
const HANDSHAKE: u8 = 22;
/// The message that new keys follow (RFC 8446 §4.6.3).
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];

/// The peer: a session whose records are caught instead of sent.
struct Peer {
    session: Arc<Session>,
    socket: TcpStream,
    caught: TcpStream,
}

impl Peer {
    fn new(keys: &[u8]) -> Peer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        socket.set_nodelay(true).unwrap();
        let (caught, _) = listener.accept().unwrap();
        let session = Arc::new(Session::new(socket.as_fd()).unwrap());
        session.set_option(socket.as_fd(), TLS_TX, keys).unwrap();
        Peer {
            session,
            socket,
            caught,
        }
    }

    fn send(&self, content: &[u8], record_type: u8) -> Vec<u8> {
        let fd = self.socket.as_fd();
        let mut at = 0;
        let mut records = Vec::new();
        while at < content.len() {
            let end = content.len().min(at + 16_000);
            let sent = self.session.send(fd, &[&content[at..end]], record_type, 0);
            at += sent.unwrap();
            self.catch_record(&mut records);
        }
        records
    }

    /// Waits for the record that a call has sent: the socket may deliver it later.
    fn catch_record(&self, records: &mut Vec<u8>) {
        let mut header = [0; HEADER_LEN];
        (&self.caught).read_exact(&mut header).unwrap();
        let len = usize::from(u16::from_be_bytes([header[3], header[4]]));
        let start = records.len() + HEADER_LEN;
        records.extend(header);
        records.resize(start + len, 0);
        (&self.caught).read_exact(&mut records[start..]).unwrap();
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// The peer sends a record of so many bytes.
    Record(usize),
    /// The peer changes its keys.
    Rekey,
    /// What it has sent comes: cut into packets of such sizes, of which these are swapped with the next, lost before the NIC, lost behind it, sent
    /// twice, or come behind a forged one.
    Deliver(Vec<(usize, Fate)>),
    /// The program reads, with a buffer of so many bytes.
    Read(usize),
    Restart,
}

#[derive(Clone, Copy, Debug)]
enum Fate {
    Comes,
    Swapped,
    LostBefore,
    LostBehind,
    Twice,
    BehindForged,
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        12 => Just(Fate::Comes),
        2 => Just(Fate::Swapped),
        2 => Just(Fate::LostBefore),
        2 => Just(Fate::LostBehind),
        1 => Just(Fate::Twice),
        1 => Just(Fate::BehindForged),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let packets = prop::collection::vec((300usize..3000, fate()), 1..30);
    prop_oneof![
        6 => prop_oneof![1usize..200, 1usize..16_000].prop_map(Step::Record),
        1 => Just(Step::Rekey),
        5 => packets.prop_map(Step::Deliver),
        4 => prop_oneof![1usize..500, 1usize..40_000].prop_map(Step::Read),
        1 => Just(Step::Restart),
    ]
}

/// What a run has shown.
#[derive(Debug, Default)]
struct Outcome {
    failed: Option<Errno>,
    forged: bool,
    read: Vec<u8>,
    sent: Vec<u8>,
}

struct Run {
    process: Arc<Process>,
    peer: Peer,
    session: Arc<Session>,
    socket: TcpStream,
    version: u16,
    cipher: u16,
    /// Keys so far, of the peer and of ours.
    generations: (u8, u8),
    /// Of the peer's message, what has been read.
    message: Vec<u8>,
    outcome: Outcome,
}

impl Run {
    fn new(version: u16, cipher: u16, base: u32, seed: u64) -> Run {
        Run::behind(&[], (version, cipher), base, seed)
    }

    /// The records follow a handshake, of which such packets have come in this order.
    fn behind(
        handshake: &[std::ops::Range<usize>],
        (version, cipher): (u16, u16),
        base: u32,
        seed: u64,
    ) -> Run {
        let process = Process::start();
        let keys = keys(version, cipher, 1, 5);
        // Its own direction is no business of the NIC's.
        let peer = Peer::new(&keys);
        let (mut world, mut socket) = World::new(base, seed);
        let len = handshake.iter().map(|packet| packet.end).max();
        let mut message = vec![0; len.unwrap_or(0)];
        world.stream.clone_from(&message);
        for packet in handshake {
            world.packet(packet.start, packet.len(), false);
            world.poll();
        }
        socket.read_exact(&mut message).unwrap();
        socket.set_nonblocking(true).unwrap();
        process.begin(world);
        let session = Arc::new(Session::new(socket.as_fd()).unwrap());
        session.set_option(socket.as_fd(), TLS_RX, &keys).unwrap();
        Run {
            process,
            peer,
            session,
            socket,
            version,
            cipher,
            generations: (1, 1),
            message: Vec::new(),
            outcome: Outcome::default(),
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Record(len) => {
                let at = self.outcome.sent.len() as u32;
                let content: Vec<u8> = (at..at + *len as u32)
                    .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
                    .collect();
                let records = self.peer.send(&content, RECORD_TYPE_DATA);
                self.outcome.sent.extend(content);
                self.process.with(|world| world.stream.extend(records));
            }
            Step::Rekey if self.version == TLS_1_3 => {
                let records = self.peer.send(&KEY_UPDATE, HANDSHAKE);
                self.process.with(|world| world.stream.extend(records));
                self.generations.0 += 1;
                let keys = keys(self.version, self.cipher, self.generations.0, 0);
                let fd = self.peer.socket.as_fd();
                self.peer.session.set_option(fd, TLS_TX, &keys).unwrap();
            }
            Step::Rekey => {}
            Step::Deliver(packets) => self.deliver(packets),
            Step::Read(room) => self.read(*room),
            // A session that has failed has nothing to tell a NIC.
            Step::Restart if self.outcome.failed.is_some() => {}
            Step::Restart => self.process.restart(),
        }
    }

    fn deliver(&mut self, packets: &[(usize, Fate)]) {
        let outcome = &mut self.outcome;
        self.process.with(|world| {
            let mut at = world.next();
            let mut held = None;
            for (len, fate) in packets {
                if at >= world.stream.len() {
                    break;
                }
                let packet = (at, *len);
                at += len;
                match fate {
                    Fate::LostBefore => continue,
                    Fate::Swapped if held.is_none() => {
                        held = Some(packet);
                        continue;
                    }
                    Fate::LostBehind => world.drops = vec![true],
                    Fate::Twice => world.packet(packet.0, packet.1, false),
                    Fate::BehindForged => {
                        outcome.forged = true;
                        world.packet(packet.0, packet.1, true);
                    }
                    Fate::Comes | Fate::Swapped => {}
                }
                world.packet(packet.0, packet.1, false);
                if let Some((at, len)) = held.take() {
                    world.packet(at, len, false);
                }
                // Sometimes several are merged.
                if len % 3 == 0 || matches!(fate, Fate::LostBehind) {
                    world.poll();
                }
                world.drops.clear();
            }
            world.pass_time();
            world.poll();
        });
    }

    /// Reads until nothing is there.
    fn read(&mut self, room: usize) {
        let mut buffer = vec![0; room];
        while self.outcome.failed.is_none() {
            let fd = self.socket.as_fd();
            match self.session.receive(fd, &mut [&mut buffer], true, 0) {
                Ok(received) if received.record_type == HANDSHAKE => {
                    self.process.with(|world| world.poll());
                    self.rekey_when_read(&buffer[..received.len]);
                }
                Ok(received) if received.len == 0 => break,
                Ok(received) => self.outcome.read.extend(&buffer[..received.len]),
                Err(Errno::AGAIN | Errno::KEYEXPIRED) => break,
                Err(error) => self.outcome.failed = Some(error),
            }
        }
        self.process.with(|world| world.poll());
    }

    /// A message of the peer's, which may come in parts.
    fn rekey_when_read(&mut self, message: &[u8]) {
        self.message.extend(message);
        if self.message.len() == KEY_UPDATE.len() {
            assert_eq!(self.message, KEY_UPDATE);
            self.message.clear();
            self.generations.1 += 1;
            let keys = keys(self.version, self.cipher, self.generations.1, 0);
            let fd = self.socket.as_fd();
            self.session.set_option(fd, TLS_RX, &keys).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 200, ..ProptestConfig::with_cases(cases()) })]

    #[test]
    fn what_is_read_is_what_was_sent(
        version in prop::sample::select(vec![TLS_1_2, TLS_1_3]),
        cipher in prop::sample::select(vec![51u16, 52, 54]),
        base in any::<u32>(),
        seed in any::<u64>(),
        steps in prop::collection::vec(step(), 5..60),
    ) {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut run = Run::new(version, cipher, base, seed);
        for step in &steps {
            run.step(step);
        }
        // In the end everything comes.
        for round in 0..400 {
            if run.process.with(|world| world.is_done()) && run.outcome.read.len() == run.outcome.sent.len() {
                break;
            }
            run.deliver(&[(1400 + round, Fate::Comes); 40]);
            run.read(20_000);
        }
        let outcome = run.outcome;
        run.process.end();
        prop_assert!(outcome.sent.starts_with(&outcome.read), "bytes that the peer has not sent");
        match outcome.failed {
            None => prop_assert_eq!(outcome.read.len(), outcome.sent.len()),
            Some(error) => prop_assert!(outcome.forged, "{}", error),
        }
    }
}

/// Runs that need the counters to themselves.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn a_stream_in_order_is_decrypted_by_the_nic() {
    let _alone = ALONE.lock().unwrap();
    for (version, cipher) in [(TLS_1_2, 51), (TLS_1_3, 52), (TLS_1_3, 54)] {
        let before = counters().get(Counter::RxDeviceRecords);
        let mut run = Run::new(version, cipher, 77, 5);
        for _ in 0..20 {
            run.step(&Step::Record(16_000));
            run.deliver(&[(1448, Fate::Comes); 12]);
            run.read(100_000);
        }
        run.process.end();
        assert_eq!(run.outcome.failed, None);
        assert!(run.outcome.read == run.outcome.sent);
        let decrypted = counters().get(Counter::RxDeviceRecords) - before;
        assert!(decrypted >= 19, "{decrypted} of 20 records");
    }
}

#[test]
fn records_that_are_looked_at_before_they_are_read_count_once() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let count = || [Counter::RxDeviceRecords, Counter::RxRecords].map(|it| counters().get(it));
    let before = count();
    let mut run = Run::new(TLS_1_3, 51, 77, 5);
    for _ in 0..10 {
        run.step(&Step::Record(1000));
    }
    run.deliver(&[(1448, Fate::Comes); 12]);
    let mut buffer = vec![0; 20_000];
    for _ in 0..3 {
        let fd = run.socket.as_fd();
        let room = &mut [&mut buffer[..]];
        let seen = run.session.receive(fd, room, true, libc::MSG_PEEK);
        assert_eq!(seen.map(|seen| seen.len), Ok(10_000));
    }
    run.read(20_000);
    run.process.end();
    let [by_nic, all] = count();
    assert_eq!((by_nic - before[0], all - before[1]), (10, 10));
}

/// A stream whose handshake came out of order: reads so many records, and gives how many the NIC has decrypted. It is restarted behind so many.
fn decrypted_behind_reordering(records: usize, restarts_behind: Option<usize>) -> u64 {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let handshake = [0..1000, 2000..3000, 1000..2000];
    let before = counters().get(Counter::RxDeviceRecords);
    let mut run = Run::behind(&handshake, (TLS_1_3, 51), 77, 5);
    for record in 0..records {
        if restarts_behind == Some(record) {
            run.step(&Step::Restart);
        }
        run.step(&Step::Record(16_000));
        run.deliver(&[(1448, Fate::Comes); 12]);
        run.read(100_000);
    }
    run.process.end();
    assert_eq!(run.outcome.failed, None);
    assert!(run.outcome.read == run.outcome.sent);
    counters().get(Counter::RxDeviceRecords) - before
}

#[test]
fn a_short_stream_behind_packets_out_of_order_is_decrypted_by_the_nic() {
    let decrypted = decrypted_behind_reordering(20, None);
    assert!(decrypted >= 19, "{decrypted} of 20 records");
}

/// Another one may have given Linux anything that fits into its window.
#[test]
fn a_nic_that_comes_later_decrypts_what_is_behind_the_window_of_before() {
    let decrypted = decrypted_behind_reordering(60, Some(2));
    assert!(decrypted >= 35, "{decrypted} of 60 records");
}

fn cases() -> u32 {
    let cases = std::env::var("LONGSHORE_CASES");
    cases
        .ok()
        .and_then(|cases| cases.parse().ok())
        .unwrap_or(64)
}
