//! The little that a port must know of a frame's headers: where TCP begins, and how to finish a checksum.

/// Finishes the checksum that `needs_checksum` describes. Offsets beyond the frame change nothing.
pub(crate) fn finish_checksum(frame: &mut [u8], (start, offset): (u16, u16)) {
    let (start, field) = (usize::from(start), usize::from(start) + usize::from(offset));
    if field + 2 > frame.len() {
        return;
    }
    let mut sum = 0u64;
    for word in frame[start..].chunks(2) {
        sum += u64::from(u16::from_be_bytes([
            word[0],
            word.get(1).copied().unwrap_or(0),
        ]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    frame[field..field + 2].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

/// Where a frame's TCP header begins and ends, and whether IP is version 6. `None` if it is no TCP.
pub(crate) fn tcp_header(frame: &[u8]) -> Option<TcpHeader> {
    let mut l3 = ETHERNET_HEADER_LEN;
    let mut ether_type = frame.get(l3 - 2..l3)?;
    if ether_type == VLAN {
        l3 += VLAN_TAG_LEN;
        ether_type = frame.get(l3 - 2..l3)?;
    }
    let is_ipv6 = ether_type == IPV6;
    let (protocol, start) = match ether_type {
        IPV4 => (
            *frame.get(l3 + 9)?,
            l3 + usize::from(frame.get(l3)? & 0xf) * 4,
        ),
        IPV6 => (*frame.get(l3 + 6)?, l3 + 40),
        _ => return None,
    };
    let len = usize::from(frame.get(start + 12)? >> 4) * 4;
    (protocol == TCP).then_some(TcpHeader {
        start,
        end: start + len,
        is_ipv6,
    })
}

/// A TCP header's place in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TcpHeader {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) is_ipv6: bool,
}

/// Bytes of an untagged Ethernet header.
pub(crate) const ETHERNET_HEADER_LEN: usize = 14;
const VLAN_TAG_LEN: usize = 4;
const VLAN: &[u8] = &[0x81, 0x00];
const IPV4: &[u8] = &[0x08, 0x00];
const IPV6: &[u8] = &[0x86, 0xdd];
const TCP: u8 = 6;
