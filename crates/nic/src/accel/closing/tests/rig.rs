//! The acceleration with functions, and peers whose segments a test writes by hand.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tcp::{Closing, State};
use testkit::frames::{ack, unsummed};
use wire::ethernet::MacAddr;
use wire::icmp::{v4, v6};
use wire::packet::{Class, IpFields, classify, emit_ip_headers};
use wire::tcp::{Flags, Header, Options, Timestamps};
use wire::{FlowKey, SeqNum};

use crate::accel::{Accel, Device, Handled, Owned};
use crate::config::AccelConfig;
use crate::config::NicConfig;
use crate::counters::Counters;
use crate::frame::FrameMeta;
use crate::frame::Segment;
use crate::function::Function;
use crate::ring::accel::{AccelRoom, Teardown, TimestampState};
use crate::ring::{
    AccelCommand, ErrorCode, FunctionConfig, Gather, HostFunction, Region, RegionId, Slice,
    function,
};
use crate::rss::FlowHasher;
use crate::switch::FunctionId;

pub(super) const HOP: MacAddr = MacAddr([2, 0, 0, 0, 0, 99]);
/// Our first sequence number, and the peer's: both wrap in the tests.
pub(super) const UNA: SeqNum = SeqNum(u32::MAX - 1000);
pub(super) const RCV: SeqNum = SeqNum(u32::MAX - 10);
pub(super) const MSS: u16 = 1448;
pub(super) const RTO: Duration = Duration::from_millis(200);
/// How much later than its deadline a timer may fire.
pub(super) const TICK: Duration = Duration::from_millis(16);
/// Connections, unless a test wants another limit.
pub(super) const CAPACITY: u32 = 1024;
/// Memory that the host has registered.
const MEMORY: usize = 1 << 16;

/// A packet that was sent.
#[derive(Debug, Clone)]
pub(super) struct Sent {
    pub(super) flow: FlowKey,
    pub(super) header: Header,
    pub(super) payload: Vec<u8>,
    pub(super) meta: FrameMeta,
}

impl Sent {
    pub(super) fn flags(&self) -> Flags {
        self.header.flags
    }
}

pub(super) struct Rig {
    pub(super) accel: Accel,
    pub(super) config: NicConfig,
    functions: Vec<Function>,
    hosts: Vec<(HostFunction, RegionId)>,
    hasher: FlowHasher,
    pub(super) now: Instant,
}

pub(super) fn mac(function: u16) -> MacAddr {
    MacAddr([2, 0, 0, 0, 1, function as u8])
}

/// The flow from us to a peer.
pub(super) fn flow(port: u16, v6: bool) -> FlowKey {
    let (ours, peer): (IpAddr, IpAddr) = if v6 {
        (Ipv6Addr::LOCALHOST.into(), Ipv6Addr::from_bits(7).into())
    } else {
        (
            Ipv4Addr::new(10, 0, 0, 1).into(),
            Ipv4Addr::new(10, 0, 0, 2).into(),
        )
    };
    FlowKey {
        src: (ours, 80),
        dst: (peer, port),
    }
}

/// A connection whose peer is open, with all that was sent before acknowledged.
pub(super) fn teardown(port: u16) -> Teardown {
    Teardown {
        ticket: 1,
        flow: flow(port, false),
        hop: HOP,
        hop_limit: 64,
        peer_closed: false,
        snd_una: UNA,
        snd_nxt: UNA,
        rcv_nxt: RCV,
        peer_window: 65_535,
        peer_shift: 0,
        our_shift: 7,
        window: 500,
        mss: MSS,
        timestamps: Some(TimestampState {
            recent: 1000,
            value: 5000,
        }),
        rto_us: RTO.as_micros() as u32,
        retransmits: 0,
        time_wait_ms: 60_000,
        fin_wait2_ms: 60_000,
    }
}

