//! A connection of more bytes than sequence numbers can be compared over.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use attachment::{Direction, Errno, Resume, Slab, SlotRef, SlotRequest};
use l5p::tls::{ContentType, CryptoInfo, Writer};
use nic::{FrameMeta, Nic};
use rustix::fs::MemfdFlags;
use testkit::frames;
use wire::tcp::Flags;
use wire::{FlowKey, SeqNum, packet};

use super::program::{CIPHERS, keys, resume};
use super::rig::{
    OURS, OneSocket, PAIRS, PEER, SUPER, Socket, checked, device, flow, header, segment,
};
use crate::{LinuxFunction, StateConfig};

const ISN: SeqNum = SeqNum(77);
/// Content of a record, and records of a segment.
const CONTENT: usize = 16_384;
const RECORDS: usize = 3;
const SIZES: StateConfig = StateConfig {
    flows: 4,
    retain: 1 << 20,
};

/// A program that sends the same record again and again, each time acknowledged at once.
struct Endless {
    nic: Nic,
    function: LinuxFunction,
    now: Instant,
    file: OwnedFd,
    socket: OneSocket,
    slot: SlotRef,
    flow: FlowKey,
    info: CryptoInfo,
    next: SeqNum,
    /// Number of the next record.
    index: u64,
}

impl Endless {
    fn new(info: CryptoInfo) -> Endless {
        let flow = flow(PAIRS[0]);
        let socket = OneSocket::new(Socket::new(flow, 5, (ISN, SeqNum(1))));
        let now = Instant::now();
        let file = rustix::fs::memfd_create("state", MemfdFlags::CLOEXEC).unwrap();
        let (mut nic, mut function) = device(now, SUPER, (&file, SIZES), socket.clone());
        socket.open(&mut nic, &mut function, now);
        let slab = Arc::new(Slab::create(1).unwrap());
        let (index, generation) = slab.claim().unwrap();
        let index = SlotRef::new(&slab, index, generation);
        let mut endless = Endless {
            nic,
            function,
            now,
            file,
            socket,
            slot: index.unwrap(),
            flow,
            index: info.sequence,
            info,
            next: ISN,
        };
        assert_eq!(endless.set_keys(None), Ok(()));
        endless
    }

    fn set_keys(&mut self, resume: Option<Resume>) -> Result<(), Errno> {
        let next = self.next;
        let facts = self.socket.with(|socket| {
            (socket.write, socket.unacknowledged) = (next, next);
            socket.facts()
        });
        let order = SlotRequest::SetKeys {
            slot: self.slot.clone(),
            direction: Direction::Transmit,
            info: self.info.clone(),
            resume,
            socket: facts,
        };
        self.function.handle_slot_request(self.now, &order).result
    }

    fn rekey(&mut self, info: CryptoInfo) -> Result<(), Errno> {
        self.index = info.sequence;
        self.info = info;
        self.set_keys(None)
    }

    fn restart(&mut self) -> Result<(), Errno> {
        (self.nic, self.function) =
            device(self.now, SUPER, (&self.file, SIZES), self.socket.clone());
        self.set_keys(Some(resume(self.next, self.index)))
    }

    /// Sends a segment; gives what comes of it on the wire.
    fn send(&mut self, content: &[u8]) -> Vec<u8> {
        let writer = Writer::new(self.info.clone());
        let layout = writer.record_layout(ContentType::APPLICATION_DATA, content.len());
        let record = [layout.header(), content, layout.trailer()].concat();
        let payload = record.repeat(RECORDS);
        let (ends, seq) = ((OURS, PEER), self.next.0);
        let (frame, meta) = segment(ends, &self.flow, seq, Flags::ACK, &payload, 1400);
        self.function.handle_frame(self.now, &frame, meta);
        self.function.publish();
        let mut out = vec![0; 70_000];
        let mut sent = Vec::new();
        while let Some((len, _)) = self.nic.poll_transmit(self.now, &mut out) {
            let parsed = packet::parse(&out[..len]).unwrap();
            sent.extend(parsed.payload(&out[..len]));
        }
        self.next += payload.len() as u32;
        self.index += RECORDS as u64;
        self.acknowledge();
        sent
    }

    fn acknowledge(&mut self) {
        let flow = self.flow.reversed();
        let header = header(&flow, SeqNum(1), self.next, Flags::ACK);
        let frame = frames::frame(PEER, OURS, &flow, &header, &[]);
        let meta = FrameMeta::default();
        self.nic.handle_frame(self.now, &frame, meta);
        self.nic.flush(self.now);
        while let Some((frame, meta)) = self.function.poll_frame(self.now) {
            checked(&(frame.to_vec(), meta));
        }
        self.function.publish();
    }

    /// The segment as software would make it.
    fn wanted(&self, content: &[u8]) -> Vec<u8> {
        let mut info = self.info.clone();
        info.sequence = self.index;
        let mut writer = Writer::new(info);
        let mut sealed = vec![0; RECORDS * writer.record_len(content.len())];
        let mut made = 0;
        for _ in 0..RECORDS {
            let data = ContentType::APPLICATION_DATA;
            made += writer.seal_into(data, &[content], &mut sealed[made..]);
        }
        sealed
    }
}

#[test]
fn a_connection_goes_on_beyond_2_gib_under_the_same_keys_over_a_restart_and_to_new_ones() {
    let content = vec![0x37; CONTENT];
    let mut endless = Endless::new(keys(CIPHERS[3], 0));
    let segments = (1_u64 << 31) / (RECORDS * CONTENT) as u64 + 10_000;
    for number in 0..segments {
        let sent = endless.send(&content).len();
        assert!(sent > RECORDS * CONTENT, "segment {number}: {sent} bytes");
    }
    endless.restart().unwrap();
    let wanted = endless.wanted(&content);
    assert!(endless.send(&content) == wanted, "after a restart");
    endless.rekey(keys(CIPHERS[3], 1)).unwrap();
    let wanted = endless.wanted(&content);
    assert!(endless.send(&content) == wanted, "under new keys");
    assert_eq!(endless.function.counters().tls_resets, 0);
}
