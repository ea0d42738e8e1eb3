//! All that is below the library: what plays Linux's TCP, the driver, the NIC, the wire and the target. It runs in a thread of its own, as the library
//! waits for the NIC's answers.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use attachment::{ATTACH_LINE, ATTACHED_LINE, Errno, Examine, Registry, SocketFacts, Tenant};
use linux::{Config, LinuxFunction, SocketAt, SocketPhase, Sockets, State, StateConfig};
use nic::{FrameMeta, Nic, NicConfig, WireCapabilities};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use testkit::{frames, tap};
use wire::ethernet::MacAddr;
use wire::tcp::{Flags, Header};
use wire::{FlowKey, SeqNum, packet};

use crate::connection::Connection;
use crate::rig::{self, Rig};

const OURS: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
/// More than the wire has at a time.
const WINDOW: u32 = 256 << 10;
const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

/// What the wire does to packets for the host.
#[derive(Clone, Copy, Debug, Default)]
pub struct Impairment {
    pub loss: f64,
    pub reorder: f64,
    pub duplicate: f64,
    /// Somebody else sends a packet in the next one's place, which the NIC takes and Linux does not.
    pub forge: f64,
}

impl Impairment {
    pub fn copies(&self, random: &mut Pcg64Mcg) -> usize {
        if random.random_bool(self.loss) {
            return 0;
        }
        1 + usize::from(random.random_bool(self.duplicate))
    }
}

/// Linux's sockets, by the library's port.
type Known = Arc<Mutex<HashMap<u16, SocketFacts>>>;

#[derive(Clone, Debug)]
struct FakeSockets(Known);

impl Examine for FakeSockets {
    fn examine(&mut self, socket: BorrowedFd<'_>, _: u32) -> Result<SocketFacts, Errno> {
        let address = rustix::net::getsockname(socket)?;
        let address = SocketAddr::try_from(address)?;
        let known = self.0.lock().unwrap();
        let facts = known.get(&address.port()).ok_or(Errno::NODEV)?;
        let unread = (facts.received - read_by_library(socket)?) as u32;
        Ok(SocketFacts { unread, ..*facts })
    }
}

/// Bytes that the library has read. What is still on its way to the library's socket, Linux would have in its queue.
fn read_by_library(socket: BorrowedFd<'_>) -> Result<u64, Errno> {
    loop {
        let received = bytes_received(socket)?;
        let queued = rustix::io::ioctl_fionread(socket)?;
        if bytes_received(socket)? == received {
            return Ok(received - queued);
        }
    }
}

/// `tcpi_bytes_received`.
fn bytes_received(socket: BorrowedFd<'_>) -> Result<u64, Errno> {
    const AT: usize = 128;
    let mut info = [0_u64; AT / 8 + 1];
    let mut len = size_of_val(&info) as libc::socklen_t;
    // SAFETY: the kernel writes `len` bytes at the most.
    let answered = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &mut len,
        )
    };
    match answered {
        0 => Ok(info[AT / 8]),
        _ => Err(Errno::NOTCONN),
    }
}

impl Sockets for FakeSockets {
    fn look_up(&mut self, flow: &FlowKey) -> Result<Option<SocketAt>, Errno> {
        // One that has asked for help is connected.
        let phase = match self.0.lock().unwrap().contains_key(&flow.src.1) {
            true => SocketPhase::Synchronized,
            false => SocketPhase::Opening,
        };
        let cookie = u64::from(flow.src.1);
        Ok(Some(SocketAt { cookie, phase }))
    }

    fn bound(&mut self) -> Result<Vec<(FlowKey, u64)>, Errno> {
        Ok(Vec::new())
    }
}

/// The running world.
pub struct World {
    pub address: SocketAddr,
    pub control: PathBuf,
    ends: Arc<AtomicBool>,
    /// The NIC's process is to die, and another one to take its place.
    restarts: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl World {
    pub fn start(seed: u64, impairment: Impairment) -> World {
        let name = format!("longshore-oracle-{}-{seed:x}.sock", std::process::id());
        let control = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&control);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let attachments = UnixListener::bind(&control).unwrap();
        let ends = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&ends);
        let restarts = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&restarts);
        let thread = thread::spawn(move || {
            let mut inside = Inside::new(seed, impairment, listener, attachments);
            while !until.load(Ordering::Relaxed) {
                if told.swap(false, Ordering::Relaxed) {
                    inside.restart();
                }
                inside.turn();
            }
        });
        World {
            address,
            control,
            ends,
            restarts,
            thread: Some(thread),
        }
    }
}

impl World {
    /// The NIC's process dies, and another one takes its place.
    pub fn restart(&self) {
        self.restarts.store(true, Ordering::Relaxed);
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let ended = self.thread.take().unwrap().join();
        let _ = std::fs::remove_file(&self.control);
        if !thread::panicking() {
            ended.unwrap();
        }
    }
}

