//! TCP packets that the device makes from numbers.

use wire::FlowKey;
use wire::checksum::Sum;
use wire::ethernet::{self, MacAddr};
use wire::ipv4;
use wire::ipv6;
use wire::packet::{MAX_TCP_HEADERS_LEN, emit_checked_tcp_headers};
use wire::tcp::{CHECKSUM_OFFSET, Header};

use crate::config::NicConfig;
use crate::frame::FrameMeta;

/// The addresses of a packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Addresses<'a> {
    /// The function's own.
    pub(super) source: MacAddr,
    /// The next hop's.
    pub(super) hop: MacAddr,
    /// From us to the peer.
    pub(super) flow: &'a FlowKey,
    pub(super) hop_limit: u8,
}

/// The most bytes of a frame with so many payload bytes.
pub(super) const fn room_for(payload: usize) -> usize {
    MAX_TCP_HEADERS_LEN + payload
}

/// The payload of a packet.
#[derive(Debug, Clone, Copy)]
pub(super) struct PayloadSize {
    pub(super) bytes: u32,
    /// Below `bytes`, the packet is a super-frame, for a port that cuts.
    pub(super) gso_size: u16,
}

/// Writes a packet into `out`, with checksums made or left to the port as it likes. `fill` writes the payload; the packet is not made when it can't.
///
/// `None` when `out` is too short.
pub(super) fn write(
    out: &mut [u8],
    nic: &NicConfig,
    addresses: &Addresses<'_>,
    header: &Header,
    size: PayloadSize,
    fill: impl FnOnce(&mut [u8]) -> Option<()>,
) -> Option<(usize, FrameMeta)> {
    let PayloadSize {
        bytes: payload_len,
        gso_size,
    } = size;
    let Addresses {
        source,
        hop,
        flow,
        hop_limit,
    } = *addresses;
    let ip = if flow.src.0.is_ipv4() {
        ipv4::HEADER_LEN
    } else {
        ipv6::HEADER_LEN
    };
    if out.len() < ethernet::HEADER_LEN + ip + header.len() + payload_len as usize {
        return None;
    }
    let l4 = ethernet::HEADER_LEN + ip;
    let (at, len) = (l4 + header.len(), l4 + header.len() + payload_len as usize);
    let cut = gso_size > 0 && u32::from(gso_size) < payload_len;
    let leave = nic.wire.checksum && payload_len > 0;
    let payload = &mut out[at..len];
    fill(payload)?;
    let sum = (!leave).then(|| Sum::of(payload));
    emit_checked_tcp_headers(
        out,
        [source, hop],
        flow,
        header,
        payload_len,
        hop_limit,
        sum,
    );
    let meta = FrameMeta {
        gso_size: if cut { gso_size } else { 0 },
        needs_checksum: leave.then_some((l4 as u16, CHECKSUM_OFFSET as u16)),
        checksum_valid: false,
    };
    Some((len, meta))
}
