//! A host that sends through a NIC; every frame must be what software would send.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use nic::ring::{
    ContextId, Direction, FunctionConfig, HostFunction, InnerRecover, Region, RegionId,
    SendDescriptor, SendFlags, Slice, Verify, function,
};
use nic::{Nic, NicConfig};
use wire::packet::{MAX_TCP_HEADERS_LEN, emit_tcp_headers};
use wire::{SeqNum, tcp};

use crate::receiver::load;
use crate::stream::{Stream, first_index};
use crate::{HOST, PEER, flow};

const CONTEXT: ContextId = ContextId(0);

pub struct Sender<'a> {
    stream: &'a Stream,
    start: SeqNum,
    nic: Nic,
    host: HostFunction,
    region: RegionId,
    /// Where the context is.
    at: usize,
    now: Instant,
}

impl<'a> Sender<'a> {
    pub fn new(stream: &'a Stream, start: SeqNum) -> Sender<'a> {
        let mut nic = Nic::new(NicConfig::new([1; 16]));
        let (mut host, device) = function(FunctionConfig {
            send_entries: 256,
            contexts: 1,
            ..FunctionConfig::new(HOST)
        });
        nic.attach(device).unwrap();
        // The layers' streams one after the other.
        let memory: Vec<u8> = stream
            .parts
            .iter()
            .flat_map(|part| part.framed.clone())
            .collect();
        let region = Region::anonymous(memory.len().max(1));
        assert!(region.write(0, &memory));
        let region = host.register(Arc::new(region)).unwrap();
        load(&stream.layers, &mut nic, &mut host);
        let create = SendDescriptor::CreateContext {
            context: CONTEXT,
            direction: Direction::Transmit,
            flow: flow(),
            tcpsn: start,
            layers: &stream.layers,
        };
        host.queues[0].send.post(&create).unwrap();
        Sender {
            stream,
            start,
            nic,
            host,
            region,
            at: 0,
            now: Instant::now(),
        }
    }

    /// Sends a range of the stream in packets of `mss` bytes.
    pub fn send(&mut self, range: Range<usize>, mss: u16) {
        if range.start != self.at {
            self.recover(range.start);
        }
        let flow = flow();
        let header = tcp::Header {
            src_port: flow.src.1,
            dst_port: flow.dst.1,
            seq: self.start + range.start as u32,
            ack: SeqNum(9),
            flags: tcp::Flags::ACK,
            window: 1000,
            options: tcp::Options::default(),
        };
        let mut headers = [0; MAX_TCP_HEADERS_LEN];
        let len = emit_tcp_headers(&mut headers, HOST, PEER, &flow, &header, 0, 64);
        let payload = [self.slice(0, range.clone())];
        let send = SendDescriptor::Send {
            header: &headers[..len],
            mss,
            context: Some(CONTEXT),
            flags: SendFlags::CHECKSUM,
            payload: &payload,
        };
        self.host.queues[0].send.post(&send).unwrap();
        let _ = self.host.queues[0].publish();
        let mut frame = vec![0; 1 << 16];
        let mut at = range.start;
        while let Some((sent, _)) = self.nic.poll_transmit(self.now, &mut frame) {
            let payload = &frame[len..sent];
            assert_eq!(
                payload,
                &self.stream.parts[0].wire[at..at + payload.len()],
                "{at}"
            );
            at += payload.len();
        }
        self.nic.flush(self.now);
        assert_eq!(self.host.queues[0].recv.pop(), None, "refused");
        assert_eq!(at, range.end);
        self.at = range.end;
    }

    fn slice(&self, layer: usize, range: Range<usize>) -> Slice {
        let before: usize = self.stream.parts[..layer]
            .iter()
            .map(|part| part.framed.len())
            .sum();
        Slice {
            region: self.region,
            offset: (before + range.start) as u64,
            len: range.len() as u32,
        }
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
        let recover = SendDescriptor::RecoverContext {
            context: CONTEXT,
            start: self.start + outermost.start as u32,
            index: first_index(&self.stream.layers) + index as u64,
            len: outermost.len() as u32,
            resume: self.start + resume as u32,
            prefix: &prefix,
            verify: Verify::None,
            inner,
            toe: None,
        };
        self.host.queues[0].send.post(&recover).unwrap();
    }
}
