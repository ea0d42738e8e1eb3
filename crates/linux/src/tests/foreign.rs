//! Connections that are not what they seem, and segments of others.

use std::net::Ipv4Addr;
use std::time::Duration;

use attachment::{Direction, Errno, SlotRequest};
use wire::FlowKey;
use wire::tcp::Flags;

use super::program::{
    CIPHER, Program, Stretch, greeting_and_records, greeting_records_and_plain, keys, program,
    resume,
};
use super::rig::{OURS, PAIRS, PEER, Socket, flow, segment, segment_with};
use crate::SocketPhase;

#[test]
fn a_connection_that_has_not_begun_here_gets_no_help() {
    let mut program = greeting_and_records();
    // Another file: nothing is known.
    program.forget();
    let resume = resume(program.at(100), keys(CIPHER, 1).sequence);
    for resume in [None, Some(resume)] {
        let refused = program.set_keys(keys(CIPHER, 1), resume);
        assert_eq!(refused, Err(Errno::NODEV));
    }
    assert_eq!(program.function.connections(), 0);
}

#[test]
fn forged_acknowledgements_change_nothing() {
    for is_restarted in [false, true] {
        let mut program = greeting_records_and_plain();
        program.send(0, 3000, 1400, (false, false));
        program.acknowledge(3000, false);
        if is_restarted {
            program.restart();
        }
        for (seq, ack) in [(program.at(3000).0, 1 << 30), (program.at(1 << 31).0, 1)] {
            let header = (seq, ack, Flags::ACK);
            let forged = segment_with((OURS, PEER), &program.flow, header, &[], 1400);
            program.handle(&forged);
            program.poll_wire(false);
        }
        program.finish(1400).unwrap();
        assert_eq!(program.resets, (0, 0));
    }
}

