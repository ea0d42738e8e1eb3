//! One `Send`: checked when it is taken, then made into frames one by one.

use std::ops::Range;

use l5p::Event;
use probes::DropReason;
use wire::SeqNum;
use wire::checksum::Sum;
use wire::{FlowKey, ethernet};

use crate::config::NicConfig;
use crate::context::Contexts;
use crate::counters::Counters;
use crate::frame::FrameMeta;
use crate::probing::drop_packet;
use crate::ring::{
    DeviceRegions, ErrorCode, FunctionConfig, Gather, RecoverContext, Send, SendFlags,
};
use crate::rss::FlowHasher;
use crate::switch::FunctionId;

use super::ahead::{AheadBuffer, MAX_AHEAD};
use super::borrowed::BorrowedPayload;
use super::headers::{Part, TCP_CHECKSUM, TcpHeaders};
use crate::context::transmit::TransmitContext;
use crate::context::transmit::encrypt::{self, Moved};
use crate::context::transmit::scratch::Scratch;
use crate::context::transmit::source::{self, Cursor};

/// Largest IP packet, also of a frame that the port cuts.
const MAX_IP_PACKET: usize = 65_535;

/// Fewer bytes are copied: naming them costs as much.
const MIN_BORROWED: u32 = 512;

/// A `Send` in progress.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) send: Send,
    /// Index of its descriptor.
    pub(crate) index: u64,
    /// Its headers, when they are TCP's and it is `wanted`.
    tcp: Option<TcpHeaders>,
    /// It is to be cut, transformed or checksummed, so it must be TCP.
    wanted: bool,
    cursor: Cursor,
    /// Payload bytes sent.
    done: u32,
    /// Packets on the wire for these.
    packets: u32,
    /// Where the payload of the next packets is in the queue's memory, already transformed.
    ahead: Range<u32>,
    fresh: bool,
    /// Of its flow, when it has a context.
    flow_hash: u64,
    /// The place that it is of, beside where the context is.
    seek: Option<RecoverContext>,
}

/// What a job works with besides its descriptor.
pub(crate) struct SendEnv<'a> {
    pub(crate) nic: &'a NicConfig,
    pub(crate) contexts: &'a mut Contexts,
    pub(crate) hasher: &'a FlowHasher,
    pub(crate) function: FunctionId,
    pub(crate) config: &'a FunctionConfig,
    pub(crate) regions: &'a DeviceRegions,
    pub(crate) gather: &'a Gather,
    pub(crate) scratch: &'a Scratch,
    pub(crate) ahead: &'a mut AheadBuffer,
    pub(crate) counters: &'a mut Counters,
    /// The queue of the function from which the wire may borrow the payload.
    pub(crate) borrows_from: Option<usize>,
}

/// A frame that was written, but for a payload that is borrowed.
pub(crate) struct Made {
    pub(crate) len: usize,
    pub(crate) meta: FrameMeta,
    pub(crate) borrowed: Option<BorrowedPayload>,
}

impl Job {
    /// A `Send` that is still to be [checked](Self::check).
    pub(crate) fn new(send: &Send, index: u64) -> Job {
        let wanted =
            send.mss != 0 || send.context.is_some() || send.flags.contains(SendFlags::CHECKSUM);
        let header = &send.header[..usize::from(send.header_len)];
        Job {
            tcp: wanted.then(|| TcpHeaders::parse(header)).flatten(),
            wanted,
            cursor: Cursor::default(),
            done: 0,
            packets: 0,
            ahead: 0..0,
            fresh: true,
            flow_hash: 0,
            seek: None,
            index,
            send: send.clone(),
        }
    }

    /// It follows a command that names another place than its context's.
    pub(crate) fn set_seek(&mut self, command: RecoverContext) {
        let is_ours = self.send.context == Some(command.context)
            && self.tcp.is_some_and(|tcp| tcp.seq == command.resume);
        self.seek = is_ours.then_some(command);
    }

    /// The flow that it opens, if it is a SYN; also of one that its host has made whole. One in a VLAN is another flow than any that the NIC
    /// knows.
    pub(crate) fn opens(&self) -> Option<FlowKey> {
        let opened = |tcp: &TcpHeaders| tcp.opens().then_some(tcp.flow);
        match &self.tcp {
            _ if ethernet::is_of_vlan(self.header()) => None,
            Some(tcp) => opened(tcp),
            None if TcpHeaders::may_open(self.header()) => opened(&self.made_whole()?),
            None => None,
        }
    }

    /// The TCP headers of a packet of which nothing is wanted: they are looked into when it matters.
    fn made_whole(&self) -> Option<TcpHeaders> {
        match self.wanted {
            true => None,
            false => TcpHeaders::parse(self.header()),
        }
    }

    fn header(&self) -> &[u8] {
        &self.send.header[..usize::from(self.send.header_len)]
    }

