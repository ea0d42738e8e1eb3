//! From Linux to the NIC: a frame becomes a `Send`.

use std::time::Instant;

use nic::FrameMeta;
use nic::ring::{MAX_HEADER_LEN, SendDescriptor, SendFlags, Slice};
use wire::ethernet;
use wire::ipv4::protocol;
use wire::packet::{self, Class, Parsed};
use wire::tcp::{CHECKSUM_OFFSET, Flags};

use crate::checksum;
use crate::function::LinuxFunction;
use crate::memory::Room;
use crate::offload::Verdict;

/// Free slots of the send ring without which no frame is taken from Linux: a frame takes one, and more when it is cut here.
const SLOTS: u32 = 64;

/// A frame that Linux has sent, in registered memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outgoing {
    /// All of it.
    pub(crate) slice: Slice,
    pub(crate) meta: FrameMeta,
    /// Its headers, when it is TCP.
    pub(crate) parsed: Option<Parsed>,
}

impl LinuxFunction {
    /// Where to read the next frame to. `None` while the NIC is behind; then
    /// frames should wait at the TAP.
    pub fn room(&mut self) -> Option<Room<'_>> {
        if self.rings.send().free(SLOTS) < SLOTS {
            return None;
        }
        match self.offload.room() {
            Some(block) => self.staging.room_in(block),
            None => self.staging.room(),
        }
    }

    /// Takes the frame that is in the first `len` bytes of [`room`](Self::room), with its virtio-net header's meaning.
    ///
    /// # Panics
    /// When there is no room, or `len` is more.
    pub fn handle_read(&mut self, now: Instant, len: usize, meta: FrameMeta) {
        let (slice, before) = (self.arrived(len), self.rings.posted());
        self.counters.tx_packets += 1;
        self.counters.tx_bytes += len as u64;
        self.counters.tx_super_frames += u64::from(meta.gso_size != 0);
        let parsed = packet::parse(self.staging.bytes(slice)).ok();
        let is_of_vlan = ethernet::is_of_vlan(self.staging.bytes(slice));
        if let Some(parsed) = parsed.as_ref().filter(|_| !is_of_vlan) {
            self.receive.linux_sent(parsed, &mut self.rings);
            self.pdus
                .linux_sent(parsed, &mut self.counters, &mut self.rings);
            // A buffer for what a command brings is mapped before the command leaves.
            self.rings.flush();
        }
        let frame = Outgoing {
            slice,
            meta,
            parsed,
        };
        let verdict = self.send_fenced(now, &frame);
        if verdict == Verdict::Plain {
            self.send_plain(&frame);
        }
        let posted = self.rings.posted();
        self.staging.posted(posted);
        let is_retained = verdict == Verdict::Done;
        let is_named = posted != before;
        self.offload
            .end_frame(len, is_retained, is_named, &mut self.rings);
    }

    /// Where the frame is that was read.
    fn arrived(&mut self, len: usize) -> Slice {
        let Some(block) = self.offload.receiving_block() else {
            return self.staging.take(len);
        };
        if len > block.len as usize {
            self.staging.join(block);
            return self.staging.take(len);
        }
        Slice {
            len: len as u32,
            ..block
        }
    }

    /// Sends a frame if it is of a fenced connection.
    fn send_fenced(&mut self, now: Instant, frame: &Outgoing) -> Verdict {
        match &frame.parsed {
            Some(parsed) => {
                let is_for_nic = self.is_for_nic(frame, parsed);
                let (offload, mut env) = self.parts(now);
                offload.handle_sent(frame, parsed, is_for_nic, &mut env)
            }
            None if !self.offload.is_empty() && self.may_be_fenced(frame) => {
                self.counters.tx_tls_fenced_dropped += 1;
                Verdict::Done
            }
            None => Verdict::Plain,
        }
    }

    /// Whether a frame that is no whole TCP segment may be a part of one, between two addresses that have a fenced connection.
    fn may_be_fenced(&self, frame: &Outgoing) -> bool {
        let bytes = self.staging.bytes(frame.slice);
        match packet::classify(bytes) {
            Class::Fragment(ip) | Class::OtherIp(ip) => {
                ip.protocol == protocol::TCP && self.offload.fences(ip.src, ip.dst)
            }
            Class::Malformed(_) => true,
            _ => false,
        }
    }

    /// Sends a frame as it is, but for what Linux has left to the interface.
    fn send_plain(&mut self, frame: &Outgoing) {
        let is_unfinished = frame.meta.gso_size != 0 || frame.meta.needs_checksum.is_some();
        let for_nic = |parsed: &Parsed| is_unfinished && self.is_for_nic(frame, parsed);
        if let Some(parsed) = frame.parsed.filter(for_nic) {
            let flags = SendFlags::CHECKSUM;
            self.post(
                frame.slice,
                parsed.payload_offset,
                frame.meta.gso_size,
                flags,
            );
            return;
        }
        if frame.meta.gso_size != 0 {
            self.counters.tx_unsupported += 1;
            return;
        }
        if let Some(place) = frame.meta.needs_checksum {
            self.counters.tx_csum_sw += 1;
            if !checksum::finish(self.staging.last_mut(frame.slice), place) {
                self.counters.tx_unsupported += 1;
                return;
            }
        }
        let header_len = (frame.slice.len as usize).min(MAX_HEADER_LEN);
        self.post(frame.slice, header_len, 0, SendFlags::NONE);
    }

    /// Whether the NIC can finish a frame: it knows TCP in IPv4 and in IPv6 without extensions, with headers that fit in a descriptor.
    fn is_for_nic(&self, frame: &Outgoing, parsed: &Parsed) -> bool {
        let is_tcps = frame.meta.needs_checksum.is_none_or(|(start, field)| {
            usize::from(start) == parsed.l4_offset && usize::from(field) == CHECKSUM_OFFSET
        });
        let is_cut = frame.meta.gso_size != 0;
        let uncuttable = Flags::SYN.union(Flags::RST).union(Flags::URG);
        let ip_header_len = parsed.l4_offset - parsed.l3_offset;
        is_tcps
            && parsed.l3_offset == ethernet::HEADER_LEN
            && (parsed.flow.src.0.is_ipv4() || ip_header_len == wire::ipv6::HEADER_LEN)
            && parsed.payload_offset <= MAX_HEADER_LEN
            && parsed.payload_offset + parsed.payload_len as usize == frame.slice.len as usize
            && !(is_cut && parsed.tcp.flags.intersects(uncuttable))
    }

    /// Posts a `Send` of a frame whose first `header_len` bytes go into the descriptor.
    fn post(&mut self, frame: Slice, header_len: usize, mss: u16, flags: SendFlags) {
        let mut header = [0; MAX_HEADER_LEN];
        let header = &mut header[..header_len];
        header.copy_from_slice(&self.staging.bytes(frame)[..header_len]);
        let rest = Slice {
            offset: frame.offset + header_len as u64,
            len: frame.len - header_len as u32,
            ..frame
        };
        let rest = [rest];
        let payload = match rest[0].len {
            0 => &[][..],
            _ => &rest[..],
        };
        let posted = self.rings.send().post(&SendDescriptor::Send {
            header,
            mss,
            context: None,
            flags,
            payload,
        });
        if posted.is_err() {
            self.counters.tx_dropped += 1;
        }
    }
}
