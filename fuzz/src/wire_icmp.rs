//! Any ICMP message is read or refused, for both versions of IP; what was read survives being written again.

use std::net::Ipv6Addr;

use wire::checksum::Sum;
use wire::icmp::{Quoted, v4, v6};
use wire::ipv4::protocol;

/// Takes `bytes` for an ICMP message, of IPv6 if the first byte is odd. The checksum is made right first:
/// otherwise nothing would get past it.
pub fn run(bytes: &[u8]) {
    let Some((&version, message)) = bytes.split_first() else {
        return;
    };
    let _ = Quoted::parse(message);
    if message.len() < 8 {
        return;
    }
    if version & 1 == 0 {
        run_v4(&mut message.to_vec())
    } else {
        run_v6(&mut message.to_vec())
    }
}

fn run_v4(bytes: &mut [u8]) {
    fill_checksum(bytes, Sum::ZERO);
    let message = v4::Message::parse(bytes).expect("eight bytes and a right checksum");
    let mut emitted = vec![0; message.len()];
    message.emit(&mut emitted);
    assert_eq!(v4::Message::parse(&emitted), Ok(message));
    if let v4::Message::Unreachable { original, .. } = message {
        let _ = Quoted::parse(original);
    }
}

fn run_v6(bytes: &mut [u8]) {
    let address = Ipv6Addr::LOCALHOST;
    let len = bytes.len() as u32;
    let pseudo = Sum::of_pseudo_header(address.into(), address.into(), protocol::ICMPV6, len);
    fill_checksum(bytes, pseudo);
    let Ok(message) = v6::Message::parse(address, address, 255, bytes) else {
        return;
    };
    let mut emitted = vec![0; message.len()];
    message.emit(address, address, &mut emitted);
    assert_eq!(
        v6::Message::parse(address, address, 255, &emitted),
        Ok(message)
    );
    if let v6::Message::PacketTooBig { original, .. } = message {
        let _ = Quoted::parse(original);
    }
}

fn fill_checksum(bytes: &mut [u8], pseudo: Sum) {
    bytes[2..4].fill(0);
    let checksum = (pseudo + Sum::of(bytes)).finish();
    bytes[2..4].copy_from_slice(&checksum.to_be_bytes());
}
