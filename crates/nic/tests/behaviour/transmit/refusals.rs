use l5p::tls::Direction;
use testkit::bare::{CONTEXT, MEMORY, Memory, Message};
use testkit::fixtures::{PEER, SUITES};
use wire::tcp::Flags;
use wire::{FlowKey, SeqNum, packet};

use super::stream::*;
use super::*;
use nic::ring::{
    ContextId, CreateContext, ErrorCode, FunctionConfig, RecvDescriptor, RegionId, SendDescriptor,
    SendFlags, Slice, Verify, function,
};

const HEADER_FLAGS: Flags = Flags::PSH;

/// Posts a `Send` and gives its error completion; nothing may reach the wire.
fn refused(rig: &mut Rig, send: SendDescriptor<'_>) -> ErrorCode {
    let refused_before = rig.counters().tx_errors;
    let index = rig.post(&send);
    assert_eq!(rig.frames(), []);
    assert_eq!(rig.counters().tx_errors, refused_before + 1);
    let [(at, error)] = rig.host.errors()[..] else {
        panic!("one error");
    };
    assert_eq!(at, index);
    let send = &mut rig.host.queues[0].send;
    assert_eq!(send.completed(), send.posted(), "the ring goes on");
    error
}

fn send<'a>(
    header: &'a [u8],
    mss: u16,
    context: Option<ContextId>,
    payload: &'a [Slice],
) -> SendDescriptor<'a> {
    SendDescriptor::Send {
        header,
        mss,
        context,
        flags: SendFlags::CHECKSUM,
        payload,
    }
}

fn destroy(context: u32) -> SendDescriptor<'static> {
    SendDescriptor::DestroyContext {
        context: ContextId(context),
    }
}

#[test]
fn memory_outside_the_function_is_refused() {
    let mut rig = plain();
    let header = rig.header(SeqNum(0), HEADER_FLAGS);
    // Another function's memory has an id there, not here.
    let (other, _device) = function(FunctionConfig::new(PEER));
    for _ in 0..3 {
        Memory::register(&other, 4096);
    }
    let inside = rig.slice(0, 10);
    for slice in [
        rig.slice(MEMORY as u64 - 9, 10),
        rig.slice(u64::MAX, 10),
        rig.slice(u64::MAX - 5, 10),
        Slice {
            region: RegionId(2),
            ..inside
        },
    ] {
        let refused = refused(&mut rig, send(&header, 0, None, &[inside, slice]));
        assert_eq!(refused, ErrorCode::BadMemory);
    }
}

#[test]
fn headers_that_do_not_fit_are_refused() {
    let mut rig = plain();
    let header = rig.header(SeqNum(0), HEADER_FLAGS);
    let mut foreign = header.clone();
    foreign[6] ^= 4;
    let syn = rig.header(SeqNum(0), Flags::SYN);
    for (header, mss, len, why) in [
        (&header[..], 0, 1461, ErrorCode::TooLarge),
        (&header, 1461, 1461, ErrorCode::TooLarge),
        (&header[..13], 0, 1000, ErrorCode::BadHeader),
        (&header[..53], 100, 1000, ErrorCode::BadHeader),
        (&foreign, 0, 1000, ErrorCode::BadHeader),
        (&syn, 100, 1000, ErrorCode::BadHeader),
    ] {
        let payload = [rig.slice(0, len)];
        assert_eq!(refused(&mut rig, send(header, mss, None, &payload)), why);
    }
}

