//! Connections whose records the NIC makes: what it does, and what it refuses.

use std::time::Duration;

use attachment::{Direction, Errno, Lifecycle, OffloadState, Order, Resume, SlotRef};
use l5p::tls::{Algorithm, Version};
use wire::tcp::Flags;

use super::program::{CIPHERS, Program, Stretch, keys};
use super::rig::{OURS, PAIRS, PEER, Socket, flow, segment, segment_with};
use crate::SocketPhase;

const CIPHER: (Version, Algorithm) = CIPHERS[3];

fn program(stretches: &[Stretch]) -> Program {
    Program::new(flow(PAIRS[0]), CIPHER, 1000, stretches, 1 << 20)
}

fn greeting_and_records() -> Program {
    let mut program = program(&[Stretch::Plain(100), Stretch::Records(vec![1000; 8])]);
    program.write(usize::MAX).unwrap();
    program
}

fn lifecycle(program: &Program) -> Lifecycle {
    program.slab().slot(0).unwrap().lifecycle()
}

#[test]
fn records_are_made_from_the_position_of_the_keys_on() {
    for cipher in CIPHERS {
        for pair in PAIRS {
            let records = vec![16_384, 0, 1, 5000, 16_384];
            let stretches = [Stretch::Plain(300), Stretch::Records(records)];
            let mut program =
                Program::new(flow(pair), cipher, u32::MAX - 9000, &stretches, 1 << 20);
            program.write(usize::MAX).unwrap();
            assert_eq!(
                program.slot.slot().status(Direction::Transmit, 1),
                OffloadState::Offloaded
            );
            // One segment over the beginning of the fence and all records.
            let all = program.source.len();
            program.send(0, all, 1400, (false, false));
            assert_eq!(program.received(), all);
            assert_eq!(
                program.function.counters().tx_tls_ooo,
                0,
                "all of it is in sequence"
            );
            program.finish(1400).unwrap();
        }
    }
}

#[test]
fn what_is_sent_again_is_what_was_sent_first_whatever_became_of_the_source() {
    let mut program = greeting_and_records();
    program.send(0, 4000, 1400, (false, true));
    let changed = vec![0xee; 2500];
    program.send_bytes(1500, &changed, 1400, (false, false));
    assert_eq!(program.function.counters().tx_tls_source_changed, 1);
    assert!(program.function.counters().tx_tls_ooo > 0);
    program.finish(1400).unwrap();
}

#[test]
fn what_follows_on_a_gap_waits_until_that_is_closed() {
    let mut program = greeting_and_records();
    program.send(0, 500, 1400, (false, false));
    program.send(500, 900, 1400, (true, false));
    program.send(900, 4000, 1400, (false, false));
    assert_eq!(program.received(), 500);
    assert_eq!(program.function.counters().tx_tls_gap_dropped, 1);
    program.send(500, 4000, 1400, (false, false));
    assert_eq!(program.received(), 4000);
}

#[test]
fn a_segment_that_the_peer_has_asks_it_to_say_so_again() {
    let mut program = greeting_and_records();
    program.send(0, 4000, 1400, (false, false));
    program.acknowledge(4000, true);
    let before = program.function.counters().tx_tls_stale;
    program.send(1000, 3000, 1400, (false, false));
    assert_eq!(program.function.counters().tx_tls_stale, before + 1);
    // Its beginning is left out, its end is not.
    program.send(1000, 6000, 1400, (false, false));
    assert_eq!(program.received(), 6000);
}

