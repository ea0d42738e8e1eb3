use crate::copy::PIECE;
use crate::{Input, Output, SharedSlice, SharedSliceMut};

fn counted(len: usize) -> Vec<u8> {
    (0..len).map(|byte| byte as u8).collect()
}

#[test]
fn every_length_around_a_piece_is_copied_whole() {
    let from = counted(3 * PIECE + 7);
    for len in [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, from.len()] {
        let mut to = vec![0; len];
        Input::from(&from[..len]).copy_to(&mut to);
        assert_eq!(to, from[..len]);
    }
}

#[test]
fn shared_memory_is_read_and_written_in_parts() {
    let mut memory = counted(100);
    let start = memory.as_mut_ptr();
    // SAFETY: `memory` lives as long, and is not used but by these.
    let (from, to) = unsafe {
        (
            SharedSlice::from_raw_parts(start, 100),
            SharedSliceMut::from_raw_parts(start, 100),
        )
    };
    let (front, back) = from.split_at(30);
    assert_eq!((front.len(), back.len()), (30, 70));
    assert_eq!(back.to_vec(), counted(100)[30..]);

    let (_, behind) = Output::from(to).split_at(90);
    behind.copy_from(front.split_at(10).0);
    to.split_at(1).0.copy_from(&[77]);
    let now = from.to_vec();
    assert_eq!((now[0], &now[90..]), (77, &counted(10)[..]));
}

#[test]
fn what_was_read_stays_when_the_memory_changes() {
    use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
    let memory: Vec<AtomicU8> = (0..64).map(|_| AtomicU8::new(0)).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for byte in &memory {
                    byte.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        // SAFETY: `memory` lives as long; an atomic byte is laid out as a byte.
        let shared = unsafe { SharedSlice::from_raw_parts(memory.as_ptr().cast(), memory.len()) };
        for _ in 0..10_000 {
            let mut read = [0; 64];
            shared.copy_to(&mut read);
            let sum: u32 = read.iter().map(|byte| u32::from(*byte)).sum();
            let again: u32 = read.iter().map(|byte| u32::from(*byte)).sum();
            assert_eq!(sum, again);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
#[should_panic(expected = "differ in length")]
fn a_copy_of_another_length_is_refused() {
    Input::from(&[1, 2, 3]).copy_to(&mut [0; 4]);
}
