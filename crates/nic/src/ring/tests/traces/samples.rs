//! Descriptors of all kinds, with values that tell fields from each other.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use l5p::nvme::Role;
use l5p::tls::{Algorithm, CryptoInfo, Version};
use l5p::{Layers, ProtocolId, ResourceId};
use testkit::fixtures::{flow, flow_v6, nvme};
use wire::SeqNum;
use wire::ethernet::MacAddr;

use super::super::super::accel::*;
use super::super::super::toe::{ToeCommand, ToeId, ToeOffer, ToeOption};
use super::super::super::*;

pub(super) const TOE: ToeId = ToeId {
    index: 0x0102_0304,
    generation: 0x0506_0708,
};
const HOP: MacAddr = MacAddr([2, 0x11, 0x22, 0x33, 0x44, 0x55]);
const CONTEXT: ContextId = ContextId(0x0a0b_0c0d);

/// So many slices, all different.
fn slices(count: u32) -> Vec<Slice> {
    (0..count)
        .map(|n| Slice {
            offset: (u64::from(n) << 40) + 7,
            len: 100 + n,
            region: RegionId(3 + n as u16),
        })
        .collect()
}

fn bytes(slices: &[Slice]) -> u32 {
    slices.iter().map(|slice| slice.len).sum()
}