    /// Looks up all that it names.
    ///
    /// # Errors
    /// When it can't be sent; nothing of it was.
    pub(crate) fn check(&mut self, env: &mut SendEnv<'_>) -> Result<(), ErrorCode> {
        let header = self.header();
        let ours = header.get(6..12).is_some_and(|mac| mac == env.config.mac.0);
        if !ours || header.len() < ethernet::HEADER_LEN || self.wanted && self.tcp.is_none() {
            return Err(ErrorCode::BadHeader);
        }
        // A context's flow has no tag.
        if self.send.context.is_some() && ethernet::is_tagged(header) {
            return Err(ErrorCode::BadHeader);
        }
        source::check(env.gather, env.regions)?;
        self.check_size(env.nic)?;
        self.check_context(env)
    }

    fn check_size(&self, config: &NicConfig) -> Result<(), ErrorCode> {
        let packet = self.packet_payload();
        // IEEE 802.3-2018 §3.2.7: a tag comes on top of what the MTU allows. More than one do not: ports have no room for that.
        let link = match ethernet::is_tagged(self.header()) {
            true => ethernet::HEADER_LEN + ethernet::TAG_LEN,
            false => ethernet::HEADER_LEN,
        };
        let len = usize::from(self.send.header_len) + packet as usize;
        if len > usize::from(config.mtu) + link {
            return Err(ErrorCode::TooLarge);
        }
        let cut = packet < self.send.payload_len;
        match &self.tcp {
            Some(tcp) if cut && !tcp.can_be_cut() => Err(ErrorCode::BadHeader),
            _ => Ok(()),
        }
    }

    /// Payload bytes of a packet on the wire, of all but the last.
    fn packet_payload(&self) -> u32 {
        match self.send.mss {
            0 => self.send.payload_len,
            mss => u32::from(mss).min(self.send.payload_len),
        }
    }

    /// A packet must be of its context's flow and begin where that is.
    fn check_context(&mut self, env: &mut SendEnv<'_>) -> Result<(), ErrorCode> {
        let (Some(id), Some(tcp)) = (self.send.context, &self.tcp) else {
            return Ok(());
        };
        if self.send.payload_len == 0 {
            return Ok(());
        }
        self.flow_hash = env.hasher.hash(&tcp.flow);
        let Some(context) = env.contexts.transmit(env.function, id, env.counters) else {
            drop_packet(env.counters, env.function, DropReason::TxDropNoContext);
            return Err(ErrorCode::NoContext);
        };
        if !context.is_for(self.flow_hash) {
            drop_packet(env.counters, env.function, DropReason::TxDropNoContext);
            return Err(ErrorCode::WrongFlow);
        }
        if let Some(seek) = &self.seek {
            return context.check_seek(seek, self.send.payload_len, env.counters);
        }
        if !context.is_at(tcp.seq) {
            context.count_outermost(env.counters, Event::TxOutOfSequence, 1);
            return Err(ErrorCode::OutOfSequence);
        }
        Ok(())
    }

    /// Payload bytes that are out.
    pub(crate) fn payload_sent(&self) -> u32 {
        self.done
    }

    /// Packets on the wire that are out.
    pub(crate) fn packets(&self) -> u32 {
        self.packets
    }

    /// Whether everything is out.
    pub(crate) fn finished(&self) -> bool {
        !self.fresh && self.done == self.send.payload_len
    }

    /// Where the next frame begins in the stream; for error completions.
    pub(crate) fn tcpsn(&self) -> SeqNum {
        let tcp = self.tcp.or_else(|| self.made_whole());
        tcp.map_or(SeqNum(0), |tcp| tcp.seq + self.done)
    }

    /// Writes the next frame.
    ///
    /// # Errors
    /// When its payload can't be made; what `out` holds then must not be sent, nor the rest of the job.
    pub(crate) fn frame(
        &mut self,
        env: &mut SendEnv<'_>,
        out: &mut [u8],
    ) -> Result<Made, ErrorCode> {
        let header_len = usize::from(self.send.header_len);
        let part = self.next_part(env.nic, out.len())?;
        let len = header_len + part.len as usize;
        let out = out.get_mut(..len).ok_or(ErrorCode::TooLarge)?;
        out[..header_len].copy_from_slice(&self.send.header[..header_len]);
        if let Some(tcp) = &self.tcp {
            tcp.patch(&mut out[..header_len], part);
        }
        let borrowed = self.borrow(env, env.nic, part.len)?;
        let sum = match borrowed {
            Some(_) => None,
            None => self.fill_payload(env, &mut out[header_len..])?,
        };
        let mut meta = FrameMeta::default();
        if part.len > self.packet_payload() {
            meta.gso_size = self.send.mss;
        }
        if let Some(tcp) = &self.tcp {
            if env.nic.wire.checksum {
                tcp.leave_checksum(out);
                meta.needs_checksum = Some((tcp.l4 as u16, TCP_CHECKSUM as u16));
                env.counters.tx_csum_partial += 1;
            } else {
                tcp.fill_checksum(out, part, sum);
                env.counters.tx_csum_full += 1;
            }
        }
        self.fresh = false;
        self.done += part.len;
        self.packets += part.len.div_ceil(self.packet_payload().max(1)).max(1);
        Ok(Made {
            len,
            meta,
            borrowed,
        })
    }

