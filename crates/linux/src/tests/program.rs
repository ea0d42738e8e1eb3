//! A program with the library on Linux's TCP, of which the test plays all three: a stream of plain bytes and records, sent, lost and sent
//! again as the test says; and the peer, which knows what must come.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use attachment::{Direction, Errno, Resume, Slab, SlotRef, SlotRequest, SocketFacts};
use l5p::tls::{Algorithm, ContentType, CryptoInfo, Version, Writer};
use nic::{FrameMeta, Nic, WireCapabilities};
use rustix::fs::MemfdFlags;
use testkit::{frames, written};
use wire::icmp::{Quoted, v4, v6};
use wire::packet::{self, Class, Parsed};
use wire::tcp::Flags;
use wire::{FlowKey, SeqNum};

use super::rig::{OURS, OneSocket, PAIRS, PEER, Socket, checked, device, flow, header, segment};
use crate::{LinuxFunction, SocketPhase, StateConfig};

pub const CIPHERS: [(Version, Algorithm); 6] = [
    (Version::Tls12, Algorithm::Aes128Gcm),
    (Version::Tls12, Algorithm::Aes256Gcm),
    (Version::Tls12, Algorithm::ChaCha20Poly1305),
    (Version::Tls13, Algorithm::Aes128Gcm),
    (Version::Tls13, Algorithm::Aes256Gcm),
    (Version::Tls13, Algorithm::ChaCha20Poly1305),
];

/// Part of a stream.
#[derive(Clone, Debug)]
pub enum Stretch {
    /// Bytes that go as they are.
    Plain(usize),
    /// Records with so many bytes of content each, under keys of their own.
    Records(Vec<usize>),
}

/// Bytes under one set of keys.
#[derive(Clone, Debug)]
struct Keyed {
    to: usize,
    info: CryptoInfo,
    /// Offsets at which records begin, and the end.
    boundaries: Vec<usize>,
}

/// That of tests to which it does not matter.
pub const CIPHER: (Version, Algorithm) = CIPHERS[3];

/// A program that sends this, on a connection of IPv4.
pub fn program(stretches: &[Stretch]) -> Program {
    Program::new(flow(PAIRS[0]), CIPHER, 1000, stretches, 1 << 20)
}

/// A record begins at this position, with this number, where the library goes on.
pub fn resume(tcpsn: SeqNum, index: u64) -> Resume {
    let read = None;
    Resume { tcpsn, index, read }
}

/// 100 bytes, and 8 records; all are in the socket.
pub fn greeting_and_records() -> Program {
    let mut program = program(&[Stretch::Plain(100), Stretch::Records(vec![1000; 8])]);
    program.write(usize::MAX).unwrap();
    program
}

/// 100 bytes, 2 records, and what its library has not given the NIC again; all are in the socket.
pub fn greeting_records_and_plain() -> Program {
    let mut program = program(&[
        Stretch::Plain(100),
        Stretch::Records(vec![1000; 2]),
        Stretch::Plain(5000),
    ]);
    program.write(usize::MAX).unwrap();
    program
}

pub struct Program {
    pub nic: Nic,
    pub function: LinuxFunction,
    pub now: Instant,
    pub flow: FlowKey,
    state: (OwnedFd, StateConfig),
    pub socket: OneSocket,
    slab: Arc<Slab>,
    pub slot: SlotRef,
    isn: SeqNum,
    /// As Linux has it.
    pub source: Vec<u8>,
    /// As the peer must have it.
    wanted: Vec<u8>,
    stretches: Vec<(usize, Option<Keyed>)>,
    next_stretch: usize,
    /// Offsets: the program has written, Linux has sent, and it knows to be acknowledged.
    pub written: usize,
    pub sent: usize,
    pub acknowledged: usize,
    /// What the peer has, by byte.
    received: Vec<bool>,
    /// Resets that Linux was sent, and the peer.
    pub resets: (usize, usize),
    /// Where segments begin that were reported to Linux as not delivered to the peer.
    pub unreachable: Vec<SeqNum>,
    /// What was sent, left, and came up, if it is wanted.
    pub trace: Option<Vec<String>>,
}

