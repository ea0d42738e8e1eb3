//! Plain bytes over a few connections, one way: what forwarding costs whoever is between the two hosts.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde::Serialize;

use super::case::{Counted, Median};
use super::network::Network;
use super::parts;
use super::rounds::since;
use crate::bench::case::Round;
use crate::bench::cycles_per_second;
use crate::bench::daemon;
use crate::bench::tap::Measured;

/// Connections.
pub const STREAMS: usize = 4;
/// Bytes of one write.
const WRITE: usize = 256 << 10;
/// How long a reader waits before it looks whether that was all.
const LOOK: Duration = Duration::from_millis(20);
/// How long nothing may come.
const PATIENCE: Duration = Duration::from_secs(10);

/// Who is between the two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Carrier {
    /// The NIC's process.
    Nic,
    /// A thread that only reads from one interface and writes to the other.
    BareForwarder,
}

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowDirection {
    /// From the NIC's host to the wire.
    Out,
    /// From the wire to the NIC's host.
    In,
}

/// Both carriers, both ways.
pub const ALL: [(Carrier, FlowDirection); 4] = [
    (Carrier::Nic, FlowDirection::Out),
    (Carrier::BareForwarder, FlowDirection::Out),
    (Carrier::Nic, FlowDirection::In),
    (Carrier::BareForwarder, FlowDirection::In),
];

/// One row; all of one round, but for the spread.
#[derive(Clone, Debug, Serialize)]
pub struct BulkCase {
    /// Who was between the hosts.
    pub carrier: Carrier,
    /// Which way the bytes went.
    pub way: FlowDirection,
    /// Bytes of payload.
    pub bytes: u64,
    /// Payload that went over.
    pub gbit_per_second: f64,
    /// Payload that the carrier moves in a second of its processor time.
    pub gbit_per_core: f64,
    /// Cycles of its processor time per byte.
    pub cycles_per_byte: f64,
    /// Of the NIC's process, by part.
    pub parts: BTreeMap<String, f64>,
    /// Gbit/s per core in each round, to judge the spread.
    pub rounds: Vec<f64>,
}

impl BulkCase {
    /// The row of a carrier.
    pub fn new((carrier, way): (Carrier, FlowDirection), median: Median) -> Self {
        let (bytes, counted) = (median.cost.count, &median.counted);
        let gbit_per_core = |cycles: f64| 8e-9 * cycles_per_second() / cycles;
        let cycles_per_byte = counted.nic_seconds * cycles_per_second() / bytes as f64;
        Self {
            carrier,
            way,
            bytes,
            gbit_per_second: bytes as f64 * 8e-9 / counted.seconds,
            gbit_per_core: gbit_per_core(cycles_per_byte),
            cycles_per_byte,
            parts: parts::share_out(&counted.counters, cycles_per_byte),
            rounds: median.rounds.into_iter().map(gbit_per_core).collect(),
        }
    }
}

impl Carrier {
    /// For tables.
    pub fn label(self, way: FlowDirection) -> &'static str {
        match (self, way) {
            (Self::Nic, FlowDirection::Out) => "NIC process, out",
            (Self::BareForwarder, FlowDirection::Out) => "bare forwarder, out",
            (Self::Nic, FlowDirection::In) => "NIC process, in",
            (Self::BareForwarder, FlowDirection::In) => "bare forwarder, in",
        }
    }
}

/// Connections through a carrier, over which bytes go in its rounds.
pub struct Bulk<'a> {
    network: &'a Network,
    carrier: Carrier,
    way: FlowDirection,
    took: Duration,
    streams: Vec<Stream>,
    pattern: Vec<u8>,
    /// The first round compares what comes.
    compares: bool,
}

