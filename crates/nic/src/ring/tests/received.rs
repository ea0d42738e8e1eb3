use wire::SeqNum;

use super::super::*;
use super::descriptors::pair;

#[test]
fn a_received_packet_arrives_as_it_was_pushed() {
    let (mut host, mut device) = pair();
    let packet = RecvDescriptor::Packet(Packet {
        buffer: Slice {
            offset: 1 << 45,
            len: 66_000,
            region: RegionId(u16::MAX),
        },
        header_len: 66,
        payload_len: 65_000,
        segments: 45,
        context: Some(ContextId(0)),
        processed: Processed::by_layers(1, true),
        placed: 2,
        notes: 0,
        checksum_ok: false,
        hash: 0xdead_beef,
        hash_type: Some(HashType::TcpIpv6),
    });
    let request = RecvDescriptor::ResyncRequest {
        context: ContextId(9),
        tcpsn: SeqNum(3),
        inner: Some(InnerPlace {
            layer: 3,
            offset: u32::MAX,
        }),
    };
    let outer_request = RecvDescriptor::ResyncRequest {
        context: ContextId(9),
        tcpsn: SeqNum(3),
        inner: None,
    };
    let placed = |at| RecvDescriptor::Placed {
        at,
        slice: Slice {
            offset: 1 << 40,
            len: 1448,
            region: RegionId(3),
        },
        tag: u16::MAX,
    };
    let completion = RecvDescriptor::Completion {
        send_index: 1 << 40,
        context: None,
        tcpsn: SeqNum(8),
        error: ErrorCode::SourceChanged,
    };
    let pushed = [
        packet,
        placed(0),
        placed(u32::MAX),
        request,
        outer_request,
        completion,
    ];
    for descriptor in pushed {
        assert!(device.queues[0].recv.push(descriptor));
    }
    device.queues[0].recv.publish();
    let recv = &mut host.queues[0].recv;
    let popped: Vec<_> = std::iter::from_fn(|| recv.pop()).collect();
    assert_eq!(popped, pushed);
}

#[test]
fn every_error_code_survives_its_number() {
    for byte in 0..=255 {
        if let Some(code) = ErrorCode::from_byte(byte) {
            assert_eq!(code as u8, byte);
        }
    }
    assert_eq!(ErrorCode::from_byte(0), None);
    assert_eq!(
        ErrorCode::from_byte(ErrorCode::TagNotMapped as u8),
        Some(ErrorCode::TagNotMapped)
    );
    let last = ErrorCode::NoResource;
    assert_eq!(ErrorCode::from_byte(last as u8), Some(last));
    assert_eq!(ErrorCode::from_byte(last as u8 + 1), None);
}
