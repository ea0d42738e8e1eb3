//! Whose turn it is.

use std::time::Instant;

use crate::frame::FrameMeta;
use crate::function::Function;
use crate::offloads::Offloads;
use crate::receive;
use crate::send::borrowed::BorrowedPayload;
use crate::switch::FunctionId;

use super::queue::{self, Progress};

/// Bytes that a queue may send in one turn. A command counts as some bytes too, and what it reads.
const QUANTUM: u64 = 128 * 1024;

/// Takes turns: functions one after the other whatever their number of queues, each time with the
/// next of the function's queues that has work.
#[derive(Debug, Default)]
pub(crate) struct Scheduler {
    turn: Option<Turn>,
    /// The function whose turn is next.
    next_function: usize,
    /// For each function, the queue to be looked at next.
    next_queue: Vec<usize>,
}

#[derive(Debug, Clone, Copy)]
struct Turn {
    function: usize,
    queue: usize,
    credit: u64,
}

/// What one step gave.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    /// A frame of `len` bytes is in the buffer, but for what of it is borrowed.
    Frame {
        function: FunctionId,
        len: usize,
        meta: FrameMeta,
        borrowed: Option<BorrowedPayload>,
    },
    /// A command was worked off or a descriptor refused.
    Busy,
    /// No queue has anything to do.
    Idle,
}

impl Scheduler {
    /// Works on the queue whose turn it is.
    pub(crate) fn step(
        &mut self,
        offloads: &mut Offloads,
        functions: &mut [Function],
        now: Instant,
        out: &mut [u8],
    ) -> Step {
        loop {
            let Some(mut turn) = self.turn.take().or_else(|| self.next_turn(functions)) else {
                return Step::Idle;
            };
            let function = &mut functions[turn.function];
            let (cost, step) = match queue::step(offloads, function, turn.queue, now, out) {
                Progress::Frame {
                    len,
                    meta,
                    borrowed,
                } => {
                    let step = Step::Frame {
                        function: function.id,
                        len,
                        meta,
                        borrowed,
                    };
                    (len as u64, step)
                }
                Progress::Command { cost } => (cost, Step::Busy),
                Progress::Nothing => {
                    receive::flush(function);
                    continue;
                }
            };
            turn.credit = turn.credit.saturating_sub(cost);
            if turn.credit == 0 {
                receive::flush(function);
            } else {
                self.turn = Some(turn);
            }
            return step;
        }
    }

    /// A function has gone: it has no turn.
    pub(crate) fn remove_function(&mut self, function: FunctionId) {
        let at = usize::from(function.0);
        self.turn.take_if(|turn| turn.function == at);
        if let Some(queue) = self.next_queue.get_mut(at) {
            *queue = 0;
        }
    }

    /// Shows the host of the queue in turn what was completed, without ending its turn.
    pub(crate) fn end_turn(&mut self, functions: &mut [Function]) {
        if let Some(turn) = self.turn {
            receive::flush(&mut functions[turn.function]);
        }
    }

    fn next_turn(&mut self, functions: &mut [Function]) -> Option<Turn> {
        self.next_queue.resize(functions.len(), 0);
        for offset in 0..functions.len() {
            let at = (self.next_function + offset) % functions.len();
            let queues = functions[at].queues.len();
            for offset in 0..queues {
                let queue = (self.next_queue[at] + offset) % queues;
                if queue::has_work(&mut functions[at], queue) {
                    self.next_function = (at + 1) % functions.len();
                    self.next_queue[at] = (queue + 1) % queues;
                    return Some(Turn {
                        function: at,
                        queue,
                        credit: QUANTUM,
                    });
                }
            }
        }
        None
    }
}
