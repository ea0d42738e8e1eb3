//! Data goes both ways, whatever was agreed on and whatever the wire does.

use super::rig::{Mode, Rig, STRIDE, c2h, command, h2c, response};
use crate::pair::{CLIENT, SERVER, lossy};
use host::Offload;
use host::nvme::{Digests, PduOffload};
use host::pdus::{DataDigest, PduData, Unmapped};
use testkit::pattern;

const DIGESTS: [Digests; 4] = [
    Digests::NONE,
    Digests {
        header: true,
        data: false,
    },
    Digests {
        header: false,
        data: true,
    },
    Digests::BOTH,
];

pub fn modes() -> impl Iterator<Item = Mode> {
    let tls = [
        None,
        Some(Offload::None),
        Some(Offload::Tx),
        Some(Offload::Rx),
        Some(Offload::Both),
    ];
    let offload = [PduOffload::NONE, PduOffload::ALL];
    tls.into_iter().flat_map(move |tls| {
        DIGESTS.into_iter().flat_map(move |digests| {
            offload.into_iter().map(move |offload| Mode {
                tls,
                digests,
                offload,
                ..Mode::PLAIN
            })
        })
    })
}

/// Commands with data in the capsule one way, data of several commands in turn the other way, and data the first way.
pub fn exchange(rig: &mut Rig, data: &[u8], mode: Mode) {
    let each = data.len() / 4;
    let is_mapped = rig.map(CLIENT, 0, 0, each as u32);
    let is_decrypted = mode.tls.is_none_or(Offload::receive);
    assert_eq!(is_mapped, is_decrypted && mode.offload.placement);
    for tag in 1..4 {
        assert_eq!(rig.map(CLIENT, tag, 0, each as u32), is_mapped);
    }
    assert_eq!(rig.map(SERVER, 9, 0, each as u32 + 500), is_mapped);
    let piece = 70_000.min(each);
    for tag in 0..4u16 {
        let inline = &data[..100 * usize::from(tag)];
        let sent = command(tag as u8, inline.len() as u32);
        rig.send(CLIENT, &sent, PduData::Bytes(inline));
        rig.fill(
            SERVER,
            u64::from(tag) * STRIDE,
            &data[usize::from(tag) * each..][..each],
        );
    }
    let mut offset = 0;
    while offset < each {
        let len = piece.min(each - offset) as u32;
        for tag in 0..4 {
            let slices = rig.slices(SERVER, u64::from(tag) * STRIDE + offset as u64, len);
            rig.send(
                SERVER,
                &c2h(tag, offset as u32, len),
                PduData::Slices(&slices),
            );
        }
        offset += len as usize;
    }
    rig.send(SERVER, &response(1), PduData::None);
    rig.run_until(|rig| {
        rig.sides[CLIENT].log.headers.last() == Some(&response(1))
            && rig.sides[SERVER].log.ends.len() == 3
    });
    for tag in 0..4 {
        let read = rig.memory(CLIENT, tag as u64 * STRIDE, each);
        assert!(read == data[tag * each..][..each], "{mode:?} {tag}");
    }
    assert_eq!(rig.sides[SERVER].log.headers.len(), 4, "{mode:?}");
    for (tag, inline) in rig.sides[SERVER].log.inline.iter().enumerate() {
        assert!(inline[..] == data[..100 * (tag + 1)], "{mode:?} {tag}");
    }
    // What has come goes back, to another place.
    let slices = rig.slices(CLIENT, 0, each as u32);
    rig.send(CLIENT, &h2c(9, 500, each as u32), PduData::Slices(&slices));
    rig.send(CLIENT, &command(9, 0), PduData::None);
    rig.run_until(|rig| rig.sides[SERVER].log.headers.last() == Some(&command(9, 0)));
    assert!(
        rig.memory(SERVER, 9 * STRIDE + 500, each) == data[..each],
        "{mode:?}"
    );
    for (at, tag) in [
        (CLIENT, 0),
        (CLIENT, 1),
        (CLIENT, 2),
        (CLIENT, 3),
        (SERVER, 9),
    ] {
        let unmapped = rig.unmap(at, tag);
        assert_eq!(
            unmapped,
            is_mapped.then_some(Unmapped::Clean),
            "{mode:?} {tag}"
        );
    }
    for side in &rig.sides {
        assert!(
            side.log.ends.iter().all(|end| *end == DataDigest::Good),
            "{mode:?}"
        );
    }
}

#[test]
fn data_comes_to_its_place_in_every_mode() {
    let data = pattern(600_000);
    for mode in modes() {
        let mut rig = Rig::new(mode);
        exchange(&mut rig, &data, mode);
        let is_decrypted = mode.tls.is_none_or(Offload::receive);
        if is_decrypted && mode.offload == PduOffload::ALL {
            assert_eq!(rig.pair.counter(CLIENT, "NvmeTcpRxBytesCopied"), 0);
            assert_eq!(rig.pair.counter(CLIENT, "NvmeTcpRxBytesPlaced"), 600_000);
            assert_eq!(rig.pair.counter(SERVER, "NvmeTcpRxBytesPlaced"), 150_000);
            assert_eq!(rig.pair.counter(CLIENT, "NvmeTcpRxDigestsSw"), 0);
        }
    }
}

#[test]
fn loss_and_reordering_change_nothing() {
    let data = pattern(900_000);
    for (seed, mode) in modes().enumerate() {
        for lossy_side in [CLIENT, SERVER] {
            let mut rig = Rig::new(mode);
            rig.pair
                .decide(lossy(lossy_side, 0.02, 0.02, seed as u64 + 5));
            exchange(&mut rig, &data, mode);
        }
    }
}

#[test]
fn data_may_be_aligned() {
    let data = pattern(30_000);
    for (hpda, cpda) in [(0, 31), (31, 0), (3, 7)] {
        for digests in DIGESTS {
            for tls in [None, Some(Offload::Both)] {
                let mode = Mode {
                    tls,
                    digests,
                    hpda,
                    cpda,
                    ..Mode::PLAIN
                };
                exchange(&mut Rig::new(mode), &data, mode);
            }
        }
    }
}
