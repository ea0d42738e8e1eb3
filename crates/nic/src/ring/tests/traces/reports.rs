//! The receive ring: what each report takes in memory, and what a host makes of what is wrong in it.

use l5p::{Note, ResourceId};
use tcp::{CloseReason, TimeWaitEntry};
use wire::SeqNum;
use zerocopy::IntoBytes;

use super::super::super::accel::*;
use super::super::super::layout::RECV_WORDS;
use super::super::super::toe::*;
use super::super::super::*;
use super::samples::TOE;
use super::{alter, clip, compare, words};

const SLICE: Slice = Slice {
    offset: 0x0102_0304_0506_0708,
    len: 0x1112_1314,
    region: RegionId(0x2122),
};
const CONTEXT: ContextId = ContextId(0x0a0b_0c0d);
const SEQ: SeqNum = SeqNum(0x3132_3334);

/// Reports of all kinds, with values that tell fields from each other.
fn samples() -> Vec<RecvDescriptor> {
    let mut samples = packets();
    samples.extend(of_contexts());
    samples.extend(of_the_device());
    samples.extend(of_connections().into_iter().map(RecvDescriptor::Toe));
    samples
}

fn packets() -> Vec<RecvDescriptor> {
    let packet = Packet {
        buffer: SLICE,
        header_len: 0x4142,
        payload_len: 0x0001_5152,
        segments: 0x6162,
        context: Some(CONTEXT),
        processed: Processed::by_layers(0b1011, true),
        placed: 0x7172,
        notes: 0x73,
        checksum_ok: true,
        hash: 0x8182_8384,
        hash_type: Some(HashType::UdpIpv6),
    };
    let plain = Packet {
        context: None,
        processed: Processed::NONE,
        checksum_ok: false,
        hash_type: None,
        ..packet
    };
    let inner = Packet {
        processed: Processed::by_layers(0b10, true),
        hash_type: Some(HashType::Ipv4),
        ..packet
    };
    [packet, plain, inner].map(RecvDescriptor::Packet).to_vec()
}

fn of_contexts() -> Vec<RecvDescriptor> {
    let note = |at: u32| Note {
        at,
        code: 0x91,
        value: 0x0000_a1a2,
    };
    let inner = InnerPlace {
        layer: 3,
        offset: 0xb1b2_b3b4,
    };
    let (context, tcpsn) = (CONTEXT, SEQ);
    let request = |inner| RecvDescriptor::ResyncRequest {
        context,
        tcpsn,
        inner,
    };
    let completion = |context, error| RecvDescriptor::Completion {
        send_index: 0xc1c2_c3c4_c5c6_c7c8,
        context,
        tcpsn,
        error,
    };
    let resource = ResourceId(0xd1d2);
    vec![
        RecvDescriptor::Placed {
            at: 0x9192_9394,
            slice: SLICE,
            tag: 0xa1a2,
        },
        RecvDescriptor::Notes {
            notes: [note(1), note(0x0002_0304), note(u32::MAX)],
            count: 2,
        },
        request(None),
        request(Some(inner)),
        completion(Some(CONTEXT), ErrorCode::BadOpcode),
        completion(None, ErrorCode::NoResource),
        RecvDescriptor::Resource {
            resource,
            error: None,
        },
        RecvDescriptor::Resource {
            resource,
            error: Some(ErrorCode::BadParameters),
        },
        RecvDescriptor::Reset { epoch: 0xe1e2_e3e4 },
    ]
}

const TIMES: TimestampState = TimestampState {
    recent: 0x4142_4344,
    value: 0x5152_5354,
};

fn of_the_device() -> Vec<RecvDescriptor> {
    let established = |window_scale, sack| {
        RecvDescriptor::Established(Established {
            rule: ListenRuleId(0x0102),
            mss: 0x0304,
            window_scale,
            sack,
            timestamp: 0x0506_0708,
        })
    };
    let splice = SpliceId(0x2122_2324);
    let ended = |reason| {
        RecvDescriptor::SpliceEnded(SpliceEnded {
            splice,
            reason,
            bytes: [0x3132_3334_3536_3738, 0x4142],
            packets: [0x5152, 0x6162_6364_6566_6768],
        })
    };
    let leg = |side: Side, flags: [bool; 4], timestamps| {
        RecvDescriptor::SpliceState(SpliceState {
            splice,
            side,
            state: LegState {
                snd_una: SEQ,
                snd_nxt: SEQ + 0x0101,
                rcv_nxt: SeqNum(0x7172_7374),
                peer_window: 0x8182_8384,
                our_window: 0x9192_9394,
                forwarded: 0xa1a2_a3a4_a5a6_a7a8,
                probed: flags[0],
                fin_sent: flags[1],
                fin_received: flags[2],
                timestamps,
                ecn_echo: flags[3],
            },
        })
    };
    let mut samples = vec![
        established(Some(11), false),
        established(None, true),
        RecvDescriptor::AccelRoom(AccelRoom {
            closing: 0xb1b2_b3b4,
            splices: 0xc1c2_c3c4,
            packet_memory: 0xd1d2_d3d4_d5d6_d7d8,
        }),
        leg(Side::A, [true, false, true, false], Some(TIMES)),
        leg(Side::B, [false, true, false, true], None),
    ];
    samples.extend((0..=u8::MAX).filter_map(SpliceEnd::from_byte).map(ended));
    samples
}

