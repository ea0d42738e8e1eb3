//! virtio-net's header, as the kernel puts it before each frame of a TAP device and of a packet socket (virtio 1.2 §5.1.6).

use crate::counters::counters;
use crate::meta::Meta;
use crate::offload;
use crate::share::PassOutcome;

/// Bytes of the header without `num_buffers`: the Ethernet header behind it leaves IP's aligned to eight bytes.
pub(crate) const HEADER_LEN: usize = 10;

const NEEDS_CHECKSUM: u8 = 1;
const DATA_VALID: u8 = 2;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_ECN: u8 = 0x80;

counters! {
    /// What has passed through a port whose frames have this header.
    pub(crate) struct Counters {
        /// Frames sent.
        tx_packets,
        /// Bytes of the frames sent.
        tx_bytes,
        /// Super-frames sent, which the receiver takes whole or the kernel segments.
        tx_super_frames,
        /// Frames dropped because the kernel did not take them.
        tx_dropped,
        /// Frames received.
        rx_packets,
        /// Bytes of the frames received.
        rx_bytes,
        /// Super-frames received.
        rx_super_frames,
        /// Frames received that are truncated, or that virtio-net's header cannot describe.
        rx_errors,
        /// Frames received that were passed on to the process before this one, whose connections they are.
        rx_passed_to_predecessor,
        /// Frames for the process before this one that it did not take in time: they are lost.
        rx_passed_to_predecessor_dropped,
    }
}

impl Counters {
    /// Counts a frame from the kernel.
    #[inline]
    pub(crate) fn received(&mut self, frame: &[u8], meta: Meta) {
        self.rx_packets += 1;
        self.rx_bytes += frame.len() as u64;
        self.rx_super_frames += u64::from(meta.gso_size != 0);
    }

    /// Counts what a frame was to another process.
    pub(crate) fn passed(&mut self, passed: PassOutcome) {
        self.rx_passed_to_predecessor +=
            u64::from(matches!(passed, PassOutcome::On | PassOutcome::Copied));
        self.rx_passed_to_predecessor_dropped += u64::from(passed == PassOutcome::Lost);
    }
}

/// Writes the header that goes before `frame`. A super-frame that is not TCP goes as a plain frame.
pub(crate) fn encode(meta: Meta, frame: &[u8], header: &mut [u8]) {
    let flags = match meta {
        Meta {
            needs_checksum: Some(_),
            ..
        } => NEEDS_CHECKSUM,
        Meta {
            checksum_valid: true,
            ..
        } => DATA_VALID,
        _ => 0,
    };
    let tcp = if meta.gso_size == 0 {
        None
    } else {
        offload::tcp_header(frame)
    };
    let (gso_type, header_len, gso_size) = tcp.map_or((GSO_NONE, 0, 0), |tcp| {
        let gso_type = if tcp.is_ipv6 { GSO_TCPV6 } else { GSO_TCPV4 };
        (gso_type, tcp.end as u16, meta.gso_size)
    });
    let (checksum_start, checksum_offset) = meta.needs_checksum.unwrap_or_default();
    header[0] = flags;
    header[1] = gso_type;
    let fields = [header_len, gso_size, checksum_start, checksum_offset];
    for (bytes, field) in header[2..HEADER_LEN].chunks_exact_mut(2).zip(fields) {
        bytes.copy_from_slice(&field.to_ne_bytes());
    }
}

/// Splits what came from the kernel. `None` if there is no whole header.
pub(crate) fn decode(bytes: &[u8]) -> Option<(Meta, &[u8])> {
    let (header, frame) = bytes.split_first_chunk()?;
    Some((decode_header(header), frame))
}

/// What a header says of the frame behind it.
pub(crate) fn decode_header(header: &[u8; HEADER_LEN]) -> Meta {
    let field = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
    let needs_checksum = header[0] & NEEDS_CHECKSUM != 0;
    let is_super_frame = matches!(header[1] & !GSO_ECN, GSO_TCPV4 | GSO_TCPV6);
    Meta {
        gso_size: if is_super_frame { field(4) } else { 0 },
        needs_checksum: needs_checksum.then(|| (field(6), field(8))),
        checksum_valid: needs_checksum || header[0] & DATA_VALID != 0,
    }
}

#[cfg(test)]
mod tests;
