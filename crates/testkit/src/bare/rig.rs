//! A NIC and its host.

use std::time::Instant;

use l5p::Layers;
use nic::ring::{
    ContextId, CreateContext, Direction, FunctionConfig, InnerRecover, RecoverContext,
    RecvDescriptor, ResyncResponse, SendDescriptor, SendFlags, Slice, Verify,
};
use nic::{Counters, FrameMeta, Nic, NicConfig};
use wire::ethernet::MacAddr;
use wire::packet::{self, MAX_TCP_HEADERS_LEN, Parsed};
use wire::tcp::{Flags, Header};
use wire::{FlowKey, SeqNum};

use super::{BareHost, Delivered};
use crate::fixtures::{self, HOST, PEER};
use crate::frames;

/// A frame whose checksums the port has found right.
pub const VALID: FrameMeta = FrameMeta {
    gso_size: 0,
    needs_checksum: None,
    checksum_valid: true,
};

/// Most bytes of a frame.
const FRAME: usize = 70_000;

/// A NIC with one host.
#[derive(Debug)]
pub struct Rig {
    /// The NIC.
    pub nic: Nic,
    /// Its host.
    pub host: BareHost,
    /// The time.
    pub now: Instant,
    /// From the host to its peer.
    pub flow: FlowKey,
}

/// The context of most tests.
pub const CONTEXT: ContextId = ContextId(0);

/// The NIC of most tests.
pub fn nic_config() -> NicConfig {
    NicConfig::new([7; 16])
}

/// The function of most tests.
pub fn function_config() -> FunctionConfig {
    FunctionConfig {
        send_entries: 256,
        receive_entries: 256,
        small_entries: 256,
        large_entries: 32,
        contexts: 16,
        ..FunctionConfig::new(HOST)
    }
}

impl Default for Rig {
    fn default() -> Rig {
        Rig::new(nic_config(), function_config())
    }
}

impl Rig {
    /// A NIC and a host that has not filled its rings.
    pub fn new(nic: NicConfig, function: FunctionConfig) -> Rig {
        let mut nic = Nic::new(nic);
        let host = BareHost::attach(&mut nic, function);
        Rig::of(nic, host)
    }

    /// As [`new`](Self::new), with a [guest](BareHost::attach_guest) for the host.
    pub fn of_guest(nic: NicConfig, function: FunctionConfig) -> Rig {
        let mut nic = Nic::new(nic);
        let host = BareHost::attach_guest(&mut nic, function);
        Rig::of(nic, host)
    }

    fn of(nic: Nic, host: BareHost) -> Rig {
        Rig {
            nic,
            host,
            now: Instant::now(),
            flow: fixtures::flow(50_000),
        }
    }

    /// As [`new`](Self::new), with full fill rings.
    pub fn filled(nic: NicConfig, function: FunctionConfig) -> Rig {
        let mut rig = Rig::new(nic, function);
        rig.host.refill();
        rig
    }

    /// A part of the host's memory.
    pub fn slice(&self, offset: u64, len: u32) -> Slice {
        self.host.memory.slice(offset, len)
    }

    /// Posts to the send ring.
    pub fn post(&mut self, descriptor: &SendDescriptor<'_>) -> u64 {
        self.host.post(descriptor)
    }

    /// Posts a descriptor that sends nothing, and lets the NIC take it.
    pub fn command(&mut self, descriptor: &SendDescriptor<'_>) {
        self.post(descriptor);
        self.work();
    }

    /// Lets the NIC take what was posted, which sends nothing.
    pub fn work(&mut self) {
        self.host.publish();
        assert!(self.nic.poll_transmit(self.now, &mut [0; 2048]).is_none());
    }

    /// Creates [`CONTEXT`] for what the host sends.
    pub fn create(&mut self, tcpsn: SeqNum, layers: &Layers) {
        self.post(&SendDescriptor::CreateContext(&CreateContext {
            context: CONTEXT,
            direction: Direction::Transmit,
            flow: self.flow,
            tcpsn,
            layers: layers.clone(),
        }));
    }

    /// Creates a context for what comes from a flow.
    pub fn offload(&mut self, context: ContextId, flow: &FlowKey, tcpsn: SeqNum, layers: &Layers) {
        self.command(&SendDescriptor::CreateContext(&CreateContext {
            context,
            direction: Direction::Receive,
            flow: *flow,
            tcpsn,
            layers: layers.clone(),
        }));
    }

    /// Answers a context's question.
    pub fn answer(&mut self, request: &RecvDescriptor, index: Option<u64>) {
        let RecvDescriptor::ResyncRequest {
            context,
            tcpsn,
            inner,
        } = *request
        else {
            panic!("{request:?}");
        };
        self.command(&SendDescriptor::ResyncResponse(ResyncResponse {
            context,
            tcpsn,
            inner,
            confirmed: index.is_some(),
            index: index.unwrap_or(0),
        }));
    }

    /// Maps a buffer.
    pub fn map(&mut self, context: ContextId, tag: u16, slices: &[Slice]) {
        self.command(&SendDescriptor::AddRrState {
            context,
            tag,
            slices,
        });
    }