#[test]
fn contexts_are_checked_before_anything_leaves() {
    let mut rig = plain();
    let stream = Stream::new(&rig, SUITES[0], SeqNum(50), &[1000, 1000]);
    let (flow, layers) = (rig.flow, Layers::of(&stream.crypto));
    let create = |context, flow, direction| CreateContext {
        context: ContextId(context),
        direction,
        flow,
        tcpsn: SeqNum(50),
        layers: layers.clone(),
    };
    let payload = [rig.slice(0, 500)];
    let send_at = |rig: &mut Rig, seq, context| {
        let header = rig.header(SeqNum(seq), HEADER_FLAGS);
        refused(rig, send(&header, 0, Some(ContextId(context)), &payload))
    };
    assert_eq!(send_at(&mut rig, 50, 0), ErrorCode::NoContext);
    rig.post(&SendDescriptor::CreateContext(&create(
        0,
        flow,
        Direction::Transmit,
    )));
    for (context, why) in [(0, ErrorCode::ContextExists), (4, ErrorCode::OverQuota)] {
        let again = create(context, flow, Direction::Transmit);
        let again = SendDescriptor::CreateContext(&again);
        assert_eq!(refused(&mut rig, again), why);
    }

    // Before the offload's start or across it, out of sequence: all the same, plaintext must not leave.
    for seq in [49, 51] {
        assert_eq!(send_at(&mut rig, seq, 0), ErrorCode::OutOfSequence);
    }
    let other = FlowKey {
        src: (flow.src.0, 444),
        ..flow
    };
    rig.post(&SendDescriptor::CreateContext(&create(
        1,
        other,
        Direction::Transmit,
    )));
    assert_eq!(send_at(&mut rig, 50, 1), ErrorCode::WrongFlow);
    assert_eq!(rig.nic.counters().named("tx_tls_drop_no_sync_data"), 2);
    assert_eq!(rig.nic.counters().tx_drop_no_context, 2);

    assert_eq!(refused(&mut rig, destroy(3)), ErrorCode::NoContext);
    rig.post(&destroy(1));
    assert_eq!(send_at(&mut rig, 50, 1), ErrorCode::NoContext);
    // The context was not moved: the right packet still goes.
    rig.send(SeqNum(50), 0, Some(CONTEXT), SendFlags::NONE, &payload);
    let segments = rig.segments();
    stream.check(&segments[0].0, &segments[0].1);
}

#[test]
fn a_stream_without_a_header_where_one_must_be_is_refused() {
    let mut rig = plain();
    let stream = Stream::new(&rig, SUITES[3], SeqNum(0), &[100, 100]);
    rig.create(SeqNum(0), &Layers::of(&stream.crypto));
    // The second record's header is destroyed.
    rig.host
        .memory
        .region
        .write(u64::from(stream.records[1].start.0), b"HTTP/1.1 200 OK");
    let all = stream.slices(&rig, stream.start, stream.end(), 5000);
    rig.send(SeqNum(0), 1448, Some(CONTEXT), SendFlags::NONE, &all);
    rig.send(SeqNum(0), 1448, Some(CONTEXT), SendFlags::NONE, &all);
    assert_eq!(rig.frames(), []);
    assert_eq!(
        rig.host.codes(),
        [ErrorCode::NotAHeader, ErrorCode::OutOfSequence]
    );
    // A recovery before the damage helps.
    rig.recover(&stream.records[0], SeqNum(0), &[], Verify::None);
    let first = stream.slices(&rig, stream.start, stream.records[1].start, 5000);
    rig.send(SeqNum(0), 1448, Some(CONTEXT), SendFlags::NONE, &first);
    assert_eq!(rig.segments().len(), 1);
}

#[test]
fn a_recovery_that_contradicts_the_message_is_refused() {
    let mut rig = plain();
    let stream = Stream::new(&rig, SUITES[3], SeqNum(0), &[100, 100]);
    rig.create(SeqNum(0), &Layers::of(&stream.crypto));
    let first = stream.records[0];
    let prefix = stream.slices(&rig, first.start, first.start + 50, 100);
    let wrong_len = Message {
        len: first.len + 1,
        ..first
    };
    rig.recover(&wrong_len, first.start + 50, &prefix, Verify::None);
    let not_a_start = Message {
        start: first.start + 1,
        ..first
    };
    let from_inside = stream.slices(&rig, first.start + 1, first.start + 50, 100);
    rig.recover(&not_a_start, first.start + 50, &from_inside, Verify::None);
    rig.recover(&first, first.start + 51, &prefix, Verify::None);
    rig.recover(&first, first.start + first.len, &[], Verify::None);
    assert_eq!(rig.frames(), []);
    assert_eq!(
        rig.host.codes(),
        [
            ErrorCode::BadMessage,
            ErrorCode::NotAHeader,
            ErrorCode::BadLength,
            ErrorCode::BadLength
        ]
    );
}

#[test]
fn a_recovery_of_a_message_longer_than_any_reads_nothing() {
    let mut rig = plain();
    let stream = Stream::new(&rig, SUITES[3], SeqNum(0), &[700, 700]);
    rig.create(SeqNum(0), &Layers::of(&stream.crypto));
    let endless = Message {
        len: u32::MAX,
        ..stream.records[0]
    };
    let prefix = stream.slices(&rig, stream.start, stream.end(), 400);
    rig.recover(&endless, stream.end(), &prefix, Verify::None);
    assert_eq!(rig.frames(), []);
    assert_eq!(rig.host.errors()[0].1, ErrorCode::BadLength);
    assert_eq!(rig.nic.counters().pcie_recovery, 0);
}

