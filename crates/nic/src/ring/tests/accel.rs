//! Descriptors of setup, teardown and splicing.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use wire::ethernet::MacAddr;
use wire::{FlowKey, SeqNum};

use super::super::accel::*;
use super::super::gather::Gather;
use super::super::layout::{SLOT_WORDS, SendSlot};
use super::super::*;
use super::descriptors::{pair, pass, slices};

fn address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<u32>().prop_map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits))),
        any::<u128>().prop_map(|bits| IpAddr::V6(Ipv6Addr::from_bits(bits))),
    ]
}

fn flow() -> impl Strategy<Value = FlowKey> {
    (address(), any::<[u64; 2]>(), any::<[u16; 2]>()).prop_map(|(src, dst, ports)| {
        let dst = match src {
            IpAddr::V4(_) => Ipv4Addr::from_bits(dst[0] as u32).into(),
            IpAddr::V6(_) => {
                let bits = u128::from(dst[0]) << 64 | u128::from(dst[1]);
                Ipv6Addr::from_bits(bits).into()
            }
        };
        FlowKey {
            src: (src, ports[0]),
            dst: (dst, ports[1]),
        }
    })
}

fn hop() -> impl Strategy<Value = MacAddr> {
    any::<[u8; 6]>().prop_map(|[a, b, c, d, e, f]| MacAddr([a & !1, b, c, d, e, f]))
}

fn timestamps() -> impl Strategy<Value = Option<TimestampState>> {
    let state = any::<[u32; 2]>().prop_map(|[recent, value]| TimestampState { recent, value });
    proptest::option::of(state)
}

fn leg() -> impl Strategy<Value = Leg> {
    let numbers = (any::<[u32; 4]>(), 0u8..15, 0u8..15, 1u16.., 1u16..);
    let rest = (1u8.., any::<[bool; 3]>(), timestamps());
    (flow(), hop(), numbers, rest).prop_map(
        |(
            flow,
            hop,
            (numbers, peer_shift, our_shift, mss, our_mss),
            (hop_limit, [sack, ecn, owes_echo], timestamps),
        )| Leg {
            flow,
            hop,
            hop_limit,
            snd_nxt: SeqNum(numbers[0]),
            rcv_nxt: SeqNum(numbers[1]),
            peer_window: numbers[2],
            our_window: numbers[3],
            peer_shift,
            our_shift,
            mss,
            our_mss,
            sack,
            timestamps,
            ecn,
            ecn_echo: ecn && owes_echo,
        },
    )
}

fn teardown() -> impl Strategy<Value = Teardown> {
    let small = (1u8.., any::<bool>(), 0u8..15, any::<u8>());
    let numbers = any::<[u32; 7]>();
    (
        flow(),
        hop(),
        small,
        numbers,
        any::<u16>(),
        1u16..,
        timestamps(),
    )
        .prop_map(
            |(
                flow,
                hop,
                (hop_limit, peer_closed, peer_shift, retransmits),
                numbers,
                window,
                mss,
                timestamps,
            )| {
                Teardown {
                    ticket: numbers[0],
                    flow,
                    hop,
                    hop_limit,
                    peer_closed,
                    snd_una: SeqNum(numbers[1]),
                    snd_nxt: SeqNum(numbers[1]),
                    rcv_nxt: SeqNum(numbers[2]),
                    peer_window: numbers[3],
                    peer_shift,
                    our_shift: 14 - peer_shift,
                    window,
                    mss,
                    timestamps,
                    rto_us: numbers[4],
                    retransmits,
                    time_wait_ms: numbers[5] % (Teardown::LONGEST_TIME_WAIT_MS + 1),
                    fin_wait2_ms: numbers[6],
                }
            },
        )
}

fn taken(descriptor: &SendDescriptor<'_>) -> (AccelCommand, Vec<Slice>) {
    match pass(descriptor) {
        (Command::Accel(command), slices) => (command, slices),
        (other, _) => panic!("{other:?}"),
    }
}

/// Posts a slot as it is; what the device makes of it.
fn refused(words: &[u64; SLOT_WORDS]) -> Option<ErrorCode> {
    let (mut host, mut device) = pair();
    host.queues[0].send.post_raw(words).unwrap();
    let _ = host.queues[0].publish();
    let mut gather = Gather::EMPTY;
    let taken = device.queues[0].send.take(&mut gather).unwrap();
    taken.command.err().map(|bad| bad.error)
}