#[test]
fn a_library_that_sends_no_records_has_its_connection_reset() {
    let mut program = greeting_and_records();
    program.send(0, 500, 1400, (false, false));
    let header = 1100 + 22 - 500;
    let mut bytes = program.source[500..500 + header + 100].to_vec();
    bytes[header..].fill(0xaa);
    program.send_bytes(500, &bytes, 1400, (false, false));
    assert_eq!(program.received(), 500, "nothing of the segment was sent");
    program.drain();
    assert_eq!(program.resets, (1, 1));
    assert_eq!(
        program.slot.slot().status(Direction::Transmit, 1),
        OffloadState::Reset
    );
    // Whoever sends for it is told again, and nothing leaves.
    program.send(500, 4000, 1400, (false, false));
    program.acknowledge(500, false);
    program.poll_wire(false);
    program.drain();
    assert_eq!(program.received(), 500);
    assert!(
        program.resets.0 >= 2 && program.resets.1 >= 2,
        "{:?}",
        program.resets
    );
    let refused = program.set_keys(keys(CIPHER, 9), None);
    assert_eq!(refused, Err(Errno::CONNRESET));
}

#[test]
fn new_keys_in_the_middle_of_a_record_reset_the_connection() {
    let mut program = greeting_and_records();
    program.written = 2000;
    program.set_keys(keys(CIPHER, 9), None).unwrap();
    program.send(0, 2000, 1400, (false, false));
    program.drain();
    assert_eq!(program.resets.0, 1);
}

#[test]
fn a_fragment_between_fenced_addresses_is_dropped() {
    let mut program = greeting_and_records();
    let (mut frame, meta) = segment(
        (OURS, PEER),
        &program.flow,
        1100,
        Flags::ACK,
        &[7; 200],
        1400,
    );
    // The second fragment of something.
    frame[20..22].copy_from_slice(&100u16.to_be_bytes());
    wire::ipv4::fill_checksum(&mut frame[14..34]);
    program
        .function
        .handle_frame(program.now, &frame, nic::FrameMeta::default());
    assert_eq!(program.poll_wire(false), 0);
    assert_eq!(program.function.counters().tx_tls_fenced_dropped, 1);
    let _ = meta;
}

#[test]
fn a_slot_stands_for_one_connection_at_a_time() {
    let mut program = greeting_and_records();
    let slab = std::sync::Arc::new(attachment::Slab::create(1).unwrap());
    let other = SlotRef::new(&slab, 0, 1).unwrap();
    let socket = program.facts();
    let order = |slot| Order::SetKeys {
        slot,
        direction: Direction::Transmit,
        info: keys(CIPHER, 3),
        resume: None,
        socket,
    };
    assert_eq!(
        program.order(order(other.clone())),
        Err(Errno::BUSY),
        "a second slot for the same socket"
    );
    let stop = Order::Stop {
        slot: other,
        direction: Direction::Transmit,
        socket,
    };
    assert_eq!(program.order(stop), Err(Errno::STALE));
}

#[test]
fn a_released_slot_is_free_once_the_socket_has_gone() {
    let mut program = greeting_and_records();
    program.send(0, 4000, 1400, (false, false));
    let slot = program.slot.clone();
    program
        .order(Order::Release { slot: slot.clone() })
        .unwrap();
    program.now += Duration::from_secs(1);
    program.function.handle_timeout(program.now);
    assert_eq!(lifecycle(&program), Lifecycle::InUse { generation: 1 });
    program.close();
    program.now += Duration::from_secs(70);
    program.function.handle_timeout(program.now);
    assert_eq!(lifecycle(&program), Lifecycle::Free { generation: 1 });
    assert_eq!(program.function.connections(), 0);
    let order = Order::Release { slot };
    assert_eq!(program.order(order), Err(Errno::NODEV), "nobody knows it");
}

#[test]
fn after_a_restart_nothing_leaves_until_the_library_is_back() {
    let mut program = greeting_and_records();
    program.send(0, 4000, 1400, (false, true));
    program.restart();
    program.send(0, 6000, 1400, (false, false));
    assert_eq!(program.received(), 0);
    assert_eq!(program.function.counters().tx_tls_fenced_dropped, 1);
    program.resume().unwrap();
    program.finish(1400).unwrap();
    assert_eq!(program.resets, (0, 0));
}