#[test]
fn error_completions_wait_for_room_and_hold_the_ring_up_meanwhile() {
    let mut rig = plain();
    let bad = destroy(3);
    let mut posted = 0;
    for _ in 0..4 {
        while rig.host.queues[0].send.free(1) > 0 {
            rig.post(&bad);
            posted += 1;
        }
        assert_eq!(rig.frames(), []);
    }
    let mut reported = 0;
    loop {
        let errors = rig.host.errors().len();
        if errors == 0 {
            break;
        }
        reported += errors;
        rig.frames();
    }
    assert!(posted > 256 + 64);
    assert_eq!(reported, posted, "each is reported once");
}

/// A host takes a descriptor that comes back without a refusal as carried out.
#[test]
fn a_refused_descriptor_comes_back_when_its_host_is_told() {
    let mut rig = plain();
    let bad = destroy(3);
    // The receive ring becomes full, then the send ring.
    for _ in 0..2 {
        while rig.host.queues[0].send.free(1) > 0 {
            rig.post(&bad);
        }
        assert_eq!(rig.frames(), []);
        let queue = &mut rig.host.queues[0];
        assert_eq!(queue.send.completed(), queue.recv.posted());
    }
    assert_eq!(rig.host.queues[0].send.free(1), 0);
    // Room in the one makes room in the other, though no descriptor may be worked off.
    let mut reported = rig.host.errors().len();
    rig.nic.flush(rig.now);
    assert!(rig.host.queues[0].send.free(1) > 0);
    loop {
        rig.frames();
        let queue = &mut rig.host.queues[0];
        assert_eq!(queue.send.completed(), queue.recv.posted());
        match rig.host.errors().len() {
            0 => break,
            errors => reported += errors,
        }
    }
    let send = &mut rig.host.queues[0].send;
    assert_eq!(reported as u64, send.posted());
    assert_eq!(send.completed(), send.posted());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever is in the ring, the device answers each descriptor by a frame, an effect or an error, and goes on;
    /// and what it lets out for a context's flow is never plaintext.
    #[test]
    fn any_descriptors_are_survived(
        slots in slots(prop_oneof![Just(1u8), Just(3), Just(4), Just(5), Just(8), 0u8..=255]),
        sent in 0u32..1500,
    ) {
        let mut rig = plain();
        let stream = Stream::new(&rig, SUITES[3], SeqNum(0), &[700, 700]);
        rig.create(SeqNum(0), &Layers::of(&stream.crypto));
        let header = rig.header(SeqNum(0), HEADER_FLAGS);
        let slices = stream.slices(&rig, stream.start, stream.start + sent.min(stream.len()), 400);
        rig.post(&send(&header, 300, Some(CONTEXT), &slices));
        post_slots(&mut rig, &slots, &header, 4);
        for (frame, _) in rig.frames() {
            if let Ok(parsed) = packet::parse(&frame)
                && parsed.tcp.seq.is_within(stream.start, stream.len())
                && parsed.payload(&frame).len() > 40
            {
                let plain = [PLAIN; 24];
                // Without a context's id a host may send what it likes; with one, only ciphertext.
                if !slots.iter().any(bypasses) {
                    prop_assert!(!frame.windows(24).any(|window| window == plain));
                }
            }
        }
        let send = &mut rig.host.queues[0].send;
        prop_assert!(send.completed() == send.posted() || rig.host.errors().len() >= 64);
    }
}