/// The words of a descriptor as its host writes them.
fn words_of<D: SendSlot>(descriptor: &D) -> [u64; SLOT_WORDS] {
    let mut words = descriptor.words();
    words[0] |= u64::from(D::OPCODE);
    words
}

/// The same with a flag that has no meaning.
fn with_unknown_flag(mut words: [u64; SLOT_WORDS]) -> [u64; SLOT_WORDS] {
    words[0] |= 128 << 8;
    words
}

fn a_teardown() -> Teardown {
    Teardown {
        ticket: 1,
        flow: FlowKey {
            src: (Ipv4Addr::LOCALHOST.into(), 80),
            dst: (Ipv4Addr::LOCALHOST.into(), 81),
        },
        hop: MacAddr([2, 0, 0, 0, 0, 9]),
        hop_limit: 64,
        peer_closed: false,
        snd_una: SeqNum(u32::MAX - 4),
        snd_nxt: SeqNum(u32::MAX - 4),
        rcv_nxt: SeqNum(7),
        peer_window: 65_535,
        peer_shift: 0,
        our_shift: 0,
        window: 100,
        mss: 1448,
        timestamps: None,
        rto_us: 200_000,
        retransmits: 0,
        time_wait_ms: 60_000,
        fin_wait2_ms: 60_000,
    }
}

fn an_install() -> InstallListener {
    InstallListener {
        rule: ListenRuleId(9),
        address: Ipv4Addr::UNSPECIFIED.into(),
        port: 80,
        options: ListenerOptions {
            mss: 1460,
            window: 65_535,
            window_scale: Some(7),
            sack: true,
            backlog: 128,
            defer: false,
            hop_limit: 64,
        },
    }
}

#[test]
fn the_limit_of_a_teardown_is_the_initial_window() {
    for (mss, bytes) in [
        (1460, 14_600),
        (1448, 14_480),
        (536, 5360),
        (8960, 17_920),
        (65_535, 131_070),
    ] {
        assert_eq!(Teardown::payload_limit(mss), bytes);
    }
}

#[test]
fn a_time_wait_is_no_longer_than_2_msl() {
    let too_long = Some(ErrorCode::BadParameters);
    for (time_wait_ms, error) in [(240_000, None), (240_001, too_long), (u32::MAX, too_long)] {
        let teardown = Teardown {
            time_wait_ms,
            ..a_teardown()
        };
        assert_eq!(refused(&words_of(&teardown.encode(&[]))), error);
    }
}

#[test]
fn a_teardown_of_more_than_it_says_or_may_is_refused() {
    let (mut host, mut device) = pair();
    let slice = |len| Slice {
        offset: 0,
        len,
        region: RegionId(0),
    };
    let send = &mut host.queues[0].send;
    let sent = |bytes| Teardown {
        snd_nxt: SeqNum(u32::MAX - 4) + bytes,
        ..a_teardown()
    };
    for (teardown, payload, error) in [
        (sent(0), vec![], None),
        (sent(100), vec![slice(60), slice(40)], None),
        (
            sent(101),
            vec![slice(60), slice(40)],
            Some(ErrorCode::BadLength),
        ),
        (sent(0), vec![slice(14_480)], None),
        (sent(0), vec![slice(14_481)], Some(ErrorCode::BadLength)),
        (
            sent(0),
            vec![slice(u32::MAX), slice(u32::MAX)],
            Some(ErrorCode::BadLength),
        ),
    ] {
        let post = SendDescriptor::Teardown {
            teardown: &teardown,
            payload: &payload,
        };
        send.post(&post).unwrap();
        send.publish();
        let taken = device.queues[0]
            .send
            .take(&mut Gather::EMPTY.clone())
            .unwrap();
        assert_eq!(taken.command.err().map(|bad| bad.error), error);
        device.queues[0].send.publish();
    }
}