impl Program {
    pub fn new(
        flow: FlowKey,
        cipher: (Version, Algorithm),
        isn: u32,
        stretches: &[Stretch],
        retain: u64,
    ) -> Program {
        let (mut source, mut wanted, mut built) = (Vec::new(), Vec::new(), Vec::new());
        for (at, stretch) in stretches.iter().enumerate() {
            let from = source.len();
            match stretch {
                Stretch::Plain(len) => {
                    let bytes: Vec<u8> = (0..*len).map(|byte| (byte * 7 + at) as u8).collect();
                    source.extend(&bytes);
                    wanted.extend(bytes);
                    built.push((from, None));
                }
                Stretch::Records(lens) => {
                    let info = keys(cipher, at as u8);
                    let mut boundaries = Vec::new();
                    let mut writer = Writer::new(info.clone());
                    for (number, len) in lens.iter().enumerate() {
                        boundaries.push(source.len());
                        let content: Vec<u8> = (0..*len)
                            .map(|byte| (byte * 13 + number + at) as u8)
                            .collect();
                        let layout = writer.record_layout(ContentType::APPLICATION_DATA, *len);
                        source.extend(layout.header());
                        source.extend(&content);
                        source.extend(layout.trailer());
                        let mut sealed = vec![0; writer.record_len(*len)];
                        let data = ContentType::APPLICATION_DATA;
                        let made = writer.seal_into(data, &[&content], &mut sealed);
                        wanted.extend(&sealed[..made]);
                    }
                    boundaries.push(source.len());
                    let keyed = Keyed {
                        to: source.len(),
                        info,
                        boundaries,
                    };
                    built.push((from, Some(keyed)));
                }
            }
            assert_eq!(source.len(), wanted.len());
        }
        let isn = SeqNum(isn);
        let socket = OneSocket::new(Socket::new(flow, 77, (isn, SeqNum(1))));
        let file = rustix::fs::memfd_create("state", MemfdFlags::CLOEXEC).unwrap();
        let config = StateConfig { flows: 4, retain };
        let now = Instant::now();
        let (mut nic, mut function) = device(
            now,
            WireCapabilities::default(),
            (&file, config),
            socket.clone(),
        );
        socket.open(&mut nic, &mut function, now);
        let slab = Arc::new(Slab::create(1).unwrap());
        let (index, generation) = slab.claim().unwrap();
        Program {
            nic,
            function,
            now,
            flow,
            state: (file, config),
            socket,
            slot: SlotRef::new(&slab, index, generation).unwrap(),
            slab,
            isn,
            received: vec![false; source.len()],
            source,
            wanted,
            stretches: built,
            next_stretch: 0,
            written: 0,
            sent: 0,
            acknowledged: 0,
            resets: (0, 0),
            unreachable: Vec::new(),
            trace: None,
        }
    }

    /// Notes a segment, if that is wanted.
    fn note(&mut self, what: &str, parsed: &Parsed, payload: &[u8], rest: &str) {
        let Some(trace) = &mut self.trace else {
            return;
        };
        let tcp = &parsed.tcp;
        let (from, acked) = match parsed.flow == self.flow {
            true => (self.isn.distance_to(tcp.seq), tcp.ack.0),
            false => (tcp.seq.0, self.isn.distance_to(tcp.ack)),
        };
        let (to, sum) = (
            from.wrapping_add(payload.len() as u32),
            written::sum(payload),
        );
        trace.push(format!(
            "{what} {:?} {from}:{to} ack {acked} {sum:016x}{rest}",
            tcp.flags
        ));
    }

    pub fn at(&self, offset: usize) -> SeqNum {
        self.isn + offset as u32
    }

    /// The slab, to look at what the library sees.
    pub fn slab(&self) -> &Slab {
        &self.slab
    }

    /// What the socket says of itself.
    pub fn facts(&self) -> SocketFacts {
        let (write, una) = (self.at(self.written), self.at(self.acknowledged));
        self.socket.with(|socket| {
            (socket.write, socket.unacknowledged) = (write, una);
            socket.facts()
        })
    }

    /// The socket is closed and gone.
    pub fn close(&self) {
        self.socket.with(|socket| socket.phase = None);
    }

    /// The socket is in this phase, which Linux tells of.
    pub fn set_phase(&self, phase: SocketPhase) {
        self.socket.with(|socket| socket.phase = Some(phase));
    }

    /// The driver gets a frame of Linux's.
    pub fn handle(&mut self, frame: &(Vec<u8>, FrameMeta)) {
        self.function.handle_frame(self.now, &frame.0, frame.1);
    }

    /// Time passes.
    pub fn wait(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        self.function.handle_timeout(self.now);
    }

    /// The library gives the keys to receive with.
    pub fn set_receive_keys(&mut self, resume: Option<Resume>) -> Result<SeqNum, Errno> {
        self.order(SlotRequest::SetKeys {
            slot: self.slot.clone(),
            direction: Direction::Receive,
            info: keys(CIPHER, 7),
            resume,
            socket: self.facts(),
        })
    }

    /// The peer sends nothing more.
    pub fn end_peer(&self) {
        self.socket.with(|socket| socket.peer_has_ended = true);
    }

    pub fn order(&mut self, order: SlotRequest) -> Result<SeqNum, Errno> {
        let answer = self.function.handle_slot_request(self.now, &order);
        answer.result.map(|()| answer.tcpsn)
    }

