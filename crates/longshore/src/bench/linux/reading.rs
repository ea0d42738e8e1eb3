//! A program on the NIC's host that reads what comes by TLS: what that costs it, by whom the records are opened.

use std::collections::BTreeMap;
use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use kernel_tls::{Counter, RECORD_TYPE_DATA, Session, TLS_RX, TLS_TX};
use serde::Serialize;

use super::bulk::{Ends, FlowDirection, STREAMS, Stream, connect, pattern, transfer};
use super::case::{Counted, Counters, Median};
use super::network::Network;
use super::rounds::since;
use crate::bench::case::Round;
use crate::bench::cycles::per_host_core;
use crate::bench::cycles_per_second;
use crate::bench::ratios::Ratios;
use crate::bench::tap::Measured;

/// By whom records are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reader {
    /// There are none.
    Plain,
    /// Kernel TLS of ours, in software.
    Software,
    /// Kernel TLS of ours, by the NIC.
    Offload,
}

/// All, in the order in which a round goes through them.
pub const ALL: [Reader; 3] = [Reader::Plain, Reader::Software, Reader::Offload];

impl Reader {
    /// For tables.
    pub fn label(self) -> &'static str {
        match self {
            Self::Plain => "plain bytes",
            Self::Software => "our kernel TLS",
            Self::Offload => "offloaded",
        }
    }
}

/// One row; all of one round, but for the spread.
#[derive(Clone, Debug, Serialize)]
pub struct ReadingCase {
    /// By whom records were opened.
    pub reader: Reader,
    /// Bytes of content.
    pub bytes: u64,
    /// Bytes of content in a second of the reading threads' processor time.
    pub bytes_per_cpu_second: f64,
    /// Processor time, user and system, of the reading threads.
    pub reader_cpu_seconds: f64,
    /// Processor time of the NIC's process per byte of content.
    pub nic_cpu_seconds_per_byte: f64,
    /// Records that the NIC had opened wholly, over all.
    pub offloaded_share: f64,
    /// Content that went over the wire.
    pub gbit_per_second: f64,
    /// Bytes per second of the readers' processor time in each round, to judge the spread.
    pub rounds: Vec<f64>,
}

impl ReadingCase {
    /// The row of a reader.
    pub fn new(reader: Reader, median: Median) -> Self {
        let (counted, bytes) = (median.counted, median.cost.count);
        let count = |name: &str| counted.counters.get(name).copied().unwrap_or(0) as f64;
        let records = count("rx_records");
        Self {
            reader,
            bytes,
            bytes_per_cpu_second: bytes as f64 / counted.worker_seconds,
            reader_cpu_seconds: counted.worker_seconds,
            nic_cpu_seconds_per_byte: counted.nic_seconds / bytes as f64,
            offloaded_share: match records > 0.0 {
                true => count("rx_device_records") / records,
                false => 0.0,
            },
            gbit_per_second: bytes as f64 * 8e-9 / counted.seconds,
            rounds: median.rounds.into_iter().map(per_host_core).collect(),
        }
    }

    /// What is to be said of a row that is not what it is called.
    pub fn note(&self) -> Option<String> {
        let share = 100.0 * self.offloaded_share;
        (self.reader == Reader::Offload && share < 95.0)
            .then(|| format!("reading, offloaded: the NIC opened only {share:.1} % of the records"))
    }
}

/// Bytes per second of the readers' processor time, first over second.
pub fn ratios(cases: &[ReadingCase], ratios: Ratios) -> Ratios {
    let of = |reader| {
        let found = cases.iter().find(|case| case.reader == reader)?;
        Some(found.bytes_per_cpu_second)
    };
    let over = |first, second| Some(of(first)? / of(second)?);
    ratios
        .with(
            "rx_offload_vs_software",
            "reading, offloaded over our kernel TLS in software",
            over(Reader::Offload, Reader::Software),
        )
        .with(
            "rx_offload_vs_plain",
            "reading, offloaded over plain bytes",
            over(Reader::Offload, Reader::Plain),
        )
}

/// Connections on which a program of the NIC's host reads.
pub struct Reading<'a> {
    network: &'a Network,
    reader: Reader,
    took: Duration,
    streams: Vec<Stream>,
    pattern: Vec<u8>,
    /// The first round compares what comes.
    compares: bool,
}

