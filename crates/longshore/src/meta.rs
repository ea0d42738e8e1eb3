//! What goes along with a frame, as the port and the NIC each have it.

use nic::FrameMeta;
use port::Meta;

/// Of a frame that a port gave.
pub fn from_port(meta: Meta) -> FrameMeta {
    FrameMeta {
        gso_size: meta.gso_size,
        needs_checksum: meta.needs_checksum,
        checksum_valid: meta.checksum_valid,
    }
}

/// Of a frame for a port.
pub fn to_port(meta: FrameMeta) -> Meta {
    Meta {
        gso_size: meta.gso_size,
        needs_checksum: meta.needs_checksum,
        checksum_valid: meta.checksum_valid,
    }
}
