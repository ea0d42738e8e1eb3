use testkit::bare::CONTEXT;
use testkit::fixtures::{HOST, PEER, aes_128_gcm, flow, flow_v6};
use wire::SeqNum;
use wire::checksum::Sum;
use wire::packet;
use wire::tcp::Flags;

use super::*;
use nic::WireCapabilities;
use nic::ring::{SendDescriptor, SendFlags};

fn fill(rig: &Rig, len: usize) -> Vec<u8> {
    let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + i / 251) as u8).collect();
    rig.host.memory.write(0, &bytes);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// A cut segment is what a host without segmentation offload would have sent, packet by packet.
    #[test]
    fn a_cut_segment_is_what_software_would_send(
        v6 in any::<bool>(),
        len in 1usize..100_000,
        mss in 500u16..1440,
        seq in prop_oneof![any::<u32>(), Just(u32::MAX - 1000)],
        flags in prop::sample::select(vec![
            Flags::NONE,
            Flags::PSH,
            Flags::FIN.union(Flags::PSH),
            Flags::CWR.union(Flags::PSH),
        ]),
    ) {
        let mut rig = plain();
        rig.flow = if v6 { flow_v6(50_000) } else { flow(50_000) };
        let bytes = fill(&rig, len);
        let header = rig.header(SeqNum(seq), flags);
        let payload = [rig.slice(0, len as u32 / 3), rig.slice(len as u64 / 3, len as u32 - len as u32 / 3)];
        rig.post(&SendDescriptor::Send {
            header: &header,
            mss,
            context: None,
            flags: SendFlags::CHECKSUM,
            payload: &payload,
        });
        let segments = rig.segments();
        let expected: Vec<&[u8]> = bytes.chunks(usize::from(mss)).collect();
        prop_assert_eq!(segments.len(), expected.len());
        for (n, ((parsed, payload), expected)) in segments.iter().zip(&expected).enumerate() {
            prop_assert_eq!(payload, expected);
            prop_assert_eq!(parsed.tcp.seq, SeqNum(seq) + n as u32 * u32::from(mss));
            prop_assert_eq!(parsed.flow, rig.flow);
            let last = n + 1 == segments.len();
            let on_last = flags.without(Flags::CWR);
            prop_assert_eq!(parsed.tcp.flags.intersects(Flags::FIN.union(Flags::PSH)), last && on_last != Flags::NONE);
            prop_assert_eq!(parsed.tcp.flags.contains(Flags::CWR), n == 0 && flags.contains(Flags::CWR));
        }
        let send = &mut rig.host.queues[0].send;
        prop_assert_eq!(send.completed(), send.posted());
        let counters = rig.nic.counters();
        prop_assert_eq!(counters.pcie_payload_tx, len as u64);
        let large = if expected.len() > 1 { (1, len as u64) } else { (0, 0) };
        prop_assert_eq!((counters.tx_tso_packets, counters.tx_tso_bytes), large);
        // One that is not to be cut is no large one.
        rig.post(&SendDescriptor::Send {
            header: &header,
            mss: 0,
            context: None,
            flags: SendFlags::CHECKSUM,
            payload: &[rig.slice(0, 1400)],
        });
        prop_assert_eq!(rig.segments().len(), 1);
        prop_assert_eq!(rig.nic.counters().tx_tso_packets, large.0);
    }

    /// A port that cuts gets as much as it takes; cutting that by the port's rules gives the same packets.
    #[test]
    fn a_port_that_cuts_gets_large_frames(
        v6 in any::<bool>(),
        len in 1usize..200_000,
        mss in 500u16..1440,
    ) {
        let mut rig = on_wire(WireCapabilities { tso: true, checksum: true });
        rig.flow = if v6 { flow_v6(50_000) } else { flow(50_000) };
        let bytes = fill(&rig, len);
        let payload = [rig.slice(0, len as u32)];
        rig.send(SeqNum(5), mss, None, SendFlags::NONE, &payload);
        let mut got = Vec::new();
        let frames = rig.frames();
        let count = frames.len();
        for (n, (frame, meta)) in frames.into_iter().enumerate() {
            let parsed = packet::parse(&frame).unwrap();
            let payload = parsed.payload(&frame);
            prop_assert_eq!(parsed.tcp.seq, SeqNum(5) + got.len() as u32);
            prop_assert!(frame.len() - 14 <= 65_535);
            prop_assert_eq!(parsed.tcp.flags.contains(Flags::PSH), n + 1 == count);
            if n + 1 < count {
                prop_assert_eq!(payload.len() % usize::from(mss), 0, "only the end is uneven");
            }
            let several = payload.len() > usize::from(mss);
            prop_assert_eq!(meta.gso_size, if several { mss } else { 0 });
            // Finishing the checksum from the seed in its field makes it right.
            let (start, offset) = meta.needs_checksum.unwrap();
            let (start, field) = (usize::from(start), usize::from(start + offset));
            let mut finished = frame.clone();
            let sum = Sum::of(&finished[start..]).finish();
            finished[field..field + 2].copy_from_slice(&sum.to_be_bytes());
            prop_assert!(packet::parse(&finished).unwrap().verify_checksums(&finished));
            got.extend_from_slice(payload);
        }
        prop_assert_eq!(got, bytes);
        prop_assert!(count <= len.div_ceil(63_000));
    }
}