struct Inside {
    random: Pcg64Mcg,
    impairment: Impairment,
    listener: TcpListener,
    attachments: UnixListener,
    registry: Registry,
    libraries: Vec<(attachment::Connection, Tenant)>,
    known: Known,
    /// What outlives the NIC.
    state: State,
    nic: Nic,
    function: LinuxFunction,
    rig: Rig,
    connections: Vec<Connection>,
    idle: u32,
}

impl Inside {
    fn new(
        seed: u64,
        impairment: Impairment,
        listener: TcpListener,
        attachments: UnixListener,
    ) -> Inside {
        listener.set_nonblocking(true).unwrap();
        attachments.set_nonblocking(true).unwrap();
        let state = StateConfig {
            flows: 16,
            retain: 1 << 20,
        };
        let state = State::in_memory(state).unwrap();
        let known = Known::default();
        let (nic, function) = device(&state, &known);
        Inside {
            random: Pcg64Mcg::seed_from_u64(seed),
            impairment,
            listener,
            attachments,
            registry: Registry::default(),
            libraries: Vec::new(),
            known,
            state,
            nic,
            function,
            rig: Rig::with(rig::config()),
            connections: Vec::new(),
            idle: 0,
        }
    }

    fn restart(&mut self) {
        (self.nic, self.function) = device(&self.state, &self.known);
        (self.registry, self.libraries) = (Registry::default(), Vec::new());
    }

    fn turn(&mut self) {
        self.idle += 1;
        self.accept();
        self.serve_libraries();
        let now = Instant::now();
        if self.function.poll_timeout().is_some_and(|at| at <= now) {
            self.function.handle_timeout(now);
        }
        for at in 0..self.connections.len() {
            self.carry(at);
        }
        self.run_nic(true);
        let known = &self.known;
        self.connections.retain(|connection| {
            if connection.is_closed {
                known.lock().unwrap().remove(&connection.flow.src.1);
                self.rig.target.handle_closed(connection.id);
            }
            !connection.is_closed
        });
        if self.idle > 100 {
            thread::sleep(Duration::from_micros(100));
        }
    }

    fn accept(&mut self) {
        if let Ok((stream, peer)) = self.listener.accept() {
            let id = self.rig.target.accept(self.rig.now, None).unwrap();
            let flow = FlowKey {
                src: ("10.0.0.1".parse().unwrap(), peer.port()),
                dst: ("10.0.0.2".parse().unwrap(), 4420),
            };
            let isn = [SeqNum(self.random.random()), SeqNum(self.random.random())];
            let connection = Connection::new(stream, id, flow, isn);
            self.connections.push(connection);
            self.open(self.connections.len() - 1);
        }
        if let Ok((mut stream, _)) = self.attachments.accept() {
            stream.set_nonblocking(false).unwrap();
            let mut line = [0; ATTACH_LINE.len()];
            stream.read_exact(&mut line).unwrap();
            stream.write_all(ATTACHED_LINE.as_bytes()).unwrap();
            let stream = attachment::Connection::new(OwnedFd::from(stream));
            self.libraries.push((stream, Tenant::default()));
        }
    }

    /// Linux's handshake with the target.
    fn open(&mut self, at: usize) {
        let flow = self.connections[at].flow;
        let [ours, theirs] = self.connections[at].isn;
        let (syn, syn_ack) = (Flags::SYN, Flags::SYN.union(Flags::ACK));
        let (frame, meta) = segment((OURS, PEER), &flow, (ours - 1, SeqNum(0), syn), &[]);
        self.function.handle_frame(Instant::now(), &frame, meta);
        self.run_nic(false);
        let answer = (theirs - 1, ours, syn_ack);
        let (frame, meta) = segment((PEER, OURS), &flow.reversed(), answer, &[]);
        self.nic.handle_frame(Instant::now(), &frame, meta);
        self.run_nic(false);
        self.linux_sends(at, &[]);
    }

    fn serve_libraries(&mut self) {
        let mut libraries = std::mem::take(&mut self.libraries);
        libraries.retain_mut(|(library, tenant)| {
            loop {
                let incoming = match library.poll_request() {
                    Ok(Some(incoming)) => incoming,
                    Ok(None) => return true,
                    Err(_) => return false,
                };
                self.idle = 0;
                self.note_facts();
                let mut linux = FakeSockets(Arc::clone(&self.known));
                let answer = incoming.answer(0, &mut linux, |admitted| {
                    self.registry.answer(tenant, admitted, |order| {
                        self.function.handle_slot_request(Instant::now(), &order)
                    })
                });
                if library.answer(answer).is_err() {
                    return false;
                }
            }
        });
        self.libraries = libraries;
    }

