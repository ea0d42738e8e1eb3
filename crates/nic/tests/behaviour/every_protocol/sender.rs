//! A host that sends through a NIC; every frame must be what software would send.

use std::ops::Range;

use nic::ring::{FunctionConfig, InnerRecover, SendFlags, Slice, Verify};
use testkit::bare::{CONTEXT, Memory, Message, Rig, function_config, nic_config};
use wire::SeqNum;

use super::receiver::load;
use super::stream::{Stream, first_index};

pub struct Sender<'a> {
    stream: &'a Stream,
    start: SeqNum,
    rig: Rig,
    memory: Memory,
    /// Where the context is.
    at: usize,
}

impl<'a> Sender<'a> {
    pub fn new(stream: &'a Stream, start: SeqNum) -> Sender<'a> {
        let config = FunctionConfig {
            contexts: 1,
            ..function_config()
        };
        let mut rig = Rig::new(nic_config(), config);
        // The layers' streams one after the other.
        let framed = stream.parts.iter().map(|part| &part.framed[..]);
        let bytes = framed.collect::<Vec<_>>().concat();
        let memory = Memory::register(&rig.host, bytes.len());
        memory.write(0, &bytes);
        load(&stream.layers, &mut rig);
        rig.create(start, &stream.layers);
        Sender {
            stream,
            start,
            rig,
            memory,
            at: 0,
        }
    }

    /// Sends a range of the stream in packets of `mss` bytes.
    pub fn send(&mut self, range: Range<usize>, mss: u16) {
        if range.start != self.at {
            self.recover(range.start);
        }
        let payload = [self.slice(0, range.clone())];
        let seq = self.start + range.start as u32;
        self.rig
            .send(seq, mss, Some(CONTEXT), SendFlags::NONE, &payload);
        let mut at = range.start;
        for (_, payload) in self.rig.segments() {
            let right = &self.stream.parts[0].wire[at..at + payload.len()];
            assert_eq!(payload, right, "{at}");
            at += payload.len();
        }
        assert_eq!(self.rig.host.take(), [], "refused");
        assert_eq!(at, range.end);
        self.at = range.end;
    }

    fn slice(&self, layer: usize, range: Range<usize>) -> Slice {
        let before: usize = self.stream.parts[..layer]
            .iter()
            .map(|part| part.framed.len())
            .sum();
        self.memory
            .slice((before + range.start) as u64, range.len() as u32)
    }

    /// Brings the context to a place in a message.
    fn recover(&mut self, resume: usize) {
        let message = |layer: usize, at: usize| {
            let messages = &self.stream.parts[layer].messages;
            let index = messages.partition_point(|range| range.end <= at);
            (index, messages[index].clone())
        };
        let (index, outermost) = message(0, resume);
        let mut prefix = Vec::new();
        let inner = (self.stream.parts.len() > 1).then(|| {
            let first = self.stream.contents[index].start;
            let (index, range) = message(1, first);
            if range.start < first {
                prefix.push(self.slice(1, range.start..first));
            }
            InnerRecover {
                index: index as u64,
                len: range.len() as u32,
                offset: (first - range.start) as u32,
            }
        });
        if outermost.start < resume {
            prefix.push(self.slice(0, outermost.start..resume));
        }
        let message = Message {
            start: self.start + outermost.start as u32,
            len: outermost.len() as u32,
            index: first_index(&self.stream.layers) + index as u64,
        };
        let resume = self.start + resume as u32;
        self.rig
            .recover_layers(&message, resume, &prefix, Verify::None, inner);
    }
}