    /// Takes a buffer back.
    pub fn unmap(&mut self, context: ContextId, tag: u16) {
        self.command(&SendDescriptor::DelRrState { context, tag });
    }

    /// Headers of a data segment, as the host writes them.
    pub fn header(&self, seq: SeqNum, flags: Flags) -> Vec<u8> {
        let header = Header {
            flags: Flags::ACK | flags,
            ..frames::ack(&self.flow, seq)
        };
        frames::headers(self.mac(), PEER, &self.flow, &header)
    }

    fn mac(&self) -> MacAddr {
        self.host.config.mac
    }

    /// Posts a segment.
    pub fn send(
        &mut self,
        seq: SeqNum,
        mss: u16,
        context: Option<ContextId>,
        flags: SendFlags,
        payload: &[Slice],
    ) -> u64 {
        let tcp = Header {
            flags: Flags::ACK | Flags::PSH,
            ..frames::ack(&self.flow, seq)
        };
        let mut header = [0; MAX_TCP_HEADERS_LEN];
        let mac = self.mac();
        let len = packet::emit_tcp_headers(&mut header, mac, PEER, &self.flow, &tcp, 0, 64);
        self.post(&SendDescriptor::Send {
            header: &header[..len],
            mss,
            context,
            flags: flags.union(SendFlags::CHECKSUM),
            payload,
        })
    }

    /// Everything that reaches the wire now.
    pub fn frames(&mut self) -> Vec<(Vec<u8>, FrameMeta)> {
        self.host.publish();
        let frames = drain(&mut self.nic, self.now);
        self.nic.flush(self.now);
        frames
    }

    /// Everything that reaches the wire now, as TCP segments with their payload; their checksums are right.
    pub fn segments(&mut self) -> Vec<(Parsed, Vec<u8>)> {
        let parse = |(frame, _): (Vec<u8>, FrameMeta)| {
            let parsed = packet::parse(&frame).expect("a segment");
            assert!(parsed.verify_checksums(&frame));
            let payload = parsed.payload(&frame).to_vec();
            (parsed, payload)
        };
        self.frames().into_iter().map(parse).collect()
    }

    /// Brings a frame whose checksums the port has found right.
    pub fn receive(&mut self, frame: &[u8]) {
        self.nic.handle_frame(self.now, frame, VALID);
    }

    /// Brings a frame whose checksums the NIC is to look at.
    pub fn receive_unchecked(&mut self, frame: &[u8]) {
        self.nic.handle_frame(self.now, frame, FrameMeta::default());
    }

    /// Ends a batch; gives what the host finds.
    pub fn flush(&mut self) -> Vec<RecvDescriptor> {
        self.nic.flush(self.now);
        self.host.take()
    }

    /// As [`flush`](Self::flush), packets with what belongs to them, and all else.
    pub fn received(&mut self) -> (Vec<Delivered>, Vec<RecvDescriptor>) {
        let taken = self.flush();
        self.host.sort(taken)
    }

    /// As [`flush`](Self::flush), packets alone.
    pub fn packets(&mut self) -> Vec<Delivered> {
        self.received().0
    }

    /// The function's counters.
    pub fn counters(&self) -> Counters {
        self.nic.function_counters(self.host.id).expect("attached")
    }
}

impl Rig {
    /// Brings [`CONTEXT`] to a place in a message.
    pub fn recover(&mut self, message: &Message, resume: SeqNum, prefix: &[Slice], verify: Verify) {
        self.recover_layers(message, resume, prefix, verify, None);
    }

    /// As [`recover`](Self::recover), with a place in a message of the protocol inside.
    pub fn recover_layers(
        &mut self,
        message: &Message,
        resume: SeqNum,
        prefix: &[Slice],
        verify: Verify,
        inner: Option<InnerRecover>,
    ) {
        self.post(&SendDescriptor::RecoverContext {
            recover: RecoverContext {
                context: CONTEXT,
                start: message.start,
                index: message.index,
                len: message.len,
                resume,
                verify,
                inner,
                toe: None,
            },
            prefix,
        });
    }
}

/// A message of a stream that a context processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its first byte.
    pub start: SeqNum,
    /// Its length.
    pub len: u32,
    /// Its number.
    pub index: u64,
}

impl Message {
    /// Messages one after the other: the first has its number, and begins at `start`; the others where `starts` say, whose last is the end.
    pub fn all(start: SeqNum, starts: &[usize], first: u64) -> Vec<Message> {
        let messages = starts.windows(2).zip(first..);
        let message = |(bounds, index): (&[usize], u64)| Message {
            start: start + bounds[0] as u32,
            len: (bounds[1] - bounds[0]) as u32,
            index,
        };
        messages.map(message).collect()
    }

    /// The byte behind it.
    pub fn end(&self) -> SeqNum {
        self.start + self.len
    }
}

/// The frames that a NIC sends now.
pub fn drain(nic: &mut Nic, now: Instant) -> Vec<(Vec<u8>, FrameMeta)> {
    let mut out = vec![0xee; FRAME];
    let next = || {
        let (len, meta) = nic.poll_transmit(now, &mut out)?;
        Some((out[..len].to_vec(), meta))
    };
    std::iter::from_fn(next).collect()
}
