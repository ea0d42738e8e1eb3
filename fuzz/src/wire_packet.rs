//! Any frame is read or refused; what was read lies inside the frame and survives being written again.

use wire::ethernet::MacAddr;
use wire::packet::{self, Class};

/// Takes `frame` for a received frame.
pub fn run(frame: &[u8]) {
    match packet::classify(frame) {
        Class::Tcp(parsed) => {
            assert!(parsed.segment(frame).ends_with(parsed.payload(frame)));
            let _ = parsed.verify_checksums(frame);
            rewrite(&parsed);
        }
        Class::IcmpV4(ip) | Class::IcmpV6(ip) | Class::OtherIp(ip) | Class::Fragment(ip) => {
            assert_eq!(ip.payload(frame).len(), ip.l4_len);
        }
        Class::Arp { offset } => {
            if let Ok(arp) = wire::arp::Packet::parse(&frame[offset..]) {
                let mut bytes = [0; wire::arp::PACKET_LEN];
                arp.emit(&mut bytes);
                assert_eq!(bytes, frame[offset..offset + bytes.len()]);
            }
        }
        Class::Other(_) | Class::Malformed(_) => {}
    }
}

fn rewrite(parsed: &packet::Parsed) {
    let mut bytes = vec![0; packet::MAX_TCP_HEADERS_LEN + parsed.payload_len as usize];
    let mac = MacAddr::ZERO;
    let len = packet::emit_tcp_headers(
        &mut bytes,
        mac,
        mac,
        &parsed.flow,
        &parsed.tcp,
        parsed.payload_len,
        parsed.hop_limit,
    );
    bytes.truncate(len + parsed.payload_len as usize);
    let again = packet::parse(&bytes).expect("our own headers");
    assert_eq!(again.flow, parsed.flow);
    assert_eq!(again.payload_len, parsed.payload_len);
    // Blocks for which there was room beside doubtful options may find none beside ours.
    let mut expected = parsed.tcp;
    expected.options.sack = again.tcp.options.sack;
    assert_eq!(again.tcp, expected);
    assert!(
        parsed
            .tcp
            .options
            .sack
            .as_slice()
            .starts_with(again.tcp.options.sack.as_slice())
    );
}
