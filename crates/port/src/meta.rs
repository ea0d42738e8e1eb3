//! What goes along with a frame, and what a port can carry.

/// What is known of a frame beside its bytes; the same as in virtio-net's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Meta {
    /// Not 0: the frame is a TCP super-frame, and this is the payload of each packet that it stands for.
    pub gso_size: u16,
    /// The transport checksum is to be finished: sum from the first offset (in the frame) to the end, and
    /// put the result at the second, counted from the first. The field holds the pseudo header's sum.
    /// Such a frame has not crossed a wire that could have damaged it.
    pub needs_checksum: Option<(u16, u16)>,
    /// The transport checksum has been checked, and is right.
    pub checksum_valid: bool,
}

/// What a port can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The most bytes of an IP packet that the wire carries.
    pub mtu: u16,
    /// The most bytes of a frame, Ethernet header and super-frames included.
    pub max_frame: usize,
    /// It takes super-frames ([`Meta::gso_size`]).
    pub tso: bool,
    /// It takes frames whose checksum is to be finished ([`Meta::needs_checksum`]).
    pub checksum: bool,
}

/// Bytes of an Ethernet header with one 802.1Q tag.
pub(crate) const LINK_HEADER_LEN: usize = 18;

/// The most bytes of a frame with a 64 KiB IP packet.
pub(crate) const MAX_SUPER_FRAME: usize = u16::MAX as usize + LINK_HEADER_LEN;