#[test]
fn other_frames_go_out_as_they_are() {
    let mut rig = plain();
    let bytes = fill(&rig, 300);
    let mut header = [0; 42];
    header[..6].copy_from_slice(&PEER.0);
    header[6..12].copy_from_slice(&HOST.0);
    header[12..14].copy_from_slice(&[8, 6]);
    let payload = [rig.slice(0, 300)];
    for payload in [&payload[..], &[]] {
        rig.post(&SendDescriptor::Send {
            header: &header,
            mss: 0,
            context: None,
            flags: SendFlags::NONE,
            payload,
        });
    }
    let frames = rig.frames();
    assert_eq!(frames[0].0, [&header[..], &bytes].concat());
    assert_eq!(frames[1].0, header);
    assert_eq!(frames[0].1, nic::FrameMeta::default());
}

/// Packets that were transformed together leave as they are, although the next frame has room for more.
#[test]
fn a_frame_with_more_room_takes_no_more_than_was_transformed_with_it() {
    let wire = WireCapabilities {
        tso: true,
        checksum: true,
    };
    let mut rig = on_wire(wire);
    rig.create(SeqNum(1000), &Layers::of(&aes_128_gcm()));
    let content = 12_000u16;
    let mut record = vec![23, 3, 3];
    record.extend((content + 17).to_be_bytes());
    record.extend(vec![b'P'; usize::from(content)]);
    record.push(23);
    record.extend([0; 16]);
    let two = [record.clone(), record].concat();
    rig.host.memory.write(0, &two);
    let payload = [rig.slice(0, two.len() as u32)];
    let header = rig.header(SeqNum(1000), Flags::ACK);
    rig.post(&SendDescriptor::Send {
        header: &header,
        mss: 1000,
        context: Some(CONTEXT),
        flags: SendFlags::CHECKSUM,
        payload: &payload,
    });
    rig.host.publish();
    let mut sent: Vec<u8> = Vec::new();
    for room in [1500, 1500, 60_000, 60_000, 60_000, 60_000] {
        let mut out = vec![0; room];
        if let Some((len, _)) = rig.nic.poll_transmit(rig.now, &mut out) {
            sent.extend(&out[header.len()..len]);
        }
    }
    assert_eq!(sent.len(), two.len(), "{:?}", rig.host.codes());
    let is_clear = sent.windows(8).any(|bytes| bytes == [b'P'; 8]);
    assert!(!is_clear, "plaintext has left");
}