/// What a host hands over of a connection.
pub(super) fn teardown_of(closing: &Closing) -> Teardown {
    Teardown {
        peer_closed: closing.state == State::CloseWait,
        snd_una: closing.snd_una,
        snd_nxt: closing.snd_nxt,
        rcv_nxt: closing.rcv_nxt,
        peer_window: closing.peer_window,
        peer_shift: closing.peer_shift,
        our_shift: closing.our_shift,
        window: closing.window,
        mss: closing.mss,
        timestamps: closing
            .timestamps
            .map(|(recent, value)| TimestampState { recent, value }),
        rto_us: closing.rto.as_micros() as u32,
        ..teardown(1)
    }
}

/// Bytes to send, of which each tells its place.
pub(super) fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

impl Rig {
    pub(super) fn new() -> Rig {
        Rig::limited(CAPACITY, 1 << 20)
    }

    /// With a limit on connections and on packet memory.
    pub(super) fn limited(closing: u32, packet_memory: u64) -> Rig {
        let config = NicConfig {
            accel: AccelConfig {
                closing,
                packet_memory,
                ..AccelConfig::default()
            },
            ..NicConfig::new([7; 16])
        };
        Rig::with(config, |_| {})
    }

    pub(super) fn with(config: NicConfig, change: impl Fn(&mut FunctionConfig)) -> Rig {
        let (mut functions, mut hosts) = (Vec::new(), Vec::new());
        for id in 0..2 {
            let mut config = FunctionConfig::new(mac(id));
            change(&mut config);
            let (host, device) = function(config);
            let region = host
                .register(Arc::new(Region::anonymous(MEMORY)))
                .expect("an id");
            let mut function = Function::new(FunctionId(id), device, 0);
            function.regions.refresh();
            functions.push(function);
            hosts.push((host, region));
        }
        Rig {
            accel: Accel::new(&config.accel),
            hasher: FlowHasher::new(&config.secret),
            config,
            functions,
            hosts,
            now: Instant::now(),
        }
    }

    /// Hands a connection over with `payload` to send.
    pub(super) fn close(&mut self, teardown: &Teardown, payload: &[u8]) -> Result<(), ErrorCode> {
        self.close_of(0, teardown, payload)
    }

    pub(super) fn close_of(
        &mut self,
        function: usize,
        teardown: &Teardown,
        payload: &[u8],
    ) -> Result<(), ErrorCode> {
        let (host, region) = &self.hosts[function];
        let memory = host.regions.get(*region).expect("it is registered");
        assert!(memory.write(0, payload));
        // In two pieces, as a send buffer that wraps.
        let mut gather = Gather::EMPTY;
        let middle = payload.len() / 3;
        for (from, to) in [(0, middle), (middle, payload.len())] {
            gather.push(Slice {
                offset: from as u64,
                len: (to - from) as u32,
                region: *region,
            });
        }
        let result = self.close_with(function, teardown, &gather);
        // The memory is the host's again.
        assert!(memory.write(0, &vec![0xee; payload.len()]));
        result
    }

    pub(super) fn close_with(
        &mut self,
        function: usize,
        teardown: &Teardown,
        gather: &Gather,
    ) -> Result<(), ErrorCode> {
        let command = AccelCommand::Teardown(*teardown);
        let owned = self.owner(function, &teardown.flow.reversed()).is_some();
        let (accel, device, functions) = self.parts();
        accel.command(&device, &mut functions[function], &command, owned, gather)
    }

    /// A frame comes.
    pub(super) fn deliver(&mut self, frame: &[u8]) -> Handled {
        self.deliver_to(0, frame)
    }

    pub(super) fn deliver_to(&mut self, function: usize, frame: &[u8]) -> Handled {
        let Class::Tcp(parsed) = classify(frame) else {
            panic!("not TCP");
        };
        let hash = self.hasher.hash(&parsed.flow);
        let segment = Segment::new(frame, &parsed, FrameMeta::default(), hash);
        let owner = self.owner(function, &parsed.flow);
        let (accel, device, functions) = self.parts();
        let handled = accel.receive(&device, &mut functions[function], owner, false, &segment);
        self.check();
        handled
    }

