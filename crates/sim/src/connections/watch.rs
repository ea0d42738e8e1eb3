//! What must hold of every TCP segment that a NIC sends, whoever made it.

use std::collections::BTreeMap;

use wire::packet::{self, Reason};
use wire::tcp::Flags;
use wire::{FlowKey, SeqNum};

use crate::assembly::Assembly;

/// A frame that nobody may send.
#[derive(Clone, Debug, thiserror::Error)]
#[error("frame {number}, sent by host {node} ({summary}), {what}")]
pub struct Wrong {
    /// Its number, among all frames of both.
    pub number: u64,
    /// Who sent it.
    pub node: usize,
    /// Its header.
    pub summary: String,
    /// What is wrong with it.
    pub what: &'static str,
}

/// Watches the wire between two nodes.
#[derive(Default)]
pub(super) struct Watch {
    pub(super) frames: u64,
    pub(super) wrong: Option<Wrong>,
    /// The first resets, for a report.
    pub(super) resets: Vec<String>,
    /// By node and flow: the incarnation that began last, and those before it. One SYN may be answered by several cookies.
    streams: BTreeMap<(usize, Key), [Option<Stream>; 4]>,
}

/// What never reached the wire may be missing between two segments.
const MAX_GAP: u32 = 1 << 28;

const MOST_RESETS: usize = 20;

type Key = (std::net::SocketAddr, std::net::SocketAddr);

/// One direction of a connection.
struct Stream {
    assembly: Assembly,
    /// Bytes before the FIN, if it was sent.
    fin: Option<usize>,
    /// Highest sequence number sent, SYN and FIN counted, from `isn` on.
    sent: u32,
}

fn key(flow: &FlowKey) -> Key {
    (flow.src_addr(), flow.dst_addr())
}

impl Watch {
    pub(super) fn handle_frame(&mut self, node: usize, frame: &[u8]) {
        self.frames += 1;
        let parsed = match packet::parse(frame) {
            Ok(parsed) => parsed,
            Err(Reason::NotTcp) => return,
            Err(_) => return self.note(node, format!("{} bytes", frame.len()), "is malformed"),
        };
        let summary = || {
            format!(
                "{:?} {:?} + {}",
                parsed.flow, parsed.tcp, parsed.payload_len
            )
        };
        if !parsed.verify_checksums(frame) {
            return self.note(node, summary(), "has a wrong checksum");
        }
        if frame[6..12] != [2, 0, 0, 0, 0, node as u8 + 1] {
            return self.note(node, summary(), "has not its sender's address");
        }
        let (flow, tcp) = (key(&parsed.flow), &parsed.tcp);
        let what = self.judge_ack(node, flow, tcp);
        if let Some(what) = what {
            return self.note(node, summary(), what);
        }
        let streams = self.streams.entry((node, flow)).or_default();
        if tcp.flags.contains(Flags::SYN) {
            let current = &streams[0];
            if current
                .as_ref()
                .is_none_or(|stream| stream.assembly.isn != tcp.seq)
            {
                streams.rotate_right(1);
                streams[0] = Some(Stream::new(tcp.seq));
            }
            return;
        }
        if tcp.flags.contains(Flags::RST) {
            if self.resets.len() < MOST_RESETS {
                self.resets.push(format!("{}: {}", self.frames, summary()));
            }
            return;
        }
        // Segments of an incarnation before may come late, as from TIME-WAIT.
        let known = streams.iter().flatten();
        let distance = |stream: &Stream| stream.distance_to(tcp.seq);
        let nearest = known.enumerate().min_by_key(|(_, stream)| distance(stream));
        let Some((at, true)) = nearest.map(|(at, stream)| (at, distance(stream) < MAX_GAP)) else {
            return self.note(node, summary(), "is of no connection that was opened");
        };
        let stream = streams[at].as_mut().expect("just found");
        let fin = tcp.flags.contains(Flags::FIN);
        if let Err(what) = stream.take(tcp.seq, parsed.payload(frame), fin) {
            self.note(node, summary(), what);
        }
    }

    /// An acknowledgement must be of what the peer has sent.
    fn judge_ack(&self, node: usize, flow: Key, tcp: &wire::tcp::Header) -> Option<&'static str> {
        if !tcp.flags.contains(Flags::ACK) {
            return None;
        }
        let peer = self.streams.get(&(1 - node, (flow.1, flow.0)));
        let known = peer.iter().flat_map(|streams| streams.iter().flatten());
        let is_sent = |stream: &Stream| stream.assembly.isn.distance_to(tcp.ack) <= stream.sent;
        let mut known = known.peekable();
        // A reset may answer what was of no connection.
        if known.peek().is_none() && tcp.flags.contains(Flags::RST) {
            return None;
        }
        (!known.any(is_sent)).then_some("acknowledges what the peer has not sent")
    }

    fn note(&mut self, node: usize, summary: String, what: &'static str) {
        let number = self.frames;
        self.wrong.get_or_insert(Wrong {
            number,
            node,
            summary,
            what,
        });
    }
}

impl Stream {
    fn new(isn: SeqNum) -> Self {
        Self {
            assembly: Assembly::new(isn),
            fin: None,
            sent: 1,
        }
    }

    /// How far a segment that begins at `seq` is from what was sent of this stream.
    fn distance_to(&self, seq: SeqNum) -> u32 {
        let at = self.assembly.isn.distance_to(seq);
        at.saturating_sub(self.sent)
    }

    /// Takes bytes at a place in the stream.
    fn take(&mut self, seq: SeqNum, payload: &[u8], fin: bool) -> Result<(), &'static str> {
        let at = self.assembly.isn.distance_to(seq).saturating_sub(1) as usize;
        if self.assembly.isn == seq {
            // A keep-alive before the first byte.
            return Ok(());
        }
        if payload.is_empty() && !fin {
            return Ok(());
        }
        let end = at + payload.len();
        if !payload.is_empty() && self.fin.is_some_and(|fin| end > fin) {
            return Err("has data behind the FIN");
        }
        if fin && self.fin.is_some_and(|fin| fin != end) {
            return Err("has a FIN at another place than before");
        }
        if fin && self.assembly.bytes.len() > end {
            return Err("has a FIN before data");
        }
        if fin {
            self.fin = Some(end);
        }
        self.sent = self.sent.max((1 + end + usize::from(fin)) as u32);
        if !self.assembly.take(at, payload) {
            return Err("gives other bytes for sequence numbers sent before");
        }
        Ok(())
    }
}
