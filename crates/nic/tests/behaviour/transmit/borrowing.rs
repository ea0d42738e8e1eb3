//! Payload that stays where the host has it until the wire has read it.

use wire::SeqNum;

use super::*;
use nic::FrameMeta;
use nic::WireCapabilities;
use nic::ring::{SendFlags, Slice};
use testkit::bare::MEMORY;

const SUPER: WireCapabilities = WireCapabilities {
    tso: true,
    checksum: true,
};

/// Everything that reaches the wire now, put together from where it lies; and the bytes that were borrowed.
fn borrowed_frames(rig: &mut Rig) -> (Vec<(Vec<u8>, FrameMeta)>, usize) {
    rig.host.publish();
    let mut out = vec![0xee; 66_000];
    let (mut frames, mut bytes) = (Vec::new(), 0);
    while let Some(borrowed) = rig.nic.poll_transmit_borrowed(rig.now, &mut out) {
        let mut frame = out[..borrowed.head].to_vec();
        for piece in borrowed.payload.into_iter().flatten() {
            frame.extend(piece.to_vec());
            bytes += piece.len();
        }
        frames.push((frame, borrowed.meta));
    }
    rig.nic.flush(rig.now);
    (frames, bytes)
}

fn rig(wire: WireCapabilities) -> Rig {
    let rig = on_wire(wire);
    let bytes: Vec<u8> = (0..MEMORY).map(|at| (at * 7 + at / 251) as u8).collect();
    assert!(rig.host.memory.region.write(0, &bytes));
    rig
}

#[test]
fn what_is_borrowed_is_what_would_have_been_copied() {
    let no_tso = WireCapabilities {
        tso: false,
        checksum: true,
    };
    for wire in [SUPER, no_tso, WireCapabilities::default()] {
        for slices in [1, 3, 20] {
            let mut rigs = [rig(wire), rig(wire)];
            for rig in &mut rigs {
                let payload: Vec<Slice> = (0..slices)
                    .map(|at| rig.slice(at * 9000, 60_000 / slices as u32))
                    .collect();
                rig.send(SeqNum(5), 1400, None, SendFlags::NONE, &payload);
                rig.send(SeqNum(60_005), 1400, None, SendFlags::NONE, &payload[..1]);
            }
            let [copying, borrowing] = &mut rigs;
            let (frames, borrowed) = borrowed_frames(borrowing);
            assert_eq!(frames, copying.frames(), "{wire:?}, {slices} slices");
            assert_eq!(borrowed > 0, wire.checksum, "{wire:?}, {slices} slices");
            assert_eq!(borrowing.host.errors(), []);
        }
    }
}

#[test]
fn a_descriptor_is_the_hosts_again_when_its_payload_was_read() {
    let mut rig = rig(SUPER);
    let payload = [rig.slice(0, 64_000)];
    let posted: Vec<u64> = (0..5)
        .map(|at| rig.send(SeqNum(64_000 * at), 1400, None, SendFlags::NONE, &payload))
        .collect();
    rig.host.publish();
    let mut out = vec![0; 66_000];
    for index in posted {
        let borrowed = rig.nic.poll_transmit_borrowed(rig.now, &mut out).unwrap();
        assert!(borrowed.payload.is_some());
        let completed = rig.host.queues[0].send.completed();
        assert!(completed <= index, "{completed}, {index}");
    }
    rig.nic.flush(rig.now);
    let queue = &mut rig.host.queues[0];
    assert_eq!(queue.send.completed(), queue.send.posted());
}

#[test]
fn a_page_that_was_lost_is_not_borrowed() {
    let mut rig = rig(SUPER);
    let payload = [rig.slice(0, 1000)];
    rig.send(SeqNum(0), 0, None, SendFlags::NONE, &payload[..1]);
    rig.host
        .memory
        .region
        .faulted
        .store(true, std::sync::atomic::Ordering::Release);
    let (frames, _) = borrowed_frames(&mut rig);
    assert_eq!(frames, []);
    assert_eq!(rig.host.errors().len(), 1);
}