#[test]
fn an_orphan_is_reset_after_a_while() {
    let mut program = greeting_and_records();
    program.send(0, 4000, 1400, (false, true));
    program.restart();
    program.now += Duration::from_secs(29);
    program.function.handle_timeout(program.now);
    program.send(0, 4000, 1400, (false, false));
    assert_eq!(program.resets, (0, 0));
    let due = program.function.poll_timeout().unwrap();
    assert!(
        due <= program.now + Duration::from_secs(1),
        "the end is not slept over"
    );
    program.now += Duration::from_secs(1);
    program.function.handle_timeout(program.now);
    program.send(0, 4000, 1400, (false, false));
    program.drain();
    assert_eq!(program.resets, (1, 1));
    assert_eq!(program.received(), 0);
}

#[test]
fn keys_with_another_record_number_than_before_are_refused() {
    let mut program = greeting_and_records();
    program.send(0, 4000, 1400, (false, true));
    program.restart();
    let resume = Resume {
        tcpsn: program.at(100 + 1022),
        index: keys(CIPHER, 1).sequence + 2,
        read: None,
    };
    assert_eq!(
        program.set_keys(keys(CIPHER, 1), Some(resume)),
        Err(Errno::INVAL)
    );
    assert_eq!(program.function.counters().tls_resets, 1);
}

/// The NIC has noted as many sets as there can be, and died before the library knew of the last one.
#[test]
fn keys_that_nothing_was_sent_under_are_taken_again_after_a_restart() {
    let records = || Stretch::Records(vec![100]);
    let stretches = [
        Stretch::Plain(100),
        records(),
        records(),
        records(),
        records(),
    ];
    let mut program = program(&stretches);
    let boundary = |program: &Program, number: u8| program.at(100 + 122 * usize::from(number));
    program.write(100 + 122 * 3).unwrap();
    program.send(0, 100 + 122 * 3, 1400, (false, true));
    program.restart();
    for number in 1..=3 {
        let info = keys(CIPHER, number);
        let resume = Resume {
            tcpsn: boundary(&program, number),
            index: info.sequence + 1,
            read: None,
        };
        assert_eq!(program.set_keys(info, Some(resume)), Ok(resume.tcpsn));
    }
    let last = program.set_keys(keys(CIPHER, 4), None);
    assert_eq!(last, Ok(boundary(&program, 3)));
    program.send(0, 100 + 122 * 3, 1400, (false, false));
    program.finish(1400).unwrap();
    assert_eq!(program.resets, (0, 0));
}

#[test]
fn a_connection_that_has_not_begun_here_gets_no_help() {
    let mut program = greeting_and_records();
    // Another file: nothing is known.
    program.forget();
    let resume = Resume {
        tcpsn: program.at(100),
        index: keys(CIPHER, 1).sequence,
        read: None,
    };
    for resume in [None, Some(resume)] {
        let refused = program.set_keys(keys(CIPHER, 1), resume);
        assert_eq!(refused, Err(Errno::NODEV));
    }
    assert_eq!(program.function.connections(), 0);
}

/// A library whose first keys were lost on their way may go on without the NIC then.
#[test]
fn a_connection_that_is_not_known_has_nothing_to_stop() {
    let mut program = program(&[Stretch::Plain(100), Stretch::Records(vec![1000; 8])]);
    program.forget();
    for direction in [Direction::Transmit, Direction::Receive] {
        let stop = Order::Stop {
            slot: program.slot.clone(),
            direction,
            socket: program.facts(),
        };
        assert_eq!(program.order(stop), Err(Errno::NOENT));
    }
}

#[test]
fn forged_acknowledgements_change_nothing() {
    let stretches = [
        Stretch::Plain(100),
        Stretch::Records(vec![1000; 2]),
        Stretch::Plain(5000),
    ];
    for is_restarted in [false, true] {
        let mut program = program(&stretches);
        program.write(usize::MAX).unwrap();
        program.send(0, 3000, 1400, (false, false));
        program.acknowledge(3000, false);
        if is_restarted {
            program.restart();
        }
        for (seq, ack) in [(program.at(3000).0, 1 << 30), (program.at(1 << 31).0, 1)] {
            let header = (seq, ack, Flags::ACK);
            let forged = segment_with((OURS, PEER), &program.flow, header, &[], 1400);
            program
                .function
                .handle_frame(program.now, &forged.0, forged.1);
            program.poll_wire(false);
        }
        program.finish(1400).unwrap();
        assert_eq!(program.resets, (0, 0));
    }
}

