use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::Ordering;

use l5p::nvme::{Parameters, Role};
use l5p::tls::{Algorithm, CryptoInfo, Version};
use l5p::{Layers, ResourceId};
use proptest::prelude::*;
use testkit::fixtures::nvme;
use wire::ethernet::MacAddr;
use wire::{FlowKey, SeqNum};

use super::super::command::RrState;
use super::super::function::{DeviceFunction, FunctionConfig, HostFunction, function};
use super::super::gather::Gather;
use super::super::layout::{SLOT_WORDS, clear_reserved};
use super::super::toe::ToeId;
use super::super::*;
use super::renewal;
use crate::features::Features;

pub(super) fn config() -> FunctionConfig {
    FunctionConfig {
        features: Features::ALL,
        send_entries: 16,
        receive_entries: 16,
        small_entries: 4,
        large_entries: 4,
        contexts: 8,
        ..FunctionConfig::new(MacAddr([2, 0, 0, 0, 0, 1]))
    }
}

pub(super) fn pair() -> (HostFunction, DeviceFunction) {
    function(config())
}

pub(super) fn slices(count: usize) -> Vec<Slice> {
    (0..count as u64)
        .map(|n| Slice {
            offset: n << 40,
            len: 10 + n as u32,
            region: RegionId(n as u16),
        })
        .collect()
}

fn crypto() -> CryptoInfo {
    CryptoInfo {
        version: Version::Tls13,
        algorithm: Algorithm::Aes256Gcm,
        key: std::array::from_fn(|i| i as u8),
        iv: [9; 12],
        sequence: 77,
    }
}

/// Posts one descriptor and takes it on the other side.
pub(super) fn pass(descriptor: &SendDescriptor<'_>) -> (Command, Vec<Slice>) {
    let (mut host, mut device) = pair();
    let send = &mut host.queues[0].send;
    assert_eq!(send.post(descriptor), Ok(0));
    let _ = host.queues[0].publish();
    let mut gather = Gather::EMPTY;
    let taken = device.queues[0].send.take(&mut gather).unwrap();
    assert_eq!(taken.index, 0);
    assert!(
        device.queues[0]
            .send
            .take(&mut Gather::EMPTY.clone())
            .is_none()
    );
    device.queues[0].send.publish();
    let send = &mut host.queues[0].send;
    assert_eq!(send.completed(), send.posted());
    (taken.command.unwrap(), gather.slices().to_vec())
}

/// Between two ports.
fn flow(src: IpAddr, dst: IpAddr) -> FlowKey {
    FlowKey {
        src: (src, 443),
        dst: (dst, 50_000),
    }
}

fn local() -> FlowKey {
    flow(Ipv4Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into())
}

/// Posts a context with these protocols, and checks that it arrives as it was posted.
fn pass_create(direction: Direction, flow: FlowKey, layers: &Layers) {
    let (context, tcpsn) = (ContextId(7), SeqNum(u32::MAX));
    let (command, _) = pass(&SendDescriptor::CreateContext(&CreateContext {
        context,
        direction,
        flow,
        tcpsn,
        layers: layers.clone(),
    }));
    let Command::Create(create) = command else {
        panic!("not a create")
    };
    assert_eq!((create.context, create.direction), (context, direction));
    assert_eq!((create.flow, create.tcpsn), (flow, tcpsn));
    assert_eq!(create.layers, *layers);
}

#[test]
#[cfg_attr(miri, ignore = "keys are wiped by a foreign function")]
fn keys_that_the_device_has_taken_or_never_will_are_in_the_ring_no_more() {
    let (mut host, block) = renewal::host(renewal::config());
    let mut device = renewal::device(&block).unwrap();
    let crypto = crypto();
    let create = SendDescriptor::CreateContext(&CreateContext {
        context: ContextId(7),
        direction: Direction::Transmit,
        flow: local(),
        tcpsn: SeqNum(0),
        layers: Layers::of(&crypto),
    });
    let has_key = || {
        let words = block.words().iter();
        let words = words.map(|word| word.load(Ordering::Relaxed).to_le_bytes());
        let bytes: Vec<u8> = words.flatten().collect();
        bytes.windows(8).any(|part| part == &crypto.key[..8])
    };
    host.queues[0].send.post(&create).unwrap();
    let _ = host.queues[0].publish();
    assert!(has_key());
    device.queues[0]
        .send
        .take(&mut Gather::EMPTY.clone())
        .unwrap();
    assert!(!has_key());
    // One that is published and one that is not, for a device that reads neither.
    host.queues[0].send.post(&create).unwrap();
    let _ = host.queues[0].publish();
    host.queues[0].send.post(&create).unwrap();
    assert!(has_key());
    host.queues[0].clear();
    assert!(!has_key());
}