/// Both ends of a connection.
pub trait Ends: Send + Sync {
    /// Writes some of the bytes.
    ///
    /// # Errors
    /// When the connection has failed.
    fn write(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Reads what has come.
    ///
    /// # Errors
    /// When the connection has failed; `WouldBlock` when nothing has come for [`LOOK`].
    fn read(&self, to: &mut [u8]) -> io::Result<usize>;
}

struct Plain {
    sender: TcpStream,
    receiver: TcpStream,
}

impl Ends for Plain {
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        (&self.sender).write(bytes)
    }

    fn read(&self, to: &mut [u8]) -> io::Result<usize> {
        (&self.receiver).read(to)
    }
}

/// A connection over which bytes go.
pub struct Stream {
    ends: Box<dyn Ends>,
    /// Bytes of all rounds before.
    passed: u64,
}

/// What a stream has done in a round.
#[derive(Clone, Copy, Debug)]
pub struct RoundResult {
    /// Bytes.
    pub bytes: u64,
    /// They were the right ones, as far as that was looked at.
    pub is_right: bool,
    /// Processor time of the thread that has read them.
    pub reader: Duration,
}

impl<'a> Bulk<'a> {
    /// Opens the connections. They send for `took` in each round.
    ///
    /// # Errors
    /// When the hosts don't reach each other.
    pub fn open(
        network: &'a Network,
        (carrier, way): (Carrier, FlowDirection),
        took: Duration,
    ) -> anyhow::Result<Self> {
        let at = match carrier {
            Carrier::Nic => Network::at(0),
            Carrier::BareForwarder => Network::beside_nic(),
        };
        let open = || {
            let (sender, receiver) = connect(network, at, way)?;
            Ok(Stream::new(Box::new(Plain { sender, receiver })))
        };
        let streams = (0..STREAMS).map(|_| open()).collect::<anyhow::Result<_>>();
        Ok(Self {
            network,
            carrier,
            way,
            took,
            streams: streams.with_context(|| carrier.label(way))?,
            pattern: pattern(),
            compares: true,
        })
    }

    /// Who carries, and which way.
    pub fn kind(&self) -> (Carrier, FlowDirection) {
        (self.carrier, self.way)
    }

    fn carrier_time(&self) -> anyhow::Result<Duration> {
        match self.carrier {
            Carrier::Nic => self.network.nic.processor_time(),
            Carrier::BareForwarder => self.network.forwarder.processor_time(),
        }
    }
}

/// Sends for so long over all of them, and waits for what was sent.
///
/// # Errors
/// When a connection has failed.
pub fn transfer(
    streams: &mut [Stream],
    took: Duration,
    pattern: &[u8],
    compares: bool,
) -> anyhow::Result<RoundResult> {
    let until = Instant::now() + took;
    std::thread::scope(|scope| {
        let threads: Vec<_> = streams
            .iter_mut()
            .map(|stream| scope.spawn(move || stream.pass(until, pattern, compares)))
            .collect();
        let mut all = RoundResult {
            bytes: 0,
            is_right: true,
            reader: Duration::ZERO,
        };
        for thread in threads {
            let done = thread
                .join()
                .ok()
                .context("a stream's thread has panicked")?;
            let passed = done.context("a connection has failed")?;
            all.bytes += passed.bytes;
            all.is_right &= passed.is_right;
            all.reader += passed.reader;
        }
        Ok(all)
    })
}

/// A connection: who sends, and who receives.
///
/// # Errors
/// When the hosts don't reach each other.
pub fn connect(
    network: &Network,
    at: SocketAddr,
    way: FlowDirection,
) -> anyhow::Result<(TcpStream, TcpStream)> {
    let listener = network.server.run(move || Ok(TcpListener::bind(at)?))?;
    let at = listener.local_addr()?;
    let (near, far) = (
        move || Ok(listener.accept()?.0),
        move || Ok(TcpStream::connect_timeout(&at, PATIENCE)?),
    );
    let far = network.client.run(far)?;
    let near = network.server.run(near)?;
    let (sender, receiver) = match way {
        FlowDirection::Out => (near, far),
        FlowDirection::In => (far, near),
    };
    sender.set_write_timeout(Some(PATIENCE))?;
    receiver.set_read_timeout(Some(LOOK))?;
    Ok((sender, receiver))
}

