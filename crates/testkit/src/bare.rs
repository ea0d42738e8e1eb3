//! A host that does no more than to post descriptors and to take what its NIC tells it.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;
use std::time::Instant;

use l5p::{Layers, Note};
use nic::ring::{
    ContextId, Direction, ErrorCode, FunctionConfig, HostFunction, InnerRecover, Packet,
    RecvDescriptor, Region, RegionId, SendDescriptor, SendFlags, Slice, Verify, function,
};
use nic::{Counters, FrameMeta, FunctionId, Nic, NicConfig};
use wire::ethernet::{HEADER_LEN, MacAddr};
use wire::packet::{self, MAX_TCP_HEADERS_LEN, Parsed};
use wire::tcp::{Flags, Header};
use wire::{FlowKey, SeqNum, ipv4, ipv6};

use crate::fixtures::{self, GUARD, HOST, PEER};
use crate::frames;

/// A frame whose checksums the port has found right.
pub const VALID: FrameMeta = FrameMeta {
    gso_size: 0,
    needs_checksum: None,
    checksum_valid: true,
};

/// Bytes that every host has for what it sends.
pub const MEMORY: usize = 1 << 18;

/// Most bytes of a frame.
const FRAME: usize = 70_000;

/// Memory that a host has registered.
#[derive(Clone, Debug)]
pub struct Memory {
    /// The memory.
    pub region: Arc<Region>,
    /// Its number at the NIC.
    pub id: RegionId,
}

impl Memory {
    /// Registers so many bytes.
    pub fn register(host: &HostFunction, bytes: usize) -> Memory {
        let region = Arc::new(Region::anonymous(bytes.max(1)));
        let id = host.register(Arc::clone(&region)).expect("a free id");
        Memory { region, id }
    }

    /// Registers so many bytes, all of them [`GUARD`].
    pub fn guarded(host: &HostFunction, bytes: usize) -> Memory {
        let memory = Memory::register(host, bytes);
        memory.write(0, &vec![GUARD; bytes]);
        memory
    }

    /// A part of it.
    pub fn slice(&self, offset: u64, len: u32) -> Slice {
        Slice {
            offset,
            len,
            region: self.id,
        }
    }

    /// What it holds there.
    pub fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        assert!(self.region.read(offset, &mut bytes));
        bytes
    }

    /// What it holds in a part of it.
    pub fn get(&self, slice: Slice) -> Vec<u8> {
        assert_eq!(slice.region, self.id);
        self.read(slice.offset, slice.len as usize)
    }

    /// Writes to it.
    pub fn write(&self, offset: u64, bytes: &[u8]) {
        assert!(self.region.write(offset, bytes));
    }
}

/// A part of a packet's payload that lies in a mapped buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which bytes of the payload.
    pub at: Range<usize>,
    /// Where they are.
    pub slice: Slice,
    /// The tag of the buffer.
    pub tag: u16,
}

/// A packet as the host finds it.
#[derive(Clone, Debug)]
pub struct Delivered {
    /// What the NIC tells of it.
    pub packet: Packet,
    /// What its buffer holds.
    pub bytes: Vec<u8>,
    /// Parts of its payload that are elsewhere, by ascending place.
    pub placed: Vec<Part>,
    /// What the innermost protocol has to say of it.
    pub notes: Vec<Note>,
}

impl Delivered {
    /// All that belongs to the packet has come.
    fn is_complete(&self) -> bool {
        let told = (
            usize::from(self.packet.placed),
            usize::from(self.packet.notes),
        );
        (self.placed.len(), self.notes.len()) == told
    }

    /// The headers, of the whole payload.
    pub fn parsed(&self) -> Parsed {
        let mut whole = self.bytes.clone();
        let len = usize::from(self.packet.header_len) + self.packet.payload_len as usize;
        whole.resize(whole.len().max(len), 0);
        packet::parse(&whole).expect("valid headers")
    }

    /// The sequence number, without a look at the rest.
    pub fn seq(&self) -> SeqNum {
        sequence_number(&self.bytes)
    }

    /// The payload that is in the buffer.
    pub fn payload(&self) -> &[u8] {
        &self.bytes[usize::from(self.packet.header_len)..]
    }