/// Calls `each` with every descriptor and its name.
pub(super) fn each(mut each: impl FnMut(&str, &SendDescriptor<'_>)) {
    packets(&mut each);
    contexts(&mut each);
    recoveries(&mut each);
    resources(&mut each);
    listeners(&mut each);
    handed_over(&mut each);
    connections(&mut each);
}

type Each<'a> = &'a mut dyn FnMut(&str, &SendDescriptor<'_>);

fn packets(each: Each<'_>) {
    let header: Vec<u8> = (1..=MAX_HEADER_LEN as u8).collect();
    let both = SendFlags::CHECKSUM.union(SendFlags::MUTABLE_SOURCE);
    for (name, header_len, mss, context, flags, count) in [
        ("send", 54, 1448, None, SendFlags::CHECKSUM, 1),
        ("send, nothing", 0, 0, Some(CONTEXT), SendFlags::NONE, 0),
        ("send, all of it", 128, 0x1234, Some(CONTEXT), both, 36),
        (
            "send, a slice more",
            67,
            9,
            None,
            SendFlags::MUTABLE_SOURCE,
            4,
        ),
    ] {
        let payload = slices(count);
        each(
            name,
            &SendDescriptor::Send {
                header: &header[..header_len],
                mss,
                context,
                flags,
                payload: &payload,
            },
        );
    }
}

fn crypto() -> CryptoInfo {
    CryptoInfo {
        version: Version::Tls12,
        algorithm: Algorithm::Aes256Gcm,
        key: std::array::from_fn(|at| 100 + at as u8),
        iv: std::array::from_fn(|at| 50 + at as u8),
        sequence: 0x1122_3344_5566_7788,
    }
}

fn contexts(each: Each<'_>) {
    let [v4, v6] = [flow(50_000), flow_v6(50_001)];
    let inner = nvme(Role::Host, true, false);
    let (rx, tx) = (Direction::Receive, Direction::Transmit);
    for (name, direction, flow, layers) in [
        ("create, TLS", tx, v4, Layers::of(&crypto())),
        ("create, NVMe", rx, v6, Layers::of(&inner)),
        (
            "create, both",
            rx,
            v4,
            Layers::of(&crypto()).carrying(&inner),
        ),
    ] {
        let create = CreateContext {
            context: CONTEXT,
            direction,
            flow,
            tcpsn: SeqNum(0x7766_5544),
            layers,
        };
        each(name, &SendDescriptor::CreateContext(&create));
    }
    each(
        "destroy",
        &SendDescriptor::DestroyContext { context: CONTEXT },
    );
    for count in [1, 16] {
        let add = SendDescriptor::AddRrState {
            context: CONTEXT,
            tag: 0x4321,
            slices: &slices(count),
        };
        each(&format!("map {count}"), &add);
    }
    let (context, tag) = (CONTEXT, 0x4321);
    each("unmap", &SendDescriptor::DelRrState { context, tag });
    let place = InnerPlace {
        layer: 2,
        offset: 0x0f0e_0d0c,
    };
    for (confirmed, inner) in [(true, None), (false, Some(place))] {
        let response = ResyncResponse {
            context,
            tcpsn: SeqNum(0x1020_3040),
            inner,
            confirmed,
            index: 0x0a09_0807_0605_0403,
        };
        each("answer", &SendDescriptor::ResyncResponse(response));
    }
}

fn recoveries(each: Each<'_>) {
    let inner = Some(InnerRecover {
        index: 0x1112_1314_1516_1718,
        len: 1000,
        offset: 30,
    });
    for (name, verify, count, more, inner, toe) in [
        ("recover", Verify::None, 2, 9, None, None),
        (
            "recover for a connection",
            Verify::None,
            9,
            1,
            None,
            Some(TOE),
        ),
        ("recover inside", Verify::None, 3, 5, inner, None),
        ("recover, whole", Verify::WholeMessage, 3, 0, None, None),
        (
            "recover, whole inside",
            Verify::WholeMessage,
            3,
            0,
            inner,
            None,
        ),
        ("recover, frontier", Verify::Frontier, 3, 2, inner, None),
        ("recover, seek", Verify::Seek, 0, 50, None, None),
    ] {
        let prefix = slices(count);
        let offset = inner.map_or(0, |inner: InnerRecover| inner.offset);
        let len = bytes(&prefix).saturating_sub(offset) + more;
        let before = match verify {
            Verify::WholeMessage => len - 20,
            Verify::Seek => 40,
            _ => len - more,
        };
        let recover = RecoverContext {
            context: CONTEXT,
            start: SeqNum(u32::MAX - 5),
            index: 0x2122_2324_2526_2728,
            len,
            resume: SeqNum(u32::MAX - 5) + before,
            verify,
            inner,
            toe,
        };
        each(
            name,
            &SendDescriptor::RecoverContext {
                recover,
                prefix: &prefix,
            },
        );
    }
}

fn resources(each: Each<'_>) {
    let (resource, one) = (ResourceId(0x0708), slices(1)[0]);
    let load = SendDescriptor::LoadResource {
        resource,
        protocol: ProtocolId(3),
        bytes: one,
    };
    each("load", &load);
    each("unload", &SendDescriptor::UnloadResource { resource });
    let settings = Slice {
        len: RSS_BYTES as u32,
        ..one
    };
    each("set RSS", &SendDescriptor::SetRss { settings });
    each("query RSS", &SendDescriptor::QueryRss { into: settings });
    let groups = [1, 2].map(|n| MacAddr([0x33, 0x33, 0, 0, 0, n]));
    for filter in [MulticastFilter::of(&groups), MulticastFilter::ALL] {
        each("set filter", &SendDescriptor::SetFilter(&filter));
    }
    let reinject = SendDescriptor::Reinject {
        frame: one,
        gso_size: 1440,
    };
    each("reinject", &reinject);
}

fn listeners(each: Each<'_>) {
    let rule = ListenRuleId(0x0b0c);
    let addresses: [IpAddr; 2] = [
        Ipv4Addr::new(10, 1, 2, 3).into(),
        Ipv6Addr::new(0xfd00, 1, 2, 3, 4, 5, 6, 7).into(),
    ];
    for (address, window_scale, sack, defer) in [
        (addresses[0], Some(14), false, true),
        (addresses[1], None, true, false),
    ] {
        let install = InstallListener {
            rule,
            address,
            port: 0x1f90,
            options: ListenerOptions {
                mss: 1460,
                window: 0x8765,
                window_scale,
                sack,
                backlog: 0x0012_3456,
                defer,
                hop_limit: 61,
            },
        };
        each("listen", &SendDescriptor::InstallListener(&install));
    }
    each("listen no more", &SendDescriptor::RemoveListener { rule });
    let credits = 0x0908_0706;
    each("credit", &SendDescriptor::ListenerCredit { rule, credits });
}

const TIMES: TimestampState = TimestampState {
    recent: 0x3132_3334,
    value: 0x4142_4344,
};

fn handed_over(each: Each<'_>) {
    for (name, flow, peer_closed, timestamps, count) in [
        ("teardown", flow(50_002), true, None, 0),
        ("teardown with data", flow_v6(50_003), false, Some(TIMES), 5),
    ] {
        let payload = slices(count);
        let snd_una = SeqNum(u32::MAX - 100);
        let teardown = Teardown {
            ticket: 0x5152_5354,
            flow,
            hop: HOP,
            hop_limit: 62,
            peer_closed,
            snd_una,
            snd_nxt: snd_una + bytes(&payload) / 2,
            rcv_nxt: SeqNum(0x6162_6364),
            peer_window: 0x0001_7172,
            peer_shift: 3,
            our_shift: 14,
            window: 0x8182,
            mss: 1400,
            timestamps,
            rto_us: 0x0003_9192,
            retransmits: 7,
            time_wait_ms: 60_001,
            fin_wait2_ms: 60_002,
        };
        let teardown = SendDescriptor::Teardown {
            teardown: &teardown,
            payload: &payload,
        };
        each(name, &teardown);
    }
    let leg = |flow, side: u8, ecn, ecn_echo| Leg {
        flow,
        hop: MacAddr([2, side, 3, 4, 5, 6]),
        hop_limit: 60 + side,
        snd_nxt: SeqNum(0x0101_0101 * u32::from(side)),
        rcv_nxt: SeqNum(0x1010_1010 * u32::from(side)),
        peer_window: 70_000 + u32::from(side),
        our_window: 80_000 + u32::from(side),
        peer_shift: 5 + side,
        our_shift: 10 + side,
        mss: 1400 + u16::from(side),
        our_mss: 1300 + u16::from(side),
        sack: side == 1,
        timestamps: (side == 2).then_some(TIMES),
        ecn,
        ecn_echo,
    };
    for (a, b, marks) in [
        (flow(1), flow_v6(2), [true, false, true]),
        (flow_v6(3), flow(4), [false, false, false]),
    ] {
        let splice = Splice {
            splice: SpliceId(0x0e0f_1011),
            a: leg(a, 1, marks[0], marks[1]),
            b: leg(b, 2, marks[2], marks[2]),
            idle_ms: 0x0002_0003,
        };
        each("splice", &SendDescriptor::Splice(&splice));
    }
    let splice = SpliceId(0x0e0f_1011);
    each("unsplice", &SendDescriptor::Unsplice { splice });
    each("query a splice", &SendDescriptor::QuerySplice { splice });
}

fn command(each: Each<'_>, name: &str, command: ToeCommand<'_>) {
    each(name, &SendDescriptor::Toe(command));
}

fn connections(each: Each<'_>) {
    let toe = TOE;
    for flow in [flow(50_004), flow_v6(50_005)] {
        command(each, "begin", ToeCommand::Begin { toe, flow });
        let offer = ToeOffer {
            toe,
            flow,
            hop: HOP,
            hop_limit: 63,
            tcb: slices(1)[0],
        };
        command(each, "offer", ToeCommand::Offer(&offer));
    }
    command(each, "cancel", ToeCommand::Cancel { toe });
    command(each, "restore", ToeCommand::Restore { toe });
    command(each, "close", ToeCommand::Close { toe });
    command(each, "abort", ToeCommand::Abort { toe });
    command(each, "detach", ToeCommand::Detach { toe });
    let bytes = 0x0c0d_0e0f;
    command(each, "consumed", ToeCommand::Consumed { toe, bytes });
    for (context, flags, count) in [
        (Some(CONTEXT), SendFlags::MUTABLE_SOURCE, 1),
        (None, SendFlags::CHECKSUM, 42),
    ] {
        let payload = slices(count);
        let send = ToeCommand::Send {
            toe,
            seq: SeqNum(0x7172_7374),
            context,
            flags,
            payload: &payload,
        };
        command(each, "send of a connection", send);
    }
    for on in [false, true] {
        for option in [ToeOption::NoDelay(on), ToeOption::Cork(on)] {
            command(each, "option", ToeCommand::Option { toe, option });
        }
    }
    let resume = ToeCommand::Resume {
        toe,
        context: CONTEXT,
        tcpsn: SeqNum(0x2829_2a2b),
        len: 0x0003_0201,
    };
    command(each, "resume", resume);
}
