//! A NIC with functions for Linux on a wire whose frames the test holds.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use attachment::{Errno, SocketFacts};
use nic::{FrameMeta, Nic, NicConfig, WireCapabilities};
use proptest::prelude::ProptestConfig;
pub use testkit::pattern;
use testkit::{frames, tap};
use wire::FlowKey;
use wire::SeqNum;
use wire::ethernet::MacAddr;
use wire::packet::{self, Parsed};
use wire::tcp::{Flags, Header};

use crate::{Config, LinuxFunction, SocketAt, SocketPhase, Sockets, State, StateConfig};

pub const OURS: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
pub const NEIGHBOUR: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
pub const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

/// Room for a few connections.
pub const SMALL: StateConfig = StateConfig {
    flows: 16,
    retain: 1 << 20,
};

/// As many cases as are asked for, or `most`.
pub fn cases(most: u32) -> ProptestConfig {
    let cases = std::env::var("LONGSHORE_CASES").ok();
    let cases = cases.and_then(|cases| cases.parse().ok());
    ProptestConfig::with_cases(cases.unwrap_or(most))
}

/// A secret like any.
pub const SECRET: (u64, u64) = (7, 7);

/// Linux's socket, as a test knows it.
#[derive(Clone, Copy, Debug)]
pub struct Socket {
    pub flow: FlowKey,
    pub cookie: u64,
    pub tenant: u32,
    /// Positions of the first bytes that are sent, and received.
    pub first: (SeqNum, SeqNum),
    pub write: SeqNum,
    pub unacknowledged: SeqNum,
    pub read: SeqNum,
    pub receive_next: SeqNum,
    pub peer_has_ended: bool,
    pub timestamp: Option<u32>,
    /// To the interface.
    pub is_bound: bool,
    /// `None` once it has gone.
    pub phase: Option<SocketPhase>,
}

impl Socket {
    /// A client's, which has sent and received nothing.
    pub fn new(flow: FlowKey, cookie: u64, first: (SeqNum, SeqNum)) -> Socket {
        Socket {
            flow,
            cookie,
            tenant: 1000,
            first,
            write: first.0,
            unacknowledged: first.0,
            read: first.1,
            receive_next: first.1,
            peer_has_ended: false,
            timestamp: None,
            is_bound: false,
            phase: Some(SocketPhase::Synchronized),
        }
    }

    /// What it says of itself.
    pub fn facts(&self) -> SocketFacts {
        SocketFacts {
            tenant: self.tenant,
            interface: 1,
            flow: self.flow,
            cookie: self.cookie,
            // With its SYN.
            acknowledged: u64::from(self.first.0.distance_to(self.unacknowledged)) + 1,
            unacknowledged: self.unacknowledged.distance_to(self.write),
            received: u64::from(self.first.1.distance_to(self.receive_next)),
            unread: self.read.distance_to(self.receive_next),
            window: 0,
            reordered: false,
            peer_has_ended: self.peer_has_ended,
            timestamp: self.timestamp,
        }
    }

    /// Its handshake, as frames of Linux's and of the peer's.
    fn open(&self, nic: &mut Nic, function: &mut LinuxFunction, now: Instant) {
        let (ours, theirs) = (self.first.0 - 1, self.first.1 - 1);
        let segment = |ends, flow, seq: SeqNum, ack: SeqNum, flags| {
            let header = (seq.0, ack.0, flags);
            segment_with(ends, flow, header, &[], 1400)
        };
        let mut frames = [
            segment((OURS, PEER), &self.flow, ours, SeqNum(0), Flags::SYN),
            segment(
                (PEER, OURS),
                &self.flow.reversed(),
                theirs,
                ours + 1,
                Flags::SYN.union(Flags::ACK),
            ),
            segment((OURS, PEER), &self.flow, ours + 1, theirs + 1, Flags::ACK),
        ];
        frames[1] = finished(&frames[1]);
        let mut out = vec![0; 2000];
        for (at, (frame, meta)) in frames.iter().enumerate() {
            match at {
                1 => nic.handle_frame(now, frame, *meta),
                _ => function.handle_frame(now, frame, *meta),
            }
            function.publish();
            while nic.poll_transmit(now, &mut out).is_some() {}
            nic.flush(now);
            while function.poll_frame(now).is_some() {}
            function.publish();
        }
    }
}

