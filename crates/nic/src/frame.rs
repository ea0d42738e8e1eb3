//! Frames between the NIC and its wire port: what goes with one, and the TCP segment in it.

use wire::ethernet;
use wire::packet::Parsed;

use crate::rss::Steering;

/// As the header of virtio-net: what a port that can segment and checksum has to do, or has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FrameMeta {
    /// TCP payload bytes per packet on the wire, when this frame stands for several; else 0.
    pub gso_size: u16,
    /// The checksum is to be made: the sum from byte `.0` on goes to byte `.0 + .1`, where the pseudo
    /// header's sum is now.
    pub needs_checksum: Option<(u16, u16)>,
    /// The port has found the checksums right.
    pub checksum_valid: bool,
}

/// A received TCP segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    pub(crate) frame: &'a [u8],
    pub(crate) parsed: &'a Parsed,
    pub(crate) meta: FrameMeta,
    /// Of its flow, from the peer to us.
    pub(crate) hash: u64,
    /// Packets on the wire that it stands for.
    pub(crate) segments: u32,
    /// Where it goes.
    pub(crate) steering: Steering,
    /// Its connection, if the device runs it: then it goes to the queue of NIC packets.
    pub(crate) connection: Option<u32>,
}

impl<'a> Segment<'a> {
    /// A segment of a connection that the device does not run, as far as is known.
    pub(crate) fn new(
        frame: &'a [u8],
        parsed: &'a Parsed,
        meta: FrameMeta,
        hash: u64,
    ) -> Segment<'a> {
        let segments = match u32::from(meta.gso_size) {
            0 => 1,
            size => parsed.payload_len.div_ceil(size).max(1),
        };
        Segment {
            frame,
            parsed,
            meta,
            hash,
            segments,
            steering: Steering::default(),
            connection: None,
        }
    }

    /// Whether it is of a VLAN: then it is of no flow that the device knows, which may have the same addresses and ports.
    #[inline]
    pub(crate) fn is_of_vlan(&self) -> bool {
        self.parsed.l3_offset != ethernet::HEADER_LEN && ethernet::is_of_vlan(self.frame)
    }

    pub(crate) fn headers(&self) -> &[u8] {
        &self.frame[..self.parsed.payload_offset]
    }

    pub(crate) fn payload(&self) -> &[u8] {
        self.parsed.payload(self.frame)
    }

    /// Bytes without the frame's padding.
    pub(crate) fn len(&self) -> u32 {
        self.parsed.payload_offset as u32 + self.parsed.payload_len
    }
}
