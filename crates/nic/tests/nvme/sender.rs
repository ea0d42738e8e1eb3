//! The sending host: a driver that shadows its NIC's context (Autonomous NIC offloads §4.2, NVMeTCP offload).

use l5p::Layers;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use nic::ring::{
    ContextId, Direction, FunctionConfig, HostFunction, InnerRecover, Region, RegionId,
    SendDescriptor, SendFlags, Slice, Verify, function,
};
use nic::{Nic, NicConfig, WireCapabilities};
use wire::packet::{self, MAX_TCP_HEADERS_LEN};
use wire::{SeqNum, tcp};

use crate::stream::Stream;
use crate::{RECEIVER, SENDER, flow};

const CONTEXT: ContextId = ContextId(0);

pub struct Sender {
    nic: Nic,
    host: HostFunction,
    region: RegionId,
    mutable: bool,
    /// Where the NIC's context is.
    shadow: u32,
    /// End of what was ever sent.
    pub sent: u32,
    now: Instant,
}

impl Sender {
    pub fn new(stream: &Stream, mutable: bool, wire: WireCapabilities, now: Instant) -> Sender {
        let mut nic = Nic::new(NicConfig {
            wire,
            ..NicConfig::new([1; 16])
        });
        let (mut host, device) = function(FunctionConfig {
            send_entries: 256,
            contexts: 1,
            ..FunctionConfig::new(SENDER)
        });
        nic.attach(device).unwrap();
        let region = Region::anonymous(stream.framed.len().max(1));
        assert!(region.write(0, &stream.framed));
        let region = host.register(Arc::new(region)).unwrap();
        let layers = match &stream.crypto {
            None => Layers::of(&stream.parameters),
            Some(crypto) => Layers::of(crypto).carrying(&stream.parameters),
        };
        let create = SendDescriptor::CreateContext {
            context: CONTEXT,
            direction: Direction::Transmit,
            flow: flow(),
            tcpsn: stream.start,
            layers: &layers,
        };
        host.queues[0].send.post(&create).unwrap();
        Sender {
            nic,
            host,
            region,
            mutable,
            shadow: 0,
            sent: 0,
            now,
        }
    }

    /// Sends a range of the stream, in packets of `mss` bytes; gives each frame to `out`.
    pub fn send(
        &mut self,
        stream: &Stream,
        range: Range<u32>,
        mss: u16,
        mut out: impl FnMut(&[u8], nic::FrameMeta),
    ) {
        let encrypted = stream.crypto.is_some();
        let mut at = range.start;
        while at < range.end {
            let message = stream.message_at(at);
            // What is verified is one record, or the part of one that was sent.
            let known = encrypted && self.mutable && at < self.sent;
            let limit = match known {
                true => stream.messages[message].end.min(self.sent).min(range.end),
                false => range.end,
            };
            let mut context = Some(CONTEXT);
            if at != self.shadow || known {
                match encrypted || stream.has_digest(at..limit) {
                    true => self.recover(stream, message, at),
                    false => context = None,
                }
            }
            self.post(stream, at..limit, mss, context);
            if context.is_some() {
                self.shadow = limit;
            }
            at = limit;
            self.sent = self.sent.max(limit);
        }
        let _ = self.host.queues[0].publish();
        let mut frame = vec![0; 66_000];
        while let Some((len, meta)) = self.nic.poll_transmit(self.now, &mut frame) {
            out(&frame[..len], meta);
        }
        self.nic.flush(self.now);
        assert_eq!(self.host.queues[0].recv.pop(), None, "nothing was refused");
    }

    pub fn counters(&self) -> nic::Counters {
        self.nic.counters()
    }

    fn slice(&self, range: Range<u32>) -> Slice {
        Slice {
            region: self.region,
            offset: range.start.into(),
            len: range.end - range.start,
        }
    }

    fn recover(&mut self, stream: &Stream, message: usize, resume: u32) {
        let range = stream.messages[message].clone();
        let first = resume == range.start && resume >= self.sent;
        let (verify, to) = if !self.mutable || stream.crypto.is_none() || first {
            (Verify::None, resume)
        } else if range.end <= self.sent {
            (Verify::WholeMessage, range.end)
        } else {
            (Verify::Frontier, self.sent)
        };
        let (inner, mut prefix) = self.inner(stream, message);
        prefix.push(self.slice(range.start..to));
        let recover = SendDescriptor::RecoverContext {
            context: CONTEXT,
            start: stream.start + range.start,
            index: message as u64,
            len: range.end - range.start,
            resume: stream.start + resume,
            prefix: &prefix,
            verify,
            inner,
            toe: None,
        };
        self.host.queues[0].send.post(&recover).unwrap();
    }

    /// The PDU with the first byte of a record's content, and its bytes before that.
    fn inner(&self, stream: &Stream, message: usize) -> (Option<InnerRecover>, Vec<Slice>) {
        if stream.crypto.is_none() {
            return (None, Vec::new());
        }
        let first = stream.contents[message].0.start;
        let index = stream.pdu_at(first);
        let pdu = &stream.pdus[index].0;
        let before = stream.places(pdu.start..first);
        let inner = InnerRecover {
            index: index as u64,
            len: pdu.end - pdu.start,
            offset: first - pdu.start,
        };
        (Some(inner), before.map(|range| self.slice(range)).collect())
    }

    fn post(&mut self, stream: &Stream, range: Range<u32>, mss: u16, context: Option<ContextId>) {
        let flow = crate::flow();
        let tcp = tcp::Header {
            src_port: flow.src.1,
            dst_port: flow.dst.1,
            seq: stream.start + range.start,
            ack: SeqNum(9),
            flags: tcp::Flags::ACK,
            window: 1000,
            options: tcp::Options::default(),
        };
        let mut header = [0; MAX_TCP_HEADERS_LEN];
        let len = packet::emit_tcp_headers(&mut header, SENDER, RECEIVER, &flow, &tcp, 0, 64);
        let mutable = match self.mutable {
            true => SendFlags::MUTABLE_SOURCE,
            false => SendFlags::NONE,
        };
        let send = SendDescriptor::Send {
            header: &header[..len],
            mss,
            context,
            flags: SendFlags::CHECKSUM.union(mutable),
            payload: &[self.slice(range)],
        };
        self.host.queues[0].send.post(&send).unwrap();
    }
}
