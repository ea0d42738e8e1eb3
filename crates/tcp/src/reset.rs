//! The RST that answers a segment of no connection.

use wire::SeqNum;
use wire::tcp::{Flags, Header};

/// The RST for a segment that belongs to no connection (RFC 9293 §3.5.2, group 1; §3.10.7.1); `None` for a RST.
pub fn reset_for(segment: &Header, payload_len: u32) -> Option<Header> {
    if segment.flags.contains(Flags::RST) {
        return None;
    }
    let mut reset = Header {
        src_port: segment.dst_port,
        dst_port: segment.src_port,
        ..Header::default()
    };
    if segment.flags.contains(Flags::ACK) {
        reset.seq = segment.ack;
        reset.flags = Flags::RST;
    } else {
        reset.seq = SeqNum(0);
        reset.ack = segment.seq + segment.sequence_len(payload_len);
        reset.flags = Flags::RST | Flags::ACK;
    }
    Some(reset)
}
