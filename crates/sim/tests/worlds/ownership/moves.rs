//! A connection that changes hands at chosen turns of its application.

use std::time::Instant;

use host::{SocketId, Stack};
use sim::explore::{Bounds, Choices, Explored, explore, replay};

/// When it does.
#[derive(Clone, Copy, Debug)]
pub struct Moves {
    /// It is handed off at this turn.
    pub hand_off: u32,
    /// It is taken back so many turns after that.
    pub restore: Option<u32>,
    /// And handed off once more after that.
    pub again: bool,
}

/// What has come of it.
#[derive(Debug, Default)]
pub struct Moved {
    pub turns: u32,
    pub handed_off: u32,
    pub restored: u32,
}

impl Moved {
    /// A turn. Whether there is more to come.
    pub fn turn(
        &mut self,
        moves: Moves,
        now: Instant,
        stack: &mut Stack,
        socket: SocketId,
    ) -> bool {
        let turn = self.turns;
        let back = moves.restore.map(|after| moves.hand_off + after);
        let once_more = back.filter(|_| moves.again).map(|back| back + 2);
        if turn == moves.hand_off || Some(turn) == once_more {
            self.handed_off += u32::from(stack.hand_off(now, socket).is_ok());
        }
        if Some(turn) == back {
            self.restored += u32::from(stack.restore(now, socket).is_ok());
        }
        self.turns += 1;
        // Until then it has something to do.
        turn <= once_more.or(back).unwrap_or(moves.hand_off)
    }
}

/// Makes all runs with at most so many deviations; `run` is to tell its story when it is asked for that.
pub fn explore_all(deviations: usize, mut run: impl FnMut(&mut Choices<'_>, bool)) -> Explored {
    let bounds = Bounds {
        depth: 120,
        deviations,
    };
    explore(bounds, |choices| {
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            run(choices, false);
        }));
        if found.is_err() {
            // Once more, to tell the story.
            let script = choices.script();
            replay(bounds, &script, |choices| run(choices, true));
            panic!("{script:?}");
        }
    })
}