#[test]
fn sockets_that_are_bound_to_the_interface_are_reset_by_a_driver_without_their_state() {
    let mut program = greeting_and_records();
    program.socket.with(|socket| socket.is_bound = true);
    program.forget();
    assert_eq!(program.function.connections(), 1);
    for restarts in 1..3 {
        program.send(0, 4000, 1400, (false, false));
        program.drain();
        let resets = (restarts, restarts);
        assert_eq!((program.received(), program.resets), (0, resets));
        program.restart();
    }
}

/// What a socket says must agree with what was seen of its connection: it may be another one, whose packets bear other addresses here.
#[test]
fn a_socket_whose_numbers_are_not_those_of_the_connection_gets_no_help() {
    let lies: [fn(&mut Socket); 6] = [
        |socket| socket.flow.src.1 += 1,
        |socket| socket.unacknowledged += 1,
        |socket| socket.write -= 1,
        |socket| socket.receive_next += 1,
        |socket| socket.read += 1,
        |socket| socket.timestamp = Some(5),
    ];
    for (at, lie) in lies.into_iter().enumerate() {
        let mut program = program(&[Stretch::Plain(100), Stretch::Records(vec![1000; 8])]);
        program.write(99).unwrap();
        program.send(0, 99, 1400, (false, false));
        program.acknowledge(99, false);
        let mut other = program.socket.with(|socket| {
            socket.write += 99;
            socket.unacknowledged += 99;
            *socket
        });
        lie(&mut other);
        let order = Order::SetKeys {
            slot: program.slot.clone(),
            direction: Direction::Transmit,
            info: keys(CIPHER, 1),
            resume: None,
            socket: other.facts(),
        };
        assert_eq!(program.order(order), Err(Errno::NODEV), "lie {at}");
        assert_eq!(program.function.connections(), 0);
        program.finish(1400).unwrap();
    }
}

/// Somebody whose packets Linux forwards sends SYNs of the connection's addresses before its keys are there.
#[test]
fn forged_syns_leave_no_connection_with_other_numbers() {
    let mut program = program(&[Stretch::Plain(100), Stretch::Records(vec![1000; 8])]);
    let (ends, flow) = ((OURS, PEER), program.flow);
    let forged = |seq| segment(ends, &flow, seq, Flags::SYN, &[], 1400);
    let (syn, meta) = forged(5_000_000);
    program.function.handle_frame(program.now, &syn, meta);
    program.poll_wire(false);
    assert_eq!(program.write(100), Ok(()), "the socket was connected");

    // Two of them while the socket opens a connection: one is forged.
    let mut program = Program::new(flow, CIPHER, 1000, &[Stretch::Plain(1)], 1 << 20);
    program
        .socket
        .with(|socket| socket.phase = Some(SocketPhase::Opening));
    for seq in [999, 7_000_000] {
        let (syn, meta) = forged(seq);
        program.function.handle_frame(program.now, &syn, meta);
        program.poll_wire(false);
    }
    let answer = Flags::SYN.union(Flags::ACK);
    for ack in [7_000_001, 1000] {
        let (frame, meta) = program.peers_segment(0, wire::SeqNum(ack), answer, &[]);
        program.nic.handle_frame(program.now, &frame, meta);
        program.drain();
    }
    let refused = program.set_keys(keys(CIPHER, 1), None);
    assert_eq!(refused, Err(Errno::NODEV));
}

/// A segment that Linux has not sent gets no record made: who guesses the next sequence number must guess the acknowledgement too.
#[test]
fn a_forged_segment_is_no_part_of_the_stream() {
    let mut program = greeting_and_records();
    program.send(0, 100, 1400, (false, false));
    let record = program.source[100..1122].to_vec();
    for ack in [0x7000_0000, 5000, 0u32.wrapping_sub(100_000)] {
        let header = (program.at(100).0, ack, Flags::ACK);
        let forged = segment_with((OURS, PEER), &program.flow, header, &record, 1400);
        program
            .function
            .handle_frame(program.now, &forged.0, forged.1);
        assert_eq!(program.poll_wire(false), 0);
    }
    program.finish(1400).unwrap();
}