    /// The whole payload, the placed parts from where they lie.
    pub fn whole(&self, memory: &Memory) -> Vec<u8> {
        let (mut whole, mut rest) = (Vec::new(), self.payload());
        for part in &self.placed {
            let (before, behind) = rest.split_at(part.at.start - whole.len());
            whole.extend_from_slice(before);
            whole.extend(memory.get(part.slice));
            rest = behind;
        }
        whole.extend_from_slice(rest);
        assert_eq!(whole.len(), self.packet.payload_len as usize);
        whole
    }
}

/// The sequence number of a frame with a TCP segment, whose payload may be elsewhere.
pub fn sequence_number(frame: &[u8]) -> SeqNum {
    let ip = match frame[HEADER_LEN] >> 4 {
        4 => ipv4::HEADER_LEN,
        _ => ipv6::HEADER_LEN,
    };
    let field = &frame[HEADER_LEN + ip + 4..][..4];
    SeqNum(u32::from_be_bytes(field.try_into().expect("4 bytes")))
}

/// A host: a function with memory. Each queue's buffers are in one region, and are the host's again once it takes the packet.
#[derive(Debug)]
pub struct BareHost {
    function: HostFunction,
    /// The function at its NIC.
    pub id: FunctionId,
    /// Memory for what it sends.
    pub memory: Memory,
    buffers: Option<Memory>,
    /// By queue, where small and large buffers begin that the NIC has not got.
    free: Vec<[VecDeque<u64>; 2]>,
}

impl Deref for BareHost {
    type Target = HostFunction;

    fn deref(&self) -> &HostFunction {
        &self.function
    }
}

impl DerefMut for BareHost {
    fn deref_mut(&mut self) -> &mut HostFunction {
        &mut self.function
    }
}

impl BareHost {
    /// A new function of the NIC's, which has no buffers to fill yet.
    pub fn attach(nic: &mut Nic, config: FunctionConfig) -> BareHost {
        let (function, device) = function(config);
        let id = nic.attach(device).expect("a free address");
        let memory = Memory::register(&function, MEMORY);
        BareHost {
            function,
            id,
            memory,
            buffers: None,
            free: Vec::new(),
        }
    }

    /// Bytes of a queue's small buffers, and of its large ones.
    fn areas(&self) -> [u64; 2] {
        let config = &self.config;
        [
            u64::from(config.small_entries) * u64::from(config.small_bytes),
            u64::from(config.large_entries) * u64::from(config.large_bytes),
        ]
    }

    /// The memory of the buffers.
    pub fn buffers(&mut self) -> &Memory {
        let (areas, queues) = (self.areas(), self.queues.len() as u64);
        let config = self.config;
        let function = &self.function;
        let free = &mut self.free;
        self.buffers.get_or_insert_with(|| {
            let starts = |from: u64, len: u64, step: u32| (from..from + len).step_by(step as usize);
            for queue in 0..queues {
                let from = queue * (areas[0] + areas[1]);
                free.push([
                    starts(from, areas[0], config.small_bytes).collect(),
                    starts(from + areas[0], areas[1], config.large_bytes).collect(),
                ]);
            }
            Memory::register(function, (queues * (areas[0] + areas[1])) as usize)
        })
    }

    /// Gives each queue up to so many small and large buffers more, as far as there are any.
    pub fn fill(&mut self, small: usize, large: usize) {
        let id = self.buffers().id;
        let lens = [self.config.small_bytes, self.config.large_bytes];
        for (queue, free) in self.function.queues.iter_mut().zip(&mut self.free) {
            let rings = [&mut queue.small, &mut queue.large];
            let classes = rings.into_iter().zip(free).zip(lens);
            for (((ring, free), len), most) in classes.zip([small, large]) {
                for _ in 0..most {
                    if free.is_empty() || ring.free(1) == 0 {
                        break;
                    }
                    let buffer = Slice {
                        offset: free.pop_front().expect("a buffer"),
                        len,
                        region: id,
                    };
                    assert!(ring.push(buffer));
                }
            }
            let _ = queue.publish();
        }
    }

    /// Gives the NIC every buffer that it has not got.
    pub fn refill(&mut self) {
        self.fill(usize::MAX, usize::MAX);
    }

    /// What a queue's receive ring has next. The buffer of a packet is the host's, and holds the packet until it is given away again.
    pub fn pop(&mut self, queue: usize) -> Option<RecvDescriptor> {
        let descriptor = self.function.queues[queue].recv.pop()?;
        if let RecvDescriptor::Packet(packet) = &descriptor {
            self.take_back(packet.buffer);
        }
        Some(descriptor)
    }