/// The content, twice, so that all of it is there from any place on.
pub fn pattern() -> Vec<u8> {
    let pattern = (0..WRITE).map(|at| (at * 31 + at / 253) as u8);
    pattern.collect::<Vec<_>>().repeat(2)
}

impl Stream {
    /// Nothing has passed yet.
    pub fn new(ends: Box<dyn Ends>) -> Self {
        Self { ends, passed: 0 }
    }

    fn pass(&mut self, until: Instant, pattern: &[u8], compares: bool) -> io::Result<RoundResult> {
        let sent = AtomicU64::new(u64::MAX);
        let (ends, before) = (&*self.ends, self.passed);
        let received = std::thread::scope(|scope| {
            let sending = scope.spawn(|| {
                let mut bytes = 0;
                while Instant::now() < until {
                    write_all(ends, &pattern[..WRITE])?;
                    bytes += WRITE as u64;
                }
                sent.store(bytes, Ordering::Release);
                Ok(())
            });
            let received = receive(ends, &sent, before, pattern, compares);
            let sending: io::Result<()> = sending.join().expect("a sender does not panic");
            sending.and(received)
        })?;
        self.passed += received.bytes;
        Ok(received)
    }
}

fn write_all(ends: &dyn Ends, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = ends.write(bytes)?;
        bytes = &bytes[written..];
    }
    Ok(())
}

/// Reads until all has come that was sent.
fn receive(
    ends: &dyn Ends,
    sent: &AtomicU64,
    before: u64,
    pattern: &[u8],
    compares: bool,
) -> io::Result<RoundResult> {
    let mut buffer = vec![0; WRITE];
    let (mut bytes, mut is_right, mut last) = (0, true, Instant::now());
    let began = own_time();
    while bytes < sent.load(Ordering::Acquire) {
        match ends.read(&mut buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(len) => {
                let at = ((before + bytes) % WRITE as u64) as usize;
                is_right &= !compares || buffer[..len] == pattern[at..at + len];
                bytes += len as u64;
                last = Instant::now();
            }
            Err(error) if is_nothing(&error) && last.elapsed() < PATIENCE => {}
            Err(error) => return Err(error),
        }
    }
    Ok(RoundResult {
        bytes,
        is_right,
        reader: own_time().saturating_sub(began),
    })
}

/// Processor time of this thread.
fn own_time() -> Duration {
    daemon::read_clock(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or_default()
}

fn is_nothing(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), WouldBlock | TimedOut | Interrupted)
}

impl Bulk<'_> {
    /// Lets bytes pass for as long as a round takes.
    ///
    /// # Errors
    /// When a connection or the carrier has ended.
    pub fn round(&mut self) -> anyhow::Result<Round<Counted>> {
        let counters = self.network.nic.counters()?;
        let (before, began) = (self.carrier_time()?, Instant::now());
        let streams = &mut self.streams;
        let passed = transfer(streams, self.took, &self.pattern, self.compares)?;
        let seconds = began.elapsed().as_secs_f64();
        let carrier_seconds = (self.carrier_time()? - before).as_secs_f64();
        let counted = Counted {
            seconds,
            nic_seconds: carrier_seconds,
            counters: match self.carrier {
                Carrier::Nic => since(self.network.nic.counters()?, &counters),
                Carrier::BareForwarder => BTreeMap::new(),
            },
            ..Counted::default()
        };
        let measured = Measured {
            cycles: carrier_seconds * cycles_per_second(),
            verified: passed.is_right,
        };
        Ok(Round::of_linux(passed.bytes, measured, counted))
    }

    /// The first round is over: the others compare nothing.
    pub fn warmed_up(&mut self) {
        self.compares = false;
    }
}