    /// A router reports the segment at `seq` as too big.
    pub(super) fn report_too_big(&mut self, flow: &FlowKey, seq: SeqNum, mtu: u16) {
        let quoted = frame_of(flow, &ack(flow, seq), &[]);
        let original = &quoted[14..];
        let mut frame = vec![0; 256];
        let ip = IpFields {
            src: flow.dst.0,
            dst: flow.src.0,
            protocol: if flow.is_ipv6() { 58 } else { 1 },
            hop_limit: 64,
            ecn: wire::Ecn::NotEct,
        };
        let len = match (ip.src, ip.dst) {
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                let mtu = mtu.into();
                let message = v6::Message::PacketTooBig { mtu, original };
                let at = emit_ip_headers(&mut frame, HOP, mac(0), &ip, message.len() as u32);
                at + message.emit(src, dst, &mut frame[at..])
            }
            _ => {
                let reason = v4::Unreachable::FragmentationNeeded { mtu };
                let message = v4::Message::Unreachable { reason, original };
                let at = emit_ip_headers(&mut frame, HOP, mac(0), &ip, message.len() as u32);
                at + message.emit(&mut frame[at..])
            }
        };
        let class = classify(&frame[..len]);
        let (quoted, mtu) = crate::accel::too_big(&frame[..len], &class).expect("a report");
        let Some(owner) = self.owner(0, &quoted.flow.reversed()) else {
            return;
        };
        let (accel, _, functions) = self.parts();
        let for_host = accel.path_shrank(&mut functions[0], owner, quoted.seq, mtu);
        assert!(for_host);
    }

    /// The host opens a connection with this flow.
    pub(super) fn open(&mut self, flow: &FlowKey) -> Result<(), ErrorCode> {
        let owner = self.owner(0, &flow.reversed());
        let (accel, _, functions) = self.parts();
        accel.open(&mut functions[0], owner)
    }

    /// One frame, as it is.
    pub(super) fn poll(&mut self) -> Option<(Vec<u8>, FunctionId, FrameMeta)> {
        let mut out = vec![0; 1 << 16];
        // What a caller without TSO has.
        if !self.config.wire.tso {
            out.truncate(usize::from(self.config.mtu) + 14);
        }
        let (accel, device, functions) = self.parts();
        let made = accel.poll_transmit(&device, functions, &mut out)?;
        self.check();
        out.truncate(made.len);
        Some((out, made.function, made.meta))
    }

    /// All that is to be sent now.
    pub(super) fn sent(&mut self) -> Vec<Sent> {
        let mut sent = Vec::new();
        while let Some((frame, function, meta)) = self.poll() {
            let Class::Tcp(parsed) = classify(&frame) else {
                panic!("not TCP");
            };
            assert_eq!(frame[..6], HOP.0);
            assert_eq!(frame[6..12], mac(function.0).0, "only its own address");
            if meta.needs_checksum.is_none() {
                assert!(parsed.verify_checksums(&frame));
            }
            sent.push(Sent {
                flow: parsed.flow,
                header: parsed.tcp,
                payload: parsed.payload(&frame).to_vec(),
                meta,
            });
            assert!(sent.len() < 1000, "it never stops");
        }
        sent
    }

    /// The only packet to be sent now.
    pub(super) fn only(&mut self) -> Sent {
        let mut sent = self.sent();
        assert_eq!(sent.len(), 1, "{sent:?}");
        sent.remove(0)
    }

    /// Time passes, and nothing is sent meanwhile that a test has not asked for. Stops at the first timer that gives
    /// something to send. Returns how long it took.
    pub(super) fn until_sent(&mut self, most: Duration) -> Option<Duration> {
        let start = self.now;
        while let Some(due) = self.accel.poll_timeout().filter(|due| *due <= start + most) {
            self.now = self.now.max(due);
            self.handle_time();
            if self.accel.has_frames() {
                return Some(self.now - start);
            }
        }
        self.now = start + most;
        None
    }

    /// Time passes; what is sent is given.
    pub(super) fn pass(&mut self, span: Duration) -> Vec<Sent> {
        let end = self.now + span;
        let mut sent = Vec::new();
        while self.until_sent(end - self.now).is_some() {
            sent.extend(self.sent());
        }
        sent
    }

    pub(super) fn handle_time(&mut self) {
        let (accel, device, functions) = self.parts();
        accel.handle_time(&device, functions);
        self.check();
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.functions[0].counters
    }

    pub(super) fn room(&self) -> AccelRoom {
        self.room_of(0)
    }

    pub(super) fn room_of(&self, function: usize) -> AccelRoom {
        self.accel.closing.room(&self.functions[function], 0)
    }

    pub(super) fn closing(&self) -> u32 {
        self.accel.closing.len()
    }

    fn check(&self) {
        if let Some(store) = &self.accel.closing.store {
            store.table.assert_invariants();
        }
        assert!(self.closing() > 0 || self.accel.closing.poll_timeout().is_none());
    }

    /// Who owns a flow, from the peer to us.
    fn owner(&self, function: usize, flow: &FlowKey) -> Option<Owned> {
        let (hash, id) = (self.hasher.hash(flow), self.functions[function].id);
        self.accel.owner_of(hash, id, flow, |_| false)
    }

    fn parts(&mut self) -> (&mut Accel, Device<'_>, &mut [Function]) {
        let device = Device {
            now: self.now,
            nic: &self.config,
            hasher: &self.hasher,
        };
        (&mut self.accel, device, &mut self.functions)
    }
}