    /// What Linux would tell of its sockets now.
    fn note_facts(&self) {
        let mut known = self.known.lock().unwrap();
        for connection in &self.connections {
            let facts = SocketFacts {
                tenant: 0,
                interface: 1,
                flow: connection.flow,
                cookie: u64::from(connection.flow.src.1),
                acknowledged: 1,
                unacknowledged: connection.sent as u32,
                received: connection.received as u64,
                // Asked when the socket is examined.
                unread: 0,
                window: WINDOW,
                reordered: connection.has_reordered,
                peer_has_ended: false,
                timestamp: None,
            };
            known.insert(connection.flow.src.1, facts);
        }
    }

    fn carry(&mut self, at: usize) {
        let bytes = self.connections[at].read();
        if !bytes.is_empty() {
            self.idle = 0;
            self.linux_sends(at, &bytes);
            let connection = &mut self.connections[at];
            connection.sent += bytes.len();
            connection.arrive(&bytes, &mut self.rig);
        }
        let (random, impairment) = (&mut self.random, &self.impairment);
        let connection = &mut self.connections[at];
        connection.take_said(&mut self.rig);
        connection.send(random, impairment);
        while let Some(in_flight) = self.connections[at].wire.pop_front() {
            self.idle = 0;
            let connection = &self.connections[at];
            let mut payload = connection.said[in_flight.from..in_flight.to].to_vec();
            let seq = connection.isn[1] + in_flight.from as u32;
            if self.random.random_bool(self.impairment.forge) {
                self.forge(at, seq, payload.clone());
            }
            self.wire_brings(at, seq, &mut payload);
            if self.random.random_bool(0.3) {
                self.run_nic(true);
            }
            if self.random.random_bool(0.3) {
                self.connections[at].deliver(&mut self.random);
            }
            if self.random.random_bool(0.3) {
                self.linux_sends(at, &[]);
            }
            if self.random.random_bool(0.1) {
                break;
            }
        }
        self.run_nic(true);
        self.connections[at].deliver(&mut self.random);
    }

    /// A packet that Linux will not take.
    fn forge(&mut self, at: usize, seq: SeqNum, mut payload: Vec<u8>) {
        self.run_nic(true);
        let place = self.random.random_range(0..payload.len());
        let len = self.random.random_range(1..=payload.len() - place);
        self.random.fill(&mut payload[place..place + len]);
        self.wire_brings(at, seq, &mut payload);
        self.run_nic(false);
    }

    fn wire_brings(&mut self, at: usize, seq: SeqNum, payload: &mut [u8]) {
        let flow = self.connections[at].flow.reversed();
        let (frame, meta) = segment((PEER, OURS), &flow, (seq, SeqNum(1), Flags::ACK), payload);
        self.nic.handle_frame(Instant::now(), &frame, meta);
    }

    /// A segment of Linux's, which acknowledges all that it has.
    fn linux_sends(&mut self, at: usize, payload: &[u8]) {
        let connection = &self.connections[at];
        let [ours, theirs] = connection.isn;
        let seq = ours + connection.sent as u32;
        let ack = theirs + connection.received as u32;
        let (frame, meta) = segment(
            (OURS, PEER),
            &connection.flow,
            (seq, ack, Flags::ACK),
            payload,
        );
        self.function.handle_frame(Instant::now(), &frame, meta);
        self.run_nic(true);
    }

    /// Has everything move that can; what comes for Linux is taken, or not.
    fn run_nic(&mut self, takes: bool) {
        let now = Instant::now();
        let mut room = vec![0; 70_000];
        self.function.publish();
        while self.nic.poll_transmit(now, &mut room).is_some() {}
        self.nic.flush(now);
        while let Some((frame, _)) = self.function.poll_frame(now) {
            let Ok(parsed) = packet::parse(frame) else {
                panic!("not a frame");
            };
            if !takes {
                continue;
            }
            let flow = parsed.flow.reversed();
            let mut connections = self.connections.iter_mut();
            if let Some(connection) = connections.find(|connection| connection.flow == flow) {
                let from = connection.isn[1].distance_to(parsed.tcp.seq) as usize;
                connection.receive(from, parsed.payload(frame));
            }
        }
        self.function.publish();
    }
}

fn device(state: &State, known: &Known) -> (Nic, LinuxFunction) {
    let wire = WireCapabilities {
        tso: true,
        checksum: true,
    };
    let mut nic = Nic::new(NicConfig {
        wire,
        ..NicConfig::new([7; 16])
    });
    let config = Config::default();
    let (host, device) = nic::ring::function(config.function(OURS));
    nic.attach(device).unwrap();
    let sockets = Box::new(FakeSockets(Arc::clone(known)));
    let now = Instant::now();
    let function = LinuxFunction::new(now, host, &config, state, sockets, (7, 7));
    (nic, function.unwrap())
}

fn segment(
    (from, to): (MacAddr, MacAddr),
    flow: &FlowKey,
    (seq, ack, flags): (SeqNum, SeqNum, Flags),
    payload: &[u8],
) -> (Vec<u8>, FrameMeta) {
    let header = Header {
        ack,
        flags,
        ..frames::ack(flow, seq)
    };
    tap::segment([from, to], flow, &header, payload, 1400)
}