#[test]
fn a_new_connection_of_the_same_addresses_and_ports_is_none_of_the_old_ones_business() {
    let mut program = greeting_and_records();
    program.send(0, 4000, 1400, (false, false));
    program.close();
    let (syn, meta) = segment((OURS, PEER), &program.flow, 9, Flags::SYN, &[], 1400);
    program.function.handle_frame(program.now, &syn, meta);
    assert_eq!(program.function.connections(), 0);
}

#[test]
fn what_a_connection_sends_that_was_taken_for_gone_is_dropped_until_another_begins() {
    let mut program = greeting_and_records();
    program.send(0, 4000, 1400, (false, false));
    program.close();
    program.now += Duration::from_secs(1);
    program.function.handle_timeout(program.now);
    assert_eq!(program.function.connections(), 0);
    program.send(4000, 6000, 1400, (false, false));
    assert_eq!(program.received(), 4000);
    assert_eq!(program.function.counters().tx_tls_fenced_dropped, 1);

    let flow = program.flow;
    let syn = segment((OURS, PEER), &flow, 9, Flags::SYN, &[], 1400);
    let data = segment((OURS, PEER), &flow, 10, Flags::ACK, b"another", 1400);
    let send = |program: &mut Program, frame: &(Vec<u8>, nic::FrameMeta)| {
        program
            .function
            .handle_frame(program.now, &frame.0, frame.1);
        program.function.publish();
        let mut out = vec![0; 70_000];
        let frames = std::iter::from_fn(|| program.nic.poll_transmit(program.now, &mut out));
        frames.count()
    };
    let begin = |program: &Program, phase| {
        program.socket.with(|socket| {
            (socket.cookie, socket.phase) = (78, Some(phase));
        });
    };
    // Anybody can send a SYN, and have it answered.
    let answer = |program: &mut Program| {
        let flags = Flags::SYN.union(Flags::ACK);
        let (frame, meta) = program.peers_segment(0, wire::SeqNum(10), flags, &[]);
        program.nic.handle_frame(program.now, &frame, meta);
        program.drain();
    };
    assert_eq!(send(&mut program, &syn), 1);
    answer(&mut program);
    begin(&program, SocketPhase::Synchronized);
    assert_eq!(send(&mut program, &data), 0, "not of that socket");
    begin(&program, SocketPhase::Opening);
    assert_eq!(send(&mut program, &syn), 1);
    assert_eq!(send(&mut program, &data), 0, "it is not connected");
    answer(&mut program);
    begin(&program, SocketPhase::Synchronized);
    assert_eq!(send(&mut program, &data), 1);
}

/// A container's connection may have got the addresses by translation.
#[test]
fn a_connection_that_has_gone_is_forgotten_after_a_while() {
    let mut program = greeting_and_records();
    program.close();
    program.now += Duration::from_secs(1);
    program.function.handle_timeout(program.now);
    let data = segment((OURS, PEER), &program.flow, 10, Flags::ACK, b"other", 1400);
    for (after, passes) in [(1, false), (100, true)] {
        program.now += Duration::from_secs(after);
        program.function.handle_frame(program.now, &data.0, data.1);
        program.function.publish();
        let mut out = vec![0; 70_000];
        let sent = program.nic.poll_transmit(program.now, &mut out);
        assert_eq!(sent.is_some(), passes);
    }
}