#[test]
fn numbers_without_a_meaning_are_refused() {
    let bad = Some(ErrorCode::BadParameters);
    let install = |change: fn(&mut InstallListener)| {
        let mut install = an_install();
        change(&mut install);
        refused(&words_of(&install.encode()))
    };
    assert_eq!(install(|_| ()), None);
    assert_eq!(install(|install| install.port = 0), bad);
    assert_eq!(install(|install| install.options.mss = 0), bad);
    assert_eq!(
        install(|install| install.options.window_scale = Some(15)),
        bad
    );
    assert_eq!(install(|install| install.options.backlog = 1 << 31), bad);
    assert_eq!(install(|install| install.options.hop_limit = 0), bad);

    let teardown = |change: fn(&mut Teardown)| {
        let mut teardown = a_teardown();
        change(&mut teardown);
        refused(&words_of(&teardown.encode(&[])))
    };
    assert_eq!(teardown(|_| ()), None);
    assert_eq!(teardown(|teardown| teardown.mss = 0), bad);
    assert_eq!(teardown(|teardown| teardown.peer_shift = 15), bad);
    assert_eq!(teardown(|teardown| teardown.our_shift = 15), bad);
    assert_eq!(teardown(|teardown| teardown.hop = MacAddr::BROADCAST), bad);
    assert_eq!(teardown(|teardown| teardown.hop_limit = 0), bad);

    // A rule's number has 16 bits, and so has the size of a packet; an unknown flag is refused.
    for opcode in [9, 10, 11, 15] {
        let mut words = [0; SLOT_WORDS];
        (words[0], words[1]) = (opcode, 1 << 16);
        assert_eq!(refused(&words), bad);
    }
    let install = words_of(&an_install().encode());
    assert_eq!(refused(&with_unknown_flag(install)), bad);
    let teardown = words_of(&a_teardown().encode(&[]));
    assert_eq!(refused(&with_unknown_flag(teardown)), bad);
}

