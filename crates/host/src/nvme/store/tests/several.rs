//! Stores of several threads over the same files and the same memory.

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::super::*;
use super::METHODS;
use super::model::{BLOCKS, agree_on, ops};
use super::rig::{ROOM, Rig, Scratch};

impl Rig {
    /// One for another thread, with memory of its own.
    fn another(&self, method: Method) -> Rig {
        let bell = Doorbell::new().unwrap();
        let mut stores = self.stores.another(&bell, method);
        let region = Arc::new(Region::anonymous(3 * ROOM as usize));
        let memory = stores.add_memory(Arc::clone(&region), true);
        Rig {
            stores,
            region,
            memory,
            bell,
            store: self.store,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn what_one_has_done_the_others_find(ops in ops(), who in proptest::collection::vec(0..3usize, 30), kind in 0..3) {
        let scratch = Scratch::new(&format!("several{kind}"), BLOCKS << 12);
        let first = match kind {
            0 => Rig::new(Method::Auto, |s| s.add_in_memory(BLOCKS << 12, None, false)),
            kind => Rig::file(METHODS[kind as usize - 1], &scratch),
        };
        let others = METHODS.map(|method| first.another(method));
        let mut all: Vec<Rig> = std::iter::once(first).chain(others).collect();
        let mut model = vec![0u8; (BLOCKS << 12) as usize];
        for (op, who) in ops.iter().zip(who) {
            agree_on(&mut all[who], op, &mut model);
        }
    }
}

#[test]
fn whoever_finds_that_a_file_has_grown_tells_it_once() {
    let scratch = Scratch::new("grown", 64 << 10);
    let mut first = Rig::file(Method::Auto, &scratch);
    let mut second = first.another(Method::Threads);
    let file = File::options().write(true).open(&scratch.0).unwrap();
    file.set_len((128 << 10) + 100).unwrap();
    assert_eq!(second.stores.refresh(), [second.store]);
    assert_eq!(first.stores.refresh(), []);
    for rig in [first, second] {
        assert_eq!(rig.stores.info(rig.store).bytes, 128 << 10);
    }
}

/// Each block is of one byte all over, whatever threads do at the same time.
fn stays_whole(block_shift: u8) {
    const COUNT: u64 = 8;
    let len = COUNT << block_shift;
    let mut first = Rig::new(Method::Auto, |stores| {
        stores.add_in_memory(len, Some(block_shift), false)
    });
    let writers = [1, 2].map(|_| first.another(Method::Auto));
    let end = Instant::now() + Duration::from_millis(300);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (seed, mut rig) in (1u8..).step_by(100).zip(writers) {
            let stop = &stop;
            scope.spawn(move || {
                let mut turn = 0u8;
                while !stop.load(Ordering::Relaxed) {
                    turn = (turn + 1) % 100;
                    match turn % 10 {
                        0 => rig.zero(0, len, true).unwrap(),
                        _ => rig.write(0, &vec![seed + turn; len as usize]).unwrap(),
                    }
                }
            });
        }
        let mut seen = std::collections::BTreeSet::new();
        while Instant::now() < end {
            let data = first.read(0, len as u32).unwrap();
            for block in data.chunks(1 << block_shift) {
                assert!(block.iter().all(|byte| *byte == block[0]), "it is torn");
                seen.insert(block[0]);
            }
            // A mixture of two would be no equal of either.
            let compared = first.compare(0, &data);
            assert!(compared == Ok(()) || compared == Err(Status::COMPARE_FAILURE));
        }
        stop.store(true, Ordering::Relaxed);
        assert!(seen.len() > 1, "nothing was written meanwhile");
    });
}

#[test]
fn blocks_of_memory_stay_whole() {
    // Smaller than a page, a page, and larger.
    for block_shift in [9, 12, 16] {
        stays_whole(block_shift);
    }
}
