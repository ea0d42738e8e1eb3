//! Reports that a path takes smaller packets only. Those about connections that the device owns are for it to heed.

use std::net::IpAddr;

use wire::icmp::v4::{self, Unreachable};
use wire::icmp::{Quoted, v6};
use wire::ipv6;
use wire::packet::Class;

/// The segment of ours that a frame reports as too big, and the most bytes of an IP packet that its path takes (RFC 1191,
/// RFC 8201).
pub(crate) fn too_big(frame: &[u8], class: &Class) -> Option<(Quoted, u32)> {
    let (original, mtu) = match class {
        Class::IcmpV4(ip) => match v4::Message::parse(ip.payload(frame)).ok()? {
            v4::Message::Unreachable {
                reason: Unreachable::FragmentationNeeded { mtu },
                original,
            } => {
                // RFC 1191 §5: an old router does not say; take the next plateau that every path has.
                let mtu = if mtu == 0 { 576 } else { u32::from(mtu) };
                (original, mtu)
            }
            _ => return None,
        },
        Class::IcmpV6(ip) => {
            let (IpAddr::V6(src), IpAddr::V6(dst)) = (ip.src, ip.dst) else {
                return None;
            };
            match v6::Message::parse(src, dst, ip.hop_limit, ip.payload(frame)).ok()? {
                // RFC 8201 §4: less than the least MTU of IPv6 is never true.
                v6::Message::PacketTooBig { mtu, original } => {
                    (original, mtu.max(u32::from(ipv6::MIN_MTU)))
                }
                _ => return None,
            }
        }
        _ => return None,
    };
    Some((Quoted::parse(original)?, mtu))
}