/// The peer's end of a connection, written by hand.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer {
    /// From the peer to us.
    pub(super) flow: FlowKey,
    pub(super) seq: SeqNum,
    pub(super) ack: SeqNum,
    pub(super) window: u16,
    pub(super) timestamps: Option<Timestamps>,
}

impl Peer {
    pub(super) fn of(teardown: &Teardown) -> Peer {
        Peer {
            flow: teardown.flow.reversed(),
            seq: teardown.rcv_nxt,
            ack: teardown.snd_una,
            window: 65_535,
            timestamps: teardown.timestamps.map(|timestamps| Timestamps {
                val: timestamps.recent,
                echo: timestamps.value,
            }),
        }
    }

    pub(super) fn header(&self, flags: Flags) -> Header {
        Header {
            ack: self.ack,
            flags,
            window: self.window,
            options: Options {
                timestamps: self.timestamps,
                ..Options::default()
            },
            ..ack(&self.flow, self.seq)
        }
    }

    /// A frame with these flags.
    pub(super) fn frame(&self, flags: Flags, payload: &[u8]) -> Vec<u8> {
        frame_of(&self.flow, &self.header(flags), payload)
    }

    /// The peer acknowledges everything before `ack`.
    pub(super) fn acknowledge(&mut self, rig: &mut Rig, ack: SeqNum) {
        self.ack = ack;
        assert_eq!(rig.deliver(&self.frame(Flags::ACK, &[])), Handled::Taken);
    }

    /// The peer's FIN.
    pub(super) fn finish(&mut self, rig: &mut Rig) {
        let frame = self.frame(Flags::FIN | Flags::ACK, &[]);
        assert_eq!(rig.deliver(&frame), Handled::Taken);
        self.seq += 1;
    }
}

/// A frame to function 0.
pub(super) fn frame_of(flow: &FlowKey, header: &Header, payload: &[u8]) -> Vec<u8> {
    unsummed(HOP, mac(0), flow, header, payload)
}
