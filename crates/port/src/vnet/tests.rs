use super::*;

fn tcp_frame(ether_type: [u8; 2], ip_len: usize) -> Vec<u8> {
    let mut frame = vec![0; 14 + ip_len + 32];
    frame[12..14].copy_from_slice(&ether_type);
    if ip_len == 20 {
        frame[14] = 0x45;
        frame[23] = 6;
    } else {
        frame[14] = 0x60;
        frame[20] = 6;
    }
    frame[14 + ip_len + 12] = 0x80;
    frame
}

#[test]
fn a_super_frame_round_trips() {
    for (frame, gso_type, header_len) in [
        (tcp_frame([0x08, 0x00], 20), GSO_TCPV4, 66u16),
        (tcp_frame([0x86, 0xdd], 40), GSO_TCPV6, 86),
    ] {
        let meta = Meta {
            gso_size: 1448,
            needs_checksum: Some((34, 16)),
            checksum_valid: true,
        };
        let mut bytes = vec![0; HEADER_LEN];
        encode(meta, &frame, &mut bytes);
        assert_eq!((bytes[0], bytes[1]), (NEEDS_CHECKSUM, gso_type));
        assert_eq!(bytes[2..4], header_len.to_ne_bytes());
        bytes.extend(&frame);
        assert_eq!(decode(&bytes), Some((meta, &frame[..])));
    }
}

#[test]
fn a_tagged_super_frame_is_known_for_one() {
    let mut frame = tcp_frame([0x08, 0x00], 20);
    frame.splice(12..12, [0x81, 0x00, 0, 7]);
    let mut header = [0; HEADER_LEN];
    let meta = Meta {
        gso_size: 1000,
        ..Meta::default()
    };
    encode(meta, &frame, &mut header);
    assert_eq!(
        (header[1], &header[2..4]),
        (GSO_TCPV4, &70u16.to_ne_bytes()[..])
    );
}

#[test]
fn marks_without_offload_round_trip() {
    for checksum_valid in [false, true] {
        let meta = Meta {
            checksum_valid,
            ..Meta::default()
        };
        let mut bytes = [0xee; HEADER_LEN + 3];
        encode(meta, &[1, 2, 3], &mut bytes);
        assert_eq!(decode(&bytes).map(|(meta, _)| meta), Some(meta));
    }
}

#[test]
fn what_is_no_tcp_is_never_a_super_frame() {
    for frame in [
        &[][..],
        &[0; 14],
        &[0xff; 60],
        &tcp_frame([0x08, 0x00], 20)[..40],
    ] {
        let mut header = [0; HEADER_LEN];
        encode(
            Meta {
                gso_size: 1448,
                ..Meta::default()
            },
            frame,
            &mut header,
        );
        assert_eq!(header[1..HEADER_LEN], [0; HEADER_LEN - 1]);
    }
    assert_eq!(decode(&[0; HEADER_LEN - 1]), None);
}