#[test]
fn only_the_socket_itself_begins_another_connection() {
    let mut program = greeting_and_records();
    program.send(0, 4000, 1400, (false, false));
    let (ends, flow) = ((OURS, PEER), program.flow);
    let syn = segment(ends, &flow, 9, Flags::SYN, &[], 1400);
    // A late copy of the SYN-ACK ends nothing, nor does a SYN that the socket has not sent: it is there.
    let flags = Flags::SYN.union(Flags::ACK);
    let copy = segment(ends, &flow, 999, flags, &[], 1400);
    for (frame, meta) in [&copy, &syn] {
        program.now += Duration::from_secs(1);
        program.function.handle_frame(program.now, frame, *meta);
        assert_eq!(program.function.connections(), 1);
    }
    assert_eq!(program.function.counters().tx_tls_forged_syn, 1);
    program.poll_wire(false);
    program.send(4000, 8000, 1400, (false, false));
    assert_eq!(program.received(), 8000, "the connection goes on");

    program
        .socket
        .with(|socket| socket.phase = Some(SocketPhase::Opening));
    program.function.handle_frame(program.now, &syn.0, syn.1);
    assert_eq!(program.function.connections(), 1, "it was asked just now");
    program.now += Duration::from_secs(1);
    program.function.handle_frame(program.now, &syn.0, syn.1);
    assert_eq!(program.function.connections(), 0);
}

#[test]
fn a_connection_that_its_library_has_taken_over_goes_on_after_a_restart_by_itself() {
    let stretches = [
        Stretch::Plain(100),
        Stretch::Records(vec![1000; 2]),
        Stretch::Plain(5000),
    ];
    let mut program = program(&stretches);
    program.write(usize::MAX).unwrap();
    program.send(0, 3000, 1400, (false, false));
    program.acknowledge(3000, false);
    program.restart();
    program.now += Duration::from_secs(60);
    program.function.handle_timeout(program.now);
    program.finish(1400).unwrap();
    assert_eq!(program.resets, (0, 0));
}

#[test]
fn what_is_sent_behind_the_peers_end_goes_on_after_a_restart() {
    let mut program = greeting_and_records();
    program
        .order(Order::SetKeys {
            slot: program.slot.clone(),
            direction: Direction::Receive,
            info: keys(CIPHER, 7),
            resume: None,
            socket: program.facts(),
        })
        .unwrap();
    program.send(0, 4000, 1400, (false, false));
    program.restart();
    program.end_peer();
    let receive = Order::SetKeys {
        slot: program.slot.clone(),
        direction: Direction::Receive,
        info: keys(CIPHER, 7),
        resume: Some(Resume {
            tcpsn: wire::SeqNum(1),
            index: 0,
            read: Some(wire::SeqNum(1)),
        }),
        socket: program.facts(),
    };
    assert_eq!(program.order(receive), Err(Errno::NOTCONN));
    program.resume().unwrap();
    program.finish(1400).unwrap();
    assert_eq!(program.resets, (0, 0));
}

#[test]
fn draining_asks_for_software_and_ends_with_the_last_acknowledgement() {
    let mut program = greeting_and_records();
    program.send(0, 4000, 1400, (false, false));
    program.function.drain();
    assert_eq!(
        program.slot.slot().status(Direction::Transmit, 1),
        OffloadState::Software
    );
    assert_eq!(
        program.set_keys(keys(CIPHER, 2), None),
        Err(Errno::SHUTDOWN)
    );
    assert!(!program.function.is_drained());
    let all = program.source.len();
    program.send(4000, all, 1400, (false, false));
    program.acknowledge(all, false);
    assert!(program.function.is_drained());
}

#[test]
fn retained_memory_is_bounded_and_given_back() {
    let records = Stretch::Records(vec![16_384; 40]);
    let mut program = Program::new(
        flow(PAIRS[0]),
        CIPHER,
        0,
        &[Stretch::Plain(1), records],
        256 << 10,
    );
    program.write(usize::MAX).unwrap();
    let all = program.source.len();
    for from in (0..all).step_by(60_000) {
        program.send(from, (from + 60_000).min(all), 1400, (false, false));
    }
    assert!(program.received() < 256 << 10);
    assert!(program.function.counters().tx_tls_no_room > 0);
    program.finish(1400).unwrap();
    assert_eq!(program.function.counters().tx_tls_fenced_dropped, 0);
}