#[test]
fn what_is_acknowledged_in_a_vlan_is_retained_still() {
    let mut program = greeting_and_records();
    program.send(0, 3000, 1400, (false, true));
    let (mut frame, meta) = program.peers_segment(1, program.at(3000), Flags::ACK, &[]);
    frame.splice(12..12, [0x81, 0, 0, 5]);
    program.nic.handle_frame(program.now, &frame, meta);
    assert_eq!(program.drain(), 1);
    program.finish(1400).unwrap();
    assert_eq!(program.resets, (0, 0));
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
        let order = SlotRequest::SetKeys {
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

/// A stranger whose packets Linux forwards sends SYNs of the connection's addresses before its keys are there.
#[test]
fn forged_syns_leave_no_connection_with_other_numbers() {
    let mut program = program(&[Stretch::Plain(100), Stretch::Records(vec![1000; 8])]);
    let (ends, flow) = ((OURS, PEER), program.flow);
    let forged = |seq| segment(ends, &flow, seq, Flags::SYN, &[], 1400);
    let syn = forged(5_000_000);
    program.handle(&syn);
    program.poll_wire(false);
    assert_eq!(program.write(100), Ok(()), "the socket was connected");

    // Two of them while the socket opens a connection: one is forged.
    let mut program = Program::new(flow, CIPHER, 1000, &[Stretch::Plain(1)], 1 << 20);
    program.set_phase(SocketPhase::Opening);
    for seq in [999, 7_000_000] {
        let syn = forged(seq);
        program.handle(&syn);
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

/// So many SYNs that Linux can't be asked about all of them.
fn flood(program: &mut Program, from: impl Fn(u32) -> FlowKey) {
    let mut out = vec![0; 2000];
    for number in 0..20_000 {
        let syn = segment((OURS, PEER), &from(number), number, Flags::SYN, &[], 1400);
        program.handle(&syn);
        program.function.publish();
        while program.nic.poll_transmit(program.now, &mut out).is_some() {}
        program.function.publish();
    }
}

#[test]
fn a_flood_of_forwarded_syns_keeps_no_socket_from_help() {
    let mut program = program(&[Stretch::Plain(100), Stretch::Records(vec![1000; 8])]);
    let flow = program.flow;
    flood(&mut program, |number| FlowKey {
        src: (Ipv4Addr::from_bits(0x0b00_0000 + number).into(), 5),
        ..flow
    });
    assert!(program.function.counters().tls_untracked > 5000);
    let (socket, now) = (program.socket.clone(), program.now);
    socket.open(&mut program.nic, &mut program.function, now);
    assert_eq!(program.write(100), Ok(()));
    program.finish(1400).unwrap();
}

/// What is known of a connection is forgotten with a SYN that Linux was not asked about: one of both may be forged.
#[test]
fn a_connection_that_begins_unasked_gets_no_help() {
    let flow = flow(PAIRS[0]);
    let mut program = Program::new(flow, CIPHER, 1000, &[Stretch::Plain(1)], 1 << 20);
    program.set_phase(SocketPhase::Opening);
    let syn = |program: &mut Program, seq| {
        let syn = segment((OURS, PEER), &flow, seq, Flags::SYN, &[], 1400);
        program.handle(&syn);
        program.poll_wire(false);
    };
    syn(&mut program, 7_000_000);
    flood(&mut program, |number| FlowKey {
        src: (flow.src.0, 2000 + number as u16),
        ..flow
    });
    syn(&mut program, 999);
    let answer = Flags::SYN.union(Flags::ACK);
    let (frame, meta) = program.peers_segment(0, wire::SeqNum(7_000_001), answer, &[]);
    program.nic.handle_frame(program.now, &frame, meta);
    program.drain();
    let refused = program.set_keys(keys(CIPHER, 1), None);
    assert_eq!(refused, Err(Errno::NODEV));
}

/// Many fenced connections must not have Linux asked without bound: the socket is taken to be there, and sends its SYN again.
#[test]
fn a_flood_leaves_no_question_for_a_fenced_connections_addresses() {
    let mut program = greeting_and_records();
    let flow = program.flow;
    flood(&mut program, |number| FlowKey {
        src: (flow.src.0, 2000 + number as u16),
        ..flow
    });
    program.set_phase(SocketPhase::Opening);
    let (syn, meta) = segment((OURS, PEER), &flow, 9, Flags::SYN, &[], 1400);
    for left in [1, 0] {
        program.function.handle_frame(program.now, &syn, meta);
        assert_eq!(program.function.connections(), left);
        program.now += Duration::from_secs(1);
    }
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
        program.handle(&forged);
        assert_eq!(program.poll_wire(false), 0);
    }
    program.finish(1400).unwrap();
}

#[test]
fn a_new_connection_of_the_same_addresses_and_ports_is_none_of_the_old_ones_business() {
    let mut program = greeting_and_records();
    program.send(0, 4000, 1400, (false, false));
    program.close();
    let syn = segment((OURS, PEER), &program.flow, 9, Flags::SYN, &[], 1400);
    program.handle(&syn);
    assert_eq!(program.function.connections(), 0);
}

#[test]
fn what_a_connection_sends_that_was_taken_for_gone_is_dropped_until_another_begins() {
    let mut program = greeting_and_records();
    program.send(0, 4000, 1400, (false, false));
    program.close();
    program.wait(1);
    assert_eq!(program.function.connections(), 0);
    program.send(4000, 6000, 1400, (false, false));
    assert_eq!(program.received(), 4000);
    assert_eq!(program.function.counters().tx_tls_fenced_dropped, 1);

    let flow = program.flow;
    let syn = segment((OURS, PEER), &flow, 9, Flags::SYN, &[], 1400);
    let data = segment((OURS, PEER), &flow, 10, Flags::ACK, b"another", 1400);
    let send = |program: &mut Program, frame: &(Vec<u8>, nic::FrameMeta)| {
        program.handle(frame);
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
    program.wait(1);
    let data = segment((OURS, PEER), &program.flow, 10, Flags::ACK, b"other", 1400);
    for (after, passes) in [(1, false), (100, true)] {
        program.now += Duration::from_secs(after);
        program.handle(&data);
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

    program.set_phase(SocketPhase::Opening);
    program.handle(&syn);
    assert_eq!(program.function.connections(), 1, "it was asked just now");
    program.now += Duration::from_secs(1);
    program.handle(&syn);
    assert_eq!(program.function.connections(), 0);
}
