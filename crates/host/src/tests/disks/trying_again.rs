//! Requests that fail in a way that may pass.

use super::*;
use crate::disk::{Access, Commands, Geometry, Operation, RequestFailure};

const DISK: Geometry = Geometry {
    size: 1 << 20,
    block_len: 512,
    max_request: 1 << 20,
    is_read_only: false,
    has_cache: true,
};
const FLUSH: Access = Access {
    operation: Operation::Flush,
    offset: 0,
    len: 0,
};

/// A flush that the peer answers so as `answer` says, and how long it took.
fn flush(
    answer: impl Fn(u32) -> Result<(), bool>,
) -> (Result<(), RequestFailure<bool>>, u32, Duration) {
    let mut pair = Pair::new();
    let address = SocketAddr::new(v4(SERVER), PORT);
    let mut now = pair.now;
    let socket = pair.stack(CLIENT).connect(now, address).unwrap();
    let mut commands = Commands::<bool>::new(now, 4);
    commands.submit(&DISK, FLUSH, &[]).unwrap();
    let mut tries = 0;
    loop {
        while let Some((id, _)) = commands.next(now) {
            commands.start(id, 0, u32::MAX, pair.stack(CLIENT), socket);
            tries += 1;
            commands.ended(0, answer(tries), pair.stack(CLIENT));
        }
        commands.settle(now, pair.stack(CLIENT));
        let completion = commands.poll_completion(|may_pass| *may_pass, |_| true);
        if let Some(done) = completion {
            return (done.result, tries, now - pair.now);
        }
        now = commands.poll_timeout().unwrap();
    }
}

#[test]
fn a_disk_that_is_busy_for_seconds_is_asked_again() {
    let (result, tries, after) = flush(|tries| match tries {
        1..=8 => Err(true),
        _ => Ok(()),
    });
    assert_eq!((result, tries), (Ok(()), 9));
    assert_eq!(after, Duration::from_millis(10 * 255));
}

#[test]
fn one_that_stays_so_is_given_up() {
    let (result, tries, after) = flush(|_| Err(true));
    assert_eq!((result, tries), (Err(RequestFailure::Peer(true)), 10));
    assert_eq!(after, Duration::from_millis(10 * 511));
}

#[test]
fn what_stays_as_it_is_is_not_tried_again() {
    let (result, tries, _) = flush(|_| Err(false));
    assert_eq!((result, tries), (Err(RequestFailure::Peer(false)), 1));
}