impl<'a> Reading<'a> {
    /// Opens the connections. The peer sends for `took` in each round.
    ///
    /// # Errors
    /// When the hosts don't reach each other.
    pub fn open(network: &'a Network, reader: Reader, took: Duration) -> anyhow::Result<Self> {
        kernel_tls::use_nic(network.nic.control(), false);
        let open = || Ok(Stream::new(Box::new(End::open(network, reader)?)));
        let streams = (0..STREAMS).map(|_| open()).collect::<anyhow::Result<_>>();
        Ok(Self {
            network,
            reader,
            took,
            streams: streams.with_context(|| format!("reading, {}", reader.label()))?,
            pattern: pattern(),
            compares: true,
        })
    }

    /// By whom records are opened.
    pub fn reader(&self) -> Reader {
        self.reader
    }

    /// Has the peer send for as long as a round takes.
    ///
    /// # Errors
    /// When a connection or the NIC has ended.
    pub fn round(&mut self) -> anyhow::Result<Round<Counted>> {
        let before = counters();
        let (nic_before, began) = (self.network.nic.processor_time()?, Instant::now());
        let streams = &mut self.streams;
        let passed = transfer(streams, self.took, &self.pattern, self.compares)?;
        let seconds = began.elapsed().as_secs_f64();
        let nic = self.network.nic.processor_time()? - nic_before;
        let worker_seconds = passed.reader.as_secs_f64();
        let counted = Counted {
            seconds,
            worker_seconds,
            nic_seconds: nic.as_secs_f64(),
            counters: since(counters(), &before),
            ..Counted::default()
        };
        let measured = Measured {
            cycles: worker_seconds * cycles_per_second(),
            verified: passed.is_right,
        };
        Ok(Round::of_linux(passed.bytes, measured, counted))
    }

    /// The first round is over: the others compare nothing.
    pub fn warmed_up(&mut self) {
        self.compares = false;
    }
}

/// What the library has counted in this process.
fn counters() -> Counters {
    let all = kernel_tls::counters().iter();
    let all: BTreeMap<_, _> = all.map(|(name, count)| (name.to_owned(), count)).collect();
    all
}

/// A connection to the NIC's host, with the sessions of both ends.
struct End {
    sender: TcpStream,
    receiver: TcpStream,
    sessions: Option<[Arc<Session>; 2]>,
}

impl End {
    fn open(network: &Network, reader: Reader) -> anyhow::Result<Self> {
        let (sender, receiver) = connect(network, Network::at(0), FlowDirection::In)?;
        let mut end = Self {
            sender,
            receiver,
            sessions: None,
        };
        if reader != Reader::Plain {
            end.sessions = Some(end.encrypt(reader)?);
        }
        Ok(end)
    }

    fn encrypt(&self, reader: Reader) -> anyhow::Result<[Arc<Session>; 2]> {
        let sends = Arc::new(Session::new(self.sender.as_fd())?);
        let receives = Arc::new(Session::new(self.receiver.as_fd())?);
        sends.ask_no_nic();
        if reader == Reader::Software {
            receives.ask_no_nic();
        }
        let refused = kernel_tls::counters().get(Counter::RxDeviceRefused);
        receives.set_option(self.receiver.as_fd(), TLS_RX, &KEYS)?;
        sends.set_option(self.sender.as_fd(), TLS_TX, &KEYS)?;
        let is_refused = kernel_tls::counters().get(Counter::RxDeviceRefused) > refused;
        anyhow::ensure!(!is_refused, "the NIC refuses to open the records");
        Ok([sends, receives])
    }
}

impl Ends for End {
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let fd = self.sender.as_fd();
        let sent = match &self.sessions {
            None => rustix::io::write(fd, bytes),
            Some([sends, _]) => sends.send(fd, &[bytes], RECORD_TYPE_DATA, 0),
        };
        Ok(sent?)
    }

    fn read(&self, to: &mut [u8]) -> io::Result<usize> {
        let fd = self.receiver.as_fd();
        match &self.sessions {
            None => Ok(rustix::io::read(fd, to)?),
            Some([_, receives]) => {
                let received = receives.receive(fd, &mut [to], false, 0)?;
                Ok(received.len)
            }
        }
    }
}

/// `struct tls12_crypto_info_aes_gcm_128` with keys of TLS 1.3, which both ends know.
const KEYS: [u8; 40] = {
    let mut keys = [7; 40];
    [keys[0], keys[1]] = 0x0304_u16.to_ne_bytes();
    [keys[2], keys[3]] = 51_u16.to_ne_bytes();
    // The first record has the number 0.
    let mut at = 32;
    while at < 40 {
        keys[at] = 0;
        at += 1;
    }
    keys
};