#[test]
fn a_send_arrives_as_it_was_posted() {
    for count in [0, 1, 3, 4, 14, 15, MAX_SEND_SLICES] {
        for header_len in [0, 1, 54, MAX_HEADER_LEN] {
            let header: Vec<u8> = (0..header_len as u8).collect();
            let payload = slices(count);
            let (command, gathered) = pass(&SendDescriptor::Send {
                header: &header,
                mss: 1448,
                context: Some(ContextId(3)),
                flags: SendFlags::CHECKSUM,
                payload: &payload,
            });
            let Command::Send(send) = command else {
                panic!("not a send")
            };
            assert_eq!(send.header[..header_len], header);
            assert_eq!(usize::from(send.header_len), header_len);
            assert_eq!((send.mss, send.context), (1448, Some(ContextId(3))));
            assert_eq!(send.flags, SendFlags::CHECKSUM);
            assert_eq!(gathered, payload);
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "keys are wiped by a foreign function")]
fn commands_arrive_as_they_were_posted() {
    let addresses: [(IpAddr, IpAddr); 2] = [
        (
            Ipv4Addr::new(10, 0, 0, 1).into(),
            Ipv4Addr::new(10, 0, 0, 2).into(),
        ),
        (
            Ipv6Addr::LOCALHOST.into(),
            Ipv6Addr::new(0xfe80, 0, 0, 0, 1, 2, 3, 4).into(),
        ),
    ];
    for (src, dst) in addresses {
        pass_create(Direction::Receive, flow(src, dst), &Layers::of(&crypto()));
    }

    let inner = InnerRecover {
        index: u64::MAX - 1,
        len: 100,
        offset: 40,
    };
    let toe = Some(ToeId {
        index: 3,
        generation: u32::MAX,
    });
    for (count, verify, inner, toe) in [
        (8, Verify::None, None, toe),
        (9, Verify::Frontier, Some(inner), None),
        (MAX_RECOVER_SLICES, Verify::None, Some(inner), toe),
    ] {
        let prefix = slices(count);
        let bytes: u32 = prefix.iter().map(|slice| slice.len).sum();
        let len = bytes - inner.map_or(0, |inner| inner.offset);
        let (command, gathered) = pass(&SendDescriptor::RecoverContext {
            recover: RecoverContext {
                context: ContextId(1),
                start: SeqNum(u32::MAX - 3),
                index: 1 << 50,
                len: len + 5,
                resume: SeqNum(u32::MAX - 3) + len,
                verify,
                inner,
                toe,
            },
            prefix: &prefix,
        });
        let Command::Recover(recover) = command else {
            panic!("not a recover")
        };
        assert_eq!((recover.index, recover.len), (1 << 50, len + 5));
        assert_eq!(recover.start.distance_to(recover.resume), len);
        assert_eq!((recover.verify, gathered), (verify, prefix));
        assert_eq!((recover.inner, recover.toe), (inner, toe));
    }

    let (command, _) = pass(&SendDescriptor::ResyncResponse(ResyncResponse {
        context: ContextId(2),
        tcpsn: SeqNum(5),
        inner: Some(InnerPlace {
            layer: 1,
            offset: 77,
        }),
        confirmed: true,
        index: 9,
    }));
    assert!(matches!(
        command,
        Command::Resync(r) if r.confirmed && (r.index, r.tcpsn, r.inner) == (9, SeqNum(5), Some(InnerPlace { layer: 1, offset: 77 }))
    ));
    let (command, _) = pass(&SendDescriptor::DestroyContext {
        context: ContextId(2),
    });
    assert!(matches!(command, Command::Destroy(ContextId(2))));
    let (command, _) = pass(&SendDescriptor::UnloadResource {
        resource: ResourceId(7),
    });
    assert!(matches!(command, Command::Unload(ResourceId(7))));
}

#[test]
fn nvme_parameters_arrive_as_they_were_posted() {
    for (sender, header_digest, data_digest) in [
        (Role::Host, true, false),
        (Role::Controller, false, true),
        (Role::Controller, true, true),
    ] {
        let nvme = Parameters {
            alignment: 3,
            max_pdu: u32::MAX - 7,
            commands: u16::MAX - 3,
            ..nvme(sender, header_digest, data_digest)
        };
        pass_create(Direction::Transmit, local(), &Layers::of(&nvme));
    }
}

#[test]
#[cfg_attr(miri, ignore = "keys are wiped by a foreign function")]
fn stacked_parameters_arrive_as_they_were_posted() {
    let nvme = Parameters {
        alignment: 3,
        max_pdu: 9000,
        commands: 0,
        ..nvme(Role::Host, true, true)
    };
    let flow = flow(Ipv6Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into());
    let layers = Layers::of(&crypto()).carrying(&nvme);
    pass_create(Direction::Receive, flow, &layers);
}

#[test]
fn mapped_buffers_arrive_as_they_were_posted() {
    let context = ContextId(5);
    for count in [1, 2, 11, 12, MAX_RR_SLICES] {
        let (command, gathered) = pass(&SendDescriptor::AddRrState {
            context,
            tag: u16::MAX,
            slices: &slices(count),
        });
        assert!(matches!(
            command,
            Command::AddRr(RrState {
                context: ContextId(5),
                tag: u16::MAX
            })
        ));
        assert_eq!(gathered, slices(count));
    }
    let (command, gathered) = pass(&SendDescriptor::DelRrState { context, tag: 300 });
    assert!(matches!(
        command,
        Command::DelRr(RrState {
            context: ContextId(5),
            tag: 300
        })
    ));
    assert!(gathered.is_empty());
}

#[test]
fn a_buffer_of_no_or_too_many_slices_or_bytes_is_refused() {
    let (mut host, mut device) = pair();
    let send = &mut host.queues[0].send;
    let post = |send: &mut SendProducer, slices: &[Slice]| {
        send.post(&SendDescriptor::AddRrState {
            context: ContextId(0),
            tag: 0,
            slices,
        })
    };
    assert_eq!(
        post(send, &slices(MAX_RR_SLICES + 1)),
        Err(PostError::TooManySlices {
            slices: MAX_RR_SLICES + 1,
            max: MAX_RR_SLICES
        })
    );
    let huge = Slice {
        offset: 0,
        len: u32::MAX,
        region: RegionId(0),
    };
    post(send, &[]).unwrap();
    post(send, &[huge, huge]).unwrap();
    let _ = host.queues[0].publish();
    for _ in 0..2 {
        let taken = device.queues[0].send.take(&mut Gather::EMPTY.clone());
        assert_eq!(
            taken.unwrap().command.unwrap_err().error,
            ErrorCode::BadLength
        );
    }
}

#[test]
fn what_does_not_fit_is_not_posted() {
    let (mut host, _device) = pair();
    let send = &mut host.queues[0].send;
    let too_many = slices(MAX_SEND_SLICES + 1);
    let post = |send: &mut SendProducer, header: &[u8], payload: &[Slice]| {
        send.post(&SendDescriptor::Send {
            header,
            mss: 0,
            context: None,
            flags: SendFlags::NONE,
            payload,
        })
    };
    assert!(matches!(
        post(send, &[], &too_many),
        Err(PostError::TooManySlices { .. })
    ));
    assert_eq!(
        post(send, &[0; 129], &[]),
        Err(PostError::HeaderTooLong { len: 129 })
    );
    for _ in 0..4 {
        post(send, &[], &slices(MAX_SEND_SLICES)).unwrap();
    }
    assert_eq!(
        post(send, &[], &[]),
        Err(PostError::Full { needed: 1, free: 0 })
    );
    assert_eq!(send.posted(), 16);
}

proptest! {
    #![proptest_config(ProptestConfig {
        // Miri has no files.
        failure_persistence: ProptestConfig::default().failure_persistence.filter(|_| !cfg!(miri)),
        ..ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 512 })
    })]

    /// Whatever a host writes into its ring, each slot is passed once and nothing panics.
    #[test]
    fn any_slots_decode_or_are_refused(
        slots in proptest::collection::vec(
            (
                0u8..30,
                any::<[u8; 7]>(),
                proptest::collection::vec(any::<u64>(), SLOT_WORDS - 1),
                any::<bool>(),
            ),
            1..16,
        )
    ) {
        let (mut host, mut device) = pair();
        for (opcode, head, rest, is_clear) in &slots {
            let mut words = [0; SLOT_WORDS];
            let [a, b, c, d, e, f, g] = *head;
            words[0] = u64::from_le_bytes([*opcode, a, b % 140, c % 14, d % 6, e, f, g]);
            words[1..].copy_from_slice(rest);
            if *is_clear {
                clear_reserved(&mut words);
            }
            host.queues[0].send.post_raw(&words).unwrap();
        }
        let _ = host.queues[0].publish();
        let mut gather = Gather::EMPTY;
        let mut seen = 0;
        while let Some(taken) = device.queues[0].send.take(&mut gather) {
            prop_assert!(taken.index >= seen, "a slot is taken twice");
            prop_assert!(gather.slices().len() <= MAX_RECOVER_SLICES);
            seen = taken.index + 1;
        }
        prop_assert!(seen as usize <= slots.len());
        device.queues[0].send.publish();
        prop_assert_eq!(host.queues[0].send.completed(), slots.len() as u64);
    }
}
