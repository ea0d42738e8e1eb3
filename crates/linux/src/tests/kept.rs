//! Super-frames of records that are retained where they were read.

use wire::tcp::Flags;

use super::program::{CIPHERS, Program, Stretch};
use super::rig::{OURS, PAIRS, PEER, checked, flow, pattern, segment};
use crate::state::MAX_PIECE;

fn program() -> Program {
    let stretches = [Stretch::Plain(300), Stretch::Records(vec![16_384; 16])];
    let mut program = Program::new(flow(PAIRS[0]), CIPHERS[4], 7, &stretches, 1 << 20);
    program.write(usize::MAX).unwrap();
    program
}

/// Where the next frame is read to.
fn place(program: &mut Program) -> (*const u8, usize) {
    let room = program.function.room().unwrap();
    (room.frame.as_ptr(), room.frame.len())
}

#[test]
fn a_block_with_a_super_frame_of_records_stays_and_the_next_one_goes_elsewhere() {
    let mut program = program();
    program.send(0, 50_000, 1400, (false, false));
    let (first, len) = place(&mut program);
    assert_eq!(
        len, MAX_PIECE as usize,
        "the next one will probably be retained"
    );
    program.send(50_000, 110_000, 1400, (false, false));
    let (second, _) = place(&mut program);
    assert_ne!(second, first, "it has been");
    // A small one is copied.
    program.send(110_000, 112_000, 1400, (false, false));
    program.send(112_000, 170_000, 1400, (false, true));
    // Again, from the middle of what is in the blocks, whatever the source has become.
    let mut changed = program.source[60_000..120_000].to_vec();
    program.change(60_000, &mut changed);
    program.send_bytes(60_000, &changed, 1400, (false, false));
    program.acknowledge(112_000, false);
    program.finish(1400).unwrap();
    assert_eq!(program.function.counters().tx_tls_no_room, 0);
}

#[test]
fn a_super_frame_that_fills_its_block_stays_there() {
    let mut program = program();
    program.send(0, 50_000, 1400, (false, false));
    let (first, len) = place(&mut program);
    let (empty, _) = segment((OURS, PEER), &flow(PAIRS[0]), 1, Flags::ACK, &[], 1400);
    program.send(50_000, 50_000 + len - empty.len(), 1400, (false, false));
    assert_ne!(place(&mut program).0, first);
    program.finish(1400).unwrap();
}

#[test]
fn blocks_are_found_again_after_a_restart() {
    let mut program = program();
    program.send(0, 50_000, 1400, (false, true));
    program.send(50_000, 110_000, 1400, (false, true));
    program.send(110_000, 170_000, 1400, (false, true));
    program.restart();
    program.resume().unwrap();
    assert_eq!(program.function.counters().tx_tls_source_changed, 0);
    program.send(40_000, 100_000, 1400, (false, false));
    program.send(100_000, 170_000 - 5_000, 1400, (false, false));
    assert_eq!(
        program.function.counters().tx_tls_source_changed,
        0,
        "what is retained is what was sent"
    );
    program.finish(1400).unwrap();
}

#[test]
fn a_frame_that_is_longer_than_a_block_is_sent_whole() {
    let mut program = program();
    program.send(0, 50_000, 1400, (false, false));
    assert_eq!(place(&mut program).1, MAX_PIECE as usize);
    let payload = pattern(usize::from(u16::MAX) - 40);
    let other = flow(PAIRS[0]).reversed();
    let (frame, meta) = segment((OURS, PEER), &other, 1, Flags::ACK, &payload, 1400);
    assert!(frame.len() > MAX_PIECE as usize);
    program.function.handle_frame(program.now, &frame, meta);
    program.function.publish();
    let mut arrived = Vec::new();
    let mut out = vec![0; 70_000];
    while let Some((len, meta)) = program.nic.poll_transmit(program.now, &mut out) {
        let (_, bytes) = checked(&(out[..len].to_vec(), meta));
        arrived.extend(bytes);
    }
    assert!(arrived == payload, "{} bytes", arrived.len());
}

#[test]
fn memory_that_waits_for_a_frame_is_given_up_for_one_that_has_none() {
    let records = vec![16_384; 16];
    let mut program = Program::new(
        flow(PAIRS[0]),
        CIPHERS[4],
        7,
        &[Stretch::Records(records)],
        128 << 10,
    );
    program.write(usize::MAX).unwrap();
    let all = program.source.len();
    for from in (0..all).step_by(40_000) {
        program.send(from, (from + 40_000).min(all), 1400, (false, false));
    }
    assert!(program.function.counters().tx_tls_no_room > 0);
    program.finish(1400).unwrap();
}
