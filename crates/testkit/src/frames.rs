//! Frames with TCP segments, written from their headers.

use wire::ethernet::{self, MacAddr};
use wire::packet::{self, MAX_TCP_HEADERS_LEN};
use wire::tcp::{self, Flags, Header, Options, Timestamps};
use wire::{Ecn, FlowKey, SeqNum, ipv4};

use crate::fixtures::{HOST, PEER};

/// The header of an acknowledgment, at this place of the sender's stream.
pub fn ack(flow: &FlowKey, seq: SeqNum) -> Header {
    Header {
        src_port: flow.src.1,
        dst_port: flow.dst.1,
        seq,
        ack: SeqNum(1000),
        flags: Flags::ACK,
        window: 1000,
        ..Header::default()
    }
}

/// A SYN as Linux sends it.
pub fn syn(flow: &FlowKey, seq: SeqNum, val: u32) -> Header {
    Header {
        ack: SeqNum(0),
        flags: Flags::SYN,
        window: 64_240,
        options: Options {
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamps: Some(Timestamps { val, echo: 0 }),
            ..Options::default()
        },
        ..ack(flow, seq)
    }
}

/// What a peer sends that has got the answer to its SYN.
pub fn established(syn: &Header, answer: &Header, val: u32) -> Header {
    let timestamps = answer.options.timestamps.map(|theirs| Timestamps {
        val,
        echo: theirs.val,
    });
    Header {
        seq: syn.seq + 1,
        ack: answer.seq + 1,
        flags: Flags::ACK,
        options: Options {
            timestamps,
            ..Options::default()
        },
        ..*syn
    }
}

/// Ethernet, IP and TCP headers as a host gives them to its NIC, which fills in lengths and checksums.
pub fn headers(src: MacAddr, dst: MacAddr, flow: &FlowKey, header: &Header) -> Vec<u8> {
    let mut headers = vec![0; MAX_TCP_HEADERS_LEN];
    let len = packet::emit_tcp_headers(&mut headers, src, dst, flow, header, 0, 64);
    headers.truncate(len);
    headers
}

/// A frame without checksums, for a port that says that they were right.
pub fn unsummed(
    src: MacAddr,
    dst: MacAddr,
    flow: &FlowKey,
    header: &Header,
    payload: &[u8],
) -> Vec<u8> {
    let mut frame = Vec::with_capacity(MAX_TCP_HEADERS_LEN + payload.len());
    write(&mut frame, [src, dst], flow, header, payload);
    frame
}

/// A frame with right checksums, one hop behind its sender.
pub fn frame(
    src: MacAddr,
    dst: MacAddr,
    flow: &FlowKey,
    header: &Header,
    payload: &[u8],
) -> Vec<u8> {
    let mut frame = Vec::with_capacity(MAX_TCP_HEADERS_LEN + payload.len());
    rewrite(&mut frame, [src, dst], flow, header, payload);
    frame
}

/// As [`frame`], from the peer to the host.
pub fn from_peer(flow: &FlowKey, header: &Header, payload: &[u8]) -> Vec<u8> {
    frame(PEER, HOST, flow, header, payload)
}

/// Has an IP header say so, as a router that marks does.
///
/// # Panics
/// If it is no IP packet.
pub fn mark(frame: &mut [u8], ecn: Ecn) {
    let (_, ip) = frame.split_at_mut(ethernet::HEADER_LEN);
    if ip[0] >> 4 == 6 {
        ip[1] = ip[1] & !(3 << 4) | (ecn as u8) << 4;
    } else {
        ip[1] = ip[1] & !3 | ecn as u8;
        ipv4::fill_checksum(&mut ip[..ipv4::HEADER_LEN]);
    }
}

/// Sets the urgent pointer of a segment.
///
/// # Panics
/// If it is no segment.
pub fn point_to_urgent(frame: &mut [u8], pointer: u16) {
    let parsed = packet::parse(frame).expect("a segment");
    let segment = &mut frame[parsed.l4_offset..];
    segment[18..20].copy_from_slice(&pointer.to_be_bytes());
    tcp::fill_checksum(parsed.flow.src.0, parsed.flow.dst.0, segment);
}

/// As [`frame`], in place of what `frame` holds, whose memory it takes.
pub fn rewrite(
    frame: &mut Vec<u8>,
    macs: [MacAddr; 2],
    flow: &FlowKey,
    header: &Header,
    payload: &[u8],
) {
    let [l3, l4] = write(frame, macs, flow, header, payload);
    if flow.src.0.is_ipv4() {
        ipv4::fill_checksum(&mut frame[l3..l4]);
    }
    tcp::fill_checksum(flow.src.0, flow.dst.0, &mut frame[l4..]);
}

/// Gives where the IP and the TCP header begin.
fn write(
    frame: &mut Vec<u8>,
    [src, dst]: [MacAddr; 2],
    flow: &FlowKey,
    header: &Header,
    payload: &[u8],
) -> [usize; 2] {
    frame.clear();
    frame.resize(MAX_TCP_HEADERS_LEN, 0);
    let payload_len = payload.len() as u32;
    let len = packet::emit_tcp_headers(frame, src, dst, flow, header, payload_len, 63);
    frame.truncate(len);
    frame.extend_from_slice(payload);
    [wire::ethernet::HEADER_LEN, len - header.len()]
}

/// A payload in packets of so many bytes, from the peer to the host; the first is at `seq`.
pub fn packets(flow: &FlowKey, seq: SeqNum, stream: &[u8], mss: usize) -> Vec<Vec<u8>> {
    let packets = stream.chunks(mss).enumerate();
    packets
        .map(|(n, payload)| from_peer(flow, &ack(flow, seq + (n * mss) as u32), payload))
        .collect()
}
