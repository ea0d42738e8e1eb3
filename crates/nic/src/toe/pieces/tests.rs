use proptest::prelude::*;

use super::*;
use crate::ring::RegionId;

const FIRST: SeqNum = SeqNum(u32::MAX - 100);

fn passes(context: u32) -> Passes {
    Passes {
        context: Some(ContextId(context)),
        flags: SendFlags::NONE,
    }
}

/// A slice whose offset is its first byte's place in the stream.
fn slice(at: u32, len: u32) -> Slice {
    Slice {
        offset: at.into(),
        len,
        region: RegionId(1),
    }
}

proptest! {
    /// A segment has the bytes that it names, all of one context, and what was acknowledged is gone.
    #[test]
    fn segments_have_their_bytes(
        lens in prop::collection::vec((1u32..3000, 0u32..3), 1..60),
        steps in prop::collection::vec((0.0f64..1.0, 1u32..70_000, any::<bool>()), 1..40),
    ) {
        let mut pool = Pool::new();
        let mut queue = Queue::at(FIRST);
        let mut contexts = Vec::new();
        for (len, context) in lens {
            pool.append(&mut queue, &[slice(contexts.len() as u32, len)], passes(context));
            contexts.resize(contexts.len() + len as usize, context);
        }
        let total = contexts.len() as u32;
        let mut una = 0;
        let mut gather = Gather::EMPTY;
        for (part, bytes, acknowledge) in steps {
            let from = una + (f64::from(total - una) * part) as u32;
            let found = pool.gather(&mut queue, FIRST + from, bytes, &mut gather);
            if from == total {
                prop_assert!(found.is_none());
                continue;
            }
            let (len, how) = found.unwrap();
            prop_assert!(len > 0 && len <= bytes && gather.len() == u64::from(len));
            let mut at = u64::from(from);
            for slice in gather.slices() {
                prop_assert_eq!(slice.offset, at);
                at += u64::from(slice.len);
            }
            let end = (from + len) as usize;
            let one = contexts[from as usize..end].iter().all(|c| how == passes(*c));
            prop_assert!(one);
            prop_assert_eq!(pool.passes_at(&queue, FIRST + from), Some(how));
            if acknowledge {
                una = from;
                pool.release_before(&mut queue, FIRST + una);
            }
        }
        pool.clear(&mut queue);
        prop_assert_eq!(queue.room(), MAX_TOE_SLICES);
        let used = pool.pieces.len();
        pool.append(&mut queue, &[slice(0, 5)], passes(0));
        prop_assert_eq!(pool.pieces.len(), used, "what is free is used again");
    }
}
