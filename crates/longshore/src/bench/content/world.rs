//! The world of one mode: who sends content, and the host that receives it and is measured.

use std::io::Write;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use flate2::Compression;
use flate2::write::GzEncoder;
use host::http::ReadResponseError;
use host::pattern::{Match, PatternSet, Patterns, TABLES};
use host::{Offload, SocketError, SocketId, Stack, read_cycles};
use l5p::pattern::Scanner;
use port::impair::Impairment;
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use sim::{Suite, World};
use wire::SeqNum;

use super::case::{Counted, Done, Mode, Work};
use super::settings::Settings;
use crate::bench::case::Round;
use crate::bench::cycle_sum::CycleSum;
use crate::bench::hosts::{CLIENTS as SENDER, MEASURED as RECEIVER, TICK, config, counter, node};
use crate::bench::turn::work;

/// Longest time without a step forward.
const PATIENCE: Duration = Duration::from_secs(120);
/// Bytes of a read.
const READ: usize = 64 << 10;
/// Letters of a string that is searched for.
const LETTERS: usize = 10;

/// What is sent, for all modes.
pub struct Content {
    /// Words of lower-case letters, about a third of which is new.
    plain: Vec<u8>,
    gzip: Vec<u8>,
    zstd: Vec<u8>,
    patterns: Arc<Patterns>,
    /// What a search of all of it finds.
    matches: Vec<Match>,
}

impl Content {
    /// Random content, with a string of the set in every 32 KiB.
    ///
    /// # Errors
    /// When it can't be compressed.
    pub fn new(settings: &Settings) -> anyhow::Result<Self> {
        let mut random = Pcg64Mcg::seed_from_u64(settings.seed);
        let mut word = |letters: usize| -> Vec<u8> {
            (0..letters)
                .map(|_| random.random_range(b'a'..=b'z'))
                .collect()
        };
        let strings: Vec<Vec<u8>> = (0..settings.patterns).map(|_| word(LETTERS)).collect();
        let words: Vec<Vec<u8>> = (0..512).map(|n| word(3 + n % 8)).collect();
        let bytes = settings.bytes as usize;
        let mut plain = Vec::with_capacity(bytes + LETTERS);
        let mut random = Pcg64Mcg::seed_from_u64(settings.seed ^ 1);
        while plain.len() < bytes {
            let next = match random.random_range(0..5000) {
                0 => &strings[random.random_range(0..strings.len())],
                _ => &words[random.random_range(0..words.len())],
            };
            plain.extend_from_slice(next);
            plain.push(b' ');
        }
        plain.truncate(bytes);
        let text = String::from_utf8(strings.join(&b'\n'))?;
        let patterns = Arc::new(Patterns::parse(&text, TABLES)?);
        let mut matches = Vec::new();
        for piece in plain.chunks(1 << 30) {
            let mut scanner = Scanner::new(Arc::clone(&patterns));
            scanner.take(SeqNum(0), piece, piece.len() as u32, &mut matches);
        }
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&plain)?;
        Ok(Self {
            gzip: response("gzip", &encoder.finish()?),
            zstd: response("zstd", &zstd::encode_all(&plain[..], 3)?),
            plain,
            patterns,
            matches,
        })
    }

    fn sent(&self, work: Work) -> &[u8] {
        match work {
            Work::Search => &self.plain,
            Work::Gzip => &self.gzip,
            Work::Zstd => &self.zstd,
        }
    }
}

fn response(coding: &str, content: &[u8]) -> Vec<u8> {
    let len = content.len();
    let head =
        format!("HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {len}\r\n\r\n");
    [head.as_bytes(), content].concat()
}

/// A world, a connection in it, and what goes over that.
pub struct ContentWorld {
    mode: Mode,
    content: Rc<Content>,
    world: World,
    sender: SocketId,
    receiver: SocketId,
    /// The NIC has it for as long as this is here.
    _set: Option<PatternSet>,
    impairment: Impairment,
    /// Bytes of the streams of all rounds so far.
    streamed: u64,
}

impl ContentWorld {
    /// A world at rest.
    ///
    /// # Errors
    /// When the NIC does not take the patterns.
    pub fn new(settings: &Settings, mode: Mode, content: Rc<Content>) -> anyhow::Result<Self> {
        let nodes = vec![node(); 2];
        let mut world = World::new(config(&settings.run, settings.seed, TICK, nodes));
        let set = match mode.work {
            Work::Search => Some(load(&mut world, &content.patterns)?),
            Work::Gzip | Work::Zstd => None,
        };
        let (sender, receiver) = world.connect(4000, false);
        if mode.tls {
            world.secure((sender, receiver), Suite::DEFAULT, Offload::Both);
        }
        let impairment = Impairment {
            loss: settings.loss,
            ..Impairment::default()
        };
        world.impair(SENDER, impairment);
        if let Some(set) = &set {
            world
                .stack(RECEIVER)
                .start_scan(receiver, set, mode.by_nic)?;
        }
        Ok(Self {
            mode,
            content,
            world,
            sender,
            receiver,
            _set: set,
            impairment,
            streamed: 0,
        })
    }

    /// Lets host and NIC come to rest, without loss, so that all that was told the NIC is done.
    fn settle(&mut self) {
        self.world.impair(SENDER, Impairment::default());
        while self.world.step() {}
        self.world.impair(SENDER, self.impairment);
    }