/// Linux with one socket, or none.
#[derive(Clone, Debug)]
pub struct OneSocket(pub Arc<Mutex<Option<Socket>>>);

impl OneSocket {
    pub fn new(socket: Socket) -> OneSocket {
        OneSocket(Arc::new(Mutex::new(Some(socket))))
    }

    /// It opens its connection.
    pub fn open(&self, nic: &mut Nic, function: &mut LinuxFunction, now: Instant) {
        let socket = self.with(|socket| {
            socket.phase = Some(SocketPhase::Opening);
            *socket
        });
        socket.open(nic, function, now);
        self.with(|socket| socket.phase = Some(SocketPhase::Synchronized));
    }

    /// Looks at it, or changes it.
    pub fn with<R>(&self, look: impl FnOnce(&mut Socket) -> R) -> R {
        look(self.0.lock().unwrap().as_mut().expect("a socket"))
    }
}

impl Sockets for OneSocket {
    fn look_up(&mut self, flow: &FlowKey) -> Result<Option<SocketAt>, Errno> {
        let socket = *self.0.lock().unwrap();
        let found = socket.filter(|socket| socket.flow == *flow);
        Ok(found.and_then(|socket| {
            let (phase, cookie) = (socket.phase?, socket.cookie);
            Some(SocketAt { cookie, phase })
        }))
    }

    fn bound(&mut self) -> Result<Vec<(FlowKey, u64)>, Errno> {
        let socket = *self.0.lock().unwrap();
        let bound = socket.filter(|socket| socket.is_bound);
        let named = |socket: Socket| (socket.flow, socket.cookie);
        Ok(bound.map(named).into_iter().collect())
    }
}

pub struct Rig {
    pub nic: Nic,
    pub functions: Vec<LinuxFunction>,
    pub now: Instant,
}

impl Rig {
    /// One function with address [`OURS`].
    pub fn new(wire: WireCapabilities) -> Rig {
        Rig::with_functions(wire, &[OURS], Config::default())
    }

    pub fn with_functions(wire: WireCapabilities, macs: &[MacAddr], config: Config) -> Rig {
        let now = Instant::now();
        let mut nic = Nic::new(NicConfig {
            wire,
            ..NicConfig::new([7; 16])
        });
        let functions = macs.iter().map(|mac| {
            let (host, device) = nic::ring::function(config.function(*mac));
            nic.attach(device).unwrap();
            let state = State::in_memory(SMALL).unwrap();
            let sockets = Box::new(OneSocket(Arc::default()));
            LinuxFunction::new(now, host, &config, &state, sockets, SECRET).unwrap()
        });
        let functions = functions.collect();
        Rig {
            nic,
            functions,
            now,
        }
    }

    pub fn linux_sends(&mut self, frame: &[u8], meta: FrameMeta) {
        self.functions[0].handle_frame(self.now, frame, meta);
    }

    /// All that the NIC has for the wire.
    pub fn poll_wire(&mut self) -> Vec<(Vec<u8>, FrameMeta)> {
        for function in &mut self.functions {
            function.publish();
        }
        let mut frames = Vec::new();
        let mut out = vec![0; 70_000];
        while let Some(borrowed) = self.nic.poll_transmit_borrowed(self.now, &mut out) {
            let mut frame = out[..borrowed.head].to_vec();
            for piece in borrowed.payload.into_iter().flatten() {
                frame.extend(piece.to_vec());
            }
            frames.push((frame, borrowed.meta));
        }
        self.nic.flush(self.now);
        for function in &mut self.functions {
            function.publish();
        }
        frames
    }

    /// All that a function has for Linux, after these frames came from the wire.
    pub fn receive(&mut self, frames: &[(Vec<u8>, FrameMeta)]) -> Vec<(Vec<u8>, FrameMeta)> {
        for (frame, meta) in frames {
            self.nic.handle_frame(self.now, frame, *meta);
        }
        self.nic.flush(self.now);
        self.drain(0)
    }