    pub fn set_keys(&mut self, info: CryptoInfo, resume: Option<Resume>) -> Result<SeqNum, Errno> {
        self.order(SlotRequest::SetKeys {
            slot: self.slot.clone(),
            direction: Direction::Transmit,
            info,
            resume,
            socket: self.facts(),
        })
    }

    /// The program writes up to this offset; where keys begin to hold, or to hold no more, the library says so to the NIC.
    pub fn write(&mut self, to: usize) -> Result<(), Errno> {
        let to = to.min(self.source.len());
        while let Some((from, keyed)) = self.stretches.get(self.next_stretch).cloned()
            && from <= to
        {
            let is_first = self.stretches[..self.next_stretch]
                .iter()
                .all(|(_, keyed)| keyed.is_none());
            self.written = self.written.max(from);
            let position = match keyed {
                Some(keyed) => Some(self.set_keys(keyed.info, None)?),
                None if is_first => None,
                None => Some(self.order(SlotRequest::Stop {
                    slot: self.slot.clone(),
                    direction: Direction::Transmit,
                    socket: self.facts(),
                })?),
            };
            assert!(position.is_none_or(|position| position == self.at(from)));
            self.next_stretch += 1;
        }
        self.written = self.written.max(to);
        Ok(())
    }

    /// The program writes all that is to go under the present keys, and does not say yet that others hold then.
    pub fn write_before_keys(&mut self) {
        let next = self.stretches.get(self.next_stretch);
        self.written = next.map_or(self.source.len(), |(from, _)| self.written.max(*from));
    }

    /// Linux sends these bytes as a segment. It reaches the NIC unless `is_lost`, and the peer unless the wire loses it too.
    pub fn send(&mut self, from: usize, to: usize, mss: u16, lost: (bool, bool)) {
        let bytes = self.source[from..to].to_vec();
        self.send_bytes(from, &bytes, mss, lost);
    }

    pub fn send_bytes(
        &mut self,
        from: usize,
        bytes: &[u8],
        mss: u16,
        (before, behind): (bool, bool),
    ) {
        self.sent = self.sent.max(from + bytes.len());
        if before {
            return;
        }
        let seq = self.at(from).0;
        let ends = (OURS, PEER);
        let flags = Flags::ACK.union(Flags::PSH);
        let (frame, meta) = segment(ends, &self.flow, seq, flags, bytes, mss);
        if let Some(trace) = &mut self.trace {
            trace.push(format!("Linux sends {from}:{}", from + bytes.len()));
        }
        self.function.handle_frame(self.now, &frame, meta);
        self.poll_wire(behind);
    }

    /// What the source has become of bytes that are in records.
    pub fn change(&self, from: usize, bytes: &mut [u8]) {
        for (at, byte) in (from..).zip(bytes) {
            let of_records = |(start, keyed): &(usize, Option<Keyed>)| {
                keyed
                    .as_ref()
                    .is_some_and(|keyed| (*start..keyed.to).contains(&at))
            };
            if self.stretches.iter().any(of_records) {
                *byte ^= 0x55;
            }
        }
    }

    /// What the NIC sends comes to the peer, unless it `is_lost`, and is what must come.
    pub fn poll_wire(&mut self, is_lost: bool) -> usize {
        self.function.publish();
        let mut out = vec![0; 70_000];
        let mut payload_sent = 0;
        while let Some((len, meta)) = self.nic.poll_transmit(self.now, &mut out) {
            let (parsed, payload) = checked(&(out[..len].to_vec(), meta));
            assert_eq!(parsed.flow, self.flow);
            self.note(
                "leaves",
                &parsed,
                &payload,
                if is_lost { " lost" } else { "" },
            );
            if parsed.tcp.flags.contains(Flags::RST) {
                self.resets.1 += 1;
                continue;
            }
            payload_sent += payload.len();
            let from = self.isn.distance_to(parsed.tcp.seq) as usize;
            let to = from + payload.len();
            if payload.is_empty() {
                continue;
            }
            assert!(
                payload == self.wanted[from..to],
                "other bytes than software makes at {from}..{to}"
            );
            if !is_lost {
                self.received[from..to].fill(true);
            }
        }
        self.nic.flush(self.now);
        self.function.publish();
        payload_sent
    }

    /// Up to where the peer has everything.
    pub fn received(&self) -> usize {
        let missing = self.received.iter().position(|has| !has);
        missing.unwrap_or(self.received.len())
    }

    /// The peer acknowledges everything before this offset; Linux hears of it unless that `is_lost` behind the NIC.
    pub fn acknowledge(&mut self, upto: usize, is_lost: bool) {
        let frame = self.peers_segment(1, self.at(upto), Flags::ACK, &[]);
        self.nic.handle_frame(self.now, &frame.0, frame.1);
        let passed = self.drain();
        if !is_lost && passed > 0 {
            self.acknowledged = self.acknowledged.max(upto);
        }
    }