    /// Leaves the payload where it is, if it goes out as it is there and its checksum is not made here.
    fn borrow(
        &mut self,
        env: &mut SendEnv<'_>,
        config: &NicConfig,
        len: u32,
    ) -> Result<Option<BorrowedPayload>, ErrorCode> {
        let Some(queue) = env.borrows_from else {
            return Ok(None);
        };
        let is_sent_as_it_is = self.send.context.is_none() || self.tcp.is_none();
        let is_read_here = self.tcp.is_some() && !config.wire.checksum;
        if len < MIN_BORROWED || !is_sent_as_it_is || is_read_here {
            return Ok(None);
        }
        let head = usize::from(self.send.header_len);
        let cursor = &mut self.cursor;
        let borrowed = BorrowedPayload::take(cursor, env.gather, env.regions, queue, head, len)?;
        if borrowed.is_some() {
            env.counters.pcie_payload_tx += u64::from(len);
        }
        Ok(borrowed)
    }

    /// The part that the next frame carries: a packet, or as many as the port takes at once.
    fn next_part(&self, config: &NicConfig, room: usize) -> Result<Part, ErrorCode> {
        let left = self.send.payload_len - self.done;
        // What was transformed ahead leaves before anything else is transformed.
        let ready = match self.ahead.len() {
            0 => left,
            ahead => ahead as u32,
        };
        let packet = self.packet_payload();
        let header_len = usize::from(self.send.header_len);
        let mut len = ready.min(packet);
        // The port can only cut what it also checksums.
        if config.wire.tso && config.wire.checksum && left > packet {
            let most = (MAX_IP_PACKET + ethernet::HEADER_LEN)
                .min(room)
                .saturating_sub(header_len) as u32;
            len = ready.min(most - most % packet).max(len);
        }
        Ok(Part {
            offset: self.done,
            len,
            packets: self.packets,
            last: len == left,
        })
    }

    /// Gives the sum of the payload, if it is known.
    fn fill_payload(
        &mut self,
        env: &mut SendEnv<'_>,
        out: &mut [u8],
    ) -> Result<Option<Sum>, ErrorCode> {
        if out.is_empty() {
            return Ok(None);
        }
        let (Some(id), Some(tcp)) = (self.send.context, &self.tcp) else {
            env.counters.pcie_payload_tx += out.len() as u64;
            source::copy(&mut self.cursor, env.gather, env.regions, out)?;
            return Ok(None);
        };
        let SendEnv {
            contexts,
            counters,
            ahead,
            ..
        } = env;
        let context = contexts.transmit(env.function, id, counters);
        // Another queue may have destroyed or moved it since the last frame.
        let context = context.ok_or(ErrorCode::NoContext)?;
        let at = tcp.seq + self.done;
        let is_there = self.seek.is_some() || context.is_at(at + self.ahead.len() as u32);
        if !context.is_for(self.flow_hash) || !is_there {
            return Err(ErrorCode::OutOfSequence);
        }
        let source = encrypt::Source {
            gather: env.gather,
            regions: env.regions,
            scratch: env.scratch,
            mutable: self.send.flags.contains(SendFlags::MUTABLE_SOURCE),
        };
        let (moved, sum) = match self.seek {
            Some(seek) => {
                let moved = context.fill_at(&seek, at, &source, &mut self.cursor, out)?;
                (moved, None)
            }
            None => self.transform(context, &source, ahead, out)?,
        };
        counters.pcie_payload_tx += moved.read;
        counters.pcie_icv_writeback += moved.written;
        context.count(counters, Event::TxPackets, 1);
        context.count(counters, Event::TxBytes, out.len() as u64);
        Ok(sum)
    }

    /// Fills `out` with the next bytes of the payload, as the context makes them; gives their sum, if it is known.
    fn transform(
        &mut self,
        context: &mut TransmitContext,
        source: &encrypt::Source<'_>,
        buffer: &mut AheadBuffer,
        out: &mut [u8],
    ) -> Result<(Moved, Option<Sum>), ErrorCode> {
        let mut moved = Moved::default();
        if self.ahead.is_empty() {
            let ahead = self.bytes_ahead(context, out.len() as u32, source.mutable);
            if ahead == 0 {
                return Ok((context.fill(source, &mut self.cursor, out)?, None));
            }
            moved = context.fill(source, &mut self.cursor, buffer.reuse(ahead))?;
            self.ahead = 0..ahead;
        }
        Ok((moved, Some(buffer.take(&mut self.ahead, out))))
    }

    /// Bytes of whole packets of `len` bytes to transform at once, or 0 to transform just one.
    fn bytes_ahead(&self, context: &TransmitContext, len: u32, mutable: bool) -> u32 {
        let left = (self.send.payload_len - self.done).min(MAX_AHEAD);
        if left < 2 * len || len != self.packet_payload() {
            return 0;
        }
        let most = left.min(context.rest_of_message(mutable));
        match most / len {
            0 | 1 => 0,
            packets => packets * len,
        }
    }
}