    fn take_back(&mut self, buffer: Slice) {
        if self.buffers.as_ref().map(|memory| memory.id) != Some(buffer.region) {
            return;
        }
        let [small, large] = self.areas();
        let queue = buffer.offset / (small + large);
        let from = queue * (small + large);
        let (class, from, len) = match buffer.offset - from < small {
            true => (0, from, self.config.small_bytes),
            false => (1, from + small, self.config.large_bytes),
        };
        let start = buffer.offset - (buffer.offset - from) % u64::from(len);
        self.free[queue as usize][class].push_back(start);
    }

    /// What all receive rings have. What was taken, and what was posted, is shown to the NIC.
    pub fn take(&mut self) -> Vec<RecvDescriptor> {
        let mut taken = Vec::new();
        for queue in 0..self.queues.len() {
            taken.extend(std::iter::from_fn(|| self.pop(queue)));
        }
        self.publish();
        taken
    }

    /// Shows the NIC what was posted on all queues.
    pub fn publish(&mut self) {
        for queue in &mut self.queues {
            let _ = queue.publish();
        }
    }

    /// Posts to the send ring of the first queue.
    pub fn post(&mut self, descriptor: &SendDescriptor<'_>) -> u64 {
        let send = &mut self.queues[0].send;
        send.post(descriptor).expect("room in the ring")
    }

    /// The packet of a descriptor, with its bytes.
    pub fn read(&self, descriptor: RecvDescriptor) -> Option<Delivered> {
        let RecvDescriptor::Packet(packet) = descriptor else {
            return None;
        };
        let buffers = self.buffers.as_ref().expect("buffers");
        Some(Delivered {
            packet,
            bytes: buffers.get(packet.buffer),
            placed: Vec::new(),
            notes: Vec::new(),
        })
    }

    /// Packets with what belongs to them, and all else.
    pub fn sort(&self, taken: Vec<RecvDescriptor>) -> (Vec<Delivered>, Vec<RecvDescriptor>) {
        let (mut packets, mut others): (Vec<Delivered>, _) = (Vec::new(), Vec::new());
        for descriptor in taken {
            let behind = packets.last_mut().filter(|packet| !packet.is_complete());
            match (descriptor, behind) {
                (RecvDescriptor::Placed { at, slice, tag }, Some(packet)) => {
                    let at = at as usize..(at + slice.len) as usize;
                    packet.placed.push(Part { at, slice, tag });
                }
                (RecvDescriptor::Notes { notes, count }, Some(packet)) => {
                    packet.notes.extend(&notes[..usize::from(count)]);
                }
                (other, Some(packet)) => panic!("{other:?} before the rest of {packet:?}"),
                (RecvDescriptor::Packet(_), None) => packets.extend(self.read(descriptor)),
                (other, None) => others.push(other),
            }
        }
        assert!(packets.last().is_none_or(Delivered::is_complete));
        (packets, others)
    }

    /// The errors that the host is told of, with the descriptors that they are about. All else is taken too.
    pub fn errors(&mut self) -> Vec<(u64, ErrorCode)> {
        let taken = self.take().into_iter();
        let errors = taken.filter_map(|descriptor| match descriptor {
            RecvDescriptor::Completion {
                send_index, error, ..
            } => Some((send_index, error)),
            _ => None,
        });
        errors.collect()
    }

    /// The errors alone.
    pub fn codes(&mut self) -> Vec<ErrorCode> {
        self.errors().into_iter().map(|(_, error)| error).collect()
    }
}

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
        self.post(&SendDescriptor::CreateContext {
            context: CONTEXT,
            direction: Direction::Transmit,
            flow: self.flow,
            tcpsn,
            layers,
        });
    }

    /// Creates a context for what comes from a flow.
    pub fn offload(&mut self, context: ContextId, flow: &FlowKey, tcpsn: SeqNum, layers: &Layers) {
        self.command(&SendDescriptor::CreateContext {
            context,
            direction: Direction::Receive,
            flow: *flow,
            tcpsn,
            layers,
        });
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
        self.command(&SendDescriptor::ResyncResponse {
            context,
            tcpsn,
            inner,
            confirmed: index.is_some(),
            index: index.unwrap_or(0),
        });
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
        *self.nic.function_counters(self.host.id).expect("attached")
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
    /// The byte behind it.
    pub fn end(&self) -> SeqNum {
        self.start + self.len
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
            context: CONTEXT,
            start: message.start,
            index: message.index,
            len: message.len,
            resume,
            prefix,
            verify,
            inner,
            toe: None,
        });
    }
}
