use proptest::prelude::*;

use super::*;

fn bytes(seed: u8, len: u32) -> Vec<u8> {
    (0..len).map(|at| seed.wrapping_add(at as u8)).collect()
}

fn store(memory: &mut PacketMemory, bytes: &[u8]) -> Option<Chain> {
    let mut at = 0;
    let stored = memory.store::<()>(bytes.len() as u32, |part| {
        part.copy_from_slice(&bytes[at..at + part.len()]);
        at += part.len();
        Ok(())
    });
    stored.expect("it is written")
}

#[test]
fn a_source_that_fails_leaves_nothing_behind() {
    for parts in 0..5 {
        let mut memory = PacketMemory::new(10);
        let mut left = parts;
        let stored = memory.store(600, |_| {
            left -= 1;
            if left < 0 { Err("unreadable") } else { Ok(()) }
        });
        assert_eq!(stored, Err("unreadable"));
        assert_eq!(memory.free_blocks(), 10);
    }
}

#[test]
fn more_than_there_is_room_for_is_refused() {
    let mut memory = PacketMemory::new(2);
    assert_eq!(store(&mut memory, &bytes(1, 257)), None);
    let chain = store(&mut memory, &bytes(1, 256)).expect("room");
    assert_eq!(store(&mut memory, &bytes(1, 1)), None);
    assert_eq!(memory.release(chain), 2);
    assert!(store(&mut memory, &bytes(1, 1)).is_some());
}

#[derive(Clone, Debug)]
enum Step {
    Store(u32),
    Read(usize, u32, u32),
    Trim(usize, u32),
    Release(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![0u32..5, 120u32..140, 0u32..1500, Just(14_600u32)];
    let which = 0usize..100;
    prop_oneof![
        2 => len.clone().prop_map(Step::Store),
        2 => (which.clone(), 0u32..1000, len.clone()).prop_map(|(which, at, len)| Step::Read(which, at, len)),
        2 => (which.clone(), len).prop_map(|(which, len)| Step::Trim(which, len)),
        1 => which.prop_map(Step::Release),
    ]
}

proptest! {
    /// Each chain reads as it was written, whatever becomes of the others; every block comes back.
    #[test]
    fn chains_keep_their_bytes(steps in prop::collection::vec(step(), 1..100)) {
        const BLOCKS: u32 = 200;
        let mut memory = PacketMemory::new(BLOCKS);
        let mut chains: Vec<(Chain, Vec<u8>)> = Vec::new();
        let mut used = 0;
        for (seed, step) in steps.into_iter().enumerate() {
            match step {
                Step::Store(len) => {
                    let model = bytes(seed as u8, len);
                    let chain = store(&mut memory, &model);
                    prop_assert_eq!(chain.is_some(), used + blocks_for(len) <= BLOCKS);
                    if let Some(chain) = chain {
                        used += blocks_for(len);
                        chains.push((chain, model));
                    }
                }
                Step::Read(which, at, len) if !chains.is_empty() => {
                    let (chain, model) = &chains[which % chains.len()];
                    let at = at.min(model.len() as u32);
                    let len = len.min(model.len() as u32 - at);
                    let mut out = vec![0; len as usize];
                    memory.read(chain, at, &mut out);
                    prop_assert_eq!(&out[..], &model[at as usize..(at + len) as usize]);
                }
                Step::Trim(which, len) if !chains.is_empty() => {
                    let at = which % chains.len();
                    let (chain, model) = &mut chains[at];
                    used -= memory.trim(chain, len);
                    model.drain(..(len as usize).min(model.len()));
                }
                Step::Release(which) if !chains.is_empty() => {
                    let (chain, _) = chains.swap_remove(which % chains.len());
                    used -= memory.release(chain);
                }
                _ => {}
            }
            prop_assert_eq!(memory.free_blocks(), BLOCKS - used);
            let held: u32 = chains.iter().map(|(_, model)| model.len() as u32).sum();
            prop_assert!(used * BLOCK < held + 2 * BLOCK * chains.len() as u32 + 1);
        }
        for (chain, _) in chains {
            memory.release(chain);
        }
        prop_assert_eq!(memory.free_blocks(), BLOCKS);
    }
}
