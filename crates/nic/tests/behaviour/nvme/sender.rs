//! The sending host: a driver that shadows its NIC's context (Autonomous NIC offloads §4.2, NVMeTCP offload).

use std::ops::Range;
use std::time::Instant;

use nic::ring::{ContextId, FunctionConfig, InnerRecover, SendFlags, Slice, Verify};
use nic::{FrameMeta, NicConfig, WireCapabilities};
use testkit::bare::{CONTEXT, Memory, Message, Rig, function_config, nic_config};

use super::stream::Stream;

pub struct Sender {
    rig: Rig,
    memory: Memory,
    mutable: bool,
    /// Where the NIC's context is.
    shadow: u32,
    /// End of what was ever sent.
    pub sent: u32,
}

impl Sender {
    pub fn new(stream: &Stream, mutable: bool, wire: WireCapabilities, now: Instant) -> Sender {
        let nic = NicConfig {
            wire,
            ..nic_config()
        };
        let function = FunctionConfig {
            contexts: 1,
            ..function_config()
        };
        let mut rig = Rig::new(nic, function);
        rig.now = now;
        let memory = Memory::register(&rig.host, stream.framed.len());
        memory.write(0, &stream.framed);
        rig.create(stream.start, &stream.layers());
        Sender {
            rig,
            memory,
            mutable,
            shadow: 0,
            sent: 0,
        }
    }

    /// Sends a range of the stream, in packets of `mss` bytes; gives the frames.
    pub fn send(
        &mut self,
        stream: &Stream,
        range: Range<u32>,
        mss: u16,
    ) -> Vec<(Vec<u8>, FrameMeta)> {
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
        let frames = self.rig.frames();
        assert_eq!(self.rig.host.take(), [], "nothing was refused");
        frames
    }

    pub fn counters(&self) -> nic::Counters {
        self.rig.nic.counters()
    }

    fn slice(&self, range: Range<u32>) -> Slice {
        self.memory
            .slice(range.start.into(), range.end - range.start)
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
        let message = Message {
            start: stream.start + range.start,
            len: range.end - range.start,
            index: message as u64,
        };
        let resume = stream.start + resume;
        self.rig
            .recover_layers(&message, resume, &prefix, verify, inner);
    }

    /// The PDU with the first byte of a record's content, and its bytes before that.
    fn inner(&self, stream: &Stream, message: usize) -> (Option<InnerRecover>, Vec<Slice>) {
        if stream.crypto.is_none() {
            return (None, Vec::new());
        }
        let first = stream.contents[message].0.start;
        let index = stream.pdu_at(first);
        let pdu = &stream.pdus[index];
        let before = stream.places(pdu.start..first);
        let inner = InnerRecover {
            index: index as u64,
            len: pdu.end - pdu.start,
            offset: first - pdu.start,
        };
        (Some(inner), before.map(|range| self.slice(range)).collect())
    }

    fn post(&mut self, stream: &Stream, range: Range<u32>, mss: u16, context: Option<ContextId>) {
        let mutable = match self.mutable {
            true => SendFlags::MUTABLE_SOURCE,
            false => SendFlags::NONE,
        };
        let (seq, payload) = (stream.start + range.start, [self.slice(range)]);
        self.rig.send(seq, mss, context, mutable, &payload);
    }
}
