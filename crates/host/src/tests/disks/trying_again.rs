//! Requests that fail in a way that may pass.

use super::*;
use crate::disk::{Access, Again, Commands, Geometry, Operation, RequestFailure};

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

/// What the peer answers: nothing wrong, or when it may be asked again.
type Answer = Result<(), Option<Again>>;

/// A flush that the peer answers so, by the number of the try: its result, the tries that it took, and how long.
fn flush(
    answer: impl Fn(u32) -> Answer,
) -> (Result<(), RequestFailure<Option<Again>>>, u32, Duration) {
    let mut pair = Pair::new();
    let address = SocketAddr::new(v4(SERVER), PORT);
    let mut now = pair.now;
    let socket = pair.stack(CLIENT).connect(now, address).unwrap();
    let mut commands = Commands::new(now, 4);
    commands.submit(&DISK, FLUSH, &[]).unwrap();
    let mut tries = 0;
    loop {
        while let Some((id, _)) = commands.next(now) {
            commands.start(id, 0, u32::MAX, pair.stack(CLIENT), socket);
            tries += 1;
            commands.ended(0, answer(tries), pair.stack(CLIENT));
        }
        commands.settle(now, pair.stack(CLIENT));
        let completion = commands.poll_completion(|again| *again, |_| true);
        if let Some(done) = completion {
            return (done.result, tries, now - pair.now);
        }
        now = commands.poll_timeout().unwrap();
    }
}

const BUSY: Answer = Err(Some(Again::WhenThereIsRoom));
const ABORTED: Answer = Err(Some(Again::Soon));

#[test]
fn a_disk_that_is_busy_is_asked_again_at_growing_distances() {
    let (result, tries, after) = flush(|tries| if tries < 9 { BUSY } else { Ok(()) });
    assert_eq!((result, tries), (Ok(()), 9));
    let pauses = [10, 20, 40, 80, 160, 320, 640, 640];
    assert_eq!(after, Duration::from_millis(pauses.iter().sum()));
}

#[test]
fn one_that_stays_so_for_five_seconds_is_given_up() {
    let (result, tries, after) = flush(|_| BUSY);
    let failure = RequestFailure::Peer(Some(Again::WhenThereIsRoom));
    assert_eq!((result, tries), (Err(failure), 14));
    assert_eq!(after, Duration::from_millis(5110));
}

/// A request that can't be done does not hold up those that can.
#[test]
fn what_fails_by_itself_is_tried_a_few_times() {
    let (result, tries, after) = flush(|_| ABORTED);
    let failure = RequestFailure::Peer(Some(Again::Soon));
    assert_eq!((result, tries), (Err(failure), 6));
    assert_eq!(after, Duration::from_millis(50));
}

#[test]
fn what_stays_as_it_is_is_not_tried_again() {
    let (result, tries, _) = flush(|_| Err(None));
    assert_eq!((result, tries), (Err(RequestFailure::Peer(None)), 1));
}
