//! A NIC with functions for Linux on a wire whose frames the test holds.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use attachment::Errno;
use nic::{FrameMeta, Nic, NicConfig, WireCapabilities};
use wire::FlowKey;
use wire::SeqNum;
use wire::ethernet::MacAddr;
use wire::packet::{self, Parsed};
use wire::tcp::{self, CHECKSUM_OFFSET, Flags, Header};

use crate::{Config, LinuxFunction, SocketFacts, Sockets, State, StateConfig};

pub const OURS: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
pub const NEIGHBOUR: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
pub const PEER: MacAddr = MacAddr([2, 0, 0, 0, 0, 9]);

/// Room for a few connections.
pub const SMALL: StateConfig = StateConfig {
    flows: 16,
    retain: 1 << 20,
};

/// Linux without any socket that a library has.
#[derive(Debug)]
struct NoSockets;

impl Sockets for NoSockets {
    fn examine(&mut self, _: BorrowedFd<'_>) -> Result<SocketFacts, Errno> {
        Err(Errno::NODEV)
    }

    fn is_gone(&mut self, _: &FlowKey, _: u64) -> bool {
        true
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
            LinuxFunction::new(now, host, &config, &state, Box::new(NoSockets))
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
        while let Some(lent) = self.nic.poll_transmit_lent(self.now, &mut out) {
            let payload: Vec<u8> = lent
                .payload
                .into_iter()
                .flatten()
                .flatten()
                .copied()
                .collect();
            let frame = [&out[..lent.head], &payload].concat();
            frames.push((frame, lent.meta));
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

/// A segment as Linux's TCP gives it to an interface that makes checksums.
pub fn segment(
    (from, to): (MacAddr, MacAddr),
    flow: &FlowKey,
    seq: u32,
    flags: Flags,
    payload: &[u8],
    mss: u16,
) -> (Vec<u8>, FrameMeta) {
    let header = Header {
        src_port: flow.src.1,
        dst_port: flow.dst.1,
        seq: SeqNum(seq),
        ack: SeqNum(1),
        flags,
        window: 1000,
        ..Header::default()
    };
    let mut frame = vec![0; packet::MAX_TCP_HEADERS_LEN + payload.len()];
    let len = payload.len() as u32;
    let at = packet::emit_tcp_headers(&mut frame, from, to, flow, &header, len, 64);
    frame.truncate(at + payload.len());
    frame[at..].copy_from_slice(payload);
    let l4 = at - tcp::HEADER_LEN;
    if flow.src.0.is_ipv4() {
        wire::ipv4::fill_checksum(&mut frame[14..l4]);
    }
    let l4_len = (frame.len() - l4) as u32;
    let sum = tcp::pseudo_header_sum(flow.src.0, flow.dst.0, l4_len).fold();
    tcp::set_checksum(&mut frame[l4..], sum);
    let meta = FrameMeta {
        gso_size: if payload.len() > usize::from(mss) {
            mss
        } else {
            0
        },
        needs_checksum: Some((l4 as u16, CHECKSUM_OFFSET as u16)),
        checksum_valid: true,
    };
    (frame, meta)
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

pub fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 31 + at / 251) as u8).collect()
}
