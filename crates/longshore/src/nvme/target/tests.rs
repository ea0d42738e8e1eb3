//! The end of a target.

use std::cell::Cell;
use std::io;

use anyhow::anyhow;

use super::end;
use crate::shards::tests::endings;

#[test]
fn what_was_written_is_made_durable_whatever_the_target_ends_with() {
    for fails in [false, true] {
        for served in [Ok(()), Err(anyhow!("the interface is gone"))] {
            let expected = match (&served, fails) {
                (Err(error), _) => error.to_string(),
                (Ok(()), true) => "it was told to fail".to_owned(),
                (Ok(()), false) => "what was written last is not all durable".to_owned(),
            };
            let mut others = endings(2);
            others.tell_each(move |shard, _| shard.fails = fails);
            let synced = Cell::new(false);
            let ended = end(served, &mut others, || {
                synced.set(true);
                Err(io::ErrorKind::StorageFull.into())
            });
            assert_eq!(ended.unwrap_err().to_string(), expected);
            assert!(synced.get());
        }
    }
}