/// Each number of either leg by itself.
#[test]
fn legs_without_a_meaning_are_refused() {
    let leg = |port| Leg {
        flow: FlowKey {
            src: (Ipv4Addr::LOCALHOST.into(), port),
            dst: (Ipv4Addr::LOCALHOST.into(), port + 1),
        },
        hop: MacAddr([2, 0, 0, 0, 0, 9]),
        hop_limit: 1,
        snd_nxt: SeqNum(0),
        rcv_nxt: SeqNum(0),
        peer_window: 0,
        our_window: 0,
        peer_shift: 14,
        our_shift: 14,
        mss: 1,
        our_mss: 1,
        sack: false,
        timestamps: None,
        ecn: false,
        ecn_echo: false,
    };
    let whole = Splice {
        splice: SpliceId(1),
        a: leg(80),
        b: leg(90),
        idle_ms: 0,
    };
    assert_eq!(refused(&words_of(&whole.encode())), None);
    let changes: [fn(&mut Leg); 7] = [
        |leg| leg.mss = 0,
        |leg| leg.our_mss = 0,
        |leg| leg.hop_limit = 0,
        |leg| leg.peer_shift = 15,
        |leg| leg.our_shift = 15,
        |leg| leg.ecn_echo = true,
        |leg| leg.hop = MacAddr::BROADCAST,
    ];
    for (nth, change) in changes.iter().enumerate() {
        let (mut a, mut b) = (whole, whole);
        change(&mut a.a);
        change(&mut b.b);
        for splice in [a, b] {
            let words = words_of(&splice.encode());
            assert_eq!(refused(&words), Some(ErrorCode::BadParameters), "{nth}");
        }
    }
    let mut slot = whole.encode();
    slot.legs[1].options = 0x80;
    assert_eq!(refused(&words_of(&slot)), Some(ErrorCode::BadParameters));
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: ProptestConfig::default().failure_persistence.filter(|_| !cfg!(miri)),
        ..ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 128 })
    })]

    #[test]
    fn listeners_arrive_as_they_were_posted(
        address in address(),
        numbers in any::<[u16; 2]>(),
        (port, mss, backlog) in (1u16.., 1u16.., 0..=i32::MAX as u32),
        window_scale in proptest::option::of(0u8..15),
        (sack, defer) in any::<(bool, bool)>(),
        hop_limit in 1u8..,
    ) {
        let install = InstallListener {
            rule: ListenRuleId(numbers[0]),
            address,
            port,
            options: ListenerOptions {
                mss, window: numbers[1], window_scale, sack, backlog, defer, hop_limit,
            },
        };
        let (command, _) = taken(&SendDescriptor::InstallListener(&install));
        prop_assert_eq!(command.name(), u32::from(numbers[0]));
        prop_assert!(matches!(command, AccelCommand::Install(taken) if taken == install));
        let rule = install.rule;
        let (command, _) = taken(&SendDescriptor::RemoveListener { rule });
        prop_assert!(matches!(command, AccelCommand::Remove(taken) if taken == rule));
        let (command, _) = taken(&SendDescriptor::ListenerCredit { rule, credits: backlog });
        let same = matches!(
            command,
            AccelCommand::Credit { rule: to, credits } if to == rule && credits == backlog
        );
        prop_assert!(same);
    }

    #[test]
    fn teardowns_arrive_as_they_were_posted(teardown in teardown(), count in 0usize..8) {
        let payload = match u64::from(Teardown::payload_limit(teardown.mss)) {
            limit if limit >= 10 * 20 => slices(count),
            _ => Vec::new(),
        };
        let post = SendDescriptor::Teardown { teardown: &teardown, payload: &payload };
        let (command, gathered) = taken(&post);
        prop_assert_eq!(gathered, payload);
        prop_assert_eq!(command.name(), teardown.ticket);
        prop_assert!(matches!(command, AccelCommand::Teardown(taken) if taken == teardown));
    }

    #[test]
    fn splices_arrive_as_they_were_posted(a in leg(), b in leg(), numbers in any::<[u32; 2]>()) {
        let splice = Splice { splice: SpliceId(numbers[0]), a, b, idle_ms: numbers[1] };
        let (command, _) = taken(&SendDescriptor::Splice(&splice));
        prop_assert!(matches!(command, AccelCommand::Splice(taken) if taken == splice));
        let (command, _) = taken(&SendDescriptor::Unsplice { splice: splice.splice });
        prop_assert!(matches!(command, AccelCommand::Unsplice(taken) if taken == splice.splice));
        let (command, _) = taken(&SendDescriptor::QuerySplice { splice: splice.splice });
        prop_assert!(matches!(command, AccelCommand::Query(taken) if taken == splice.splice));
    }

    #[test]
    fn reinjected_frames_arrive_as_they_were_posted(gso_size in any::<u16>()) {
        let frame = slices(1)[0];
        let (command, gathered) = taken(&SendDescriptor::Reinject { frame, gso_size });
        prop_assert_eq!(gathered, vec![frame]);
        let same = matches!(command, AccelCommand::Reinject { gso_size: taken } if taken == gso_size);
        prop_assert!(same);
    }

    #[test]
    fn notices_arrive_as_they_were_pushed(
        (numbers, longs, flags) in any::<([u32; 9], [u64; 4], [bool; 5])>(),
        scale in proptest::option::of(any::<u8>()),
        timestamps in timestamps(),
        reason in prop_oneof![
            Just(SpliceEnd::Finished),
            Just(SpliceEnd::Reset { by: Side::A }),
            Just(SpliceEnd::Reset { by: Side::B }),
            Just(SpliceEnd::Idle),
            Just(SpliceEnd::TakenBack),
        ],
    ) {
        let (mut host, mut device) = pair();
        let pushed = [
            RecvDescriptor::Established(Established {
                rule: ListenRuleId(numbers[0] as u16),
                mss: numbers[1] as u16,
                window_scale: scale,
                sack: flags[0],
                timestamp: numbers[2],
            }),
            RecvDescriptor::AccelRoom(AccelRoom {
                closing: numbers[0],
                splices: numbers[1],
                packet_memory: longs[0],
            }),
            RecvDescriptor::SpliceEnded(SpliceEnded {
                splice: SpliceId(numbers[3]),
                reason,
                bytes: [longs[0], longs[1]],
                packets: [longs[2], longs[3]],
            }),
            RecvDescriptor::SpliceState(SpliceState {
                splice: SpliceId(numbers[3]),
                side: Side::of(usize::from(flags[0])),
                state: LegState {
                    snd_una: SeqNum(numbers[4]),
                    snd_nxt: SeqNum(numbers[5]),
                    rcv_nxt: SeqNum(numbers[6]),
                    peer_window: numbers[7],
                    our_window: numbers[8],
                    forwarded: longs[1],
                    probed: flags[3],
                    fin_sent: flags[1],
                    fin_received: flags[2],
                    timestamps,
                    ecn_echo: flags[4],
                },
            }),
        ];
        for descriptor in pushed {
            prop_assert!(device.queues[0].recv.push(descriptor));
        }
        device.queues[0].recv.publish();
        let recv = &mut host.queues[0].recv;
        let popped: Vec<_> = std::iter::from_fn(|| recv.pop()).collect();
        prop_assert_eq!(popped, pushed);
    }
}