fn of_connections() -> Vec<ToeEvent> {
    let toe = TOE;
    let entry = TimeWaitEntry {
        snd_nxt: SEQ,
        rcv_nxt: SEQ + 0x0202,
        rcv_wnd: 0x0001_0203,
        window: 0x0405,
        timestamps: Some((0x0607_0809, 0x1617_1819)),
    };
    let without = TimeWaitEntry {
        timestamps: None,
        ..entry
    };
    let (context, tcpsn) = (CONTEXT, SEQ);
    let mut events = vec![
        ToeEvent::Ready { toe },
        ToeEvent::Accepted { toe },
        ToeEvent::Delivered {
            toe,
            seq: SEQ,
            skip: 0x2122_2324,
            len: 0x3132_3334,
            rcv_nxt: SEQ + 0x0303,
            snd_una: SEQ + 0x0404,
            flight: 0x4142_4344,
        },
        ToeEvent::Acked {
            toe,
            snd_una: SEQ,
            flight: 0x5152_5354,
        },
        ToeEvent::PeerFin { toe, rcv_nxt: SEQ },
        ToeEvent::Recover {
            toe,
            context,
            tcpsn,
            sent: SEQ + 0x0505,
        },
        ToeEvent::Room {
            soft_limit: 0x6162_6364,
            active: 0x7172_7374,
        },
        ToeEvent::CommandFailed {
            index: 0x8182_8384_8586_8788,
            context: Some(context),
            tcpsn,
            error: ErrorCode::SpliceMss,
        },
    ];
    let numbers = || 0..=u8::MAX;
    let closed = numbers().filter_map(close_from_byte).map(|reason| {
        let time_wait = match reason {
            CloseReason::Graceful => Some(entry),
            CloseReason::Reset => Some(without),
            _ => None,
        };
        ToeEvent::Closed {
            toe,
            reason,
            time_wait,
        }
    });
    events.extend(closed);
    let refused = numbers().filter_map(|byte| RefuseReason::from_bytes(byte, 3));
    events.extend(refused.map(|reason| ToeEvent::Refused { toe, reason }));
    let restored = numbers().filter_map(|byte| RestoreReason::from_bytes(byte, 4, Some(context)));
    events.extend(restored.map(|reason| ToeEvent::Restored { toe, reason }));
    events
}

#[test]
#[cfg_attr(miri, ignore = "it reads a file")]
fn reports_are_as_written_down() {
    let mut lines = Vec::new();
    for sample in samples() {
        let encoded = sample.to_words();
        assert_eq!(RecvDescriptor::from_words(&encoded), Some(sample));
        let told = format!("{sample:?}").replace("RecvDescriptor::", "");
        lines.push(clip(&format!("{} {told}", words(encoded))));
    }
    compare("reports", &lines);
}

#[test]
#[cfg_attr(miri, ignore = "it reads a file")]
fn what_a_host_makes_of_wrong_bytes_is_as_written_down() {
    let mut lines = Vec::new();
    for sample in samples() {
        let mut encoded = sample.to_words();
        let name = format!("{sample:?}");
        let name = name.get(..40).unwrap_or(&name).to_owned();
        let read = alter(encoded.as_mut_bytes(), 0..8 * RECV_WORDS, |bytes| {
            let mut words = [0; RECV_WORDS];
            words.as_mut_bytes().copy_from_slice(bytes);
            let ahead = RecvDescriptor::delivered_to(&[words[0], words[1]]);
            let read = RecvDescriptor::from_words(&words);
            let name = match &read {
                None => "nothing",
                Some(read) if *read == sample => "the same",
                Some(_) => "another",
            };
            (name.to_owned(), format!("{read:?} {ahead:?}"))
        });
        lines.push(clip(&format!("{name}: {read}")));
    }
    compare("wrong_reports", &lines);
}

/// Which layers have processed a packet, by every set of them.
#[test]
#[cfg_attr(miri, ignore = "it reads a file")]
fn what_layers_have_done_is_as_written_down() {
    let mut lines = Vec::new();
    for replaces in [false, true] {
        for layers in 0..=u8::MAX {
            let processed = Processed::by_layers(layers, replaces);
            let by: String = (0..5)
                .map(|layer| if processed.by(layer) { '1' } else { '0' })
                .collect();
            lines.push(format!("{layers} {by} {}", processed.is_replaced()));
        }
    }
    let lines = testkit::written::shorten(lines, 20);
    compare("processed", &lines);
}