/// A packet beside where its context is: before the integrity value of a record whose keys allow it, from memory that
/// does not change, and right behind its command.
#[test]
fn packets_aside_are_refused_where_they_cannot_be_made() {
    for suite in SUITES {
        let seekable = crypto(suite).is_seekable();
        let mut rig = plain();
        let stream = Stream::new(&rig, suite, SeqNum(0), &[1000, 1000]);
        rig.create(SeqNum(0), &Layers::of(&stream.crypto));
        let all = stream.slices(&rig, stream.start, stream.records[1].start, 5000);
        rig.send(SeqNum(0), 1448, Some(CONTEXT), SendFlags::NONE, &all);
        assert_eq!(rig.frames().len(), 1);
        let record = stream.records[0];
        let icv = record.start + record.len - 16;
        let mut again = |from: SeqNum, to: SeqNum, mutable: bool| {
            rig.recover(&record, from, &[], Verify::Seek);
            let header = rig.header(from, HEADER_FLAGS);
            let payload = stream.slices(&rig, from, to, 5000);
            let flags = match mutable {
                true => SendFlags::CHECKSUM.union(SendFlags::MUTABLE_SOURCE),
                false => SendFlags::CHECKSUM,
            };
            rig.post(&SendDescriptor::Send {
                header: &header,
                mss: 0,
                context: Some(CONTEXT),
                flags,
                payload: &payload,
            });
            let frames = rig.frames().len();
            (frames, rig.host.errors().first().map(|error| error.1))
        };
        let expected = |error: Option<ErrorCode>| match seekable {
            true => (usize::from(error.is_none()), error),
            false => (0, Some(ErrorCode::Unsupported)),
        };
        let (from, to) = (record.start + 300, record.start + 900);
        assert_eq!(again(from, to, false), expected(None));
        assert_eq!(again(from, icv, false), expected(None));
        assert_eq!(
            again(from, icv + 1, false),
            expected(Some(ErrorCode::BadLength))
        );
        assert_eq!(again(from, to, true), expected(Some(ErrorCode::Unverified)));
        // A host can't have the device make gigabytes of keystream.
        let endless = Message {
            len: u32::MAX,
            ..record
        };
        rig.recover(&endless, from, &[], Verify::Seek);
        let header = rig.header(from, HEADER_FLAGS);
        let payload = stream.slices(&rig, from, to, 5000);
        let error = refused(&mut rig, send(&header, 0, Some(CONTEXT), &payload));
        assert_eq!(Some(error), expected(Some(ErrorCode::BadLength)).1);
        // It is for the next packet only, and for that place.
        rig.recover(&record, from, &[], Verify::Seek);
        let header = rig.header(from + 1, HEADER_FLAGS);
        let payload = stream.slices(&rig, from + 1, to, 5000);
        let elsewhere = send(&header, 0, Some(CONTEXT), &payload);
        assert_eq!(refused(&mut rig, elsewhere), ErrorCode::OutOfSequence);
        let header = rig.header(from, HEADER_FLAGS);
        let payload = stream.slices(&rig, from, to, 5000);
        let late = send(&header, 0, Some(CONTEXT), &payload);
        assert_eq!(refused(&mut rig, late), ErrorCode::OutOfSequence);
        // A malformed packet uses it up too.
        rig.recover(&record, from, &[], Verify::Seek);
        let mut wrong = [0; _];
        wrong[0] = u64::from_le_bytes([1, 4, 0, 0, 0, 0, 0, 0]);
        rig.host.queues[0].send.post_raw(&wrong).unwrap();
        assert_eq!(rig.frames(), []);
        let errors = rig.host.errors();
        assert_eq!(errors.last().unwrap().1, ErrorCode::BadParameters);
        let header = rig.header(from, HEADER_FLAGS);
        let payload = stream.slices(&rig, from, to, 5000);
        let late = send(&header, 0, Some(CONTEXT), &payload);
        assert_eq!(refused(&mut rig, late), ErrorCode::OutOfSequence);
        // The context was left alone.
        let next = stream.records[1].start;
        let payload = stream.slices(&rig, next, stream.end(), 5000);
        rig.send(next, 0, Some(CONTEXT), SendFlags::NONE, &payload);
        assert_ne!(stream.check_segments(&mut rig), 0, "the next packet");
    }
}

/// A host that names a context by mistake is told at once.
#[test]
fn a_packet_aside_of_no_context_is_refused_with_its_command() {
    let mut rig = plain();
    let stream = Stream::new(&rig, SUITES[0], SeqNum(50), &[1000]);
    let record = stream.records[0];
    rig.recover(&record, record.start + 9, &[], Verify::Seek);
    let receives = SendDescriptor::CreateContext(&CreateContext {
        context: CONTEXT,
        direction: nic::ring::Direction::Receive,
        flow: rig.flow.reversed(),
        tcpsn: SeqNum(0),
        layers: Layers::of(&stream.crypto),
    });
    rig.post(&receives);
    rig.recover(&record, record.start + 9, &[], Verify::Seek);
    assert_eq!(rig.frames(), []);
    let taken = rig.host.take().into_iter();
    let refused = taken.filter_map(|descriptor| match descriptor {
        RecvDescriptor::Completion {
            context,
            tcpsn,
            error,
            ..
        } => Some((context, tcpsn, error)),
        _ => None,
    });
    let missing = (Some(CONTEXT), record.start, ErrorCode::NoContext);
    assert_eq!(refused.collect::<Vec<_>>(), [missing; 2]);
}
