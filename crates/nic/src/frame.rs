//! What goes with a frame between the NIC and its wire port.

use crate::transmit::Payload;

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

/// A frame whose headers are in the buffer that was given for it, and whose payload may be in memory of a host's.
#[derive(Debug)]
pub struct BorrowedFrame<'a> {
    /// Bytes in the buffer.
    pub head: usize,
    /// The bytes behind them, which are there until the NIC is called again.
    pub payload: Option<Payload<'a>>,
    /// What goes with it.
    pub meta: FrameMeta,
}
