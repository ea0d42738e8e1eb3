//! Commands to a namespace, on a random link.

use handshake::OpenSslError;
use handshake::nvme_psk::Hash;
use host::Offload;
use host::nvme::PduOffload;
use port::impair::Impairment;
use proptest::prelude::*;
use sim::blocks::{Command, Help, Pieces, Scenario};
use sim::storage::SharedKey;
use wire::nvme::Digests;

use super::links::link;

pub const BLOCKS: u32 = 4096;

fn command() -> impl Strategy<Value = Command> {
    let start = 0..BLOCKS - 512;
    let count = prop_oneof![
        2 => 1u32..9,
        2 => 9u32..70,
        1 => Just(32u32),
        1 => 70u32..513,
    ];
    let range = (start, count);
    let slices = prop_oneof![3 => Just(1u8), 1 => 2u8..6, 1 => 15u8..20];
    prop_oneof![
        6 => (range.clone(), slices.clone())
            .prop_map(|((start, count), slices)| Command::Read { start, count, slices }),
        6 => (range.clone(), slices, any::<bool>())
            .prop_map(|((start, count), slices, fua)| Command::Write { start, count, slices, fua }),
        1 => (range.clone(), any::<bool>())
            .prop_map(|((start, count), equal)| Command::Compare { start, count, equal }),
        1 => range.clone().prop_map(|(start, count)| Command::WriteZeroes { start, count }),
        1 => range.prop_map(|(start, count)| Command::Deallocate { start, count }),
        1 => Just(Command::Flush),
        1 => any::<[bool; 2]>().prop_map(|[controller, request_peer]| Command::KeyUpdate {
            controller,
            request_peer,
        }),
    ]
}

fn pieces() -> impl Strategy<Value = Pieces> {
    let data = || {
        prop_oneof![
            Just(4096u32),
            Just(65_536),
            (1024u32..40_000).prop_map(|words| words * 4)
        ]
    };
    let in_capsule = prop_oneof![Just(0u32), Just(8192), (0u32..1024).prop_map(|n| n * 16)];
    (in_capsule, data(), data(), data()).prop_map(|(in_capsule, c2h_data, h2c_data, r2t_data)| {
        Pieces {
            in_capsule,
            c2h_data,
            h2c_data,
            r2t_data,
        }
    })
}

fn digests() -> impl Strategy<Value = Digests> {
    (any::<bool>(), any::<bool>()).prop_map(|(header, data)| Digests { header, data })
}

/// Of hundreds of connections none loses every try to reach the peer: who has lost one has lost its commands.
fn bearable() -> impl Strategy<Value = Impairment> {
    link().prop_map(|link| Impairment {
        loss: link.loss / 2.0,
        corrupt: link.corrupt / 2.0,
        ..link
    })
}

/// Any, without TLS.
pub fn scenario() -> impl Strategy<Value = Scenario> {
    (
        (any::<u64>(), digests(), bearable(), pieces()),
        (
            any::<bool>(),
            prop::option::weighted(0.2, (any::<bool>(), 1000u32..3_000_000)),
        ),
        (
            prop_oneof![3 => Just(1500u16), 1 => 1280u16..9001],
            prop_oneof![4 => Just(4u64 << 20), 1 => Just(416)],
            1u16..4,
            prop_oneof![1u16..5, Just(32)],
            prop_oneof![Just(0u32), Just(4096), Just(16_384)],
        ),
        prop::collection::vec(command(), 0..40),
    )
        .prop_map(
            |(
                (seed, digests, link, pieces),
                (planted, wrap_within),
                (mtu, context_memory, queues, depth, map_threshold),
                commands,
            )| Scenario {
                seed,
                tls: None,
                digests,
                mtu,
                link,
                wrap_within,
                planted,
                context_memory,
                queues,
                depth,
                pieces,
                map_threshold,
                blocks: BLOCKS,
                commands,
            },
        )
}

/// Any part of it.
pub fn help() -> impl Strategy<Value = Help> {
    let nvme = || {
        any::<[bool; 3]>().prop_map(|[placement, receive_digest, transmit_digest]| PduOffload {
            placement,
            receive_digest,
            transmit_digest,
        })
    };
    let tls = || prop::sample::select(vec![Offload::None, Offload::Tx, Offload::Rx, Offload::Both]);
    (nvme(), nvme(), tls(), tls()).prop_map(
        |(initiator, controller, initiator_tls, controller_tls)| Help {
            initiator,
            controller,
            initiator_tls,
            controller_tls,
            lending: [None; 2],
        },
    )
}

/// Whether there is a library for keys that two sides share.
pub fn has_psk() -> bool {
    match SharedKey::new(Hash::Sha256) {
        Ok(_) => true,
        Err(error @ OpenSslError::Missing(_)) => {
            eprintln!("skipped: {error}");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

/// All blocks written, and read.
pub fn bulk(tls: Option<Hash>) -> Scenario {
    let chunks = || (0..BLOCKS).step_by(512);
    let write = |start| Command::Write {
        start,
        count: 512,
        slices: 1,
        fua: false,
    };
    let read = |start| Command::Read {
        start,
        count: 512,
        slices: 2,
    };
    Scenario {
        seed: 7,
        tls,
        digests: Digests {
            header: true,
            data: true,
        },
        mtu: 1500,
        link: Impairment::default(),
        wrap_within: None,
        planted: false,
        context_memory: 4 << 20,
        queues: 1,
        depth: 32,
        pieces: Pieces {
            in_capsule: 8192,
            c2h_data: 128 << 10,
            h2c_data: 128 << 10,
            r2t_data: 1 << 20,
        },
        map_threshold: 0,
        blocks: BLOCKS,
        commands: chunks().map(write).chain(chunks().map(read)).collect(),
    }
}