    pub fn drain(&mut self, function: usize) -> Vec<(Vec<u8>, FrameMeta)> {
        let mut got = Vec::new();
        let function = &mut self.functions[function];
        while let Some((frame, meta)) = function.poll_frame(self.now) {
            got.push((frame.to_vec(), meta));
        }
        function.publish();
        got
    }
}

/// A wire that cuts and checksums.
pub const SUPER: WireCapabilities = WireCapabilities {
    tso: true,
    checksum: true,
};

/// A wire for finished packets.
pub const PLAIN: WireCapabilities = WireCapabilities {
    tso: false,
    checksum: false,
};

/// A driver with a NIC on such a wire, and the state in `file`.
pub fn device(
    now: Instant,
    wire: WireCapabilities,
    (file, sizes): (&OwnedFd, StateConfig),
    sockets: impl Sockets + 'static,
) -> (Nic, LinuxFunction) {
    let mut nic = Nic::new(NicConfig {
        wire,
        ..NicConfig::new([7; 16])
    });
    let config = Config::default();
    let (host, theirs) = nic::ring::function(config.function(OURS));
    nic.attach(theirs).unwrap();
    let state = State::open(file, sizes).unwrap();
    let sockets = Box::new(sockets);
    let function = LinuxFunction::new(now, host, &config, &state, sockets, SECRET).unwrap();
    (nic, function)
}

pub const PAIRS: [(&str, &str); 2] = [
    ("10.0.0.1:1000", "10.0.0.2:443"),
    ("[fd00::1]:1000", "[fd00::2]:443"),
];

pub fn flow((src, dst): (&str, &str)) -> FlowKey {
    let address = |text: &str| {
        let address: SocketAddr = text.parse().unwrap();
        (address.ip(), address.port())
    };
    FlowKey {
        src: address(src),
        dst: address(dst),
    }
}

/// A segment of the first pair's, for a usual wire.
pub fn usual(ends: (MacAddr, MacAddr), seq: u32, payload: &[u8]) -> (Vec<u8>, FrameMeta) {
    segment(ends, &flow(PAIRS[0]), seq, Flags::ACK, payload, 1400)
}

/// A segment as Linux's TCP gives it to an interface that makes checksums.
pub fn segment(
    (from, to): (MacAddr, MacAddr),
    flow: &FlowKey,
    seq: u32,
    flags: Flags,
    payload: &[u8],
    mss: u16,
) -> (Vec<u8>, FrameMeta) {
    segment_with((from, to), flow, (seq, 1, flags), payload, mss)
}

/// The same with another acknowledgement.
pub fn segment_with(
    (from, to): (MacAddr, MacAddr),
    flow: &FlowKey,
    (seq, ack, flags): (u32, u32, Flags),
    payload: &[u8],
    mss: u16,
) -> (Vec<u8>, FrameMeta) {
    let header = header(flow, SeqNum(seq), SeqNum(ack), flags);
    tap::segment([from, to], flow, &header, payload, mss)
}

/// A header with these numbers.
pub fn header(flow: &FlowKey, seq: SeqNum, ack: SeqNum, flags: Flags) -> Header {
    Header {
        ack,
        flags,
        ..frames::ack(flow, seq)
    }
}

/// The segment as a wire has it: one packet with its checksum.
pub fn finished(frame: &(Vec<u8>, FrameMeta)) -> (Vec<u8>, FrameMeta) {
    let (mut frame, meta) = frame.clone();
    if let Some(place) = meta.needs_checksum {
        assert!(crate::checksum::finish(&mut frame, place));
    }
    (frame, FrameMeta::default())
}

/// Parses a frame whose checksums must be right once what is left of them to the interface is done.
pub fn checked(frame: &(Vec<u8>, FrameMeta)) -> (Parsed, Vec<u8>) {
    let (bytes, _) = finished(frame);
    let parsed = packet::parse(&bytes).unwrap();
    assert!(parsed.verify_checksums(&bytes), "{parsed:?}");
    (parsed, parsed.payload(&bytes).to_vec())
}
