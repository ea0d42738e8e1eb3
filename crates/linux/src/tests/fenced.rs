//! Connections whose records the NIC makes: what it does, and what it refuses.

use attachment::{Direction, Errno, Lifecycle, OffloadState, SlotRef, SlotRequest};
use wire::SeqNum;
use wire::tcp::Flags;

use super::program::{CIPHER, CIPHERS, Program, Stretch, greeting_and_records, keys};
use super::rig::{OURS, PAIRS, PEER, finished, flow, segment};

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
    // A sender is notified again, and nothing leaves.
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
fn a_fragment_is_dropped_between_fenced_addresses_alone() {
    let mut program = greeting_and_records();
    let others = flow((PAIRS[0].0, "10.0.0.3:443"));
    for (flow, is_dropped) in [(program.flow, true), (others, false)] {
        let (mut frame, _) = segment((OURS, PEER), &flow, 1100, Flags::ACK, &[7; 200], 1400);
        // The second fragment of something.
        frame[20..22].copy_from_slice(&100u16.to_be_bytes());
        wire::ipv4::fill_checksum(&mut frame[14..34]);
        program
            .function
            .handle_frame(program.now, &frame, nic::FrameMeta::default());
        program.function.publish();
        let mut out = vec![0; 2000];
        let sent = program.nic.poll_transmit(program.now, &mut out);
        match is_dropped {
            true => assert_eq!(sent, None),
            false => assert_eq!(&out[..sent.unwrap().0], &frame[..]),
        }
        assert_eq!(program.function.counters().tx_tls_fenced_dropped, 1);
    }
}

#[test]
fn a_slot_stands_for_one_connection_at_a_time() {
    let mut program = greeting_and_records();
    let slab = std::sync::Arc::new(attachment::Slab::create(1).unwrap());
    let other = SlotRef::new(&slab, 0, 1).unwrap();
    let socket = program.facts();
    let order = |slot| SlotRequest::SetKeys {
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
    let stop = SlotRequest::Stop {
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
        .order(SlotRequest::Release {
            slot: slot.clone(),
            cookie: 0,
            tenant: 0,
        })
        .unwrap();
    program.wait(1);
    assert_eq!(lifecycle(&program), Lifecycle::InUse { generation: 1 });
    program.close();
    program.wait(70);
    assert_eq!(lifecycle(&program), Lifecycle::Free { generation: 1 });
    assert_eq!(program.function.connections(), 0);
    let order = SlotRequest::Release {
        slot,
        cookie: 0,
        tenant: 0,
    };
    assert_eq!(program.order(order), Err(Errno::NODEV), "it is unknown");
}

/// A parent closes a socket that it has shared with a child, and the NIC has been restarted: it knows of the connection by the socket's cookie.
#[test]
fn a_slot_released_behind_a_restart_is_free_once_the_socket_has_gone() {
    for takes_over in [false, true] {
        let mut program = greeting_and_records();
        program.send(0, 4000, 1400, (false, true));
        program.restart();
        let facts = program.facts();
        let release = |slot: &SlotRef, tenant| SlotRequest::Release {
            slot: slot.clone(),
            cookie: facts.cookie,
            tenant,
        };
        let slot = program.slot.clone();
        assert_eq!(
            program.order(release(&slot, 99_999)),
            Err(Errno::NODEV),
            "of another user"
        );
        assert_eq!(program.order(release(&slot, facts.tenant)), Ok(SeqNum(0)));
        let slab = std::sync::Arc::new(attachment::Slab::create(1).unwrap());
        let other = SlotRef::new(&slab, 0, 1).unwrap();
        assert_eq!(
            program.order(release(&other, facts.tenant)),
            Err(Errno::NODEV),
            "it has a slot"
        );
        assert_eq!(lifecycle(&program), Lifecycle::InUse { generation: 1 });
        if takes_over {
            program.resume().unwrap();
            program.finish(1400).unwrap();
            assert_eq!(program.resets, (0, 0));
        }
        program.close();
        program.wait(70);
        assert_eq!(program.function.connections(), 0);
        let is_free = lifecycle(&program) == Lifecycle::Free { generation: 1 };
        assert_eq!(is_free, !takes_over, "the child has not released it");
    }
}

/// The NIC makes none of its records, so it need not know its headers.
#[test]
fn a_segment_that_the_nic_does_not_know_leaves_if_only_the_other_direction_is_offloaded() {
    let records = [Stretch::Plain(100), Stretch::Records(vec![1000; 8])];
    let mut program = Program::new(flow(PAIRS[1]), CIPHER, 1000, &records, 1 << 20);
    program.set_receive_keys(None).unwrap();
    let seq = program.at(0).0;
    let segment = segment(
        (OURS, PEER),
        &program.flow,
        seq,
        Flags::ACK,
        &[7; 100],
        1400,
    );
    let (mut frame, meta) = finished(&segment);
    // A hop-by-hop header (RFC 8200 §4.3) of padding before TCP's.
    let len = u16::from_be_bytes([frame[18], frame[19]]) + 8;
    frame[18..20].copy_from_slice(&len.to_be_bytes());
    frame[20] = 0;
    frame.splice(54..54, [6, 0, 1, 4, 0, 0, 0, 0]);
    program.handle(&(frame.clone(), meta));
    program.function.publish();
    let mut out = vec![0; 2000];
    let sent = program.nic.poll_transmit(program.now, &mut out);
    assert_eq!(&out[..sent.expect("it leaves").0], &frame[..]);
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
