use proptest::prelude::*;

use super::*;

/// Bytes that are their own positions in the stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Run(pub(crate) Vec<u8>);

impl Chunk for Run {
    fn len(&self) -> u32 {
        self.0.len() as u32
    }

    fn split_off(&mut self, at: u32) -> Self {
        assert!(0 < at && at < self.len());
        Run(self.0.split_off(at as usize))
    }

    fn memory(&self) -> u32 {
        self.len()
    }
}

fn read(queue: &SendQueue<Run>, seq: SeqNum, len: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let covered = queue.slices(seq, len, |chunk, offset, n| {
        bytes.extend_from_slice(&chunk.0[offset as usize..(offset + n) as usize]);
    });
    assert_eq!(covered as usize, bytes.len());
    bytes
}

#[test]
fn what_is_not_held_is_not_given() {
    let mut queue = SendQueue::new(SeqNum(10));
    assert_eq!(queue.push(Run(vec![])), SeqNum(10));
    assert!(queue.is_empty());
    queue.push(Run(vec![1, 2, 3]));
    assert_eq!(read(&queue, SeqNum(9), 5), []);
    assert_eq!(read(&queue, SeqNum(12), 5), [3]);
    assert_eq!(read(&queue, SeqNum(13), 5), []);
}

#[test]
fn chunks_are_counted_from_a_position() {
    let mut queue = SendQueue::new(SeqNum(u32::MAX - 1));
    let first = queue.push(Run(vec![1, 2, 3]));
    let second = queue.push(Run(vec![4]));
    let third = queue.push(Run(vec![5, 6]));
    assert_eq!(queue.start_behind(first, 1), second);
    assert_eq!(queue.start_behind(first + 2, 1), second);
    assert_eq!(queue.start_behind(second, 1), third);
    assert_eq!(queue.start_behind(second, 2), queue.end());
    assert_eq!(queue.start_behind(queue.end(), 1), second);
}

proptest! {
    /// Against a plain vector of bytes.
    #[test]
    fn it_holds_what_was_pushed(
        start: u32,
        pushes in prop::collection::vec(0usize..20, 1..40),
        released in 0u32..300,
        replaced in (0u32..300, 0u32..60),
        changed in (0u32..300, 0u32..60),
        reads in prop::collection::vec((0u32..400, 0u32..100), 1..20),
    ) {
        let start = SeqNum(start);
        let mut queue = SendQueue::new(start);
        let mut all = Vec::new();
        for len in pushes {
            let run: Vec<u8> = (0..len).map(|n| (all.len() + n) as u8).collect();
            prop_assert_eq!(queue.push(Run(run.clone())), start + all.len() as u32);
            all.extend(run);
        }
        let total = all.len() as u32;
        let gone: u32 = queue.release(start + released).map(|run| run.len()).sum();
        prop_assert!(gone <= released);
        prop_assert_eq!(queue.start(), start + gone);
        let from = replaced.0.clamp(gone, total);
        let to = (from + replaced.1).min(total);
        let new: Vec<u8> = (from..to).map(|n| !(n as u8)).collect();
        all[from as usize..to as usize].copy_from_slice(&new);
        queue.replace(start + from..start + to, Run(new));
        let from = changed.0.clamp(gone, total);
        let to = (from + changed.1).min(total);
        all[from as usize..to as usize].iter_mut().for_each(|byte| *byte ^= 0x55);
        let mut next = start + from;
        queue.for_each_mut(start + from..start + to, |at, run| {
            assert_eq!(at, next);
            next += run.len();
            run.0.iter_mut().for_each(|byte| *byte ^= 0x55);
        });
        prop_assert_eq!(next, start + to);
        for (from, len) in reads {
            let from = from.max(gone);
            let expected: Vec<u8> = all.iter().skip(from as usize).take(len as usize).copied().collect();
            prop_assert_eq!(read(&queue, start + from, len), expected);
        }
        let whole: Vec<u8> = queue.iter().flat_map(|(_, run)| run.0.clone()).collect();
        prop_assert_eq!(&whole[..], &all[gone as usize..]);
    }
}
