use l5p::Layer5;
use proptest::prelude::*;

use super::*;
use crate::context::receive::toy::{self, Toy};

proptest! {
    #[test]
    fn holes_behave_as_a_set(
        adds in prop::collection::vec((1u32..5, 1u32..12), 0..6),
        fills in prop::collection::vec((0u32..80, 1u32..8), 0..30),
    ) {
        let mut holes = Holes::default();
        let mut model = [false; 100];
        let mut at = 0;
        for (skip, len) in adds {
            at += skip - 1;
            if holes.add(at, at + len) {
                model[at as usize..(at + len) as usize].fill(true);
            } else {
                prop_assert_eq!(usize::from(holes.count), HOLES);
            }
            at += len;
        }
        for (from, len) in fills {
            let to = from + len;
            let missing = model[from as usize..to as usize].iter().all(|byte| *byte);
            let can = holes.can_fill(from, to);
            prop_assert!(missing || !can);
            if can {
                holes.fill(from, to);
                model[from as usize..to as usize].fill(false);
            } else if missing {
                prop_assert_eq!(usize::from(holes.count), HOLES);
            }
            let listed: Vec<usize> =
                holes.as_slice().iter().flat_map(|hole| hole.0 as usize..hole.1 as usize).collect();
            let expected: Vec<usize> = (0..100).filter(|at| model[*at]).collect();
            prop_assert_eq!(listed, expected);
        }
    }
}

#[test]
fn the_oldest_message_gives_way() {
    let mut pool = OpenPool::new(1);
    let mut open = OpenMessages::<u64, ()>::new();
    let first = SeqNum(u32::MAX - 150);
    let all = 1 + MESSAGES as u32;
    for n in 0..all {
        assert!(open.miss(&mut pool, first + 100 * n, 100, 50..100, None, || Some(0)));
    }
    assert!(!open.awaits(first + 50, 50), "the oldest");
    for n in 1..all {
        assert!(open.awaits(first + 100 * n + 50, 50), "{n}");
        assert!(!open.awaits(first + 100 * n, 50), "has come");
    }
    assert!(
        !open.awaits(first + 150, 100),
        "runs into bytes that have come"
    );
}

#[test]
fn an_exhausted_pool_refuses_until_memory_comes_back() {
    let mut pool = OpenPool::new(1);
    let mut one = OpenMessages::<u64, ()>::new();
    let mut two = OpenMessages::<u64, ()>::new();
    assert!(one.miss(&mut pool, SeqNum(0), 100, 50..100, None, || Some(0)));
    assert!(!two.miss(&mut pool, SeqNum(0), 100, 50..100, None, || Some(0)));
    one.close(&mut pool, SeqNum(0));
    assert!(two.miss(&mut pool, SeqNum(0), 100, 50..100, None, || Some(0)));
}

#[test]
fn a_late_packet_may_end_one_message_and_begin_in_another() {
    let messages = [toy::seal(9, 0, &[1; 100]), toy::seal(9, 1, &[2; 100])];
    let wire = messages.concat();
    let mut engine = Toy::new(9, true);
    let mut pool = OpenPool::new(1);
    let mut open = OpenMessages::<u64, ()>::new();
    for (n, message) in messages.iter().enumerate() {
        let start = SeqNum(112 * n as u32);
        assert!(open.miss(&mut pool, start, 112, 4..112, None, || Some(n as u64)));
        engine.start(n as u64, &message[..4]);
        engine.transform(4, (&[0; 108]).into(), (&mut [0; 108]).into());
        assert_eq!(engine.finish(), Integrity::Bad);
        assert_eq!(
            open.streamed(&mut pool, start + 111, engine.residue()),
            Streamed::Incomplete
        );
    }
    assert!(!open.awaits(SeqNum(60), 90), "the second header has come");
    let opened = [
        toy::opened(&[1; 100], &messages[0]),
        toy::opened(&[2; 100], &messages[1]),
    ]
    .concat();
    for (from, to) in [(60, 112), (150, 224), (4, 60), (116, 150)] {
        let mut output = vec![0; to - from];
        let seq = SeqNum(from as u32);
        assert!(open.awaits(seq, (to - from) as u32));
        let integrity = open.fill(
            &mut pool,
            &mut engine,
            seq,
            &wire[from..to],
            Some((&mut output).into()),
            |snapshot, _, _| assert!(snapshot.is_none()),
        );
        let complete = from == 4 || from == 116;
        assert_eq!(integrity, complete.then_some(Integrity::Good));
        assert_eq!(output, opened[from..to]);
    }
    assert!(open.0.is_none(), "both are complete");
}
