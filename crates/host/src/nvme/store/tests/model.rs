//! Stores against plain bytes.

use proptest::prelude::*;

use super::super::*;
use super::METHODS;
use super::rig::{Rig, Scratch};

pub const BLOCKS: u64 = 64;

#[derive(Clone, Debug)]
pub enum Op {
    Write(u64, u64, u8),
    Read(u64, u64),
    Compare(u64, u64, bool),
    Zero(u64, u64, bool),
    Deallocate(Vec<(u64, u32)>),
    Flush,
}

fn blocks() -> impl Strategy<Value = (u64, u64)> {
    (0..BLOCKS).prop_flat_map(|start| (Just(start), 1..=BLOCKS - start))
}

pub fn ops() -> impl Strategy<Value = Vec<Op>> {
    let range = (0..BLOCKS).prop_flat_map(|start| (Just(start), 0..=(BLOCKS - start) as u32));
    let op = prop_oneof![
        3 => (blocks(), any::<u8>()).prop_map(|((start, count), seed)| Op::Write(start, count, seed)),
        3 => blocks().prop_map(|(start, count)| Op::Read(start, count)),
        1 => (blocks(), any::<bool>()).prop_map(|((start, count), same)| Op::Compare(start, count, same)),
        1 => (blocks(), any::<bool>()).prop_map(|((start, count), d)| Op::Zero(start, count, d)),
        1 => proptest::collection::vec(range, 1..5).prop_map(Op::Deallocate),
        1 => Just(Op::Flush),
    ];
    proptest::collection::vec(op, 1..30)
}

/// Does the same with a store and with plain bytes.
fn agree(rig: &mut Rig, ops: &[Op]) {
    let mut model = vec![0u8; (BLOCKS << 12) as usize];
    for op in ops {
        agree_on(rig, op, &mut model);
    }
}

pub fn agree_on(rig: &mut Rig, op: &Op, model: &mut [u8]) {
    let range = |start: u64, count: u64| (start << 12) as usize..((start + count) << 12) as usize;
    match op {
        Op::Write(start, count, seed) => {
            let data: Vec<u8> = (0..count << 12)
                .map(|at| (at as u8) ^ (at >> 8) as u8 ^ seed)
                .collect();
            assert_eq!(rig.write(start << 12, &data), Ok(()));
            model[range(*start, *count)].copy_from_slice(&data);
        }
        Op::Read(start, count) => {
            let data = rig.read(start << 12, (count << 12) as u32).unwrap();
            assert!(data == model[range(*start, *count)], "{op:?}");
        }
        Op::Compare(start, count, same) => {
            let mut data = model[range(*start, *count)].to_vec();
            let last = data.len() - 1;
            data[last] ^= u8::from(!same);
            let expected = if *same {
                Ok(())
            } else {
                Err(Status::COMPARE_FAILURE)
            };
            assert_eq!(rig.compare(start << 12, &data), expected);
        }
        Op::Zero(start, count, deallocate) => {
            assert_eq!(rig.zero(start << 12, count << 12, *deallocate), Ok(()));
            model[range(*start, *count)].fill(0);
        }
        Op::Deallocate(ranges) => {
            assert_eq!(rig.deallocate(ranges, BLOCKS), Ok(()));
            for &(start, count) in ranges {
                model[range(start, count.into())].fill(0);
            }
        }
        Op::Flush => assert_eq!(rig.run(Operation::Flush, 0), Ok(())),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_store_holds_what_was_written(ops in ops(), kind in 0..3) {
        match kind {
            0 => agree(&mut Rig::new(Method::Auto, |s| s.add_in_memory(BLOCKS << 12, None, false)), &ops),
            kind => {
                let scratch = Scratch::new(&format!("model{kind}"), BLOCKS << 12);
                agree(&mut Rig::file(METHODS[kind as usize - 1], &scratch), &ops);
            }
        }
    }
}