    /// Bytes done by the NIC and by software until now.
    fn done(&self) -> (u64, u64) {
        let [nic, software] = match self.mode.work {
            Work::Search => ["PatternBytesByNic", "PatternBytesBySoftware"],
            Work::Gzip | Work::Zstd => ["HttpBytesByNic", "HttpBytesBySoftware"],
        };
        let stack = self.world.stack_ref(RECEIVER);
        (counter(stack, nic), counter(stack, software))
    }

    /// Sends all of the content once.
    ///
    /// # Errors
    /// When a connection fails, or nothing moves any more.
    pub fn round(&mut self) -> anyhow::Result<Round<Counted>> {
        let (mode, source) = (self.mode, Rc::clone(&self.content));
        let (sent, expected) = (source.sent(mode.work), &source.plain[..]);
        if mode.work != Work::Search {
            let stack = self.world.stack(RECEIVER);
            stack.start_response(self.receiver, Some(expected.len() as u64), mode.by_nic)?;
        }
        self.settle();
        let before = self.done();
        let (mut at, mut matches) = (0, Vec::new());
        let mut content = Vec::with_capacity(expected.len());
        let mut cycles = CycleSum::start(&self.world);
        let mut moved_at = self.world.now();
        while content.len() < expected.len() || self.is_reading() {
            let (sender, receiver) = (self.sender, self.receiver);
            let world = &mut self.world;
            let now = world.now();
            let mut moved = work(now, world.stack(SENDER), |stack| {
                at += send(now, stack, sender, &sent[at..])?;
                Ok(())
            })?;
            let start = read_cycles();
            moved |= work(now, world.stack(RECEIVER), |stack| {
                receive(now, stack, (receiver, mode), (&mut content, &mut matches))
            })?;
            let taken = read_cycles() - start;
            moved |= world.step_wires();
            cycles.step(world, [0, taken]);
            if moved {
                moved_at = now;
            }
            let next = if moved { TICK } else { PATIENCE };
            world.advance_to(now + next);
            let stands_still = self.world.now() - moved_at;
            anyhow::ensure!(stands_still < PATIENCE, "nothing is under way any more");
        }
        let after = self.done();
        let mut verified = content == expected;
        if mode.work == Work::Search {
            let behind = self.streamed;
            let shifted = source.matches.iter().map(|one| Match {
                end: one.end + behind,
                ..*one
            });
            verified &= matches.into_iter().eq(shifted);
            self.streamed += expected.len() as u64;
        }
        let done = Done {
            by_nic: after.0 - before.0,
            by_software: after.1 - before.1,
            sent: sent.len() as u64,
        };
        Ok(Round {
            count: expected.len() as u64,
            taken: cycles.sum()[RECEIVER],
            counted: Counted { done },
            verified,
        })
    }

    /// Whether a response is not whole yet.
    fn is_reading(&self) -> bool {
        let response = self.world.stack_ref(RECEIVER).response(self.receiver);
        response.is_some_and(|response| !response.is_done)
    }
}

/// Loads the patterns into the receiver's NIC, which takes a while.
fn load(world: &mut World, patterns: &Arc<Patterns>) -> anyhow::Result<PatternSet> {
    let set = world.stack(RECEIVER).load_patterns(Arc::clone(patterns));
    loop {
        match world.stack(RECEIVER).has_loaded(&set) {
            Some(true) => return Ok(set),
            Some(false) => anyhow::bail!("the NIC does not take the patterns"),
            None if world.step() || world.advance() => {}
            None => {
                thread::sleep(Duration::from_millis(1));
                world.pass(Duration::from_millis(1));
            }
        }
    }
}

/// Writes what there is room for.
fn send(
    now: Instant,
    stack: &mut Stack,
    socket: SocketId,
    mut bytes: &[u8],
) -> anyhow::Result<usize> {
    let all = bytes.len();
    while !bytes.is_empty() {
        match stack.write(now, socket, bytes) {
            Ok(len) => bytes = &bytes[len..],
            Err(SocketError::WouldBlock) => break,
            Err(error) => return Err(error).context("the sender"),
        }
    }
    Ok(all - bytes.len())
}

/// Reads what has come.
fn receive(
    now: Instant,
    stack: &mut Stack,
    (socket, mode): (SocketId, Mode),
    (content, matches): (&mut Vec<u8>, &mut Vec<Match>),
) -> anyhow::Result<()> {
    loop {
        let read = match mode.work {
            Work::Search => {
                let before = content.len();
                content.resize(before + READ, 0);
                let read = stack.read(now, socket, &mut content[before..]);
                content.truncate(before + read.as_ref().copied().unwrap_or(0));
                matches.extend(std::iter::from_fn(|| stack.take_match(socket)));
                read.map(|_| ())
            }
            Work::Gzip | Work::Zstd => {
                let is_done = |stack: &Stack| {
                    stack
                        .response(socket)
                        .is_none_or(|response| response.is_done)
                };
                if is_done(stack) {
                    return Ok(());
                }
                match stack.read_response(now, socket, content) {
                    Ok(()) => Ok(()),
                    Err(ReadResponseError::Socket(error)) => Err(error),
                    Err(error) => return Err(error).context("the receiver"),
                }
            }
        };
        match read {
            Ok(()) => {}
            Err(SocketError::WouldBlock) => return Ok(()),
            Err(error) => return Err(error).context("the receiver"),
        }
    }
}