    /// A segment of the peer's.
    pub fn peers_segment(
        &self,
        seq: u32,
        ack: SeqNum,
        flags: Flags,
        payload: &[u8],
    ) -> (Vec<u8>, FrameMeta) {
        let flow = self.flow.reversed();
        let header = header(&flow, SeqNum(seq), ack, flags);
        let frame = frames::frame(PEER, OURS, &flow, &header, payload);
        (frame, FrameMeta::default())
    }

    /// What the driver has for Linux; gives the number of frames that are no resets.
    pub fn drain(&mut self) -> usize {
        self.nic.flush(self.now);
        let mut frames = 0;
        while let Some((frame, meta)) = self.function.poll_frame(self.now) {
            if let Some(quoted) = unreachable(frame) {
                assert_eq!(quoted.flow, self.flow);
                self.unreachable.push(quoted.seq);
                continue;
            }
            let (parsed, payload) = checked(&(frame.to_vec(), meta));
            self.note("comes", &parsed, &payload, "");
            if parsed.tcp.flags.contains(Flags::RST) {
                self.resets.0 += 1;
            } else {
                frames += 1;
            }
        }
        self.function.publish();
        frames
    }

    /// The NIC's process dies, and another one takes its state.
    pub fn restart(&mut self) {
        let (nic, function) = device(
            self.now,
            WireCapabilities::default(),
            (&self.state.0, self.state.1),
            self.socket.clone(),
        );
        (self.nic, self.function) = (nic, function);
    }

    /// The NIC's process dies, and another one has another state.
    pub fn forget(&mut self) {
        self.state.0 = rustix::fs::memfd_create("state", MemfdFlags::CLOEXEC).unwrap();
        self.restart();
    }

    /// The library comes back, with the keys of all records that may have to be sent again.
    pub fn resume(&mut self) -> Result<(), Errno> {
        let begun = self.stretches[..self.next_stretch].to_vec();
        let keyed: Vec<_> = begun.into_iter().filter_map(|(_, keyed)| keyed).collect();
        let count = keyed.len();
        for (at, keyed) in keyed.iter().enumerate() {
            let is_last = at + 1 == count;
            if keyed.to <= self.acknowledged && !is_last {
                continue;
            }
            let until = self.written.min(keyed.to);
            let number = keyed
                .boundaries
                .partition_point(|boundary| *boundary <= until)
                - 1;
            let resume = resume(
                self.at(keyed.boundaries[number]),
                keyed.info.sequence.wrapping_add(number as u64),
            );
            if let Err(error) = self.set_keys(keyed.info.clone(), Some(resume)) {
                // Keys under which everything is acknowledged are not needed.
                if keyed.to > self.acknowledged {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// All is sent, and acknowledged, however often it takes.
    pub fn finish(&mut self, mss: u16) -> Result<(), String> {
        self.write(self.source.len())
            .map_err(|error| format!("keys refused: {error}"))?;
        for _ in 0..10_000 {
            let from = self.acknowledged;
            if from == self.source.len() {
                return Ok(());
            }
            let to = (from + 60_000).min(self.source.len());
            self.send(from, to, mss, (false, false));
            let received = self.received();
            self.acknowledge(received, false);
        }
        Err(format!(
            "stuck at {} of {}, received {}: {:?}",
            self.acknowledged,
            self.source.len(),
            self.received(),
            self.function.counters()
        ))
    }
}

/// The segment that a message for Linux says has not come to the peer.
fn unreachable(frame: &[u8]) -> Option<Quoted> {
    match packet::classify(frame) {
        Class::IcmpV4(ip) => match v4::Message::parse(ip.payload(frame)) {
            Ok(v4::Message::Unreachable {
                reason: v4::Unreachable::Host,
                original,
            }) => Quoted::parse(original),
            other => panic!("{other:?}"),
        },
        Class::IcmpV6(ip) => {
            let (IpAddr::V6(src), IpAddr::V6(dst)) = (ip.src, ip.dst) else {
                panic!("{ip:?}");
            };
            match v6::Message::parse(src, dst, ip.hop_limit, ip.payload(frame)) {
                Ok(v6::Message::Unreachable { code: 0, original }) => Quoted::parse(original),
                other => panic!("{other:?}"),
            }
        }
        _ => None,
    }
}

/// Keys that no other number has.
pub fn keys((version, algorithm): (Version, Algorithm), number: u8) -> CryptoInfo {
    let mut key = [0; 32];
    key[..algorithm.key_len()].fill(number + 1);
    CryptoInfo {
        version,
        algorithm,
        key,
        iv: [number ^ 0x5a; 12],
        sequence: u64::from(number) * 3,
    }
}
