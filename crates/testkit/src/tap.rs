//! Frames as Linux gives them to an interface that cuts and checksums.

use nic::FrameMeta;
use wire::FlowKey;
use wire::ethernet::MacAddr;
use wire::tcp::{self, CHECKSUM_OFFSET, Header};

use crate::frames;

/// A segment whose TCP checksum is that of the pseudo header alone, to be cut into packets of at most `mss` bytes.
pub fn segment(
    [src, dst]: [MacAddr; 2],
    flow: &FlowKey,
    header: &Header,
    payload: &[u8],
    mss: u16,
) -> (Vec<u8>, FrameMeta) {
    let mut frame = frames::frame(src, dst, flow, header, payload);
    let l4_len = header.len() + payload.len();
    let l4 = frame.len() - l4_len;
    let sum = tcp::pseudo_header_sum(flow.src.0, flow.dst.0, l4_len as u32);
    tcp::set_checksum(&mut frame[l4..], sum.fold());
    let is_cut = payload.len() > usize::from(mss);
    let meta = FrameMeta {
        gso_size: if is_cut { mss } else { 0 },
        needs_checksum: Some((l4 as u16, CHECKSUM_OFFSET as u16)),
        checksum_valid: true,
    };
    (frame, meta)
}
